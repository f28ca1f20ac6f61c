/* SPDX-License-Identifier: Apache-2.0 */
/* `node-bootstrap-admin requests list`, `requests approve` and `requests deny`. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/commands/admin_commands.h"
#include "admin/commands/review.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

#define LINE "%-24s %-20s %-7s %-20s %-9s %-7s %-34s %-12s %s"
#define LIMIT 50
#define SUMMARY_MAX 5 /* requestors that have a line of their own */
#define JSON_MAX ((size_t)64 * 1024)

/* A pending request that is selected. */
struct row {
        struct nb_record record;  /* key: creation and name, so that the oldest one is the first */
        struct nb_review *review; /* of the first `limit` rows; NULL in the others */
        const char *name;         /* in the key */
};

/* All rows of one requestor. */
struct group {
        struct nb_record record; /* key: the requestor */
        size_t n;
        time_t oldest;
        struct nb_records verdicts; /* struct count */
};

struct count {
        struct nb_record record; /* key: the verdict */
        size_t n;
};

struct requests {
        struct nb_admin admin;
        const char *token, *node, *kind, *reason; /* what is selected; NULL: all */
        const char *limit_text, *expected_text, *output;
        bool is_forced, is_denying;
        struct nb_known known;
        struct nb_records rows, groups, claims;
        size_t limit;
        struct nb_failure failure; /* the first one that concerns one row */
};

static struct row *row_at(const struct requests *requests, size_t i) {
        return requests->rows.items[i];
}

static void requests_done(struct requests *requests) {
        nb_admin_done(&requests->admin);
        nb_known_done(&requests->known);
        for (size_t i = 0; i < requests->rows.n; i++)
                nb_review_free(row_at(requests, i)->review);
        for (size_t i = 0; i < requests->groups.n; i++) {
                struct group *group = requests->groups.items[i];

                nb_records_done(&group->verdicts);
        }
        nb_records_done(&requests->groups);
        nb_records_done(&requests->rows);
        nb_records_done(&requests->claims);
}

/* --- Collecting --- */

/* Keeps the review if it is among the oldest ones. */
static int keep_row(struct requests *requests, struct nb_review **review, struct nb_failure *f) {
        const struct nb_node_request *request = &(*review)->request;
        char created[NB_RFC3339_SIZE], key[sizeof(created) + sizeof(request->name)];
        struct row *row, *last;

        nb_time_format(request->created, created);
        snprintf(key, sizeof(key), "%s %s", created, request->name);
        row = nb_records_put(&requests->rows, key, sizeof(*row));
        if (!row)
                return nb_failure_set_memory(f);
        row->name = row->record.key + strlen(created) + 1;
        nb_review_free(row->review);
        row->review = TAKE(*review);
        if (requests->rows.n <= requests->limit)
                return 0;
        last = row_at(requests, requests->limit);
        if (strcmp(row->record.key, last->record.key) > 0)
                last = row;
        nb_review_free(TAKE(last->review));
        return 0;
}

static int count_review(struct requests *requests, const struct nb_review *review,
                        struct nb_failure *f) {
        const struct nb_node_request *request = &review->request;
        struct group *group = nb_records_put(&requests->groups, request->username, sizeof(*group));
        struct count *count = group ? nb_records_put(&group->verdicts, review->verdict,
                                                     sizeof(*count))
                                    : NULL;

        if (!count)
                return nb_failure_set_memory(f);
        if (group->n++ == 0 || request->created < group->oldest)
                group->oldest = request->created;
        count->n++;
        return 0;
}

static bool is_selected(const struct requests *requests, const struct nb_review *review) {
        const struct nb_node_request *request = &review->request;

        return (!requests->token || !strcmp(request->token_id, requests->token)) &&
               (!requests->node || !strcmp(request->node, requests->node)) &&
               (!requests->kind || !strcmp(nb_node_request_kinds[request->kind], requests->kind)) &&
               (!requests->reason || !strcmp(review->verdict, requests->reason));
}

