/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/kubeconfig.h"

#define DATA_MAX (352 * 1024) /* of one *-data field, in base64 */

const struct nb_kubeconfig_policy nb_kubeconfig_cluster_info = {
        .unacceptable = NB_CLUSTER_INFO_UNACCEPTABLE,
        .users = NB_KUBECONFIG_USERS_NONE,
        .ca = NB_KUBECONFIG_CA_REQUIRED,
        .needs_kind = true,
};
const struct nb_kubeconfig_policy nb_kubeconfig_discovery_file = {
        .unacceptable = NB_DISCOVERY_FILE_UNACCEPTABLE,
        .unreadable = NB_DISCOVERY_FILE_UNREADABLE,
};
const struct nb_kubeconfig_policy nb_kubeconfig_discovery_url = {
        .unacceptable = NB_ANSWER_MALFORMED,
};
const struct nb_kubeconfig_policy nb_kubeconfig_bootstrap = {
        .unacceptable = NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE,
        .unreadable = NB_BOOTSTRAP_KUBECONFIG_UNREADABLE,
        .users = NB_KUBECONFIG_USERS_CURRENT,
};
static const struct nb_kubeconfig_policy client_policy = {
        .unacceptable = NB_TARGET_NOT_KUBECONFIG,
        .needs_kind = true,
};

struct reading {
        const struct nb_kubeconfig_policy *policy;
        const struct nb_kubeconfig_input *first, *input; /* `input` has the entry found last */
        const struct nb_yaml_node *root;                 /* followed by those of the next inputs */
        struct nb_failure *f;
};

/* A mapping with the fields of a cluster, context or user. */
struct entry {
        char path[48]; /* "users[1].user" */
        const struct nb_yaml_node *fields;
};

/* `entry` NULL: `key` is the whole path. */
static int refuse_field(const struct reading *reading, const struct entry *entry, const char *key,
                        const char *expected, const char *found) {
        return nb_failure_set(reading->f, reading->policy->unacceptable, 0,
                              "%s: %s%s%s: expected %s, found %s", reading->input->origin,
                              entry ? entry->path : "", entry ? "." : "", key, expected, found);
}

/* Another key may be a misplaced token. */
static const char *printable_key(const struct nb_yaml_node *node) {
        static const char words[] = " as as-groups as-uid as-user-extra auth-provider "
                                    "client-certificate client-certificate-data client-key "
                                    "client-key-data exec password token tokenFile username ";
        const char *found = strstr(words, node->key);
        bool is_whole = found > words && found[-1] == ' ' && found[strlen(node->key)] == ' ';

        return is_whole ? node->key : "an unknown key";
}

/* --- The document --- */

static int open_document(struct reading *reading, struct nb_yaml_node **ret_document) {
        const struct nb_kubeconfig_input *input = reading->input;
        enum nb_code code = reading->policy->unacceptable;
        char quoted[2][NB_TEXT_QUOTED_SIZE];
        const char *kind, *version;
        int r;

        if (input->len > NB_KUBECONFIG_MAX)
                return nb_failure_set(reading->f, code, 0,
                                      "%s: expected at most %d bytes, found %zu", input->origin,
                                      NB_KUBECONFIG_MAX, input->len);
        r = nb_yaml_parse(input->origin, input->text, input->len, code, 1, ret_document,
                          reading->f);
        if (r < 0)
                return r;
        reading->root = *ret_document;
        kind = nb_yaml_text(reading->root, "kind");
        version = nb_yaml_text(reading->root, "apiVersion");
        if (reading->root && reading->root->type == NB_YAML_MAPPING &&
            (kind ? strcmp(kind, "Config") == 0 : !reading->policy->needs_kind) &&
            (!version || strcmp(version, "v1") == 0))
                return 0;
        return nb_failure_set(
                reading->f, code, 0,
                "%s: expected a kubeconfig (kind: Config, apiVersion: v1), found "
                "kind %s, apiVersion %s",
                input->origin, nb_yaml_describe(nb_yaml_get(reading->root, "kind"), quoted[0]),
                nb_yaml_describe(nb_yaml_get(reading->root, "apiVersion"), quoted[1]));
}

