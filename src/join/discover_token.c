/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "join/endpoints.h"
#include "join/stages.h"
#include "kube_calls/cluster_calls.h"
#include "kube_calls/jws.h"
#include "kube_objects/cluster_info.h"

/* Without any signature, the cluster must be repaired. With signatures by other tokens only, a new
 * token is needed. */
static int signature_missing(const struct nb_join *join, const struct nb_cluster_info *info,
                             const char *name, struct nb_failure *f) {
        if (info->n_signatures == 0)
                return nb_failure_set(f, NB_SIGNATURE_MISSING, ENOKEY,
                                      "cluster-info from %s has no signature: the cluster's "
                                      "bootstrapsigner is not running",
                                      name);
        return nb_failure_set(f, NB_TOKEN_UNKNOWN, ENOKEY,
                              "cluster-info from %s is signed for %u other token%s, but not for "
                              "'%s': the token is unknown or has expired",
                              name, info->n_signatures, info->n_signatures == 1 ? "" : "s",
                              join->bootstrap->token.token_id);
}

static int verify_signature(const struct nb_join *join, const struct nb_cluster_info *info,
                            const char *name, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer expected = NB_BUFFER_INIT(NB_CLUSTER_INFO_MAX);
        const struct nb_identity *token = &join->bootstrap->token;
        uint8_t stated[NB_SHA256_SIZE], computed[NB_SHA256_SIZE];
        int r;

        if (!info->signature)
                return signature_missing(join, info, name, f);
        r = nb_jws_sign(token->token_id, token->secret.data + NB_TOKEN_ID_LEN + 1,
                        NB_TOKEN_SECRET_LEN, info->kubeconfig, &expected);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "HMAC-SHA256 cannot be computed");
        /* Digests are compared in constant time. */
        if (nb_sha256(info->signature, strlen(info->signature), stated) < 0 ||
            nb_sha256(expected.data, expected.len, computed) < 0)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        if (!nb_digest_is_equal(stated, computed))
                return nb_failure_set(f, NB_SIGNATURE_INVALID, EKEYREJECTED,
                                      "cluster-info from %s is signed for token '%s', but not with "
                                      "this token's secret",
                                      name, token->token_id);
        return 0;
}

/*
 * Whether the pins and the settings confirm everything in the kubeconfig: the pins verify the CA,
 * and the settings name the server. Any holder of the token could have signed other contents:
 * another server, a CA that no pin matches but trustWholeBundle would trust, or a tls-server-name
 * or proxy that redirects TLS to another certificate of the same CA. In these cases a second copy
 * must confirm cluster-info.
 */
static bool is_covered(const struct nb_join *join, const struct nb_cluster *cluster,
                       const struct nb_ca_selection *pinned) {
        if (cluster->tls_server_name[0] || cluster->proxy_url[0])
                return false;
        if (join->settings->trust_whole_bundle && pinned->n_left_out > 0)
                return false;
        for (unsigned i = 0; i < join->settings->n_endpoints; i++)
                if (nb_url_is_equal(&join->settings->endpoints[i], &cluster->server))
                        return true;
        return false;
}

/* Compares only the signed part, because signatures by other tokens may change between two
 * requests. */
static int compare_copies(const struct nb_join *join, const struct nb_api *api,
                          const struct nb_cluster_info *info, const struct nb_http_answer *second,
                          struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info again = { 0 };
        int r;

        r = nb_cluster_info_read(api, second, join->bootstrap->token.token_id, &again, f);
        if (r < 0 || nb_cluster_info_is_equal(&again, info))
                return r;
        return nb_failure_set(f, NB_CLUSTER_INFO_CHANGED, EKEYREJECTED,
                              "cluster-info from %s differs when TLS is verified by the pinned CA",
                              api->name);
}

/* If a second copy must confirm cluster-info, trusts only the pinned CAs until TLS that they verify
 * has delivered this copy. */
static int verify_pins(const struct nb_join *join, struct nb_cluster *cluster,
                       struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer pinned = NB_BUFFER_INIT(NB_CA_FILE_MAX);
        const struct nb_settings *s = join->settings;
        struct nb_ca_selection selection;
        int r;

        if (s->n_pins == 0)
                return 0;
        r = nb_ca_select(cluster->ca, cluster->ca_len,
                         &(struct nb_ca_criteria){ .pins = s->pins,
                                                   .n_pins = s->n_pins,
                                                   .choice = NB_CA_PINNED,
                                                   .malformed = NB_CLUSTER_INFO_UNACCEPTABLE,
                                                   .mismatch = NB_CA_PIN_MISMATCH },
                         &pinned, &selection, f);
        if (r < 0 || is_covered(join, cluster, &selection))
                return r;
        nb_cluster_take_ca(cluster, &pinned);
        return NB_RACE_AGAIN;
}

static int verify_cluster_info(const struct nb_join *join, const struct nb_api *api,
                               const struct nb_unverified *first, struct nb_http_answer *second,
                               struct nb_cluster *ret_cluster, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        int r;

        r = nb_cluster_info_read(api, &first->answer, join->bootstrap->token.token_id, &info, f);
        if (r >= 0)
                r = verify_signature(join, &info, api->name, f);
        /* From here on, the data is signed by a holder of the token. */
        f->is_unverified = r < 0;
        if (r < 0)
                return r;
        r = nb_cluster_info_parse_cluster(info.kubeconfig, ret_cluster, f);
        if (r < 0)
                return r;
        return second ? compare_copies(join, api, &info, second, f)
                      : verify_pins(join, ret_cluster, f);
}

int nb_discover_token(struct nb_join *join, struct nb_failure *f) {
        static const struct nb_race race = { &nb_cluster_info_call, verify_cluster_info,
                                             NB_CLUSTER_INFO_UNACCEPTABLE, false };

        return nb_join_race(join, &race, f);
}
