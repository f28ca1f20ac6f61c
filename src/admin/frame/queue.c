/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

struct nb_flow {
        struct nb_record record;
        size_t n_works;
        struct nb_turns turns[2]; /* [is_last] */
};

/* --- The heap --- */

static bool is_before(const struct nb_work *a, const struct nb_work *b) {
        return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->order < b->order;
}

/* NULL if there is none. */
static struct nb_work *take_tree(struct nb_waiting *trees) {
        struct nb_work *tree = LIST_FIRST(trees);

        if (tree)
                LIST_REMOVE(tree, next);
        return tree;
}

/* Adds a tree to a heap, which is empty or one tree. */
static void add_tree(struct nb_waiting *heap, struct nb_work *tree) {
        struct nb_work *root = take_tree(heap);
        const bool is_first = !root || is_before(tree, root);
        struct nb_work *first = is_first ? tree : root, *other = is_first ? root : tree;

        if (other)
                LIST_INSERT_HEAD(&first->later, other, next);
        LIST_INSERT_HEAD(heap, first, next);
}

/* The trees below the work are joined in pairs, then all: O(log n), amortized. */
static void remove_waiting(struct nb_queue *queue, struct nb_work *work) {
        struct nb_waiting pairs = { NULL }, joined = { NULL };
        struct nb_work *tree;

        LIST_REMOVE(work, next);
        while ((tree = take_tree(&work->later))) {
                struct nb_waiting pair = { NULL };

                add_tree(&pair, tree);
                tree = take_tree(&work->later);
                if (tree)
                        add_tree(&pair, tree);
                tree = take_tree(&pair);
                LIST_INSERT_HEAD(&pairs, tree, next);
        }
        while ((tree = take_tree(&pairs)))
                add_tree(&joined, tree);
        tree = take_tree(&joined);
        if (tree)
                add_tree(&queue->waiting, tree);
        work->is_waiting = false;
        queue->n_waiting--;
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
        work->is_waiting = true;
        queue->n_waiting++;
        add_tree(&queue->waiting, work);
        return 0;
}

/* A flow that has no turn yet has one after all others. */
static void make_ready(struct nb_queue *queue, uint64_t now_ms) {
        struct nb_work *work;

        while ((work = LIST_FIRST(&queue->waiting)) && work->due_ms <= now_ms) {
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
        const struct nb_work *work = LIST_FIRST(&queue->waiting);

        return work ? work->due_ms : NB_TIME_INFINITE;
}

void nb_queue_done(struct nb_queue *queue) {
        nb_records_done(&queue->flows);
        *queue = (struct nb_queue){ 0 };
}
