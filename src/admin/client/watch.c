/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/watch.h"
#include "base/macro.h"
#include "kube_api/csr_calls.h"
#include "system/clock.h"
#include "system/log.h"

#define SETTLED_MS (NB_HTTP_CONNECT_TIMEOUT_MS + 5000)

/* --- Failures --- */

static uint64_t next_attempt_ms(struct nb_watch *watch) {
        return nb_now_ms() + nb_backoff_ms(watch->attempt++, NB_WATCH_RETRY_FIRST_MS,
                                           NB_WATCH_RETRY_CAP_MS, nb_random());
}

static void try_later(struct nb_watch *watch, bool wants_list) {
        if (wants_list) {
                watch->wants_list = true;
                watch->version[0] = '\0';
        }
        watch->n_restarts++;
        watch->due_ms = next_attempt_ms(watch);
}

/* A failure is logged if it differs from the last one, so that a long outage is one line. */
static void fail_watch(struct nb_watch *watch, const struct nb_admin *admin, struct nb_failure *f) {
        uint64_t allowed_ms = nb_now_ms() + f->retry_after_ms;

        nb_admin_explain(admin, f);
        /* An event above the limits would come again; a list passes over it. A version that the API
         * server refuses would be refused again. */
        try_later(watch, f->code == NB_ANSWER_MALFORMED || f->code == NB_ADMIN_REFUSED);
        if (watch->due_ms < allowed_ms)
                watch->due_ms = allowed_ms;
        if (f->code != watch->failure.code)
                nb_log_failure(LOG_WARNING, f);
        watch->failure = *f;
}

/* Anyone who may create objects can make any number that cannot be read. */
static void ignore_object(struct nb_watch *watch, const struct nb_failure *f) {
        uint64_t now_ms = nb_now_ms();

        if (f->code == NB_NONE || now_ms < watch->warn_ms)
                return;
        nb_log_failure(LOG_WARNING, f);
        watch->warn_ms = now_ms + NB_WATCH_WARN_MS;
}

/* --- Lists --- */

/* Hands over one object. An event has a type, and a version to continue from. */
static void take_object(struct nb_watch *watch, struct json_object *root, const char *type) {
        struct nb_failure f = { 0 };
        struct nb_json object = {
                .root = root, .what = watch->kind->what, .code = NB_ANSWER_MALFORMED, .f = &f
        };

        if (type) {
                nb_json_copy(&object, "metadata.resourceVersion", watch->version,
                             sizeof(watch->version));
                watch->attempt = object.r < 0 ? watch->attempt : 0;
        }
        if (object.r >= 0 && (!type || strcmp(type, "BOOKMARK") != 0))
                watch->kind->on_object(watch->userdata, &object,
                                       !type                          ? NB_CHANGE_LISTED
                                       : strcmp(type, "DELETED") == 0 ? NB_CHANGE_DELETED
                                                                      : NB_CHANGE_WRITTEN);
        ignore_object(watch, &f);
}

static int visit_object(void *userdata, struct nb_json *item) {
        take_object(userdata, item->root, NULL);
        return 0;
}

static int list_objects(struct nb_watch *watch, struct nb_admin *admin, struct nb_failure *f) {
        const struct nb_watch_kind *kind = watch->kind;
        char what[128];
        int r = 0;

        snprintf(what, sizeof(what), "listing %s", kind->what);
        if (!nb_exchange_has_calls(&watch->list))
                kind->on_list(watch->userdata, false);
        admin->exchange = &watch->list;
        nb_exchange_rewind(&watch->list);
        if (!kind->is_unlisted)
                r = nb_admin_list(admin, what, kind->path, visit_object, watch, watch->version, f);
        admin->exchange = NULL;
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        nb_exchange_done(&watch->list);
        if (r < 0)
                return r;
        /* Give the memory of the pages back: each process that is forked for a connection would
         * keep a copy of it. */
        (void)malloc_trim(0);
        watch->is_listed = true;
        watch->wants_list = false;
        kind->on_list(watch->userdata, true);
        return 0;
}

/* --- Events --- */

static int connect_watch(struct nb_watch *watch, struct nb_admin *admin, struct nb_failure *f) {
        const struct nb_watch_kind *kind = watch->kind;
        char query[512];

        snprintf(watch->what, sizeof(watch->what), "watching %s at", kind->what);
        watch->call = (struct nb_call){ watch->what, kind->path, NB_WATCH_EVENT_MAX,
                                        &nb_admin_codes };
        snprintf(query, sizeof(query),
                 "%cwatch=true&allowWatchBookmarks=true&timeoutSeconds=%d&resourceVersion=%s",
                 strchr(kind->path, '?') ? '&' : '?', NB_WATCH_TIMEOUT_SEC, watch->version);
        return nb_api_start(&admin->api, &watch->call,
                            &(struct nb_http_request){ .url = query,
                                                       .accept = kind->accept,
                                                       .silence_sec = NB_WATCH_SILENCE_SEC,
                                                       .is_stream = true },
                            &watch->transfer, f);
}

