/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

#define PAUSE_MS 1000
#define ANSWER_MS 5000 /* for one question to the API server */

/* --- In a child, which can neither read root's files nor find a token in its memory --- */

static int ask_node(const struct nb_node_client *client, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r = nb_node_client_connect(client, nb_now_ms() + ANSWER_MS, &api, f);

        if (r < 0)
                return r;
        if (!client->node_name[0])
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, 0,
                                      "kubelet's certificate is not for a node");
        r = nb_node_read(&api, client->node_name, NULL, &node, f);
        if (r < 0)
                return r;
        if (r != 200)
                return nb_failure_set_http(f, NB_NODE_DELETED, r, "%s %s Node '%s' (status %d)",
                                           api.name, r == 404 ? "has no" : "does not show the",
                                           client->node_name, r);
        printf("the cluster has the Node '%s'\n", client->node_name);
        return 0;
}

static int ask(const char *health, struct nb_failure *f) {
        _cleanup_(nb_node_client_done) struct nb_node_client client = {
                .identity = NB_IDENTITY_INIT
        };
        struct nb_sources sources = { 0 };
        struct nb_kubelet_paths paths;
        int r = nb_privilege_reduce(f);

        if (r >= 0)
                r = nb_http_begin(false, f);
        if (r >= 0 && !health && nb_kubelet_env_read_paths(-1, &paths) >= 0)
                nb_node_client_read(&sources, paths.kubeconfig, &client);
        if (r >= 0)
                r = nb_privilege_drop(f);
        if (r >= 0)
                r = health ? nb_kubelet_ask_health(health, f) : ask_node(&client, f);
        nb_http_end();
        return r;
}

__attribute__((noreturn)) static void run_child(const char *health, bool is_last,
                                                struct nb_failure *ret) {
        struct nb_failure f = { 0 };

        /* The processes that parse what servers send must not write to root's memory. */
        (void)madvise(ret, sizeof(*ret), MADV_DONTFORK);
        nb_log_forget_journal();
        nb_stop_end();
        if (ask(health, &f) >= 0)
                f.code = NB_NONE;
        else if (is_last)
                nb_log_failure(LOG_ERR, &f);
        *ret = f;
        fflush(NULL);
        _exit(nb_failure_info(f.code)->exit_status);
}

/* --- In setup --- */

/* Where kubelet tells its health; "": nowhere, or that cannot be found out. */
static int find_health(const struct nb_setup *setup, char ret[static NB_KUBELET_HEALTH_SIZE]) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };
        struct nb_sources sources = { 0 };
        struct nb_kubelet_findings found;

        ret[0] = '\0';
        if (nb_kubelet_show(&unit) < 0)
                return 0;
        if (nb_kubelet_check(&sources, &unit, &setup->now, NULL, &found) < 0)
                return -ENOMEM;
        memcpy(ret, found.health, sizeof(found.health));
        return 0;
}

int nb_setup_look_at_kubelet(struct nb_unit_state *ret_kubelet, enum nb_machine_kind *ret_kind,
                             struct nb_failure *ret_why) {
        struct nb_machine_state state;
        struct nb_sources sources;
        int r;

        nb_sources_init(&sources, NB_CONFIG_DIRECTORY);
        r = nb_machine_look(&sources, false, &state);
        *ret_kubelet = state.kubelet;
        *ret_kind = state.kind;
        *ret_why = state.why;
        nb_machine_state_done(&state);
        return r;
}

/* A kubelet that has ended meanwhile answers no question. Restarts before this wait are no failure,
 * unlike in `status`. */
static int verify_kubelet(struct nb_failure *f) {
        struct nb_unit_state kubelet;
        enum nb_machine_kind kind;
        struct nb_failure why;

        if (nb_setup_look_at_kubelet(&kubelet, &kind, &why) < 0)
                return nb_failure_set_memory(f);
        if (!strcmp(kubelet.active, "active") || why.code == NB_NONE)
                return 0;
        *f = why;
        return -ECHILD;
}

/* Copies what a child has left, which may have been taken over by a server. Returns the exit status
 * of this failure, not the child's own, so that the two agree. */
static int copy_failure(const struct nb_failure *shared, struct nb_failure *ret) {
        struct nb_failure f;

        memcpy(&f, shared, sizeof(f));
        f.detail[sizeof(f.detail) - 1] = '\0';
        if (f.code == NB_NONE || (unsigned)f.code >= _NB_CODE_N)
                (void)nb_failure_set(ret, NB_INTERNAL, ECHILD, "the child has left no failure");
        else
                (void)nb_failure_set(ret, f.code, 0, "%s", f.detail);
        return nb_failure_info(ret->code)->exit_status;
}

/* The last child prints why, and leaves it in `shared`. */
static int ask_until(const char *health, bool runs, uint64_t until_ms, struct nb_failure *shared,
                     struct nb_failure *f) {
        for (bool is_first = true;; is_first = false) {
                bool is_last = nb_now_ms() >= until_ms;
                int status = 0, r = nb_privilege_split(&status, f);

                if (r == 0)
                        run_child(health, is_last, shared);
                if (r < 0)
                        return r;
                if (status > 128)
                        return nb_failure_set(f, NB_INTERNAL, ECHILD,
                                              "the process that asks %s was killed by signal %d",
                                              health ? "kubelet" : "the API server", status - 128);
                if (status == 0)
                        return 0;
                if (is_last)
                        return copy_failure(shared, f);
                r = runs ? verify_kubelet(f) : 0;
                if (r < 0)
                        return r;
                if (is_first)
                        printf("waiting until %s\n", health ? "kubelet says that it is healthy"
                                                            : "the cluster has the Node");
                fflush(stdout);
                if (nb_stop_wait(PAUSE_MS) < 0)
                        return NB_EXIT_STOPPED;
        }
}

int nb_setup_await_node(const struct nb_setup *setup, bool runs, uint64_t until_ms,
                        struct nb_failure *f) {
        char health[NB_KUBELET_HEALTH_SIZE];
        struct nb_failure *shared;
        int r = 0;

        (void)nb_stop_init();
        if (find_health(setup, health) < 0)
                return nb_failure_set_memory(f);
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                      0);
        if (shared == MAP_FAILED)
                return nb_failure_set_memory(f);
        if (runs && health[0])
                r = ask_until(health, runs, until_ms, shared, f);
        if (r == 0 && runs)
                printf("kubelet runs\n");
        if (r == 0 && setup->wait == NB_SETUP_WAIT_NODE)
                r = ask_until(NULL, runs, until_ms, shared, f);
        (void)munmap(shared, sizeof(*shared));
        return r;
}
