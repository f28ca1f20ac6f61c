/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "format/timeline.h"
#include "stage/internal.h"

static void set_field(enum nb_field field, uint64_t usec) {
        if (usec > 0)
                nb_log_field(field, "%" PRIu64, usec);
}

void nb_report_connection(const struct nb_http_connection *connection, const char *endpoint) {
        char resolve[NB_SPAN_SIZE + 32] = "", tcp[NB_SPAN_SIZE], tls[NB_SPAN_SIZE], span[NB_SPAN_SIZE];

        if (connection->tls_usec == 0)
                return;
        nb_span_format(connection->resolve_usec, span);
        if (connection->resolve_usec > 0)
                (void)snprintf(resolve, sizeof(resolve), "name resolution %s, ", span);
        nb_span_format(connection->tcp_usec, tcp);
        nb_span_format(connection->tls_usec, tls);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", endpoint);
        set_field(NB_FIELD_RESOLVE_USEC, connection->resolve_usec);
        set_field(NB_FIELD_TCP_USEC, connection->tcp_usec);
        set_field(NB_FIELD_TLS_USEC, connection->tls_usec);
        set_field(NB_FIELD_AGE_USEC, nb_now_usec() - connection->begin_usec);
        nb_log(LOG_DEBUG, NB_CONNECTED, "connected to %s: %sTCP %s, TLS %s", endpoint, resolve, tcp, tls);
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
