/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `node-bootstrap-admin approve`: the facts for an administrator's decision on a request of a node,
 * and objections to it, by the functions that the controller calls. Unlike the controller, an
 * administrator may approve requests of unbound tokens.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "admin/policy/node_request.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

#define LINE "%-53s %-20s %-7s  %-20s  %-9s  %s\n"

struct approve {
        struct nb_admin admin;
        struct nb_hosts hosts;
        bool is_forced, is_denying, has_header;
};

struct review {
        struct nb_node_request request; /* of a known kind */
        struct nb_client_look look;     /* not for a serving certificate */
        struct nb_claim other;          /* of the token, if another key has claimed it */
        const char *proof;              /* "valid", "missing", ...; "-": not enrolled */
        const char *approval;           /* why it may be approved; NULL: there is an objection */
        struct nb_failure objection;
        bool is_forcible; /* --force overrides it */
};

static void review_done(struct review *review) {
        nb_client_look_done(&review->look);
        nb_node_request_done(&review->request);
}

/* --- Reviewing --- */

/* Reads the claim of a bound token, or makes it: such a token is for one use, whoever approves. */
static int read_claim(struct nb_admin *admin, struct review *review, bool is_making,
                      struct nb_failure *f) {
        const struct nb_node_request *request = &review->request;
        struct nb_client_case *facts = &review->look.facts;
        int r;

        if (!facts->token || !request->node[0] || strcmp(facts->token->node, request->node) != 0)
                return 0;
        r = is_making ? nb_claim_make(admin, facts->token, request->name, request->facts.key,
                                      &review->other, f)
                      : nb_claim_look(admin, facts->token, request->facts.key, &review->other, f);
        if (r < 0)
                return r;
        facts->claim = (enum nb_claim_state)r;
        facts->claimed_by = review->other.csr_name;
        return 0;
}

/* kube-controller-manager usually approves these automatically. */
static bool is_renewal(const struct nb_node_request *request) {
        return request->node[0] && !request->flaw[0] && request->is_group_exact &&
               strcmp(request->username, request->facts.common_name) == 0;
}

/* Of another one than it names: no node has a reason to ask for the certificate of another. */
static bool is_of_a_node(const struct nb_node_request *request) {
        return request->is_group_exact ||
               !strncmp(request->username, "system:node:", strlen("system:node:"));
}

static void judge_client(struct review *review) {
        static const char *const proofs[] = {
                [NB_ATTESTATION_VALID] = "valid",
                [NB_ATTESTATION_MISSING] = "missing",
                [NB_ATTESTATION_INVALID] = "INVALID",
                [NB_ATTESTATION_UNUSABLE] = "INVALID",
        };
        const struct nb_node_request *request = &review->request;
        const struct nb_client_case *facts = &review->look.facts;
        const enum nb_reason reason = nb_client_judge(facts, _NB_REASON_N);
        const char *prefix = "";
        char text[NB_REASON_TEXT_SIZE];

        review->approval = NULL;
        review->proof = facts->record && facts->record->public_key[0] ? proofs[facts->proof] : "-";
        review->is_forcible = reason != NB_REASON_NOT_A_TOKEN || !is_of_a_node(request);
        if (is_renewal(request))
                review->approval = "ok: the node itself renews its certificate";
        else if (reason == NB_REASON_NOT_A_TOKEN)
                (void)nb_failure_set(&review->objection, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                                     "FORGED? another user, '%s', asks for node '%s'%s%s",
                                     request->username, request->facts.common_name,
                                     request->flaw[0] ? ", and " : "", request->flaw);
        else if (reason != NB_REASON_NONE) {
                if (nb_reason_verdict(reason) == NB_VERDICT_REFUSE)
                        prefix = "FORGED? ";
                if (reason == NB_REASON_NODE_READY)
                        prefix = "TAKEOVER? ";
                (void)nb_failure_set(&review->objection, NB_ADMIN_REQUEST_SUSPICIOUS, 0, "%s%s",
                                     prefix, nb_reason_describe(reason, facts, text));
        } else if (facts->token->node[0])
                review->approval = "ok: the token is for this node";
        else if (!strcmp(review->proof, "valid"))
                review->approval = "ok: the proof by the enrolled key of the node is valid";
        else
                review->approval = "check it: the token is unbound, so whoever has it can ask for "
                                   "any node";
}