/* What concerns this request alone, such as a permission, must not hide the others. */
static int judge_row(struct requests *requests, struct nb_review *review, struct nb_failure *f) {
        struct nb_failure failure = { 0 };
        int r = nb_review_with_node(&requests->admin, &requests->known, review, &failure);

        if (r >= 0)
                return 0;
        if (failure.code == NB_NONE || failure.code == NB_ADMIN_UNREACHABLE ||
            failure.code == NB_ADMIN_UNTRUSTED) {
                *f = failure;
                return r;
        }
        if (requests->failure.code == NB_NONE)
                requests->failure = failure;
        review->verdict = review->proof = review->node_state = "?";
        NB_TEXT_COPY_LINE(review->text, failure.detail);
        return 0;
}

static int collect_request(void *userdata, struct nb_json *item) {
        _cleanup_(nb_review_freep) struct nb_review *review = calloc(1, sizeof(*review));
        struct requests *requests = userdata;
        int r;

        if (!review)
                return nb_failure_set_memory(item->f);
        nb_node_request_read(item, &review->request);
        if (item->r < 0 || review->request.kind == NB_NODE_REQUEST_OTHER ||
            review->request.state != NB_CSR_STATE_PENDING)
                return item->r;
        nb_review_guess(&requests->known, review);
        r = requests->reason && review->needs_node ? judge_row(requests, review, item->f) : 0;
        if (r < 0 || !is_selected(requests, review))
                return r;
        r = count_review(requests, review, item->f);
        return r < 0 ? r : keep_row(requests, &review, item->f);
}

static int collect(struct requests *requests, struct nb_failure *f) {
        int r = nb_admin_connect(&requests->admin, f);

        if (r >= 0)
                r = nb_known_read(&requests->admin, &requests->known, f);
        if (r >= 0)
                r = nb_admin_list(&requests->admin, "certificate signing requests", NB_CSRS_PATH,
                                  collect_request, requests, f);
        return r < 0 ? r : 0;
}

/* --- Showing --- */

/* A name or a requestor with blanks could look like other columns. */
static const char *plain(const char *text, char ret[static NB_TEXT_QUOTED_SIZE]) {
        char line[1024];

        if (!text[strspn(text, NB_LOWER NB_UPPER NB_DIGITS "-_.:@")])
                return text;
        NB_TEXT_COPY_LINE(line, text);
        return nb_text_quote(line, strlen(line), ret);
}

static void print_row(const struct nb_review *review) {
        const struct nb_node_request *request = &review->request;
        char created[NB_RFC3339_SIZE], name[NB_TEXT_QUOTED_SIZE], user[NB_TEXT_QUOTED_SIZE];
        char description[NB_TEXT_QUOTED_SIZE];

        nb_time_format(request->created, created);
        printf(LINE, plain(request->name, name), request->node[0] ? request->node : "?",
               nb_node_request_kinds[request->kind], created, review->node_state, review->proof,
               plain(request->username, user), review->verdict, review->text);
        for (unsigned i = 0; i < request->facts.n_names; i++)
                printf("%s%s", i == 0 ? "; names: " : ", ", request->facts.names[i].text);
        if (review->description[0])
                printf("; token: %s", plain(review->description, description));
        putchar('\n');
}

