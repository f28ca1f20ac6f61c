/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/request_review.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"

#define OUTPUT_MAX ((size_t)64 * 1024 * 1024)

struct approve {
        struct nb_admin admin;
        struct nb_hosts hosts;
        bool is_forced, is_denying, is_json;
        unsigned n_printed;
        struct nb_buffer text;
        struct nb_json_writer writer;
        struct nb_failure *f;
};

/* --- Showing --- */

static const char *name_kind(const struct nb_node_request *request) {
        return request->kind == NB_NODE_REQUEST_CLIENT ? "client" : "serving";
}

static const char *name_node_state(const struct nb_review *review) {
        return !review->look.has_node       ? "absent"
               : review->look.node.is_ready ? "Ready"
                                            : "not Ready";
}

static void format_requestor(const struct nb_review *review, char *ret, size_t size) {
        const struct nb_node_request *request = &review->request;
        char description[64];

        NB_TEXT_COPY_LINE(description, review->look.token.description);
        if (!request->token_id[0])
                snprintf(ret, size, "user %s", request->username);
        else if (!review->look.facts.token)
                snprintf(ret, size, "token %s, which does not exist any more", request->token_id);
        else
                snprintf(ret, size, "token %s for %s%s%s%s", request->token_id,
                         review->look.token.node[0] ? review->look.token.node : "any node",
                         description[0] ? " (" : "", description, description[0] ? ")" : "");
}

static void print_text(struct approve *approve, const struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        time_t now = time(NULL);
        char age[NB_DURATION_SIZE], requestor[512];

        nb_duration_format(request->created < now ? (uint64_t)(now - request->created) * 1000 : 0,
                           age);
        format_requestor(review, requestor, sizeof(requestor));
        if (approve->n_printed == 0)
                printf("%-53s %-20s %-7s  %-12s %-9s  %s\n", "NAME", "NODE", "KIND", "AGE",
                       "NODE IS", "PROOF");
        printf("%-53s %-20s %-7s  %-12s %-9s  %s\n", request->name,
               request->node[0] ? request->node : "?", name_kind(request), age,
               name_node_state(review), review->proof);
        printf("    requested by %s\n", requestor);
        for (unsigned i = 0; i < request->facts.n_names; i++)
                printf("%s%s%s", i == 0 ? "    names: " : ", ", request->facts.names[i].text,
                       i + 1 == request->facts.n_names ? "\n" : "");
        printf("    %s\n", review->verdict);
}

static void format_json(struct nb_json_writer *writer, const struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        char created[NB_RFC3339_SIZE];

        nb_time_format(request->created, created);
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "name", request->name);
        nb_json_put_string(writer, "node", request->node[0] ? request->node : NULL);
        nb_json_put_string(writer, "kind", name_kind(request));
        nb_json_put_string(writer, "created", created);
        nb_json_put_string(writer, "requestor", request->username);
        nb_json_put_string(writer, "token", request->token_id[0] ? request->token_id : NULL);
        nb_json_put_string(writer, "tokenNode",
                           review->look.token.node[0] ? review->look.token.node : NULL);
        nb_json_put_string(writer, "tokenDescription", review->look.token.description);
        nb_json_put_string(writer, "nodeState", name_node_state(review));
        nb_json_put_string(writer, "proof", review->proof);
        nb_json_open(writer, "names", '[');
        for (unsigned i = 0; i < request->facts.n_names; i++)
                nb_json_put_string(writer, NULL, request->facts.names[i].text);
        nb_json_close(writer);
        nb_json_put_boolean(writer, "suspicious", review->is_suspicious);
        nb_json_put_string(writer, "verdict", review->verdict);
        nb_json_close(writer);
}

