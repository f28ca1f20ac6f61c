/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* When to try again after a failure: a pure function of the failure's class and of the instants passed in. */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"

#define NB_RETRY_FIRST_MS 200
#define NB_RETRY_CAP_MS 5000      /* a server that comes up is noticed within seconds */
#define NB_RETRY_CONFIRM_MS 30000 /* how long a race may look like a refusal */
#define NB_RETRY_QUIET_MS 30000   /* an attempt that goes well for so long has nothing to do with the failure before it */

struct nb_retry {
        unsigned attempts;         /* failed ones so far */
        bool is_known[_NB_CODE_N]; /* codes that were told as new */
        uint64_t confirm_until_ms; /* 0 while no failure of the class confirm is being looked into */
        uint64_t due_ms;           /* when the attempt after the last one began */
};

/* An attempt that the deadline cut short says nothing: where one before it ended by itself, that failure is the last word. */
void nb_retry_last_word(const struct nb_failure *before, struct nb_failure *f);

enum nb_retry_verdict {
        NB_RETRY_AGAIN, /* at *ret_due_ms */
        NB_RETRY_OVER,  /* the class or the deadline says no */
};

/*
 * *ret_due_ms is the deadline at the latest. What the server asked for is a floor. *ret_is_new says whether this
 * reason was not seen before, so that it is worth an entry in the journal; reasons that take turns do not fill it.
 */
enum nb_retry_verdict nb_retry_next(struct nb_retry *retry, const struct nb_failure *f, uint64_t now_ms,
                                    uint64_t deadline_ms, uint32_t random, uint64_t *ret_due_ms, bool *ret_is_new);
