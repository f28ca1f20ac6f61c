/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/watch.h"
#include "base/macro.h"
#include "os/clock.h"
#include "systemd/log.h"

#define SETTLED_MS (NB_HTTP_CONNECT_TIMEOUT_MS + 5000)
#define BUFFERED_MS 1000 /* before the end: the API server's bookmark comes 2 s before it */

/* --- Failures --- */

static void want_list(struct nb_watch *watch) {
        if (!watch->wants_list)
                watch->stale_ms = nb_now_ms();
        watch->wants_list = true;
        watch->version[0] = '\0';
}

static void try_later(struct nb_watch *watch, bool wants_list) {
        if (wants_list)
                want_list(watch);
        watch->n_restarts++;
        watch->due_ms = nb_now_ms() + nb_backoff_ms(watch->attempt++, NB_WATCH_RETRY_FIRST_MS,
                                                    NB_WATCH_RETRY_CAP_MS, nb_random());
}

/* A failure is logged if it differs from the last one, so that a long outage is one line. */
static void fail_watch(struct nb_watch *watch, const struct nb_admin *admin, struct nb_failure *f) {
        uint64_t allowed_ms = nb_now_ms() + f->retry_after_ms;

        nb_admin_explain(admin, f);
        /* An object that cannot be read may have changed. A version that the API server refuses
         * would be refused again. */
        try_later(watch, f->code == NB_ANSWER_MALFORMED || f->code == NB_ADMIN_REJECTED);
        if (watch->due_ms < allowed_ms)
                watch->due_ms = allowed_ms;
        if (f->code != watch->failure.code)
                nb_log_failure(LOG_WARNING, f);
        watch->failure = *f;
}

/* --- Lists --- */

static int visit_object(void *userdata, struct nb_json *item) {
        struct nb_watch *watch = userdata;

        watch->kind->on_object(watch->userdata, item, NB_CHANGE_LISTED);
        return item->r;
}

static int finish_list(struct nb_watch *watch, struct nb_failure *f) {
        const struct nb_watch_kind *kind = watch->kind;

        if (watch->list.is_ignoring && !kind->is_partial)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "listing %s: an object cannot be read, so nothing that it "
                                      "may concern is decided",
                                      kind->what);
        if (watch->list.is_ignoring) {
                struct nb_json nothing = { .what = kind->what,
                                           .code = NB_ANSWER_MALFORMED,
                                           .f = f };

                kind->on_object(watch->userdata, &nothing, NB_CHANGE_LISTED);
        }
        memcpy(watch->version, watch->list.version, sizeof(watch->version));
        return 0;
}

/* 1: listed; 0: an answer is awaited. */
static int list_objects(struct nb_watch *watch, struct nb_admin *admin, struct nb_failure *f) {
        const struct nb_watch_kind *kind = watch->kind;
        int r = 1;

        if (!watch->list.path) {
                kind->on_list(watch->userdata, false);
                watch->list = (struct nb_list){ .what = kind->what,
                                                .path = kind->path,
                                                .is_consistent = true,
                                                .visit = visit_object,
                                                .userdata = watch };
        }
        if (!kind->is_unlisted)
                r = nb_list_run(&watch->list, admin, f);
        if (r == 0)
                return r;
        if (r > 0)
                r = finish_list(watch, f);
        nb_list_done(&watch->list);
        if (r < 0)
                return r;
        /* Give the memory of the pages back: each process that is forked for a connection would
         * keep a copy of it. */
        (void)malloc_trim(0);
        watch->is_listed = true;
        watch->wants_list = false;
        kind->on_list(watch->userdata, true);
        return 1;
}

/* --- Events --- */