static int show_request(void *userdata, struct nb_json *item) {
        _cleanup_(nb_review_done) struct nb_review review = { 0 };
        struct approve *approve = userdata;
        int r;

        nb_node_request_read(item, &review.request);
        if (item->r < 0 || review.request.kind == NB_NODE_REQUEST_OTHER ||
            review.request.state != NB_CSR_STATE_PENDING)
                return item->r;
        r = nb_review_make(&approve->admin, &approve->hosts, &review, approve->f);
        if (r < 0)
                return r;
        if (approve->is_json)
                format_json(&approve->writer, &review);
        else
                print_text(approve, &review);
        approve->n_printed++;
        return 0;
}

static int show_requests(struct approve *approve, struct nb_failure *f) {
        int r;

        approve->writer = (struct nb_json_writer){ .buffer = &approve->text, .is_indented = true };
        nb_json_open(&approve->writer, NULL, '[');
        r = nb_admin_list(&approve->admin, "listing certificate signing requests", NB_CSRS_PATH,
                          show_request, approve, NULL, f);
        if (r < 0)
                return r;
        if (!approve->is_json) {
                if (approve->n_printed == 0)
                        printf("no node waits for an approval\n");
                return 0;
        }
        r = nb_json_finish(&approve->writer);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the list cannot be formatted: %m");
        printf("%s", approve->text.data);
        return 0;
}

/* --- Deciding --- */

/* Reads and reviews the request of this name. 1: it is pending; 0: it is decided already. */
static int read_request(struct approve *approve, const char *name, struct nb_review *review,
                        struct nb_failure *f) {
        int r = nb_facts_read_request(&approve->admin, name, &review->request, f);

        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "there is no certificate signing request '%s'; without "
                                      "names, `approve` lists the pending ones",
                                      name);
        if (review->request.kind == NB_NODE_REQUEST_OTHER ||
            strcmp(review->request.name, name) != 0)
                return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                                      "%s: it is not a request for a certificate of a node", name);
        if (review->request.state != NB_CSR_STATE_PENDING)
                return 0;
        r = nb_review_make(&approve->admin, &approve->hosts, review, f);
        return r < 0 ? r : 1;
}

static int verify_unsuspicious(const struct approve *approve, const struct nb_review *review,
                               struct nb_failure *f) {
        if (!review->is_suspicious || approve->is_denying ||
            (approve->is_forced && review->is_forcible))
                return 0;
        return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0, "%s: %s%s", review->request.name,
                              review->verdict, review->is_forcible ? "; --force approves it" : "");
}

/* A bound token is for one use, whoever approves. */
static int claim_token(struct approve *approve, const struct nb_review *review,
                       struct nb_failure *f) {
        const struct nb_node_request *request = &review->request;
        struct nb_claim other = { 0 };
        int r;

        if (request->kind != NB_NODE_REQUEST_CLIENT || !review->look.facts.token ||
            strcmp(review->look.token.node, request->node) != 0)
                return 0;
        r = nb_claim_make(&approve->admin, &review->look.token, request->name, request->facts.key,
                          &other, f);
        if (r < 0)
                return r;
        if (r == NB_CLAIM_OWN || approve->is_forced)
                return 0;
        return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                              "%s: FORGED? another request (%s) has used token %s; --force "
                              "approves it",
                              request->name, other.csr_name, request->token_id);
}

/* UID and resourceVersion are those of the request that was reviewed. */
static int write_decision(struct approve *approve, const struct nb_node_request *request,
                          struct nb_failure *f) {
        const bool is_denying = approve->is_denying;
        int r = nb_csr_decide(&approve->admin, request, is_denying ? "Denied" : "Approved",
                              is_denying ? "DeniedByAdministrator" : "ApprovedByAdministrator",
                              "Decided with node-bootstrap-admin approve", f);

        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_CONFLICT, 0,
                                      "CSR %s changed or was deleted since it was read; it was not "
                                      "%s",
                                      request->name, is_denying ? "denied" : "approved");
        printf("%s %s, node %s\n", is_denying ? "denied" : "approved", request->name,
               request->node[0] ? request->node : "?");
        return 0;
}

