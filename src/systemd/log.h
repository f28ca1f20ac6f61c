/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Logging. If stderr or stdout is connected to the journal, entries are sent with its native
 * protocol, with MESSAGE_ID and the current fields. If stderr is not connected to it, each message
 * is also printed there as a line, so that a unit with StandardError=tty writes each message once
 * to the journal and once to the terminal. Never pass a secret to these functions. */

#include <stdio.h>
#include <syslog.h>
#include <time.h>

#include "base/failure.h"

enum nb_field {
        NB_FIELD_STAGE,
        NB_FIELD_ATTEMPT,
        NB_FIELD_ENDPOINT,
        NB_FIELD_CSR,
        NB_FIELD_NODE,
        NB_FIELD_TOKEN_ID,
        NB_FIELD_TOKEN_SOURCE,
        NB_FIELD_HTTP_STATUS,
        NB_FIELD_REASON,
        NB_FIELD_USER,
        NB_FIELD_CLUSTER, /* "k3s", if the join method is for k3s or RKE2 */
        NB_FIELD_CA_SHA256,
        NB_FIELD_DURATION_USEC,
        NB_FIELD_AGE_USEC,
        NB_FIELD_RESOLVE_USEC,
        NB_FIELD_TCP_USEC,
        NB_FIELD_TLS_USEC,
        _NB_FIELD_N,
};

#define NB_FIELD_SIZE 256

/* Detects the journal with $JOURNAL_STREAM. With it, exit() waits until journald has read all
 * entries. `identifier` is the SYSLOG_IDENTIFIER of all entries and the prefix of each line on
 * stderr. */
void nb_log_init(const char *identifier);

/* For a program that keeps running: each line on stderr begins with the time and the level, as in
 * "2026-01-02T15:04:05Z warning". What is on a terminal is for a person, and begins without. */
void nb_log_stamp(void);

/* For a child that ends without exit(3), which waits for journald: prints to stderr from now on. */
void nb_log_forget_journal(void);

/* Disables log entries and status messages from now on, for a command that has its own output.
 * Fields are still set. */
void nb_log_mute(void);

/* Sets a NODE_BOOTSTRAP_ field for all later entries; an empty value or NULL removes it. Cut to 255
 * bytes. */
void nb_log_field(enum nb_field field, const char *format, ...)
        __attribute__((format(printf, 2, 3)));

/* "" if it is not set. */
const char *nb_field_value(enum nb_field field);

/* All later entries also appear in `systemctl status` of this unit, if root sends them. */
void nb_log_object_unit(const char *unit);

/* The name of the field in the journal without NODE_BOOTSTRAP_, such as "STAGE". */
const char *nb_field_name(enum nb_field field);

/* Logs an entry with the MESSAGE_ID of `code`, or without one for NB_NONE. LOG_DEBUG entries are
 * sent to the journal only. */
void nb_log(int priority, enum nb_code code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* Logs an entry for a failure: its detail, NODE_BOOTSTRAP_CODE, ERRNO and
 * NODE_BOOTSTRAP_HTTP_STATUS in addition to the fields. On stderr, the line begins with the slug,
 * and the next lines have the remedy. */
void nb_log_failure(int priority, const struct nb_failure *f);

/* Prints a text of struct nb_failure_info with the values of the fields, each line after `indent`
 * blanks. Prose is wrapped to `columns`, indentation included (0: not at all); a command never. */
void nb_log_print_text(FILE *stream, const char *text, size_t indent, size_t columns);

/* Prints the remedy for the kind of cluster in NB_FIELD_CLUSTER, as nb_log_print_text() does. */
void nb_log_print_remedy(FILE *stream, enum nb_code code, size_t indent, size_t columns);

/* If install runs this program, it sets the variable; status texts are then sent to this
 * descriptor, one datagram each, instead of to systemd. After the text of a failure, lines of this
 * datagram begin with these names, or with those of fields, and "=". */
#define NB_STATUS_CODE "CODE"
#define NB_STATUS_DETAIL "DETAIL"
#define NB_STATUS_SINCE "SINCE"
#define NB_STATUS_MAX 8192
#define NB_STATUS_FD 3
#define NB_STATUS_VARIABLE "NODE_BOOTSTRAP_STATUS"

/* As sd_notify(3), for the service that runs this process: such as "READY=1". */
void nb_notify(const char *state);

/* Sends STATUS= with nb_notify(). install also learns of the failure that the status is about
 * (NULL: none), since when it has lasted (0: it has just happened), and the fields. */
void nb_log_status_of(const struct nb_failure *f, time_t since, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
#define nb_log_status(...) nb_log_status_of(NULL, 0, __VA_ARGS__)

/* journald finds the unit of an entry in /proc when it reads the entry, so `journalctl -u` does not
 * show entries of a process that has exited by then. sd-journal(3) cannot wait for journald. */

#define NB_JOURNAL_SOCKET "/run/systemd/journal/socket"
#define NB_JOURNAL_DRAIN_MAX_MS 1000

/* Waits until journald has read everything that was sent to the socket `path`, for at most
 * NB_JOURNAL_DRAIN_MAX_MS. */
void nb_journal_drain(const char *path);
