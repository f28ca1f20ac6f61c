/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "format/cluster_info.h"
#include "format/jws.h"
#include "kube/cluster_info.h"
#include "stage/internal.h"

/* Which of the two it is decides what a person has to do: mend the cluster, or make a new token. */
static int signature_missing(const struct nb_join *join, const struct nb_cluster_info *info, const char *name, struct nb_failure *f) {
        if (info->n_signatures == 0)
                return nb_failure_set(f, NB_SIGNATURE_MISSING, ENOKEY,
                                      "cluster-info from %s is not signed at all: the cluster's bootstrapsigner is not running", name);
        return nb_failure_set(f, NB_TOKEN_UNKNOWN, ENOKEY,
                              "cluster-info from %s is signed for %u other token%s, but not for '%s': the token is unknown or has expired", name,
                              info->n_signatures, info->n_signatures == 1 ? "" : "s", join->bootstrap->token.id);
}

static int verify_signature(const struct nb_join *join, const struct nb_cluster_info *info, const char *name, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer input = NB_BUFFER_INIT(2 * NB_CLUSTER_INFO_MAX);
        uint8_t stated[NB_JWS_MAC_SIZE], computed[NB_SHA256_SIZE];
        int r;

        if (!info->signature)
                return signature_missing(join, info, name, f);
        r = nb_jws_parse(info->signature, strlen(info->signature), join->bootstrap->token.id, stated, f);
        if (r < 0)
                return r;
        r = nb_jws_input(join->bootstrap->token.id, info->kubeconfig, info->kubeconfig_len, &input);
        if (r < 0)
                return nb_failure_set_memory(f);
        r = nb_hmac_sha256(join->bootstrap->token.secret, NB_TOKEN_SECRET_LEN, input.data, input.len, computed);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "HMAC-SHA256 cannot be computed");
        if (!nb_digest_is_equal(stated, computed))
                return nb_failure_set(f, NB_SIGNATURE_INVALID, EKEYREJECTED,
                                      "cluster-info from %s is signed for token '%s', but not with this token's secret", name,
                                      join->bootstrap->token.id);
        return 0;
}

/*
 * A pin covers the CA, a configured endpoint covers itself. Anything else in the kubeconfig, any holder of the token could have signed:
 * another server, a CA that no pin names but that is to be trusted (trustWholeBundle), and a tls-server-name or a proxy that leads TLS to
 * a certificate of the same CA that is not the API server's.
 */
static bool is_covered(const struct nb_join *join, const struct nb_cluster *cluster, const struct nb_ca_selection *pinned) {
        if (cluster->tls_server_name[0] || cluster->proxy_url[0])
                return false;
        if (join->settings->trust_whole_bundle && pinned->n_left_out > 0)
                return false;
        for (unsigned i = 0; i < join->settings->n_endpoints; i++)
                if (nb_url_is_equal(&join->settings->endpoints[i], &cluster->server))
                        return true;
        return false;
}

static int confirm_verified(const struct nb_join *join, const struct nb_url *endpoint, const char *name, const struct nb_buffer *ca,
                            const struct nb_cluster_info *info, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info again = { 0 };
        struct nb_cluster cluster = { .server = *endpoint };
        int r;

        r = nb_api_init(&api, &cluster, ca->data, ca->len, NULL, f);
        if (r < 0)
                return r;
        r = nb_cluster_info_fetch_verified(&api, join->bootstrap->token.id, nb_join_second_copy_ms(join), &again, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (again.kubeconfig_len != info->kubeconfig_len || memcmp(again.kubeconfig, info->kubeconfig, info->kubeconfig_len) != 0)
                return nb_failure_set(f, NB_CLUSTER_INFO_CHANGED, EKEYREJECTED,
                                      "cluster-info from %s is another one when TLS is verified by the proven CA", name);
        nb_report_new_connection(&api);
        return 0;
}

/* What is trusted: by the pins alone, until cluster-info has proven more over a connection that they verify. */
static int prove_ca(const struct nb_join *join, const struct nb_url *endpoint, const char *name, const struct nb_cluster_info *info,
                    const struct nb_cluster *cluster, struct nb_buffer *ret_ca, struct nb_ca_selection *ret_selection,
                    struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer pinned = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        const struct nb_settings *s = join->settings;
        int r;

        if (s->n_pins > 0) {
                r = nb_ca_select(cluster->ca, cluster->ca_len, s->pins, s->n_pins, NB_CA_PINNED, NB_CLUSTER_INFO_UNACCEPTABLE, NB_CA_PIN_MISMATCH,
                                 &pinned, ret_selection, f);
                if (r >= 0 && !is_covered(join, cluster, ret_selection))
                        r = confirm_verified(join, endpoint, name, &pinned, info, f);
                if (r < 0)
                        return r;
        }
        return nb_bootstrap_select_ca(join->bootstrap, join->settings, cluster->ca, cluster->ca_len, NB_CLUSTER_INFO_UNACCEPTABLE,
                                      NB_CA_PIN_MISMATCH, ret_ca, ret_selection, f);
}

static void log_left_out(const struct nb_ca_selection *selection) {
        for (unsigned i = 0; i < selection->n_left_out; i++) {
                char pin[NB_PIN_TEXT_SIZE];

                nb_pin_format(selection->left_out[i], pin);
                nb_log(LOG_WARNING, NB_CERTIFICATE_LEFT_OUT, "cluster-info has a CA that no pin names, %s: left out", pin);
        }
}

int nb_join_prove(struct nb_join *join, const struct nb_url *endpoint, const struct nb_unverified *unverified,
                  struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        struct nb_ca_selection selection;
        char name[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        int r;

        nb_endpoint_format(endpoint, name);
        r = nb_cluster_info_read(&unverified->answer, name, join->bootstrap->token.id, &info, f);
        if (r >= 0)
                r = verify_signature(join, &info, name, f);
        if (r >= 0)
                r = nb_kubeconfig_parse_cluster(info.kubeconfig, info.kubeconfig_len, &cluster, f);
        if (r >= 0)
                r = prove_ca(join, endpoint, name, &info, &cluster, &ca, &selection, f);
        if (r < 0)
                return r;
        log_left_out(&selection);
        nb_pin_format(selection.taken[0], pin);
        nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        join->cluster = cluster;
        cluster = (struct nb_cluster){ 0 };
        join->ca = ca;
        ca = (struct nb_buffer)NB_BUFFER_INIT(0);
        (void)snprintf(join->endpoint, sizeof(join->endpoint), "%s", name);
        return 0;
}
