/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

#define N_WORKS 500

static struct nb_work *take_work(struct nb_queue *queue, uint64_t now_ms) {
        struct nb_work *work = nb_queue_find(queue, now_ms);

        if (work)
                nb_queue_take(queue, work);
        return work;
}

static void returns_work_in_order_of_time_then_of_queueing(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS] = { 0 };
        const struct nb_work *previous = NULL, *work;
        size_t n = 0;

        for (size_t i = 0; i < N_WORKS; i++)
                assert_int_equal(nb_queue_put(&queue, &works[i], (i * 7919) % 50), 0);
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
        nb_queue_done(&queue);
}

static void does_not_return_work_before_its_time(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work late = { 0 }, early = { 0 };

        assert_int_equal(nb_queue_put(&queue, &late, 200), 0);
        assert_int_equal(nb_queue_put(&queue, &early, 100), 0);
        assert_int_equal(nb_queue_due(&queue), 100);
        assert_null(take_work(&queue, 99));
        assert_ptr_equal(take_work(&queue, 100), &early);
        assert_null(take_work(&queue, 199));
        assert_ptr_equal(take_work(&queue, 200), &late);
        nb_queue_done(&queue);
}

static void moves_and_removes_work(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[N_WORKS] = { 0 };
        size_t n = 0;

        for (size_t i = 0; i < N_WORKS; i++)
                assert_int_equal(nb_queue_put(&queue, &works[i], i), 0);
        for (size_t i = 0; i < N_WORKS; i += 2)
                nb_queue_remove(&works[i]);
        nb_queue_remove(&works[0]);
        for (size_t i = 1; i < N_WORKS; i += 2)
                assert_int_equal(nb_queue_put(&queue, &works[i], N_WORKS - i), 0);
        for (size_t i = N_WORKS - 1; nb_queue_due(&queue) != NB_TIME_INFINITE; i -= 2, n++)
                assert_ptr_equal(take_work(&queue, N_WORKS), &works[i]);
        assert_int_equal(n, N_WORKS / 2);
        nb_queue_done(&queue);
}

static void put_in_flow(struct nb_queue *queue, struct nb_work *work, const char *flow,
                        uint64_t due_ms) {
        assert_int_equal(nb_work_set_flow(queue, work, flow), 0);
        assert_int_equal(nb_queue_put(queue, work, due_ms), 0);
}

static void a_flood_takes_turns_with_others(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work flood[N_WORKS] = { 0 }, other[2] = { 0 }, alone = { 0 },
                       last = { .is_last = true };

        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &flood[i], "flood", 0);
        put_in_flow(&queue, &last, "last", 0);
        assert_ptr_equal(take_work(&queue, 1), &flood[0]);
        assert_ptr_equal(take_work(&queue, 1), &flood[1]);
        put_in_flow(&queue, &other[0], "other", 1);
        put_in_flow(&queue, &other[1], "other", 1);
        assert_int_equal(nb_queue_put(&queue, &alone, 1), 0);
        assert_ptr_equal(take_work(&queue, 1), &other[0]);
        assert_ptr_equal(take_work(&queue, 1), &alone);
        assert_ptr_equal(take_work(&queue, 1), &flood[2]);
        assert_ptr_equal(take_work(&queue, 1), &other[1]);
        for (size_t i = 3; i < N_WORKS; i++)
                assert_ptr_equal(take_work(&queue, 1), &flood[i]);
        assert_ptr_equal(take_work(&queue, 1), &last);
        for (size_t i = 0; i < N_WORKS; i++)
                nb_work_done(&queue, &flood[i]);
        nb_work_done(&queue, &other[0]);
        nb_work_done(&queue, &other[1]);
        nb_work_done(&queue, &last);
        assert_int_equal(queue.flows.n, 0);
        nb_queue_done(&queue);
}

