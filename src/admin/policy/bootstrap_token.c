/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/rfc3339.h"
#include "admin/policy/secret_data.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"

#define EXPIRATION_MAX 127
#define NODE_PATH "metadata.annotations." NB_TOKEN_NODE_ANNOTATION
#define OBJECT_ROOM 8192 /* no Secret that is formatted here is larger */

/* Data of the Secret (kubernetes cluster-bootstrap/token/api/types.go). */
#define DATA_ID "token-id"
#define DATA_SECRET "token-secret"
#define DATA_EXPIRATION "expiration"
#define DATA_DESCRIPTION "description"
#define DATA_SIGNING "usage-bootstrap-signing"
#define DATA_AUTHENTICATION "usage-bootstrap-authentication"
#define DATA_GROUPS "auth-extra-groups"

void nb_bootstrap_token_done(struct nb_bootstrap_token *token) {
        explicit_bzero(token->secret, sizeof(token->secret));
}

/* --- Generating --- */

static int fill_random(char *ret, size_t len) {
        static const char characters[] = NB_DIGITS NB_LOWER;
        const unsigned n = sizeof(characters) - 1, limit = 256 / n * n;
        unsigned char bytes[64];

        for (size_t done = 0; done < len;) {
                if (getentropy(bytes, sizeof(bytes)) < 0)
                        return -errno;
                /* A byte at or above the limit would make the first characters more likely. */
                for (size_t i = 0; i < sizeof(bytes) && done < len; i++)
                        if (bytes[i] < limit)
                                ret[done++] = characters[bytes[i] % n];
        }
        ret[len] = '\0';
        explicit_bzero(bytes, sizeof(bytes));
        return 0;
}

int nb_bootstrap_token_generate(struct nb_bootstrap_token *ret_token) {
        int r = fill_random(ret_token->id, NB_TOKEN_ID_LEN);

        return r < 0 ? r : fill_random(ret_token->secret, NB_TOKEN_SECRET_LEN);
}

/* --- Values --- */

bool nb_bootstrap_token_is_expired(time_t expires, time_t now) {
        return expires != 0 && expires <= now;
}

/* --- Reading --- */

static bool is_word(const char *text, size_t len) {
        return strlen(text) == len && strspn(text, NB_LOWER NB_DIGITS) == len;
}

/* False if the value is too long, or no text; `ret` then has a part of it. */
static bool read_value(struct nb_json *json, const char *key, char *ret, size_t size) {
        struct nb_buffer value = { .data = ret, .allocated = size, .max = size - 1 };

        ret[0] = '\0';
        return nb_secret_data_decode(json, key, &value) >= 0 && strlen(ret) == value.len;
}

static bool read_usage(struct nb_json *json, const char *key) {
        char value[sizeof("true")];

        return read_value(json, key, value, sizeof(value)) && strcmp(value, "true") == 0;
}

static time_t read_expiration(struct nb_json *json) {
        char text[EXPIRATION_MAX + 1];
        time_t when;

        if (!read_value(json, DATA_EXPIRATION, text, sizeof(text)))
                return NB_TOKEN_EXPIRATION_MALFORMED;
        if (!text[0])
                return 0;
        return nb_rfc3339_parse(text, &when) < 0 || when == 0 ? NB_TOKEN_EXPIRATION_MALFORMED
                                                              : when;
}

/* A name that is not exactly a node's makes the token unusable: it was made for one node. */
static bool read_node(struct nb_json *json, char ret[static NB_NODE_NAME_MAX + 1]) {
        const char *name = nb_json_string(json, NODE_PATH);

        return !name || (nb_node_name_parse(name, strlen(name), ret) >= 0 && !strcmp(ret, name));
}

static bool has_id_in_name(const struct nb_bootstrap_token *token) {
        const size_t prefix_len = strlen(NB_TOKEN_SECRET_NAME_PREFIX);

        return strncmp(token->name, NB_TOKEN_SECRET_NAME_PREFIX, prefix_len) == 0 &&
               strcmp(token->name + prefix_len, token->id) == 0;
}

