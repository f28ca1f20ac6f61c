/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How long the controller waits. Each function takes the time (that of nb_now_ms()) and its limits
 * as arguments. The structs hold what is remembered between calls, and are zero at first. */

#include <stdbool.h>
#include <stdint.h>

/* --- The Lease --- */

/* Whether this controller is the leader, and when it reads or writes the Lease next, as in
 * client-go's leaderelection: a Lease that has not changed for a time, by the observer's own clock,
 * may be taken. The clocks of two machines are never compared. */
struct nb_election_waits {
        uint64_t renew_ms;   /* between two renewals */
        uint64_t standby_ms; /* between two reads by a standby, and after a failure */
        uint64_t expire_ms;  /* until a Lease that has not changed may be taken */
        uint64_t held_ms;    /* after a renewal: until a leader stops if the next ones fail */
};

struct nb_election {
        bool is_held;
        uint64_t due_ms;      /* of the next call */
        uint64_t renewed_ms;  /* when the last call was sent that took or renewed the Lease */
        uint64_t observed_ms; /* when `observed` was first read */
        char observed[64];    /* the resourceVersion that was last read; "": there was no Lease */
};

/* To be called when the Lease has been read; `is_free`: nobody holds it, or this controller does.
 * Returns true if the Lease is to be written now, false if another controller holds it. */
bool nb_election_observe(struct nb_election *election, const struct nb_election_waits *waits,
                         const char *version, bool is_free, uint64_t now_ms);

/* To be called with a result: the Lease was written (1) by a call that was sent at `sent_ms`,
 * another controller holds it (0), or the call failed (negative). After a failure, a leader stays
 * the leader until `held_ms` have passed since its last renewal: until `expire_ms`, no other
 * controller may take the Lease. */
void nb_election_note(struct nb_election *election, const struct nb_election_waits *waits,
                      int result, uint64_t sent_ms, uint64_t now_ms);

/* Whether this controller is the leader, also if the answer to the last renewal is missing. */
bool nb_election_is_leader(const struct nb_election *election,
                           const struct nb_election_waits *waits, uint64_t now_ms);

/* --- Reports of a request --- */

/* Allows a burst, and then one per interval. */
struct nb_rate {
        uint64_t used_ms; /* the time until which the rate is used up */
};

struct nb_report_limits {
        uint64_t repeat_ms; /* this long after the last report, all may be reported again */
        struct nb_rate_limit {
                unsigned burst;
                uint64_t interval_ms;
        } of_party, of_kind;
};

struct nb_reports {
        unsigned told;    /* bits: reasons */
        uint64_t told_ms; /* when the last report was made */
};

/* Returns whether this reason may be reported now, and counts the report against both rates. 2: no
 * other report of this party is possible for a while. */
int nb_reports_take(struct nb_reports *reports, const struct nb_report_limits *limits,
                    struct nb_rate *of_party, struct nb_rate *of_kind, unsigned bit,
                    uint64_t now_ms);

/* --- The token of an issued certificate --- */

struct nb_grace {
        uint64_t issued_ms; /* when the certificate was first seen; 0: not yet */
        uint64_t look_ms;   /* when to look for the Node */
};

/* Returns how long to wait until the next call; 0: the token need not be kept any longer. The
 * machine needs the token to fetch its certificate, so the token is kept until the Node exists, or
 * for `grace_ms`. Sets whether to look for the Node now. */
uint64_t nb_grace_wait(const struct nb_grace *grace, uint64_t grace_ms, uint64_t now_ms,
                       bool *ret_is_look_due);
