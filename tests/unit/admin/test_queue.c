/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

#define N_WORKS 500

static bool may_run_all(_unused_ void *userdata, _unused_ const struct nb_work *work) {
        return true;
}

static struct nb_work *take_work(struct nb_queue *queue, uint64_t now_ms) {
        return nb_queue_take(queue, now_ms, true, may_run_all, NULL);
}

static void put_in_flow(struct nb_queue *queue, struct nb_work *work, const char *flow,
                        uint64_t due_ms) {
        assert_int_equal(nb_work_set_flow(queue, work, flow), 0);
        assert_int_equal(nb_queue_put(queue, work, due_ms), 0);
}

/* All works leave their flows. */
static void end(struct nb_queue *queue, struct nb_work *works, size_t n) {
        for (size_t i = 0; i < n; i++)
                nb_work_done(queue, &works[i]);
        assert_int_equal(queue->flows.n, 0);
        assert_int_equal(queue->n_ready + queue->n_waiting, 0);
        nb_queue_done(queue);
}

static void returns_work_in_order_of_time_then_of_queueing(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS] = { 0 };
        const struct nb_work *previous = NULL, *work;
        size_t n = 0;

        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &works[i], "", (i * 7919) % 50);
        while ((work = take_work(&queue, 50))) {
                if (previous && previous->due_ms == work->due_ms)
                        assert_true(previous < work);
                else if (previous)
                        assert_true(previous->due_ms < work->due_ms);
                previous = work;
                n++;
        }
        assert_int_equal(n, N_WORKS);
        assert_true(nb_queue_due(&queue) == NB_TIME_INFINITE);
        end(&queue, works, N_WORKS);
}

static void does_not_return_work_before_its_time(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[2] = { 0 };

        put_in_flow(&queue, &works[0], "", 200);
        put_in_flow(&queue, &works[1], "", 100);
        assert_int_equal(nb_queue_due(&queue), 100);
        assert_null(take_work(&queue, 99));
        assert_ptr_equal(take_work(&queue, 100), &works[1]);
        assert_null(take_work(&queue, 199));
        assert_ptr_equal(take_work(&queue, 200), &works[0]);
        end(&queue, works, 2);
}

static void moves_and_removes_work(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS] = { 0 };
        size_t n = 0;

        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &works[i], "", i);
        for (size_t i = 0; i < N_WORKS; i += 2)
                nb_queue_remove(&queue, &works[i]);
        nb_queue_remove(&queue, &works[0]);
        for (size_t i = 1; i < N_WORKS; i += 2)
                assert_int_equal(nb_queue_put(&queue, &works[i], N_WORKS - i), 0);
        for (size_t i = N_WORKS - 1; n < N_WORKS / 2; i -= 2, n++)
                assert_ptr_equal(take_work(&queue, N_WORKS), &works[i]);
        assert_null(take_work(&queue, N_WORKS));
        end(&queue, works, N_WORKS);
}

/* In another order than that in which it is put, moved and removed. */
static void keeps_the_order_whatever_comes_between(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS] = { 0 };
        uint32_t random = 1;

        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &works[i], "", i);
        for (size_t i = 0; i < (size_t)20 * N_WORKS; i++) {
                struct nb_work *work = &works[(random >> 8) % N_WORKS];
                uint64_t due_ms = NB_TIME_INFINITE;

                random = random * 1664525 + 1013904223;
                nb_queue_remove(&queue, work);
                if (i % 3)
                        assert_int_equal(nb_queue_put(&queue, work, random % 1000), 0);
                for (size_t j = 0; j < N_WORKS; j++)
                        if (works[j].is_waiting && works[j].due_ms < due_ms)
                                due_ms = works[j].due_ms;
                assert_true(nb_queue_due(&queue) == due_ms);
        }
        end(&queue, works, N_WORKS);
}

static void work_without_a_flow_is_not_queued(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work work = { 0 };

        assert_int_equal(nb_queue_put(&queue, &work, 0), -ENOMEM);
        assert_false(nb_work_is_queued(&work));
}

