/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/key.h"
#include "install/accept.h"
#include "kube/kubelet_config.h"
#include "system/clock.h"

/* Reads a file that a handoff requires. */
static int read_beside(const struct nb_state *state, const char *name, size_t max,
                       struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_state_read(state, name, max, ret, f);

        return r == -ENOENT
                       ? nb_failure_set(f, NB_HANDOFF_MALFORMED, r,
                                        "there is a '" NB_HANDOFF_FILE "', but no '%s' beside it",
                                        name)
                       : r;
}

static int read_key(const struct nb_state *state, struct nb_key **ret_key, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = read_beside(state, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem, f);
        if (r < 0)
                return r;
        r = nb_key_import(pem.data, pem.len, &key);
        if (r < 0 || !nb_key_is_p256(key))
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, r < 0 ? r : -EINVAL,
                                      "'" NB_PENDING_KEY_FILE
                                      "' contains no ECDSA P-256 private key");
        *ret_key = TAKE(key);
        return 0;
}

/* Without pins, clusters differ only in the endpoint. The settings may have changed since the
 * handoff was written. */
static int verify_endpoint(const struct nb_context *context, const char *from,
                           struct nb_failure *f) {
        const struct nb_bootstrap *bootstrap = &context->bootstrap;
        struct nb_url endpoint;

        if (nb_endpoint_parse(from, strlen(from), &endpoint) >= 0 &&
            nb_bootstrap_accepts_endpoint(bootstrap, &context->settings, &endpoint))
                return 0;
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "'" NB_HANDOFF_FILE "' is from the endpoint '%s', which is not in %s",
                              from,
                              nb_bootstrap_origin(bootstrap) ? bootstrap->discovery_source
                                                             : "discovery.endpoints");
}

/*
 * If the handoff contains the cluster CA, TLS authenticates any server that `join` names. The
 * system's CAs trust other servers too, so with them only the document's server is accepted.
 */
static int verify_server(const struct nb_context *context, const struct nb_handoff *handoff,
                         struct nb_failure *f) {
        const struct nb_cluster *document = &context->bootstrap.origin;
        char server[NB_URL_MAX];

        if (handoff->cluster.ca[0] || !document->server.host[0] ||
            nb_method(context->bootstrap.method)->is_document_remote)
                return 0;
        if (nb_cluster_has_same_transport(document, &handoff->cluster))
                return 0;
        nb_url_format(&handoff->cluster.server, server);
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "'" NB_HANDOFF_FILE
                              "' is for the server '%s', verified by the system's CAs; expected "
                              "server, tls-server-name and proxy-url as in %s",
                              server, context->bootstrap.discovery_source);
}

/* `join` reports the hash from metadata and may be hostile: the hash may exclude CAs that root's
 * pins name, but must not add any. */
static int keep_pinned(const struct nb_context *context, struct nb_accepted *accepted,
                       struct nb_failure *f) {
        const struct nb_settings *settings = &context->settings;
        struct nb_buffer both = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        int r;

        if (!context->is_hash_from_metadata || settings->n_pins == 0)
                return 0;
        r = nb_ca_select(accepted->ca.data, accepted->ca.len,
                         &(struct nb_ca_criteria){ .pins = settings->pins,
                                                   .n_pins = settings->n_pins,
                                                   .choice = NB_CA_PINNED,
                                                   .malformed = NB_HANDOFF_MALFORMED,
                                                   .mismatch = NB_HANDOFF_UNTRUSTED },
                         &both, &accepted->selection, f);
        nb_buffer_done(&accepted->ca);
        accepted->ca = both;
        return r;
}

static int select_ca(const struct nb_context *context, struct nb_accepted *accepted,
                     struct nb_failure *f) {
        const struct nb_ca_request request = { .bootstrap = &context->bootstrap,
                                               .settings = &context->settings,
                                               .pem = accepted->handoff.cluster.ca,
                                               .len = accepted->handoff.cluster.ca_len,
                                               .malformed = NB_HANDOFF_MALFORMED,
                                               .mismatch = NB_HANDOFF_UNTRUSTED,
                                               .ret_pem = &accepted->ca,
                                               .ret_selection = &accepted->selection };
        char pin[NB_PIN_TEXT_SIZE];
        int r;

        accepted->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        r = nb_bootstrap_select_ca(&request, f);
        if (r < 0)
                return r;
        r = keep_pinned(context, accepted, f);
        if (r < 0)
                return r;
        /* `join` has already left out, and logged, what must not be trusted. If the token's hash
         * is that of the exact bytes of the bundle, it left out nothing, and only CAs are selected
         * here. */
        if (accepted->selection.n_left_out == 0 ||
            nb_bootstrap_has_hash_of(&context->bootstrap, accepted->handoff.cluster.ca,
                                     strlen(accepted->handoff.cluster.ca)))
                return 0;
        nb_pin_format(accepted->selection.left_out[0], pin);
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "'" NB_HANDOFF_FILE
                              "' contains a certificate that may not be trusted as a CA, %s",
                              pin);
}

