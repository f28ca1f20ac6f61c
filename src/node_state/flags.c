/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "node_state/flags.h"

#define KEY "KUBELET_KUBEADM_ARGS"
#define OVERRIDE "--hostname-override="
#define PROVIDER_ID "provider-id"
#define REMOTE "container-runtime=remote"
#define BLANKS " \t\r\n"

static bool has_extra_argument(const struct nb_settings *settings, const char *begin) {
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (strncmp(settings->extra_args[i], begin, strlen(begin)) == 0)
                        return true;
        return false;
}

/* "--name=value", unless the value is empty. */
static void append_argument(struct nb_buffer *ret, const char *name, const char *value) {
        if (value[0])
                nb_buffer_printf(ret, "%s--%s=%s", ret->len > 0 ? " " : "", name, value);
}

/*
 * The settings refuse extra arguments that duplicate another setting. Only a provider ID from
 * metadata can conflict with an extra argument, which then takes precedence, as in kubeadm.
 *
 * kubeadm's upgrade fails without any argument. The node name is the one that every version of
 * kubelet accepts, that no version of kubeadm removes, and whose value cannot differ from what
 * kubelet uses: its certificate has this name.
 */
void nb_flags_format(const struct nb_settings *settings, const char *node, bool is_remote_needed,
                     struct nb_buffer *ret) {
        const char *const own[][2] = {
                { "container-runtime-endpoint", settings->cri_socket },
                { "hostname-override", node },
                { PROVIDER_ID,
                  has_extra_argument(settings, PROVIDER_ID "=") ? "" : settings->provider_id },
        };

        if (is_remote_needed && settings->cri_socket[0] && !has_extra_argument(settings, REMOTE))
                nb_buffer_append_string(ret, "--" REMOTE);
        for (size_t i = 0; i < N_ELEMENTS(own); i++)
                append_argument(ret, own[i][0], own[i][1]);
        for (unsigned i = 0; i < settings->n_taints; i++)
                if (i == 0)
                        append_argument(ret, "register-with-taints", settings->taints[i]);
                else
                        nb_buffer_printf(ret, ",%s", settings->taints[i]);
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                nb_buffer_printf(ret, "%s--%s", ret->len > 0 ? " " : "", settings->extra_args[i]);
}

void nb_flags_file_format(const char *arguments, struct nb_buffer *ret) {
        nb_buffer_printf(ret, KEY "=\"%s\"\n", arguments);
}

/* Whether the word is in the text, with a blank, a quote or a line end on both sides. */
static bool has_word(const char *text, const char *word, size_t len) {
        static const char borders[] = BLANKS "\"'=";

        for (const char *at = text; (at = memmem(at, strlen(at), word, len)); at++)
                if ((at == text || strchr(borders, at[-1])) && strchr(borders, at[len]))
                        return true;
        return false;
}

/* Finds the first word in the text, or the next one. NULL after the last one. */
static const char *next_word(const char *text, const char *word, size_t *len) {
        static const char separators[] = BLANKS "\"";

        word = word ? word + *len : text;
        word += strspn(word, separators);
        *len = strcspn(word, separators);
        return *len > 0 ? word : NULL;
}

/* `kubeadm upgrade` removes these (kubernetes#112000, #129278). */
static bool is_removable(const char *word) {
        static const char *const removable[] = { "--container-runtime=",
                                                 "--container-runtime-endpoint=" };

        for (size_t i = 0; i < N_ELEMENTS(removable); i++)
                if (strncmp(word, removable[i], strlen(removable[i])) == 0)
                        return true;
        return false;
}

/* The file is parsed as kubeadm does (ReadKubeletDynamicEnvFile), which also sorts the arguments
 * (ArgumentsToCommand). */
bool nb_flags_file_is(const char *file, const char *arguments) {
        size_t len = 0;

        file += strspn(file, BLANKS);
        if (*file && strncmp(file, KEY "=", strlen(KEY "=")) != 0)
                return false;
        file += *file ? strlen(KEY "=") : 0;
        for (const char *word = NULL; (word = next_word(file, word, &len));)
                if (!has_word(arguments, word, len))
                        return false;
        for (const char *word = NULL; (word = next_word(arguments, word, &len));)
                if (!is_removable(word) && !has_word(file, word, len))
                        return false;
        return true;
}

/* The setting that an argument is from. */
static enum nb_setting find_setting(const char *word) {
        static const struct {
                const char *begin;
                enum nb_setting setting;
        } own[] = {
                { "--" REMOTE, NB_SETTING_CRI_SOCKET },
                { "--container-runtime-endpoint=", NB_SETTING_CRI_SOCKET },
                { "--" PROVIDER_ID "=", NB_SETTING_PROVIDER_ID },
                { "--register-with-taints=", NB_SETTING_TAINTS },
        };

        for (size_t i = 0; i < N_ELEMENTS(own); i++)
                if (strncmp(word, own[i].begin, strlen(own[i].begin)) == 0)
                        return own[i].setting;
        return NB_SETTING_EXTRA_ARGS;
}

/* Whether `arguments` has one with the name of `word`. */
static bool has_name(const char *arguments, const char *word, size_t word_len) {
        const char *end = memchr(word, '=', word_len);
        size_t name_len = end ? (size_t)(end + 1 - word) : word_len, len = 0;

        for (const char *other = NULL; (other = next_word(arguments, other, &len));)
                if (len >= name_len && memcmp(other, word, name_len) == 0)
                        return true;
        return false;
}

static bool are_equal(const char *a, const char *b) {
        char text[1];
        struct nb_buffer missing = NB_BUFFER_IN(text);

        nb_flags_find_missing(a, b, true, &missing);
        nb_flags_find_missing(b, a, true, &missing);
        return missing.error == 0;
}

bool nb_flags_are_remote(const char *arguments) {
        return strstr(arguments, "--" REMOTE);
}

bool nb_flags_renew(const struct nb_settings *settings, const struct nb_record *record,
                    bool is_remote_needed, struct nb_buffer *ret) {
        bool is_partial = record->metadata[0] ||
                          (!nb_setting_is_set(settings, NB_SETTING_ENDPOINTS) &&
                           !nb_setting_is_set(settings, NB_SETTING_DISCOVERY_FILE));
        size_t len = 0;

        nb_flags_format(settings, record->node, is_remote_needed, ret);
        for (const char *word = NULL;
             is_partial && ret->data && (word = next_word(record->arguments, word, &len));)
                if (!nb_setting_is_set(settings, find_setting(word)) &&
                    !has_name(ret->data, word, len) &&
                    (is_remote_needed || len != strlen("--" REMOTE) ||
                     memcmp(word, "--" REMOTE, len) != 0))
                        nb_buffer_printf(ret, " %.*s", (int)len, word);
        return ret->error >= 0 && !are_equal(record->arguments, ret->data);
}

void nb_flags_find_missing(const char *text, const char *arguments, bool is_override_needed,
                           struct nb_buffer *ret) {
        size_t len = 0;

        for (const char *word = NULL; (word = next_word(arguments, word, &len));) {
                if (strncmp(word, OVERRIDE, strlen(OVERRIDE)) == 0 && !is_override_needed &&
                    !strstr(text, OVERRIDE))
                        continue;
                if (!has_word(text, word, len))
                        nb_buffer_printf(ret, "%s%.*s", ret->len > 0 ? " " : "", (int)len, word);
        }
}
