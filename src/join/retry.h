/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * When a failed attempt is repeated, by the class of its failure, and the loop that repeats it.
 * Every retry in `join`, `refresh` and `check` goes by the policies in retry.c.
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/failure.h"

#define NB_RETRY_CONFIRM_MS 30000 /* how long a race may look like a refusal */
#define NB_RETRY_QUIET_MS 30000   /* after an attempt that took this long, start over */

enum nb_retry_policy {
        NB_RETRY_STAGE,    /* a stage of the join, one endpoint, cloud metadata */
        NB_RETRY_RESUBMIT, /* a CSR that somebody deleted */
        NB_RETRY_POLL,     /* a CSR that cannot be watched */
        NB_RETRY_ACCESS,   /* node.verifyAccess: kubelet waits for it */
        NB_RETRY_REFRESH,
        _NB_RETRY_N,
};

struct nb_retry {
        enum nb_retry_policy policy;
        uint64_t deadline_ms;      /* nb_now_ms(); NB_TIME_INFINITE */
        unsigned attempts;         /* failed ones so far */
        bool is_known[_NB_CODE_N]; /* codes seen before */
        bool is_new;               /* the last failure's code was seen for the first time */
        uint64_t confirm_until_ms; /* 0: the last failure was not of class confirm */
        uint64_t due_ms;           /* when the next attempt begins */
};

/* Whether to try again, at retry->due_ms: the deadline at the latest, and not before the server's
 * Retry-After. Pure. */
bool nb_retry_next(struct nb_retry *retry, const struct nb_failure *f, uint64_t now_ms,
                   uint32_t random);

/* If the deadline cut the last attempt short, restores the failure of the one before it. */
void nb_retry_last_word(const struct nb_failure *before, struct nb_failure *f);

/* Waits before the n-th repetition; n = 0: not at all. 1: the deadline has passed; -ECANCELED. */
int nb_retry_wait(enum nb_retry_policy policy, unsigned n, uint64_t deadline_ms);

struct nb_retry_loop {
        struct nb_retry retry;
        int (*attempt)(void *userdata, struct nb_failure *f);
        void *userdata;
        time_t *waiting_since;    /* nb_report_wait() before each wait; NULL: silent */
        bool is_rehearsal;        /* repeats only after failures of class wait */
        struct nb_failure before; /* of the attempt before; may be set at first */
};

/* Repeats `attempt` until it returns 0 or more, which is returned, or its failure is final.
 * -ECANCELED without a failure when stopping was asked for. */
int nb_retry_run(struct nb_retry_loop *loop, struct nb_failure *f);

/* Adds to the last failure after how long, and by which limit, the join gave up: otherwise it would
 * read like the first attempt. `timeout_ms`: from the start to the deadline. */
void nb_retry_given_up(uint64_t deadline_ms, uint64_t timeout_ms, const char *limit,
                       struct nb_failure *f);
