/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/commands/request_review.h"
#include "admin/policy/verdict.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

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

static int read_claim(struct nb_admin *admin, struct nb_review *review, struct nb_failure *f) {
        const struct nb_bootstrap_token *token = review->look.facts.token;
        int r;

        if (!token || !token->node[0])
                return 0;
        r = nb_claim_look(admin, token, review->request.facts.key, &review->other, f);
        if (r < 0)
                return r;
        review->look.facts.claim = (enum nb_claim_state)r;
        review->look.facts.claimed_by = review->other.csr_name;
        return 0;
}

/* --- Verdicts --- */

/* kube-controller-manager usually approves these automatically. */
static bool is_renewal(const struct nb_node_request *request) {
        return request->node[0] && !request->flaw[0] && request->is_group_exact &&
               strcmp(request->username, request->facts.common_name) == 0;
}

/* Of another one than it names: no node has a reason to ask for the certificate of another. */
static bool is_of_a_node(const struct nb_node_request *request) {
        static const char prefix[] = "system:node:";

        return request->is_group_exact || !strncmp(request->username, prefix, strlen(prefix));
}

static const char *name_proof(const struct nb_client_case *facts) {
        static const char *const names[] = {
                [NB_ATTESTATION_VALID] = "valid",
                [NB_ATTESTATION_MISSING] = "missing",
                [NB_ATTESTATION_INVALID] = "INVALID",
                [NB_ATTESTATION_UNUSABLE] = "INVALID",
        };

        return facts->record && facts->record->public_key[0] ? names[facts->proof] : "-";
}

static int judge_client(struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        const struct nb_client_case *facts = &review->look.facts;
        enum nb_reason reason = nb_client_judge(facts, _NB_REASON_N);
        char text[NB_REASON_TEXT_SIZE];

        if (is_renewal(request))
                return set_verdict(review, false, "ok: node %s itself renews its certificate",
                                   request->node);
        if (reason == NB_REASON_NOT_A_TOKEN) {
                review->is_forcible = !is_of_a_node(request);
                return set_verdict(review, true,
                                   "FORGED? another user, '%s', asks for node '%s'%s%s",
                                   request->username, request->facts.common_name,
                                   request->flaw[0] ? ", and " : "", request->flaw);
        }
        nb_reason_describe(reason, facts, text);
        if (reason == NB_REASON_NODE_READY)
                return set_verdict(review, true,
                                   "TAKEOVER? the Node %s is Ready: this would take over a running "
                                   "node",
                                   request->node);
        if (reason != NB_REASON_NONE)
                return set_verdict(review, true, "%s%s",
                                   nb_reason_verdict(reason) == NB_VERDICT_REFUSE ? "FORGED? " : "",
                                   text);
        if (facts->token->node[0])
                return set_verdict(review, false, "ok: token %s is for node %s", request->token_id,
                                   request->node);
        if (!strcmp(review->proof, "valid"))
                return set_verdict(review, false,
                                   "ok: the proof by the enrolled key of node %s is valid",
                                   request->node);
        return set_verdict(review, false,
                           "check it: token %s is unbound, so whoever has it can ask for %s",
                           request->token_id, request->node);
}

static int review_serving(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_review *review,
                          struct nb_failure *f) {
        _cleanup_(nb_freep) struct nb_serving_look *look = calloc(1, sizeof(*look));
        char reason[NB_SERVING_REASON_SIZE];
        int r = look ? 0 : nb_failure_set_memory(f);

        if (r >= 0 && review->request.node[0])
                r = nb_facts_read_node(admin, review->request.node, &review->look.node, f);
        review->look.has_node = r > 0;
        /* The list may be long. */
        if (r >= 0 && (hosts->read_ms == 0 || nb_now_ms() - hosts->read_ms > NB_HOSTS_AGE_MAX_MS)) {
                nb_hosts_done(hosts);
                r = nb_facts_read_hosts(admin, hosts, f);
        }
        if (r >= 0)
                r = nb_serving_look(admin, &review->request, hosts, look, reason, f);
        if (r < 0)
                return r;
        review->is_forcible = nb_serving_is_forcible((enum nb_serving_verdict)r);
        if (r == NB_SERVING_APPROVED)
                return set_verdict(review, false,
                                   "ok: node %s itself asks, and all names are allowed to it",
                                   review->request.node);
        return set_verdict(
                review, true, "%s%s",
                r == NB_SERVING_MALFORMED || r == NB_SERVING_NOT_ITS_OWN ? "FORGED? " : "", reason);
}

int nb_review_make(struct nb_admin *admin, struct nb_hosts *hosts, struct nb_review *review,
                   struct nb_failure *f) {
        struct nb_client_look *look = &review->look;
        int r;

        review->proof = "-";
        if (review->request.kind == NB_NODE_REQUEST_SERVING)
                return review_serving(admin, hosts, review, f);
        review->is_forcible = true;
        r = nb_client_look(admin, &review->request, true, look, f);
        if (r < 0)
                return r;
        r = read_claim(admin, review, f);
        if (r < 0)
                return r;
        review->proof = name_proof(&look->facts);
        return judge_client(review);
}

void nb_review_done(struct nb_review *review) {
        nb_client_look_done(&review->look);
        nb_node_request_done(&review->request);
}