/* A decision is final, so the opposite one is a failure. */
static int report_decided(const struct approve *approve, const struct nb_node_request *request,
                          bool is_rehearsal, struct nb_failure *f) {
        const bool is_approved = request->state == NB_CSR_STATE_APPROVED;
        const char *refusal = request->state == NB_CSR_STATE_DENIED ? "denied" : "failed";
        const char *state = is_approved ? "approved" : refusal;

        if (is_approved == approve->is_denying)
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0, "%s is already %s, which is final%s",
                                      request->name, state,
                                      is_approved ? "; revoke its token, and delete the Node if "
                                                    "it is not the intended machine"
                                                  : "; the machine has to submit a new request");
        if (!is_rehearsal)
                printf("%s is already %s\n", request->name, state);
        return 0;
}

static int decide_request(struct approve *approve, const char *name, bool is_rehearsal,
                          struct nb_failure *f) {
        _cleanup_(nb_review_done) struct nb_review review = { 0 };
        int r;

        r = read_request(approve, name, &review, f);
        if (r < 0)
                return r;
        if (r == 0)
                return report_decided(approve, &review.request, is_rehearsal, f);
        r = verify_unsuspicious(approve, &review, f);
        if (r < 0 || is_rehearsal)
                return r;
        r = approve->is_denying ? 0 : claim_token(approve, &review, f);
        return r < 0 ? r : write_decision(approve, &review.request, f);
}

/* Reviews all requests before the first is approved, so that nothing is half done. */
static int decide_requests(struct approve *approve, const char *const *names, size_t n,
                           struct nb_failure *f) {
        for (size_t i = 0; i < 2 * n; i++) {
                int r = decide_request(approve, names[i % n], i < n, f);

                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Command line --- */

static int verify_name(const char *name, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];

        if (nb_token_verify(name, strlen(name)) == 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected the name of a certificate signing request, found a "
                                      "token");
        if (!nb_csr_name_is_usable(name))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "%s is not the name of a certificate signing request",
                                      nb_word_quote(name, quoted));
        return 0;
}

static void approve_done(struct approve *approve) {
        nb_admin_done(&approve->admin);
        nb_hosts_done(&approve->hosts);
        nb_buffer_done(&approve->text);
}

int nb_admin_command_approve(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(approve_done) struct approve approve = { .text = NB_BUFFER_INIT(OUTPUT_MAX),
                                                           .f = f };
        _cleanup_(nb_freep) const char **names = calloc((size_t)options->argc, sizeof(*names));
        struct nb_admin_place place = { 0 };
        const char *output = "text";
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(place),
                { "force", NULL,
                  "also approve requests that look forged, unless a name belongs to others",
                  .ret_switch = &approve.is_forced },
                { "deny", NULL, "deny the requests instead", .ret_switch = &approve.is_denying },
                { "output", "FORMAT", "text or json", .ret_value = &output },
                { "o", "FORMAT", .ret_value = &output },
                { NULL },
        };
        size_t n = 0;
        int r;

        if (!names)
                return nb_failure_set_memory(f);
        r = nb_admin_read_line(options, rows, names, (size_t)options->argc, &n, f);
        for (size_t i = 0; i < n && r >= 0; i++)
                r = verify_name(names[i], f);
        if (r < 0)
                return r;
        approve.is_json = strcmp(output, "json") == 0;
        if (!approve.is_json && strcmp(output, "text") != 0)
                return nb_failure_set(f, NB_USAGE, 0, "'--output' must be text or json");
        if (n == 0 && (approve.is_forced || approve.is_denying))
                return nb_failure_set(f, NB_USAGE, 0, "'--force' and '--deny' require names");
        r = nb_admin_connect(&place, &approve.admin, f);
        if (r < 0)
                return r;
        return n > 0 ? decide_requests(&approve, names, n, f) : show_requests(&approve, f);
}