/* Finds the entry with this name, or the only entry if `name` is NULL, in the first file that has
 * it. `list` is the plural of the field in its entries: each entry of "users" has a name and a
 * "user". */
static int find_entry(struct reading *reading, const char *list, const char *name,
                      struct entry *ret) {
        const char *expected = name ? "one entry that the current context names" : "one entry";
        const struct nb_kubeconfig_input *input = reading->first;
        const struct nb_yaml_node *found = NULL;
        const char *member;

        for (const struct nb_yaml_node *root = reading->root; root && input && !found;
             root = root->next, input = input->next) {
                const struct nb_yaml_node *entries = nb_yaml_get(root, list);
                unsigned i = 0;

                reading->input = input;
                if (!nb_yaml_is_empty(entries) && entries->type != NB_YAML_SEQUENCE)
                        return refuse_field(reading, NULL, list, "a list",
                                            nb_yaml_type_name(entries));
                for (const struct nb_yaml_node *entry = entries ? entries->first : NULL; entry;
                     entry = entry->next, i++) {
                        const char *entry_name = nb_yaml_text(entry, "name");

                        if (name && (!entry_name || strcmp(entry_name, name) != 0))
                                continue;
                        if (found)
                                return refuse_field(reading, NULL, list, expected, "several");
                        found = entry;
                        snprintf(ret->path, sizeof(ret->path), "%s[%u].%.*s", list, i,
                                 (int)strlen(list) - 1, list);
                }
        }
        if (!found)
                return refuse_field(reading, NULL, list, expected, "none");
        member = strchr(ret->path, '.') + 1;
        ret->fields = nb_yaml_get(found, member);
        if (ret->fields && ret->fields->type == NB_YAML_MAPPING)
                return 0;
        return refuse_field(reading, NULL, ret->path, "a mapping", nb_yaml_type_name(ret->fields));
}

/* The names of the context and its cluster and user; NULL if no context is set. */
static int find_context(struct reading *reading, const char **ret_name, const char **ret_cluster,
                        const char **ret_user) {
        const char *name = reading->first->context;
        struct entry context;
        int r;

        for (const struct nb_yaml_node *root = reading->root; root && !name; root = root->next)
                name = nb_yaml_text(root, "current-context");
        if (!name && reading->policy->needs_context)
                return refuse_field(reading, NULL, "current-context",
                                    "the name of a context (`kubectl config get-contexts` lists "
                                    "all)",
                                    "nothing");
        if (!name)
                return 0;
        r = find_entry(reading, "contexts", name, &context);
        if (r < 0)
                return r;
        *ret_name = name;
        *ret_cluster = nb_yaml_text(context.fields, "cluster");
        *ret_user = nb_yaml_text(context.fields, "user");
        if (*ret_cluster && *ret_user)
                return 0;
        return refuse_field(reading, NULL, context.path, "a cluster and a user", "less");
}

/* --- PEM, as data or in a file --- */

static int read_file(const struct reading *reading, const struct entry *entry, const char *key,
                     struct nb_secret *ret) {
        const struct nb_kubeconfig_input *input = reading->input;
        const char *name = nb_yaml_text(entry->fields, key);
        char path[PATH_MAX];
        int r;

        if (!name)
                return refuse_field(reading, entry, key, "a path",
                                    nb_yaml_type_name(nb_yaml_get(entry->fields, key)));
        if (!input->read)
                return refuse_field(reading, entry, key, "data instead of a file", "a path");
        if (name[0] != '/' && !input->folder)
                return refuse_field(reading, entry, key, "an absolute path", "a relative one");
        r = snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : input->folder,
                     name[0] == '/' ? "" : "/", name);
        r = (size_t)r >= sizeof(path) ? -ENAMETOOLONG : input->read(input->userdata, path, ret);
        return r < 0 ? nb_failure_set(reading->f, reading->policy->unreadable, r,
                                      r == -EBADF ? "%s: %s.%s: '%.128s' is not a regular file"
                                                  : "%s: %s.%s: cannot read '%.128s': %m",
                                      input->origin, entry->path, key, nb_text_shown(path))
                     : 0;
}