static int print_json(const struct nb_review *review, bool is_first, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(JSON_MAX);
        struct nb_json_writer writer = { .buffer = &text };
        const struct nb_node_request *request = &review->request;
        char created[NB_RFC3339_SIZE];
        int r;

        nb_time_format(request->created, created);
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "name", request->name);
        nb_json_put_string(&writer, "node", request->node);
        nb_json_put_string(&writer, "kind", nb_node_request_kinds[request->kind]);
        nb_json_put_string(&writer, "created", created);
        nb_json_put_string(&writer, "nodeState", review->node_state);
        nb_json_put_string(&writer, "proof", review->proof);
        nb_json_put_string(&writer, "proofKey", request->proof_key);
        nb_json_put_string(&writer, "requestor", request->username);
        nb_json_put_string(&writer, "description", review->description);
        nb_json_put_string(&writer, "verdict", review->verdict);
        nb_json_put_string(&writer, "text", review->text);
        nb_json_open(&writer, "names", '[');
        for (unsigned i = 0; i < request->facts.n_names; i++)
                nb_json_put_string(&writer, NULL, request->facts.names[i].text);
        r = nb_json_finish(&writer);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format the requests: %m");
        printf("%s\n%s", is_first ? "[" : ",", text.data);
        return 0;
}

/* The largest first. */
static int compare_groups(const void *one, const void *other) {
        const struct group *const *a = one, *const *b = other;

        return ((*a)->n < (*b)->n) - ((*a)->n > (*b)->n);
}

/* "system:bootstrap:abcdef: 9871 pending, oldest 3 h 2 min: 11 ok, 9860 NotEnrolled" */
static void print_group(const struct group *group, time_t now) {
        char age[NB_DURATION_SIZE], user[NB_TEXT_QUOTED_SIZE];

        nb_duration_format(now > group->oldest ? (uint64_t)(now - group->oldest) * 1000 : 0, age);
        printf("%s: %zu pending, oldest %s", plain(group->record.key, user), group->n, age);
        for (size_t i = 0; i < group->verdicts.n; i++) {
                const struct count *count = group->verdicts.items[i];

                printf("%s %zu %s", i == 0 ? ":" : ",", count->n, count->record.key);
        }
        putchar('\n');
}

static void print_summary(struct requests *requests) {
        struct nb_records *groups = &requests->groups;
        const time_t now = nb_admin_time(&requests->admin);
        size_t n_other = 0;

        qsort(groups->items, groups->n, sizeof(void *), compare_groups);
        for (size_t i = 0; i < groups->n; i++) {
                const struct group *group = groups->items[i];

                if (i < SUMMARY_MAX)
                        print_group(group, now);
                else
                        n_other += group->n;
        }
        if (groups->n > SUMMARY_MAX)
                printf("%zu other requestors: %zu pending\n", groups->n - SUMMARY_MAX, n_other);
}

/* A name with a line break could look like the name of another request. */
static void print_names(const struct requests *requests, size_t limit) {
        size_t n_hidden = 0;

        for (size_t i = 0; i < requests->rows.n && i < limit; i++) {
                char quoted[NB_TEXT_QUOTED_SIZE];
                const char *name = row_at(requests, i)->name;

                if (plain(name, quoted) == name)
                        puts(name);
                else
                        n_hidden++;
        }
        fflush(stdout);
        if (n_hidden > 0)
                fprintf(stderr,
                        "names with unusual characters, which only --output=json shows: "
                        "%zu\n",
                        n_hidden);
}

static int print_requests(struct requests *requests, struct nb_failure *f) {
        const size_t n_rows = requests->rows.n,
                     n_shown = n_rows < requests->limit ? n_rows : requests->limit;
        const bool is_json = requests->output != NULL;
        int r = 0;

        if (!is_json && n_rows == 0) {
                puts("no such request is pending");
                return 0;
        }
        if (!is_json) {
                print_summary(requests);
                printf("\n" LINE "\n", "NAME", "NODE", "KIND", "CREATED", "NODE IS", "PROOF",
                       "REQUESTOR", "VERDICT", "");
        }
        for (size_t i = 0; i < n_shown && r >= 0; i++) {
                struct nb_review *review = row_at(requests, i)->review;

                r = requests->reason ? 0 : judge_row(requests, review, f);
                if (r >= 0 && is_json)
                        r = print_json(review, i == 0, f);
                else if (r >= 0)
                        print_row(review);
        }
        if (r < 0)
                return r;
        if (is_json)
                printf("%s\n]\n", n_shown == 0 ? "[" : "");
        else if (n_rows > n_shown)
                printf("\nthe oldest %zu of %zu; --limit=0 shows all, and --token, --node, --kind "
                       "and --reason select\n",
                       n_shown, n_rows);
        return 0;
}

