/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/client/calls.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/stop.h"

#define WAIT_MS 15000 /* bootstrapsigner takes less than a second */
#define POLL_MS 200
#define UNREPORTED_MS 1000

static void warn(const char *id, int published, const struct nb_failure *f) {
        if (published < 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cannot find out whether cluster-info is signed with the token %s: %s", id,
                       f->detail);
        else if (published == 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cluster-info is not published, so no machine can join with a token yet; "
                       "run `node-bootstrap-admin cluster-info publish`");
        else
                nb_log(LOG_WARNING, NB_NONE,
                       "cluster-info is not signed with the token %s after %d s, so no machine can "
                       "join with it yet; run node-bootstrap-admin's controller, or "
                       "kube-controller-manager with --controllers=*,bootstrapsigner,tokencleaner",
                       id, WAIT_MS / 1000);
}

void nb_token_await_signature(struct nb_admin *admin, const char *id) {
        uint64_t from_ms = nb_now_ms(), until_ms = from_ms + WAIT_MS;
        bool is_reported = false;
        struct nb_failure f = { 0 };
        char path[64];
        int r;

        snprintf(path, sizeof(path), "data.jws-kubeconfig-%s", id);
        do {
                _cleanup_(nb_json_done) struct nb_json json = { 0 };

                r = nb_admin_get(admin, "reading cluster-info", NB_CLUSTER_INFO_PATH, &json, &f);
                if (r > 0 && nb_json_string(&json, path))
                        return;
                if (r > 0 && !is_reported && nb_now_ms() >= from_ms + UNREPORTED_MS) {
                        is_reported = true;
                        nb_log(LOG_INFO, NB_NONE,
                               "waiting up to %d s for a signature of cluster-info with the token "
                               "%s",
                               WAIT_MS / 1000, id);
                }
        } while (r > 0 && nb_now_ms() < until_ms && nb_stop_wait(POLL_MS) >= 0);
        warn(id, r, &f);
}
