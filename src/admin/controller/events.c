/* SPDX-License-Identifier: Apache-2.0 */

#include "admin/controller/events.h"
#include "admin/client/calls.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

#define EVENTS_PATH "/api/v1/namespaces/default/events"
#define EVENT_MAX ((size_t)8 * 1024)
#define COMPONENT "node-bootstrap-controller"

bool nb_rate_allows(struct nb_rate *rate, unsigned burst, uint64_t interval_ms, uint64_t now_ms) {
        uint64_t from_ms = rate->used_ms > now_ms ? rate->used_ms : now_ms;

        if (from_ms + interval_ms > now_ms + burst * interval_ms)
                return false;
        rate->used_ms = from_ms + interval_ms;
        return true;
}

static int format_event(const struct nb_controller *controller,
                        const struct nb_request_record *record, const struct nb_event *event,
                        struct nb_buffer *body) {
        struct nb_json_writer writer = { .buffer = body };
        char now[NB_RFC3339_SIZE];

        nb_time_format(time(NULL), now);
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", "v1");
        nb_json_put_string(&writer, "kind", "Event");
        nb_json_open(&writer, "metadata", '{');
        nb_json_put_string(&writer, "generateName", "node-bootstrap-");
        nb_json_put_string(&writer, "namespace", "default");
        nb_json_close(&writer);
        nb_json_open(&writer, "involvedObject", '{');
        nb_json_put_string(&writer, "apiVersion", "certificates.k8s.io/v1");
        nb_json_put_string(&writer, "kind", "CertificateSigningRequest");
        nb_json_put_string(&writer, "name", record->name);
        nb_json_put_string(&writer, "uid", record->uid);
        nb_json_close(&writer);
        nb_json_put_string(&writer, "type", "Warning");
        nb_json_put_string(&writer, "reason", event->reason);
        nb_json_put_string(&writer, "message", event->message);
        nb_json_put_string(&writer, "firstTimestamp", now);
        nb_json_put_string(&writer, "lastTimestamp", now);
        nb_json_put_integer(&writer, "count", 1);
        nb_json_open(&writer, "source", '{');
        nb_json_put_string(&writer, "component", COMPONENT);
        nb_json_close(&writer);
        nb_json_put_string(&writer, "reportingComponent", COMPONENT);
        nb_json_put_string(&writer, "reportingInstance", controller->identity);
        return nb_json_finish(&writer);
}

static int create_event(struct nb_controller *controller, const struct nb_request_record *record,
                        const struct nb_event *event) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(EVENT_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_admin_call call = { .method = "POST",
                                      .what = "creating an Event",
                                      .path = EVENTS_PATH };
        struct nb_failure f = { 0 };
        int r;

        if (format_event(controller, record, event, &body) < 0)
                return 0;
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(&controller->admin, &call, &answer, &f);
        if (r < 0 && f.code == NB_NONE)
                return r;
        if (r < 0)
                nb_log_failure(LOG_WARNING, &f);
        return 0;
}

/* Once for each time that it is told, however often the work runs until the answer is there. */
static bool may_tell(struct nb_controller *controller, struct nb_request_record *record,
                     unsigned bit) {
        struct nb_token_record *token = nb_controller_find_token(controller, record->token_id);
        uint64_t now = nb_now_ms();

        if (record->telling == bit)
                return true;
        if (now >= record->told_ms + NB_EVENTS_REPEAT_MS)
                record->told = 0;
        if ((record->told & bit) ||
            (token && !nb_rate_allows(&token->reports, NB_EVENTS_OF_TOKEN_BURST,
                                      NB_EVENTS_OF_TOKEN_INTERVAL_MS, now)) ||
            !nb_rate_allows(&controller->reports[record->kind], NB_EVENTS_BURST,
                            NB_EVENTS_INTERVAL_MS, now))
                return false;
        record->telling = bit;
        return true;
}

int nb_event_tell(struct nb_controller *controller, struct nb_request_record *record,
                  const struct nb_event *event) {
        int r;

        if (!may_tell(controller, record, event->bit))
                return 0;
        r = create_event(controller, record, event);
        if (r < 0)
                return r;
        record->telling = 0;
        record->told |= event->bit;
        record->told_ms = nb_now_ms();
        nb_log(LOG_WARNING, event->code, "CSR %s: %s", record->name, event->message);
        return 1;
}
