/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "os/sources.h"
#include "settings/settings.h"

#define MEMBER(member) ((struct nb_settings *)NULL)->member

/* The parser of a type does not know the size of the member that it writes. */
#define IS_OF_TYPE(member, of_type) \
        __builtin_types_compatible_p(__typeof__(member), \
                                     __typeof__(((union nb_setting_value *)NULL)->of_type))
#define SETTING(identifier, name, of_type, member, ...) \
        _Static_assert(IS_OF_TYPE(MEMBER(member), of_type), name);
#define LIST(identifier, name, of_type, member, ...) \
        _Static_assert(IS_OF_TYPE(MEMBER(member)[0], of_type), name);
#include "settings/settings.def"
#undef SETTING
#undef LIST

const struct nb_setting_row nb_setting_rows[_NB_SETTING_N] = {
#define SETTING(identifier, name, of_type, member, text, from_metadata) \
        [NB_SETTING_##identifier] = { \
                .key = (name), \
                .type = &nb_setting_type_##of_type, \
                .offset = offsetof(struct nb_settings, member), \
                .size = sizeof(MEMBER(member)), \
                .initial = (text), \
                .metadata = NB_SETTING_METADATA_##from_metadata, \
        },
#define LIST(identifier, name, of_type, member, from_metadata) \
        [NB_SETTING_##identifier] = { \
                .key = (name), \
                .type = &nb_setting_type_##of_type, \
                .offset = offsetof(struct nb_settings, member), \
                .size = sizeof(MEMBER(member)), \
                .n_offset = offsetof(struct nb_settings, n_##member), \
                .entry_size = sizeof(MEMBER(member)[0]), \
                .max = N_ELEMENTS(MEMBER(member)), \
                .metadata = NB_SETTING_METADATA_##from_metadata, \
        },
#include "settings/settings.def"
};

const char *nb_setting_key(enum nb_setting setting) {
        assert((unsigned)setting < _NB_SETTING_N);
        return nb_setting_rows[setting].key;
}

bool nb_setting_is_set(const struct nb_settings *settings, enum nb_setting setting) {
        return strcmp(settings->origin[setting], NB_SETTINGS_DEFAULT_ORIGIN) != 0;
}

static int parse_value(const struct nb_setting_row *row, const char *text, size_t len, void *ret) {
        const struct nb_setting_type *type = row->type;

        /* An empty value restores an empty default, which is a zero byte. */
        if (len == 0 && row->initial && !row->initial[0]) {
                *(char *)ret = '\0';
                return 0;
        }
        if (!type->words)
                return type->parse(text, len, ret);
        for (unsigned i = 0; i < type->n_words; i++) {
                if (strcmp(text, type->words[i]) != 0)
                        continue;
                if (type->n_words == 2)
                        *(bool *)ret = i;
                else
                        *(unsigned *)ret = i;
                return 0;
        }
        return -EINVAL;
}

static int append_entry(struct nb_settings *settings, const struct nb_setting_row *row,
                        const char *text, size_t len) {
        char *entries = (char *)settings + row->offset, *entry;
        unsigned *n = (unsigned *)(void *)((char *)settings + row->n_offset);
        int r;

        if (*n == row->max)
                return -E2BIG;
        entry = entries + *n * row->entry_size;
        r = parse_value(row, text, len, entry);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < *n; i++)
                if (row->type->is_same(entries + i * row->entry_size, entry))
                        return row->type->is_repeatable ? 0 : -EEXIST;
        (*n)++;
        return 0;
}

int nb_setting_parse(struct nb_settings *settings, enum nb_setting setting, const char *text,
                     size_t len) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        int r;

        if (row->max > 0)
                return append_entry(settings, row, text, len);
        r = parse_value(row, text, len, (char *)settings + row->offset);
        if (r >= 0 && setting == NB_SETTING_NODE_NAME)
                settings->is_node_name_lowered = strpbrk(text, NB_UPPER);
        return r;
}

void nb_settings_init(struct nb_settings *ret_settings) {
        *ret_settings = (struct nb_settings){ 0 };
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                const char *initial = nb_setting_rows[i].initial;
                int r = initial ? nb_setting_parse(ret_settings, i, initial, strlen(initial)) : 0;

                assert(r == 0);
                (void)r;
                NB_TEXT_COPY(ret_settings->origin[i], NB_SETTINGS_DEFAULT_ORIGIN);
        }
}

void nb_settings_overlay(struct nb_settings *settings, const struct nb_settings *over) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                const struct nb_setting_row *row = &nb_setting_rows[i];

                if (!nb_setting_is_set(over, i))
                        continue;
                memcpy((char *)settings + row->offset, (const char *)over + row->offset, row->size);
                if (row->max > 0)
                        memcpy((char *)settings + row->n_offset, (const char *)over + row->n_offset,
                               sizeof(unsigned));
                if (i == NB_SETTING_NODE_NAME)
                        settings->is_node_name_lowered = over->is_node_name_lowered;
                memcpy(settings->origin[i], over->origin[i], sizeof(settings->origin[0]));
        }
        memcpy(settings->ignored, over->ignored, sizeof(settings->ignored));
}

/* --- Formatting --- */

