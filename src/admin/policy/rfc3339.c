/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/policy/rfc3339.h"
#include "base/macro.h"

/* Reads exactly `n` digits and returns their number; -1 if there are fewer. */
static int read_digits(const char **text, unsigned n) {
        int value = 0;

        for (unsigned i = 0; i < n; i++, (*text)++) {
                if (**text < '0' || **text > '9')
                        return -1;
                value = value * 10 + (**text - '0');
        }
        return value;
}

/* Reads the parts of a time, each with its digits and the character that follows it. */
static int read_fields(const char **text, struct tm *ret) {
        const struct {
                unsigned n_digits;
                char after;
                int min, max;
                int *ret;
        } fields[] = {
                { 4, '-', 0, 9999, &ret->tm_year }, { 2, '-', 1, 12, &ret->tm_mon },
                { 2, 'T', 1, 31, &ret->tm_mday },   { 2, ':', 0, 23, &ret->tm_hour },
                { 2, ':', 0, 59, &ret->tm_min },    { 2, '\0', 0, 59, &ret->tm_sec },
        };

        for (size_t i = 0; i < N_ELEMENTS(fields); i++) {
                int value = read_digits(text, fields[i].n_digits);

                if (value < fields[i].min || value > fields[i].max ||
                    (fields[i].after && *(*text)++ != fields[i].after))
                        return -EINVAL;
                *fields[i].ret = value;
        }
        return 0;
}

/* Reads "Z" or an offset such as "+02:00" at the end of the text. */
static int read_offset(const char *text, int *ret_seconds) {
        int sign = *text == '-' ? -1 : 1, hours, minutes;

        *ret_seconds = 0;
        if (strcmp(text, "Z") == 0)
                return 0;
        if (*text != '+' && *text != '-')
                return -EINVAL;
        text++;
        hours = read_digits(&text, 2);
        if (hours < 0 || hours > 23 || *text++ != ':')
                return -EINVAL;
        minutes = read_digits(&text, 2);
        if (minutes < 0 || minutes > 59 || *text)
                return -EINVAL;
        *ret_seconds = sign * (hours * 60 + minutes) * 60;
        return 0;
}

int nb_rfc3339_parse(const char *text, time_t *ret) {
        struct tm tm = { 0 }, normalized;
        int offset, r;
        time_t when;

        r = read_fields(&text, &tm);
        if (r < 0)
                return r;
        if (*text == '.') {
                text++;
                if (read_digits(&text, 1) < 0)
                        return -EINVAL;
                text += strspn(text, "0123456789");
        }
        r = read_offset(text, &offset);
        if (r < 0)
                return r;
        tm.tm_year -= 1900;
        tm.tm_mon--;
        normalized = tm;
        when = timegm(&normalized);
        if (normalized.tm_mday != tm.tm_mday) /* such as 30 February */
                return -EINVAL;
        *ret = when - offset;
        return 0;
}
