/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Describes a CSR that is not approved or signed, and schedules the reminders about it. Pure. */

#include <stdint.h>

#include "base/failure.h"
#include "kube_objects/csr.h"

/* Why a CSR is not approved automatically. */
enum nb_pending_reason {
        NB_PENDING_UNASKED,
        NB_PENDING_CONTROLLER, /* node-bootstrap's controller has not approved it yet */
        NB_PENDING_UNKNOWN,    /* the API server did not say */
        NB_PENDING_UNBOUND,    /* the requestor is not authorized for automatic approval */
        NB_PENDING_UNAPPROVED, /* the requestor is, but no approver has approved the CSR */
        NB_PENDING_MACHINE,    /* OpenShift approves the CSR only if there is a Machine for it */
};

/* The wait for one state of one object. Times are from nb_now_ms(). */
struct nb_pending {
        char uid[sizeof(((struct nb_csr *)NULL)->uid)];
        enum nb_csr_state state;
        uint64_t since_ms;
        uint64_t remind_ms; /* when to report the same reason again */
        uint64_t ask_ms;    /* when to ask the API server for the reason, or NB_TIME_INFINITE */
        enum nb_pending_reason reason;
};

/* Returns when the next journal entry is due after `waited_ms`, counted from the start of the wait:
 * after 1 min, 5 min, 15 min, 1 h, 6 h, and then every 6 h. */
uint64_t nb_pending_next_ms(uint64_t waited_ms);

/* The reason that the CSR itself shows: NB_PENDING_CONTROLLER, NB_PENDING_MACHINE (the requestor is
 * OpenShift's machine config operator), or NB_PENDING_UNASKED if only the API server knows. */
enum nb_pending_reason nb_pending_reason_known(const struct nb_csr *csr);

/* Returns the reason for a result of nb_right_read(): an enum nb_right_answer, or a failure. */
enum nb_pending_reason nb_pending_reason_of(int review);

/* For the journal's field: one word; "" if unknown. */
const char *nb_pending_reason_name(enum nb_pending_reason reason);

/*
 * Sets the failure for the object's state: NB_CSR_PENDING, NB_CSR_PENDING_CONTROLLER,
 * NB_CSR_PENDING_UNBOUND, NB_CSR_PENDING_UNAPPROVED, NB_CSR_NOT_ISSUED, NB_CSR_DENIED,
 * NB_CSR_FAILED. The text has no duration: `status` shows it long after it was logged.
 */
int nb_pending_describe(const struct nb_csr *csr, const char *node_name,
                        enum nb_pending_reason reason, struct nb_failure *f);
