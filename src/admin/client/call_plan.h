/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One piece of work in three steps: it sends all reads at once; it judges the answers, without a
 * call; then it writes, one call after the other, and starts each call only while the caller may
 * write. No step waits. If an object has changed since it was read (409), the work begins again
 * with its reads.
 */

#include <stdbool.h>

#include "admin/client/calls.h"
#include "admin/client/client.h"
#include "base/failure.h"

#define NB_PLAN_READS_MAX 6
#define NB_PLAN_WRITES_MAX 4

/* Zero: nothing to read and to write. */
struct nb_plan {
        /* The caller chooses the places of the reads; one without a method is not made. A read that
         * fails does not fail the plan: the judge sees the failure. */
        union {
                struct {
                        struct nb_admin_call reads[NB_PLAN_READS_MAX], writes[NB_PLAN_WRITES_MAX];
                };
                struct nb_admin_call calls[NB_PLAN_READS_MAX + NB_PLAN_WRITES_MAX]; /* all */
        };
        unsigned n_writes, n_written;
        bool is_judged;
};

struct nb_plan_steps {
        /* Adds the reads. 0; 1: there is nothing to do. */
        int (*begin)(void *userdata, struct nb_plan *plan);
        /* Adds the writes. Negative, with or without a failure: again from the beginning, later. */
        int (*judge)(void *userdata, struct nb_plan *plan, struct nb_failure *f);
        /* After each write, with its outcome (nb_call_status()). Negative as above. */
        int (*written)(void *userdata, struct nb_plan *plan, const struct nb_admin_call *call,
                       int r, struct nb_failure *f);
        /* When all is written. May free the work. */
        void (*finish)(void *userdata);
};

/* Adds a GET at this place; a write: its body is the caller's to fill. `path` is copied. */
struct nb_admin_call *nb_plan_read(struct nb_plan *plan, unsigned place, const char *path,
                                   const char *what);
struct nb_admin_call *nb_plan_write(struct nb_plan *plan, const char *method, const char *path,
                                    const char *what);

/* Starts what can be started, at most `n_room` transfers. 1: all is written; 0: it waits for an
 * answer, or for room; -EPERM without a failure: it has to write, and may not. */
int nb_plan_run(struct nb_plan *plan, struct nb_admin *admin, const struct nb_plan_steps *steps,
                void *userdata, unsigned n_room, bool may_write, struct nb_failure *f);

/* Sends all reads, then the writes, one after the other, and waits for each answer: of a command.
 * Returns the status of the last write (nb_call_status()); 0 without one. */
int nb_plan_perform(struct nb_plan *plan, struct nb_admin *admin, struct nb_failure *f);

/* The number of transfers that are under way. */
unsigned nb_plan_count(const struct nb_plan *plan);

/* For a transfer that nb_http_wait() returned as done. False if it is not of this plan. */
bool nb_plan_take_done(struct nb_plan *plan, struct nb_admin *admin,
                       const struct nb_http_transfer *done);

/* Ends the transfers, since their connections are about to be closed. They are begun again. */
void nb_plan_interrupt(struct nb_plan *plan);

void nb_plan_done(struct nb_plan *plan);