static void work_keeps_its_turn(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[3] = { 0 };

        for (size_t i = 0; i < 3; i++)
                put_in_flow(&queue, &works[i], i < 2 ? "a" : "b", 0);
        assert_ptr_equal(take_work(&queue, 1), &works[0]);
        assert_int_equal(nb_queue_put(&queue, &works[1], 1), 0);
        assert_int_equal(nb_queue_put(&queue, &works[2], 1), 0);
        assert_ptr_equal(take_work(&queue, 1), &works[2]);
        assert_ptr_equal(take_work(&queue, 1), &works[1]);
        for (size_t i = 0; i < 3; i++)
                nb_work_done(&queue, &works[i]);
        nb_queue_done(&queue);
}

static void a_flow_that_has_to_wait_holds_up_no_other(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work busy[N_WORKS] = { 0 }, other[2] = { 0 };

        for (size_t i = 0; i < N_WORKS; i++)
                put_in_flow(&queue, &busy[i], "busy", 0);
        put_in_flow(&queue, &other[0], "other", 0);
        put_in_flow(&queue, &other[1], "other", 0);
        for (size_t i = 0; i < 2; i++) {
                for (struct nb_work *work; (work = nb_queue_find(&queue, 1)) != &other[i];)
                        assert_int_equal(nb_queue_hold(&queue, work), 0);
                nb_queue_take(&queue, &other[i]);
        }
        while (nb_queue_find(&queue, 1))
                assert_int_equal(nb_queue_hold(&queue, nb_queue_find(&queue, 1)), 0);
        assert_true(nb_queue_due(&queue) == NB_TIME_INFINITE);

        /* What is held keeps its turn, and can be removed, or queued for later. */
        assert_int_equal(nb_queue_put(&queue, &busy[0], 1), 0);
        assert_null(nb_queue_find(&queue, 1));
        nb_queue_remove(&busy[1]);
        nb_work_done(&queue, &busy[2]);
        nb_queue_release(&queue);
        assert_ptr_equal(nb_queue_find(&queue, 1), &busy[0]);
        assert_int_equal(nb_queue_hold(&queue, &busy[0]), 0);
        nb_queue_release(&queue);
        assert_ptr_equal(take_work(&queue, 1), &busy[0]);
        for (size_t i = 3; i < N_WORKS; i++)
                assert_ptr_equal(take_work(&queue, 1), &busy[i]);
        assert_null(take_work(&queue, 1));
        nb_queue_release(&queue);
        for (size_t i = 0; i < N_WORKS; i++)
                nb_work_done(&queue, &busy[i]);
        nb_work_done(&queue, &other[0]);
        nb_work_done(&queue, &other[1]);
        assert_int_equal(queue.flows.n, 0);
        nb_queue_done(&queue);
}

static void a_flow_that_ends_while_it_is_held_is_forgotten(_unused_ void **state) {
        struct nb_queue queue = { 0 };
        struct nb_work works[3] = { 0 };
        static const char *const flows[] = { "a", "b", "c" };

        for (size_t i = 0; i < 3; i++) {
                put_in_flow(&queue, &works[i], flows[i], 0);
                assert_int_equal(nb_queue_hold(&queue, nb_queue_find(&queue, 1)), 0);
        }
        nb_work_done(&queue, &works[1]);
        nb_queue_release(&queue);
        assert_ptr_equal(take_work(&queue, 1), &works[0]);
        assert_ptr_equal(take_work(&queue, 1), &works[2]);
        nb_work_done(&queue, &works[2]);
        nb_work_done(&queue, &works[0]);
        assert_null(queue.held);
        nb_queue_done(&queue);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(returns_work_in_order_of_time_then_of_queueing),
                cmocka_unit_test(does_not_return_work_before_its_time),
                cmocka_unit_test(moves_and_removes_work),
                cmocka_unit_test(a_flood_takes_turns_with_others),
                cmocka_unit_test(work_keeps_its_turn),
                cmocka_unit_test(a_flow_that_has_to_wait_holds_up_no_other),
                cmocka_unit_test(a_flow_that_ends_while_it_is_held_is_forgotten),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
