/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Tells people what was decided on a request: a log entry, and an Event (core/v1) in the namespace
 * default, which `kubectl describe csr` shows. */

#include "admin/controller/controller.h"
#include "base/failure.h"

/* Reports of one token: a burst, then one per interval, so that its holder cannot flood the cluster
 * with Events. All requests for client certificates together have a limit of their own, and so have
 * those for serving certificates. */
#define NB_EVENTS_OF_TOKEN_BURST 10
#define NB_EVENTS_OF_TOKEN_INTERVAL_MS 60000
#define NB_EVENTS_BURST 200
#define NB_EVENTS_INTERVAL_MS 1000

/* Kubernetes deletes an Event after an hour (--event-ttl of kube-apiserver). */
#define NB_EVENTS_REPEAT_MS ((uint64_t)60 * 60 * 1000)

struct nb_event {
        unsigned bit;        /* of nb_request_record.told */
        enum nb_code code;   /* of the log entry */
        const char *reason;  /* "TokenForAnotherNode" */
        const char *message; /* a sentence without a period */
};

/* Whether one more is allowed at `now_ms`; then counts it. */
bool nb_rate_allows(struct nb_rate *rate, unsigned burst, uint64_t interval_ms, uint64_t now_ms);

/* Creates the Event and logs it, unless that was done for this request in the last hour, or there
 * are too many. 1: told; 0: not; -EINPROGRESS (exchange.h). A failure to create the Event is
 * logged. */
int nb_event_tell(struct nb_controller *controller, struct nb_request_record *record,
                  const struct nb_event *event);
