/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/k3s_token.h"
#include "format/kubeconfig_entry.h"

#define BEARER_MAX (16 * 1024) /* bytes of a token; a service account's has about a thousand */
#define ENTRY_PATH_MAX 128

struct given {
        struct nb_kubeconfig_reading reading;
        const char *folder;
        nb_kubeconfig_read read;
        void *userdata;
};

/* An entry of one of the lists: for messages "users[0] 'admin'", and what it has for this name. */
struct entry {
        char path[ENTRY_PATH_MAX];
        const struct nb_yaml_node *member;
};

/* Neither that nor anything in it. */
static bool is_void(const struct nb_yaml_node *node) {
        return nb_kubeconfig_is_empty(node) || (node->type == NB_YAML_SCALAR && node->value_len == 0);
}

static int refuse_key(const struct given *given, const struct entry *entry, const char *key, const char *expected,
                      const char *found) {
        char path[2 * ENTRY_PATH_MAX];

        (void)snprintf(path, sizeof(path), "%s: %s", entry->path, key);
        return nb_kubeconfig_refuse(&given->reading, path, found, expected);
}

/* --- Files that it names --- */

static enum nb_code code_unreadable(enum nb_code code) {
        if (code == NB_DISCOVERY_FILE_UNACCEPTABLE)
                return NB_DISCOVERY_FILE_UNREADABLE;
        return code == NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE ? NB_BOOTSTRAP_KUBECONFIG_UNREADABLE : code;
}

static int read_file(const struct given *given, const struct entry *entry, const char *key, const char *name,
                     struct nb_secret *ret) {
        const struct nb_kubeconfig_reading *reading = &given->reading;
        char path[PATH_MAX];
        int r;

        if (!given->read)
                return refuse_key(given, entry, key, "nothing that is on this machine", "a path");
        if (name[0] != '/' && !given->folder)
                return refuse_key(given, entry, key, "an absolute path, since it is in no folder", "a relative one");
        r = name[0] == '/' ? snprintf(path, sizeof(path), "%s", name)
                           : snprintf(path, sizeof(path), "%s/%s", given->folder, name);
        if ((size_t)r >= sizeof(path))
                return refuse_key(given, entry, key, "a path", "one that is too long");
        r = given->read(given->userdata, path, ret);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        errno = -r;
        if (r < 0)
                return nb_failure_set(reading->f, code_unreadable(reading->code), -r, r == -EBADF ? "%s: %s: %s: '%.128s' is not a regular file" : "%s: %s: %s: '%.128s' cannot be read: %m",
                                      reading->origin, entry->path, key, path);
        if (ret->len > 0 && !memchr(ret->data, '\0', ret->len))
                return 0;
        nb_secret_done(ret);
        return refuse_key(given, entry, key, "a file of text", "one that is empty, or has a NUL in it");
}

/* --- What stands there as data, or in a file; data wins, as in clientcmd --- */

static int copy_to_secret(const struct nb_buffer *buffer, struct nb_secret *ret) {
        int r;

        r = nb_secret_init(ret, buffer->len);
        return r < 0 ? r : nb_secret_append(ret, buffer->data, buffer->len);
}

static int decode_data(const struct given *given, const struct entry *entry, const char *key,
                       const struct nb_yaml_node *node, struct nb_secret *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(NB_KUBECONFIG_DATA_MAX);
        int r;

        r = node->type == NB_YAML_SCALAR ? nb_kubeconfig_decode(node, &buffer) : -EINVAL;
        if (r >= 0)
                r = copy_to_secret(&buffer, ret);
        if (buffer.data)
                explicit_bzero(buffer.data, buffer.len);
        if (r == -ENOMEM)
                return nb_failure_set_memory(given->reading.f);
        return r < 0 ? refuse_key(given, entry, key, "PEM in base64", "something else") : 0;
}

/* 1 when there is one; 0 when there is none. */
static int take_pem(const struct given *given, const struct entry *entry, const char *key, struct nb_secret *ret) {
        const struct nb_yaml_node *data, *file = nb_yaml_get(entry->member, key);
        char key_data[64];
        int r;

        (void)snprintf(key_data, sizeof(key_data), "%s-data", key);
        data = nb_yaml_get(entry->member, key_data);
        if (!is_void(data)) {
                r = decode_data(given, entry, key_data, data, ret);
                return r < 0 ? r : 1;
        }
        if (is_void(file))
                return 0;
        if (file->type != NB_YAML_SCALAR)
                return refuse_key(given, entry, key, "a path", nb_yaml_type_name(file));
        r = read_file(given, entry, key, file->value, ret);
        return r < 0 ? r : 1;
}