/* Formats certificates in order, then the key, like kubelet's certificate store. */
static int make_pem(const struct nb_certificates *chain, const struct nb_key *key,
                    struct nb_secret *ret_pem) {
        _cleanup_(nb_buffer_done) struct nb_buffer certificates = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_secret_done) struct nb_secret key_pem = NB_SECRET_INIT;
        int r;

        for (size_t i = 0; i < nb_certificates_count(chain); i++)
                nb_certificate_export(chain, i, &certificates);
        r = certificates.error;
        if (r < 0)
                return r;
        r = nb_key_export(key, &key_pem);
        if (r < 0)
                return r;
        return nb_secret_join(ret_pem, certificates.data, key_pem.data, key_pem.len);
}

static int parse_chain(const char *pem, const char *what, struct nb_certificates **ret_chain,
                       struct nb_failure *f) {
        int r = nb_certificates_parse(pem, strlen(pem), false, ret_chain);

        return r < 0 ? nb_failure_set(f, NB_HANDOFF_MALFORMED, r,
                                      "%s: expected a chain of certificates in PEM, found %s", what,
                                      nb_certificates_reason(r))
                     : 0;
}

/*
 * For a renewal: the existing CAs replace those of the handoff. `refresh` could add a certificate
 * of their key that expires soon, or that kubelet cannot read.
 */
static int keep_issuers(const struct nb_certificates *trusted, struct nb_certificates **chain,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_certificates *kept = NULL;
        int r;

        if (!nb_certificate_is_trusted(*chain, trusted))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                                      "the renewed certificate is not issued by a CA of the "
                                      "existing one");
        nb_certificate_export(*chain, 0, &pem);
        for (size_t i = 1; i < nb_certificates_count(trusted); i++)
                nb_certificate_export(trusted, i, &pem);
        r = pem.error < 0 ? pem.error : nb_certificates_parse(pem.data, pem.len, false, &kept);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot copy certificates: %m");
        nb_certificates_free(*chain);
        *chain = kept;
        return 0;
}

static int take_certificate(const struct nb_context *context, const struct nb_key *key,
                            const struct nb_certificates *trusted, struct nb_accepted *accepted,
                            struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = parse_chain(accepted->handoff.certificate, "certificate", &chain, f);
        if (r < 0)
                return r;
        /* The record counts a join without a request as one through a supervisor, whose renewal
         * gives kubelet's key to the network side. (A renewal has no token, which names the
         * issuer.) */
        if (!trusted && context->bootstrap.issuer == NB_ISSUER_CSR &&
            !accepted->handoff.provenance.csr[0])
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, EINVAL,
                                      "'" NB_HANDOFF_FILE
                                      "': csr: expected the name of the request, found none");
        if (trusted) {
                r = keep_issuers(trusted, &chain, f);
                if (r < 0)
                        return r;
        }
        /* A NotBefore in the future means that this machine's clock is wrong, and kubelet ignores
         * it: accept any. */
        r = nb_certificate_verify_node(chain, key, context->node_name, context->now, UINT_MAX, f);
        if (r < 0) {
                if (f->code == NB_CERTIFICATE_UNUSABLE && accepted->handoff.provenance.csr[0])
                        nb_failure_add(f, "; issued for the request '%s'",
                                       accepted->handoff.provenance.csr);
                return r;
        }
        if (trusted && nb_certificate_not_after(chain, 0) <= nb_certificate_not_after(trusted, 0))
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                                      "the renewed certificate does not expire after the existing "
                                      "one");
        nb_time_format(nb_certificate_not_after(chain, 0), accepted->not_after);
        accepted->client_ca = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        /* Take only the CA that signed this certificate: `join` could add a CA of its own, which
         * has issued another certificate for the same key. */
        if (nb_certificates_count(chain) > 1)
                nb_certificate_export(chain, 1, &accepted->client_ca);
        r = accepted->client_ca.error;
        return r < 0 ? r : make_pem(chain, key, &accepted->pem);
}