static bool is_text(const struct nb_secret *text) {
        return text->len > 0 && !memchr(text->data, '\0', text->len);
}

/* Decodes base64 with line breaks but without blanks, like Go and therefore kubelet. 0, -EINVAL,
 * -EBADMSG, -ENOMEM. */
static int decode_pem(const struct nb_yaml_node *node, struct nb_secret *ret) {
        int r;

        if (node->type != NB_YAML_SCALAR || node->value_len > DATA_MAX ||
            strpbrk(node->value, " \t"))
                return -EINVAL;
        r = nb_base64_decode_secret(node->value, node->value_len, ret);
        if (r < 0 || is_text(ret))
                return r;
        nb_secret_done(ret);
        return -EINVAL;
}

/* 1; 0 if there is neither data nor a path. Data takes precedence, as in clientcmd. */
static int take_pem(const struct reading *reading, const struct entry *entry, const char *key,
                    struct nb_secret *ret) {
        bool has_path = !nb_yaml_is_empty(nb_yaml_get(entry->fields, key));
        const struct nb_yaml_node *data;
        char data_key[64];
        int r;

        snprintf(data_key, sizeof(data_key), "%s-data", key);
        data = nb_yaml_get(entry->fields, data_key);
        if (!nb_yaml_is_empty(data) && (!has_path || reading->input->read)) {
                r = decode_pem(data, ret);
                if (r == -ENOMEM)
                        return nb_failure_set_memory(reading->f);
                return r < 0 ? refuse_field(reading, entry, data_key, "PEM in base64",
                                            "something else")
                             : 1;
        }
        if (!has_path)
                return 0;
        r = read_file(reading, entry, key, ret);
        if (r < 0 || is_text(ret))
                return r < 0 ? r : 1;
        nb_secret_done(ret);
        return refuse_field(reading, entry, key, "a text file", "an empty or binary one");
}

/* As take_pem(), for data that is not secret. */
static int take_public_pem(const struct reading *reading, const struct entry *entry,
                           const char *key, char **ret, size_t *ret_len) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        int r;

        r = take_pem(reading, entry, key, &pem);
        if (r <= 0)
                return r;
        *ret = strndup(pem.data ? pem.data : "", pem.len);
        if (!*ret)
                return nb_failure_set_memory(reading->f);
        *ret_len = pem.len;
        return 1;
}

/* --- The cluster --- */

/* Copies a field that `verify` accepts; "" if it is missing. */
static int take_text(const struct reading *reading, const struct entry *entry, const char *key,
                     int (*verify)(const char *text), char *ret, size_t size) {
        const struct nb_yaml_node *node = nb_yaml_get(entry->fields, key);

        ret[0] = '\0';
        if (nb_yaml_is_empty(node))
                return 0;
        if (node->type != NB_YAML_SCALAR || node->value_len >= size || verify(node->value) < 0)
                return refuse_field(
                        reading, entry, key,
                        verify == nb_proxy_url_verify
                                ? "http, https or socks5 with host and port, without a user"
                                : "a host name",
                        nb_yaml_type_name(node));
        memcpy(ret, node->value, node->value_len + 1);
        return 0;
}

static int take_server(const struct reading *reading, const struct entry *entry,
                       struct nb_url *ret) {
        const struct nb_yaml_node *node = nb_yaml_get(entry->fields, "server");
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (!nb_yaml_is_empty(node) && node->type == NB_YAML_SCALAR &&
            nb_url_parse(node->value, node->value_len, ret) >= 0)
                return 0;
        return refuse_field(reading, entry, "server", "https://HOST[:PORT][/PREFIX]",
                            nb_yaml_describe(node, quoted));
}

