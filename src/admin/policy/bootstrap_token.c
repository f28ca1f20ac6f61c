/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/secret_data.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube/object.h"
#include "system/clock.h"

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"
#define GROUP_PREFIX "system:bootstrappers:"
#define GROUP_REST_MAX 256
#define VALUE_MAX (64 * 1024) /* of a description that another program wrote */
#define OBJECT_ROOM 8192      /* no Secret that is formatted here is larger */

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
        static const char characters[] = DIGITS LOWER;
        const unsigned n = sizeof(characters) - 1, limit = 256 / n * n;
        unsigned char bytes[64];

        for (size_t done = 0; done < len;) {
                ssize_t got = getrandom(bytes, sizeof(bytes), 0);

                if (got < 0 && errno != EINTR)
                        return -errno;
                /* A byte at or above the limit would make the first characters more likely. */
                for (ssize_t i = 0; i < got && done < len; i++)
                        if (bytes[i] < limit)
                                ret[done++] = characters[bytes[i] % n];
        }
        explicit_bzero(bytes, sizeof(bytes));
        return 0;
}

int nb_bootstrap_token_generate(struct nb_bootstrap_token *ret_token) {
        int r = fill_random(ret_token->id, NB_TOKEN_ID_LEN);

        if (r < 0)
                return r;
        ret_token->id[NB_TOKEN_ID_LEN] = '\0';
        r = fill_random(ret_token->secret, NB_TOKEN_SECRET_LEN);
        ret_token->secret[NB_TOKEN_SECRET_LEN] = '\0';
        return r;
}

/* --- Values --- */

bool nb_bootstrap_token_is_expired(const struct nb_bootstrap_token *token, time_t now) {
        return token->is_expiration_malformed || (token->expires != 0 && token->expires <= now);
}

bool nb_bootstrap_group_is_valid(const char *group, size_t len) {
        const size_t prefix_len = strlen(GROUP_PREFIX);

        if (len <= prefix_len || len > prefix_len + GROUP_REST_MAX ||
            memcmp(group, GROUP_PREFIX, prefix_len) != 0)
                return false;
        for (size_t i = prefix_len; i < len; i++)
                if (!group[i] || !strchr(i + 1 < len ? LOWER DIGITS ":-" : LOWER DIGITS, group[i]))
                        return false;
        return true;
}

/* --- Reading --- */

/* Copies a value that must be there; the failure does not quote it. */
static void read_token_part(struct nb_json *json, const char *key, const char *expected, char *ret,
                            size_t len) {
        struct nb_buffer value = NB_BUFFER_INIT(len);

        nb_secret_data_read(json, key, expected, &value);
        if (json->r >= 0 && (value.len != len || strspn(value.data, LOWER DIGITS) != len))
                json->r = nb_failure_set(json->f, json->code, 0,
                                         "%s: data.%s: expected base64 of %s, found another value",
                                         json->what, key, expected);
        if (json->r >= 0)
                memcpy(ret, value.data, len + 1);
        nb_buffer_wipe(&value);
}

static bool read_usage(struct nb_json *json, const char *key) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(VALUE_MAX);

        nb_secret_data_read(json, key, "text", &value);
        return json->r >= 0 && strcmp(value.data, "true") == 0;
}

static void read_expiration(struct nb_json *json, struct nb_bootstrap_token *token) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(VALUE_MAX);

        nb_secret_data_read(json, DATA_EXPIRATION, "a time", &value);
        if (json->r < 0 || value.len == 0)
                return;
        if (nb_rfc3339_parse(value.data, &token->expires) < 0)
                token->is_expiration_malformed = true;
        else if (token->expires == 0)
                token->expires = 1; /* 0 would mean that it never expires */
}

static void read_lines(struct nb_json *json, struct nb_bootstrap_token *token) {
        _cleanup_(nb_buffer_done) struct nb_buffer groups = NB_BUFFER_INIT(NB_TOKEN_GROUPS_MAX);
        _cleanup_(nb_buffer_done) struct nb_buffer description = NB_BUFFER_INIT(VALUE_MAX);

        nb_secret_data_read(json, DATA_GROUPS, "the names of groups, at most 1024 bytes", &groups);
        nb_secret_data_read(json, DATA_DESCRIPTION, "text of at most 64 KiB", &description);
        if (json->r < 0)
                return;
        nb_text_copy_line(groups.data, groups.len, token->groups, sizeof(token->groups));
        nb_text_copy_line(description.data, description.len, token->description,
                          sizeof(token->description));
}

/* A name that is not exactly a node's makes the token unusable: it was made for one node. */
static void read_node(struct nb_json *json, struct nb_bootstrap_token *token) {
        static const char path[] = "metadata.annotations." NB_TOKEN_NODE_ANNOTATION;
        const char *name = nb_json_string(json, path);

        if (!name)
                return;
        if (nb_node_name_parse(name, strlen(name), token->node) < 0 ||
            strcmp(token->node, name) != 0)
                nb_json_refuse(json, path, "the name of a node", name);
}

void nb_bootstrap_token_read(struct nb_json *json, struct nb_bootstrap_token *ret_token) {
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_bootstrap_token token = { 0 };
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];

        if (created && nb_rfc3339_parse(created, &token.created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        nb_json_expect(json, "type", NB_TOKEN_SECRET_TYPE);
        nb_json_copy(json, "metadata.uid", token.uid, sizeof(token.uid));
        nb_json_copy(json, "metadata.resourceVersion", token.resource_version,
                     sizeof(token.resource_version));
        read_token_part(json, DATA_ID, "6 characters of a-z and 0-9", token.id, NB_TOKEN_ID_LEN);
        read_token_part(json, DATA_SECRET, "16 characters of a-z and 0-9", token.secret,
                        NB_TOKEN_SECRET_LEN);
        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", token.id);
        nb_json_expect(json, "metadata.name", name);
        read_expiration(json, &token);
        token.may_sign = read_usage(json, DATA_SIGNING);
        token.may_authenticate = read_usage(json, DATA_AUTHENTICATION);
        read_lines(json, &token);
        read_node(json, &token);
        if (json->r >= 0)
                *ret_token = token;
        nb_bootstrap_token_done(&token);
}

/* --- Formatting --- */

/* Gets memory for the whole object, since growing would leave copies of the secret behind. */
static void reserve_room(struct nb_buffer *ret) {
        static const char blanks[OBJECT_ROOM];

        nb_buffer_append(ret, blanks, sizeof(blanks));
        if (ret->error >= 0)
                ret->len -= sizeof(blanks);
}

int nb_bootstrap_token_format(const struct nb_bootstrap_token *token, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret };
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_ID_LEN];
        char expiration[NB_RFC3339_SIZE] = "";

        reserve_room(ret);
        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        if (token->expires != 0)
                nb_time_format(token->expires, expiration);
        nb_object_begin(&writer, "v1", "Secret", name);
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
        return nb_json_finish(&writer);
}