static int take_serving(const struct nb_context *context, const struct nb_key *key,
                        struct nb_accepted *accepted, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL, *ca = NULL;
        char node_ips[NB_NODE_IPS_SIZE];
        int r;

        if (!accepted->handoff.serving)
                return 0;
        r = parse_chain(accepted->handoff.serving, "serving", &chain, f);
        if (r >= 0)
                r = parse_chain(accepted->ca.data ? accepted->ca.data : "", "ca", &ca, f);
        if (r < 0)
                return r;
        nb_settings_node_ips(&context->settings, node_ips);
        r = nb_certificate_verify_serving(chain, ca, key, context->node_name, node_ips,
                                          context->now, f);
        return r < 0 ? r : make_pem(chain, key, &accepted->serving);
}

int nb_accept_certificates(const struct nb_context *context, const struct nb_state *state,
                           const struct nb_certificates *trusted, struct nb_accepted *accepted,
                           struct nb_failure *f) {
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = read_key(state, &key, f);
        if (r >= 0)
                r = take_certificate(context, key, trusted, accepted, f);
        if (r >= 0)
                r = take_serving(context, key, accepted, f);
        return r < 0 && f->code == NB_NONE
                       ? nb_failure_set(f, NB_INTERNAL, r,
                                        "certificate and key cannot be written as PEM")
                       : r;
}

int nb_accept_kubelet_config(const struct nb_state *state, const char *ca_file,
                             struct nb_accepted *accepted, struct nb_failure *f) {
        static const char origin[] = "'" NB_KUBELET_CONFIG_FILE "'";
        const struct nb_kubelet_config_source source = { origin, ca_file, NB_HANDOFF_UNTRUSTED };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        int r;

        r = read_beside(state, NB_KUBELET_CONFIG_FILE, NB_KUBELET_CONFIG_MAX, &text, f);
        if (r < 0)
                return r;
        accepted->kubelet_config = (struct nb_buffer)NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        r = nb_kubelet_config_filter(&source, text.data, text.len, &accepted->kubelet_config,
                                     dropped, f);
        if (r < 0)
                return r;
        if (!dropped[0])
                return 0;
        /* `join` has already left these out. */
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "%s contains forbidden fields: %s", origin, dropped);
}

/* Uses the hash of a k3s token in metadata. Only `join` has read that token. */
static int take_hash(struct nb_context *context, const struct nb_handoff *handoff,
                     struct nb_failure *f) {
        struct nb_bootstrap *bootstrap = &context->bootstrap;

        if (!context->is_metadata_wanted || !context->identity.is_k3s_hash || bootstrap->has_hash ||
            !handoff->k3s_hash[0])
                return 0;
        if (nb_hex_decode(handoff->k3s_hash, strlen(handoff->k3s_hash), bootstrap->hash,
                          sizeof(bootstrap->hash)) < 0)
                return nb_failure_set_memory(f);
        bootstrap->has_hash = context->is_hash_from_metadata = true;
        if (nb_cluster_identity_init(&context->identity, bootstrap, &context->settings) < 0)
                return nb_failure_set_memory(f);
        return 0;
}

int nb_accept(struct nb_context *context, const struct nb_state *state,
              struct nb_accepted *accepted, struct nb_failure *f) {
        const struct nb_handoff *handoff = &accepted->handoff;
        char client_ca[NB_CLIENT_CA_PATH_MAX];
        int r;

        *accepted = (struct nb_accepted){ 0 };
        r = nb_state_parse(state, NB_HANDOFF_FILE, &nb_handoff_file, &accepted->handoff, f);
        if (r < 0)
                return r;
        r = nb_settings_verify(&context->settings, f);
        if (r < 0)
                return r;
        r = nb_context_verify_bootstrap(context, f);
        if (r < 0)
                return r;
        r = take_hash(context, handoff, f);
        if (r < 0)
                return r;
        r = verify_endpoint(context, handoff->provenance.endpoint, f);
        if (r < 0)
                return r;
        r = select_ca(context, accepted, f);
        if (r < 0)
                return r;
        r = verify_server(context, handoff, f);
        if (r < 0)
                return r;
        r = nb_accept_certificates(context, state, NULL, accepted, f);
        if (r < 0 || !nb_config_is_wanted(context))
                return r;
        nb_settings_client_ca(&context->settings, client_ca);
        return nb_accept_kubelet_config(state,
                                        context->bootstrap.issuer == NB_ISSUER_SUPERVISOR
                                                ? client_ca
                                        : accepted->ca.len > 0 ? context->settings.ca_file
                                                               : NULL,
                                        accepted, f);
}

void nb_accepted_done(struct nb_accepted *accepted) {
        nb_handoff_done(&accepted->handoff);
        nb_secret_done(&accepted->pem);
        nb_buffer_done(&accepted->ca);
        nb_buffer_done(&accepted->kubelet_config);
        nb_buffer_done(&accepted->client_ca);
        nb_secret_done(&accepted->serving);
}
