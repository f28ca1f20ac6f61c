/* SPDX-License-Identifier: Apache-2.0 */

/* /cacerts of a k3s or RKE2 server, verified by the hash in the token. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join_method/cluster_identity.h"
#include "join_method/inputs.h"
#include "join_method/method.h"
#include "systemd/log.h"

#define BUNDLE_MAX (512 * 1024)
#define CERTIFICATE_FILE_MAX (256 * 1024)

/* A password that is missing or malformed stays empty: only a request to the supervisor needs it.
 */
static int read_password(struct nb_sources *sources, struct nb_secret *ret_password,
                         struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_sources_read(sources, NB_NODE_PASSWORD_FILE, NB_NODE_PASSWORD_FILE_MAX, ret_password,
                            NULL);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r >= 0 && nb_node_password_parse(ret_password, &ignored) < 0)
                nb_secret_done(ret_password);
        return 0;
}

static int read_present_certificate(struct nb_sources *sources, const struct nb_settings *settings,
                                    struct nb_identity *previous, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1], line[101];
        int r;

        snprintf(path, sizeof(path), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        r = nb_sources_read(sources, path, CERTIFICATE_FILE_MAX, &pem, NULL);
        if (r >= 0)
                r = nb_secret_copy(&previous->certificate, pem.data, pem.len);
        if (r < 0)
                return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
        previous->kind = NB_IDENTITY_CERTIFICATE;
        previous->secret = TAKE(pem);
        NB_TEXT_COPY_LINE(line, path);
        snprintf(previous->source, sizeof(previous->source), "'%s'", line);
        return 0;
}

int nb_bootstrap_load_node(struct nb_sources *sources, const struct nb_settings *settings,
                           struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        int r;

        bootstrap->issuer = NB_ISSUER_SUPERVISOR;
        r = read_password(sources, &bootstrap->node_password, f);
        return r < 0 ? r : read_present_certificate(sources, settings, &bootstrap->previous, f);
}

static int load_k3s(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                    struct nb_failure *f) {
        enum nb_cluster_type type = inputs->settings->cluster_type;
        int r;

        if (!inputs->has_k3s_token && type != NB_CLUSTER_TYPE_K3S)
                return 0;
        nb_log_field(NB_FIELD_CLUSTER, "k3s");
        bootstrap->has_hash = inputs->k3s.has_hash;
        memcpy(bootstrap->hash, inputs->k3s.hash, sizeof(bootstrap->hash));
        NB_TEXT_COPY(bootstrap->discovery_source, inputs->token_source);
        if (type == NB_CLUSTER_TYPE_KUBERNETES)
                return 1;
        r = nb_bootstrap_load_node(inputs->sources, inputs->settings, bootstrap, f);
        return r < 0 ? r : 1;
}

static int verify_k3s(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                      struct nb_failure *f) {
        if (settings->n_endpoints == 0)
                return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0,
                                      "discovery.endpoints: expected at least one HOST:PORT of a "
                                      "k3s or RKE2 server, found none");
        if (bootstrap->has_hash || settings->unsafe_skip_ca_verification ||
            bootstrap->identity.kind == NB_IDENTITY_NONE)
                return 0;
        return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0,
                              "the token contains no hash of the cluster's CA: expected K10 and 64 "
                              "hex digits before '::', or "
                              "discovery.unsafeSkipCAVerification: true; found neither");
}

static int select_k3s_ca(const struct nb_ca_request *c, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ignored = NB_BUFFER_INIT(BUNDLE_MAX);
        const struct nb_settings *s = c->settings;
        struct nb_ca_criteria criteria = { .pins = s->pins,
                                           .n_pins = s->n_pins,
                                           .choice = NB_CA_ALL,
                                           .malformed = c->malformed,
                                           .mismatch = c->mismatch };
        int r;

        if (!c->bootstrap->has_hash)
                return nb_ca_choose_configured(c, f);
        /* If caCertHashes are set, too, they must also match. */
        r = s->n_pins == 0 ? 0 : nb_ca_select(c->pem, c->len, &criteria, &ignored, NULL, f);
        if (r < 0)
                return r;
        criteria.k3s_hash = c->bootstrap->hash;
        if (!s->trust_whole_bundle)
                criteria.choice = NB_CA_PINNED;
        return nb_ca_select(c->pem, c->len, &criteria, c->ret_pem, c->ret_selection, f);
}

static int identify_by_hash(const struct nb_bootstrap *bootstrap,
                            _unused_ const struct nb_settings *settings,
                            struct nb_cluster_identity *ret_identity) {
        snprintf(ret_identity->name, sizeof(ret_identity->name), "the hash in the token");
        ret_identity->is_k3s_hash = true;
        ret_identity->n_pins = bootstrap->has_hash;
        if (bootstrap->has_hash)
                memcpy(ret_identity->pins[0], bootstrap->hash, NB_PIN_SIZE);
        return 0;
}

const struct nb_method nb_method_k3s = {
        .name = NB_CLUSTER_IDENTITY_K3S,
        .summary = "the CA of a k3s server, verified with the hash in the token",
        .object = "/cacerts",
        .verified = "the cluster is verified by the hash in the token",
        .load = load_k3s,
        .verify = verify_k3s,
        .select_ca = select_k3s_ca,
        .identify = identify_by_hash,
};
