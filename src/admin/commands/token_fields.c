/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/commands/token_command.h"
#include "base/macro.h"
#include "base/text.h"
#include "settings/types.h"

#define TTL_MAX_MS ((uint64_t)100 * 365 * 24 * 3600 * 1000)

/* A token in the wrong place is not quoted. */
static int refuse(const char *option, const char *expected, const char *found,
                  struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        return nb_failure_set(f, NB_USAGE, EINVAL, "'%s': expected %s, found %s", option, expected,
                              nb_text_contains_token(found)
                                      ? "a token"
                                      : nb_text_quote(found, strlen(found), quoted));
}

static int set_text(struct nb_bootstrap_token *token, const char *text, struct nb_failure *f) {
        const size_t len = strlen(text);
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (len != NB_TOKEN_LEN || nb_token_verify(text, len) < 0) {
                nb_token_find_flaw(text, len, flaw);
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "expected a token, 6 and 16 characters of a-z and 0-9 with a "
                                      "dot between them%s%s",
                                      flaw[0] ? "; " : "", flaw);
        }
        memcpy(token->id, text, NB_TOKEN_ID_LEN);
        memcpy(token->secret, text + NB_TOKEN_ID_LEN + 1, NB_TOKEN_SECRET_LEN);
        return 0;
}

static int set_ttl(struct nb_bootstrap_token *token, const char *text, struct nb_failure *f) {
        uint64_t ms;

        if (nb_setting_duration_parse(text, true, &ms) < 0 || ms > TTL_MAX_MS ||
            (ms > 0 && ms < 1000))
                return refuse("--ttl",
                              "a duration such as 30m or 24h0m0s, at least 1s, or 0 for a token "
                              "that never expires",
                              text, f);
        token->expires = ms > 0 ? time(NULL) + (time_t)(ms / 1000) : 0;
        return 0;
}

static int set_usages(struct nb_bootstrap_token *token, const char *list, struct nb_failure *f) {
        for (const char *word = list;; word++) {
                const size_t len = strcspn(word, ",");

                if (len == strlen("signing") && !memcmp(word, "signing", len))
                        token->may_sign = true;
                else if (len == strlen("authentication") && !memcmp(word, "authentication", len))
                        token->may_authenticate = true;
                else
                        return refuse("--usages", "signing, authentication, or both", list, f);
                word += len;
                if (!*word)
                        return 0;
        }
}

/* One invalid group makes Kubernetes reject the token. */
static int set_groups(struct nb_bootstrap_token *token, const char *list, struct nb_failure *f) {
        bool is_valid = strlen(list) <= NB_TOKEN_GROUPS_MAX;

        for (const char *group = list; is_valid; group++) {
                const size_t len = strcspn(group, ",");

                is_valid = nb_bootstrap_group_is_valid(group, len);
                group += len;
                if (!*group)
                        break;
        }
        if (!is_valid)
                return refuse("--groups",
                              "system:bootstrappers: and a name of a-z, 0-9, ':' and '-' that does "
                              "not end in ':' or '-', for each group",
                              list, f);
        if (!token->may_authenticate)
                return nb_failure_set(f, NB_USAGE, 0, "'--groups' needs the usage authentication");
        strcpy(token->groups, list);
        return 0;
}

/* Anybody who may list the tokens can read the description. */
static int set_description(struct nb_bootstrap_token *token, const char *text,
                           struct nb_failure *f) {
        if (strlen(text) > NB_TOKEN_DESCRIPTION_MAX || nb_text_contains_token(text) ||
            !nb_text_is_printable(text, strlen(text)))
                return refuse("--description",
                              "printable text of one line, at most 1024 bytes, without a token",
                              text, f);
        strcpy(token->description, text);
        return 0;
}

int nb_token_verify_node(const char *option, const char *name, struct nb_failure *f) {
        char parsed[NB_NODE_NAME_MAX + 1];

        /* A token has the form of a DNS name. */
        if (nb_token_verify(name, strlen(name)) == 0 ||
            nb_node_name_parse(name, strlen(name), parsed) < 0 || strcmp(name, parsed) != 0)
                return refuse(option, "the name of a node, a DNS name in lower case", name, f);
        return 0;
}

/* The group decides who may approve, so a bound and an enrolled token have no other one. */
static int set_group(struct nb_bootstrap_token *token, const struct nb_token_options *options,
                     struct nb_failure *f) {
        int r;

        if (options->node && options->is_enrolled)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "use either '--node' or '--enrolled': a bound token is for "
                                      "one node, an enrolled one for every enrolled node");
        if (options->groups || options->usages)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--groups' and '--usages' cannot be used together with "
                                      "'--node' or '--enrolled', which set both");
        strcpy(token->groups, options->node ? NB_TOKEN_GROUP_NODE : NB_TOKEN_GROUP_ENROLLED);
        if (!options->node)
                return 0;
        r = nb_token_verify_node("--node", options->node, f);
        if (r < 0)
                return r;
        token->expires = time(NULL) + NB_TOKEN_TTL_NODE_SEC;
        strcpy(token->node, options->node);
        return 0;
}

int nb_token_describe(const struct nb_token_options *options, struct nb_bootstrap_token *token,
                      struct nb_failure *f) {
        int r = 0;

        token->expires = time(NULL) + NB_TOKEN_TTL_DEFAULT_SEC;
        token->may_sign = token->may_authenticate = !options->usages;
        if (options->text)
                r = set_text(token, options->text, f);
        if (r >= 0 && options->usages)
                r = set_usages(token, options->usages, f);
        if (r >= 0 && (options->node || options->is_enrolled))
                r = set_group(token, options, f);
        else if (r >= 0 && options->groups && options->groups[0]) /* kubeadm: "" is the default */
                r = set_groups(token, options->groups, f);
        else if (token->may_authenticate)
                strcpy(token->groups, NB_TOKEN_GROUP_DEFAULT);
        if (r >= 0 && options->ttl)
                r = set_ttl(token, options->ttl, f);
        if (r >= 0 && options->description)
                r = set_description(token, options->description, f);
        return r;
}
