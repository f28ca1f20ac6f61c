/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "admin/client/call_plan.h"

#include "answers.h"

static struct {
        unsigned n_judged, n_written;
        int judged, written; /* what the steps return */
} calls;

static int judge(void *userdata _unused_, struct nb_plan *plan, struct nb_failure *f _unused_) {
        calls.n_judged++;
        (void)nb_plan_write(plan, "POST", "/claim", "claiming");
        (void)nb_plan_write(plan, "PATCH", "/approval", "approving");
        return calls.judged;
}

static int note_write(void *userdata _unused_, struct nb_plan *plan _unused_,
                      const struct nb_admin_call *call _unused_, int r, struct nb_failure *f) {
        calls.n_written++;
        if (r < 0 || calls.written < 0)
                return r < 0 ? r : calls.written;
        assert_int_equal(f->code, NB_NONE);
        return r < 300 ? 0 : -EAGAIN;
}

static const struct nb_plan_steps steps = { NULL, judge, note_write, NULL };

struct fixture {
        struct nb_admin admin;
        struct nb_plan plan;
        struct nb_failure f;
};

static int run(struct fixture *fixture, unsigned n_room, bool may_write) {
        return nb_plan_run(&fixture->plan, &fixture->admin, &steps, NULL, n_room, may_write,
                           &fixture->f);
}

static struct fixture *begin(void) {
        struct fixture *fixture = calloc(1, sizeof(*fixture));

        assert_non_null(fixture);
        memset(&calls, 0, sizeof(calls));
        for (unsigned i = 0; i < 3; i++)
                (void)nb_plan_read(&fixture->plan, i, "/fact", "reading");
        return fixture;
}

static void end(struct fixture *fixture) {
        nb_plan_done(&fixture->plan);
        free(fixture);
}

static void answer_reads(struct fixture *fixture) {
        for (unsigned i = 0; i < 3; i++)
                answer(&fixture->plan.reads[i], "GET", "/fact", 200, "{}");
}

static void reads_all_judges_once_and_writes_in_order(void **state) {
        struct fixture *fixture = begin();
        struct nb_plan *plan = &fixture->plan;

        assert_int_equal(run(fixture, 9, true), 0);
        assert_int_equal(nb_plan_count(plan), 3);
        answer(&plan->reads[1], "GET", "/fact", 200, "{}");
        assert_int_equal(run(fixture, 9, true), 0);
        assert_int_equal(calls.n_judged, 0);
        answer(&plan->reads[0], "GET", "/fact", 404, "{}");
        answer(&plan->reads[2], "GET", "/fact", 0, "");
        assert_int_equal(run(fixture, 9, true), 0);
        assert_int_equal(calls.n_judged, 1);
        assert_int_equal(nb_plan_count(plan), 1);
        assert_null(plan->writes[1].transfer);
        answer(&plan->writes[0], "POST", "/claim", 201, "{}");
        assert_int_equal(run(fixture, 9, true), 0);
        assert_int_equal(calls.n_written, 1);
        answer(&plan->writes[1], "PATCH", "/approval", 200, "{}");
        assert_int_equal(run(fixture, 9, true), 1);
        assert_int_equal(calls.n_judged, 1);
        assert_int_equal(calls.n_written, 2);
        end(fixture);
}

static void a_conflict_writes_no_more(void **state) {
        struct fixture *fixture = begin();

        assert_int_equal(run(fixture, 9, true), 0);
        answer_reads(fixture);
        assert_int_equal(run(fixture, 9, true), 0);
        answer(&fixture->plan.writes[0], "POST", "/claim", 409, "{}");
        assert_int_equal(run(fixture, 9, true), -EAGAIN);
        assert_int_equal(fixture->f.code, NB_NONE);
        assert_null(fixture->plan.writes[1].transfer);
        end(fixture);
}

/* It may have been the leader when it judged. */
static void who_leads_no_more_writes_no_more(void **state) {
        struct fixture *fixture = begin();

        assert_int_equal(run(fixture, 9, true), 0);
        answer_reads(fixture);
        assert_int_equal(run(fixture, 9, true), 0);
        answer(&fixture->plan.writes[0], "POST", "/claim", 201, "{}");
        assert_int_equal(run(fixture, 9, false), -EPERM);
        assert_int_equal(calls.n_written, 1);
        assert_null(fixture->plan.writes[1].transfer);
        end(fixture);
}

static void without_room_it_waits(void **state) {
        struct fixture *fixture = begin();

        assert_int_equal(run(fixture, 1, true), 0);
        assert_int_equal(nb_plan_count(&fixture->plan), 1);
        assert_int_equal(run(fixture, 0, true), 0);
        assert_int_equal(nb_plan_count(&fixture->plan), 1);
        assert_int_equal(run(fixture, 2, true), 0);
        assert_int_equal(nb_plan_count(&fixture->plan), 3);
        end(fixture);
}

/* The credential was replaced. */
static void an_interrupted_call_begins_again(void **state) {
        struct fixture *fixture = begin();

        assert_int_equal(run(fixture, 9, true), 0);
        answer(&fixture->plan.reads[0], "GET", "/fact", 200, "{}");
        nb_plan_interrupt(&fixture->plan);
        assert_int_equal(nb_plan_count(&fixture->plan), 0);
        assert_int_equal(run(fixture, 9, true), 0);
        assert_int_equal(nb_plan_count(&fixture->plan), 2);
        end(fixture);
}

static void a_judge_that_fails_writes_nothing(void **state) {
        struct fixture *fixture = begin();

        calls.judged = -EIO;
        assert_int_equal(run(fixture, 9, true), 0);
        answer_reads(fixture);
        assert_int_equal(run(fixture, 9, true), -EIO);
        assert_int_equal(nb_plan_count(&fixture->plan), 0);
        end(fixture);
}

int main(void) {
        CASE(reads_all_judges_once_and_writes_in_order);
        CASE(a_conflict_writes_no_more);
        CASE(who_leads_no_more_writes_no_more);
        CASE(without_room_it_waits);
        CASE(an_interrupted_call_begins_again);
        CASE(a_judge_that_fails_writes_nothing);
        return case_run("plan of calls");
}
