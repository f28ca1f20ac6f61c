/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the journal gets. When stderr or stdout is the journal's stream, entries go there by its native protocol with MESSAGE_ID
 * and the fields set so far; when stderr is not, one line goes there: so a unit with StandardError=tty has both, and each once. No
 * secret is ever passed in here.
 */

#include <stdio.h>
#include <syslog.h>

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
        NB_FIELD_CA_SHA256,
        NB_FIELD_DURATION_USEC,
        NB_FIELD_AGE_USEC,
        NB_FIELD_RESOLVE_USEC,
        NB_FIELD_TCP_USEC,
        NB_FIELD_TLS_USEC,
        _NB_FIELD_N,
};

/* Looks at $JOURNAL_STREAM. Where that is the journal, exit() waits until it has what was logged; a terminal beside it never holds us up. `identifier` is
 * the SYSLOG_IDENTIFIER of all entries, and stands before each line on stderr. */
void nb_log_init(const char *identifier);

/* From here on nothing is logged and nobody is told a status: for who says what was found in its own way. Fields are still set. */
void nb_log_mute(void);

/* Sets a NODE_BOOTSTRAP_ field for all entries that follow; an empty or NULL value takes it away. Longer than 255
 * bytes: cut. */
void nb_log_field(enum nb_field field, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What stands behind NODE_BOOTSTRAP_ in the journal: "STAGE". */
const char *nb_field_name(enum nb_field field);

/* An entry with the MESSAGE_ID of `code`; NB_NONE for one without. LOG_DEBUG entries go to the journal only. */
void nb_log(int priority, enum nb_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* An entry for a failure: "<detail>", NODE_BOOTSTRAP_ERROR, ERRNO and NODE_BOOTSTRAP_HTTP_STATUS beside the fields.
 * On stderr the slug stands before it and the remedy on a line below. */
void nb_log_failure(int priority, const struct nb_failure *f);

/* The same without the remedy: for a sentence that has all of it. */
void nb_log_failure_alone(int priority, const struct nb_failure *f);

/* What to look at next: one line, with the values of fields in it. */
void nb_log_print_remedy(FILE *stream, enum nb_code code);

/* sd_notify STATUS=, and the line of base/terminal.h where there is one. */
void nb_log_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
