/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/commands/token_command.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/yaml.h"
#include "settings/types.h"
#include "system/clock.h"

#define TTL_MAX_MS ((uint64_t)100 * 365 * 24 * 3600 * 1000)
#define CONFIG_MAX ((size_t)256 * 1024)
#define DOCUMENTS_MAX 16

/* A token in the wrong place is not quoted. */
static const char *quote_value(const char *text, size_t len, char ret[static NB_TEXT_QUOTED_SIZE]) {
        return nb_text_contains_token(text) ? "a token" : nb_text_quote(text, len, ret);
}

int nb_token_set_text(struct nb_bootstrap_token *token, const char *text, size_t len,
                      enum nb_code code, const char *where, struct nb_failure *f) {
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (len != NB_TOKEN_LEN || nb_token_verify(text, len) < 0) {
                nb_token_find_flaw(text, len, flaw);
                return nb_failure_set(f, code, EINVAL,
                                      "%s: expected a token, 6 and 16 characters of a-z and 0-9 "
                                      "with a dot between them%s%s",
                                      where, flaw[0] ? "; " : "", flaw);
        }
        memcpy(token->id, text, NB_TOKEN_ID_LEN);
        memcpy(token->secret, text + NB_TOKEN_ID_LEN + 1, NB_TOKEN_SECRET_LEN);
        return 0;
}

int nb_token_set_ttl(struct nb_bootstrap_token *token, const char *text, enum nb_code code,
                     const char *where, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        uint64_t ms;

        if (nb_setting_duration_parse(text, true, &ms) < 0 || ms > TTL_MAX_MS ||
            (ms > 0 && ms < 1000))
                return nb_failure_set(
                        f, code, EINVAL,
                        "%s: expected a duration such as 30m or 24h0m0s, at least 1s, "
                        "or 0 for a token that never expires; found %s",
                        where, quote_value(text, strlen(text), quoted));
        token->expires = ms > 0 ? time(NULL) + (time_t)(ms / 1000) : 0;
        return 0;
}

int nb_token_add_usage(struct nb_bootstrap_token *token, const char *text, size_t len,
                       enum nb_code code, const char *where, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (len == strlen("signing") && !memcmp(text, "signing", len))
                token->may_sign = true;
        else if (len == strlen("authentication") && !memcmp(text, "authentication", len))
                token->may_authenticate = true;
        else
                return nb_failure_set(f, code, EINVAL,
                                      "%s: expected signing or authentication, found %s", where,
                                      quote_value(text, len, quoted));
        return 0;
}

int nb_token_add_group(struct nb_bootstrap_token *token, const char *text, size_t len,
                       enum nb_code code, const char *where, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        size_t used = strlen(token->groups);

        /* One invalid group makes Kubernetes reject the token. */
        if (!nb_bootstrap_group_is_valid(text, len))
                return nb_failure_set(f, code, EINVAL,
                                      "%s: expected system:bootstrappers: and a name of a-z, 0-9, "
                                      "':' and '-' that does not end in ':' or '-'; found %s",
                                      where, quote_value(text, len, quoted));
        if (used + len + 1 >= sizeof(token->groups))
                return nb_failure_set(f, code, E2BIG, "%s: more than %d bytes", where,
                                      NB_TOKEN_GROUPS_MAX);
        snprintf(token->groups + used, sizeof(token->groups) - used, "%s%.*s", used > 0 ? "," : "",
                 (int)len, text);
        return 0;
}

int nb_token_set_description(struct nb_bootstrap_token *token, const char *text, size_t len,
                             enum nb_code code, const char *where, struct nb_failure *f) {
        if (len > NB_TOKEN_DESCRIPTION_MAX || !nb_text_is_printable(text, len))
                return nb_failure_set(f, code, EINVAL,
                                      "%s: expected printable text of one line, at most %d bytes",
                                      where, NB_TOKEN_DESCRIPTION_MAX);
        if (nb_text_contains_token(text))
                return nb_failure_set(f, code, EINVAL,
                                      "%s: expected a description, found a token; anybody who may "
                                      "list the tokens can read the description",
                                      where);
        memcpy(token->description, text, len);
        token->description[len] = '\0';
        return 0;
}

int nb_token_complete(struct nb_bootstrap_token *token, bool has_ttl, bool has_usages,
                      enum nb_code code, const char *where, struct nb_failure *f) {
        if (!has_ttl)
                token->expires = time(NULL) + NB_TOKEN_TTL_DEFAULT_SEC;
        if (!has_usages)
                token->may_sign = token->may_authenticate = true;
        if (token->groups[0] && !token->may_authenticate)
                return nb_failure_set(f, code, EINVAL, "%s: groups need the usage authentication",
                                      where);
        if (!token->groups[0] && token->may_authenticate)
                snprintf(token->groups, sizeof(token->groups), "%s", NB_TOKEN_GROUP_DEFAULT);
        return 0;
}

/* --- InitConfiguration --- */

struct config {
        const char *path;
        struct nb_failure *f;
};

static int refuse(const struct config *config, const struct nb_yaml_node *node,
                  const char *expected) {
        return nb_failure_set(config->f, NB_ADMIN_INPUT_MALFORMED, EINVAL,
                              "%s: line %u: %s%sexpected %s, found %s", config->path, node->line,
                              node->key && !nb_text_contains_token(node->key) ? node->key : "",
                              node->key ? ": " : "", expected, nb_yaml_type_name(node));
}

