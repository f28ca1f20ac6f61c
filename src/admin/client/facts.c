/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "system/clock.h"

#define BODY_MAX ((size_t)4 * 1024)
#define WHAT_SIZE (NB_NODE_RECORD_NAME_SIZE + 32)

/* --- Reading --- */

/* Gets the object at PREFIX and NAME. `what` must stay as long as the object. */
static int get_named(struct nb_admin *admin, const char *kind, const char *prefix, const char *name,
                     char what[static WHAT_SIZE], struct nb_json *ret_json, struct nb_failure *f) {
        char path[NB_ADMIN_PATH_MAX];

        snprintf(what, WHAT_SIZE, "reading %s %s", kind, name);
        snprintf(path, sizeof(path), "%s%s", prefix, name);
        return nb_admin_get(admin, what, path, ret_json, f);
}

int nb_facts_read_request(struct nb_admin *admin, const char *name,
                          struct nb_node_request *ret_request, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char what[WHAT_SIZE];
        int r = get_named(admin, "CSR", NB_CSRS_PATH "/", name, what, &json, f);

        if (r > 0)
                nb_node_request_read(&json, ret_request);
        return json.r < 0 ? json.r : r;
}

int nb_facts_read_token_secret(struct nb_admin *admin, const char *name,
                               struct nb_bootstrap_token *ret_token, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char what[WHAT_SIZE];
        int r = get_named(admin, "the Secret", NB_SECRETS_PATH "/", name, what, &json, f);

        if (r > 0)
                nb_bootstrap_token_read(&json, ret_token);
        return json.r < 0 ? json.r : r;
}

int nb_facts_read_token(struct nb_admin *admin, const char *id,
                        struct nb_bootstrap_token *ret_token, struct nb_failure *f) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];
        int r;

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        r = nb_facts_read_token_secret(admin, name, ret_token, f);
        return r > 0 ? !ret_token->flaw : r;
}

int nb_facts_read_node(struct nb_admin *admin, const char *name, struct nb_node_facts *ret_node,
                       struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char what[WHAT_SIZE];
        int r = get_named(admin, "Node", NB_NODES_PATH "/", name, what, &json, f);

        if (r > 0)
                nb_node_facts_read(&json, ret_node);
        return json.r < 0 ? json.r : r;
}

/* A flaw is what an administrator has to correct; other failures are the caller's. */
static int sort_failure(int r, const struct nb_failure *flaw, struct nb_failure *f) {
        if (flaw->code == NB_ADMIN_FORBIDDEN || flaw->code == NB_ANSWER_MALFORMED)
                return 0;
        if (r < 0)
                *f = *flaw;
        return r;
}

int nb_facts_read_record(struct nb_admin *admin, const char *node,
                         struct nb_node_record *ret_record, struct nb_failure *ret_flaw,
                         struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char name[NB_NODE_RECORD_NAME_SIZE], what[WHAT_SIZE];
        int r;

        nb_node_record_name(node, name);
        r = get_named(admin, "the Secret", NB_SECRETS_PATH "/", name, what, &json, ret_flaw);
        if (r > 0)
                nb_node_record_read(&json, ret_record);
        /* The name of a node may be the hash of another one's. */
        if (r > 0 && json.r >= 0 && strcmp(ret_record->node, node) != 0) {
                json.r = nb_failure_set(ret_flaw, NB_ANSWER_MALFORMED, 0,
                                        "%s: it is the record of node %s", what, ret_record->node);
                *ret_record = (struct nb_node_record){ 0 };
        }
        return sort_failure(json.r < 0 ? json.r : r, ret_flaw, f);
}

/* Reads the policy, and the record of the node, if there is a node. */
static int read_limits(struct nb_admin *admin, const char *node, struct nb_limits *limits,
                       struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char what[WHAT_SIZE];
        int r = get_named(admin, "the ConfigMap", "/api/v1/namespaces/kube-system/configmaps/",
                          NB_POLICY_NAME, what, &json, &limits->policy_flaw);

        if (r > 0)
                nb_policy_read(&json, &limits->policy);
        r = sort_failure(json.r < 0 ? json.r : r, &limits->policy_flaw, f);
        if (r < 0)
                return r;
        limits->has_policy = r > 0;
        if (node[0])
                r = nb_facts_read_record(admin, node, &limits->record, &limits->record_flaw, f);
        return r < 0 ? r : 0;
}

static const char *flaw_of(const struct nb_failure *failure) {
        return failure->code != NB_NONE ? failure->detail : NULL;
}

/* --- The decision --- */

