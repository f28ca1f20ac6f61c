/* SPDX-License-Identifier: Apache-2.0 */

/* Approves requests for serving certificates of kubelets by the rules of serving_policy.h. Other
 * requests stay pending, with an Event that states the reason. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/controller/events.h"
#include "admin/controller/metrics.h"
#include "admin/policy/serving_policy.h"
#include "base/macro.h"
#include "kube/cluster_info.h"
#include "system/clock.h"
#include "system/log.h"

#define WAIT_FIRST_MS 1000
#define WAIT_CAP_MS ((uint64_t)5 * 60 * 1000)
/* The status of a new Node may be a few seconds behind, which needs no Event. */
#define WAITS_UNREPORTED 2
#define SERVICE_PATH "/api/v1/namespaces/default/services/kubernetes"
#define ENDPOINTS_PATH "/api/v1/namespaces/default/endpoints/kubernetes"

static const struct {
        const char *reason; /* of the Event */
} verdicts[_NB_SERVING_VERDICT_N] = {
        [NB_SERVING_APPROVED] = { NB_APPROVED_REASON },
        [NB_SERVING_REFUSED] = { "ServingNotAllowed" },
        [NB_SERVING_NOT_LISTED] = { "ServingNotEnrolled" },
        [NB_SERVING_NO_NODE] = { "ServingWithoutNode" },
        [NB_SERVING_NOT_IN_STATUS] = { "ServingNotInNodeStatus" },
};

/* --- The API server's own names and addresses --- */

static int add_endpoint(struct nb_serving_endpoints *endpoints, const char *host,
                        struct nb_failure *f) {
        if (!host || !host[0] || strcmp(host, "None") == 0)
                return 0;
        if (nb_serving_endpoints_add(endpoints, host) < 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "the API server has more than %d addresses",
                                      NB_SERVING_ENDPOINTS_MAX);
        return 0;
}

/* Adds the texts at PATH[i]MEMBER. */
static int add_list(struct nb_serving_endpoints *endpoints, struct nb_json *json, const char *path,
                    const char *member, struct nb_failure *f) {
        ssize_t n = nb_json_array(json, path);
        int r = 0;

        for (ssize_t i = 0; i < n && r >= 0; i++) {
                char item[128];

                snprintf(item, sizeof(item), "%s[%zd]%s", path, i, member);
                r = add_endpoint(endpoints, nb_json_string(json, item), f);
        }
        return r < 0 ? r : json->r;
}

static int add_service(struct nb_admin *admin, struct nb_serving_endpoints *endpoints,
                       struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_admin_get(admin, "reading the Service default/kubernetes", SERVICE_PATH, &json,
                             f);

        if (r <= 0)
                return r;
        r = add_endpoint(endpoints, nb_json_string(&json, "spec.clusterIP"), f);
        return r < 0 ? r : add_list(endpoints, &json, "spec.clusterIPs", "", f);
}

static int add_endpoints(struct nb_admin *admin, struct nb_serving_endpoints *endpoints,
                         struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_admin_get(admin, "reading the Endpoints default/kubernetes", ENDPOINTS_PATH,
                             &json, f);
        ssize_t n;

        if (r <= 0)
                return r;
        n = nb_json_array(&json, "subsets");
        for (ssize_t i = 0; i < n && r >= 0; i++) {
                static const char *const lists[] = { "addresses", "notReadyAddresses" };

                for (size_t k = 0; k < N_ELEMENTS(lists) && r >= 0; k++) {
                        char path[64];

                        snprintf(path, sizeof(path), "subsets[%zd].%s", i, lists[k]);
                        r = add_list(endpoints, &json, path, ".ip", f);
                }
        }
        return r < 0 ? r : json.r;
}

static int add_cluster_info(struct nb_admin *admin, struct nb_serving_endpoints *endpoints,
                            struct nb_failure *f) {
        const struct nb_admin_call call = { .method = "GET",
                                            .what = "reading cluster-info",
                                            .path = NB_CLUSTER_INFO_PATH };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        int r = nb_admin_perform(admin, &call, &answer, f);

        if (r < 0 || r == 404)
                return r < 0 ? r : 0;
        r = nb_cluster_info_parse(nb_answer_text(&answer), answer.body.len, "", &info, f);
        if (r >= 0)
                r = nb_cluster_info_parse_cluster(&info, &cluster, f);
        return r < 0 ? r : add_endpoint(endpoints, cluster.server.host, f);
}

/* Without permission to read one of them, nothing is approved: a certificate for a name of the API
 * server would be the worst mistake. */
static int read_endpoints(struct nb_admin *admin, struct nb_serving_endpoints *ret_endpoints,
                          struct nb_failure *f) {
        int r = add_endpoint(ret_endpoints, admin->cluster.server.host, f);

        if (r >= 0)
                r = add_endpoint(ret_endpoints, admin->cluster.tls_server_name, f);
        if (r >= 0)
                r = add_cluster_info(admin, ret_endpoints, f);
        if (r >= 0)
                r = add_service(admin, ret_endpoints, f);
        return r < 0 ? r : add_endpoints(admin, ret_endpoints, f);
}

/* --- The decision --- */

