/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "install/flags.h"

#define KEY "KUBELET_KUBEADM_ARGS"
#define OVERRIDE "--hostname-override="
#define PROVIDER_ID "provider-id"

static bool has_extra_provider_id(const struct nb_settings *settings) {
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (strncmp(settings->extra_args[i], PROVIDER_ID "=", strlen(PROVIDER_ID "=")) == 0)
                        return true;
        return false;
}

static void append_word(struct nb_buffer *ret, const char *word, size_t len) {
        nb_buffer_printf(ret, "%s%.*s", ret->len > 0 ? " " : "", (int)len, word);
}

/* "--name=value", unless the value is empty. */
static void append_argument(struct nb_buffer *ret, const char *name, const char *value) {
        if (value[0])
                nb_buffer_printf(ret, "%s--%s=%s", ret->len > 0 ? " " : "", name, value);
}

/* The settings refuse extra arguments that duplicate another setting. Only a provider ID from
 * metadata can conflict with an extra argument, which then takes precedence, as in kubeadm. */
void nb_flags_format(const struct nb_context *context, struct nb_buffer *ret) {
        const struct nb_settings *settings = &context->settings;
        const char *const own[][2] = {
                { "container-runtime-endpoint", settings->cri_socket },
                { "hostname-override", context->is_override_needed ? context->node_name : "" },
                { PROVIDER_ID, has_extra_provider_id(settings) ? "" : settings->provider_id },
        };

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

bool nb_flags_file_is(const char *file, size_t len, const char *arguments) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_FLAGS_MAX);

        nb_flags_file_format(arguments, &text);
        return text.error >= 0 && text.len == len && memcmp(text.data, file, len) == 0;
}

/* Whether the word is in the text, with a blank, a quote or a line end on both sides. */
static bool has_word(const char *text, const char *word, size_t len) {
        static const char borders[] = " \t\n\"'=";

        for (const char *at = text; (at = memmem(at, strlen(at), word, len)); at++)
                if ((at == text || strchr(borders, at[-1])) && strchr(borders, at[len]))
                        return true;
        return false;
}

void nb_flags_find_missing(const char *text, const char *arguments, const char *node_name,
                           struct nb_buffer *ret) {
        char override[sizeof(OVERRIDE) + NB_NODE_NAME_MAX];

        for (size_t len; *arguments; arguments += len + (arguments[len] == ' ')) {
                len = strcspn(arguments, " ");
                if (!has_word(text, arguments, len))
                        append_word(ret, arguments, len);
        }
        snprintf(override, sizeof(override), OVERRIDE "%s", node_name);
        if (strstr(text, OVERRIDE) && !has_word(text, override, strlen(override)) &&
            !(ret->data && strstr(ret->data, OVERRIDE)))
                append_word(ret, override, strlen(override));
}
