/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lists the objects of one kind, and then watches them from the version of the list on. A watch
 * that ends continues from the last version. If the API server no longer has that version (410), if
 * the server does not end the watch when it should, or if an object cannot be read, all objects are
 * listed again. After each failure in a row, the pause before the next attempt is longer.
 *
 * Call nb_watch_is_current() before a decision that relies on the absence of an object, such as
 * another request with the same token that was approved. For this reason, an object that cannot be
 * read is never passed over.
 *
 * Several watches and other requests share one struct nb_admin. Events wait until they are read,
 * and above a limit the API server has to wait (http/http.h).
 */

#include <stdbool.h>
#include <stdint.h>

#include "admin/client/calls.h"
#include "admin/client/client.h"
#include "base/failure.h"
#include "codec/json.h"
#include "http/http.h"

#define NB_WATCH_RETRY_FIRST_MS 500
#define NB_WATCH_RETRY_CAP_MS 30000
/* The API server ends a watch after a random time between these, and sends a bookmark before. The
 * end comes too late if something on the path keeps it back, and then nothing is known of the
 * events of that time. */
#define NB_WATCH_TIMEOUT_MIN_SEC 30
#define NB_WATCH_TIMEOUT_MAX_SEC 60
#define NB_WATCH_LATE_SEC 10

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
        bool is_unwatched;  /* they are only listed, once for each nb_watch_list_again() */
        bool is_partial; /* an object that cannot be read is passed to on_object() without root */
        /* `object` is a view that is valid during the call. A failure in object->r is one of the
         * watch. */
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
        struct nb_list list; /* of the objects; until they are listed */
        char version[NB_RESOURCE_VERSION_SIZE];
        uint64_t due_ms;               /* of the next attempt */
        uint64_t started_ms, first_ms; /* the connection; its first data */
        uint32_t limit_ms;             /* of the connection */
        unsigned attempt;
        bool is_listed; /* at least once */
        bool wants_list;
        uint64_t stale_ms;         /* since when it has wanted a list */
        bool is_stalled;           /* nothing arrived in time; until something does */
        uint64_t n_restarts;       /* failures so far */
        struct nb_failure failure; /* of the last attempt; NB_NONE if it succeeded */
};

#define NB_WATCH_INIT(watch_kind, data) \
        { .kind = (watch_kind), .userdata = (data), .wants_list = !(watch_kind)->is_unwatched }

/* Lists and connects if that is due, and passes on what has arrived. 0; -ECANCELED if a stop was
 * requested. A failure is logged here once, and tried again. */
int nb_watch_run(struct nb_watch *watch, struct nb_admin *admin, uint64_t now_ms);

/* For a transfer that nb_http_wait() returned as done. False if it is not of this watch. */
bool nb_watch_take_done(struct nb_watch *watch, struct nb_admin *admin,
                        const struct nb_http_transfer *done);

/* When nb_watch_run() has something to do without an event; NB_TIME_INFINITE: when one arrives. */
uint64_t nb_watch_due(const struct nb_watch *watch);

/* Whether the objects are known as they are now, but for events that have not arrived. */
bool nb_watch_is_current(const struct nb_watch *watch);

/* Whether events arrive as they should, and what is known is not old. */
#define NB_WATCH_OLD_MS 30000 /* until a list that replaces a watch has to be complete */
bool nb_watch_is_healthy(const struct nb_watch *watch, uint64_t now_ms);

/* Disconnects, and lists all objects again at the next nb_watch_run(). */
void nb_watch_list_again(struct nb_watch *watch);

/* Disconnects; the next nb_watch_run() continues. */
void nb_watch_stop(struct nb_watch *watch);
