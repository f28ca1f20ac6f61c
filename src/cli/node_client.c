/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "cli/node_client.h"
#include "kube_api/csr_calls.h"
#include "method/inputs.h"
#include "net/http.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/stop.h"

#define REFUSALS 3
#define REFUSAL_PAUSE_MS 1000
#define HEALTH_TIMEOUT_MS 2000
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
                return nb_failure_set(f, NB_KUBELET_DOWN, 0,
                                      "kubelet does not say that it is healthy: %s", why.detail);
        *f = why;
        return r;
}
