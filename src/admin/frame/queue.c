/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

struct nb_flow {
        struct nb_record record;
        size_t n_works;
        struct nb_turns turns[2]; /* [is_last] */
};

/* The first one is the last one in the array. */
static int compare_times(const void *one, const void *other) {
        const struct nb_work *a = one, *b = other;

        return a->due_ms != b->due_ms ? (a->due_ms < b->due_ms) - (a->due_ms > b->due_ms)
                                      : (a->order < b->order) - (a->order > b->order);
}

static struct nb_work *first_waiting(const struct nb_queue *queue) {
        return queue->waiting.n > 0 ? queue->waiting.items[queue->waiting.n - 1] : NULL;
}

static void remove_waiting(struct nb_queue *queue, struct nb_work *work) {
        nb_sorted_remove(&queue->waiting, compare_times, work);
        work->is_waiting = false;
}

/* --- Flows --- */

static void leave_flow(struct nb_queue *queue, struct nb_work *work) {
        struct nb_flow *flow = TAKE(work->flow);

        if (flow && --flow->n_works == 0)
                nb_records_drop(&queue->flows, &flow->record);
}

int nb_work_set_flow(struct nb_queue *queue, struct nb_work *work, const char *name) {
        struct nb_flow *flow = nb_records_put(&queue->flows, name, sizeof(*flow));

        if (!flow)
                return -ENOMEM;
        for (size_t i = 0; i < N_ELEMENTS(flow->turns) && flow->n_works == 0; i++) {
                TAILQ_INIT(&flow->turns[i].works);
                if (!queue->turns[i].tqh_last)
                        TAILQ_INIT(&queue->turns[i]);
        }
        flow->n_works++;
        leave_flow(queue, work);
        work->flow = flow;
        return 0;
}

void nb_work_done(struct nb_queue *queue, struct nb_work *work) {
        nb_queue_remove(queue, work);
        leave_flow(queue, work);
}

/* --- The queue --- */

bool nb_work_is_queued(const struct nb_work *work) {
        return work->is_ready || work->is_waiting;
}

void nb_queue_remove(struct nb_queue *queue, struct nb_work *work) {
        struct nb_turns *turns;

        if (work->is_waiting)
                remove_waiting(queue, work);
        if (!TAKE(work->is_ready))
                return;
        queue->n_ready--;
        turns = &work->flow->turns[work->is_last];
        TAILQ_REMOVE(&turns->works, work, turn);
        if (TAILQ_EMPTY(&turns->works))
                TAILQ_REMOVE(&queue->turns[work->is_last], turns, next);
}

int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms) {
        if (work->is_ready)
                return 0;
        if (!work->flow) /* there was no memory for it */
                return -ENOMEM;
        nb_queue_remove(queue, work);
        work->due_ms = due_ms;
        work->order = queue->order++;
        work->is_waiting = nb_sorted_add(&queue->waiting, compare_times, work) >= 0;
        return work->is_waiting ? 0 : -ENOMEM;
}

/* A flow that has no turn yet has one after all others. */
static void make_ready(struct nb_queue *queue, uint64_t now_ms) {
        struct nb_work *work;

        while ((work = first_waiting(queue)) && work->due_ms <= now_ms) {
                struct nb_turns *turns = &work->flow->turns[work->is_last];

                remove_waiting(queue, work);
                if (TAILQ_EMPTY(&turns->works))
                        TAILQ_INSERT_TAIL(&queue->turns[work->is_last], turns, next);
                TAILQ_INSERT_TAIL(&turns->works, work, turn);
                work->is_ready = true;
                queue->n_ready++;
        }
}

struct nb_work *nb_queue_take(struct nb_queue *queue, uint64_t now_ms, bool with_last,
                              bool (*may_run)(void *userdata, const struct nb_work *work),
                              void *userdata) {
        const size_t n_kinds = !may_run ? 0 : with_last ? 2 : 1;
        struct nb_turns *turns;

        make_ready(queue, now_ms);
        for (size_t i = 0; i < n_kinds; i++)
                TAILQ_FOREACH(turns, &queue->turns[i], next) {
                        struct nb_work *work = TAILQ_FIRST(&turns->works);

                        if (!may_run(userdata, work))
                                continue;
                        TAILQ_REMOVE(&queue->turns[i], turns, next);
                        TAILQ_INSERT_TAIL(&queue->turns[i], turns, next);
                        nb_queue_remove(queue, work);
                        return work;
                }
        return NULL;
}

uint64_t nb_queue_due(const struct nb_queue *queue) {
        const struct nb_work *work = first_waiting(queue);

        return work ? work->due_ms : NB_TIME_INFINITE;
}

void nb_queue_done(struct nb_queue *queue) {
        free(queue->waiting.items);
        nb_records_done(&queue->flows);
        *queue = (struct nb_queue){ 0 };
}