int nb_client_look(struct nb_admin *admin, const struct nb_node_request *request, bool is_asked,
                   struct nb_client_look *look, struct nb_failure *f) {
        struct nb_client_case *facts = &look->facts;
        struct nb_limits *limits = &look->limits;
        enum nb_reason reason;
        int r = 0;

        *facts = (struct nb_client_case){ .request = request,
                                          .proof = NB_ATTESTATION_MISSING,
                                          .is_asked = is_asked };
        if (request->token_id[0])
                r = nb_facts_read_token(admin, request->token_id, &look->token, f);
        if (r < 0)
                return r;
        facts->token = r > 0 ? &look->token : NULL;
        reason = nb_client_judge(facts, NB_REASON_POLICY_UNUSABLE);
        if (reason != NB_REASON_NONE && !is_asked)
                return (int)reason;
        r = read_limits(admin, request->node, limits, f);
        if (r < 0)
                return r;
        facts->is_proof_required = limits->policy.is_proof_required;
        facts->policy_flaw = flaw_of(&limits->policy_flaw);
        facts->record = limits->record.node[0] ? &limits->record : NULL;
        facts->record_flaw = flaw_of(&limits->record_flaw);
        if (facts->record && request->pem)
                facts->proof = nb_attestation_verify(request->pem, request->pem_len,
                                                     request->token_id, limits->record.public_key);
        reason = nb_client_judge(facts, NB_REASON_NODE_READY);
        if (!request->node[0] || (reason != NB_REASON_NONE && !is_asked))
                return (int)reason;
        r = nb_facts_read_node(admin, request->node, &look->node, f);
        if (r < 0)
                return r;
        look->has_node = r > 0;
        facts->is_node_ready = look->node.is_ready;
        return (int)nb_client_judge(facts, NB_REASON_TOKEN_USED);
}

void nb_client_look_done(struct nb_client_look *look) {
        nb_bootstrap_token_done(&look->token);
}

/* --- Serving certificates --- */

/* While an API server starts, none may be there. */
static int add_endpoints(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f) {
        const size_t before = hosts->n;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_admin_get(admin, "reading the Endpoints default/kubernetes",
                             "/api/v1/namespaces/default/endpoints/kubernetes", &json, f);

        if (r > 0)
                r = nb_hosts_add_endpoints(hosts, &json);
        if (r < 0 || hosts->n > before)
                return r;
        return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                              "the addresses of the API servers are not known: the Endpoints "
                              "default/kubernetes do not exist, or are empty");
}

static int add_cluster_info(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        struct nb_kubeconfig_input input = { .origin = "kubeconfig in cluster-info" };
        const char *text;
        int r = nb_admin_get(admin, "reading cluster-info", NB_CLUSTER_INFO_PATH, &json, f);

        if (r <= 0)
                return r;
        text = nb_json_string(&json, "data.kubeconfig");
        input.text = text ? text : "";
        input.len = strlen(input.text);
        r = nb_kubeconfig_parse(&nb_kubeconfig_cluster_info, &input, &cluster, NULL, f);
        if (r < 0)
                return r;
        nb_hosts_add(hosts, NB_OWNER_CLUSTER, cluster.server.host, "the API server");
        return 0;
}

/* The names in the certificate of the API server that answered. Its other names are in no object of
 * the cluster, and clients accept a certificate of a node for each of them. */
static int add_server_names(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f) {
        const char *pem = nb_http_certificate_of_server(admin->api.http);
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        char name[NB_HOST_SIZE + 1];
        int r = pem ? nb_certificates_parse(pem, strlen(pem), false, &chain) : -EAGAIN;

        for (unsigned n = 0; r >= 0; n++) {
                r = nb_certificate_name(chain, 0, n, name, sizeof(name));
                if (r > 0)
                        nb_hosts_add(hosts, NB_OWNER_CLUSTER, name, "the API server's certificate");
        }
        /* After the last name it is -ENOENT. */
        return chain ? 0
                     : nb_failure_set(f, NB_ANSWER_MALFORMED, r == -ENOMEM ? r : 0,
                                      "the names in the API server's certificate are not known");
}

/* Kubernetes before 1.33 has none, and a permission may be missing. */
static int add_service_networks(struct nb_admin *admin, struct nb_hosts *hosts,
                                struct nb_failure *f) {
        struct nb_failure missing = { 0 };
        int r = nb_admin_list(admin, "listing the ServiceCIDRs",
                              "/apis/networking.k8s.io/v1/servicecidrs",
                              nb_hosts_add_service_network, hosts, NULL, &missing);

        if (r < 0 && missing.code != NB_ADMIN_MISSING && missing.code != NB_ADMIN_FORBIDDEN) {
                *f = missing;
                return r;
        }
        return 0;
}

static int verify_room(const struct nb_hosts *hosts, const char *what, struct nb_failure *f) {
        if (hosts->error == -E2BIG)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "%s: more than %d names, addresses and networks, or one "
                                      "object with too many",
                                      what, NB_HOSTS_MAX);
        return hosts->error < 0 ? nb_failure_set_memory(f) : 0;
}

/* Without permission to read one of them, nothing is approved: a certificate for a name of the API
 * server would be the worst mistake. */