static int review_serving(struct approve *approve, struct review *review, struct nb_failure *f) {
        _cleanup_(nb_freep) struct nb_serving_look *look = calloc(1, sizeof(*look));
        struct nb_hosts *hosts = &approve->hosts;
        char reason[NB_SERVING_REASON_SIZE];
        int r = look ? 0 : nb_failure_set_memory(f);

        /* The list may be long. */
        if (r >= 0 && !nb_hosts_is_fresh(hosts, nb_now_ms())) {
                nb_hosts_done(hosts);
                r = nb_facts_read_hosts(&approve->admin, hosts, f);
        }
        if (r >= 0)
                r = nb_serving_look(&approve->admin, &review->request, hosts, look, reason, f);
        if (r < 0)
                return r;
        review->proof = "-";
        review->is_forcible = nb_serving_is_forcible((enum nb_serving_verdict)r);
        if (r == NB_SERVING_APPROVED)
                review->approval = "ok: the node itself asks, and all names are allowed to it";
        else
                (void)nb_failure_set(
                        &review->objection, NB_ADMIN_REQUEST_SUSPICIOUS, 0, "%s%s",
                        r == NB_SERVING_MALFORMED || r == NB_SERVING_NOT_ITS_OWN ? "FORGED? " : "",
                        reason);
        return 0;
}

static int review_request(struct approve *approve, struct review *review, struct nb_failure *f) {
        int r;

        if (review->request.kind == NB_NODE_REQUEST_SERVING)
                return review_serving(approve, review, f);
        r = nb_client_look(&approve->admin, &review->request, true, &review->look, f);
        if (r >= 0)
                r = read_claim(&approve->admin, review, false, f);
        if (r >= 0)
                judge_client(review);
        return r;
}

/* --- Showing --- */

static int show_request(void *userdata, struct nb_json *item) {
        _cleanup_(review_done) struct review review = { 0 };
        const struct nb_node_request *request = &review.request;
        const char *description = review.look.token.description, *state = "absent";
        struct approve *approve = userdata;
        char created[NB_RFC3339_SIZE];
        int r;

        nb_node_request_read(item, &review.request);
        if (item->r < 0 || request->kind == NB_NODE_REQUEST_OTHER ||
            request->state != NB_CSR_STATE_PENDING)
                return item->r;
        r = review_request(approve, &review, item->f);
        if (r < 0)
                return r;
        if (!approve->has_header)
                printf(LINE, "NAME", "NODE", "KIND", "CREATED", "NODE IS", "PROOF");
        approve->has_header = true;
        if (request->kind == NB_NODE_REQUEST_SERVING)
                state = "-";
        else if (review.look.has_node)
                state = review.look.node.is_ready ? "Ready" : "not Ready";
        nb_time_format(request->created, created);
        printf(LINE, request->name, request->node[0] ? request->node : "?",
               request->kind == NB_NODE_REQUEST_CLIENT ? "client" : "serving", created, state,
               review.proof);
        printf("    requested by %s%s%s%s\n", request->username, description[0] ? " (" : "",
               description, description[0] ? ")" : "");
        for (unsigned i = 0; i < request->facts.n_names; i++)
                printf("    name: %s\n", request->facts.names[i].text);
        printf("    %s\n", review.approval ? review.approval : review.objection.detail);
        return 0;
}

/* --- Deciding --- */

static int verify_unsuspicious(const struct approve *approve, const struct review *review,
                               struct nb_failure *f) {
        if (review->approval || approve->is_denying || (approve->is_forced && review->is_forcible))
                return 0;
        (void)nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0, "%s: %s", review->request.name,
                             review->objection.detail);
        if (review->is_forcible)
                nb_failure_add(f, "; --force approves it");
        return -EPERM;
}

