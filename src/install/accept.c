/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/key.h"
#include "install/accept.h"
#include "kube_objects/kubelet_config.h"
#include "os/clock.h"
#include "settings/node_ips.h"

static int read_key(const struct nb_state *state, struct nb_key **ret_key, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_state_read(state, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem, f);
        if (r == -ENOENT && f->code == NB_NONE)
                return nb_failure_set(f, NB_HANDOFF_MALFORMED, r,
                                      "there is a '" NB_HANDOFF_FILE
                                      "', but no '" NB_PENDING_KEY_FILE "' beside it");
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

/* The child that has read metadata may be hostile: the hash in a token from there may exclude CAs
 * that root's pins name, but must not add any. */
static int keep_pinned(const struct nb_context *context, struct nb_accepted *accepted,
                       struct nb_failure *f) {
        const struct nb_settings *settings = &context->settings;
        struct nb_buffer both = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        int r;

        if (!context->is_metadata_wanted || !context->bootstrap.has_hash || settings->n_pins == 0)
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
 * For a renewal: only the path to a CA of the existing certificate stays, and the CAs above that
 * one. `refresh` could add a certificate of their key that expires soon, or that kubelet cannot
 * read. If the clients' CA was rotated, the existing one has issued the new one (cross-signing).
 */
static int keep_issuers(const struct nb_certificates *trusted, struct nb_certificates **chain,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_certificates *kept = NULL;
        size_t ca = 0;
        int r = nb_certificate_find_path(*chain, trusted, &pem, &ca);

        if (r == -EKEYREJECTED)
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, r,
                                      "the renewed certificate is not issued by a CA of the "
                                      "existing one; if that CA was replaced, join again");
        for (size_t i = ca + 1; i < nb_certificates_count(trusted); i++)
                nb_certificate_export(trusted, i, &pem);
        if (r >= 0)
                r = pem.error < 0 ? pem.error
                                  : nb_certificates_parse(pem.data, pem.len, false, &kept);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot copy certificates: %m");
        nb_certificates_free(*chain);
        *chain = kept;
        return 0;
}

/* kubelet compares the whole path with the clock. */
static int verify_cross_signed(const struct nb_certificates *trusted,
                               const struct nb_certificates *chain, struct nb_failure *f) {
        char end[NB_RFC3339_SIZE], ca_end[NB_RFC3339_SIZE];

        if (nb_certificates_count(chain) <= nb_certificates_count(trusted))
                return 0;
        for (size_t i = 1; i < nb_certificates_count(chain); i++) {
                if (nb_certificate_not_after(chain, i) >= nb_certificate_not_after(chain, 0))
                        continue;
                nb_time_format(nb_certificate_not_after(chain, 0), end);
                nb_time_format(nb_certificate_not_after(chain, i), ca_end);
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                                      "the CA of the renewed certificate is new, and the one that "
                                      "vouches for it expires on %s, before the certificate, on "
                                      "%s; join again",
                                      ca_end, end);
        }
        return 0;
}

/*
 * Only the CA that signed this certificate: `join` could add a CA of its own, which has issued
 * another certificate for the same key. After a rotation also the previous one: the API server may
 * still present a certificate of that.
 */
static int copy_client_ca(const struct nb_certificates *trusted,
                          const struct nb_certificates *chain, struct nb_buffer *ret) {
        struct nb_buffer previous = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        int r;

        *ret = (struct nb_buffer)NB_BUFFER_INIT(NB_HANDOFF_MAX);
        if (nb_certificates_count(chain) > 1)
                nb_certificate_export(chain, 1, ret);
        if (trusted && nb_certificates_count(trusted) > 1)
                nb_certificate_export(trusted, 1, &previous);
        if (previous.len > 0 && strcmp(previous.data, ret->data ? ret->data : "") != 0)
                nb_buffer_append(ret, previous.data, previous.len);
        r = previous.error < 0 ? previous.error : ret->error;
        nb_buffer_done(&previous);
        return r;
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
                if (r >= 0)
                        r = verify_cross_signed(trusted, chain, f);
                if (r < 0)
                        return r;
        }
        r = nb_certificate_verify_node(chain, key, context->node_name, context->now, f);
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
        r = copy_client_ca(trusted, chain, &accepted->client_ca);
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
                             struct nb_buffer *ret, struct nb_failure *f) {
        static const char origin[] = "'" NB_KUBELET_CONFIG_FILE "'";
        const struct nb_kubelet_config_source source = { origin, ca_file, NB_HANDOFF_UNTRUSTED };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        int r;

        r = nb_state_read(state, NB_KUBELET_CONFIG_FILE, NB_KUBELET_CONFIG_MAX, &text, f);
        if (r < 0)
                return r;
        r = nb_kubelet_config_filter(&source, text.data, text.len, ret, dropped, f);
        if (r < 0)
                return r;
        if (!dropped[0])
                return 0;
        /* `join` has already left these out. */
        return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                              "%s contains forbidden fields: %s", origin, dropped);
}

int nb_accept(const struct nb_context *context, const struct nb_state *state,
              struct nb_accepted *accepted, struct nb_failure *f) {
        const struct nb_handoff *handoff = &accepted->handoff;
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
        r = verify_endpoint(context, handoff->provenance.endpoint, f);
        if (r < 0)
                return r;
        r = select_ca(context, accepted, f);
        if (r < 0)
                return r;
        r = verify_server(context, handoff, f);
        if (r < 0)
                return r;
        return nb_accept_certificates(context, state, NULL, accepted, f);
}

void nb_accepted_done(struct nb_accepted *accepted) {
        nb_handoff_done(&accepted->handoff);
        nb_secret_done(&accepted->pem);
        nb_buffer_done(&accepted->ca);
        nb_buffer_done(&accepted->client_ca);
        nb_secret_done(&accepted->serving);
}
