/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long the controller waits. Each decision takes the time (as nb_now_ms()) and its limits as
 * arguments; the structs hold what it remembers, and begin as zero. */

#include <stdbool.h>
#include <stdint.h>

/* --- The Lease --- */

/* Whether a controller leads, and when it reads or writes the Lease next, as client-go's
 * leaderelection decides it: a Lease that has not changed for a time, by the observer's own clock,
 * may be taken. Nobody compares clocks. */
struct nb_election_waits {
        uint64_t renew_ms;   /* between two renewals */
        uint64_t standby_ms; /* between two reads of a standby, and after a failure */
        uint64_t expire_ms;  /* until a Lease that has not changed may be taken */
        uint64_t held_ms;    /* until a leader stops whose renewals fail */
};

struct nb_election {
        bool is_held;
        uint64_t due_ms;      /* of the next call */
        uint64_t renewed_ms;  /* when the Lease was taken or renewed last */
        uint64_t observed_ms; /* when the version that was read last was seen first */
        char observed[64];    /* that resourceVersion; "": there was no Lease */
};

/* The Lease was read; `is_free` if it has no holder, or this one. Returns whether to write it now;
 * otherwise somebody else holds it. */
bool nb_election_observe(struct nb_election *election, const struct nb_election_waits *waits,
                         const char *version, bool is_free, uint64_t now_ms);

/* The Lease was written (1), or somebody else holds it (0), or the call failed (negative): then a
 * leader goes on for a while, since nobody else may take the Lease yet. */
void nb_election_note(struct nb_election *election, const struct nb_election_waits *waits,
                      int result, uint64_t now_ms);

/* --- Reports of a request --- */

/* Allows a burst, and then one per interval. */
struct nb_rate {
        uint64_t used_ms; /* the time up to which it is used up */
};

struct nb_report_limits {
        uint64_t repeat_ms; /* after the last report; then all reasons may be reported again */
        struct nb_rate_limit {
                unsigned burst;
                uint64_t interval_ms;
        } of_token, of_kind;
};

struct nb_reports {
        unsigned told, telling; /* bits: reasons; telling: begun, but not done */
        uint64_t told_ms;       /* when the last one was done */
};

/* Whether this reason may be reported; then counts the report, unless it has begun already. Takes
 * from both rates, the first of which may be NULL. */
bool nb_reports_begin(struct nb_reports *reports, const struct nb_report_limits *limits,
                      struct nb_rate *of_token, struct nb_rate *of_kind, unsigned bit,
                      uint64_t now_ms);

void nb_reports_done(struct nb_reports *reports, unsigned bit, uint64_t now_ms);

/* --- The token of an issued certificate --- */

struct nb_grace {
        uint64_t issued_ms; /* when the certificate was first seen; 0: not yet */
        uint64_t look_ms;   /* the Node is not looked for until then */
};

/* How long the token must be kept, 0: no longer. The machine needs it to fetch the certificate, so
 * it is kept until the Node joins, or for `grace_ms`. Sets whether to look for the Node now. */
uint64_t nb_grace_wait(const struct nb_grace *grace, uint64_t grace_ms, uint64_t now_ms,
                       bool *ret_is_look_due);
