/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/frame/lease.h"
#include "admin/policy/waits.h"
#include "os/clock.h"

#include "case.h"

/* --- The Lease --- */

static const struct nb_election_waits waits = {
        .renew_ms = 50, .standby_ms = 10, .expire_ms = 140, .held_ms = 100
};

/* What a call told at this time, what follows from it, and when the next call is due. */
struct step {
        uint64_t now_ms;
        enum { END, HELD_BY_OTHER, FREE, WRITTEN, LOST, FAILED } event;
        const char *version; /* of the Lease that was read */
        bool is_true;        /* it may be taken; of other events: this controller holds it */
        uint64_t due_ms;     /* not of a Lease that may be taken: it is written at once */
};

static const int results[] = { [WRITTEN] = 1, [LOST] = 0, [FAILED] = -1 };

static struct {
        const char *name;
        struct step steps[12];
} rows[] = {
        { "the first controller creates the Lease",
          { { 1000, FREE, "", true }, { 1001, WRITTEN, NULL, true, 1051 } } },
        { "a Lease that was released is taken at once",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 1010, FREE, "2", true },
            { 1011, WRITTEN, NULL, true, 1061 } } },
        { "another controller was faster",
          { { 1000, FREE, "1", true },
            { 1001, LOST, NULL, false, 1011 },
            { 1011, HELD_BY_OTHER, "2", false, 1021 } } },
        { "a Lease that has not changed may be taken when it has expired",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 1139, HELD_BY_OTHER, "1", false, 1149 },
            { 1140, HELD_BY_OTHER, "1", true } } },
        { "each change begins the wait again",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 1139, HELD_BY_OTHER, "2", false, 1149 },
            { 1140, HELD_BY_OTHER, "2", false, 1150 },
            { 1278, HELD_BY_OTHER, "2", false, 1288 },
            { 1279, HELD_BY_OTHER, "2", true } } },
        { "the other wrote while this machine slept",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 999000, HELD_BY_OTHER, "2", false, 999010 } } },
        { "a write that fails does not begin the wait again",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 1140, HELD_BY_OTHER, "1", true },
            { 1141, FAILED, NULL, false, 1151 },
            { 1151, HELD_BY_OTHER, "1", true },
            { 1152, WRITTEN, NULL, true, 1202 } } },
        { "a read that fails does not begin the wait again",
          { { 1000, HELD_BY_OTHER, "1", false, 1010 },
            { 1010, FAILED, NULL, false, 1020 },
            { 1140, HELD_BY_OTHER, "1", true } } },
        { "a leader whose renewals fail stops before anybody else may take the Lease",
          { { 1000, WRITTEN, NULL, true, 1050 },
            { 1050, WRITTEN, NULL, true, 1100 },
            { 1100, FAILED, NULL, true, 1110 },
            { 1149, FAILED, NULL, true, 1159 },
            { 1150, FAILED, NULL, false, 1160 } } },
        { "a leader that renews in time goes on",
          { { 1000, WRITTEN, NULL, true, 1050 },
            { 1099, FAILED, NULL, true, 1109 },
            { 1109, FREE, "7", true },
            { 1110, WRITTEN, NULL, true, 1160 },
            { 1209, FAILED, NULL, true, 1219 } } },
        { "a failure after this machine has slept ends its lead",
          { { 1000, WRITTEN, NULL, true, 1050 }, { 999000, FAILED, NULL, false, 999010 } } },
        { "a leader that somebody else replaced stops at once",
          { { 1000, WRITTEN, NULL, true, 1050 },
            { 1050, LOST, NULL, false, 1060 },
            { 1060, HELD_BY_OTHER, "9", false, 1070 } } },
        { "a leader that reads another holder stops at once",
          { { 1000, WRITTEN, NULL, true, 1050 },
            { 1050, FAILED, NULL, true, 1060 },
            { 1060, HELD_BY_OTHER, "9", false, 1070 } } },
};

static void elects(void **state) {
        const __typeof__(rows[0]) *row = *state;
        struct nb_election election = { 0 };

        for (const struct step *step = row->steps; step->event != END; step++) {
                const bool is_read = step->event == FREE || step->event == HELD_BY_OTHER;
                bool is_true;

                if (is_read)
                        is_true = nb_election_observe(&election, &waits, step->version,
                                                      step->event == FREE, step->now_ms);
                else {
                        nb_election_note(&election, &waits, results[step->event], step->now_ms,
                                         step->now_ms);
                        is_true = election.is_held;
                }
                if (is_true != step->is_true ||
                    (!(is_read && is_true) && election.due_ms != step->due_ms) ||
                    (is_read && !is_true && election.is_held))
                        fail_msg("at %llu: %d, held %d, due %llu", (unsigned long long)step->now_ms,
                                 is_true, election.is_held, (unsigned long long)election.due_ms);
        }
}

/* The time counts from when the renewal was sent: another controller may have read it then. */
static void a_renewal_counts_from_its_sending(void **state) {
        struct nb_election election = { 0 };

        nb_election_note(&election, &waits, 1, 1000, 1080);
        assert_true(nb_election_is_leader(&election, &waits, 1099));
        assert_false(nb_election_is_leader(&election, &waits, 1100));
        nb_election_note(&election, &waits, -1, 0, 1100);
        assert_false(election.is_held);
}

/* The documented 15 s are for a standby that has just looked. */
static void a_leader_stops_before_another_begins(void **state) {
        const struct nb_election_waits *shipped = &nb_lease_waits;

        assert_true(shipped->renew_ms < shipped->held_ms);
        assert_true(shipped->held_ms + shipped->standby_ms < shipped->expire_ms);
        assert_true(shipped->expire_ms + shipped->standby_ms <= 15000);
}