/* The same for what is no secret; *ret stays as it is where there is none. */
static int take_public_pem(const struct given *given, const struct entry *entry, const char *key, char **ret,
                           size_t *ret_len) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        int r;

        r = take_pem(given, entry, key, &pem);
        if (r <= 0 || !pem.data)
                return r;
        *ret = strndup(pem.data, pem.len);
        if (!*ret)
                return nb_failure_set_memory(given->reading.f);
        *ret_len = pem.len;
        return 1;
}

/* --- Entries --- */

static void name_entry(const char *list, unsigned i, const struct nb_yaml_node *node, struct entry *ret) {
        const char *name = nb_kubeconfig_find_text(node, "name");

        (void)snprintf(ret->path, sizeof(ret->path), "%s[%u] '%.64s'", list, i,
                       name && !nb_any_token_may_stand_in(name) ? name : "");
}

/* The one that has this name, or the only one where `name` is NULL. */
static int find_entry(const struct given *given, const struct nb_yaml_node *root, const char *list, const char *name,
                      const char *member, struct entry *ret) {
        const struct nb_yaml_node *entries = nb_yaml_get(root, list), *found = NULL;
        const char *expected = name ? "exactly one that the current context names" : "exactly one";
        unsigned i = 0;

        if (is_void(entries) || entries->type != NB_YAML_SEQUENCE)
                return nb_kubeconfig_refuse(&given->reading, list, nb_yaml_type_name(entries), "a list with exactly one");
        for (const struct nb_yaml_node *entry = entries->first; entry; entry = entry->next, i++) {
                if (name && !nb_kubeconfig_has_text(entry, "name", name))
                        continue;
                if (found)
                        return nb_kubeconfig_refuse(&given->reading, list, "several", expected);
                found = entry;
                name_entry(list, i, entry, ret);
        }
        if (!found)
                return nb_kubeconfig_refuse(&given->reading, list, "none", expected);
        ret->member = nb_yaml_get(found, member);
        if (ret->member && ret->member->type == NB_YAML_MAPPING)
                return 0;
        return refuse_key(given, ret, member, "a mapping", nb_yaml_type_name(ret->member));
}

/* The cluster and, where one is wanted, the user. */
static int find_entries(const struct given *given, const struct nb_yaml_node *root, bool wants_user,
                        struct entry *ret_cluster, struct entry *ret_user) {
        const char *context_name = wants_user ? nb_kubeconfig_find_text(root, "current-context") : NULL;
        const char *cluster_name = NULL, *user_name = NULL;
        struct entry context = { 0 };
        int r = 0;

        if (context_name) {
                r = find_entry(given, root, "contexts", context_name, "context", &context);
                if (r < 0)
                        return r;
                cluster_name = nb_kubeconfig_find_text(context.member, "cluster");
                user_name = nb_kubeconfig_find_text(context.member, "user");
                if (!cluster_name || !user_name)
                        return refuse_key(given, &context, "context", "a cluster and a user", "less");
        }
        r = find_entry(given, root, "clusters", cluster_name, "cluster", ret_cluster);
        if (r >= 0 && wants_user)
                r = find_entry(given, root, "users", user_name, "user", ret_user);
        return r;
}

/* --- No credentials --- */

/* The first key with anything in it. */
static const char *find_content(const struct nb_yaml_node *mapping) {
        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next)
                if (!is_void(node))
                        return nb_any_token_may_stand_in(node->key) ? "a key" : node->key;
        return NULL;
}

