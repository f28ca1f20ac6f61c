/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why something failed, as one struct that lives on main's stack.
 *
 * The first function that understands a failure fills it; those above pass the negative errno up and leave the
 * struct alone: the first cause wins. Nothing is allocated. What is constant about a code (class, exit status,
 * MESSAGE_ID, texts) is a row of failures.def, from which failure-codes.h and the table are generated.
 */

#include <stdarg.h>
#include <stdint.h>

#include "base/failure-codes.h"

#define NB_FAILURE_DETAIL_MAX 512

enum nb_class {
        NB_CLASS_WAIT,    /* retried until the deadline */
        NB_CLASS_CONFIRM, /* retried for 30 s, since a race can cause it */
        NB_CLASS_FATAL,   /* fails at once */
        NB_CLASS_EVENT,   /* no failure: something worth a MESSAGE_ID happened */
};

struct nb_failure_info {
        const char *slug;
        const char *message_id; /* 32 hex digits */
        int exit_status;
        enum nb_class class;
        const char *subject;   /* one line */
        const char *what;      /* what happened */
        const char *unchanged; /* what of this machine is as it was */
        const char *remedy;    /* what to look at next; as the other two with @FIELD@ for a field of the journal's entry */
};

struct nb_failure {
        enum nb_code code;                  /* a row of failures.def; NB_NONE while nothing failed */
        int errnum;                         /* positive errno, 0 when none applies */
        long http_status;                   /* 0 when no answer arrived */
        uint32_t retry_after_ms;            /* what the server asked for; 0 when nothing */
        char detail[NB_FAILURE_DETAIL_MAX]; /* one sentence; no secret, no newline */
};

const struct nb_failure_info *nb_failure_info(enum nb_code code);

/* "wait", "confirm", "fatal", "event". */
const char *nb_class_name(enum nb_class class);

/* The row of this name; NB_NONE when there is none. */
enum nb_code nb_failure_find(const char *slug);

/* Returns -errnum, or -EPROTO when errnum is 0. A struct that holds a code already keeps it. Control characters
 * and invalid UTF-8 that a format argument brings in are replaced by '?'. */
int nb_failure_set(struct nb_failure *f, enum nb_code code, int errnum, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* As nb_failure_set(), for an answer that arrived with an HTTP status. */
int nb_failure_set_http(struct nb_failure *f, enum nb_code code, long http_status, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

int nb_failure_set_memory(struct nb_failure *f);

/* More about the same failure, at the end of its sentence: what those further up know. Where there is no room, the words before it are cut, which
 * are those of a server as a rule. */
void nb_failure_add(struct nb_failure *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

void nb_failure_clear(struct nb_failure *f);
