/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/key.h"
#include "format/kubelet_config.h"
#include "install/accept.h"

static int read_handoff(const struct nb_state *state, struct nb_handoff *ret_handoff, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        r = nb_state_read(state, NB_HANDOFF_FILE, NB_HANDOFF_MAX, &text, f);
        if (r < 0)
                return r;
        return nb_handoff_parse(text.data, text.len, ret_handoff, f);
}

static int read_key(const struct nb_state *state, struct nb_key **ret_key, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_state_read(state, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem, f);
        if (r == -ENOENT)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, ENOENT,
                                      "there is a '" NB_HANDOFF_FILE "', but no '" NB_PENDING_KEY_FILE "' beside it");
        if (r < 0)
                return r;
        r = nb_key_import(pem.data, pem.len, &key);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || !nb_key_is_p256(key))
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, EINVAL,
                                      "'" NB_PENDING_KEY_FILE "' holds no private key of ECDSA P-256");
        *ret_key = TAKE(key);
        return 0;
}

static bool is_configured(const struct nb_settings *settings, const struct nb_url *endpoint) {
        for (unsigned i = 0; i < settings->n_endpoints; i++)
                if (nb_url_is_equal(&settings->endpoints[i], endpoint))
                        return true;
        return false;
}

static bool has_same_address(const struct nb_url *a, const struct nb_url *b) {
        return !strcmp(a->host, b->host) && a->port == b->port;
}

/* Without pins it is the endpoint that tells clusters apart; and the settings may have changed since the note was left. */
static int verify_endpoint(const struct nb_context *context, const struct nb_handoff *handoff, struct nb_failure *f) {
        const struct nb_bootstrap *bootstrap = &context->bootstrap;
        const char *expected = "discovery.endpoints";
        struct nb_url endpoint;
        bool is_expected = false;

        if (bootstrap->discovery == NB_DISCOVERY_DOCUMENT || bootstrap->discovery == NB_DISCOVERY_URL)
                expected = bootstrap->discovery_source;
        if (nb_endpoint_parse(handoff->endpoint, strlen(handoff->endpoint), &endpoint) >= 0) {
                if (bootstrap->discovery == NB_DISCOVERY_DOCUMENT)
                        is_expected = has_same_address(&bootstrap->document.server, &endpoint);
                else if (bootstrap->discovery == NB_DISCOVERY_URL)
                        is_expected = has_same_address(&bootstrap->url, &endpoint);
                else if (bootstrap->discovery != NB_DISCOVERY_NONE)
                        is_expected = is_configured(&context->settings, &endpoint);
        }
        if (is_expected)
                return 0;
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "'" NB_HANDOFF_FILE "' is from the endpoint '%s', which is not in %s",
                              handoff->endpoint, expected);
}

/*
 * With a CA of the cluster's own only that cluster can be the server, wherever `join` says that it is. By the CAs of the
 * system anybody could: then it is the document's server and no other.
 */
static int verify_server(const struct nb_context *context, const struct nb_handoff *handoff, struct nb_failure *f) {
        const struct nb_cluster *document = &context->bootstrap.document;
        char server[NB_URL_MAX];

        if (handoff->ca[0] || context->bootstrap.discovery != NB_DISCOVERY_DOCUMENT)
                return 0;
        if (nb_url_is_equal(&document->server, &handoff->server) && !strcmp(document->tls_server_name, handoff->tls_server_name) &&
            !strcmp(document->proxy_url, handoff->proxy_url))
                return 0;
        nb_url_format(&handoff->server, server);
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "'" NB_HANDOFF_FILE "' is for the server '%s' by the CAs of the system; expected server, "
                              "tls-server-name and proxy-url as in %s",
                              server, context->bootstrap.discovery_source);
}

/* The token's hash may be that of the exact bytes: then each of them is vouched for, though only CAs are taken. */
static bool is_vouched_for(const struct nb_bootstrap *bootstrap, const char *pem) {
        uint8_t digest[NB_SHA256_SIZE];

        return bootstrap->discovery == NB_DISCOVERY_CACERTS && bootstrap->has_hash && nb_sha256(pem, strlen(pem), digest) >= 0 &&
               nb_digest_is_equal(digest, bootstrap->hash);
}

/* The hash is by the word of `join`: where root has set pins, it may narrow down what they name, and not add to it. */
static int keep_pinned(const struct nb_context *context, struct nb_accepted *accepted, struct nb_failure *f) {
        const struct nb_settings *settings = &context->settings;
        struct nb_buffer both = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        int r;

        if (!context->is_hash_from_metadata || settings->n_pins == 0)
                return 0;
        r = nb_ca_select(accepted->ca.data, accepted->ca.len, (const uint8_t(*)[NB_PIN_SIZE])settings->pins, settings->n_pins, NB_CA_PINNED,
                         NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, &both, &accepted->selection, f);
        nb_buffer_done(&accepted->ca);
        accepted->ca = both;
        return r;
}

static int select_ca(const struct nb_context *context, struct nb_accepted *accepted, struct nb_failure *f) {
        int r;

        accepted->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        r = nb_bootstrap_select_ca(&context->bootstrap, &context->settings, accepted->handoff.ca, strlen(accepted->handoff.ca),
                                   NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, &accepted->ca, &accepted->selection, f);
        if (r >= 0)
                r = keep_pinned(context, accepted, f);
        if (r < 0)
                return r;
        /* `join` leaves out by itself what is not to be trusted, and says so. */
        if (accepted->selection.n_left_out > 0 && !is_vouched_for(&context->bootstrap, accepted->handoff.ca)) {
                char pin[NB_PIN_TEXT_SIZE];

                nb_pin_format(accepted->selection.left_out[0], pin);
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                                      "'" NB_HANDOFF_FILE "' holds a certificate that may not be trusted as a CA, %s",
                                      pin);
        }
        return 0;
}