static int connect_watch(struct nb_watch *watch, struct nb_admin *admin, struct nb_failure *f) {
        const struct nb_watch_kind *kind = watch->kind;
        const unsigned seconds = NB_WATCH_TIMEOUT_MIN_SEC +
                                 nb_random() %
                                         (NB_WATCH_TIMEOUT_MAX_SEC - NB_WATCH_TIMEOUT_MIN_SEC + 1);
        char query[512];

        snprintf(watch->what, sizeof(watch->what), "watching %s at", kind->what);
        watch->call = (struct nb_call){ watch->what, kind->path, NB_ADMIN_OBJECT_MAX,
                                        &nb_admin_codes };
        watch->limit_ms = (seconds + NB_WATCH_LATE_SEC) * 1000;
        watch->first_ms = 0;
        snprintf(query, sizeof(query),
                 "%cwatch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
                 strchr(kind->path, '?') ? '&' : '?', seconds, watch->version);
        return nb_api_start(&admin->api, &watch->call,
                            &(struct nb_http_request){ .url = query,
                                                       .accept = kind->accept,
                                                       .timeout_ms = watch->limit_ms,
                                                       .is_stream = true },
                            &watch->transfer, f);
}

/* Handles one event. -ESTALE: the watch cannot continue. */
static int take_event(struct nb_watch *watch, char *line, size_t len, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = nb_admin_parse(line, len, watch->kind->what,
                                                                     f);
        const char *type = nb_json_string(&json, "type");
        struct nb_json object = json;

        object.root = nb_json_object(&json, "object");
        if (type && strcmp(type, "ERROR") == 0)
                return -ESTALE;
        object.r = json.r;
        if (!type || !object.root) {
                nb_json_refuse(&object, "object", "an event", NULL);
                return object.r;
        }
        nb_json_copy(&object, "metadata.resourceVersion", watch->version, sizeof(watch->version));
        if (object.r >= 0)
                watch->attempt = 0;
        if (object.r >= 0 && strcmp(type, "BOOKMARK") != 0)
                watch->kind->on_object(watch->userdata, &object,
                                       strcmp(type, "DELETED") == 0 ? NB_CHANGE_DELETED
                                                                    : NB_CHANGE_WRITTEN);
        return object.r;
}

/* Handles all complete lines. Negative: the watch has ended, and the objects are listed again. */
static int take_events(struct nb_watch *watch, const struct nb_admin *admin) {
        struct nb_failure f = { 0 };
        long status;
        struct nb_buffer *received = nb_http_received(watch->transfer, &status);
        char *line = received->data, *newline;
        int r = 0;

        if (status != 200 || received->len == 0)
                return 0;
        if (watch->first_ms == 0)
                watch->first_ms = nb_now_ms();
        /* What arrives at the end of the connection was kept back until then. */
        if (watch->first_ms + NB_WATCH_LATE_SEC * 1000 + BUFFERED_MS <
            watch->started_ms + watch->limit_ms)
                watch->is_stalled = false;
        nb_failure_clear(&watch->failure);
        while (r >= 0 &&
               (newline = memchr(line, '\n', received->len - (size_t)(line - received->data)))) {
                r = take_event(watch, line, (size_t)(newline - line), &f);
                line = newline + 1;
        }
        /* The lines of tokens hold secrets. */
        explicit_bzero(received->data, (size_t)(line - received->data));
        nb_buffer_consume(received, (size_t)(line - received->data));
        if (r >= 0)
                return 0;
        nb_watch_stop(watch);
        if (f.code != NB_NONE)
                fail_watch(watch, admin, &f);
        else
                try_later(watch, true);
        return r;
}

/* --- The watch --- */

/* Something on the path, such as a proxy, keeps back what the API server sends. */
static void note_stall(struct nb_watch *watch) {
        if (!watch->is_stalled)
                nb_log(LOG_WARNING, NB_NONE,
                       "%s: what the API server sends does not arrive in time; all is listed "
                       "again each minute meanwhile",
                       watch->what);
        watch->is_stalled = true;
}

