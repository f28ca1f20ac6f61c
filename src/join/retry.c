/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "join/report.h"
#include "join/retry.h"
#include "os/clock.h"
#include "os/stop.h"
#include "systemd/log.h"

static const struct policy {
        uint32_t first_ms, cap_ms; /* the first delay, which doubles up to the limit */
        bool is_early;             /* ends at once if the next attempt would miss the deadline */
} policies[_NB_RETRY_N] = {
        [NB_RETRY_STAGE] = { 200, 5000, false }, /* notices within seconds that a server is up */
        [NB_RETRY_RESUBMIT] = { 500, 60000, false }, /* also for a busy device */
        [NB_RETRY_POLL] = { 500, 15000, false },
        [NB_RETRY_REFRESH] = { 1000, 60000, true },
};

static uint64_t delay_ms(enum nb_retry_policy policy, unsigned attempt, uint32_t random) {
        return nb_backoff_ms(attempt, policies[policy].first_ms, policies[policy].cap_ms, random);
}

/* How long a failure of class confirm is retried. */
static uint64_t confirm_ms(enum nb_code code) {
        return code == NB_NODE_NAME_TAKEN ? NB_RETRY_NODE_MS : NB_RETRY_CONFIRM_MS;
}

/* Returns the time until which failures of this class are retried. */
static uint64_t end_of_patience(struct nb_retry *retry, enum nb_class class, enum nb_code code,
                                uint64_t now_ms) {
        uint64_t end;

        if (class != NB_CLASS_CONFIRM) {
                retry->confirm_since_ms = retry->taken_since_ms = 0;
                return retry->deadline_ms;
        }
        /* The server has answered, so another refusal is a new one. */
        if (retry->confirm_since_ms == 0 || code == NB_NODE_NAME_TAKEN)
                retry->confirm_since_ms = now_ms;
        if (retry->taken_since_ms == 0)
                retry->taken_since_ms = now_ms;
        end = (code == NB_NODE_NAME_TAKEN ? retry->taken_since_ms : retry->confirm_since_ms) +
              confirm_ms(code);
        return end < retry->deadline_ms ? end : retry->deadline_ms;
}

bool nb_retry_next(struct nb_retry *retry, const struct nb_failure *f, uint64_t now_ms,
                   uint32_t random) {
        enum nb_class class = nb_failure_class(f);
        uint64_t end, delay;

        if (now_ms > retry->due_ms + NB_RETRY_QUIET_MS) {
                retry->confirm_since_ms = retry->taken_since_ms = 0;
                memset(retry->is_known, 0, sizeof(retry->is_known));
        }
        retry->is_new = !retry->is_known[f->code];
        retry->is_known[f->code] = true;
        end = end_of_patience(retry, class, f->code, now_ms);
        if (class == NB_CLASS_FATAL || class == NB_CLASS_EVENT || now_ms >= end)
                return false;
        /* A TPM can stay busy for hours. */
        delay = delay_ms(f->is_temporary ? NB_RETRY_RESUBMIT : retry->policy, retry->attempts++,
                         random);
        if (delay < f->retry_after_ms)
                delay = f->retry_after_ms;
        retry->due_ms = end - now_ms < delay ? end : now_ms + delay;
        return true;
}

void nb_retry_last_word(const struct nb_failure *before, struct nb_failure *f) {
        if (before->code != NB_NONE && f->is_cut_short)
                *f = *before;
}

int nb_retry_wait(enum nb_retry_policy policy, unsigned n, uint64_t deadline_ms) {
        uint64_t now = nb_now_ms(), left = deadline_ms > now ? deadline_ms - now : 0;
        uint64_t delay = n == 0 ? 0 : delay_ms(policy, n - 1, nb_random());
        int r;

        r = nb_stop_wait(delay < left ? delay : left);
        return r < 0 ? r : delay >= left;
}

/* 0: try again now; otherwise the result of the loop. */
static int wait_for_next(struct nb_retry_loop *loop, int r, struct nb_failure *f) {
        struct nb_retry *retry = &loop->retry;
        uint64_t now = nb_now_ms();
        bool is_last;

        if (!nb_retry_next(retry, f, now, nb_random()))
                return r;
        is_last = retry->due_ms >= retry->deadline_ms;
        if (is_last && policies[retry->policy].is_early)
                return r;
        nb_log_field(NB_FIELD_ATTEMPT, "%u", retry->attempts);
        if (loop->waiting_since)
                nb_report_wait(loop->waiting_since, f, retry->is_new);
        if (nb_stop_wait(retry->due_ms > now ? retry->due_ms - now : 0) < 0) {
                nb_failure_clear(f);
                return -ECANCELED;
        }
        /* An attempt without any time left would only replace this failure with a timeout. */
        if (is_last)
                return r;
        nb_failure_clear(f);
        return 0;
}

int nb_retry_run(struct nb_retry_loop *loop, struct nb_failure *f) {
        for (;;) {
                int r = loop->attempt(loop->userdata, f);

                if (r >= 0 || (r == -ECANCELED && f->code == NB_NONE))
                        return r;
                if (loop->is_rehearsal && nb_failure_info(f->code)->class != NB_CLASS_WAIT)
                        return r;
                nb_retry_last_word(&loop->before, f);
                loop->before = *f;
                r = wait_for_next(loop, r, f);
                if (r < 0)
                        return r;
        }
}

int nb_retry_until(enum nb_retry_policy policy, uint64_t deadline_ms,
                   int (*attempt)(void *userdata, struct nb_failure *f), void *userdata,
                   struct nb_failure *f) {
        time_t since = 0;

        return nb_retry_run(
                &(struct nb_retry_loop){ { policy, deadline_ms }, attempt, userdata, &since }, f);
}

void nb_retry_given_up(uint64_t deadline_ms, uint64_t timeout_ms, const char *limit,
                       struct nb_failure *f) {
        enum nb_class class = nb_failure_class(f);
        char duration[NB_DURATION_SIZE];

        if (f->code == NB_NONE || (class != NB_CLASS_CONFIRM && class != NB_CLASS_WAIT))
                return;
        if (nb_now_ms() >= deadline_ms) {
                nb_duration_format(timeout_ms, duration);
                nb_failure_add(f, "; gave up after %s (%s)", duration, limit);
        } else if (class == NB_CLASS_CONFIRM) {
                nb_duration_format(confirm_ms(f->code), duration);
                nb_failure_add(f, "; gave up after %s", duration);
        }
}