static int take_cluster(const struct reading *reading, const struct entry *entry,
                        struct nb_cluster *ret) {
        static const char insecure[] = "insecure-skip-tls-verify";
        char quoted[NB_TEXT_QUOTED_SIZE];
        const struct nb_yaml_node *node = nb_yaml_get(entry->fields, insecure);
        int r;

        if (!nb_yaml_is_empty(node) && (node->type != NB_YAML_SCALAR || !node->is_plain ||
                                        strcmp(node->value, "false") != 0)) {
                r = refuse_field(reading, entry, insecure, "false or no such key",
                                 nb_yaml_describe(node, quoted));
                nb_failure_add(reading->f, "; remove the key, and set certificate-authority-data "
                                           "to the cluster's CA");
                return r;
        }
        r = take_server(reading, entry, &ret->server);
        if (r < 0)
                return r;
        r = take_text(reading, entry, "tls-server-name", nb_tls_server_name_verify,
                      ret->tls_server_name, sizeof(ret->tls_server_name));
        if (r < 0)
                return r;
        r = take_text(reading, entry, "proxy-url", nb_proxy_url_verify, ret->proxy_url,
                      sizeof(ret->proxy_url));
        if (r < 0 || reading->policy->ca == NB_KUBECONFIG_CA_IGNORED)
                return r;
        r = take_public_pem(reading, entry, "certificate-authority", &ret->ca, &ret->ca_len);
        if (r == 0 && reading->policy->ca == NB_KUBECONFIG_CA_REQUIRED)
                return refuse_field(reading, entry, "certificate-authority-data",
                                    "the CA in base64", "nothing");
        return r;
}

void nb_cluster_done(struct nb_cluster *cluster) {
        free(cluster->ca);
        cluster->ca = NULL;
        cluster->ca_len = 0;
}

bool nb_cluster_has_same_transport(const struct nb_cluster *a, const struct nb_cluster *b) {
        return nb_url_is_equal(&a->server, &b->server) &&
               !strcmp(a->tls_server_name, b->tls_server_name) &&
               !strcmp(a->proxy_url, b->proxy_url);
}

void nb_cluster_take_ca(struct nb_cluster *cluster, struct nb_buffer *ca) {
        free(cluster->ca);
        cluster->ca_len = ca->len;
        cluster->ca = TAKE(ca->data);
        nb_buffer_done(ca);
}

/* --- Users --- */

/* Describes what an entry of `users` contains besides its name; NULL for nothing. */
static const char *find_credential(const struct nb_yaml_node *mapping, bool is_entry) {
        if (mapping->type != NB_YAML_MAPPING)
                return nb_yaml_type_name(mapping);
        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next) {
                const char *found = printable_key(node);

                if (nb_yaml_is_empty(node) || (is_entry && strcmp(node->key, "name") == 0))
                        continue;
                if (is_entry && strcmp(node->key, "user") == 0)
                        found = find_credential(node, false);
                if (found)
                        return found;
        }
        return NULL;
}

static int verify_no_credentials(const struct reading *reading) {
        const struct nb_yaml_node *users = nb_yaml_get(reading->root, "users");
        char path[32];
        unsigned i = 0;

        if (nb_yaml_is_empty(users))
                return 0;
        if (users->type != NB_YAML_SEQUENCE || reading->policy->users == NB_KUBECONFIG_USERS_NONE)
                return refuse_field(reading, NULL, "users", "none", nb_yaml_type_name(users));
        for (const struct nb_yaml_node *user = users->first; user; user = user->next, i++) {
                const char *found = find_credential(user, true);

                snprintf(path, sizeof(path), "users[%u]", i);
                if (found)
                        return refuse_field(reading, NULL, path, "no credentials", found);
        }
        return 0;
}

