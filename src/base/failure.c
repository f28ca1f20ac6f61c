/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/text.h"

#define CUT "..."

static const struct nb_failure_info table[_NB_CODE_N] = {
        [NB_NONE] = { "none", "", 0, NB_CLASS_EVENT, "", "" },
#include "base/failure-table.h"
};

/* Defined only in node-bootstrap-admin, so that nodes do not carry its texts. */
extern const struct nb_failure_info nb_admin_failures[] __attribute__((weak));

const struct nb_failure_info *nb_failure_info(enum nb_code code) {
        assert((unsigned)code < _NB_CODE_ADMIN_N);
        return code < _NB_CODE_N ? &table[code] : &nb_admin_failures[code - _NB_CODE_N];
}

enum nb_class nb_failure_class(const struct nb_failure *f) {
        return f->is_unverified || f->is_startup || f->is_temporary
                       ? NB_CLASS_WAIT
                       : nb_failure_info(f->code)->class;
}

const char *nb_class_name(enum nb_class class) {
        static const char *const names[] = {
                [NB_CLASS_WAIT] = "wait",
                [NB_CLASS_CONFIRM] = "confirm",
                [NB_CLASS_FATAL] = "fatal",
                [NB_CLASS_EVENT] = "event",
        };

        return names[class];
}

enum nb_code nb_failure_find(const char *slug) {
        for (unsigned i = NB_NONE + 1; i < _NB_CODE_N; i++)
                if (strcmp(table[i].slug, slug) == 0)
                        return (enum nb_code)i;
        return NB_NONE;
}

/* Text from another party is shown on terminals, so it must not contain control sequences or
 * invalid UTF-8. */
static void make_printable(char *text) {
        size_t len = strlen(text);

        for (size_t i = 0; i < len;) {
                uint32_t code_point;
                size_t n = nb_utf8_decode(text + i, len - i, &code_point), step = n > 0 ? n : 1;

                if (n == 0 || nb_code_point_is_control(code_point))
                        memset(text + i, '?', step);
                i += step;
        }
}

__attribute__((format(printf, 5, 0))) static int failure_set(struct nb_failure *f,
                                                             enum nb_code code, int errnum,
                                                             long http_status, const char *format,
                                                             va_list arguments) {
        assert(code > NB_NONE && code < _NB_CODE_ADMIN_N);

        errnum = abs(errnum);
        if (f->code == NB_NONE) {
                /* A lack of memory is not a failure of the object in the message; a lack of space
                 * has the same remedy whatever is written. */
                f->code = errnum == ENOMEM                       ? NB_INTERNAL
                          : errnum == ENOSPC || errnum == EDQUOT ? NB_DISK_FULL
                                                                 : code;
                f->errnum = errnum;
                if (errnum > 0)
                        errno = errnum;
                f->http_status = http_status;
                if (errnum == ENOMEM)
                        snprintf(f->detail, sizeof(f->detail), "memory ran out");
                else
                        vsnprintf(f->detail, sizeof(f->detail), format, arguments);
                make_printable(f->detail);
        }
        return errnum > 0 ? -errnum : -EPROTO;
}

int nb_failure_set(struct nb_failure *f, enum nb_code code, int errnum, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = failure_set(f, code, errnum, 0, format, arguments);
        va_end(arguments);
        return r;
}

void nb_failure_add(struct nb_failure *f, const char *format, ...) {
        char more[NB_FAILURE_DETAIL_MAX / 2];
        va_list arguments;
        size_t room;

        va_start(arguments, format);
        vsnprintf(more, sizeof(more), format, arguments);
        va_end(arguments);
        room = sizeof(f->detail) - 1 - strlen(more);
        if (strlen(f->detail) > room)
                memcpy(f->detail + room - strlen(CUT), CUT, sizeof(CUT));
        memcpy(f->detail + strlen(f->detail), more, strlen(more) + 1);
        make_printable(f->detail);
}

int nb_failure_set_http(struct nb_failure *f, enum nb_code code, long http_status,
                        const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = failure_set(f, code, 0, http_status, format, arguments);
        va_end(arguments);
        return r;
}

int nb_failure_set_memory(struct nb_failure *f) {
        return nb_failure_set(f, NB_INTERNAL, ENOMEM, "memory ran out");
}

void nb_failure_clear(struct nb_failure *f) {
        *f = (struct nb_failure){ 0 };
}
