/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Carries out what a part has decided on a request, by writes that it adds to the plan, and tells
 * people: in the log, in the metrics, and in an Event (core/v1) in the namespace default, which
 * `kubectl describe csr` shows. `text` is a sentence without a period.
 */

#include "admin/frame/controller.h"
#include "base/failure.h"

/* An Event about an object: a write of a plan. */
struct nb_event {
        const char *api_version, *kind, *namespace, *name, *uid; /* namespace NULL: none */
        const char *reason, *text;
};
void nb_event_add(struct nb_plan *plan, const struct nb_admin *admin, const struct nb_event *event);

/* Whether the write was an Event. Whoever may not create Events still decides: a failure is logged,
 * and cleared. */
bool nb_event_is_written(const struct nb_admin_call *call, int r, struct nb_failure *f);

/* Adds an Event, and logs it with `code`, unless that was done for this request and reason in the
 * last hour, or there are too many Events, of one party or in all, or too many lines. */
void nb_decision_tell(struct nb_request_record *record, struct nb_plan *plan, unsigned reason,
                      enum nb_code code, const char *text);

/* Sets what was seen of a request that cannot be read by its name, or is gone. */
void nb_decision_copy(const struct nb_request_record *record, struct nb_node_request *ret_request);

/* Approves the request as it was read, or denies it; with --dry-run, only tells people. */
void nb_decision_make(struct nb_request_record *record, struct nb_plan *plan,
                      const struct nb_node_request *request, unsigned reason, const char *text);

/* After a write of the functions above, by its outcome. Of another write, returns r. -EAGAIN
 * without a failure if the request was written since. */
int nb_decision_written(struct nb_request_record *record, struct nb_plan *plan,
                        const struct nb_admin_call *call, int r, struct nb_failure *f);

/* Carries on after an approval whose answer was lost, if the request as it was read has it. */
void nb_decision_confirm(struct nb_request_record *record, const struct nb_node_request *request);

enum nb_pause {
        NB_PAUSE_LONG,    /* only the request, its token or an administrator can change this */
        NB_PAUSE_GROWING, /* something else may change */
        NB_PAUSE_SILENT, /* the same, and most likely within seconds: the first ones are not told */
};

/* Leaves the request pending. It is judged again after a pause, or when one of these facts (bits:
 * enum nb_fact) changes. */
void nb_decision_leave(struct nb_request_record *record, struct nb_plan *plan, unsigned reason,
                       enum nb_pause pause, unsigned facts, const char *text);

/* Runs the work of the request again after this time, or when one of these facts changes. */
void nb_decision_wait(struct nb_request_record *record, unsigned facts, uint64_t after_ms);

/* The same, after a pause that is longer each time. */
void nb_decision_wait_longer(struct nb_request_record *record, unsigned facts);