/* A stream that had an event continues at once, others later each time. */
static void finish_stream(struct nb_watch *watch, struct nb_admin *admin) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        const uint64_t now_ms = nb_now_ms();
        const bool is_late = now_ms >= watch->started_ms + watch->limit_ms;
        struct nb_failure f = { 0 };
        int r = nb_http_finish(TAKE(watch->transfer), &answer, &f);

        if (r >= 0)
                nb_admin_count(admin, answer.status);
        if (watch->first_ms > 0 && watch->first_ms + BUFFERED_MS > now_ms &&
            now_ms > watch->started_ms + SETTLED_MS)
                note_stall(watch);
        if (r < 0 && is_late && nb_http_is_unanswered(f.code)) {
                note_stall(watch);
                watch->attempt = 0;
                try_later(watch, true);
                watch->due_ms = 0;
        } else if (answer.status == 200 || (watch->attempt == 0 && nb_http_is_unanswered(f.code))) {
                /* The API server ends connections when it restarts, and some versions send no
                 * bookmarks to an idle watch. The first time this is not worth a line in the
                 * journal: if the API server is away, the next attempt fails as well. */
                watch->n_restarts += r < 0;
                watch->due_ms = 0;
                if (watch->attempt++ > 0)
                        watch->due_ms = now_ms + nb_backoff_ms(watch->attempt - 2,
                                                               NB_WATCH_RETRY_FIRST_MS,
                                                               NB_WATCH_RETRY_CAP_MS, nb_random());
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
        if (nb_call_take_done(&watch->list.page, admin, done))
                return true;
        if (watch->transfer != done)
                return false;
        if (take_events(watch, admin) >= 0)
                finish_stream(watch, admin);
        return true;
}

int nb_watch_run(struct nb_watch *watch, struct nb_admin *admin, uint64_t now_ms) {
        struct nb_failure f = { 0 };
        int r = 1;

        if (watch->transfer) {
                /* No event has arrived, but a connection that could not be made would have ended.
                 */
                if (now_ms >= watch->started_ms + SETTLED_MS) {
                        nb_failure_clear(&watch->failure);
                        watch->attempt = 0;
                }
                (void)take_events(watch, admin);
                return 0;
        }
        if (nb_watch_due(watch) > now_ms)
                return 0;
        if (watch->wants_list)
                r = list_objects(watch, admin, &f);
        if (r > 0) {
                watch->started_ms = now_ms;
                if (watch->kind->is_unwatched) {
                        nb_failure_clear(&watch->failure);
                        watch->attempt = 0;
                } else
                        r = connect_watch(watch, admin, &f);
        }
        if (r >= 0)
                return 0;
        if (f.code == NB_NONE && r == -ECANCELED)
                return r;
        if (f.code == NB_NONE) /* -ESTALE */
                try_later(watch, true);
        else
                fail_watch(watch, admin, &f);
        return 0;
}

uint64_t nb_watch_due(const struct nb_watch *watch) {
        const struct nb_admin_call *page = &watch->list.page;

        if (watch->transfer || page->transfer || (watch->kind->is_unwatched && !watch->wants_list))
                return NB_TIME_INFINITE;
        return watch->list.path ? 0 : watch->due_ms;
}

bool nb_watch_is_current(const struct nb_watch *watch) {
        return watch->is_listed && !watch->wants_list && watch->failure.code == NB_NONE;
}

bool nb_watch_is_healthy(const struct nb_watch *watch, uint64_t now_ms) {
        return watch->is_listed && watch->failure.code == NB_NONE && !watch->is_stalled &&
               (!watch->wants_list || now_ms < watch->stale_ms + NB_WATCH_OLD_MS);
}

void nb_watch_list_again(struct nb_watch *watch) {
        nb_watch_stop(watch);
        want_list(watch);
}

void nb_watch_stop(struct nb_watch *watch) {
        nb_http_cancel(TAKE(watch->transfer));
        nb_list_done(&watch->list);
}