static int take_token(const struct reading *reading, const struct entry *user,
                      struct nb_identity *ret) {
        _cleanup_(nb_secret_done) struct nb_secret file = NB_SECRET_INIT;
        const char *text = nb_yaml_text(user->fields, "token"), *key = "token";
        size_t len = text ? strlen(text) : 0;
        int r;

        if (!nb_yaml_is_empty(nb_yaml_get(user->fields, "tokenFile"))) {
                key = "tokenFile";
                r = read_file(reading, user, key, &file);
                if (r < 0)
                        return r;
                /* client-go trims the token in a file, and only there (strings.TrimSpace). */
                text = file.data ? file.data : "";
                text += strspn(text, " \t\n\v\f\r");
                for (len = strlen(text); len > 0 && strchr(" \t\n\v\f\r", text[len - 1]); len--)
                        ;
        }
        if (!nb_bearer_is_valid(text, len))
                return refuse_field(reading, user, key,
                                    "a token: printable characters without blanks",
                                    "something else");
        r = nb_identity_set_token(ret, text, len, reading->input->origin);
        return r < 0 ? nb_failure_set_memory(reading->f) : 0;
}

static int take_certificate(const struct reading *reading, const struct entry *user,
                            struct nb_identity *ret) {
        int has_certificate, has_key;

        has_certificate = take_pem(reading, user, "client-certificate", &ret->certificate);
        if (has_certificate < 0)
                return has_certificate;
        has_key = take_pem(reading, user, "client-key", &ret->secret);
        if (has_key < 0)
                return has_key;
        if (!has_certificate || !has_key)
                return refuse_field(reading, user, has_key ? "client-certificate" : "client-key",
                                    "certificate and key together", "nothing");
        ret->kind = NB_IDENTITY_CERTIFICATE;
        NB_TEXT_COPY_LINE(ret->source, reading->input->origin);
        return 0;
}

static int run_exec(const struct reading *reading, const struct entry *user,
                    const struct nb_cluster *cluster, struct nb_identity *ret) {
        char what[PATH_MAX + sizeof(user->path)];

        snprintf(what, sizeof(what), "%s: %s.exec", reading->input->origin, user->path);
        return reading->policy->exec(reading->input, what, nb_yaml_get(user->fields, "exec"),
                                     cluster, ret, reading->f);
}

static int take_user(const struct reading *reading, const struct entry *user,
                     const struct nb_cluster *cluster, struct nb_identity *ret) {
        enum { TOKEN = 1, CERTIFICATE = 2, EXEC = 4 };
        static const struct {
                const char *key;
                unsigned kind;
        } known[] = {
                { "token", TOKEN },
                { "tokenFile", TOKEN },
                { "client-certificate", CERTIFICATE },
                { "client-certificate-data", CERTIFICATE },
                { "client-key", CERTIFICATE },
                { "client-key-data", CERTIFICATE },
                { "exec", EXEC },
                { "extensions", 0 },
        };
        static const char expected[] = "either a token, or a client certificate and key";
        unsigned kinds = 0;

        for (const struct nb_yaml_node *node = user->fields->first; node; node = node->next) {
                size_t i = 0;

                if (nb_yaml_is_empty(node))
                        continue;
                while (i < N_ELEMENTS(known) && strcmp(node->key, known[i].key) != 0)
                        i++;
                if (i == N_ELEMENTS(known) || (known[i].kind == EXEC && !reading->policy->exec))
                        return refuse_field(reading, NULL, user->path, expected,
                                            printable_key(node));
                kinds |= known[i].kind;
        }
        if (kinds == TOKEN)
                return take_token(reading, user, ret);
        if (kinds == CERTIFICATE)
                return take_certificate(reading, user, ret);
        if (kinds == EXEC)
                return run_exec(reading, user, cluster, ret);
        return refuse_field(reading, NULL, user->path, expected, kinds ? "both" : "neither");
}

/* --- The whole --- */

static int open_documents(struct reading *reading, struct nb_yaml_node **ret_documents) {
        struct nb_yaml_node *last = NULL;

        for (; reading->input; reading->input = reading->input->next) {
                struct nb_yaml_node *document = NULL;
                int r = open_document(reading, &document);

                if (last)
                        last->next = document;
                else
                        *ret_documents = document;
                if (r < 0)
                        return r;
                last = document;
        }
        reading->input = reading->first;
        reading->root = *ret_documents;
        return 0;
}

