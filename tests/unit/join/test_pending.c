/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "join/pending.h"
#include "kube_calls/csr_calls.h"

#include "case.h"

#define SECOND UINT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define NAME "node-csr-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE"
#define ACCOUNT "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"

struct next_case {
        const char *name;
        uint64_t waited_ms, expected_ms;
};

static struct next_case nexts[] = {
        { "at first, after a minute", 0, MINUTE },
        { "still after a minute", MINUTE - 1, MINUTE },
        { "then after five", MINUTE, 5 * MINUTE },
        { "then after a quarter of an hour", 5 * MINUTE, 15 * MINUTE },
        { "then after an hour", 15 * MINUTE + 1, HOUR },
        { "then after six", HOUR, 6 * HOUR },
        { "then each six", 6 * HOUR, 12 * HOUR },
        { "after days", 100 * HOUR, 102 * HOUR },
        { "what was slept through is left out", 47 * HOUR, 48 * HOUR },
};

static void tells_again(void **state) {
        const struct next_case *c = *state;

        assert_int_equal(nb_pending_next_ms(c->waited_ms), c->expected_ms);
}

struct text_case {
        const char *name;
        enum nb_csr_state state;
        enum nb_pending_reason reason;
        enum nb_code code;
        const char *detail, *word;
};

#define WAITS "the CSR '" NAME "' is waiting for approval"

static struct text_case texts[] = {
        { "not asked yet", NB_CSR_STATE_PENDING, NB_PENDING_UNASKED, NB_CSR_PENDING, WAITS, "" },
        { "not known", NB_CSR_STATE_PENDING, NB_PENDING_UNKNOWN, NB_CSR_PENDING,
          WAITS ": the API server does not say whether the CSR will be approved automatically",
          "" },
        { "node-bootstrap's controller", NB_CSR_STATE_PENDING, NB_PENDING_CONTROLLER,
          NB_CSR_PENDING_CONTROLLER,
          WAITS ": node-bootstrap's controller decides on the requests of "
                "'system:bootstrap:abcdef'",
          "ControllerUndecided" },
        { "no role binding", NB_CSR_STATE_PENDING, NB_PENDING_UNBOUND, NB_CSR_PENDING_UNBOUND,
          WAITS ": it will not be approved automatically: 'system:bootstrap:abcdef' of "
                "system:bootstrappers, g may not create certificatesigningrequests/nodeclient",
          "NodeclientNotBound" },
        { "no approver", NB_CSR_STATE_PENDING, NB_PENDING_UNAPPROVED, NB_CSR_PENDING_UNAPPROVED,
          WAITS ": 'system:bootstrap:abcdef' is allowed automatic approval, but no approver has "
                "approved it",
          "ApproverSilent" },
        { "no Machine", NB_CSR_STATE_PENDING, NB_PENDING_MACHINE, NB_CSR_PENDING_UNAPPROVED,
          WAITS ": OpenShift approves it when there is a Machine whose InternalDNS is 'node-1' and "
                "that has no Node yet (`oc get machines -A`)",
          "MachineMissing" },
        { "approved meanwhile", NB_CSR_STATE_APPROVED, NB_PENDING_UNASKED, NB_CSR_NOT_ISSUED,
          "the CSR '" NAME "' is approved, but no certificate was issued yet", "" },
};

static struct nb_csr example(enum nb_csr_state state) {
        return (struct nb_csr){ .name = NAME,
                                .state = state,
                                .username = "system:bootstrap:abcdef",
                                .groups = "system:bootstrappers, g" };
}

static void describes(void **state) {
        const struct text_case *c = *state;
        struct nb_csr csr = example(c->state);
        struct nb_failure f = { 0 };

        assert_true(nb_pending_describe(&csr, "node-1", c->reason, &f) < 0);
        assert_int_equal(f.code, c->code);
        assert_string_equal(f.detail, c->detail);
        assert_string_equal(nb_pending_reason_name(c->reason), c->word);
        assert_int_equal(nb_failure_info(f.code)->exit_status, 75);
        assert_int_equal(nb_failure_info(f.code)->class, NB_CLASS_WAIT);
}

struct look_case {
        const char *name;
        enum nb_csr_state state;
        const char *reason, *message;
        enum nb_code code;
        const char *detail;
};

/* What `check` reports: it looks once. */
static struct look_case looks[] = {
        { "it waits", NB_CSR_STATE_PENDING, "", "", NB_CSR_PENDING_UNAPPROVED,
          "the CSR '" NAME "' is waiting for approval: 'system:bootstrap:abcdef' is allowed "
          "automatic approval, but no approver has "
          "approved it" },
        { "it is not issued", NB_CSR_STATE_APPROVED, "AutoApproved", "", NB_CSR_NOT_ISSUED,
          "the CSR '" NAME "' is approved, but no certificate was issued yet" },
        { "it was denied", NB_CSR_STATE_DENIED, "NotOurs", "no such machine", NB_CSR_DENIED,
          "the CSR '" NAME "' was denied, reason 'NotOurs', message 'no such machine'" },
        { "it failed, without a word", NB_CSR_STATE_FAILED, "", "", NB_CSR_FAILED,
          "the CSR '" NAME "' failed; no reason is recorded" },
};

static void describes_at_a_look(void **state) {
        const struct look_case *c = *state;
        struct nb_csr csr = example(c->state);
        struct nb_failure f = { 0 };

        (void)snprintf(csr.reason, sizeof(csr.reason), "%s", c->reason);
        (void)snprintf(csr.message, sizeof(csr.message), "%s", c->message);
        assert_true(nb_pending_describe(&csr, "node-1", NB_PENDING_UNAPPROVED, &f) < 0);
        assert_int_equal(f.code, c->code);
        assert_string_equal(f.detail, c->detail);
}

static void reads_the_answer(_unused_ void **state) {
        assert_int_equal(nb_pending_reason_of(NB_RIGHT_GRANTED), NB_PENDING_UNAPPROVED);
        assert_int_equal(nb_pending_reason_of(NB_RIGHT_DENIED), NB_PENDING_UNBOUND);
        assert_int_equal(nb_pending_reason_of(-EACCES), NB_PENDING_UNKNOWN);
}

/* Of long names, that of the CSR is complete. */
static void the_csr_is_never_cut(void **state) {
        struct nb_csr csr = example(NB_CSR_STATE_PENDING);
        struct nb_failure f = { 0 };

        memset(csr.username, 'u', sizeof(csr.username) - 1);
        memset(csr.groups, 'g', sizeof(csr.groups) - 1);
        (void)nb_pending_describe(&csr, "node-1", NB_PENDING_UNBOUND, &f);
        assert_memory_equal(f.detail, WAITS ": it will not", strlen(WAITS ": it will not"));
}

static void knows_who_decides(void **state) {
        struct nb_csr csr = example(NB_CSR_STATE_PENDING);

        assert_int_equal(nb_pending_reason_known(&csr), NB_PENDING_UNASKED);
        (void)snprintf(csr.username, sizeof(csr.username), "%s", ACCOUNT);
        assert_int_equal(nb_pending_reason_known(&csr), NB_PENDING_MACHINE);
        csr.is_for_controller = true;
        assert_int_equal(nb_pending_reason_known(&csr), NB_PENDING_CONTROLLER);
}

int main(void) {
        CASES(nexts, tells_again);
        CASES(texts, describes);
        CASES(looks, describes_at_a_look);
        CASE(reads_the_answer);
        CASE(the_csr_is_never_cut);
        CASE(knows_who_decides);
        return case_run("pending");
}
