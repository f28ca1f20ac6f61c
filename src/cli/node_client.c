/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/node_client.h"
#include "http/http.h"
#include "join_method/inputs.h"
#include "kube_calls/cluster_calls.h"
#include "kube_calls/csr_calls.h"
#include "os/clock.h"
#include "os/privilege.h"
#include "os/stop.h"
#include "settings/kubelet_env.h"
#include "systemd/log.h"

#define REFUSALS 3
#define REFUSAL_PAUSE_MS 1000
#define HEALTH_TIMEOUT_MS 2000
#define NODE_TIMEOUT_MS 5000
#define HEALTH_ANSWER_MAX 1024 /* "ok", or one line for each check that failed */

void nb_node_client_read(struct nb_sources *sources, const char *kubeconfig,
                         struct nb_node_client *ret_client) {
        const struct nb_kubeconfig_source source = { "", kubeconfig, &nb_kubeconfig_bootstrap,
                                                     true };
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        struct nb_identity *identity = &ret_client->identity;
        struct nb_failure *f = &ret_client->failure;
        char name[NB_IDENTITY_SOURCE_MAX + 1];

        *ret_client = (struct nb_node_client){ .identity = NB_IDENTITY_INIT };
        if (nb_kubeconfig_load(sources, &source, &ret_client->cluster, identity, name, f) < 0)
                ret_client->is_missing = f->errnum == ENOENT;
        else if (identity->kind != NB_IDENTITY_CERTIFICATE)
                (void)nb_failure_set(f, NB_INSTALLED_MALFORMED, 0, "%s has no client certificate",
                                     name);
        else if (nb_client_certificate_verify(identity, f) >= 0 &&
                 nb_certificates_parse(identity->certificate.data, identity->certificate.len, true,
                                       &chain) >= 0) {
                nb_certificate_node_name(chain, ret_client->node_name);
                ret_client->not_after = nb_certificate_not_after(chain, 0);
        }
}

void nb_node_client_done(struct nb_node_client *client) {
        nb_cluster_done(&client->cluster);
        nb_identity_done(&client->identity);
}

int nb_node_client_connect(const struct nb_node_client *client, uint64_t deadline_ms,
                           struct nb_api *ret_api, struct nb_failure *f) {
        if (client->failure.code != NB_NONE) {
                *f = client->failure;
                return -EPROTO;
        }
        for (unsigned n = 1;; n++) {
                int r = nb_api_init(ret_api, &client->cluster, &client->identity, deadline_ms, f);

                if (r < 0)
                        return r;
                nb_log_field(NB_FIELD_ENDPOINT, "%s", ret_api->name);
                r = nb_node_access_verify(ret_api, f);
                if (r >= 0)
                        return 0;
                nb_api_done(ret_api);
                if (f->code != NB_NODE_ACCESS_REVOKED || n == REFUSALS)
                        return r;
                nb_failure_clear(f);
                r = nb_stop_wait(REFUSAL_PAUSE_MS);
                if (r < 0)
                        return r;
        }
}

int nb_node_client_find(const struct nb_node_client *client, struct nb_api *api,
                        struct nb_node_object *ret_node, struct nb_failure *f) {
        int r = nb_node_read(api, client->node_name, NULL, ret_node, f);

        if (r < 0 || r == 200)
                return r < 0 ? r : 0;
        return nb_failure_set_http(f, NB_NODE_DELETED, r, "%s %s Node '%s' (status %d)", api->name,
                                   r == 404 ? "has no" : "does not show the", client->node_name, r);
}

int nb_kubelet_ask_health(const char *address, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_http_freep) struct nb_http *http = NULL;
        struct nb_failure why = { 0 };
        char url[128];
        const struct nb_http_request request = { .what = url,
                                                 .url = url,
                                                 .accept = "*/*",
                                                 .max_body = HEALTH_ANSWER_MAX,
                                                 .timeout_ms = HEALTH_TIMEOUT_MS };
        int r;

        snprintf(url, sizeof(url), "http://%s/healthz", address);
        r = nb_http_new_metadata(HEALTH_TIMEOUT_MS, &http, &why);
        if (r >= 0)
                r = nb_http_perform(http, &request, nb_now_ms() + HEALTH_TIMEOUT_MS, &answer, &why);
        if (r >= 0 && answer.status == 200)
                return 0;
        if (r >= 0)
                return nb_failure_set(f, NB_KUBELET_DOWN, 0,
                                      "kubelet is not healthy: %s answers with status %ld", url,
                                      answer.status);
        if (nb_http_is_unanswered(why.code) || why.code == NB_ANSWER_MALFORMED)
                return nb_failure_set(f, NB_KUBELET_DOWN, 0, "cannot read kubelet's health: %s",
                                      why.detail);
        *f = why;
        return r;
}

/* --- In a child --- */

struct shared {
        struct nb_failure failure;
        char endpoint[NB_FIELD_SIZE];
};

static int ask_node(const struct nb_node_client *client, struct nb_failure *f) {
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_node_object node;
        int r = nb_node_client_connect(client, nb_now_ms() + NODE_TIMEOUT_MS, &api, f);

        if (r < 0)
                return r;
        if (!client->node_name[0])
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, 0,
                                      "kubelet's certificate is not for a node");
        return nb_node_client_find(client, &api, &node, f);
}

static int ask_unprivileged(const char *health, struct nb_failure *f) {
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

__attribute__((noreturn)) static void run_child(const char *health, struct shared *ret) {
        struct nb_failure f = { 0 };
        int r;

        /* The processes that parse what servers send must not write to root's memory. */
        (void)madvise(ret, sizeof(*ret), MADV_DONTFORK);
        nb_log_forget_journal();
        nb_stop_end();
        r = ask_unprivileged(health, &f);
        ret->failure = f;
        NB_TEXT_COPY(ret->endpoint, nb_field_value(NB_FIELD_ENDPOINT));
        _exit(r < 0);
}

/* A server may have taken over the child. */
static int copy_failure(const struct shared *shared, struct nb_failure *f) {
        struct shared copy;

        memcpy(&copy, shared, sizeof(copy));
        copy.failure.detail[sizeof(copy.failure.detail) - 1] = '\0';
        copy.endpoint[sizeof(copy.endpoint) - 1] = '\0';
        if (copy.failure.code == NB_NONE || (unsigned)copy.failure.code >= _NB_CODE_N)
                return nb_failure_set(f, NB_INTERNAL, ECHILD, "the child has left no failure");
        nb_log_field(NB_FIELD_ENDPOINT, "%s", copy.endpoint);
        return nb_failure_set(f, copy.failure.code, 0, "%s", copy.failure.detail);
}

int nb_node_ask(const char *health, struct nb_failure *f) {
        struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int status = 0, r;

        if (shared == MAP_FAILED)
                return nb_failure_set_memory(f);
        r = nb_privilege_split(&status, f);
        if (r == 0)
                run_child(health, shared);
        if (r > 0 && status > 128)
                r = nb_failure_set(f, NB_INTERNAL, ECHILD,
                                   "the process that asks %s was killed by signal %d",
                                   health ? "kubelet" : "the API server", status - 128);
        else if (r > 0)
                r = status == 0 ? 0 : copy_failure(shared, f);
        (void)munmap(shared, sizeof(*shared));
        return r;
}