void nb_bootstrap_token_read(struct nb_json *json, struct nb_bootstrap_token *ret_token) {
        const char *type = nb_json_string(json, "type"),
                   *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_bootstrap_token token = { 0 };
        bool has_id, has_secret;

        nb_json_copy(json, "metadata.name", token.name, sizeof(token.name));
        nb_json_copy(json, "metadata.uid", token.uid, sizeof(token.uid));
        nb_json_copy(json, "metadata.resourceVersion", token.resource_version,
                     sizeof(token.resource_version));
        token.expires = read_expiration(json);
        token.may_sign = read_usage(json, DATA_SIGNING);
        token.is_being_deleted = nb_json_string(json, "metadata.deletionTimestamp");
        token.may_authenticate = read_usage(json, DATA_AUTHENTICATION);
        (void)read_value(json, DATA_DESCRIPTION, token.description, sizeof(token.description));
        NB_TEXT_COPY_LINE(token.description, token.description);
        if (!type || strcmp(type, NB_TOKEN_SECRET_TYPE) != 0)
                token.flaw = "type: expected " NB_TOKEN_SECRET_TYPE;
        if (token.is_being_deleted)
                token.flaw = "metadata.deletionTimestamp: the Secret is being deleted";
        if (created && nb_rfc3339_parse(created, &token.created) < 0)
                token.flaw = "metadata.creationTimestamp: expected a time";
        if (!read_value(json, DATA_GROUPS, token.groups, sizeof(token.groups)))
                token.flaw = "data." DATA_GROUPS ": expected names of at most 1024 bytes";
        NB_TEXT_COPY_LINE(token.groups, token.groups);
        if (!read_node(json, token.node))
                token.flaw = NODE_PATH ": expected the name of a node";
        has_secret = read_value(json, DATA_SECRET, token.secret, sizeof(token.secret));
        if (!has_secret || !is_word(token.secret, NB_TOKEN_SECRET_LEN))
                token.flaw = "data." DATA_SECRET
                             ": expected base64 of 16 characters of a-z and 0-9";
        has_id = read_value(json, DATA_ID, token.id, sizeof(token.id)) &&
                 is_word(token.id, NB_TOKEN_ID_LEN) && has_id_in_name(&token);
        if (!has_id) {
                token.flaw = "data." DATA_ID ": expected base64 of ID, 6 characters of a-z and "
                             "0-9, in a Secret of the name " NB_TOKEN_SECRET_NAME_PREFIX "ID";
                token.id[0] = '\0';
        }
        token.is_signer = has_id && has_secret && token.secret[0] && token.may_sign;
        if (json->r >= 0)
                *ret_token = token;
        nb_bootstrap_token_done(&token);
}

/* --- Formatting --- */

int nb_bootstrap_token_format(const struct nb_bootstrap_token *token, struct nb_buffer *ret) {
        char room[OBJECT_ROOM];
        struct nb_buffer object = NB_BUFFER_IN(room); /* growing would leave copies of the secret */
        struct nb_json_writer writer = { .buffer = &object };
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];
        char expiration[NB_RFC3339_SIZE] = "";

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        if (token->expires != 0)
                nb_time_format(token->expires, expiration);
        nb_secret_begin(&writer, name);
        if (token->node[0]) {
                nb_json_open(&writer, "annotations", '{');
                nb_json_put_string(&writer, NB_TOKEN_NODE_ANNOTATION, token->node);
                nb_json_close(&writer);
        }
        nb_json_close(&writer);
        nb_json_put_string(&writer, "type", NB_TOKEN_SECRET_TYPE);
        nb_json_open(&writer, "data", '{');
        nb_secret_data_put(&writer, DATA_ID, token->id);
        nb_secret_data_put(&writer, DATA_SECRET, token->secret);
        nb_secret_data_put(&writer, DATA_DESCRIPTION, token->description);
        nb_secret_data_put(&writer, DATA_EXPIRATION, expiration);
        nb_secret_data_put(&writer, DATA_SIGNING, token->may_sign ? "true" : "");
        nb_secret_data_put(&writer, DATA_AUTHENTICATION, token->may_authenticate ? "true" : "");
        nb_secret_data_put(&writer, DATA_GROUPS, token->groups);
        ret->error = nb_json_finish(&writer);
        nb_buffer_append(ret, room, object.len);
        explicit_bzero(room, sizeof(room));
        return ret->error;
}
