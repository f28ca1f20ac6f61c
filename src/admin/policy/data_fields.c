/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/data_fields.h"
#include "admin/policy/secret_data.h"
#include "base/macro.h"
#include "base/text.h"

bool nb_list_next(const char **list, char ret_item[static NB_ITEM_SIZE]) {
        size_t len;

        if (!*list)
                return false;
        len = strcspn(*list, ",");
        snprintf(ret_item, NB_ITEM_SIZE, "%.*s", (int)len, *list);
        *list = (*list)[len] ? *list + len + 1 : NULL;
        return true;
}

bool nb_list_has(const char *list, const char *text) {
        char item[NB_ITEM_SIZE];

        while (nb_list_next(&list, item))
                if (strcmp(item, text) == 0)
                        return true;
        return false;
}

bool nb_data_set(const struct nb_data_field *field, const char *text, void *ret) {
        const char *list = text;
        char item[NB_ITEM_SIZE];

        if (strlen(text) >= field->size ||
            (field->is_valid && !field->is_list && !field->is_valid(text)))
                return false;
        while (field->is_list && field->is_valid && nb_list_next(&list, item))
                if (!field->is_valid(item))
                        return false;
        nb_text_copy((char *)ret + field->offset, field->size, text);
        return true;
}

static void read_field(struct nb_json *json, const struct nb_data_field *field, bool is_secret,
                       void *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(field->size - 1);
        const char *text;
        char path[64];

        snprintf(path, sizeof(path), "data.%s", field->key);
        if (is_secret)
                nb_secret_data_read(json, field->key, field->expected, &value);
        text = is_secret ? value.data : nb_json_string(json, path);
        if (is_secret && field->is_list && json->r >= 0 && !text[0])
                return; /* as if the key were missing */
        if (json->r >= 0 && (!text || !nb_data_set(field, text, ret)))
                nb_json_refuse(json, path, field->expected, text);
}

void nb_data_read(struct nb_json *json, const struct nb_data_field *fields, size_t n,
                  bool is_secret, void *ret) {
        char known[256] = "";

        for (size_t i = 0; i < n; i++)
                nb_text_list_add(known, sizeof(known), fields[i].key);
        for (const char *key = NULL; (key = nb_json_next_key(json, "data", key));) {
                size_t i = 0;

                while (i < n && strcmp(fields[i].key, key) != 0)
                        i++;
                if (i == n)
                        nb_json_refuse(json, "data", known, key);
                else
                        read_field(json, &fields[i], is_secret, ret);
        }
}
