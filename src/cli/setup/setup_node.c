/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/kubelet.h"
#include "cli/node_client.h"
#include "cli/setup/setup_internal.h"
#include "kube_api/cluster_calls.h"
#include "net/http.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/privilege.h"
#include "system/stop.h"
#include "system/unit.h"

#define ASK_MS 1000

/* kubelet's health port, if it has one; "" if that is unknown here. */
static int find_health(const struct nb_setup *setup, char ret[static NB_KUBELET_HEALTH_SIZE]) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_sources sources = { 0 };
        struct nb_kubelet_findings found;

        ret[0] = '\0';
        if (nb_kubelet_show(&text) < 0)
                return 0;
        if (nb_kubelet_check(&sources, text.data, &setup->now, &found) < 0)
                return -ENOMEM;
        memcpy(ret, found.health, sizeof(found.health));
        return 0;
}

static int ask_node(const struct nb_node_client *client, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r;

        if (client->failure.code != NB_NONE) {
                *f = client->failure;
                return -EPROTO;
        }
        r = nb_api_init(&api, &client->cluster, &client->identity, NB_TIME_INFINITE, f);
        if (r >= 0)
                r = nb_node_read(&api, client->node_name, &node, f);
        if (r < 0)
                return r;
        if (r == 404)
                return nb_failure_set(f, NB_NODE_DELETED, 0, "%s has no Node '%s'", api.name,
                                      client->node_name);
        if (r != 200)
                return nb_failure_set_http(f, NB_NODE_ACCESS_REVOKED, r,
                                           "%s refuses the Node '%s' to its own certificate "
                                           "(status %d)",
                                           api.name, client->node_name, r);
        printf("the cluster has the Node '%s'\n", client->node_name);
        return 0;
}

static int ask_until(const char *health, const struct nb_node_client *client, uint64_t until_ms,
                     struct nb_failure *f) {
        bool is_healthy = false;

        for (;;) {
                struct nb_failure why = { 0 };
                int r = is_healthy || !health[0] ? 0 : nb_kubelet_ask_health(health, &why);

                if (r >= 0 && !is_healthy)
                        printf("kubelet runs\n");
                is_healthy = r >= 0;
                if (r >= 0)
                        r = client ? ask_node(client, &why) : 0;
                if (r >= 0 || why.code == NB_NONE)
                        return r;
                if (nb_now_ms() >= until_ms) {
                        *f = why;
                        return r;
                }
                r = nb_stop_wait(ASK_MS);
                if (r < 0)
                        return r;
        }
}

/* Parses what a server sent: unprivileged, and without a copy of the token, which setup has erased
 * before. */
static int run_child(const struct nb_setup *setup, const char *health, uint64_t until_ms,
                     struct nb_failure *f) {
        _cleanup_(nb_node_client_done) struct nb_node_client client = {
                .identity = NB_IDENTITY_INIT
        };
        struct nb_sources sources = { 0 };
        bool is_node_wanted = setup->wait == NB_SETUP_WAIT_NODE;
        int r;

        if (nb_stop_init() < 0)
                return nb_failure_set(f, NB_INTERNAL, 0, "cannot handle signals");
        r = nb_privilege_reduce(f);
        if (r >= 0)
                r = nb_http_begin(false, f);
        if (r < 0)
                return r;
        if (is_node_wanted)
                nb_node_client_read(&sources, setup->now.kubeconfig, &client);
        r = nb_privilege_drop(f);
        if (r >= 0)
                r = ask_until(health, is_node_wanted ? &client : NULL, until_ms, f);
        nb_http_end();
        return r == -ECANCELED && f->code == NB_NONE ? NB_EXIT_STOPPED : r;
}

int nb_setup_await_node(const struct nb_setup *setup, uint64_t until_ms, struct nb_failure *f) {
        char health[NB_KUBELET_HEALTH_SIZE];
        int status = 0, r;

        if (find_health(setup, health) < 0)
                return nb_failure_set_memory(f);
        if (!health[0] && setup->wait != NB_SETUP_WAIT_NODE) {
                printf("kubelet runs\n");
                return 0;
        }
        /* The parent passes signals on, and the child waits for them itself. */
        nb_stop_end();
        r = nb_privilege_split(&status, f);
        if (r < 0)
                return r;
        return r > 0 ? status : run_child(setup, health, until_ms, f);
}
