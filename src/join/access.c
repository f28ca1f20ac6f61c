/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "api/api.h"
#include "api/cluster_calls.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "join/access.h"
#include "join/retry.h"

#define PATIENCE_MS 10000 /* kubelet waits meanwhile */
/* One 401 may come from an API server that has just started, or from one of several that is
 * misconfigured. */
#define REFUSALS 3
#define NAMED_FILE_MAX (1024 * 1024)

static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        return nb_sources_read(userdata, path, NAMED_FILE_MAX, ret, NULL);
}

int nb_access_load(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_access *ret_access, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX];
        const char *name;
        int r;

        r = nb_sources_read(sources, settings->kubeconfig, NB_KUBECONFIG_MAX, &text, NULL);
        if (r >= 0)
                r = nb_path_split(settings->kubeconfig, folder, sizeof(folder), &name);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, r,
                                      "'%s' cannot be read: %m", settings->kubeconfig);
        return nb_kubeconfig_parse(&nb_kubeconfig_bootstrap,
                                   &(struct nb_kubeconfig_input){
                                           .origin = settings->kubeconfig,
                                           .text = text.data,
                                           .len = text.len,
                                           .read = read_named,
                                           .userdata = sources,
                                           .folder = folder,
                                   },
                                   &ret_access->cluster, &ret_access->identity, f);
}

void nb_access_done(struct nb_access *access) {
        nb_cluster_done(&access->cluster);
        nb_identity_done(&access->identity);
}

struct verification {
        const struct nb_access *access;
        const char *node_name;
        uint64_t deadline_ms;
        unsigned n_refused;
};

enum { REVOKED, ACCEPTED, UNKNOWN };

/* A new connection each time: there may be several servers behind one address. */
static int ask(const struct verification *v, long *ret_status, struct nb_failure *f) {
        const struct nb_access *access = v->access;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r;

        r = nb_api_init(&api, &access->cluster, access->cluster.ca, access->cluster.ca_len,
                        &access->identity, f);
        if (r < 0)
                return r;
        return nb_node_read(&api, v->node_name, v->deadline_ms, &node, ret_status, f);
}

static int attempt_verification(void *userdata, struct nb_failure *f) {
        struct verification *v = userdata;
        char name[NB_URL_MAX];
        long status = 0;
        int r;

        r = ask(v, &status, f);
        if (r >= 0 || (r == -EACCES && f->code == NB_NONE && status != 401))
                return ACCEPTED;
        if (f->code != NB_NONE)
                return nb_http_is_unanswered(f->code) || f->code == NB_SERVER_ERROR ? r : UNKNOWN;
        if (r != -EACCES)
                return r;
        nb_endpoint_format(&v->access->cluster.server, name);
        if (++v->n_refused < REFUSALS)
                return nb_failure_set_http(f, NB_SERVER_ERROR, 401,
                                           "the API server at %s answered 401, but not each time",
                                           name);
        (void)nb_failure_set_http(f, NB_NODE_ACCESS_REVOKED, 401,
                                  "the API server at %s answers 401 to the certificate in '%s'",
                                  name, v->access->identity.source);
        return REVOKED;
}

int nb_access_verify(const struct nb_access *access, const char *node_name, struct nb_failure *f) {
        uint64_t deadline_ms = nb_now_ms() + PATIENCE_MS;
        struct verification verification = { access, node_name, deadline_ms, 0 };
        struct nb_retry_loop loop = { .retry = { NB_RETRY_ACCESS, deadline_ms },
                                      .attempt = attempt_verification,
                                      .userdata = &verification };
        int r;

        r = nb_retry_run(&loop, f);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        return r == UNKNOWN ? -ENOTCONN : r;
}
