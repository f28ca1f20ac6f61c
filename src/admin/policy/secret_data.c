/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/secret_data.h"
#include "base/encoding.h"

#define VALUE_MAX ((size_t)64 * 1024)

void nb_secret_begin(struct nb_json_writer *writer, const char *name) {
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "apiVersion", "v1");
        nb_json_put_string(writer, "kind", "Secret");
        nb_json_open(writer, "metadata", '{');
        nb_json_put_string(writer, "name", name);
        nb_json_put_string(writer, "namespace", "kube-system");
}

int nb_secret_data_decode(struct nb_json *json, const char *key, struct nb_buffer *ret) {
        char path[64];
        const char *text;

        snprintf(path, sizeof(path), "data.%s", key);
        text = nb_json_string(json, path);
        nb_buffer_append_string(ret, "");
        return text ? nb_base64_decode(text, strlen(text), ret) : ret->error;
}

void nb_secret_data_read(struct nb_json *json, const char *key, const char *expected,
                         struct nb_buffer *ret) {
        int r = nb_secret_data_decode(json, key, ret);

        if (json->r < 0)
                return;
        if (r == -ENOMEM)
                json->r = nb_failure_set_memory(json->f);
        else if (r < 0 || strlen(ret->data) != ret->len)
                json->r = nb_failure_set(json->f, json->code, 0,
                                         "%s: data.%s: expected base64 of %s, found another value, "
                                         "which is not quoted, since it may be a secret",
                                         json->what, key, expected);
}

void nb_secret_data_put(struct nb_json_writer *writer, const char *key, const char *value) {
        struct nb_buffer encoded = NB_BUFFER_INIT(VALUE_MAX);

        if (!value[0])
                return;
        nb_base64_encode(value, strlen(value), &encoded);
        if (encoded.error < 0)
                writer->buffer->error = encoded.error;
        else
                nb_json_put_string(writer, key, encoded.data);
        nb_buffer_wipe(&encoded);
}
