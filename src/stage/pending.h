/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is said of a request that nobody approves or signs, and when it is said again. Pure. */

#include <stdint.h>

#include "base/failure.h"
#include "format/csr.h"

#define NB_PENDING_TEXT_SIZE 256
#define NB_PENDING_NO_TIME UINT64_MAX /* for how long is not known */

/* Why a request is not approved by itself, as far as it is known. */
enum nb_pending_reason {
        NB_PENDING_UNASKED,
        NB_PENDING_UNKNOWN,    /* the API server did not say */
        NB_PENDING_UNBOUND,    /* who requested it has no right to that */
        NB_PENDING_UNAPPROVED, /* has the right, but no approver took it */
        NB_PENDING_MACHINE,    /* OpenShift, where another right decides: that of a Machine */
        _NB_PENDING_N,
};

/* The wait for one state of one object. */
struct nb_pending {
        char uid[sizeof(((struct nb_csr *)NULL)->uid)];
        enum nb_csr_state state;
        uint64_t since_ms;  /* nb_now_ms() */
        uint64_t remind_ms; /* when it is told again, though nothing is new */
        uint64_t ask_ms;    /* when the API server is asked for the reason; NB_TIME_INFINITE: not any more */
        enum nb_pending_reason reason;
};

/* After how long a wait of `waited_ms` is worth its next entry: 1 min, 5 min, 15 min, 1 h, 6 h, and each 6 h from there. */
uint64_t nb_pending_next_ms(uint64_t waited_ms);

/* Whether this is of the machine config operator of OpenShift, whose requests another controller approves than kube-controller-manager. */
bool nb_pending_is_openshift(const struct nb_csr *csr);

/* What the answer of nb_nodeclient_review_finish() means. */
enum nb_pending_reason nb_pending_reason_of(int review);

/* For the journal's field: one word; NULL where nothing is known. */
const char *nb_pending_reason_name(enum nb_pending_reason reason);

/* The reason as half a sentence; "" while it was not asked for. */
void nb_pending_explain(const struct nb_csr *csr, const char *node_name, enum nb_pending_reason reason, char ret[static NB_PENDING_TEXT_SIZE]);

/*
 * Sets the failure that the object is by now: NB_CSR_PENDING and what stands beside it, NB_CSR_NOT_ISSUED, NB_CSR_DENIED, NB_CSR_FAILED.
 * `waited_ms` may be NB_PENDING_NO_TIME.
 */
int nb_pending_describe(const struct nb_csr *csr, const char *node_name, enum nb_pending_reason reason, uint64_t waited_ms, struct nb_failure *f);
