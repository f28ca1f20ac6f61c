/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/json.h"
#include "format/k3s_token.h"
#include "format/mime.h"
#include "format/user_data_forms.h"

#define CREDENTIALS "systemd.credentials"
#define PREFIX "node-bootstrap."
#define TOKEN_MAX 4096 /* bytes, as of the credential */

/* The list of credentials that is being read. */
struct reading {
        const char *where;
        struct nb_json list; /* for the getters: its root is the list */
        struct nb_user_data *user_data;
        struct nb_failure *f;
        bool has_any;
};

/* Where one of them goes; NULL for a name that is not taken. */
static struct nb_secret *place_of(struct reading *reading, const char *name, size_t *ret_max) {
        *ret_max = TOKEN_MAX;
        if (strcmp(name, PREFIX "token") == 0)
                return &reading->user_data->token;
        if (strcmp(name, PREFIX "tls-bootstrap-token") == 0)
                return &reading->user_data->tls_bootstrap_token;
        *ret_max = NB_USER_DATA_TEXT_MAX;
        return strcmp(name, PREFIX "config") == 0 ? &reading->user_data->document : NULL;
}

static int refuse(const struct reading *reading, size_t i, const char *sentence) {
        return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL, "%s: " CREDENTIALS "[%zu]: %s", reading->where, i, sentence);
}

/* One member of an entry: 1, 0 when it is not there. */
static int get(const struct reading *reading, size_t i, const char *key, const char **ret, size_t *ret_len) {
        char path[64];

        (void)snprintf(path, sizeof(path), "[%zu].%s", i, key);
        return nb_json_string(&reading->list, path, ret, ret_len, reading->f);
}

static int decode(const struct reading *reading, size_t i, const char *text, const char *data, size_t len, struct nb_secret *ret) {
        int r = text ? nb_user_data_copy(text, len, ret) : nb_mime_decode_base64(data, len, ret);

        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        return r < 0 ? refuse(reading, i, "data: expected base64, found something else") : 0;
}

static int take_value(const struct reading *reading, size_t i, struct nb_secret *place, size_t max) {
        const char *text = NULL, *data = NULL, *encrypted = NULL;
        size_t len = 0, ignored;
        int has_text, has_data, has_encrypted;

        has_encrypted = get(reading, i, "encrypted", &encrypted, &ignored);
        if (has_encrypted < 0)
                return has_encrypted;
        if (has_encrypted)
                return refuse(reading, i, "expected text or data, found an encrypted one; only the import of user data in systemd 261 and newer takes these");
        has_text = get(reading, i, "text", &text, &len);
        if (has_text < 0)
                return has_text;
        has_data = get(reading, i, "data", &data, has_text ? &ignored : &len);
        if (has_data < 0)
                return has_data;
        if (has_text + has_data != 1)
                return refuse(reading, i, has_text ? "expected text or data, found both" : "expected text or data, found neither");
        if (place->data)
                return refuse(reading, i, "expected each name once, found it twice");
        if (len > (has_text ? max : max / 3 * 4 + max / 16))
                return refuse(reading, i, "found more than a credential may have");
        return decode(reading, i, text, data, len, place);
}

static int take_entry(struct reading *reading, size_t i) {
        struct nb_secret *place;
        const char *name;
        size_t len, max;
        char line[64];
        int r;

        r = get(reading, i, "name", &name, &len);
        if (r < 0)
                return r;
        /* Those of other programs are none of ours. */
        if (r == 0 || strncmp(name, PREFIX, strlen(PREFIX)) != 0)
                return 0;
        place = place_of(reading, name, &max);
        if (!place) {
                nb_text_copy_line(name, len, line, sizeof(line));
                return nb_failure_set(reading->f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s: " CREDENTIALS "[%zu]: expected " PREFIX "token, .tls-bootstrap-token or .config, found '%s'; only the import of user data in systemd 261 "
                                      "and newer takes others",
                                      reading->where, i, nb_any_token_may_stand_in(line) ? "(a token)" : line);
        }
        r = take_value(reading, i, place, max);
        if (r < 0)
                return r;
        reading->has_any = true;
        return 0;
}

static int take_credentials(const char *where, struct json_object *list, struct nb_user_data *user_data, const char **ret_what, struct nb_failure *f) {
        char what[NB_USER_DATA_WHERE_SIZE + sizeof(CREDENTIALS)];
        struct reading reading = { .where = where, .list = { list, what, NB_METADATA_MALFORMED }, .user_data = user_data, .f = f };
        int r = 0;

        if (!json_object_is_type(list, json_type_array))
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL, "%s: " CREDENTIALS ": expected a list, found something else", where);
        (void)snprintf(what, sizeof(what), "%.*s: " CREDENTIALS, NB_USER_DATA_WHERE_SIZE - 3, where);
        for (size_t i = 0; i < json_object_array_length(list) && r >= 0; i++)
                r = take_entry(&reading, i);
        *ret_what = "credentials of other programs, in JSON";
        return r < 0 ? r : (reading.has_any ? NB_USER_DATA_CREDENTIALS : NB_USER_DATA_NOTHING);
}

static bool is_string(struct json_object *root, const char *key, const char *prefix) {
        struct json_object *value = json_object_object_get(root, key);

        return json_object_is_type(value, json_type_string) && strncmp(json_object_get_string(value), prefix, strlen(prefix)) == 0;
}

static bool is_document(struct json_object *root) {
        return is_string(root, "apiVersion", "node-bootstrap/") || is_string(root, "kind", "NodeBootstrap") || is_string(root, "kind", "JoinConfiguration");
}

int nb_user_data_take_json(const char *where, const char *data, size_t len, struct nb_user_data *user_data, const char **ret_what,
                           struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct json_object *credentials;
        struct nb_failure ignored = { 0 };
        bool is_meant = nb_user_data_mentions(data, len, CREDENTIALS) && nb_user_data_mentions(data, len, PREFIX);
        int r;

        r = nb_json_parse(data, len, where, NB_METADATA_MALFORMED, &json, is_meant ? f : &ignored);
        if (r == -ENOMEM)
                return is_meant ? r : nb_failure_set_memory(f);
        if (r < 0) {
                *ret_what = "what begins as JSON and is none";
                return is_meant ? r : 0;
        }
        credentials = json_object_object_get(json.root, CREDENTIALS);
        if (credentials)
                return take_credentials(where, credentials, user_data, ret_what, f);
        if (!is_document(json.root)) {
                *ret_what = json_object_object_get(json.root, "ignition") ? "an Ignition config" : "JSON of another program";
                return 0;
        }
        r = nb_user_data_copy(data, len, &user_data->document);
        return r < 0 ? nb_failure_set_memory(f) : NB_USER_DATA_DOCUMENT;
}