/* UID and resourceVersion are those of the request that was reviewed. */
static int write_decision(struct approve *approve, const struct nb_node_request *request,
                          struct nb_failure *f) {
        const bool is_denying = approve->is_denying;
        const char *done = is_denying ? "denied" : "approved";
        int r = nb_csr_decide(&approve->admin, request, is_denying ? "Denied" : "Approved",
                              is_denying ? "DeniedByAdministrator" : "ApprovedByAdministrator",
                              "Decided with node-bootstrap-admin approve", f);

        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_CONFLICT, 0,
                                      "CSR %s changed or was deleted since it was read; it was not "
                                      "%s",
                                      request->name, done);
        printf("%s %s, node %s\n", done, request->name, request->node[0] ? request->node : "?");
        return 0;
}

/* A decision is final, so the opposite one is a failure. */
static int report_decided(const struct approve *approve, const struct nb_node_request *request,
                          bool is_rehearsal, struct nb_failure *f) {
        const bool is_approved = request->state == NB_CSR_STATE_APPROVED;
        const char *refused = request->state == NB_CSR_STATE_DENIED ? "denied" : "failed";
        const char *state = is_approved ? "approved" : refused;

        if (is_approved == approve->is_denying)
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0, "%s is already %s, which is final; %s",
                                      request->name, state,
                                      is_approved ? "revoke its token, and delete the Node if it "
                                                    "is not the intended machine"
                                                  : "the machine has to submit a new request");
        if (!is_rehearsal)
                printf("%s is already %s\n", request->name, state);
        return 0;
}

static int decide_request(struct approve *approve, const char *name, bool is_rehearsal,
                          struct nb_failure *f) {
        _cleanup_(review_done) struct review review = { 0 };
        int r;

        if (!nb_csr_name_is_usable(name) || nb_token_verify(name, strlen(name)) >= 0)
                return nb_admin_refuse_word("the name of a certificate signing request", name, f);
        r = nb_facts_read_request(&approve->admin, name, &review.request, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "there is no certificate signing request '%s'; without "
                                      "names, `approve` lists the pending ones",
                                      name);
        if (review.request.kind == NB_NODE_REQUEST_OTHER || strcmp(review.request.name, name) != 0)
                return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                                      "%s: it is not a request for a certificate of a node", name);
        if (review.request.state != NB_CSR_STATE_PENDING)
                return report_decided(approve, &review.request, is_rehearsal, f);
        r = review_request(approve, &review, f);
        if (r >= 0)
                r = verify_unsuspicious(approve, &review, f);
        if (r < 0 || is_rehearsal)
                return r;
        if (!approve->is_denying && review.request.kind == NB_NODE_REQUEST_CLIENT) {
                r = read_claim(&approve->admin, &review, true, f);
                if (r < 0)
                        return r;
                judge_client(&review);
                r = verify_unsuspicious(approve, &review, f);
        }
        return r < 0 ? r : write_decision(approve, &review.request, f);
}

/* --- Command line --- */

static void approve_done(struct approve *approve) {
        nb_admin_done(&approve->admin);
        nb_hosts_done(&approve->hosts);
}

int nb_approve(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(approve_done) struct approve approve = { 0 };
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(approve.admin.place),
                { "force", NULL,
                  "also approve requests that look forged, unless a name belongs to others",
                  .ret_switch = &approve.is_forced },
                { "deny", NULL, "deny the requests instead", .ret_switch = &approve.is_denying },
                { NULL },
        };
        int n = nb_admin_read_line(options, rows, options->argc, f), r;

        if (n < 0)
                return n;
        if (n == 0 && (approve.is_forced || approve.is_denying))
                return nb_failure_set(f, NB_USAGE, 0, "'--force' and '--deny' require names");
        r = nb_admin_connect(&approve.admin.place, &approve.admin, f);
        if (r >= 0 && n == 0)
                r = nb_admin_list(&approve.admin, "listing certificate signing requests",
                                  NB_CSRS_PATH, show_request, &approve, NULL, f);
        if (r >= 0 && n == 0 && !approve.has_header)
                printf("no node waits for an approval\n");
        /* All are reviewed before the first is approved, so that nothing is half done. */
        for (int i = 0; i < 2 * n && r >= 0; i++)
                r = decide_request(&approve, options->argv[i % n], i < n, f);
        return r;
}
