/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "admin/frame/controller.h"
#include "os/clock.h"

#include "answers.h"

#define N_RUNS 200 /* of the loop, which takes what it can in a few milliseconds */

struct job {
        struct nb_work work;
        int r; /* what it comes to; -EINPROGRESS: it waits for an answer */
        struct nb_failure failure;
        unsigned n_runs;
};

static int begin_job(void *userdata, struct nb_plan *plan) {
        struct job *job = userdata;

        job->n_runs++;
        if (job->r == -EINPROGRESS)
                (void)nb_plan_read(plan, 0, "/x", "reading");
        return 0;
}

static int judge_job(void *userdata, struct nb_plan *plan _unused_, struct nb_failure *f) {
        struct job *job = userdata;

        *f = job->failure;
        return job->r;
}

static const struct nb_plan_steps steps = { begin_job, judge_job, NULL, NULL };

static struct nb_controller *start(void) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));

        assert_non_null(controller);
        controller->is_leading = true;
        controller->admin.expires_ms = NB_TIME_INFINITE;
        /* A credential that was refused is not read again here. */
        controller->admin.renew_ms = NB_TIME_INFINITE;
        return controller;
}

static void end(struct nb_controller *controller) {
        nb_queue_done(&controller->queue);
        free(controller);
}

static void add(struct nb_controller *controller, struct job *job, const char *flow, int r) {
        *job = (struct job){ .work = { .steps = &steps, .userdata = job }, .r = r };
        assert_int_equal(nb_work_set_flow(&controller->queue, &job->work, flow), 0);
        nb_controller_queue(controller, &job->work, 0);
}

static void run(struct nb_controller *controller) {
        for (unsigned i = 0; i < N_RUNS; i++)
                assert_int_equal(nb_controller_run_work(controller), 0);
}

/* --- Failures --- */

static struct {
        const char *name;
        enum nb_code code;
        uint32_t retry_after_ms;
        uint64_t pause_ms; /* of all work */
        uint64_t own_ms;   /* the least pause of its own */
} failures[] = {
        { "an object that may not be read delays its own work", NB_ADMIN_FORBIDDEN, 0, 0 },
        { "a change that came between, too", NB_NONE, 0, 0 },
        { "an error of the server, too", NB_SERVER_ERROR, 0, 0 },
        { "for as long as the server says", NB_SERVER_ERROR, 59000, 0, 59000 },
        { "a server that is away delays all work", NB_ADMIN_UNREACHABLE, 0, 1000 },
        { "a credential that is refused, too", NB_ADMIN_UNAUTHORIZED, 0, 1000 },
};

static void delays(void **state) {
        const __typeof__(failures[0]) *row = *state;
        struct nb_controller *controller = start();
        struct job failing, other;

        add(controller, &failing, "failing", row->code == NB_NONE ? -EAGAIN : -EIO);
        failing.failure.code = row->code;
        failing.failure.retry_after_ms = row->retry_after_ms;
        for (unsigned i = 0; i < 9; i++) {
                const uint64_t pause_ms = i < 7 ? 500U << i : 60000, before_ms = nb_now_ms();

                controller->resume_ms = 0;
                nb_controller_queue(controller, &failing.work, 0);
                run(controller);
                assert_int_equal(failing.n_runs, i + 1);
                if (row->own_ms == 0)
                        assert_in_range(failing.work.due_ms, before_ms + pause_ms / 2,
                                        nb_now_ms() + pause_ms);
                else
                        assert_in_range(failing.work.due_ms, before_ms + row->own_ms,
                                        nb_now_ms() + 60000);
                if (row->pause_ms == 0)
                        assert_int_equal(controller->resume_ms, 0);
                else
                        assert_in_range(controller->resume_ms, before_ms + row->pause_ms,
                                        nb_now_ms() + row->pause_ms);
        }
        add(controller, &other, "other", 0);
        run(controller);
        assert_int_equal(other.n_runs, row->pause_ms == 0);
        controller->resume_ms = 0;
        run(controller);
        assert_int_equal(other.n_runs, 1);

        failing.r = 0;
        failing.failure.code = NB_NONE;
        nb_controller_queue(controller, &failing.work, 0);
        run(controller);
        assert_int_equal(failing.work.attempt, 0);
        nb_controller_drop_work(controller, &failing.work);
        nb_controller_drop_work(controller, &other.work);
        end(controller);
}

/* --- Work that waits for answers --- */

static size_t count_started(const struct job *jobs, size_t n) {
        size_t n_started = 0;

        for (size_t i = 0; i < n; i++)
                n_started += jobs[i].n_runs > 0;
        return n_started;
}

#define N_FLOWS 6
#define N_JOBS 20 /* of a flow */

