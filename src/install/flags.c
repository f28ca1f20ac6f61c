/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "format/kubelet_env.h"
#include "install/flags.h"

#define HOSTNAME_OVERRIDE "hostname-override"
#define OWN_MAX 4

struct flags {
        struct nb_kubelet_argument arguments[OWN_MAX + NB_SETTINGS_EXTRA_ARGS_MAX];
        size_t n;
        /* What the arguments point into. */
        char extra[NB_SETTINGS_EXTRA_ARGS_MAX][NB_SETTINGS_EXTRA_ARG_SIZE]; /* names */
        char taints[NB_SETTINGS_TAINTS_MAX * NB_SETTINGS_TAINT_SIZE];
        char endpoint[sizeof("unix://") + NB_SETTINGS_PATH_MAX];
};

static void add(struct flags *flags, const char *name, const char *value, bool is_kept_only) {
        assert(flags->n < N_ELEMENTS(flags->arguments));
        flags->arguments[flags->n++] = (struct nb_kubelet_argument){ name, value, is_kept_only };
}

/* The value, with the name in *ret_name; NULL where there is none, which is no argument. */
static const char *split(const char *text, char ret_name[static NB_SETTINGS_EXTRA_ARG_SIZE]) {
        const char *equal = strchr(text, '=');

        if (!equal || equal - text >= NB_SETTINGS_EXTRA_ARG_SIZE)
                return NULL;
        memcpy(ret_name, text, (size_t)(equal - text));
        ret_name[equal - text] = '\0';
        return equal + 1;
}

static void add_extra(struct flags *flags, const struct nb_settings *settings) {
        for (unsigned i = 0; i < settings->n_extra_args; i++) {
                const char *value = split(settings->extra_args[i], flags->extra[i]);

                if (value && strcmp(flags->extra[i], HOSTNAME_OVERRIDE) != 0)
                        add(flags, flags->extra[i], value, false);
        }
}

static bool has(const struct flags *flags, const char *name) {
        for (size_t i = 0; i < flags->n; i++)
                if (!strcmp(flags->arguments[i].name, name))
                        return true;
        return false;
}

static void join_taints(const struct nb_settings *settings, char ret[static NB_SETTINGS_TAINTS_MAX * NB_SETTINGS_TAINT_SIZE]) {
        char *end = ret;

        /* Each comma takes the place of a NUL, so that all fit. */
        for (unsigned i = 0; i < settings->n_taints; i++) {
                if (i > 0)
                        *end++ = ',';
                end = stpcpy(end, settings->taints[i]);
        }
}

/* kubeadm sorts them, so that the same settings make the same file. */
static int by_name(const void *a, const void *b) {
        return strcmp(((const struct nb_kubelet_argument *)a)->name, ((const struct nb_kubelet_argument *)b)->name);
}

int nb_flags_make(const struct nb_context *context, const char *old, size_t old_len, struct nb_buffer *ret) {
        const struct nb_settings *settings = &context->settings;
        _cleanup_(nb_freep) struct flags *flags = calloc(1, sizeof(*flags));

        if (!flags)
                return -ENOMEM;
        add_extra(flags, settings);
        if (settings->cri_socket[0] && !has(flags, "container-runtime-endpoint")) {
                (void)snprintf(flags->endpoint, sizeof(flags->endpoint), "%s%s", settings->cri_socket[0] == '/' ? "unix://" : "", settings->cri_socket);
                add(flags, "container-runtime-endpoint", flags->endpoint, false);
        }
        if (settings->n_taints > 0 && !has(flags, "register-with-taints")) {
                join_taints(settings, flags->taints);
                add(flags, "register-with-taints", flags->taints, false);
        }
        if (settings->provider_id[0] && !has(flags, "provider-id"))
                add(flags, "provider-id", settings->provider_id, false);
        add(flags, HOSTNAME_OVERRIDE, context->node_name, !context->is_override_needed);
        qsort(flags->arguments, flags->n, sizeof(flags->arguments[0]), by_name);
        return nb_kubeadm_flags_edit(old, old_len, flags->arguments, flags->n, ret);
}
