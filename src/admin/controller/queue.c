/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "admin/controller/queue.h"
#include "system/clock.h"

static bool is_before(const struct nb_work *a, const struct nb_work *b) {
        return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->order < b->order;
}

static void place_work(struct nb_queue *queue, size_t place, struct nb_work *work) {
        queue->works[place - 1] = work;
        work->place = place;
}

/* Moves work towards the top until its parent is before it. */
static void sift_up(struct nb_queue *queue, struct nb_work *work) {
        size_t place = work->place;

        while (place > 1 && is_before(work, queue->works[place / 2 - 1])) {
                place_work(queue, place, queue->works[place / 2 - 1]);
                place /= 2;
        }
        place_work(queue, place, work);
}

/* Moves work towards the bottom until it is before its children. */
static void sift_down(struct nb_queue *queue, struct nb_work *work) {
        size_t place = work->place;

        while (2 * place <= queue->n) {
                size_t child = 2 * place;

                if (child < queue->n && is_before(queue->works[child], queue->works[child - 1]))
                        child++;
                if (!is_before(queue->works[child - 1], work))
                        break;
                place_work(queue, place, queue->works[child - 1]);
                place = child;
        }
        place_work(queue, place, work);
}

int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms) {
        nb_queue_remove(work);
        if (queue->n == queue->allocated) {
                size_t n = queue->allocated > 0 ? 2 * queue->allocated : 64;
                struct nb_work **grown = reallocarray(queue->works, n, sizeof(void *));

                if (!grown)
                        return -ENOMEM;
                queue->works = grown;
                queue->allocated = n;
        }
        work->queue = queue;
        work->due_ms = due_ms;
        work->order = queue->order++;
        place_work(queue, ++queue->n, work);
        sift_up(queue, work);
        return 0;
}

int nb_queue_put_again(struct nb_queue *queue, struct nb_work *work, uint64_t now_ms) {
        return nb_queue_put(queue, work,
                            now_ms + nb_backoff_ms(work->attempt++, NB_WORK_RETRY_FIRST_MS,
                                                   NB_WORK_RETRY_CAP_MS, nb_random()));
}

void nb_queue_remove(struct nb_work *work) {
        struct nb_queue *queue = work->queue;
        size_t place = work->place;
        struct nb_work *last;

        if (!queue)
                return;
        work->queue = NULL;
        work->place = 0;
        last = queue->works[--queue->n];
        if (last == work)
                return;
        place_work(queue, place, last);
        sift_up(queue, last);
        sift_down(queue, last);
}

struct nb_work *nb_queue_take(struct nb_queue *queue, uint64_t now_ms) {
        struct nb_work *first = queue->n > 0 ? queue->works[0] : NULL;

        if (!first || first->due_ms > now_ms)
                return NULL;
        nb_queue_remove(first);
        return first;
}

uint64_t nb_queue_due(const struct nb_queue *queue) {
        return queue->n > 0 ? queue->works[0]->due_ms : NB_TIME_INFINITE;
}

void nb_queue_done(struct nb_queue *queue) {
        free(queue->works);
        *queue = (struct nb_queue){ 0 };
}
