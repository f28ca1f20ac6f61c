/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

/* --- Reading --- */

/* Appends to a path of at most NB_ADMIN_PATH_MAX bytes. */
static void add_segment(char *path, const char *name, const char *end) {
        size_t n = strlen(path);

        for (; *name && n < NB_ADMIN_PATH_MAX; name++)
                n += (size_t)snprintf(path + n, NB_ADMIN_PATH_MAX - n,
                                      strchr(NB_LOWER NB_UPPER NB_DIGITS "-_.~", *name) ? "%c"
                                                                                        : "%%%02X",
                                      (unsigned char)*name);
        if (n < NB_ADMIN_PATH_MAX)
                snprintf(path + n, NB_ADMIN_PATH_MAX - n, "%s", end);
}

/* The beginnings of a message and of the path, before the name of the object. */
static const struct {
        const char *what, *path;
} reads[_NB_READ_N] = {
        [NB_READ_REQUEST] = { "reading CSR ", NB_CSRS_PATH "/" },
        [NB_READ_TOKEN] = { "reading the Secret " NB_TOKEN_SECRET_NAME_PREFIX,
                            NB_SECRETS_PATH "/" NB_TOKEN_SECRET_NAME_PREFIX },
        [NB_READ_POLICY] = { "reading the ConfigMap ",
                             "/api/v1/namespaces/kube-system/configmaps/" },
        [NB_READ_RECORD] = { "reading the Secret ", NB_SECRETS_PATH "/" },
        [NB_READ_NODE] = { "reading Node ", NB_NODES_PATH "/" },
        [NB_READ_CLAIM] = { "reading the claim of token ",
                            NB_LEASES_PATH "/" NB_CLAIM_NAME_PREFIX },
};

void nb_facts_add(struct nb_plan *plan, enum nb_read read, const char *name) {
        char path[NB_ADMIN_PATH_MAX], what[NB_ADMIN_WHAT_MAX], record[NB_NODE_RECORD_NAME_SIZE];

        if (read == NB_READ_RECORD) {
                nb_node_record_name(name, record);
                name = record;
        }
        snprintf(path, sizeof(path), "%s", reads[read].path);
        add_segment(path, name, "");
        snprintf(what, sizeof(what), "%s%s", reads[read].what, name);
        (void)nb_plan_read(plan, read, path, what);
}

/* Parses the answer. 1; 0: there is no such read or object. */
static int take_read(struct nb_plan *plan, struct nb_admin *admin, enum nb_read read,
                     struct nb_json *ret_json, struct nb_failure *f) {
        return plan->reads[read].method ? nb_call_read(&plan->reads[read], admin, ret_json, f) : 0;
}

int nb_facts_take_request(struct nb_plan *plan, struct nb_admin *admin,
                          struct nb_node_request *ret_request, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = take_read(plan, admin, NB_READ_REQUEST, &json, f);

        if (r > 0)
                nb_node_request_read(&json, ret_request);
        return json.r < 0 ? json.r : r;
}

int nb_facts_take_token(struct nb_plan *plan, struct nb_admin *admin,
                        struct nb_bootstrap_token *ret_token, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = take_read(plan, admin, NB_READ_TOKEN, &json, f);

        if (r > 0)
                nb_bootstrap_token_read(&json, ret_token);
        if (json.r < 0 || r <= 0)
                return json.r < 0 ? json.r : r;
        return !ret_token->flaw;
}