static void a_flood_takes_turns_with_others(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS + 4] = { 0 };
        struct nb_work *flood = works, *other = works + N_WORKS, *alone = works + N_WORKS + 2,
                       *last = works + N_WORKS + 3;

        last->is_last = true;
        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &flood[i], "flood", 0);
        put_in_flow(&queue, last, "flood", 0);
        assert_ptr_equal(take_work(&queue, 1), &flood[0]);
        assert_ptr_equal(take_work(&queue, 1), &flood[1]);
        put_in_flow(&queue, &other[0], "other", 1);
        put_in_flow(&queue, &other[1], "other", 1);
        put_in_flow(&queue, alone, "alone", 1);
        assert_ptr_equal(take_work(&queue, 1), &flood[2]);
        assert_ptr_equal(take_work(&queue, 1), &other[0]);
        assert_ptr_equal(take_work(&queue, 1), alone);
        assert_ptr_equal(take_work(&queue, 1), &flood[3]);
        assert_ptr_equal(take_work(&queue, 1), &other[1]);
        for (size_t i = 4; i < N_WORKS; i++)
                assert_ptr_equal(take_work(&queue, 1), &flood[i]);
        assert_null(nb_queue_take(&queue, 1, false, may_run_all, NULL));
        assert_ptr_equal(take_work(&queue, 1), last);
        end(&queue, works, N_WORKS + 4);
}

static void work_keeps_its_turn(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[3] = { 0 };

        for (size_t i = 0; i < 3; i++)
                put_in_flow(&queue, &works[i], i < 2 ? "a" : "b", 0);
        assert_ptr_equal(take_work(&queue, 1), &works[0]);
        assert_int_equal(nb_queue_put(&queue, &works[1], 1), 0);
        assert_int_equal(nb_queue_put(&queue, &works[2], 9), 0);
        assert_ptr_equal(take_work(&queue, 1), &works[2]);
        assert_ptr_equal(take_work(&queue, 1), &works[1]);
        end(&queue, works, 3);
}

static bool may_run_others(void *userdata, const struct nb_work *work) {
        return work->flow != userdata;
}

static void a_flow_that_has_to_wait_holds_up_no_other(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS + 2] = { 0 };
        struct nb_work *busy = works, *other = works + N_WORKS;

        for (size_t i = 0; i < N_WORKS + 2; i++)
                put_in_flow(&queue, &works[i], i < N_WORKS ? "busy" : "other", 0);
        for (size_t i = 0; i < 2; i++)
                assert_ptr_equal(nb_queue_take(&queue, 1, true, may_run_others, busy[0].flow),
                                 &other[i]);
        assert_null(nb_queue_take(&queue, 1, true, may_run_others, busy[0].flow));

        /* What waits for its turn can be removed, with the others of its flow. */
        nb_queue_remove(&queue, &busy[1]);
        nb_work_done(&queue, &busy[2]);
        assert_ptr_equal(take_work(&queue, 1), &busy[0]);
        for (size_t i = 3; i < N_WORKS; i++)
                assert_ptr_equal(take_work(&queue, 1), &busy[i]);
        assert_null(take_work(&queue, 1));
        end(&queue, works, N_WORKS + 2);
}

static void a_flow_that_ends_loses_its_turn(_unused_ void **state) {
        static const char *const flows[] = { "a", "b", "c" };
        struct nb_queue queue = { 0 };
        struct nb_work works[3] = { 0 };

        for (size_t i = 0; i < 3; i++)
                put_in_flow(&queue, &works[i], flows[i], 0);
        assert_ptr_equal(nb_queue_take(&queue, 0, true, may_run_others, works[0].flow), &works[1]);
        nb_work_done(&queue, &works[2]);
        assert_ptr_equal(take_work(&queue, 1), &works[0]);
        assert_null(take_work(&queue, 1));
        end(&queue, works, 3);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(returns_work_in_order_of_time_then_of_queueing),
                cmocka_unit_test(does_not_return_work_before_its_time),
                cmocka_unit_test(moves_and_removes_work),
                cmocka_unit_test(keeps_the_order_whatever_comes_between),
                cmocka_unit_test(work_without_a_flow_is_not_queued),
                cmocka_unit_test(a_flood_takes_turns_with_others),
                cmocka_unit_test(work_keeps_its_turn),
                cmocka_unit_test(a_flow_that_has_to_wait_holds_up_no_other),
                cmocka_unit_test(a_flow_that_ends_loses_its_turn),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
