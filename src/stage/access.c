/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "base/stop.h"
#include "kube/api.h"
#include "kube/node_calls.h"
#include "stage/access.h"

#define PATIENCE_MS 10000 /* kubelet waits meanwhile */
#define PAUSE_MS 1000
#define REFUSALS 3 /* an API server that has just started, or one of several that is set up wrongly, is not the last word */
#define NAMED_FILE_MAX (1024 * 1024)

static int read_named(_unused_ void *userdata, const char *path, struct nb_secret *ret) {
        return nb_sources_read(path, NAMED_FILE_MAX, ret, NULL);
}

int nb_access_load(const struct nb_settings *settings, struct nb_access *ret_access, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX];
        const char *name;
        int r;

        r = nb_sources_read(settings->kubeconfig, NB_KUBECONFIG_MAX, &text, NULL);
        if (r >= 0)
                r = nb_path_split(settings->kubeconfig, folder, sizeof(folder), &name);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, -r, "'%s' cannot be read: %m", settings->kubeconfig);
        }
        return nb_kubeconfig_parse_given(settings->kubeconfig, folder, text.data, text.len, true, read_named, NULL,
                                         NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, &ret_access->cluster, &ret_access->identity, f);
}

void nb_access_done(struct nb_access *access) {
        nb_cluster_done(&access->cluster);
        nb_identity_done(&access->identity);
}

/* Connections of its own: behind one address there may be several servers. */
static int ask(const struct nb_access *access, const char *node_name, uint64_t until_ms, long *ret_status, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r;

        r = nb_api_init(&api, &access->cluster, access->cluster.ca, access->cluster.ca_len, &access->identity, f);
        if (r < 0)
                return r;
        r = nb_node_read(&api, node_name, until_ms, &node, ret_status, f);
        if (r == -EACCES && f->code == NB_NONE)
                return *ret_status == 401 ? 0 : 1;
        return r < 0 ? r : 1;
}

int nb_access_verify(const struct nb_access *access, const char *node_name, struct nb_failure *f) {
        uint64_t until_ms = nb_now_ms() + PATIENCE_MS;
        struct nb_failure last = { 0 };
        unsigned n_refused = 0;

        for (;;) {
                struct nb_failure why = { 0 };
                char name[NB_URL_MAX];
                long status = 0;
                int r;

                r = ask(access, node_name, until_ms, &status, &why);
                if (r > 0 || r == -ECANCELED)
                        return r;
                nb_endpoint_format(&access->cluster.server, name);
                if (r == 0 && ++n_refused == REFUSALS) {
                        (void)nb_failure_set_http(f, NB_NODE_ACCESS_REVOKED, 401, "the API server at %s answers 401 to the certificate in '%s'", name, access->identity.source);
                        return 0;
                }
                if (r == 0)
                        (void)nb_failure_set_http(&why, NB_NODE_ACCESS_UNKNOWN, 401, "the API server at %s answered 401, but not each time", name);
                if (r < 0 && !nb_http_is_unanswered(why.code) && why.code != NB_SERVER_ERROR) {
                        *f = why;
                        return r;
                }
                /* What was cut short by the end of the patience is not why. */
                if (last.code == NB_NONE || nb_now_ms() < until_ms)
                        last = why;
                if (nb_now_ms() + PAUSE_MS >= until_ms)
                        break;
                r = nb_stop_wait(PAUSE_MS);
                if (r < 0)
                        return r;
        }
        *f = last;
        return -ENOTCONN;
}