/* --- Reports --- */

static const struct nb_report_limits limits = { .repeat_ms = 3600,
                                                .of_party = { 3, 60 },
                                                .of_kind = { 5, 10 } };

enum { ONE = 1 << 1, TWO = 1 << 2 };

/* NULL: another party each time. */
static bool report(struct nb_reports *reports, struct nb_rate *of_party, struct nb_rate *of_kind,
                   unsigned bit, uint64_t now_ms) {
        struct nb_rate fresh = { 0 };

        return nb_reports_take(reports, &limits, of_party ? of_party : &fresh, of_kind, bit,
                               now_ms) > 0;
}

static void a_reason_is_reported_again_after_a_while(void **state) {
        struct nb_reports reports = { 0 };
        struct nb_rate of_kind = { 0 };

        assert_true(report(&reports, NULL, &of_kind, ONE, 5000));
        assert_false(report(&reports, NULL, &of_kind, ONE, 5000));
        assert_false(report(&reports, NULL, &of_kind, ONE, 8599));
        assert_true(report(&reports, NULL, &of_kind, ONE, 8600));
        assert_false(report(&reports, NULL, &of_kind, ONE, 8601));
        assert_true(report(&reports, NULL, &of_kind, ONE, 999000));
}

/* The other reason is new; what was reported before it counts from there. */
static void each_reason_is_reported(void **state) {
        struct nb_reports reports = { 0 };
        struct nb_rate of_kind = { 0 };

        assert_true(report(&reports, NULL, &of_kind, ONE, 5000));
        assert_true(report(&reports, NULL, &of_kind, TWO, 6000));
        assert_false(report(&reports, NULL, &of_kind, ONE, 8600));
        assert_false(report(&reports, NULL, &of_kind, TWO, 9599));
        assert_true(report(&reports, NULL, &of_kind, TWO, 9600));
        assert_true(report(&reports, NULL, &of_kind, ONE, 9600));
}

/* What is refused uses up neither rate. The last report of a party can say that it is the last. */
static void the_last_report_of_a_party_is_known(void **state) {
        static const int expected[] = { 1, 1, 2, 0, 0 };
        struct nb_rate of_party = { 0 }, of_kind = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                struct nb_reports reports = { 0 };

                assert_int_equal(nb_reports_take(&reports, &limits, &of_party, &of_kind, ONE, 5000),
                                 expected[i]);
        }
        assert_int_equal(of_party.used_ms, 5180);
        assert_int_equal(of_kind.used_ms, 5030);
}

static void a_rate_allows_a_burst_and_then_one_per_interval(void **state) {
        static const struct {
                uint64_t now_ms;
                bool is_allowed;
        } steps[] = {
                { 5000, true },    { 5000, true },   { 5000, true },   { 5000, false },
                { 5059, false },   { 5060, true },   { 5060, false },  { 5119, false },
                { 5120, true },    { 5120, false },  { 5240, true },   { 5240, true },
                { 5240, false },   { 999000, true }, { 999000, true }, { 999000, true },
                { 999000, false },
        };
        struct nb_rate of_party = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                struct nb_reports other = { 0 };
                struct nb_rate of_kind = { 0 };

                if (report(&other, &of_party, &of_kind, ONE, steps[i].now_ms) !=
                    steps[i].is_allowed)
                        fail_msg("step %zu", i);
        }
}

static void all_parties_have_a_rate_together(void **state) {
        struct nb_rate of_kind = { 0 };

        for (unsigned i = 0; i < 10; i++) {
                struct nb_reports reports = { 0 };
                struct nb_rate of_party = { 0 };

                assert_int_equal(report(&reports, &of_party, &of_kind, ONE, 5000), i < 5);
        }
}

/* --- The token of an issued certificate --- */

static struct {
        const char *name;
        uint64_t look_ms, now_ms, wait_ms;
        bool is_look_due;
} graces[] = {
        { "the Node is looked for, and then for the rest of the time", 0, 5000, 600, true },
        { "just before the Node is looked for", 5200, 5199, 1, false },
        { "the Node is looked for when it is time", 5200, 5200, 400, true },
        { "it is not looked for before the end", 5601, 5100, 500, false },
        { "it would be looked for at the end", 5600, 5100, 500, false },
        { "just before the end", 0, 5599, 1, true },
        { "at the end", 0, 5600, 0, true },
        { "at the end, whether it was looked for or not", 9000, 5600, 0, false },
        { "this machine slept", 5200, 999000, 0, true },
};

static void keeps_a_token(void **state) {
        const __typeof__(graces[0]) *row = *state;
        const struct nb_grace grace = { .issued_ms = 5000, .look_ms = row->look_ms };
        bool is_look_due;

        assert_int_equal(nb_grace_wait(&grace, 600, row->now_ms, &is_look_due), row->wait_ms);
        if (row->wait_ms > 0)
                assert_int_equal(is_look_due, row->is_look_due);
}

static void no_grace_is_no_wait(void **state) {
        bool is_look_due;

        assert_int_equal(
                nb_grace_wait(&(struct nb_grace){ .issued_ms = 5000 }, 0, 5000, &is_look_due), 0);
}

int main(void) {
        CASES(rows, elects);
        CASE(a_renewal_counts_from_its_sending);
        CASE(a_leader_stops_before_another_begins);
        CASE(a_reason_is_reported_again_after_a_while);
        CASE(each_reason_is_reported);
        CASE(the_last_report_of_a_party_is_known);
        CASE(a_rate_allows_a_burst_and_then_one_per_interval);
        CASE(all_parties_have_a_rate_together);
        CASES(graces, keeps_a_token);
        CASE(no_grace_is_no_wait);
        return case_run("waits");
}
