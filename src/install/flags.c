/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "install/flags.h"

#define KEY "KUBELET_KUBEADM_ARGS"
#define OVERRIDE "--hostname-override="
#define PROVIDER_ID "provider-id"
#define OWN_MAX 4

struct arguments {
        char *items[OWN_MAX + NB_SETTINGS_EXTRA_ARGS_MAX]; /* "--name=value" */
        size_t n;
};

static void arguments_done(struct arguments *arguments) {
        for (size_t i = 0; i < arguments->n; i++)
                free(arguments->items[i]);
}

static int add_argument(struct arguments *arguments, const char *name, const char *separator,
                        const char *value) {
        assert(arguments->n < N_ELEMENTS(arguments->items));
        if (asprintf(&arguments->items[arguments->n], "--%s%s%s", name, separator, value) < 0)
                return -ENOMEM;
        arguments->n++;
        return 0;
}

static void join_taints(const struct nb_settings *settings,
                        char ret[static NB_SETTINGS_TAINTS_MAX * NB_SETTINGS_TAINT_SIZE]) {
        char *end = ret;

        /* Each comma replaces a NUL, so that all fit. */
        *ret = '\0';
        for (unsigned i = 0; i < settings->n_taints; i++) {
                if (i > 0)
                        *end++ = ',';
                end = stpcpy(end, settings->taints[i]);
        }
}

static bool has_extra_provider_id(const struct nb_settings *settings) {
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (strncmp(settings->extra_args[i], PROVIDER_ID "=", strlen(PROVIDER_ID "=")) == 0)
                        return true;
        return false;
}

/* The settings refuse extra arguments that set the same as one of the others. A provider ID from
 * metadata can still meet one among them, which wins, as with kubeadm. */
static int add_arguments(struct arguments *arguments, const struct nb_context *context) {
        const struct nb_settings *settings = &context->settings;
        char taints[NB_SETTINGS_TAINTS_MAX * NB_SETTINGS_TAINT_SIZE];
        const char *const own[OWN_MAX][2] = {
                { "container-runtime-endpoint", settings->cri_socket },
                { "hostname-override", context->is_override_needed ? context->node_name : "" },
                { PROVIDER_ID, has_extra_provider_id(settings) ? "" : settings->provider_id },
                { "register-with-taints", taints },
        };
        int r = 0;

        join_taints(settings, taints);
        for (size_t i = 0; i < OWN_MAX && r >= 0; i++)
                if (own[i][1][0])
                        r = add_argument(arguments, own[i][0], "=", own[i][1]);
        for (unsigned i = 0; i < settings->n_extra_args && r >= 0; i++)
                r = add_argument(arguments, settings->extra_args[i], "", "");
        return r;
}

/* By name, as kubeadm sorts them. */
static int compare_names(const void *a, const void *b) {
        const char *left = *(const char *const *)a, *right = *(const char *const *)b;
        size_t left_len = strcspn(left, "="), right_len = strcspn(right, "=");
        int r = memcmp(left, right, left_len < right_len ? left_len : right_len);

        return r != 0 ? r : (left_len > right_len) - (left_len < right_len);
}

static int append_word(struct nb_buffer *ret, const char *word, size_t len) {
        return nb_buffer_printf(ret, "%s%.*s", ret->len > 0 ? " " : "", (int)len, word);
}

int nb_flags_format(const struct nb_context *context, struct nb_buffer *ret) {
        _cleanup_(arguments_done) struct arguments arguments = { .n = 0 };
        int r;

        r = add_arguments(&arguments, context);
        if (r < 0)
                return r;
        qsort(arguments.items, arguments.n, sizeof(arguments.items[0]), compare_names);
        for (size_t i = 0; i < arguments.n; i++) {
                r = append_word(ret, arguments.items[i], strlen(arguments.items[i]));
                if (r < 0)
                        return r;
        }
        return 0;
}

int nb_flags_file_format(const char *arguments, struct nb_buffer *ret) {
        return nb_buffer_printf(ret, KEY "=\"%s\"\n", arguments);
}

bool nb_flags_file_is(const struct nb_buffer *file, const char *arguments) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);

        return nb_flags_file_format(arguments, &text) >= 0 && text.len == file->len &&
               memcmp(text.data, file->data, text.len) == 0;
}

/* Whether the word is in the text, with a blank, a quote or a line end on both sides. */
static bool has_word(const char *text, const char *word, size_t len) {
        static const char borders[] = " \t\n\"'=";

        for (const char *at = text; (at = memmem(at, strlen(at), word, len)); at++)
                if ((at == text || strchr(borders, at[-1])) && strchr(borders, at[len]))
                        return true;
        return false;
}

int nb_flags_find_missing(const struct nb_buffer *file, const char *arguments,
                          const char *node_name, struct nb_buffer *ret) {
        char override[sizeof(OVERRIDE) + NB_NODE_NAME_MAX];
        const char *text = file->data ? file->data : "";
        int r;

        for (size_t len; *arguments; arguments += len + (arguments[len] == ' ')) {
                len = strcspn(arguments, " ");
                if (has_word(text, arguments, len))
                        continue;
                r = append_word(ret, arguments, len);
                if (r < 0)
                        return r;
        }
        snprintf(override, sizeof(override), OVERRIDE "%s", node_name);
        if (!strstr(text, OVERRIDE) || has_word(text, override, strlen(override)) ||
            (ret->data && strstr(ret->data, OVERRIDE)))
                return 0;
        return append_word(ret, override, strlen(override));
}
