/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "admin/policy/rfc3339.h"
#include "base/text.h"

/* Whether the text begins with this form, in which 0 is any digit: strptime(3) is lenient. */
static bool has_form(const char *text, const char *form) {
        while (*form && (*form == '0' ? isdigit((unsigned char)*text) : *text == *form)) {
                text++;
                form++;
        }
        return !*form;
}

int nb_rfc3339_parse(const char *text, time_t *ret) {
        static const char form[] = "0000-00-00T00:00:00";
        struct tm tm = { 0 }, normalized;
        const char *zone;
        long offset;
        time_t when;
        size_t n;

        if (!has_form(text, form) || !strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) || tm.tm_sec > 59)
                return -EINVAL;
        zone = text + strlen(form);
        if (*zone == '.') {
                n = strspn(zone + 1, NB_DIGITS);
                if (n == 0)
                        return -EINVAL;
                zone += 1 + n;
        }
        if (strcmp(zone, "Z") != 0 &&
            ((!has_form(zone, "+00:00") && !has_form(zone, "-00:00")) || zone[strlen("+00:00")] ||
             strncmp(zone + 1, "24", 2) >= 0 || !strptime(zone, "%z", &tm)))
                return -EINVAL;
        offset = tm.tm_gmtoff;
        normalized = tm;
        when = timegm(&normalized);
        if (normalized.tm_mday != tm.tm_mday) /* such as 30 February */
                return -EINVAL;
        *ret = when - offset;
        return 0;
}
