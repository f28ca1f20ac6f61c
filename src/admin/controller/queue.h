/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The controller's work. Each item has a time at which it is due, so that work that waits or is
 * retried never delays other work. Work that is due at the same time runs in the
 * order in which it was queued.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/failure.h"

#define NB_WORK_RETRY_FIRST_MS 500
#define NB_WORK_RETRY_CAP_MS 60000

/* Embedded in the record that the work is about. Zero: not queued. */
struct nb_work {
        /* Runs once. 0: done; the record may have been freed, or have queued its work again.
         * Negative, with or without a failure in `f`: try again later; the record must exist. */
        int (*run)(void *userdata, struct nb_work *work, struct nb_failure *f);
        void *userdata;
        uint64_t due_ms; /* as nb_now_ms() */
        uint64_t order;
        struct nb_queue *queue; /* the queue that contains it; NULL: not queued */
        size_t place;           /* in that queue, from 1 */
        unsigned attempt;       /* failed runs in a row */
        bool is_urgent;         /* a machine waits for it */
};

struct nb_queue {
        struct nb_work **works; /* a binary heap */
        size_t n, allocated;
        uint64_t order;
};

/* Queues work, or moves it to another time or from another queue. 0, -ENOMEM: it is in no queue. */
int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms);

/* Queues work for the next attempt, later after each one (nb_backoff_ms()). 0, -ENOMEM. */
int nb_queue_put_again(struct nb_queue *queue, struct nb_work *work, uint64_t now_ms);

/* Does nothing if the work is not queued. */
void nb_queue_remove(struct nb_work *work);

/* Removes and returns the first work that is due; NULL if there is none. */
struct nb_work *nb_queue_take(struct nb_queue *queue, uint64_t now_ms);

/* When the first work is due; NB_TIME_INFINITE if there is none. */
uint64_t nb_queue_due(const struct nb_queue *queue);

void nb_queue_done(struct nb_queue *queue);