static int read_entries(const struct config *config, const struct nb_yaml_node *list,
                        struct nb_bootstrap_token *token, const char *where,
                        int (*add)(struct nb_bootstrap_token *, const char *, size_t, enum nb_code,
                                   const char *, struct nb_failure *)) {
        if (list->type != NB_YAML_SEQUENCE)
                return refuse(config, list, "a list");
        for (const struct nb_yaml_node *entry = list->first; entry; entry = entry->next) {
                int r = entry->type == NB_YAML_SCALAR
                                ? add(token, entry->value, entry->value_len,
                                      NB_ADMIN_INPUT_MALFORMED, where, config->f)
                                : refuse(config, entry, "a string");

                if (r < 0)
                        return r;
        }
        return 0;
}

static int read_expires(const struct config *config, const struct nb_yaml_node *node,
                        struct nb_bootstrap_token *token) {
        if (nb_rfc3339_parse(node->value, &token->expires) < 0 || token->expires <= time(NULL))
                return refuse(config, node, "a time in the future, such as 2030-01-02T15:04:05Z");
        return 0;
}

static int read_field(const struct config *config, const struct nb_yaml_node *node,
                      struct nb_bootstrap_token *token, bool *has_ttl, bool *has_usages) {
        char where[512];

        snprintf(where, sizeof(where), "%s: line %u: %.32s", config->path, node->line, node->key);
        if (!strcmp(node->key, "usages")) {
                *has_usages = true;
                return read_entries(config, node, token, where, nb_token_add_usage);
        }
        if (!strcmp(node->key, "groups"))
                return read_entries(config, node, token, where, nb_token_add_group);
        if (node->type != NB_YAML_SCALAR)
                return refuse(config, node, "a string");
        if (!strcmp(node->key, "token"))
                return nb_token_set_text(token, node->value, node->value_len,
                                         NB_ADMIN_INPUT_MALFORMED, where, config->f);
        if (!strcmp(node->key, "description"))
                return nb_token_set_description(token, node->value, node->value_len,
                                                NB_ADMIN_INPUT_MALFORMED, where, config->f);
        if (strcmp(node->key, "ttl") != 0 && strcmp(node->key, "expires") != 0)
                return nb_failure_set(config->f, NB_ADMIN_INPUT_MALFORMED, EINVAL,
                                      "%s: line %u: unknown key of a bootstrap token", config->path,
                                      node->line);
        if (*has_ttl)
                return refuse(config, node, "either ttl or expires");
        *has_ttl = true;
        return node->key[0] == 't' ? nb_token_set_ttl(token, node->value, NB_ADMIN_INPUT_MALFORMED,
                                                      where, config->f)
                                   : read_expires(config, node, token);
}

static int read_token(const struct config *config, const struct nb_yaml_node *entry,
                      struct nb_bootstrap_token *token) {
        bool has_ttl = false, has_usages = false;
        char where[512];

        if (entry->type != NB_YAML_MAPPING)
                return refuse(config, entry, "a bootstrap token");
        for (const struct nb_yaml_node *node = entry->first; node; node = node->next) {
                int r = nb_yaml_is_null(node)
                                ? 0
                                : read_field(config, node, token, &has_ttl, &has_usages);

                if (r < 0)
                        return r;
        }
        snprintf(where, sizeof(where), "%s: line %u", config->path, entry->line);
        return nb_token_complete(token, has_ttl, has_usages, NB_ADMIN_INPUT_MALFORMED, where,
                                 config->f);
}

/* Whether an earlier token has the ID of the last one. */
static bool is_id_repeated(const struct nb_bootstrap_token *tokens, size_t n) {
        for (size_t i = 0; i + 1 < n; i++)
                if (tokens[i].id[0] && !strcmp(tokens[i].id, tokens[n - 1].id))
                        return true;
        return false;
}

static bool is_init_configuration(const struct nb_yaml_node *document) {
        const struct nb_yaml_node *kind = nb_yaml_get(document, "kind"),
                                  *version = nb_yaml_get(document, "apiVersion");

        return kind && kind->type == NB_YAML_SCALAR && !strcmp(kind->value, "InitConfiguration") &&
               version && version->type == NB_YAML_SCALAR &&
               !strncmp(version->value, "kubeadm.k8s.io/", strlen("kubeadm.k8s.io/"));
}

int nb_token_config_read(const char *path, struct nb_bootstrap_token *ret_tokens, size_t max,
                         struct nb_failure *f) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *documents = NULL;
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const struct config config = { path, f };
        const struct nb_yaml_node *document, *list;
        size_t n = 0;
        int r;

        r = nb_path_read(-1, path, CONFIG_MAX, &text);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m", path);
        r = nb_yaml_parse(path, text.data, text.len, NB_ADMIN_INPUT_MALFORMED, DOCUMENTS_MAX,
                          &documents, f);
        if (r < 0)
                return r;
        for (document = documents; document && !is_init_configuration(document);)
                document = document->next;
        list = nb_yaml_get(document, "bootstrapTokens");
        if (!list || list->type != NB_YAML_SEQUENCE || !list->first)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, EINVAL,
                                      "%s: expected an InitConfiguration of kubeadm.k8s.io with "
                                      "bootstrapTokens, found none",
                                      path);
        for (const struct nb_yaml_node *entry = list->first; entry; entry = entry->next) {
                if (n == max)
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, E2BIG,
                                              "%s: more than %zu tokens", path, max);
                ret_tokens[n] = (struct nb_bootstrap_token){ 0 };
                r = read_token(&config, entry, &ret_tokens[n++]);
                if (r < 0)
                        return r;
                if (is_id_repeated(ret_tokens, n))
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, EEXIST,
                                              "%s: line %u: an earlier token has the ID '%s', too",
                                              path, entry->line, ret_tokens[n - 1].id);
        }
        return (int)n;
}
