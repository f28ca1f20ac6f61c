/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the objects of one kind, and then watches them from the version of the list on. A watch
 * that ends continues from the last version. If the API server no longer has that version (410),
 * all objects are listed again. After each failure in a row, the pause before the next attempt is
 * longer.
 *
 * Several watches and other requests share one struct nb_admin. A list waits for its pages in an
 * exchange (exchange.h), so other work goes on meanwhile. Events wait until they are read, and
 * above a limit the API server has to wait (net/http.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "admin/client/calls.h"
#include "admin/client/client.h"
#include "base/failure.h"
#include "codec/json.h"
#include "net/http.h"

#define NB_WATCH_RETRY_FIRST_MS 500
#define NB_WATCH_RETRY_CAP_MS 30000
#define NB_WATCH_WARN_MS 3600000 /* between warnings about objects that cannot be read */

/* A larger event costs a list of all objects, so the holder of a token, or a node, must not be able
 * to cause one. etcd's limit for an object is 1.5 MiB (--max-request-bytes). As JSON this is at
 * most 3.2 MiB: base64 makes a request a third larger, and each '<' of the annotations, of which
 * there can be 256 KiB, becomes 6 bytes. */
#define NB_WATCH_EVENT_MAX ((size_t)4 * 1024 * 1024)

enum nb_change {
        NB_CHANGE_LISTED, /* the object is in a list of all objects */
        NB_CHANGE_WRITTEN,
        NB_CHANGE_DELETED,
};

struct nb_watch_kind {
        const char *what;   /* for messages: "the tokens" */
        const char *path;   /* "/api/v1/...", with or without a query */
        const char *accept; /* of the watch; NULL for application/json */
        bool is_unlisted;   /* the objects are not listed: the watch begins with all of them, as if
                               they were written */
        /* `object` is a view that is valid during the call. With a failure in object->r the object
         * is ignored, and the failure is logged, at most once in NB_WATCH_WARN_MS. */
        void (*on_object)(void *userdata, struct nb_json *object, enum nb_change change);
        /* Before the first object of a list (false), and after the last one (true). A list that
         * fails in between begins again. */
        void (*on_list)(void *userdata, bool is_complete);
};

struct nb_watch {
        const struct nb_watch_kind *kind;
        void *userdata;
        struct nb_http_transfer *transfer; /* NULL: not connected */
        struct nb_call call;               /* of that transfer */
        char what[128];
        struct nb_exchange list; /* of the objects; until they are listed */
        char version[NB_RESOURCE_VERSION_SIZE];
        uint64_t due_ms; /* of the next attempt */
        uint64_t started_ms;
        uint64_t warn_ms; /* no warning until then */
        unsigned attempt;
        bool is_listed; /* at least once */
        bool wants_list;
        uint64_t n_restarts;       /* failures so far */
        struct nb_failure failure; /* of the last attempt; NB_NONE if it succeeded */
};

#define NB_WATCH_INIT(watch_kind, data) \
        { .kind = (watch_kind), .userdata = (data), .wants_list = true }

/* Lists and connects if that is due, and passes on what has arrived. 0; -ECANCELED if a stop was
 * requested. A failure is logged here once, and tried again. */
int nb_watch_run(struct nb_watch *watch, struct nb_admin *admin, uint64_t now_ms);

/* For a transfer that nb_http_wait() returned as done. False if it is not of this watch. */
bool nb_watch_take_done(struct nb_watch *watch, struct nb_admin *admin,
                        const struct nb_http_transfer *done);

/* When nb_watch_run() has something to do without an event; NB_TIME_INFINITE while connected. */
uint64_t nb_watch_due(const struct nb_watch *watch);

/* Disconnects; the next nb_watch_run() continues. */
void nb_watch_stop(struct nb_watch *watch);