/* Returns the verdict, or a failure. Calls the API server only if the other checks pass. */
static int decide(struct nb_controller *controller, const struct nb_node_request *request,
                  char *ret_reason, struct nb_failure *f) {
        struct nb_serving_endpoints endpoints = { 0 };
        struct nb_failure flaw = { 0 };
        struct nb_node_record record;
        struct nb_node_facts node = { 0 };
        struct nb_serving_case c = { .policy = controller->approver_serving,
                                     .endpoints = &endpoints,
                                     .request = request };
        int r, verdict;

        r = nb_facts_read_record(&controller->admin, request->node, &record, &flaw, f);
        if (r < 0)
                return r;
        if (flaw.code != NB_NONE) {
                snprintf(ret_reason, NB_SERVING_REASON_SIZE,
                         "the record of the node cannot be used: %s", flaw.detail);
                return NB_SERVING_NOT_LISTED;
        }
        c.record = r > 0 ? &record : NULL;
        verdict = (int)nb_serving_decide(&c, ret_reason);
        if (verdict != NB_SERVING_NO_NODE)
                return verdict;
        r = nb_facts_read_node(&controller->admin, request->node, &node, f);
        if (r < 0)
                return r;
        c.node = r > 0 ? &node : NULL;
        verdict = (int)nb_serving_decide(&c, ret_reason);
        if (verdict != NB_SERVING_APPROVED)
                return verdict;
        r = read_endpoints(&controller->admin, &endpoints, f);
        return r < 0 ? r : (int)nb_serving_decide(&c, ret_reason);
}

static int approve(struct nb_controller *controller, struct nb_request_record *record,
                   const struct nb_node_request *request, struct nb_failure *f) {
        int r = nb_csr_decide(&controller->admin, request, "Approved",
                              verdicts[NB_SERVING_APPROVED].reason,
                              "all names in the request are allowed to this node", f);

        if (r <= 0)
                return r < 0 ? r : -EAGAIN;
        nb_log(LOG_INFO, NB_ADMIN_APPROVED, "approved CSR %s: serving certificate of node %s",
               record->name, record->node);
        nb_metrics_decide(controller, record, NB_DECISION_APPROVED,
                          verdicts[NB_SERVING_APPROVED].reason);
        return 0;
}

static int tell(struct nb_controller *controller, struct nb_request_record *record, int verdict,
                const char *reason) {
        char message[NB_SERVING_REASON_SIZE + 64];
        const struct nb_event event = { .bit = 1U << verdict,
                                        .code = NB_ADMIN_LEFT_PENDING,
                                        .reason = verdicts[verdict].reason,
                                        .message = message };
        int r;

        snprintf(message, sizeof(message), "the serving certificate is not approved: %s", reason);
        r = nb_event_tell(controller, record, &event);
        if (r >= 0)
                nb_metrics_decide(controller, record, NB_DECISION_PENDING, event.reason);
        return r;
}

static int act(struct nb_controller *controller, struct nb_request_record *record, int verdict,
               const struct nb_node_request *request, const char *reason, struct nb_failure *f) {
        uint64_t after_ms = NB_EVENTS_REPEAT_MS;
        int r = 0;

        if (verdict == NB_SERVING_APPROVED)
                return approve(controller, record, request, f);
        if (verdict == NB_SERVING_REFUSED || record->work.attempt >= WAITS_UNREPORTED)
                r = tell(controller, record, verdict, reason);
        if (r < 0)
                return r;
        if (verdict != NB_SERVING_REFUSED)
                after_ms = nb_backoff_ms(record->work.attempt++, WAIT_FIRST_MS, WAIT_CAP_MS,
                                         nb_random());
        nb_controller_queue(controller, &record->work, nb_now_ms() + after_ms);
        return 0;
}

static int run_request(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct nb_request_record *record = userdata;
        struct nb_controller *controller = record->controller;
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        char reason[NB_SERVING_REASON_SIZE];
        int r;

        r = nb_controller_read_request(controller, record, &request, f);
        if (r < 0)
                return r;
        if (r == 0 || request.state != NB_CSR_STATE_PENDING) {
                nb_controller_drop_request(controller, record);
                return 0;
        }
        nb_log_field(NB_FIELD_CSR, "%s", record->name);
        nb_log_field(NB_FIELD_NODE, "%s", request.node);
        r = decide(controller, &request, reason, f);
        if (r >= 0)
                r = act(controller, record, r, &request, reason, f);
        nb_log_field(NB_FIELD_CSR, NULL);
        nb_log_field(NB_FIELD_NODE, NULL);
        return r;
}

/* --- The part --- */

static bool on_request(struct nb_controller *controller, struct nb_request_record *record,
                       const struct nb_node_request *request, bool is_changed) {
        if (request->state != NB_CSR_STATE_PENDING)
                return false;
        record->work.run = run_request;
        if (is_changed) {
                record->work.attempt = 0;
                nb_controller_queue(controller, &record->work, nb_now_ms());
        }
        return true;
}

static bool on_request_deleted(struct nb_controller *controller _unused_,
                               struct nb_request_record *record _unused_) {
        return false;
}

static int begin_serving(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_serving_policy *policy = calloc(1, sizeof(*policy));

        if (!policy)
                return nb_failure_set_memory(f);
        controller->approver_serving = policy;
        return nb_serving_policy_init(&controller->settings.serving, policy, f);
}

static void end_serving(struct nb_controller *controller) {
        free(controller->approver_serving);
        controller->approver_serving = NULL;
}

const struct nb_part nb_part_approve_serving = {
        .name = "approve-serving",
        .kind = NB_NODE_REQUEST_SERVING,
        .begin = begin_serving,
        .on_request = on_request,
        .on_request_deleted = on_request_deleted,
        .end = end_serving,
};
