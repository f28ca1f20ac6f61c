/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/cluster_calls.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "join/refresh.h"
#include "join/retry.h"
#include "join/stages.h"

/* Refuses an empty CA file: without a CA, the system's CAs would verify the server. */
static int verify_present(const struct nb_cluster *present, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);

        return nb_ca_renew(present->ca, present->ca_len, present->ca, present->ca_len,
                           NB_REFRESH_INAPPLICABLE, NB_REFRESH_INAPPLICABLE, &ca, NULL, f);
}

/* TLS proves that the server has a certificate of the CA. Equal cluster-info proves that the server
 * belongs to this cluster, and not to another one with the same CA. */
static int verify_newer(const struct nb_cluster *newer, const struct nb_cluster_info *expected,
                        uint64_t deadline_ms, struct nb_failure *f) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster ignored = { 0 };
        char server[NB_URL_MAX];
        int r;

        r = nb_cluster_fetch_info(newer, deadline_ms, &info, &ignored, f);
        if (r < 0 || nb_cluster_info_is_equal(&info, expected))
                return r;
        nb_url_format(&newer->server, server);
        return nb_failure_set(f, NB_REFRESH_UNPROVEN, EKEYREJECTED,
                              "cluster-info names the server '%s', whose own cluster-info differs",
                              server);
}

static bool has_same_transport(const struct nb_cluster *a, const struct nb_cluster *b) {
        return nb_url_is_equal(&a->server, &b->server) &&
               !strcmp(a->tls_server_name, b->tls_server_name) &&
               !strcmp(a->proxy_url, b->proxy_url);
}

struct refresh {
        const struct nb_cluster *present;
        uint64_t deadline_ms;
        struct nb_cluster *ret_newer;
};

static int refresh_once(const struct refresh *refresh, struct nb_failure *f) {
        const struct nb_cluster *present = refresh->present;
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster newer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        int r;

        r = nb_cluster_fetch_info(present, refresh->deadline_ms, &info, &newer, f);
        if (r < 0 && nb_cluster_info_is_hidden(f))
                f->code = NB_REFRESH_NOT_SHOWN;
        if (r < 0)
                return r;
        r = nb_ca_renew(present->ca, present->ca_len, newer.ca, newer.ca_len, NB_REFRESH_UNPROVEN,
                        NB_REFRESH_UNPROVEN, &ca, NULL, f);
        if (r < 0)
                return r;
        if (r == 0 && has_same_transport(present, &newer))
                return 0;
        nb_cluster_take_ca(&newer, &ca);
        r = verify_newer(&newer, &info, refresh->deadline_ms, f);
        if (r < 0)
                return r;
        *refresh->ret_newer = TAKE(newer);
        return 1;
}

/* The catalog texts of codes of class "wait" describe a join, so replaces them with a code for a
 * refresh. TLS failures keep their codes, which have their own remedies. */
static int attempt_refresh(void *userdata, struct nb_failure *f) {
        int r = refresh_once(userdata, f);

        if (r < 0 && f->code != NB_NONE && nb_failure_class(f) == NB_CLASS_WAIT &&
            !nb_http_is_untrusted(f->code))
                f->code = NB_REFRESH_UNFINISHED;
        return r;
}

int nb_refresh_run(const struct nb_cluster *present, uint64_t deadline_ms,
                   struct nb_cluster *ret_newer, struct nb_failure *f) {
        struct refresh refresh = { present, deadline_ms, ret_newer };
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_REFRESH, deadline_ms },
                                      .attempt = attempt_refresh,
                                      .userdata = &refresh,
                                      .waiting_since = &since };
        int r;

        r = verify_present(present, f);
        return r < 0 ? r : nb_retry_run(&loop, f);
}
