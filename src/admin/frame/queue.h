/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The controller's work. Each item has a time at which it is due, so that work that waits or is
 * tried again never delays other work.
 *
 * Work that is due is taken in turns: each flow that has some, one after the other. A flow is what
 * one party can cause, such as the requests of one kubelet, so a party that submits 100,000 of them
 * delays others by one turn. A flow that has to wait is passed over, and loses no turn.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "admin/client/call_plan.h"
#include "admin/client/records.h"
#include "base/failure.h"

#define NB_WORK_RETRY_FIRST_MS 500
#define NB_WORK_RETRY_CAP_MS 60000

LIST_HEAD(nb_waiting, nb_work);

/* Embedded in the record that the work is about. Zero: not queued. */
struct nb_work {
        const struct nb_plan_steps *steps;
        /* Called after a run during which the object has changed. NULL: the work is queued again.
         */
        void (*on_change)(void *userdata);
        void *userdata;
        struct nb_flow *flow;      /* which it needs before it is queued */
        uint64_t due_ms;           /* as nb_now_ms() */
        uint64_t order;            /* of work that is due at the same time */
        bool is_waiting;           /* for its time */
        struct nb_waiting later;   /* then: trees of work that is due after it */
        LIST_ENTRY(nb_work) next;  /* in such a list */
        bool is_ready;             /* it is due, and waits for its turn */
        TAILQ_ENTRY(nb_work) turn; /* then */
        struct nb_call_slot *slot; /* while it runs or waits for an answer: it is not queued */
        unsigned attempt;          /* failed runs in a row */
        bool is_last;    /* comes after all work that is not; changes only while it is not queued */
        bool is_changed; /* calls on_change() after this run */
        bool is_again;   /* otherwise, it runs again at again_ms */
        uint64_t again_ms;
};

TAILQ_HEAD(nb_works, nb_work);

/* The work of a flow whose turn it is, in order. */
struct nb_turns {
        struct nb_works works;
        TAILQ_ENTRY(nb_turns) next; /* in the queue, if there is work */
};

TAILQ_HEAD(nb_flows, nb_turns);

struct nb_queue {
        struct nb_waiting waiting; /* a pairing heap: its root, the work that is due first */
        size_t n_waiting, n_ready;
        struct nb_flows turns[2]; /* [is_last] */
        struct nb_records flows;
        uint64_t order;
};

/* Moves the work, which must not be queued, into the flow of this name. 0, -ENOMEM: it stays where
 * it is. nb_work_done() removes it. */
int nb_work_set_flow(struct nb_queue *queue, struct nb_work *work, const char *name);

/* Removes the work from the queue and its flow. */
void nb_work_done(struct nb_queue *queue, struct nb_work *work);

bool nb_work_is_queued(const struct nb_work *work);

/* Queues work, or moves it to another time. Work that is due keeps its turn. 0, -ENOMEM: it is not
 * queued. */
int nb_queue_put(struct nb_queue *queue, struct nb_work *work, uint64_t due_ms);

/* Does nothing if the work is not queued. */
void nb_queue_remove(struct nb_queue *queue, struct nb_work *work);

/* Removes and returns the work whose turn it is, of the flows that may have one: with `may_run` for
 * their first work. NULL: there is none, or `may_run` is NULL, which only makes ready what is due.
 */
struct nb_work *nb_queue_take(struct nb_queue *queue, uint64_t now_ms, bool with_last,
                              bool (*may_run)(void *userdata, const struct nb_work *work),
                              void *userdata);

/* When the first work is due that waits for its time; NB_TIME_INFINITE if there is none. */
uint64_t nb_queue_due(const struct nb_queue *queue);

void nb_queue_done(struct nb_queue *queue);