/* --- Deciding --- */

static int verify_permitted(const struct requests *requests, const struct nb_review *review,
                            struct nb_failure *f) {
        if (nb_review_permits(review, requests->is_forced))
                return 0;
        (void)nb_failure_set(
                f, review->is_blocked ? NB_ADMIN_REQUEST_BLOCKED : NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                "%s: %s", review->request.name, review->text);
        if (review->is_forcible)
                nb_failure_add(f, "; --force approves it");
        return -EPERM;
}

/* UID and resourceVersion are those of the request that was reviewed. -EAGAIN without a failure if
 * the token was claimed since. */
static int write_decision(struct requests *requests, const struct nb_review *review,
                          struct nb_failure *f) {
        const struct nb_node_request *request = &review->request;
        const bool is_denying = requests->is_denying;
        const char *done = is_denying ? "denied" : "approved";
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        char name[NB_TEXT_QUOTED_SIZE];
        int r;

        if (review->needs_claim)
                nb_claim_add(&plan, review->facts.token, request->name, request->facts.key);
        nb_csr_add_decision(&plan, request, is_denying ? "Denied" : "Approved",
                            is_denying ? "DeniedByAdministrator" : NB_APPROVED_BY_COMMAND,
                            "Decided with node-bootstrap-admin requests");
        r = nb_plan_perform(&plan, &requests->admin, f);
        if (r >= 0 && review->needs_claim && !plan.writes[1].is_answered) {
                r = nb_claim_written(&plan.writes[0], r, f);
                return r < 0 ? r : -EAGAIN;
        }
        if (r < 0)
                return r;
        if (r >= 300)
                return nb_failure_set(f, NB_ADMIN_CONFLICT, 0,
                                      "CSR %s changed or was deleted since it was read; it was not "
                                      "%s",
                                      request->name, done);
        printf("%s %s, node %s\n", done, plain(request->name, name),
               request->node[0] ? request->node : "?");
        return 0;
}

/* A decision is final, so the opposite one is a failure. */
static int report_decided(const struct requests *requests, const struct nb_node_request *request,
                          bool is_rehearsal, struct nb_failure *f) {
        const bool is_approved = request->state == NB_CSR_STATE_APPROVED;
        const char *refused = request->state == NB_CSR_STATE_DENIED ? "denied" : "failed";
        const char *state = is_approved ? "approved" : refused;
        char name[NB_TEXT_QUOTED_SIZE];

        if (is_approved == requests->is_denying)
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0, "%s is already %s, which is final; %s",
                                      request->name, state,
                                      is_approved ? "revoke its token, and delete the Node if it "
                                                    "is not the intended machine"
                                                  : "the machine has to submit a new request");
        if (!is_rehearsal)
                printf("%s is already %s\n", plain(request->name, name), state);
        return 0;
}

