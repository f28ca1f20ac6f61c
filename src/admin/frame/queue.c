/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

struct nb_flow {
        struct nb_record record;
        size_t n_works;
        struct nb_turns turns[2]; /* [is_last] */
        char name[];
};

/* --- The heap --- */

static bool is_before(const struct nb_work *a, const struct nb_work *b) {
        return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->order < b->order;
}

static void place_work(struct nb_queue *queue, size_t place, struct nb_work *work) {
        queue->waiting[place - 1] = work;
        work->place = place;
}

/* Moves work towards the top until its parent is before it. */
static void sift_up(struct nb_queue *queue, struct nb_work *work) {
        size_t place = work->place;

        while (place > 1 && is_before(work, queue->waiting[place / 2 - 1])) {
                place_work(queue, place, queue->waiting[place / 2 - 1]);
                place /= 2;
        }
        place_work(queue, place, work);
}

/* Moves work towards the bottom until it is before its children. */
static void sift_down(struct nb_queue *queue, struct nb_work *work) {
        size_t place = work->place;

        while (2 * place <= queue->n_waiting) {
                size_t child = 2 * place;

                if (child < queue->n_waiting &&
                    is_before(queue->waiting[child], queue->waiting[child - 1]))
                        child++;
                if (!is_before(queue->waiting[child - 1], work))
                        break;
                place_work(queue, place, queue->waiting[child - 1]);
                place = child;
        }
        place_work(queue, place, work);
}

static int push(struct nb_queue *queue, struct nb_work *work) {
        if (queue->n_waiting == queue->n_allocated) {
                size_t n = queue->n_allocated > 0 ? 2 * queue->n_allocated : 64;
                struct nb_work **grown = reallocarray(queue->waiting, n, sizeof(void *));

                if (!grown)
                        return -ENOMEM;
                queue->waiting = grown;
                queue->n_allocated = n;
        }
        place_work(queue, ++queue->n_waiting, work);
        sift_up(queue, work);
        return 0;
}

static void remove_waiting(struct nb_queue *queue, struct nb_work *work) {
        struct nb_work *last = queue->waiting[--queue->n_waiting];
        const size_t place = TAKE(work->place);

        if (last == work)
                return;
        place_work(queue, place, last);
        sift_up(queue, last);
        sift_down(queue, last);
}

/* --- Flows --- */

static struct nb_flow *add_flow(struct nb_queue *queue, const char *name) {
        const size_t size = strlen(name) + 1;
        struct nb_flow *flow = calloc(1, sizeof(*flow) + size);

        if (!flow)
                return NULL;
        flow->record.key = memcpy(flow->name, name, size);
        for (size_t i = 0; i < N_ELEMENTS(flow->turns); i++) {
                TAILQ_INIT(&flow->turns[i].works);
                if (!queue->turns[i].tqh_last)
                        TAILQ_INIT(&queue->turns[i]);
        }
        if (nb_records_add(&queue->flows, &flow->record) >= 0)
                return flow;
        free(flow);
        return NULL;
}

static void leave_flow(struct nb_queue *queue, struct nb_work *work) {
        struct nb_flow *flow = TAKE(work->flow);

        if (!flow || --flow->n_works > 0)
                return;
        nb_records_remove(&queue->flows, &flow->record);
        free(flow);
}

int nb_work_set_flow(struct nb_queue *queue, struct nb_work *work, const char *name) {
        struct nb_flow *flow = (struct nb_flow *)nb_records_find(&queue->flows, name);

        if (!flow)
                flow = add_flow(queue, name);
        if (!flow)
                return -ENOMEM;
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
        return work->is_ready || work->place > 0;
}

void nb_queue_remove(struct nb_queue *queue, struct nb_work *work) {
        struct nb_turns *turns;

        if (work->place > 0)
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
        return push(queue, work);
}

/* A flow that has no turn yet has one after all others. */
static void make_ready(struct nb_queue *queue, uint64_t now_ms) {
        while (nb_queue_due(queue) <= now_ms) {
                struct nb_work *work = queue->waiting[0];
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
        return queue->n_waiting > 0 ? queue->waiting[0]->due_ms : NB_TIME_INFINITE;
}

void nb_queue_done(struct nb_queue *queue) {
        free(queue->waiting);
        nb_records_done(&queue->flows);
        *queue = (struct nb_queue){ 0 };
}
