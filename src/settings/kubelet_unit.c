/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "settings/kubelet_unit.h"
#include "systemd/unit.h"

int nb_kubelet_show(struct nb_unit *ret_unit) {
        struct nb_failure ignored = { 0 };

        if (!nb_systemd_is_running())
                return -ENODATA;
        return nb_unit_read(NB_KUBELET_UNIT, ret_unit, &ignored);
}

/* --- The environment: "NAME=value", each with its NUL, in systemd's order --- */

static bool is_name_character(char c) {
        return isalnum((unsigned char)c) || c == '_';
}

/* Copies a value without its quotes and the line ends that a '\\' joins (systemd.exec(5)). Returns
 * what follows it. */
static const char *take_value(const char *text, struct nb_buffer *ret) {
        char quote = '\0';

        for (; *text && (quote || *text != '\n'); text++) {
                if (*text == '\\' && quote != '\'' && text[1]) {
                        if (*++text != '\n')
                                nb_buffer_append(ret, text, 1);
                } else if (quote ? *text == quote : *text == '"' || *text == '\'')
                        quote = quote ? '\0' : *text;
                else
                        nb_buffer_append(ret, text, 1);
        }
        nb_buffer_append(ret, "", 1);
        return text;
}

static void add_file(const char *text, struct nb_buffer *ret) {
        while (*(text += strspn(text, " \t\r\n"))) {
                size_t len = strcspn(text, "=\n");

                if (strchr("#;", *text) || text[len] != '=') {
                        text += strcspn(text, "\n");
                        continue;
                }
                nb_buffer_append(ret, text, len + 1);
                text = take_value(text + len + 1, ret);
        }
}

static void read_environment(struct nb_sources *sources, const struct nb_unit *unit,
                             struct nb_buffer *ret) {
        const char *text = NULL;

        while ((text = nb_unit_next(unit, NB_UNIT_ENVIRONMENT, text)))
                nb_buffer_append(ret, text, strlen(text) + 1);
        while ((text = nb_unit_next(unit, NB_UNIT_ENVIRONMENT_FILES, text))) {
                _cleanup_(nb_secret_done) struct nb_secret file = NB_SECRET_INIT;

                if (nb_sources_read(sources, text, NB_KUBELET_ARGUMENTS_MAX, &file, NULL) >= 0)
                        add_file(file.data ? file.data : "", ret);
        }
}

/* The last value wins; NULL if there is none. */
static const char *find_variable(const struct nb_buffer *environment, const char *name,
                                 size_t len) {
        const char *found = NULL;

        for (size_t i = 0; i < environment->len; i += strlen(environment->data + i) + 1)
                if (strncmp(environment->data + i, name, len) == 0 &&
                    environment->data[i + len] == '=')
                        found = environment->data + i + len + 1;
        return found;
}

/* --- The command line --- */

/* "$NAME" is a word of its own, "${NAME}" a part of one (systemd.service(5)). A variable without a
 * value remains as it is: systemd may have it from elsewhere. */
static void expand_word(const struct nb_buffer *environment, const char *word,
                        struct nb_buffer *ret) {
        for (const char *p = word; *p;) {
                const bool has_braces = p[0] == '$' && p[1] == '{';
                const char *name = p + 1 + has_braces, *value = NULL;
                size_t len = 0;

                while (is_name_character(name[len]))
                        len++;
                if (p[0] == '$' && (has_braces ? name[len] == '}' : p == word && !name[len]))
                        value = find_variable(environment, name, len);
                if (value) {
                        nb_buffer_append_string(ret, value);
                        p = name + len + has_braces;
                } else
                        nb_buffer_append(ret, p++, 1);
        }
        nb_buffer_append_string(ret, " ");
}

void nb_kubelet_read_arguments(struct nb_sources *sources, const struct nb_unit *unit,
                               struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer environment = NB_BUFFER_INIT(
                NB_KUBELET_ARGUMENTS_MAX);
        const char *word = nb_unit_next(unit, NB_UNIT_COMMAND, NULL),
                   *slash = word ? strrchr(word, '/') : NULL;

        read_environment(sources, unit, &environment);
        /* A script may use any of it. */
        if (slash && strcmp(slash, "/kubelet") != 0)
                for (size_t i = 0; i < environment.len; i += strlen(environment.data + i) + 1)
                        nb_buffer_printf(ret, "%s\n", environment.data + i);
        word = NULL;
        while ((word = nb_unit_next(unit, NB_UNIT_COMMAND, word)))
                expand_word(&environment, word, ret);
        nb_buffer_append_string(ret, "\n");
        if (environment.error < 0)
                ret->error = environment.error;
}

int nb_kubelet_read_command_line(const struct nb_unit *unit, struct nb_buffer *ret) {
        char path[64], text[4096];
        FILE *file;
        size_t n;

        if (unit->state.main_pid == 0)
                return -ESRCH;
        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/cmdline", unit->state.main_pid);
        file = fopen(path, "re");
        if (!file)
                return -errno;
        while ((n = fread(text, 1, sizeof(text), file)) > 0) {
                for (size_t i = 0; i < n; i++)
                        text[i] = text[i] ? text[i] : ' ';
                nb_buffer_append(ret, text, n);
        }
        (void)fclose(file);
        return ret->len > 0 ? 0 : -ESRCH;
}

bool nb_kubelet_find_argument(const char *arguments, const char *name, char *ret, size_t size) {
        const char *text = arguments ? arguments : "";
        bool is_found = false;

        for (const char *at = text; (at = strstr(at, name)); at += strlen(name)) {
                const char *value = at + strlen(name);

                if ((*value != '=' && *value != ' ') ||
                    (at > text && isalnum((unsigned char)at[-1])))
                        continue;
                value += *value == '=' ? 1 : strspn(value, " ");
                value += strspn(value, "\"'");
                snprintf(ret, size, "%.*s", (int)strcspn(value, " \t\n\"'"), value);
                is_found = true;
        }
        return is_found;
}
