/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "stage/internal.h"
#include "stage/refresh.h"
#include "stage/retry.h"

#define AGAIN_FIRST_MS 1000
#define AGAIN_CAP_MS 60000

/* No CA at all would stand for the CAs of the system. */
static int verify_present(const struct nb_cluster *present, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);

        return nb_ca_renew(present->ca, present->ca_len, present->ca, present->ca_len, NB_REFRESH_INAPPLICABLE, NB_REFRESH_INAPPLICABLE, &ca, NULL, f);
}

static int fetch(const struct nb_cluster *cluster, const char *ca, size_t ca_len, uint64_t deadline_ms, struct nb_cluster_info *ret_info,
                 struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        int r;

        r = nb_api_init(&api, cluster, ca, ca_len, NULL, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        return nb_cluster_info_fetch_verified(&api, "", deadline_ms, ret_info, f);
}

/* The cluster says nothing about itself to those without credentials; that is its own affair. */
static int fetch_present(const struct nb_cluster *present, uint64_t deadline_ms, struct nb_cluster_info *ret_info, struct nb_failure *f) {
        int r = fetch(present, present->ca, present->ca_len, deadline_ms, ret_info, f);

        if (r < 0 && (f->code == NB_CLUSTER_INFO_REFUSED || f->code == NB_CLUSTER_INFO_MISSING || f->http_status == 404))
                f->code = NB_REFRESH_NOT_SHOWN;
        return r;
}

/* By TLS it is a server of the cluster; by the same words, one of the same cluster and not of another one with the same CA. */
static int prove(const struct nb_cluster *newer, const struct nb_buffer *ca, const struct nb_cluster_info *expected, uint64_t deadline_ms,
                 struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        char server[NB_URL_MAX];
        int r;

        r = fetch(newer, ca->data, ca->len, deadline_ms, &info, f);
        if (r < 0)
                return r;
        if (info.kubeconfig_len == expected->kubeconfig_len && !memcmp(info.kubeconfig, expected->kubeconfig, info.kubeconfig_len))
                return 0;
        nb_url_format(&newer->server, server);
        return nb_failure_set(f, NB_REFRESH_UNPROVEN, EKEYREJECTED, "cluster-info from the server that it names, '%s', is another one", server);
}

static bool is_same_way(const struct nb_cluster *a, const struct nb_cluster *b) {
        return nb_url_is_equal(&a->server, &b->server) && !strcmp(a->tls_server_name, b->tls_server_name) && !strcmp(a->proxy_url, b->proxy_url);
}

static void take_ca(struct nb_cluster *cluster, struct nb_buffer *ca) {
        nb_cluster_done(cluster);
        cluster->ca_len = ca->len;
        cluster->ca = TAKE(ca->data);
}

static int attempt(const struct nb_cluster *present, uint64_t deadline_ms, struct nb_cluster *ret_newer, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster newer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        bool is_ca_changed;
        int r;

        r = fetch_present(present, deadline_ms, &info, f);
        if (r >= 0)
                r = nb_kubeconfig_parse_cluster(info.kubeconfig, info.kubeconfig_len, &newer, f);
        if (r >= 0)
                r = nb_ca_renew(present->ca, present->ca_len, newer.ca, newer.ca_len, NB_REFRESH_UNPROVEN, NB_REFRESH_UNPROVEN, &ca, NULL, f);
        if (r < 0)
                return r;
        is_ca_changed = r > 0;
        nb_cluster_keep_way(present, &newer);
        if (!is_ca_changed && is_same_way(present, &newer))
                return 0;
        r = prove(&newer, &ca, &info, deadline_ms, f);
        if (r < 0)
                return r;
        take_ca(&newer, &ca);
        *ret_newer = newer;
        newer = (struct nb_cluster){ 0 };
        return 1;
}

/* 0: try again now; otherwise what the run ends with. */
static int pause_before_retry(struct nb_retry *retry, uint64_t deadline_ms, int r, struct nb_failure *f) {
        uint64_t now = nb_now_ms(), due_ms, later_ms;
        bool is_new;

        later_ms = now + nb_backoff_ms(retry->attempts, AGAIN_FIRST_MS, AGAIN_CAP_MS, nb_random());
        if (nb_retry_next(retry, f, now, deadline_ms, nb_random(), &due_ms, &is_new) == NB_RETRY_OVER)
                return r;
        if (due_ms < later_ms)
                due_ms = later_ms;
        if (due_ms >= deadline_ms)
                return r;
        nb_log_status("Waiting to ask again: %s", f->detail);
        if (is_new)
                nb_log(LOG_WARNING, NB_NONE, "asking again: %s", f->detail);
        nb_failure_clear(f);
        return nb_stop_wait(due_ms - now);
}

int nb_refresh_run(const struct nb_cluster *present, uint64_t deadline_ms, struct nb_cluster *ret_newer, struct nb_failure *f) {
        struct nb_failure before = { 0 };
        struct nb_retry retry = { 0 };
        int r;

        r = verify_present(present, f);
        if (r < 0)
                return r;
        for (;;) {
                r = attempt(present, deadline_ms, ret_newer, f);
                if (r >= 0 || r == -ECANCELED)
                        return r;
                nb_retry_last_word(&before, f);
                before = *f;
                r = pause_before_retry(&retry, deadline_ms, r, f);
                if (r < 0)
                        break;
        }
        /* What is said of waiting for these is said of a join. */
        if (f->code != NB_NONE && nb_failure_info(f->code)->class == NB_CLASS_WAIT)
                f->code = NB_REFRESH_UNFINISHED;
        return r;
}
