/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/macro.h"
#include "join/report.h"
#include "os/clock.h"
#include "systemd/log.h"

#define SINCE_SIZE 32

static void since_text(time_t *since, char ret[static SINCE_SIZE]) {
        struct tm utc = { 0 };

        if (*since == 0)
                *since = time(NULL);
        (void)gmtime_r(since, &utc);
        (void)strftime(ret, SINCE_SIZE, "%Y-%m-%d %H:%M:%S", &utc);
}

void nb_report_wait(time_t *waiting_since, const struct nb_failure *f, bool is_new) {
        char since[SINCE_SIZE];

        since_text(waiting_since, since);
        nb_log_status_of(f, *waiting_since,
                         "Waiting since %s UTC: %s; see 'node-bootstrap explain %s'", since,
                         f->detail, nb_failure_info(f->code)->slug);
        if (is_new)
                nb_log_failure(LOG_WARNING, f);
}

void nb_report_new_connection(const struct nb_api *api) {
        struct nb_http_connection connection;

        if (!api->http || !nb_http_take_connection(api->http, &connection) ||
            connection.tls_usec == 0)
                return;
        const struct {
                enum nb_field field;
                uint64_t usec;
        } times[] = {
                { NB_FIELD_RESOLVE_USEC, connection.resolve_usec },
                { NB_FIELD_TCP_USEC, connection.tcp_usec },
                { NB_FIELD_TLS_USEC, connection.tls_usec },
                { NB_FIELD_AGE_USEC, nb_now_usec() - connection.begin_usec },
        };

        nb_log_field(NB_FIELD_ENDPOINT, "%s", api->name);
        for (size_t i = 0; i < N_ELEMENTS(times); i++)
                if (times[i].usec > 0)
                        nb_log_field(times[i].field, "%" PRIu64, times[i].usec);
        nb_log(LOG_DEBUG, NB_CONNECTED, "connected to %s", api->name);
        for (size_t i = 0; i < N_ELEMENTS(times); i++)
                nb_log_field(times[i].field, NULL);
}
