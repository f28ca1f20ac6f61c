/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/digest.h"
#include "join_method/inputs.h"
#include "join_method/method.h"

static int verify_none(_unused_ const struct nb_bootstrap *bootstrap,
                       _unused_ const struct nb_settings *settings, struct nb_failure *f) {
        return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0,
                              "discovery.endpoints: expected at least one HOST:PORT, or "
                              "discovery.file, or a bootstrap kubeconfig; found none");
}

static int select_none(_unused_ const struct nb_ca_request *request, struct nb_failure *f) {
        return verify_none(NULL, NULL, f);
}

static const struct nb_method nb_method_none = {
        .name = "",
        .verify = verify_none,
        .select_ca = select_none,
};

#define NB_METHOD(ID, method, discover) extern const struct nb_method nb_method_##method;
#include "join_method/methods.def"
#undef NB_METHOD

const struct nb_method *nb_method(enum nb_method_id id) {
        static const struct nb_method *const methods[_NB_METHOD_N] = {
                [NB_METHOD_NONE] = &nb_method_none,
#define NB_METHOD(ID, method, discover) [NB_METHOD_##ID] = &nb_method_##method,
#include "join_method/methods.def"
#undef NB_METHOD
        };

        return methods[id];
}

int nb_bootstrap_load(struct nb_sources *sources, const struct nb_settings *settings,
                      struct nb_bootstrap *ret_bootstrap, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_done) struct nb_bootstrap bootstrap = { 0 };
        _cleanup_(nb_inputs_done) struct nb_inputs inputs = { 0 };
        int r;

        r = nb_inputs_read(sources, settings, &inputs, f);
        if (r < 0)
                return r;
        bootstrap.identity = TAKE(inputs.identity);
        for (enum nb_method_id id = NB_METHOD_NONE + 1; r == 0 && id < _NB_METHOD_N; id++) {
                r = nb_method(id)->load(&inputs, &bootstrap, f);
                if (r > 0)
                        bootstrap.method = id;
        }
        if (r < 0)
                return r;
        *ret_bootstrap = TAKE(bootstrap);
        return 0;
}

void nb_bootstrap_done(struct nb_bootstrap *bootstrap) {
        nb_identity_done(&bootstrap->token);
        nb_cluster_done(&bootstrap->origin);
        nb_identity_done(&bootstrap->identity);
        nb_identity_done(&bootstrap->previous);
        nb_secret_done(&bootstrap->node_password);
        *bootstrap = (struct nb_bootstrap){ 0 };
}

bool nb_bootstrap_wants_metadata(const struct nb_settings *settings,
                                 const struct nb_bootstrap *bootstrap) {
        return settings->metadata_provider != NB_PROVIDER_NONE &&
               bootstrap->identity.kind == NB_IDENTITY_NONE;
}

int nb_bootstrap_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                        struct nb_failure *f) {
        const struct nb_method *method = nb_method(bootstrap->method);
        enum nb_identity_kind kind = bootstrap->identity.kind;
        int r;

        r = method->verify ? method->verify(bootstrap, settings, f) : 0;
        if (r < 0)
                return r;
        /* A k3s node's present certificate is not enough: the token's hash identifies the cluster.
         */
        if (kind == NB_IDENTITY_NONE)
                return nb_failure_set(f, NB_TOKEN_MISSING, ENOENT,
                                      "there is no credential '" NB_CREDENTIAL_TOKEN_NAME
                                      "', '" NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME
                                      "' or '" NB_CREDENTIAL_KUBECONFIG_NAME
                                      "', and no bootstrap.kubeconfig");
        if (kind == NB_IDENTITY_PASSWORD && bootstrap->issuer != NB_ISSUER_SUPERVISOR)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "cluster.type: expected k3s with a token of user and "
                                      "password, found kubernetes (%s): the API server accepts no "
                                      "passwords",
                                      settings->origin[NB_SETTING_CLUSTER_TYPE]);
        return kind == NB_IDENTITY_CERTIFICATE
                       ? nb_client_certificate_verify(&bootstrap->identity, f)
                       : 0;
}

bool nb_bootstrap_has_hash_of(const struct nb_bootstrap *bootstrap, const char *pem, size_t len) {
        uint8_t digest[NB_SHA256_SIZE];

        return bootstrap->has_hash && nb_sha256(pem, len, digest) >= 0 &&
               nb_digest_is_equal(digest, bootstrap->hash);
}

const struct nb_url *nb_bootstrap_origin(const struct nb_bootstrap *bootstrap) {
        return nb_method(bootstrap->method)->has_origin ? &bootstrap->origin.server : NULL;
}

bool nb_bootstrap_accepts_endpoint(const struct nb_bootstrap *bootstrap,
                                   const struct nb_settings *settings,
                                   const struct nb_url *endpoint) {
        const struct nb_url *origin = nb_bootstrap_origin(bootstrap);

        if (bootstrap->method == NB_METHOD_NONE)
                return false;
        if (origin)
                return strcmp(origin->host, endpoint->host) == 0 && origin->port == endpoint->port;
        for (unsigned i = 0; i < settings->n_endpoints; i++)
                if (nb_url_is_equal(&settings->endpoints[i], endpoint))
                        return true;
        return false;
}

int nb_bootstrap_select_ca(const struct nb_ca_request *request, struct nb_failure *f) {
        return nb_method(request->bootstrap->method)->select_ca(request, f);
}

int nb_ca_choose(const struct nb_ca_request *request, const uint8_t (*pins)[NB_PIN_SIZE],
                 unsigned n_pins, struct nb_failure *f) {
        const struct nb_ca_criteria criteria = {
                .pins = pins,
                .n_pins = n_pins,
                .choice = n_pins == 0                             ? NB_CA_ALL_UNPINNED
                          : request->settings->trust_whole_bundle ? NB_CA_ALL
                                                                  : NB_CA_PINNED,
                .malformed = request->malformed,
                .mismatch = request->mismatch,
        };

        return nb_ca_select(request->pem, request->len, &criteria, request->ret_pem,
                            request->ret_selection, f);
}

int nb_ca_choose_configured(const struct nb_ca_request *request, struct nb_failure *f) {
        const struct nb_settings *s = request->settings;

        if (s->n_pins == 0 && !s->unsafe_skip_ca_verification &&
            !nb_method(request->bootstrap->method)->has_origin)
                return nb_failure_set(f, request->mismatch, EPERM,
                                      "there is no hash of the CA, and "
                                      "discovery.unsafeSkipCAVerification is not set: no CA can be "
                                      "trusted");
        return nb_ca_choose(request, s->pins, s->n_pins, f);
}

int nb_ca_choose_system(const struct nb_ca_request *request, struct nb_failure *f) {
        if (request->settings->n_pins > 0 || request->len > 0)
                return nb_failure_set(
                        f, request->mismatch, EKEYREJECTED, "%s contains no CA: expected %s",
                        request->bootstrap->discovery_source,
                        request->settings->n_pins > 0 ? "a CA that matches discovery.caCertHashes"
                                                      : "the system's CAs, found a CA");
        if (request->ret_selection)
                *request->ret_selection = (struct nb_ca_selection){ 0 };
        return 0;
}
