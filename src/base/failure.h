/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Why something failed: one struct on main's stack.
 *
 * The first function that understands the failure fills it. Its callers pass the negative errno up
 * and do not change the struct, so that it holds the first cause. Nothing is allocated. The
 * constant properties of a code (class, exit status, MESSAGE_ID, texts) are a row of failures.def,
 * from which failure-codes.h and the table are generated.
 */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/failure-codes.h"

#define NB_FAILURE_DETAIL_MAX 512

enum nb_class {
        NB_CLASS_WAIT,    /* retried until the deadline */
        NB_CLASS_CONFIRM, /* retried for a limited time, since a race can cause it */
        NB_CLASS_FATAL,   /* fails at once */
        NB_CLASS_EVENT,   /* not a failure, but has a MESSAGE_ID */
};

#define NB_COMMAND_PREFIX "    "

struct nb_failure_info {
        const char *slug;
        const char *message_id; /* 32 hex digits */
        int exit_status;
        enum nb_class class;
        const char *subject; /* one line */
        const char *remedy;  /* what to do next: lines of prose, and of commands, which begin with
                                NB_COMMAND_PREFIX. It may contain @FIELD@ for a field of the
                                journal entry */
        const char *remedy_k3s; /* replaces `remedy` with k3s and RKE2; NULL: none */
};

struct nb_failure {
        enum nb_code code;       /* a row of failures.def; NB_NONE while nothing failed */
        int errnum;              /* positive errno, 0 when none applies */
        long http_status;        /* 0 when no answer arrived */
        uint32_t retry_after_ms; /* from the server's Retry-After; 0 if there is none */
        bool is_unverified;      /* caused by an unverified peer */
        bool is_startup;         /* a supervisor may answer so only while it starts */
        bool is_temporary;       /* a device of this machine may only be busy */
        bool is_cut_short; /* the deadline ended the attempt, so an earlier failure says more */
        char detail[NB_FAILURE_DETAIL_MAX]; /* one sentence; no secret, no newline */
};

const struct nb_failure_info *nb_failure_info(enum nb_code code);

/*
 * The class of the code, or NB_CLASS_WAIT if an unverified peer caused the failure: an attacker on
 * the network can forge such an answer, so it must not end the join. Likewise if the peer may only
 * be starting: every machine that joins at that time would give up. The same holds if a device is
 * busy.
 */
enum nb_class nb_failure_class(const struct nb_failure *f);

/* "wait", "confirm", "fatal", "event". */
const char *nb_class_name(enum nb_class class);

/* Finds a code by its name; NB_NONE if there is none. */
enum nb_code nb_failure_find(const char *slug);

/* `errnum` may have either sign, so that it can be the result of a function; "%m" in the format is
 * its text. ENOMEM makes any code NB_INTERNAL, "memory ran out"; ENOSPC and EDQUOT make any
 * code NB_DISK_FULL. Returns -errnum, or -EPROTO if
 * `errnum` is 0. A struct that already holds a code keeps that code. Control characters and invalid
 * UTF-8 in format arguments are replaced by '?'. */
int nb_failure_set(struct nb_failure *f, enum nb_code code, int errnum, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* Like nb_failure_set(), for an answer with an HTTP status. */
int nb_failure_set_http(struct nb_failure *f, enum nb_code code, long http_status,
                        const char *format, ...) __attribute__((format(printf, 4, 5)));

int nb_failure_set_memory(struct nb_failure *f);

/* Appends to the detail. If there is not enough room, cuts the end of the existing text, which is
 * usually quoted from the server's answer. */
void nb_failure_add(struct nb_failure *f, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

void nb_failure_clear(struct nb_failure *f);