int nb_facts_read_hosts(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f) {
        static const struct {
                const char *what, *path;
                nb_admin_visit *visit;
        } lists[] = {
                { "listing the Services", "/api/v1/services", nb_hosts_add_service },
                { "listing the enrolled nodes", NB_RECORDS_PATH, nb_hosts_add_record },
                { "listing the Nodes", NB_NODES_PATH, nb_hosts_add_node },
        };
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(lists) && r >= 0; i++) {
                r = nb_admin_list(admin, lists[i].what, lists[i].path, lists[i].visit, hosts, NULL,
                                  f);
                if (r >= 0)
                        r = verify_room(hosts, lists[i].what, f);
        }
        if (r >= 0)
                r = add_endpoints(admin, hosts, f);
        if (r >= 0)
                r = add_cluster_info(admin, hosts, f);
        if (r >= 0)
                r = add_service_networks(admin, hosts, f);
        if (r >= 0)
                r = add_server_names(admin, hosts, f);
        if (r < 0)
                return r;
        nb_hosts_add(hosts, NB_OWNER_CLUSTER, admin->cluster.server.host, "the API server");
        nb_hosts_add(hosts, NB_OWNER_CLUSTER, admin->cluster.tls_server_name, "the API server");
        r = verify_room(hosts, "reading the names of the API server", f);
        if (r >= 0)
                hosts->read_ms = nb_now_ms();
        return r;
}

int nb_facts_verify_service_networks(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        struct nb_limits limits = { 0 };
        int r = read_limits(admin, "", &limits, f);

        if (r >= 0)
                r = add_service_networks(admin, &hosts, f);
        if (r < 0 || hosts.has_service_networks || limits.policy.service_networks[0])
                return r;
        return nb_failure_set(f, NB_USAGE, 0,
                              "the part approve-serving must know the networks of Services: set "
                              "serviceNetworks in the ConfigMap kube-system/" NB_POLICY_NAME "%s%s",
                              flaw_of(&limits.policy_flaw) ? "; " : "", limits.policy_flaw.detail);
}

int nb_serving_look(struct nb_admin *admin, const struct nb_node_request *request,
                    struct nb_hosts *hosts, struct nb_serving_look *look,
                    char ret_reason[static NB_SERVING_REASON_SIZE], struct nb_failure *f) {
        struct nb_serving_case *facts = &look->facts;
        struct nb_limits *limits = &look->limits;
        enum nb_serving_verdict verdict;
        int r;

        *facts = (struct nb_serving_case){ .request = request, .hosts = hosts };
        verdict = nb_serving_decide(facts, NB_SERVING_MALFORMED, NB_SERVING_MALFORMED, ret_reason);
        if (verdict != NB_SERVING_APPROVED)
                return (int)verdict;
        r = read_limits(admin, request->node, limits, f);
        if (r < 0)
                return r;
        facts->policy = limits->has_policy ? &limits->policy : NULL;
        facts->policy_flaw = flaw_of(&limits->policy_flaw);
        facts->record = limits->record.node[0] && limits->record.removed == 0 ? &limits->record
                                                                              : NULL;
        facts->record_flaw = flaw_of(&limits->record_flaw);
        facts->is_removed = limits->record.removed != 0 &&
                            limits->record.removed >= request->created;
        verdict = nb_serving_decide(facts, NB_SERVING_MALFORMED + 1, NB_SERVING_NO_NODE - 1,
                                    ret_reason);
        if (verdict != NB_SERVING_APPROVED)
                return (int)verdict;
        r = nb_facts_read_node(admin, request->node, &look->node, f);
        if (r < 0)
                return r;
        facts->node = r > 0 ? &look->node : NULL;
        return (int)nb_serving_decide(facts, NB_SERVING_NO_NODE, _NB_SERVING_VERDICT_N - 1,
                                      ret_reason);
}

/* --- Writing --- */

int nb_csr_decide(struct nb_admin *admin, const struct nb_node_request *request, const char *type,
                  const char *reason, const char *message, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        char path[NB_ADMIN_PATH_MAX], what[NB_CSR_NAME_MAX + 32];
        int r;

        snprintf(what, sizeof(what), "deciding CSR %s", request->name);
        snprintf(path, sizeof(path), NB_CSRS_PATH "/%s/approval", request->name);
        /* The API server sets lastUpdateTime by its own clock, as it sets that of a new Node. */
        nb_json_format(&body,
                       "{'metadata':{'uid':%s,'resourceVersion':%s},'status':{'conditions':[{"
                       "'type':%s,'status':'True','reason':%s,'message':%s}]}}",
                       request->uid, request->resource_version, type, reason, message);
        r = nb_admin_send(admin, "PATCH", what, path, &body, NULL, f);
        return r < 0 ? r : r < 300;
}

int nb_secret_delete(struct nb_admin *admin, const char *name, const char *uid,
                     const char *resource_version, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        char path[NB_ADMIN_PATH_MAX], what[WHAT_SIZE];
        int r;

        snprintf(what, sizeof(what), "deleting the Secret %s", name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        /* The API server ignores a precondition that is null. */
        nb_json_format(&body,
                       "{'apiVersion':'v1','kind':'DeleteOptions',"
                       "'preconditions':{'uid':%s,'resourceVersion':%s}}",
                       uid, resource_version);
        r = nb_admin_send(admin, "DELETE", what, path, &body, NULL, f);
        return r < 0 ? r : r < 300;
}
