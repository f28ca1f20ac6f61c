/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/object.h"

/* From forbiddenMessage() of k8s.io/apiserver (responsewriters/errors.go): no member of a Status
 * has the user. Go quotes the name, so a backslash escapes the next character. */
#define BEFORE_USER "User \""

#define STATUS_MAX (256 * 1024)

void nb_object_verify_type(struct nb_json *json, const struct nb_object_type *type) {
        nb_json_expect(json, "kind", type->kind);
        if (type->api_version)
                nb_json_expect(json, "apiVersion", type->api_version);
}

struct nb_json nb_object_parse(const char *text, size_t len, const struct nb_object_type *type,
                               struct nb_failure *f) {
        struct nb_json json = { 0 };

        if (len > type->max) {
                json.r = nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                        "%s: expected at most %zu bytes, found %zu", type->what,
                                        type->max, len);
                return json;
        }
        json = nb_json_parse(text, len, type->what, NB_ANSWER_MALFORMED, f);
        if (type->kind)
                nb_object_verify_type(&json, type);
        return json;
}

void nb_status_read(struct nb_json *json, struct nb_status *ret_status) {
        struct nb_status status = { 0 };

        nb_json_expect(json, "kind", "Status");
        status.code = nb_json_integer(json, "code");
        nb_json_line(json, "reason", status.reason, sizeof(status.reason));
        nb_json_line(json, "message", status.message, sizeof(status.message));
        if (json->r >= 0)
                *ret_status = status;
}

struct nb_status nb_status_parse(const char *text, size_t len) {
        static const struct nb_object_type type = { .what = "answer", .max = STATUS_MAX };
        struct nb_status status = { 0 };
        struct nb_failure ignored = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, &ignored);

        nb_status_read(&json, &status);
        return status;
}

void nb_status_user(const struct nb_status *status, char *ret, size_t size) {
        const char *from = strstr(status->message, BEFORE_USER), *to;

        ret[0] = '\0';
        if (!from)
                return;
        from += strlen(BEFORE_USER);
        for (to = from; *to && *to != '"'; to++)
                if (*to == '\\' && to[1])
                        to++;
        if (*to == '"')
                nb_text_copy_line(from, (size_t)(to - from), ret, size);
}