int nb_facts_take_node(struct nb_plan *plan, struct nb_admin *admin, struct nb_node_facts *ret_node,
                       struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = take_read(plan, admin, NB_READ_NODE, &json, f);

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

int nb_facts_take_record(struct nb_plan *plan, struct nb_admin *admin, const char *node,
                         struct nb_node_record *ret_record, struct nb_failure *ret_flaw,
                         struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = take_read(plan, admin, NB_READ_RECORD, &json, ret_flaw);

        if (node[0] && !plan->reads[NB_READ_RECORD].method)
                (void)nb_failure_set(ret_flaw, NB_ANSWER_MALFORMED, 0,
                                     "the record of node %s was not read", node);
        if (r > 0)
                nb_node_record_read(&json, ret_record);
        /* The name of a node may be the hash of another one's. */
        if (r > 0 && json.r >= 0 && strcmp(ret_record->node, node) != 0) {
                json.r = nb_failure_set(ret_flaw, NB_ANSWER_MALFORMED, 0,
                                        "%s: it is the record of node %s", json.what,
                                        ret_record->node);
                *ret_record = (struct nb_node_record){ 0 };
        }
        return sort_failure(json.r < 0 ? json.r : r, ret_flaw, f);
}

int nb_facts_take_policy(struct nb_plan *plan, struct nb_admin *admin, struct nb_policy *ret_policy,
                         struct nb_failure *ret_flaw, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = take_read(plan, admin, NB_READ_POLICY, &json, ret_flaw);

        if (r > 0)
                nb_policy_read(&json, ret_policy);
        else if (r == 0) {
                (void)nb_failure_set(ret_flaw, NB_ADMIN_MISSING, 0,
                                     "there is no ConfigMap kube-system/" NB_POLICY_NAME);
                return 0;
        }
        return sort_failure(json.r < 0 ? json.r : r, ret_flaw, f);
}

int nb_facts_read_policy(struct nb_admin *admin, struct nb_policy *ret_policy,
                         struct nb_failure *ret_flaw, struct nb_failure *f) {
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        int r;

        nb_facts_add(&plan, NB_READ_POLICY, NB_POLICY_NAME);
        r = nb_plan_perform(&plan, admin, f);
        return r < 0 ? r : nb_facts_take_policy(&plan, admin, ret_policy, ret_flaw, f);
}

const char *nb_facts_flaw(const struct nb_failure *flaw) {
        return flaw->code != NB_NONE ? flaw->detail : NULL;
}

/* --- All facts --- */

void nb_look_add(struct nb_plan *plan, const char *token_id, const char *node) {
        nb_facts_add(plan, NB_READ_POLICY, NB_POLICY_NAME);
        if (token_id[0])
                nb_facts_add(plan, NB_READ_TOKEN, token_id);
        if (node[0]) {
                nb_facts_add(plan, NB_READ_RECORD, node);
                nb_facts_add(plan, NB_READ_NODE, node);
        }
}

int nb_look_take(struct nb_plan *plan, struct nb_admin *admin,
                 const struct nb_node_request *request, struct nb_look *look,
                 struct nb_failure *f) {
        struct nb_request_case *facts = &look->facts;
        int r = nb_facts_take_token(plan, admin, &look->token, f);

        *facts = (struct nb_request_case){ .request = request,
                                           .policy = &look->policy,
                                           .token = r > 0 ? &look->token : NULL,
                                           .claimed_by = "" };
        if (r >= 0)
                r = nb_facts_take_policy(plan, admin, &look->policy, &look->policy_flaw, f);
        if (r >= 0)
                r = nb_facts_take_record(plan, admin, request->node, &look->record,
                                         &look->record_flaw, f);
        facts->record = r > 0 ? &look->record : NULL;
        facts->policy_flaw = nb_facts_flaw(&look->policy_flaw);
        facts->record_flaw = nb_facts_flaw(&look->record_flaw);
        if (r >= 0)
                r = nb_facts_take_node(plan, admin, &look->node, f);
        facts->node = r > 0 ? &look->node : NULL;
        if (r >= 0)
                nb_request_case_prove(facts);
        return r < 0 ? r : 0;
}

void nb_look_done(struct nb_look *look) {
        nb_bootstrap_token_done(&look->token);
}

int nb_facts_read_hosts(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_failure *f) {
        int r = nb_admin_list(admin, "the Nodes", NB_NODES_PATH, nb_hosts_add_object, hosts, f);

        /* What was added last is found first: a message names the record before the claim. */
        hosts->is_incomplete |= r > 0;
        if (r >= 0)
                r = nb_admin_list(admin, "the enrolled nodes", NB_RECORDS_PATH, nb_hosts_add_object,
                                  hosts, f);
        if (r < 0)
                return r;
        hosts->is_incomplete |= r > 0;
        hosts->read_ms = nb_now_ms();
        return 0;
}

/* --- Writing --- */

void nb_csr_add_decision(struct nb_plan *plan, const struct nb_node_request *request,
                         const char *type, const char *reason, const char *message) {
        char path[NB_ADMIN_PATH_MAX] = NB_CSRS_PATH "/", what[NB_ADMIN_WHAT_MAX];
        struct nb_admin_call *call;

        add_segment(path, request->name, "/approval");
        snprintf(what, sizeof(what), "deciding CSR %s", request->name);
        call = nb_plan_write(plan, "PATCH", path, what);
        /* The API server sets lastUpdateTime by its own clock, as it sets that of a new Node. */
        nb_json_format(&call->body,
                       "{'metadata':{'uid':%s,'resourceVersion':%s},'status':{'conditions':[{"
                       "'type':%s,'status':'True','reason':%s,'message':%s}]}}",
                       request->uid, request->resource_version, type, reason, message);
}

void nb_secret_add_deletion(struct nb_plan *plan, const char *name, const char *uid,
                            const char *resource_version) {
        char path[NB_ADMIN_PATH_MAX] = NB_SECRETS_PATH "/", what[NB_ADMIN_WHAT_MAX];
        struct nb_admin_call *call;

        add_segment(path, name, "");
        snprintf(what, sizeof(what), "deleting the Secret %s", name);
        call = nb_plan_write(plan, "DELETE", path, what);
        /* The API server ignores a precondition that is null. */
        nb_json_format(&call->body,
                       "{'apiVersion':'v1','kind':'DeleteOptions',"
                       "'preconditions':{'uid':%s,'resourceVersion':%s}}",
                       uid, resource_version);
}
