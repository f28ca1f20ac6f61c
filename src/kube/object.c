/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube/object.h"

#define STATUS_MAX (256 * 1024)

int nb_object_verify_type(const struct nb_json *json, const struct nb_object_type *type,
                          struct nb_failure *f) {
        int r;

        r = nb_json_expect(json, "kind", type->kind, f);
        if (r < 0 || !type->api_version)
                return r;
        return nb_json_expect(json, "apiVersion", type->api_version, f);
}

int nb_object_parse(const char *text, size_t len, const struct nb_object_type *type,
                    struct nb_json *ret_json, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r;

        if (len > type->max)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "%s: expected at most %zu bytes, found %zu", type->what,
                                      type->max, len);
        r = nb_json_parse(text, len, type->what, NB_ANSWER_MALFORMED, &json, f);
        if (r >= 0 && type->kind)
                r = nb_object_verify_type(&json, type, f);
        if (r < 0)
                return r;
        *ret_json = TAKE(json);
        return 0;
}

int nb_status_read(const struct nb_json *json, struct nb_status *ret_status, struct nb_failure *f) {
        struct nb_status status = { 0 };
        int r;

        r = nb_json_expect(json, "kind", "Status", f);
        if (r < 0)
                return r;
        r = nb_json_integer(json, "code", &status.code, f);
        if (r < 0)
                return r;
        r = nb_json_line(json, "reason", status.reason, sizeof(status.reason), f);
        if (r < 0)
                return r;
        r = nb_json_line(json, "message", status.message, sizeof(status.message), f);
        if (r < 0)
                return r;
        *ret_status = status;
        return 0;
}

int nb_status_parse(const char *text, size_t len, struct nb_status *ret_status) {
        static const struct nb_object_type type = { .what = "answer", .max = STATUS_MAX };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        int r;

        *ret_status = (struct nb_status){ 0 };
        r = nb_object_parse(text, len, &type, &json, &ignored);
        if (r >= 0)
                r = nb_status_read(&json, ret_status, &ignored);
        return r == -ENOMEM ? r : 0;
}

/* The name is quoted by Go, so a backslash escapes the next character. */
void nb_status_user(const struct nb_status *status, char *ret, size_t size) {
        static const char before[] = "User \"";
        const char *from = strstr(status->message, before), *to;

        ret[0] = '\0';
        if (!from)
                return;
        from += strlen(before);
        for (to = from; *to && *to != '"'; to++)
                if (*to == '\\' && to[1])
                        to++;
        if (*to == '"')
                nb_text_copy_line(from, (size_t)(to - from), ret, size);
}
