/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "join/report.h"
#include "state/timeline.h"

#define SINCE_SIZE 32

static void since_text(time_t *since, char ret[static SINCE_SIZE]) {
        struct tm utc;

        if (*since == 0)
                *since = time(NULL);
        if (!gmtime_r(since, &utc) || strftime(ret, SINCE_SIZE, "%Y-%m-%d %H:%M:%S", &utc) == 0)
                ret[0] = '\0';
}

void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new) {
        char since[SINCE_SIZE];

        since_text(waiting_since, since);
        nb_log_status("Waiting since %s UTC: %s; see 'node-bootstrap explain %s'", since, f->detail,
                      nb_failure_info(f->code)->slug);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_report_approval(struct nb_join *join, const struct nb_failure *f, bool is_new) {
        char since[SINCE_SIZE], why[NB_PENDING_TEXT_SIZE];

        since_text(&join->waiting_since, since);
        nb_pending_explain(&join->csr, join->node_name, join->pending.reason, why);
        if (join->csr.state == NB_CSR_STATE_PENDING)
                nb_log_status(
                        "Waiting since %s UTC for approval: kubectl certificate approve %s%s%s%s",
                        since, join->csr_name, why[0] ? " (" : "", why, why[0] ? ")" : "");
        else
                nb_log_status("Waiting since %s UTC: %s", since, f->detail);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_report_given_up(uint64_t patience_ms, const char *limit, struct nb_failure *f) {
        char duration[NB_DURATION_SIZE];

        nb_duration_format(patience_ms, duration);
        nb_failure_add(f, "; gave up after %s%s%s%s", duration, limit ? " (" : "",
                       limit ? limit : "", limit ? ")" : "");
}

static void set_field(enum nb_field field, uint64_t usec) {
        if (usec > 0)
                nb_log_field(field, "%" PRIu64, usec);
}

void nb_report_connection(const struct nb_http_connection *connection, const char *endpoint) {
        char resolve[NB_SPAN_SIZE + 32] = "", tcp[NB_SPAN_SIZE], tls[NB_SPAN_SIZE],
                                    span[NB_SPAN_SIZE];

        if (connection->tls_usec == 0)
                return;
        nb_span_format(connection->resolve_usec, span);
        if (connection->resolve_usec > 0)
                snprintf(resolve, sizeof(resolve), "name resolution %s, ", span);
        nb_span_format(connection->tcp_usec, tcp);
        nb_span_format(connection->tls_usec, tls);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", endpoint);
        set_field(NB_FIELD_RESOLVE_USEC, connection->resolve_usec);
        set_field(NB_FIELD_TCP_USEC, connection->tcp_usec);
        set_field(NB_FIELD_TLS_USEC, connection->tls_usec);
        set_field(NB_FIELD_AGE_USEC, nb_now_usec() - connection->begin_usec);
        nb_log(LOG_DEBUG, NB_CONNECTED, "connected to %s: %sTCP %s, TLS %s", endpoint, resolve, tcp,
               tls);
        nb_log_field(NB_FIELD_RESOLVE_USEC, NULL);
        nb_log_field(NB_FIELD_TCP_USEC, NULL);
        nb_log_field(NB_FIELD_TLS_USEC, NULL);
        nb_log_field(NB_FIELD_AGE_USEC, NULL);
}

void nb_report_new_connection(const struct nb_api *api) {
        struct nb_http_connection connection;

        if (api->http && nb_http_take_connection(api->http, &connection))
                nb_report_connection(&connection, api->name);
}