/* Handles one event. -ESTALE: the watch cannot continue. */
static int take_event(struct nb_watch *watch, char *line, size_t len) {
        struct nb_failure f = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_admin_parse(line, len, watch->kind->what,
                                                                     &f);
        const char *type = nb_json_string(&json, "type");
        struct json_object *root = nb_json_object(&json, "object");

        if (type && strcmp(type, "ERROR") == 0)
                return -ESTALE;
        if (type && json.r >= 0)
                take_object(watch, root, type);
        ignore_object(watch, &f);
        return 0;
}

/* Handles all complete lines. An event that cannot be read is logged and passed over, so that one
 * object cannot stop the watch. -ESTALE: the watch has ended. */
static int take_events(struct nb_watch *watch) {
        long status;
        struct nb_buffer *received = nb_http_received(watch->transfer, &status);
        char *line = received->data, *newline;
        int r = 0;

        if (status != 200 || received->len == 0)
                return 0;
        nb_failure_clear(&watch->failure);
        while (r != -ESTALE &&
               (newline = memchr(line, '\n', received->len - (size_t)(line - received->data)))) {
                r = take_event(watch, line, (size_t)(newline - line));
                line = newline + 1;
        }
        /* The lines of tokens hold secrets. */
        explicit_bzero(received->data, (size_t)(line - received->data));
        nb_buffer_consume(received, (size_t)(line - received->data));
        if (r != -ESTALE)
                return 0;
        nb_watch_stop(watch);
        try_later(watch, true);
        return r;
}

/* --- The watch --- */

/* A stream that had an event continues at once, others later each time. */
static void finish_stream(struct nb_watch *watch, struct nb_admin *admin) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_failure f = { 0 };
        int r = nb_http_finish(TAKE(watch->transfer), &answer, &f);

        if (r >= 0)
                nb_admin_count(admin, answer.status);
        /* The API server ends connections when it restarts, and some versions send no bookmarks to
         * an idle watch. The first time this is not worth a line in the journal: if the API server
         * is away, the next attempt fails as well. */
        if (answer.status == 200 || (watch->attempt == 0 && nb_http_is_unanswered(f.code))) {
                watch->n_restarts += r < 0;
                watch->due_ms = watch->attempt == 0 ? 0 : next_attempt_ms(watch);
                watch->attempt += watch->attempt == 0;
        } else if (answer.status == 410) /* the API server no longer has the version */
                try_later(watch, true);
        else {
                if (r >= 0)
                        (void)nb_answer_failure(&admin->api, &watch->call, &answer, &f);
                if (f.code != NB_NONE)
                        fail_watch(watch, admin, &f);
        }
}

bool nb_watch_take_done(struct nb_watch *watch, struct nb_admin *admin,
                        const struct nb_http_transfer *done) {
        if (nb_exchange_take_done(&watch->list, done))
                return true;
        if (watch->transfer != done)
                return false;
        if (take_events(watch) >= 0)
                finish_stream(watch, admin);
        return true;
}

int nb_watch_run(struct nb_watch *watch, struct nb_admin *admin, uint64_t now_ms) {
        struct nb_failure f = { 0 };
        int r = 0;

        if (watch->transfer) {
                /* No event has arrived, but a connection that could not be made would have ended.
                 */
                if (now_ms >= watch->started_ms + SETTLED_MS) {
                        nb_failure_clear(&watch->failure);
                        watch->attempt = 0;
                }
                (void)take_events(watch);
                return 0;
        }
        if (nb_watch_due(watch) > now_ms)
                return 0;
        if (watch->wants_list)
                r = list_objects(watch, admin, &f);
        if (r >= 0)
                r = connect_watch(watch, admin, &f);
        watch->started_ms = now_ms;
        if (f.code == NB_NONE && (r == -EINPROGRESS || r == -ECANCELED))
                return r == -EINPROGRESS ? 0 : r;
        if (r == -ESTALE)
                try_later(watch, true);
        else if (r < 0)
                fail_watch(watch, admin, &f);
        return 0;
}

uint64_t nb_watch_due(const struct nb_watch *watch) {
        if (watch->transfer || nb_exchange_is_waiting(&watch->list))
                return NB_TIME_INFINITE;
        return nb_exchange_has_calls(&watch->list) ? 0 : watch->due_ms;
}

void nb_watch_stop(struct nb_watch *watch) {
        nb_http_cancel(watch->transfer);
        watch->transfer = NULL;
        nb_exchange_done(&watch->list);
}