static void a_few_parties_leave_room_for_others(void **state) {
        static struct job jobs[N_FLOWS * N_JOBS], others[4];
        struct nb_controller *controller = start();

        for (size_t i = 0; i < N_ELEMENTS(jobs); i++) {
                char flow[16];

                snprintf(flow, sizeof(flow), "w%zu", i % N_FLOWS);
                add(controller, &jobs[i], flow, -EINPROGRESS);
        }
        run(controller);
        assert_int_equal(count_started(jobs, N_ELEMENTS(jobs)), NB_CONTROLLER_SLOTS_MAX - 3);
        for (size_t i = 0; i < N_ELEMENTS(others); i++)
                add(controller, &others[i], i % 2 == 0 ? "alone" : "other", 0);
        run(controller);
        assert_int_equal(count_started(others, N_ELEMENTS(others)), N_ELEMENTS(others));
        for (size_t i = 0; i < N_ELEMENTS(jobs); i++)
                nb_controller_drop_work(controller, &jobs[i].work);
        for (size_t i = 0; i < N_ELEMENTS(others); i++)
                nb_controller_drop_work(controller, &others[i].work);
        end(controller);
}

static void one_party_has_few_slots(void **state) {
        static struct job jobs[N_JOBS], last;
        struct nb_controller *controller = start();

        for (size_t i = 0; i < N_ELEMENTS(jobs); i++)
                add(controller, &jobs[i], "w", -EINPROGRESS);
        run(controller);
        assert_int_equal(count_started(jobs, N_ELEMENTS(jobs)), 3);
        add(controller, &last, "last", 0);
        last.work.is_last = true;
        run(controller);
        assert_int_equal(last.n_runs, 1);
        for (size_t i = 0; i < N_ELEMENTS(jobs); i++)
                nb_controller_drop_work(controller, &jobs[i].work);
        nb_controller_drop_work(controller, &last.work);
        end(controller);
}

/* Work that is due must not wake the loop, which would spin until an answer arrives. */
static void the_loop_waits_while_all_slots_are_busy(void **state) {
        static struct job jobs[NB_CONTROLLER_SLOTS_MAX + 1];
        struct nb_controller *controller = start();

        for (size_t i = 0; i < N_ELEMENTS(jobs); i++) {
                char flow[16];

                snprintf(flow, sizeof(flow), "w%zu", i);
                add(controller, &jobs[i], flow, -EINPROGRESS);
                run(controller);
        }
        assert_int_equal(count_started(jobs, N_ELEMENTS(jobs)), NB_CONTROLLER_SLOTS_MAX);
        assert_true(nb_controller_work_due(controller) == NB_TIME_INFINITE);
        for (size_t i = 0; i < N_ELEMENTS(jobs); i++)
                nb_controller_drop_work(controller, &jobs[i].work);
        end(controller);
}

/* A standby keeps its queue, and runs nothing of it. */
static void a_standby_begins_nothing(void **state) {
        struct nb_controller *controller = start();
        struct job job;

        controller->is_leading = false;
        add(controller, &job, "", 0);
        run(controller);
        assert_int_equal(job.n_runs, 0);
        assert_true(nb_controller_work_due(controller) == NB_TIME_INFINITE);
        controller->is_leading = true;
        run(controller);
        assert_int_equal(job.n_runs, 1);
        nb_controller_drop_work(controller, &job.work);
        end(controller);
}

/* --- Transfers --- */

static unsigned count_transfers(const struct nb_controller *controller) {
        unsigned n = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                n += nb_plan_count(&controller->slots[i].plan);
        return n;
}

static int begin_reads(void *userdata, struct nb_plan *plan) {
        struct job *job = userdata;

        job->n_runs++;
        for (unsigned i = 0; i < NB_PLAN_READS_MAX; i++)
                (void)nb_plan_read(plan, i, "/x", "reading");
        return 0;
}

/* Each transfer is a process. A decision alone reads all at once, and each has one. */
static void transfers_are_few(void **state) {
        static const struct nb_plan_steps reading = { begin_reads, judge_job, NULL, NULL };
        static struct job jobs[NB_CONTROLLER_SLOTS_MAX];
        struct nb_controller *controller = start();

        for (size_t i = 0; i < N_ELEMENTS(jobs); i++) {
                add(controller, &jobs[i], (const char[]){ (char)('a' + i), 0 }, 0);
                jobs[i].work.steps = &reading;
                run(controller);
                assert_int_equal(jobs[i].n_runs, 1);
                if (i == 0)
                        assert_int_equal(count_transfers(controller), NB_PLAN_READS_MAX);
                assert_true(nb_plan_count(&jobs[i].work.slot->plan) > 0);
        }
        assert_in_range(count_transfers(controller), NB_CONTROLLER_SLOTS_MAX, 16);
        for (size_t i = 0; i < N_ELEMENTS(jobs); i++)
                nb_controller_drop_work(controller, &jobs[i].work);
        end(controller);
}

int main(void) {
        CASE(transfers_are_few);
        CASES(failures, delays);
        CASE(a_few_parties_leave_room_for_others);
        CASE(one_party_has_few_slots);
        CASE(the_loop_waits_while_all_slots_are_busy);
        CASE(a_standby_begins_nothing);
        return case_run("work");
}
