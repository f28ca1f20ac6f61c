/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/commands/request_review.h"
#include "admin/policy/verdict.h"
#include "base/macro.h"
#include "base/text.h"

#define WHAT_SIZE (NB_NODE_NAME_MAX + 64)

static int __attribute__((format(printf, 3, 4)))
set_verdict(struct nb_review *review, bool is_suspicious, const char *format, ...) {
        char text[NB_REVIEW_VERDICT_SIZE];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        NB_TEXT_COPY_LINE(review->verdict, text);
        review->is_suspicious = is_suspicious;
        return 0;
}

/* --- Facts --- */

/* A Secret that is not a correct token cannot authenticate, so it is treated as missing. */
static int read_token(struct nb_admin *admin, struct nb_review *review, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure malformed = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[WHAT_SIZE];
        int r;

        if (!review->request.token_id[0])
                return 0;
        snprintf(what, sizeof(what), "reading token %s", review->request.token_id);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/" NB_TOKEN_SECRET_NAME_PREFIX "%s",
                 review->request.token_id);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r <= 0)
                return r;
        json.f = &malformed;
        nb_bootstrap_token_read(&json, &review->token);
        if (json.r < 0 && malformed.code == NB_INTERNAL)
                return nb_failure_set_memory(f);
        review->has_token = json.r >= 0;
        return 0;
}

static int read_node(struct nb_admin *admin, struct nb_review *review, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[WHAT_SIZE];
        const char *ready;
        int r;

        if (!review->request.node[0])
                return 0;
        snprintf(what, sizeof(what), "reading Node %s", review->request.node);
        snprintf(path, sizeof(path), NB_NODES_PATH "/%s", review->request.node);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r <= 0)
                return r;
        ready = nb_json_string(&json, "status.conditions[type=Ready].status");
        nb_serving_node_read(&json, &review->node);
        review->is_node_found = true;
        review->is_node_ready = ready && strcmp(ready, "True") == 0;
        return json.r;
}

static int read_claim(struct nb_admin *admin, const struct nb_review *review,
                      struct nb_client_case *facts, struct nb_claim *other, struct nb_failure *f) {
        char key[NB_CLAIM_KEY_SIZE];
        int r;

        if (!review->has_token || !review->token.node[0])
                return 0;
        nb_claim_format_key(&review->request, key);
        r = nb_claim_look(admin, &review->token, key, other, f);
        if (r < 0)
                return r;
        facts->claim = (enum nb_claim_state)r;
        facts->claimed_by = other->csr_name;
        return 0;
}

static int read_entry(struct nb_inventory *inventory, struct nb_review *review,
                      enum nb_attestation_verdict *ret_attestation, struct nb_failure *f) {
        static const char *const names[] = {
                [NB_ATTESTATION_VALID] = "valid",
                [NB_ATTESTATION_MISSING] = "missing",
                [NB_ATTESTATION_INVALID] = "INVALID",
                [NB_ATTESTATION_UNUSABLE] = "key unusable",
        };
        const struct nb_node_request *request = &review->request;
        int r;

        *ret_attestation = NB_ATTESTATION_MISSING;
        review->proof = inventory->path ? "not enrolled" : "-";
        r = nb_inventory_find(inventory, request->node, &review->entry, f);
        if (r <= 0)
                return r;
        review->has_entry = true;
        if (!review->entry.public_key[0])
                return 0;
        if (request->pem)
                *ret_attestation = nb_attestation_verify(request->pem, request->pem_len,
                                                         review->entry.public_key);
        review->proof = names[*ret_attestation];
        return 0;
}

/* --- Verdicts --- */

/* kube-controller-manager usually approves these automatically. */
static bool is_renewal(const struct nb_node_request *request) {
        return request->node[0] && !request->flaw[0] && request->is_group_exact &&
               strcmp(request->username, request->facts.common_name) == 0;
}

