/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The controller's work. Each item has a time at which it is due, so that work that waits or is
 * tried again never delays other work.
 *
 * Work that is due is taken in rounds: in each one, every flow has one turn. A flow is what one
 * party can cause, such as the requests of one kubelet, so a party that submits 100,000 of them
 * delays others by one turn. Work without a flow has a turn of its own in each round. A flow whose
 * turn it is, but which has to wait, loses no turn, and holds up no other flow.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/client/call_plan.h"
#include "admin/frame/records.h"
#include "base/failure.h"

#define NB_WORK_RETRY_FIRST_MS 500
#define NB_WORK_RETRY_CAP_MS 60000

struct nb_flow;
struct nb_heap;

/* Embedded in the record that the work is about. Zero: not queued. */
struct nb_work {
        const struct nb_plan_steps *steps;
        /* Called after a run during which the object has changed. NULL: the work is queued again.
         */
        void (*on_change)(void *userdata);
        void *userdata;
        uint64_t due_ms;           /* as nb_now_ms() */
        uint64_t key, order;       /* the order in the heap */
        struct nb_heap *heap;      /* that contains this work; NULL: not queued */
        size_t place;              /* in that heap, from 1 */
        struct nb_flow *flow;      /* NULL: none */
        struct nb_call_slot *slot; /* while it runs or waits for an answer: it is not queued */
        unsigned attempt;          /* failed runs in a row */
        bool is_last;              /* comes after all work that is not */
        bool is_changed;           /* calls on_change() after this run */
        bool is_again;             /* otherwise, it runs again at again_ms */
        uint64_t again_ms;
};

struct nb_heap {
        struct nb_work **works; /* a binary heap by key and order */
        size_t n, allocated;
};

struct nb_queue {
        struct nb_heap waiting; /* by the time at which the work is due */
        struct nb_heap ready;   /* by the round */
        struct nb_records flows;
        struct nb_flow *held; /* a list of the flows that have, or had, work that is held */
        uint64_t round, order;
};

/* Moves the work, which must not be queued, into the flow of this name. 0, -ENOMEM: it stays where
 * it is. nb_work_done() removes it. */
int nb_work_set_flow(struct nb_queue *queue, struct nb_work *work, const char *name);

/* Removes the work from the queue and its flow. */
void nb_work_done(struct nb_queue *queue, struct nb_work *work);

/* Queues work, or moves it to another time. Work that is due, and has its turn already, keeps it.
 * 0, -ENOMEM: it is not queued. */
int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms);

/* Does nothing if the work is not queued. */
void nb_queue_remove(struct nb_work *work);

/* The work whose turn it is; NULL if none is due. */
struct nb_work *nb_queue_find(struct nb_queue *queue, uint64_t now_ms);

/* Removes this work, which has had its turn. */
void nb_queue_take(struct nb_queue *queue, struct nb_work *work);

/* Passes over this work, whose turn it is, and which has a flow, until nb_queue_release(), or until
 * other work of its flow is taken. 0, -ENOMEM. */
int nb_queue_hold(struct nb_queue *queue, struct nb_work *work);

/* Of each flow, the first work that is held has its turn again. */
void nb_queue_release(struct nb_queue *queue);

/* When the first work is due; NB_TIME_INFINITE if there is none. */
uint64_t nb_queue_due(const struct nb_queue *queue);

/* The same, but without the work that has its turn already. */
uint64_t nb_queue_next_due(const struct nb_queue *queue);

void nb_queue_done(struct nb_queue *queue);