/* Reads the request, judges, and writes. */
static int try_request(struct requests *requests, const char *name, bool is_rehearsal,
                       struct nb_failure *f) {
        _cleanup_(nb_review_freep) struct nb_review *review = calloc(1, sizeof(*review));
        _cleanup_(nb_look_done) struct nb_look look = { 0 };
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        struct nb_admin *admin = &requests->admin;
        struct nb_node_request *request;
        int r;

        if (!review)
                return nb_failure_set_memory(f);
        request = &review->request;
        nb_facts_add(&plan, NB_READ_REQUEST, name);
        r = nb_plan_perform(&plan, admin, f);
        if (r >= 0)
                r = nb_facts_take_request(&plan, admin, request, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "there is no certificate signing request '%s'; `requests "
                                      "list` lists the pending ones",
                                      nb_text_shown(name));
        if (request->kind == NB_NODE_REQUEST_OTHER || strcmp(request->name, name) != 0)
                return nb_failure_set(f, NB_ADMIN_REQUEST_SUSPICIOUS, 0,
                                      "%s: it is not a request for a certificate of a node", name);
        if (request->state != NB_CSR_STATE_PENDING)
                return report_decided(requests, request, is_rehearsal, f);
        if (!requests->is_denying) {
                r = nb_review_read(admin, &requests->known.hosts, &look, review,
                                   requests->is_forced, f);
                if (r >= 0)
                        r = verify_permitted(requests, review, f);
                if (r >= 0 && is_rehearsal && !requests->is_forced)
                        r = nb_review_note_claim(&requests->claims, review, f);
        }
        return r < 0 || is_rehearsal ? r : write_decision(requests, review, f);
}

static int decide_request(struct requests *requests, const char *name, bool is_rehearsal,
                          struct nb_failure *f) {
        int r = try_request(requests, name, is_rehearsal, f);

        if (r == -EAGAIN && f->code == NB_NONE)
                r = try_request(requests, name, is_rehearsal, f);
        return r == -EAGAIN && f->code == NB_NONE
                       ? nb_failure_set_http(f, NB_ADMIN_CONFLICT, 409,
                                             "CSR %s: the API server did not accept the claim of "
                                             "its token, although none exists",
                                             name)
                       : r;
}

/* What was selected, if it is as many as expected. */
static int decide_selected(struct requests *requests, size_t n_expected, struct nb_failure *f) {
        const struct nb_records *rows = &requests->rows;
        int r = collect(requests, f);

        if (r < 0)
                return r;
        if (requests->failure.code != NB_NONE) {
                *f = requests->failure;
                return -EPROTO;
        }
        if (rows->n != n_expected)
                return nb_failure_set(f, NB_ADMIN_CONFLICT, 0,
                                      "expected %zu requests, found %zu; nothing was decided",
                                      n_expected, rows->n);
        for (size_t i = 0; n_expected > 0 && i < 2 * n_expected && r >= 0; i++) {
                r = decide_request(requests, row_at(requests, i % n_expected)->name, i < n_expected,
                                   f);
                /* It was deleted, or its name is above the limits. */
                if (r < 0 && f->code == NB_ADMIN_MISSING) {
                        nb_failure_clear(f);
                        r = 0;
                }
        }
        return r;
}

/* --- Command line --- */

static int verify_selection(const struct requests *requests, struct nb_failure *f) {
        const char *token = requests->token;

        if (token && (strlen(token) != NB_TOKEN_ID_LEN ||
                      strspn(token, NB_LOWER NB_DIGITS) != strlen(token)))
                return nb_admin_refuse_word("'--token' to be the ID of a token, 6 characters of "
                                            "a-z and 0-9",
                                            token, f);
        if (requests->kind && strcmp(requests->kind, "client") != 0 &&
            strcmp(requests->kind, "serving") != 0)
                return nb_admin_refuse_word("'--kind' to be client or serving", requests->kind, f);
        if (requests->reason && !nb_review_has_verdict(requests->reason))
                return nb_admin_refuse_word("'--reason' to be ok, check, or a reason such as "
                                            "NotEnrolled",
                                            requests->reason, f);
        if (requests->output && strcmp(requests->output, "name") != 0 &&
            strcmp(requests->output, "json") != 0)
                return nb_admin_refuse_word("'--output' to be name or json", requests->output, f);
        return requests->node ? nb_admin_verify_node(requests->node, f) : 0;
}