static int check_no_user(const struct given *given, unsigned i, const struct nb_yaml_node *user) {
        const struct nb_yaml_node *member = nb_yaml_get(user, "user");
        const char *found = NULL;
        struct entry entry;

        name_entry("users", i, user, &entry);
        if (user->type != NB_YAML_MAPPING || (!is_void(member) && member->type != NB_YAML_MAPPING))
                found = "something else";
        else if (!is_void(member))
                found = find_content(member);
        for (const struct nb_yaml_node *node = user->first; node && !found && user->type == NB_YAML_MAPPING; node = node->next)
                if (strcmp(node->key, "name") != 0 && strcmp(node->key, "user") != 0 && !is_void(node))
                        found = nb_any_token_may_stand_in(node->key) ? "a key" : node->key;
        if (!found)
                return 0;
        return nb_failure_set(given->reading.f, given->reading.code, 0,
                              "%s: %s: expected no credentials in a discovery file, found %.64s", given->reading.origin,
                              entry.path, found);
}

static int check_no_users(const struct given *given, const struct nb_yaml_node *root) {
        const struct nb_yaml_node *users = nb_yaml_get(root, "users");
        unsigned i = 0;
        int r = 0;

        if (is_void(users))
                return 0;
        if (users->type != NB_YAML_SEQUENCE)
                return nb_kubeconfig_refuse(&given->reading, "users", nb_yaml_type_name(users),
                                            "none, or a list of empty ones");
        for (const struct nb_yaml_node *user = users->first; user && r >= 0; user = user->next)
                r = check_no_user(given, i++, user);
        return r;
}

/* --- The user --- */

/* By name: a way to log in that is passed over in silence would look like one that does not work. */
static int check_user_keys(const struct given *given, const struct entry *user) {
        static const char *const known[] = { "client-certificate", "client-certificate-data", "client-key",
                                             "client-key-data", "token", "tokenFile", "extensions" };

        assert(user->member);
        for (const struct nb_yaml_node *node = user->member->first; node; node = node->next) {
                size_t i = 0;

                while (i < N_ELEMENTS(known) && strcmp(node->key, known[i]) != 0)
                        i++;
                if (i < N_ELEMENTS(known) || is_void(node))
                        continue;
                return nb_failure_set(given->reading.f, given->reading.code, 0,
                                      "%s: %s: expected a token, or a client certificate and key, alone; found %.64s",
                                      given->reading.origin, user->path,
                                      nb_any_token_may_stand_in(node->key) ? "a key" : node->key);
        }
        return 0;
}

/* As Go's strings.TrimSpace(), for what is ASCII: client-go does so with the file, not with what stands inline. */
static void trim(const char **text, size_t *len) {
        static const char blanks[] = " \t\n\v\f\r";

        while (*len > 0 && strchr(blanks, (*text)[0])) {
                (*text)++;
                (*len)--;
        }
        while (*len > 0 && strchr(blanks, (*text)[*len - 1]))
                (*len)--;
}

/* What can stand in a header: no blank and no control character. */
static bool is_bearer(const char *text, size_t len) {
        if (len == 0 || len > BEARER_MAX)
                return false;
        for (size_t i = 0; i < len; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        return false;
        return true;
}

static int set_token(const struct given *given, const struct entry *user, const char *key, const char *token, size_t len,
                     struct nb_identity *ret) {
        if (!is_bearer(token, len))
                return refuse_key(given, user, key, "a token: printable characters without blanks", "something else");
        return nb_identity_set_token(ret, token, len, given->reading.origin) < 0 ? nb_failure_set_memory(given->reading.f)
                                                                                 : 0;
}

static int take_token(const struct given *given, const struct entry *user, struct nb_identity *ret) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        const struct nb_yaml_node *file = nb_yaml_get(user->member, "tokenFile"),
                                  *token = nb_yaml_get(user->member, "token");
        const char *text;
        size_t len;
        int r;

        if (is_void(file)) {
                if (token->type != NB_YAML_SCALAR)
                        return refuse_key(given, user, "token", "a token", nb_yaml_type_name(token));
                return set_token(given, user, "token", token->value, token->value_len, ret);
        }
        if (file->type != NB_YAML_SCALAR)
                return refuse_key(given, user, "tokenFile", "a path", nb_yaml_type_name(file));
        r = read_file(given, user, "tokenFile", file->value, &secret);
        if (r < 0)
                return r;
        text = secret.data;
        len = secret.len;
        trim(&text, &len);
        return set_token(given, user, "tokenFile", text, len, ret);
}

