/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "api/api.h"
#include "api/cluster_calls.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "join/access.h"
#include "join/retry.h"
#include "method/inputs.h"

#define PATIENCE_MS 10000 /* kubelet waits meanwhile */
/* One 401 may come from an API server that has just started, or from one of several that is
 * misconfigured. */
#define REFUSALS 3

int nb_access_load(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_access *ret_access, struct nb_failure *f) {
        const struct nb_kubeconfig_source source = { "", settings->kubeconfig,
                                                     &nb_kubeconfig_bootstrap, true };
        char name[NB_IDENTITY_SOURCE_MAX + 1];

        return nb_kubeconfig_load(sources, &source, &ret_access->cluster, &ret_access->identity,
                                  name, f);
}

void nb_access_done(struct nb_access *access) {
        nb_cluster_done(&access->cluster);
        nb_identity_done(&access->identity);
}

enum { REVOKED, ACCEPTED, UNKNOWN };

/* A new connection each time: there may be several servers behind one address. */
static int attempt_verification(void *userdata, struct nb_failure *f) {
        struct nb_access *access = userdata;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r;

        r = nb_api_init(&api, &access->cluster, &access->identity, access->deadline_ms, f);
        if (r >= 0)
                r = nb_node_read(&api, access->node_name, &node, f);
        if (r < 0)
                return f->code == NB_NONE || nb_http_is_unanswered(f->code) ||
                                       f->code == NB_SERVER_ERROR
                               ? r
                               : UNKNOWN;
        if (r != 401)
                return ACCEPTED;
        if (++access->n_refused < REFUSALS)
                return nb_failure_set_http(f, NB_SERVER_ERROR, 401,
                                           "the API server at %s answered 401, but not each time",
                                           api.name);
        (void)nb_failure_set_http(f, NB_NODE_ACCESS_REVOKED, 401,
                                  "the API server at %s answers 401 to the certificate in %s",
                                  api.name, access->identity.source);
        return REVOKED;
}

int nb_access_verify(struct nb_access *access, const char *node_name, struct nb_failure *f) {
        struct nb_retry_loop loop = { .attempt = attempt_verification, .userdata = access };
        int r;

        access->node_name = node_name;
        access->deadline_ms = nb_now_ms() + PATIENCE_MS;
        loop.retry = (struct nb_retry){ NB_RETRY_ACCESS, access->deadline_ms };
        r = nb_retry_run(&loop, f);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        return r == UNKNOWN ? -ENOTCONN : r;
}