void nb_setting_format(const struct nb_settings *settings, enum nb_setting setting,
                       struct nb_buffer *ret) {
        const struct nb_setting_row *row = &nb_setting_rows[setting];
        const char *value = (const char *)settings + row->offset;
        unsigned n;

        if (row->max == 0) {
                nb_setting_type_format(row->type, value, ret);
                return;
        }
        memcpy(&n, (const char *)settings + row->n_offset, sizeof(n));
        nb_buffer_append_string(ret, "[");
        for (unsigned i = 0; i < n; i++) {
                nb_buffer_append_string(ret, i > 0 ? ", " : "");
                nb_setting_type_format(row->type, value + i * row->entry_size, ret);
        }
        nb_buffer_append_string(ret, "]");
}

void nb_settings_format(const struct nb_settings *settings, struct nb_buffer *ret) {
        const char *section = "";

        nb_buffer_append_string(ret, "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n");
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                const char *key = nb_setting_rows[i].key, *dot = strchr(key, '.');
                int section_len = dot ? (int)(dot - key) : 0;
                bool is_first;

                if (!nb_setting_is_set(settings, i) || i == NB_SETTING_BOOTSTRAP_TOKEN)
                        continue;
                is_first = dot && strncmp(section, key, (size_t)section_len + 1) != 0;
                section = key;
                nb_buffer_printf(ret, "%.*s%s%s%s: ", is_first ? section_len : 0, key,
                                 is_first ? ":\n" : "", dot ? "  " : "", dot ? dot + 1 : key);
                nb_setting_format(settings, i, ret);
                nb_buffer_append_string(ret, "\n");
        }
}

/* --- Checks of several settings --- */

static int verify_paths(const struct nb_settings *settings, struct nb_failure *f) {
        static const enum nb_setting paths[] = {
                NB_SETTING_DISCOVERY_FILE, NB_SETTING_URL_CA_FILE, NB_SETTING_BOOTSTRAP_KUBECONFIG,
                /* The paths that are written follow. */
                NB_SETTING_KUBECONFIG, NB_SETTING_CERTIFICATE_DIRECTORY, NB_SETTING_CA_FILE
        };
        const size_t first_target = 3;

        for (size_t i = first_target; i < N_ELEMENTS(paths); i++)
                for (size_t j = 0; j < i; j++) {
                        const struct nb_setting_row *target = &nb_setting_rows[paths[i]],
                                                    *other = &nb_setting_rows[paths[j]];
                        const char *path = (const char *)settings + target->offset;

                        if (strcmp(path, (const char *)settings + other->offset) == 0)
                                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                                      "%s and %s: expected different paths",
                                                      other->key, target->key);
                }
        return 0;
}

int nb_settings_verify_name(const struct nb_settings *settings, const char *name,
                            const char *source, struct nb_failure *f) {
        static const char option[] = "node-labels=", label[] = "kubernetes.io/hostname=";

        /* A template of the settings was rendered on a machine without a name. */
        if (nb_host_name_is_localhost(name))
                return nb_failure_set(f, NB_NODE_NAME_LOCALHOST, EINVAL,
                                      "the node name is '%s', from %s; expected a name that is "
                                      "unique to this machine",
                                      name, source);
        if (strlen(name) <= NB_DNS_LABEL_MAX)
                return 0;
        for (unsigned i = 0; i < settings->n_extra_args; i++) {
                const char *labels = settings->extra_args[i], *found = strstr(labels, label);

                if (strncmp(labels, option, strlen(option)) == 0 && found &&
                    strchr("=,", found[-1]) &&
                    strcspn(found + strlen(label), ",") <= NB_DNS_LABEL_MAX)
                        return 0;
        }
        return nb_failure_set(f, NB_NODE_NAME_INVALID, EINVAL,
                              "the node name from %s has %zu characters; kubelet puts it into the "
                              "label kubernetes.io/hostname, which has at most %d: set node.name "
                              "to a shorter one, or this label with node-labels in "
                              "kubelet.extraArgs, since kubelet's own files are not read for it",
                              source, strlen(name), NB_DNS_LABEL_MAX);
}

int nb_settings_verify(const struct nb_settings *settings, struct nb_failure *f) {
        static const char option[] = "provider-id=";

        for (unsigned i = 0; i < settings->n_extra_args && settings->provider_id[0]; i++)
                if (strncmp(settings->extra_args[i], option, strlen(option)) == 0)
                        return nb_failure_set(
                                f, NB_SETTINGS_INVALID, 0,
                                "expected kubelet.providerID or 'provider-id' in "
                                "kubelet.extraArgs, found both: the first in %s, the other in %s",
                                settings->origin[NB_SETTING_PROVIDER_ID],
                                settings->origin[NB_SETTING_EXTRA_ARGS]);
        if (nb_settings_verify_name(settings, settings->node_name,
                                    settings->origin[NB_SETTING_NODE_NAME], f) < 0)
                return -EINVAL;
        return verify_paths(settings, f);
}

const char *const nb_settings_folders[NB_SETTINGS_FOLDERS_N] = { "/etc/kubernetes",
                                                                 NB_KUBELET_DIRECTORY };

const char *nb_settings_folder_of(const char *path) {
        for (size_t i = 0; i < NB_SETTINGS_FOLDERS_N; i++) {
                size_t len = strlen(nb_settings_folders[i]);

                if (strncmp(path, nb_settings_folders[i], len) == 0 && strchr("/", path[len]))
                        return nb_settings_folders[i];
        }
        return NULL;
}

void nb_settings_client_ca(const struct nb_settings *settings,
                           char ret[static NB_CLIENT_CA_PATH_MAX]) {
        const char *path = settings->ca_file, *slash = strrchr(path, '/');

        snprintf(ret, NB_CLIENT_CA_PATH_MAX, "%.*s/client-%s", (int)(slash - path), path,
                 slash + 1);
}