static int take_certificate(const struct given *given, const struct entry *user, struct nb_identity *ret) {
        int has_certificate, has_key;

        has_certificate = take_public_pem(given, user, "client-certificate", &ret->certificate, &ret->certificate_len);
        if (has_certificate < 0)
                return has_certificate;
        has_key = take_pem(given, user, "client-key", &ret->secret);
        if (has_key < 0)
                return has_key;
        if (!has_certificate || !has_key)
                return refuse_key(given, user, has_key ? "client-certificate" : "client-key",
                                  "certificate and key together", "nothing");
        ret->kind = NB_IDENTITY_CERTIFICATE;
        (void)snprintf(ret->source, sizeof(ret->source), "%s", given->reading.origin);
        return 0;
}

static bool has_any(const struct nb_yaml_node *user, const char *const *keys, size_t n_keys) {
        for (size_t i = 0; i < n_keys; i++)
                if (!is_void(nb_yaml_get(user, keys[i])))
                        return true;
        return false;
}

static int take_user(const struct given *given, const struct entry *user, struct nb_identity *ret) {
        static const char *const token_keys[] = { "token", "tokenFile" };
        static const char *const certificate_keys[] = { "client-certificate", "client-certificate-data", "client-key",
                                                        "client-key-data" };
        bool has_token = has_any(user->member, token_keys, N_ELEMENTS(token_keys));
        bool has_certificate = has_any(user->member, certificate_keys, N_ELEMENTS(certificate_keys));
        int r;

        r = check_user_keys(given, user);
        if (r < 0)
                return r;
        if (has_token == has_certificate)
                return nb_kubeconfig_refuse(&given->reading, user->path, has_token ? "both" : "neither",
                                            "a token, or a client certificate and key");
        return has_token ? take_token(given, user, ret) : take_certificate(given, user, ret);
}

/* --- The document --- */

/* Who writes it with Go's own types, as OpenShift does, leaves these two out; clientcmd takes that. */
static int check_header(const struct given *given, const struct nb_yaml_node *root) {
        if (!root || root->type != NB_YAML_MAPPING)
                return nb_kubeconfig_refuse(&given->reading, "kind", nb_yaml_type_name(root), "a kubeconfig");
        if ((nb_yaml_get(root, "kind") && !nb_kubeconfig_has_text(root, "kind", "Config")) ||
            (nb_yaml_get(root, "apiVersion") && !nb_kubeconfig_has_text(root, "apiVersion", "v1")))
                return nb_kubeconfig_refuse(&given->reading, "kind", "another document", "Config of apiVersion v1");
        return 0;
}

static int take_document(const struct given *given, const struct nb_yaml_node *root, bool wants_user,
                         struct nb_cluster *cluster, struct nb_identity *identity) {
        struct entry cluster_entry = { 0 }, user_entry = { 0 };
        int r;

        r = check_header(given, root);
        /* First, so that a kubeconfig with credentials is told to be one, whatever else is wrong with it. */
        if (r >= 0 && !wants_user)
                r = check_no_users(given, root);
        if (r >= 0)
                r = find_entries(given, root, wants_user, &cluster_entry, &user_entry);
        if (r >= 0)
                r = nb_kubeconfig_take_cluster(&given->reading, cluster_entry.member, cluster);
        if (r >= 0)
                r = take_public_pem(given, &cluster_entry, "certificate-authority", &cluster->ca, &cluster->ca_len);
        if (r >= 0 && wants_user)
                r = take_user(given, &user_entry, identity);
        return r < 0 ? r : 0;
}

int nb_kubeconfig_parse_given(const char *origin, const char *folder, const char *yaml, size_t len, bool wants_user,
                              nb_kubeconfig_read read, void *userdata, enum nb_code code, struct nb_cluster *ret_cluster,
                              struct nb_identity *ret_identity, struct nb_failure *f) {
        const struct given given = { { origin, code, f }, folder, read, userdata };
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        int r;

        if (len > NB_KUBECONFIG_MAX)
                return nb_failure_set(f, code, 0, "%s: expected at most %d bytes, found %zu", origin, NB_KUBECONFIG_MAX,
                                      len);
        r = nb_yaml_parse(origin, yaml, len, code, &root, f);
        if (r >= 0)
                r = take_document(&given, root, wants_user, &cluster, &identity);
        if (r < 0)
                return r;

        *ret_cluster = cluster;
        cluster = (struct nb_cluster){};
        if (wants_user) {
                *ret_identity = identity;
                identity = (struct nb_identity)NB_IDENTITY_INIT;
        }
        return 0;
}
