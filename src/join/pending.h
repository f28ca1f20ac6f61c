/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What is reported about a CSR that is not approved or signed, and when it is repeated. Pure. */

#include <stdint.h>

#include "base/failure.h"
#include "kube/csr.h"

#define NB_PENDING_TEXT_SIZE 288
#define NB_PENDING_NO_TIME UINT64_MAX /* it is unknown since when */

/* Why a CSR is not approved automatically. */
enum nb_pending_reason {
        NB_PENDING_UNASKED,
        NB_PENDING_UNKNOWN,    /* the API server did not say */
        NB_PENDING_UNBOUND,    /* the requester is not authorized for it */
        NB_PENDING_UNAPPROVED, /* the requester is, but no approver approved it */
        NB_PENDING_MACHINE,    /* OpenShift, which approves it for a Machine */
        _NB_PENDING_N,
};

/* The wait for one state of one object. Times as of nb_now_ms(). */
struct nb_pending {
        char uid[sizeof(((struct nb_csr *)NULL)->uid)];
        enum nb_csr_state state;
        uint64_t since_ms;
        uint64_t remind_ms; /* when it is reported again without news */
        uint64_t ask_ms;    /* when the API server is asked for the reason; or NB_TIME_INFINITE */
        enum nb_pending_reason reason;
};

/* When, in a wait of `waited_ms`, the next entry is due: after 1 min, 5 min, 15 min, 1 h, 6 h, and
 * every 6 h from there. */
uint64_t nb_pending_next_ms(uint64_t waited_ms);

/* Whether the requester is OpenShift's machine config operator: its CSRs are not approved by
 * kube-controller-manager. */
bool nb_pending_is_openshift(const struct nb_csr *csr);

/* What the result of nb_right_finish() means: an enum nb_right_answer, or a failure. */
enum nb_pending_reason nb_pending_reason_of(int review);

/* For the journal's field: one word; NULL if unknown. */
const char *nb_pending_reason_name(enum nb_pending_reason reason);

/* The reason as half a sentence; "" while it was not asked for. */
void nb_pending_explain(const struct nb_csr *csr, const char *node_name,
                        enum nb_pending_reason reason, char ret[static NB_PENDING_TEXT_SIZE]);

/*
 * Sets the failure for the object's state: NB_CSR_PENDING, NB_CSR_PENDING_UNBOUND,
 * NB_CSR_PENDING_UNAPPROVED, NB_CSR_NOT_ISSUED, NB_CSR_DENIED, NB_CSR_FAILED. `waited_ms` may be
 * NB_PENDING_NO_TIME.
 */
int nb_pending_describe(const struct nb_csr *csr, const char *node_name,
                        enum nb_pending_reason reason, uint64_t waited_ms, struct nb_failure *f);