static int judge_client(struct nb_review *review, struct nb_client_case *facts) {
        const struct nb_node_request *request = &review->request;
        bool is_unbound = review->has_token && !review->token.node[0];
        char text[NB_REASON_TEXT_SIZE];
        enum nb_reason reason;

        if (is_renewal(request))
                return set_verdict(review, false, "ok: node %s itself renews its certificate",
                                   request->node);
        if (!request->token_id[0])
                return set_verdict(review, true,
                                   "FORGED? another user, '%s', asks for node '%s'%s%s",
                                   request->username, request->facts.common_name,
                                   request->flaw[0] ? ", and " : "", request->flaw);
        /* Without an inventory, judge a token for any node as if it were for this one, so that
         * all other checks run. */
        if (is_unbound && !facts->has_inventory)
                strcpy(review->token.node, request->node[0] ? request->node : "-");
        reason = nb_client_judge(facts);
        nb_reason_describe(reason, facts, text);
        if (is_unbound)
                review->token.node[0] = '\0';
        if (reason == NB_REASON_NODE_READY)
                return set_verdict(review, true,
                                   "TAKEOVER? the Node %s is Ready: this would take over a running "
                                   "node",
                                   request->node);
        if (reason != NB_REASON_NONE)
                return set_verdict(review, true, "FORGED? %s", text);
        if (is_unbound && facts->has_inventory)
                return set_verdict(review, false,
                                   "ok: token %s is for any node, and the inventory lists %s",
                                   request->token_id, request->node);
        if (is_unbound)
                return set_verdict(review, false,
                                   "check it: token %s is for any node, so whoever has it can ask "
                                   "for %s",
                                   request->token_id, request->node);
        return set_verdict(review, false, "ok: token %s is for node %s", request->token_id,
                           request->node);
}

static bool is_among(const char *text, const char (*names)[NB_REQUEST_TEXT_SIZE], unsigned n) {
        for (unsigned i = 0; i < n; i++)
                if (strcmp(text, names[i]) == 0)
                        return true;
        return false;
}

static bool is_listed(const char *text, const struct nb_inventory_node *entry) {
        for (unsigned i = 0; i < entry->n_names; i++)
                if (strcmp(text, entry->names[i]) == 0)
                        return true;
        return entry->n_names == 0;
}

/* The controller's policy needs prefixes and suffixes of the cluster; an administrator sees the
 * names. So compare them with what is known without these. */
static int judge_serving(struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        const struct nb_serving_node *node = &review->node;

        if (request->flaw[0])
                return set_verdict(review, true, "FORGED? %s", request->flaw);
        if (!review->is_node_found)
                return set_verdict(review, true, "FORGED? there is no Node %s", request->node);
        for (unsigned i = 0; i < request->facts.n_names; i++) {
                const char *text = request->facts.names[i].text;

                if (!is_among(text, node->addresses, node->n_addresses))
                        return set_verdict(review, true,
                                           "FORGED? '%s' is not an address of Node %s", text,
                                           request->node);
                if (review->has_entry && !is_listed(text, &review->entry))
                        return set_verdict(review, true,
                                           "FORGED? the inventory does not list '%s' for node %s",
                                           text, request->node);
        }
        return set_verdict(review, false,
                           "ok: node %s itself asks, and all names are addresses of its Node",
                           request->node);
}

int nb_review_make(struct nb_admin *admin, struct nb_inventory *inventory, struct nb_review *review,
                   struct nb_failure *f) {
        struct nb_client_case facts = {
                .token_id = review->request.token_id,
                .node = review->request.node,
                .flaw = review->request.flaw,
                .has_inventory = inventory->path,
                .requested = review->request.created,
                .now = time(NULL),
        };
        struct nb_failure unusable = { 0 };
        struct nb_claim other = { 0 };
        int r;

        r = read_entry(inventory, review, &facts.attestation, &unusable);
        if (r < 0)
                return set_verdict(review, true, "the inventory is unusable: %s", unusable.detail);
        r = read_token(admin, review, f);
        if (r < 0)
                return r;
        r = read_node(admin, review, f);
        if (r < 0)
                return r;
        if (review->request.kind == NB_NODE_REQUEST_SERVING)
                return judge_serving(review);
        r = read_claim(admin, review, &facts, &other, f);
        if (r < 0)
                return r;
        facts.token = review->has_token ? &review->token : NULL;
        facts.entry = review->has_entry ? &review->entry : NULL;
        facts.is_node_ready = review->is_node_ready;
        return judge_client(review, &facts);
}

void nb_review_done(struct nb_review *review) {
        nb_bootstrap_token_done(&review->token);
        nb_node_request_done(&review->request);
}