int nb_kubeconfig_parse(const struct nb_kubeconfig_policy *policy,
                        const struct nb_kubeconfig_input *input, struct nb_cluster *ret_cluster,
                        struct nb_identity *ret_identity, struct nb_failure *f) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL;
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        struct reading reading = { .policy = policy, .first = input, .input = input, .f = f };
        const bool has_user = policy->users == NB_KUBECONFIG_USERS_CURRENT;
        const char *context = NULL, *cluster_name = NULL, *user_name = NULL;
        struct entry entry;
        int r;

        r = open_documents(&reading, &documents);
        if (r < 0)
                return r;
        if (has_user)
                r = find_context(&reading, &context, &cluster_name, &user_name);
        else if (policy->users != NB_KUBECONFIG_USERS_IGNORED)
                r = verify_no_credentials(&reading);
        if (r >= 0)
                r = find_entry(&reading, "clusters", cluster_name, &entry);
        if (r >= 0)
                r = take_cluster(&reading, &entry, &cluster);
        if (r >= 0 && has_user)
                r = find_entry(&reading, "users", user_name, &entry);
        if (r >= 0 && has_user)
                r = take_user(&reading, &entry, &cluster, &identity);
        if (r < 0)
                return r;
        snprintf(cluster.context, sizeof(cluster.context), "%s", context ? context : "");
        *ret_cluster = TAKE(cluster);
        if (has_user)
                *ret_identity = TAKE(identity);
        return 0;
}

/* --- An installed kubeconfig --- */

static bool is_zeroed(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (text[i] != '\0')
                        return false;
        return true;
}

/* `ret->fields` is NULL if there is no such entry, or more than one. */
static void find_any(const struct reading *reading, const char *list, const char *name,
                     struct entry *ret) {
        struct nb_failure ignored = { 0 };
        struct reading quiet = *reading;

        quiet.f = &ignored;
        if (!name || find_entry(&quiet, list, name, ret) < 0)
                ret->fields = NULL;
}

/* Data that cannot be decoded is ignored: without certificate or key the machine joins again. */
static int take_client_data(const struct reading *reading, const struct entry *user,
                            const char *key, struct nb_secret *ret) {
        const struct nb_yaml_node *node = nb_yaml_get(user->fields, key);
        int r = nb_yaml_is_empty(node) ? 0 : decode_pem(node, ret);

        return r == -ENOMEM ? nb_failure_set_memory(reading->f) : 0;
}

int nb_kubeconfig_parse_client(const char *origin, const char *text, size_t len,
                               struct nb_kubeconfig_client *ret_client, struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        const struct nb_kubeconfig_input input = { .origin = origin, .text = text, .len = len };
        struct reading reading = {
                .policy = &client_policy, .first = &input, .input = &input, .f = f
        };
        struct entry context = {}, cluster = {}, user = {};
        int r;

        if (!is_zeroed(text, len)) {
                r = open_document(&reading, &client.document);
                if (r < 0)
                        return r == -ENOMEM || nb_yaml_text(client.document, "kind") ? r : -EBADMSG;
                find_any(&reading, "contexts", nb_yaml_text(client.document, "current-context"),
                         &context);
                find_any(&reading, "clusters", nb_yaml_text(context.fields, "cluster"), &cluster);
                find_any(&reading, "users", nb_yaml_text(context.fields, "user"), &user);
                r = take_client_data(&reading, &user, "client-certificate-data",
                                     &client.certificate);
                if (r < 0)
                        return r;
                r = take_client_data(&reading, &user, "client-key-data", &client.key);
                if (r < 0)
                        return r;
        }
        client.server = nb_yaml_text(cluster.fields, "server");
        client.ca_file = nb_yaml_text(cluster.fields, "certificate-authority");
        client.certificate_file = nb_yaml_text(user.fields, "client-certificate");
        client.key_file = nb_yaml_text(user.fields, "client-key");
        *ret_client = TAKE(client);
        return 0;
}

void nb_kubeconfig_client_done(struct nb_kubeconfig_client *client) {
        nb_yaml_free(client->document);
        nb_secret_done(&client->certificate);
        nb_secret_done(&client->key);
        *client = (struct nb_kubeconfig_client)NB_KUBECONFIG_CLIENT_INIT;
}
