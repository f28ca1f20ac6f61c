/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "admin/frame/queue.h"
#include "base/macro.h"
#include "os/clock.h"

#define LAST (UINT64_C(1) << 63)

struct nb_flow {
        struct nb_record record;
        uint64_t round; /* of its last work */
        size_t n_works;
        struct nb_heap held;  /* what was passed over, in the order of `ready` */
        struct nb_flow *next; /* in queue->held */
        bool is_listed;       /* there */
        char name[];
};

/* --- Heaps --- */

static bool is_before(const struct nb_work *a, const struct nb_work *b) {
        return a->key != b->key ? a->key < b->key : a->order < b->order;
}

static void place_work(struct nb_heap *heap, size_t place, struct nb_work *work) {
        heap->works[place - 1] = work;
        work->place = place;
}

/* Moves work towards the top until its parent is before it. */
static void sift_up(struct nb_heap *heap, struct nb_work *work) {
        size_t place = work->place;

        while (place > 1 && is_before(work, heap->works[place / 2 - 1])) {
                place_work(heap, place, heap->works[place / 2 - 1]);
                place /= 2;
        }
        place_work(heap, place, work);
}

/* Moves work towards the bottom until it is before its children. */
static void sift_down(struct nb_heap *heap, struct nb_work *work) {
        size_t place = work->place;

        while (2 * place <= heap->n) {
                size_t child = 2 * place;

                if (child < heap->n && is_before(heap->works[child], heap->works[child - 1]))
                        child++;
                if (!is_before(heap->works[child - 1], work))
                        break;
                place_work(heap, place, heap->works[child - 1]);
                place = child;
        }
        place_work(heap, place, work);
}

static int push(struct nb_heap *heap, struct nb_work *work, uint64_t key, uint64_t order) {
        if (heap->n == heap->allocated) {
                size_t n = heap->allocated > 0 ? 2 * heap->allocated : 64;
                struct nb_work **grown = reallocarray(heap->works, n, sizeof(void *));

                if (!grown)
                        return -ENOMEM;
                heap->works = grown;
                heap->allocated = n;
        }
        work->heap = heap;
        work->key = key;
        work->order = order;
        place_work(heap, ++heap->n, work);
        sift_up(heap, work);
        return 0;
}

void nb_queue_remove(struct nb_work *work) {
        struct nb_heap *heap = work->heap;
        size_t place = work->place;
        struct nb_work *last;

        if (!heap)
                return;
        work->heap = NULL;
        work->place = 0;
        last = heap->works[--heap->n];
        if (last == work)
                return;
        place_work(heap, place, last);
        sift_up(heap, last);
        sift_down(heap, last);
}

/* --- Flows --- */

static void unlist_flow(struct nb_queue *queue, struct nb_flow *flow) {
        struct nb_flow **at = &queue->held;

        while (*at && *at != flow)
                at = &(*at)->next;
        if (*at)
                *at = flow->next;
        flow->is_listed = false;
}

static void leave_flow(struct nb_queue *queue, struct nb_work *work) {
        struct nb_flow *flow = TAKE(work->flow);

        if (!flow || --flow->n_works > 0)
                return;
        unlist_flow(queue, flow);
        free(flow->held.works);
        nb_records_remove(&queue->flows, &flow->record);
        free(flow);
}

int nb_work_set_flow(struct nb_queue *queue, struct nb_work *work, const char *name) {
        struct nb_flow *flow = (struct nb_flow *)nb_records_find(&queue->flows, name);
        size_t size = strlen(name) + 1;

        if (!flow) {
                flow = calloc(1, sizeof(*flow) + size);
                if (!flow)
                        return -ENOMEM;
                memcpy(flow->name, name, size);
                flow->record.key = flow->name;
                if (nb_records_add(&queue->flows, &flow->record) < 0) {
                        free(flow);
                        return -ENOMEM;
                }
        }
        flow->n_works++;
        leave_flow(queue, work);
        work->flow = flow;
        return 0;
}

void nb_work_done(struct nb_queue *queue, struct nb_work *work) {
        nb_queue_remove(work);
        leave_flow(queue, work);
}

/* The round in which a work has its turn: its flow has one in each. */
static uint64_t find_round(const struct nb_queue *queue, const struct nb_work *work) {
        struct nb_flow *flow = work->flow;
        uint64_t round = queue->round;

        if (work->is_last)
                return LAST + work->order;
        if (!flow)
                return round;
        if (flow->round >= round)
                round = flow->round + 1;
        return flow->round = round;
}

/* --- The queue --- */

int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms) {
        if (work->heap && work->heap != &queue->waiting && work->due_ms <= due_ms)
                return 0;
        nb_queue_remove(work);
        work->due_ms = due_ms;
        return push(&queue->waiting, work, due_ms, queue->order++);
}

/* Gives all work that is due its turn. Without memory, it waits where it is. */
static void make_ready(struct nb_queue *queue, uint64_t now_ms) {
        while (queue->waiting.n > 0 && queue->waiting.works[0]->due_ms <= now_ms) {
                struct nb_work *work = queue->waiting.works[0];

                nb_queue_remove(work);
                work->order = queue->order++;
                if (push(&queue->ready, work, find_round(queue, work), work->order) < 0) {
                        (void)push(&queue->waiting, work, work->due_ms, work->order);
                        return;
                }
        }
}

struct nb_work *nb_queue_find(struct nb_queue *queue, uint64_t now_ms) {
        make_ready(queue, now_ms);
        return queue->ready.n > 0 ? queue->ready.works[0] : NULL;
}

/* Between `ready` and the works of its flow that are held. 0; -ENOMEM: it is where it was. */
static int move_work(struct nb_work *work, struct nb_heap *to) {
        struct nb_heap *from = work->heap;
        int r;

        nb_queue_remove(work);
        r = push(to, work, work->key, work->order);
        if (r < 0)
                (void)push(from, work, work->key, work->order); /* there was room */
        return r;
}

static void release_first(struct nb_queue *queue, struct nb_flow *flow) {
        if (flow->held.n > 0)
                (void)move_work(flow->held.works[0], &queue->ready);
}

void nb_queue_take(struct nb_queue *queue, struct nb_work *work) {
        nb_queue_remove(work);
        if (work->key < LAST && work->key > queue->round)
                queue->round = work->key;
        if (work->flow)
                release_first(queue, work->flow);
}

int nb_queue_hold(struct nb_queue *queue, struct nb_work *work) {
        struct nb_flow *flow = work->flow;

        if (!flow->is_listed) {
                flow->next = queue->held;
                queue->held = flow;
                flow->is_listed = true;
        }
        return move_work(work, &flow->held);
}

void nb_queue_release(struct nb_queue *queue) {
        for (struct nb_flow *flow = queue->held, *next; flow; flow = next) {
                next = flow->next;
                if (flow->held.n == 0)
                        unlist_flow(queue, flow);
                else
                        release_first(queue, flow);
        }
}

uint64_t nb_queue_due(const struct nb_queue *queue) {
        return queue->ready.n > 0 ? queue->ready.works[0]->due_ms : nb_queue_next_due(queue);
}

uint64_t nb_queue_next_due(const struct nb_queue *queue) {
        return queue->waiting.n > 0 ? queue->waiting.works[0]->due_ms : NB_TIME_INFINITE;
}

void nb_queue_done(struct nb_queue *queue) {
        free(queue->waiting.works);
        free(queue->ready.works);
        nb_records_done(&queue->flows);
        *queue = (struct nb_queue){ 0 };
}