/* The file as kubelet's own store writes it: certificates in order, then the key. */
static int make_pem(const struct nb_certificates *chain, const struct nb_key *key, struct nb_secret *ret_pem) {
        _cleanup_(nb_buffer_done) struct nb_buffer certificates = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_secret_done) struct nb_secret key_pem = NB_SECRET_INIT, pem = NB_SECRET_INIT;
        int r = 0;

        for (size_t i = 0; i < nb_certificates_count(chain) && r >= 0; i++)
                r = nb_certificate_export(chain, i, &certificates);
        if (r >= 0)
                r = nb_key_export(key, &key_pem);
        if (r >= 0)
                r = nb_secret_init(&pem, certificates.len + key_pem.len);
        if (r >= 0)
                r = nb_secret_append(&pem, certificates.data, certificates.len);
        if (r >= 0)
                r = nb_secret_append(&pem, key_pem.data, key_pem.len);
        if (r < 0)
                return r;
        *ret_pem = pem;
        pem = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

static int take_certificate(const struct nb_context *context, const struct nb_key *key, struct nb_accepted *accepted,
                            struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = nb_certificates_parse(accepted->handoff.certificate, strlen(accepted->handoff.certificate), false, &chain);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, -r,
                                      "'" NB_HANDOFF_FILE "': certificate is no chain of certificates in PEM");
        /* A NotBefore in the future says something of this machine's clock, and kubelet does not look at it: any is let
         * pass. */
        r = nb_certificate_verify_node(chain, key, context->node_name, context->now, UINT_MAX, f);
        if (r < 0 && f->code == NB_CERTIFICATE_UNUSABLE && accepted->handoff.csr[0])
                nb_failure_add(f, "; issued for the request '%s'", accepted->handoff.csr);
        if (r < 0)
                return r;
        nb_time_format(nb_certificate_not_after(chain, 0), accepted->not_after);
        r = make_pem(chain, key, &accepted->pem);
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, -r, "certificate and key cannot be written as PEM") : 0;
}

/* Filtered again, and written anew: nothing of it is trusted for having passed `join`. */
static int take_kubelet_config(const struct nb_context *context, const struct nb_state *state, struct nb_accepted *accepted,
                               struct nb_failure *f) {
        const char *ca_file = accepted->ca.len > 0 ? context->settings.ca_file : NULL;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        int r;

        r = nb_state_read(state, NB_KUBELET_CONFIG_FILE, NB_KUBELET_CONFIG_MAX, &text, f);
        if (r == -ENOENT)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, ENOENT,
                                      "there is a '" NB_HANDOFF_FILE "', but no '" NB_KUBELET_CONFIG_FILE "' beside it; kubelet.configFrom is cluster");
        if (r < 0)
                return r;
        accepted->kubelet_config = (struct nb_buffer)NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        r = nb_kubelet_config_filter("'" NB_KUBELET_CONFIG_FILE "'", text.data, text.len, ca_file, NB_HANDOFF_UNTRUSTED, &accepted->kubelet_config,
                                     dropped, f);
        if (r < 0)
                return r;
        /* `join` leaves out by itself what may not be taken over. */
        if (dropped[0])
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED, "'" NB_KUBELET_CONFIG_FILE "' holds what may not be taken over: %s", dropped);
        return 0;
}

/* Out of a token that only `join` has seen. One that stands on this machine has been read there. */
static int take_hash(struct nb_context *context, const struct nb_handoff *handoff, struct nb_failure *f) {
        struct nb_bootstrap *bootstrap = &context->bootstrap;
        int r;

        if (!context->is_metadata_wanted || bootstrap->discovery != NB_DISCOVERY_CACERTS || bootstrap->has_hash || !handoff->k3s_hash[0])
                return 0;
        r = nb_hex_decode(handoff->k3s_hash, strlen(handoff->k3s_hash), bootstrap->hash, sizeof(bootstrap->hash));
        bootstrap->has_hash = context->is_hash_from_metadata = r >= 0;
        if (r >= 0)
                r = nb_anchors_take(bootstrap, &context->settings, &context->anchors);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_accept(struct nb_context *context, const struct nb_state *state, struct nb_accepted *ret_accepted,
              struct nb_failure *f) {
        _cleanup_(nb_accepted_done) struct nb_accepted accepted = { 0 };
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = read_handoff(state, &accepted.handoff, f);
        if (r >= 0)
                r = nb_settings_verify(&context->settings, f);
        if (r >= 0)
                r = nb_context_verify_bootstrap(context, f);
        if (r >= 0)
                r = take_hash(context, &accepted.handoff, f);
        if (r >= 0)
                r = verify_endpoint(context, &accepted.handoff, f);
        if (r >= 0)
                r = select_ca(context, &accepted, f);
        if (r >= 0)
                r = verify_server(context, &accepted.handoff, f);
        if (r >= 0)
                r = read_key(state, &key, f);
        if (r >= 0)
                r = take_certificate(context, key, &accepted, f);
        if (r >= 0 && context->settings.is_config_from_cluster)
                r = take_kubelet_config(context, state, &accepted, f);
        if (r < 0)
                return r;
        *ret_accepted = accepted;
        accepted = (struct nb_accepted){ 0 };
        return 0;
}

void nb_accepted_done(struct nb_accepted *accepted) {
        nb_handoff_done(&accepted->handoff);
        nb_secret_done(&accepted->pem);
        nb_buffer_done(&accepted->ca);
        nb_buffer_done(&accepted->kubelet_config);
}
