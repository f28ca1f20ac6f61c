/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "admin/frame/lease.h"

#include "answers.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#define LEASE LEASES "/node-bootstrap-controller"
#define BEGIN_MS 100000

/* A call at its time, and its answer. */
struct call {
        uint64_t after_ms; /* the begin */
        const char *method;
        long status; /* 0: no answer */
        const char *version, *holder;
};

static struct {
        const char *name;
        struct call calls[6];
        bool is_held;
        uint64_t due_ms; /* after the last call */
} rows[] = {
        { "there is no Lease",
          { { 0, "GET", 404, NULL, NULL }, { 0, "POST", 201, "1", "me" } },
          true,
          5000 },
        { "somebody else creates it first",
          { { 0, "GET", 404, NULL, NULL }, { 0, "POST", 409, NULL, NULL } },
          false,
          1000 },
        { "its holder gave it away",
          { { 0, "GET", 200, "1", "" }, { 0, "PATCH", 200, "2", "me" } },
          true,
          5000 },
        { "it is this controller's own",
          { { 0, "GET", 200, "1", "me" }, { 0, "PATCH", 200, "2", "me" } },
          true,
          5000 },
        { "another controller holds it", { { 0, "GET", 200, "1", "other" } }, false, 1000 },
        { "another controller does not renew it",
          { { 0, "GET", 200, "1", "other" },
            { 13999, "GET", 200, "1", "other" },
            { 15000, "GET", 200, "1", "other" },
            { 15000, "PATCH", 200, "2", "me" } },
          true,
          5000 },
        { "it is renewed",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 200, "2", "me" },
            { 10000, "PATCH", 200, "3", "me" } },
          true,
          5000 },
        { "it is lost while it is renewed",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 409, NULL, NULL },
            { 5000, "GET", 200, "2", "other" } },
          false,
          1000 },
        { "the answer to the last renewal was lost",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 409, NULL, NULL },
            { 5000, "GET", 200, "2", "me" },
            { 5000, "PATCH", 200, "3", "me" } },
          true,
          5000 },
        { "after a failure it is read, and then renewed",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 0, NULL, NULL },
            { 9000, "GET", 200, "1", "me" },
            { 9000, "PATCH", 200, "2", "me" } },
          true,
          5000 },
        { "renewals fail, and the lead is about to end",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 0, NULL, NULL },
            { 9999, "GET", 0, NULL, NULL } },
          true,
          1 },
};

/* Sends the call, and answers it. Returns what follows from the answer: 0 if another call does. */
static int make_call(struct nb_controller *controller, const struct call *call, uint64_t now_ms) {
        struct nb_buffer body = NB_BUFFER_INIT(1024);
        struct nb_failure f = { 0 };
        int r;

        if (nb_plan_count(&controller->lease.plan) == 0)
                assert_int_equal(nb_lease_run(controller, now_ms, &f), 0);
        if (call->version)
                nb_json_format(&body,
                               "{'kind':'Lease','metadata':{'resourceVersion':%s},"
                               "'spec':{'holderIdentity':%s}}",
                               call->version, call->holder);
        else
                nb_buffer_printf(&body, "{\"kind\":\"Status\",\"code\":%ld}", call->status);
        assert_int_equal(nb_lease_run(controller, now_ms, &f), 0);
        /* The time at which a call was sent is that of the machine. */
        controller->lease.sent_ms = now_ms;
        answer(strcmp(call->method, "GET") == 0 ? &controller->lease.plan.reads[0]
                                                : &controller->lease.plan.writes[0],
               call->method, strcmp(call->method, "POST") == 0 ? LEASES : LEASE, call->status,
               body.data);
        nb_buffer_done(&body);
        r = nb_lease_run(controller, now_ms, &f);
        return r;
}

static void elects(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_lease *lease;
        uint64_t now_ms = BEGIN_MS;

        assert_non_null(controller);
        strcpy(controller->identity, "me");
        lease = &controller->lease;
        for (const struct call *call = row->calls; call->method; call++) {
                const bool is_followed = call[1].method && call[1].after_ms == call->after_ms;
                struct nb_failure f = { 0 };

                now_ms = BEGIN_MS + call->after_ms;
                assert_int_equal(make_call(controller, call, now_ms), is_followed         ? 0
                                                                      : call->status == 0 ? -EIO
                                                                                          : 1);
                if (!is_followed)
                        assert_int_equal(nb_lease_run(controller, nb_lease_due(controller) - 1, &f),
                                         0);
        }
        assert_int_equal(lease->election.is_held, row->is_held);
        assert_int_equal(nb_lease_due(controller), now_ms + row->due_ms);
        free(controller);
}

/* A webhook delays the renewal, or the network has lost it. */
static void a_missing_answer_ends_the_lead(void **state) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        const uint64_t end_ms = BEGIN_MS + nb_lease_waits.held_ms;
        struct nb_election *election;
        struct nb_failure f = { 0 };

        assert_non_null(controller);
        strcpy(controller->identity, "me");
        election = &controller->lease.election;
        assert_int_equal(make_call(controller, &rows[2].calls[0], BEGIN_MS), 0);
        assert_int_equal(make_call(controller, &rows[2].calls[1], BEGIN_MS), 1);
        assert_int_equal(nb_lease_run(controller, BEGIN_MS + 5000, &f), 0);
        assert_int_equal(nb_plan_count(&controller->lease.plan), 1);
        assert_int_equal(nb_lease_due(controller), end_ms);
        assert_int_equal(nb_lease_run(controller, end_ms - 1, &f), 0);
        assert_true(nb_election_is_leader(election, &nb_lease_waits, end_ms - 1));
        assert_false(nb_election_is_leader(election, &nb_lease_waits, end_ms));
        assert_true(nb_lease_run(controller, end_ms, &f) < 0);
        assert_int_equal(f.code, NB_ADMIN_UNREACHABLE);
        assert_false(election->is_held);
        assert_int_equal(nb_plan_count(&controller->lease.plan), 0);
        free(controller);
}

static void counts_transitions(void **state) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_failure f = { 0 };

        assert_non_null(controller);
        strcpy(controller->identity, "me");
        assert_int_equal(nb_lease_run(controller, BEGIN_MS, &f), 0);
        answer(&controller->lease.plan.reads[0], "GET", LEASE, 200,
               "{\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"holderIdentity\":\"\","
               "\"leaseTransitions\":4}}");
        assert_int_equal(nb_lease_run(controller, BEGIN_MS, &f), 0);
        assert_non_null(
                strstr(controller->lease.plan.writes[0].body.data, "\"leaseTransitions\":5"));
        nb_plan_done(&controller->lease.plan);
        free(controller);
}

int main(void) {
        CASES(rows, elects);
        CASE(a_missing_answer_ends_the_lead);
        CASE(counts_transitions);
        return case_run("lease");
}
