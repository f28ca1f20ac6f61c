/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Decides by the class of its failure when to repeat a failed attempt, and runs the loop that
 * repeats it. All retries in `join`, `refresh` and `check` follow the policies in retry.c.
 */

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/failure.h"

#define NB_RETRY_CONFIRM_MS 30000 /* failures of class confirm are retried this long */
/* NB_NODE_NAME_TAKEN. A Node stays Ready for up to a minute after its machine has stopped
 * (--node-monitor-grace-period: 40 s, since 1.32 50 s), or longer if the cluster sets it so. */
#define NB_RETRY_NODE_MS 300000
#define NB_RETRY_QUIET_MS 30000 /* after a longer attempt, earlier failures are forgotten */

enum nb_retry_policy {
        NB_RETRY_STAGE,    /* a stage of the join, one endpoint, cloud metadata */
        NB_RETRY_RESUBMIT, /* submitting a deleted CSR again */
        NB_RETRY_POLL,     /* reading a CSR that cannot be watched */
        NB_RETRY_REFRESH,
        _NB_RETRY_N,
};

struct nb_retry {
        enum nb_retry_policy policy;
        uint64_t deadline_ms;      /* nb_now_ms(); NB_TIME_INFINITE */
        unsigned attempts;         /* failed ones so far */
        bool is_known[_NB_CODE_N]; /* codes already seen */
        bool is_new;               /* the last failure's code was seen for the first time */
        uint64_t confirm_since_ms; /* 0: the last failure was not of class confirm */
        uint64_t taken_since_ms;   /* likewise, for NB_NODE_NAME_TAKEN */
        uint64_t due_ms;           /* when the next attempt begins */
};

/* Whether to try again. If so, sets retry->due_ms: not before the server's Retry-After ends, but at
 * the deadline at the latest. Pure. */
bool nb_retry_next(struct nb_retry *retry, const struct nb_failure *f, uint64_t now_ms,
                   uint32_t random);

/* If the deadline cut the last attempt short, restores the failure of the previous one. */
void nb_retry_last_word(const struct nb_failure *before, struct nb_failure *f);

/* Waits before the n-th retry; does not wait if n is 0. 1: the deadline has passed; -ECANCELED. */
int nb_retry_wait(enum nb_retry_policy policy, unsigned n, uint64_t deadline_ms);

struct nb_retry_loop {
        struct nb_retry retry;
        int (*attempt)(void *userdata, struct nb_failure *f);
        void *userdata;
        time_t *waiting_since;    /* for nb_report_wait() before each wait; NULL: reports nothing */
        bool is_rehearsal;        /* repeats only after failures of class wait */
        struct nb_failure before; /* of the previous attempt; the caller may set an initial one */
};

/* Repeats `attempt` until it returns 0 or more, which is returned, or its failure is final.
 * -ECANCELED without a failure if stopping was requested. */
int nb_retry_run(struct nb_retry_loop *loop, struct nb_failure *f);

/* The same for a loop that reports its waits, and has no other options. */
int nb_retry_until(enum nb_retry_policy policy, uint64_t deadline_ms,
                   int (*attempt)(void *userdata, struct nb_failure *f), void *userdata,
                   struct nb_failure *f);

/* Adds to the last failure after how long, and at which limit, the join gave up; otherwise the
 * message would read like that of a first attempt. `timeout_ms`: from the start to the deadline. */
void nb_retry_given_up(uint64_t deadline_ms, uint64_t timeout_ms, const char *limit,
                       struct nb_failure *f);