#define SELECTION_OPTIONS(requests) \
        NB_ADMIN_PLACE_OPTIONS((requests).admin.place), \
                { "token", "ID", "the requests with this token", .ret_value = &(requests).token }, \
                { "node", "NAME", "the requests for this node", .ret_value = &(requests).node }, \
                { "kind", "KIND", "the requests for client or serving certificates", \
                  .ret_value = &(requests).kind }, \
        { \
                "reason", "REASON", "the requests with this verdict, such as ok or NotEnrolled", \
                        .ret_value = &(requests).reason \
        }

int nb_requests_list(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(requests_done) struct requests requests = { 0 };
        const struct nb_option rows[] = {
                SELECTION_OPTIONS(requests),
                { "limit", "NUMBER", "show the oldest ones, 50 by default; 0: all",
                  .ret_value = &requests.limit_text },
                { "output", "FORM", "name or json; all requests, unless --limit is used",
                  .ret_value = &requests.output },
                { NULL },
        };
        int r = nb_options_read(options, rows, f);
        const bool is_name = requests.output && !strcmp(requests.output, "name");
        size_t limit = requests.output ? 0 : LIMIT;

        if (r >= 0)
                r = verify_selection(&requests, f);
        if (r >= 0)
                r = nb_admin_read_number("limit", requests.limit_text, &limit, f);
        if (limit == 0)
                limit = SIZE_MAX;
        requests.limit = is_name ? 0 : limit;
        if (r >= 0)
                r = collect(&requests, f);
        if (r < 0)
                return r;
        if (is_name)
                print_names(&requests, limit);
        else
                r = print_requests(&requests, f);
        if (r >= 0 && requests.failure.code != NB_NONE) {
                *f = requests.failure;
                r = -EPROTO;
        }
        return r;
}

/* All are reviewed before the first is decided on, so that nothing is half done. */
static int decide(struct requests *requests, char **names, int n, struct nb_failure *f) {
        const bool is_selecting = requests->token || requests->node || requests->kind ||
                                  requests->reason;
        size_t n_expected = 0;
        int r = verify_selection(requests, f);

        if (r < 0)
                return r;
        if (is_selecting == (n > 0) || is_selecting != (requests->expected_text != NULL) ||
            (is_selecting && requests->is_forced))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected the names of requests, or '--token', '--node', "
                                      "'--kind' and '--reason' with '--expect' and without "
                                      "'--force'");
        r = nb_admin_read_number("expect", requests->expected_text, &n_expected, f);
        if (r < 0)
                return r;
        if (is_selecting)
                return decide_selected(requests, n_expected, f);
        for (int i = 0; i < n; i++)
                if (!nb_csr_name_is_usable(names[i]) ||
                    nb_token_verify(names[i], strlen(names[i])) >= 0)
                        return nb_admin_refuse_word("the name of a certificate signing request",
                                                    names[i], f);
        r = nb_admin_connect(&requests->admin, f);
        for (int i = 0; i < 2 * n && r >= 0; i++)
                r = decide_request(requests, names[i % n], i < n, f);
        return r;
}

static int decide_from_line(struct nb_options *options, bool is_denying, struct nb_failure *f) {
        _cleanup_(requests_done) struct requests requests = { .is_denying = is_denying };
        const struct nb_option rows[] = {
                SELECTION_OPTIONS(requests),
                { "expect", "NUMBER",
                  "how many requests are selected; otherwise nothing is decided",
                  .ret_value = &requests.expected_text },
                { is_denying ? NULL : "force", NULL,
                  "also approve requests that are refused otherwise, but no name that is not "
                  "allowed",
                  .ret_switch = &requests.is_forced },
                { NULL },
        };
        int n = nb_admin_read_line(options, rows, options->argc, f);

        return n < 0 ? n : decide(&requests, options->argv, n, f);
}

int nb_requests_approve(struct nb_options *options, struct nb_failure *f) {
        return decide_from_line(options, false, f);
}

int nb_requests_deny(struct nb_options *options, struct nb_failure *f) {
        return decide_from_line(options, true, f);
}
