/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "admin/controller/lease.h"

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
            { 5000, "PATCH", 409, NULL, NULL } },
          false,
          1000 },
        { "after a failure it is read, and then renewed",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 0, NULL, NULL },
            { 9000, "GET", 200, "1", "me" },
            { 9000, "PATCH", 200, "2", "me" } },
          true,
          5000 },
        { "renewals fail for too long",
          { { 0, "GET", 404, NULL, NULL },
            { 0, "POST", 201, "1", "me" },
            { 5000, "PATCH", 0, NULL, NULL },
            { 9999, "GET", 0, NULL, NULL },
            { 11000, "GET", 0, NULL, NULL } },
          false,
          1000 },
};

static void answer_call(struct nb_exchange *exchange, const struct call *call) {
        struct nb_buffer body = NB_BUFFER_INIT(1024);

        if (call->version)
                nb_json_format(&body,
                               "{'kind':'Lease','metadata':{'resourceVersion':%s},"
                               "'spec':{'holderIdentity':%s}}",
                               call->version, call->holder);
        else
                nb_buffer_printf(&body, "{\"kind\":\"Status\",\"code\":%ld}", call->status);
        answer(exchange, call->method, strcmp(call->method, "POST") == 0 ? LEASES : LEASE,
               call->status, body.data);
        nb_buffer_done(&body);
        if (call->status != 0)
                return;
        exchange->calls[exchange->n - 1]->r = -EIO;
        exchange->calls[exchange->n - 1]->failure.code = NB_SERVER_ERROR;
}

static void elects(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_lease *lease;
        uint64_t now_ms = BEGIN_MS;

        assert_non_null(controller);
        strcpy(controller->identity, "me");
        lease = &controller->lease;
        for (const struct call *call = row->calls; call->method;) {
                const uint64_t after_ms = call->after_ms;
                struct nb_failure f = { 0 };
                bool has_failed = false;

                now_ms = BEGIN_MS + after_ms;
                for (; call->method && call->after_ms == after_ms; call++) {
                        answer_call(&lease->exchange, call);
                        has_failed |= call->status == 0;
                }
                assert_true(nb_lease_due(controller) <= now_ms);
                assert_int_equal(nb_lease_run(controller, now_ms, &f), has_failed ? -EIO : 1);
                assert_int_equal(lease->exchange.n, 0);
                assert_int_equal(nb_lease_run(controller, nb_lease_due(controller) - 1, &f), 0);
        }
        assert_int_equal(lease->election.is_held, row->is_held);
        assert_int_equal(nb_lease_due(controller), now_ms + row->due_ms);
        free(controller);
}

int main(void) {
        CASES(rows, elects);
        return case_run("lease");
}
