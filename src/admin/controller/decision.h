/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Carries out what a part has decided on a request, and tells people: in the log, in the metrics,
 * and in an Event (core/v1) in the namespace default, which `kubectl describe csr` shows.
 * `text` is a sentence without a period.
 */

#include "admin/controller/controller.h"
#include "base/failure.h"

/* Creates an Event, and logs it with `code`, unless that was done for this request in the last
 * hour, or there are too many, of one token or in all. 0; -EINPROGRESS (exchange.h). A failure to
 * create the Event is logged. */
int nb_decision_tell(struct nb_request_record *record, unsigned reason, enum nb_code code,
                     const char *text);

/* Approves the request as it was read, or denies it; with --dry-run, only tells people. -EAGAIN
 * without a failure if the request was written since. */
int nb_decision_make(struct nb_request_record *record, const struct nb_node_request *request,
                     unsigned reason, const char *text, struct nb_failure *f);

enum nb_pause {
        NB_PAUSE_LONG,    /* only the request, its token or an administrator can change this */
        NB_PAUSE_GROWING, /* something else may change */
        NB_PAUSE_SILENT, /* the same, and most likely within seconds: the first ones are not told */
};

/* Leaves the request pending. It is judged again after a pause, or when its token or Node
 * changes. */
int nb_decision_leave(struct nb_request_record *record, unsigned reason, enum nb_pause pause,
                      const char *text);

/* Runs the work of the request again after this time, or when its token or Node changes. 0. */
int nb_decision_wait(struct nb_request_record *record, uint64_t after_ms);

/* The same, after a pause that is longer each time. */
int nb_decision_wait_longer(struct nb_request_record *record);
