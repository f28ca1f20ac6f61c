/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/macro.h"
#include "install/flags.h"
#include "install/kubelet_name.h"
#include "install/target.h"

#define FILE_MAX (64 * 1024)
#define DROP_INS_MAX 64
#define LINE_SIZE 8192
#define UNIT "kubelet.service"

/* As systemd looks them up, strongest first. */
static const char *const unit_folders[] = {
        "/etc/systemd/system",
        "/run/systemd/system",
        "/usr/local/lib/systemd/system",
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
};

/* kubelet takes '_' for '-' in the names of its options. */
static size_t option_length(const char *text) {
        static const char option[] = "--hostname-override";

        for (size_t i = 0; i < sizeof(option) - 1; i++)
                if (text[i] != option[i] && (i < 2 || text[i] != '_' || option[i] != '-'))
                        return 0;
        return sizeof(option) - 1;
}

bool nb_override_find(const char *text, char ret_value[static NB_OVERRIDE_SIZE]) {
        bool is_found = false;

        for (const char *p = strstr(text, "--"); p; p = strstr(p + 1, "--")) {
                size_t len = option_length(p);
                const char *value = p + len;

                if (len == 0 || !*value || !strchr("= \t", *value))
                        continue;
                value += *value == '=' ? 1 : strspn(value, " \t");
                if (*value == '"' || *value == '\'')
                        value++;
                (void)snprintf(ret_value, NB_OVERRIDE_SIZE, "%.*s", (int)strcspn(value, " \t\r\n\"'\\"), value);
                is_found = true;
        }
        return is_found;
}

/* One logical line, without the backslashes that continue it; cut at the size. Returns where the next one begins. */
static const char *next_line(const char *text, char ret[static LINE_SIZE]) {
        size_t n = 0;

        for (; *text && *text != '\n'; text++) {
                char c = *text;

                if (c == '\\' && text[1] == '\n') {
                        text++;
                        c = ' ';
                }
                if (n < LINE_SIZE - 1)
                        ret[n++] = c;
        }
        ret[n] = '\0';
        return *text ? text + 1 : text;
}

/* The value of `key`, or NULL. */
static const char *value_of(const char *line, const char *key) {
        size_t len = strlen(key);

        if (strncmp(line, key, len) != 0)
                return NULL;
        line += len + strspn(line + len, " \t");
        return *line == '=' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static void read_exec(struct nb_kubelet_unit *unit, const char *place, const char *value) {
        /* An empty one drops those before it. */
        unit->is_there = *value != '\0';
        unit->hands_name = strstr(value, "KUBELET_KUBEADM_ARGS") || strstr(value, "KUBELET_NODE_NAME");
        unit->exec[0] = '\0';
        if (nb_override_find(value, unit->exec)) {
                unit->hands_name = true;
                (void)snprintf(unit->exec_place, sizeof(unit->exec_place), "%s", place);
        }
}

void nb_kubelet_unit_read(struct nb_kubelet_unit *unit, const char *place, const char *text) {
        char line[LINE_SIZE];
        bool is_service = false;

        while (*text) {
                const char *start = line, *value;

                text = next_line(text, line);
                start += strspn(start, " \t");
                if (*start == '[')
                        is_service = !strncmp(start, "[Service]", strlen("[Service]"));
                if (!is_service)
                        continue;
                value = value_of(start, "ExecStart");
                if (value)
                        read_exec(unit, place, value);
                value = value_of(start, "Environment");
                if (value && nb_override_find(value, unit->variable))
                        (void)snprintf(unit->variable_place, sizeof(unit->variable_place), "%s", place);
        }
}

static bool read_text(const struct nb_context *context, const char *path, struct nb_secret *ret) {
        return nb_target_read(context->root_fd, path, FILE_MAX, ret) >= 0;
}

static void read_unit(const struct nb_context *context, const char *path, struct nb_kubelet_unit *unit) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;

        if (read_text(context, path, &text))
                nb_kubelet_unit_read(unit, path, text.data);
}

struct drop_ins {
        char names[DROP_INS_MAX][NAME_MAX + 1];
        const char *folders[DROP_INS_MAX];
        size_t order[DROP_INS_MAX];
        size_t n;
};

/* One that a stronger folder has already stands for both. */
static bool has_name(const struct drop_ins *drop_ins, const char *name) {
        for (size_t i = 0; i < drop_ins->n; i++)
                if (!strcmp(drop_ins->names[i], name))
                        return true;
        return false;
}

static void list_drop_ins(const struct nb_context *context, const char *folder, struct drop_ins *drop_ins) {
        _cleanup_(nb_folder_closep) DIR *stream = NULL;
        _cleanup_(nb_closep) int fd = -1;
        char path[PATH_MAX];
        struct dirent *entry;

        (void)snprintf(path, sizeof(path), "%s/" UNIT ".d", folder);
        fd = nb_target_open(context->root_fd, path, O_RDONLY | O_DIRECTORY);
        stream = fd < 0 ? NULL : nb_folder_list(fd);
        while (stream && drop_ins->n < DROP_INS_MAX && (entry = readdir(stream))) {
                size_t len = strlen(entry->d_name);

                if (len <= 5 || strcmp(entry->d_name + len - 5, ".conf") != 0 || has_name(drop_ins, entry->d_name))
                        continue;
                memcpy(drop_ins->names[drop_ins->n], entry->d_name, len + 1);
                drop_ins->folders[drop_ins->n++] = folder;
        }
}

static void read_drop_ins(const struct nb_context *context, struct nb_kubelet_unit *unit) {
        _cleanup_(nb_freep) struct drop_ins *drop_ins = calloc(1, sizeof(*drop_ins));
        char path[PATH_MAX];

        if (!drop_ins)
                return;
        for (size_t i = 0; i < N_ELEMENTS(unit_folders); i++)
                list_drop_ins(context, unit_folders[i], drop_ins);
        /* By name, whichever folder they are in. */
        for (size_t i = 0; i < drop_ins->n; i++) {
                size_t at = i;

                for (; at > 0 && strcmp(drop_ins->names[drop_ins->order[at - 1]], drop_ins->names[i]) > 0; at--)
                        drop_ins->order[at] = drop_ins->order[at - 1];
                drop_ins->order[at] = i;
        }
        for (size_t i = 0; i < drop_ins->n; i++) {
                size_t which = drop_ins->order[i];

                (void)snprintf(path, sizeof(path), "%s/" UNIT ".d/%s", drop_ins->folders[which], drop_ins->names[which]);
                read_unit(context, path, unit);
        }
}

static void load_unit(const struct nb_context *context, struct nb_kubelet_unit *unit) {
        char path[PATH_MAX];

        for (size_t i = 0; i < N_ELEMENTS(unit_folders); i++) {
                _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;

                (void)snprintf(path, sizeof(path), "%s/" UNIT, unit_folders[i]);
                if (!read_text(context, path, &text))
                        continue;
                nb_kubelet_unit_read(unit, path, text.data);
                break;
        }
        read_drop_ins(context, unit);
}

/* A variable or a specifier of systemd says nothing of its value. Returns whether there is something to go by. */
static bool compare(const struct nb_context *context, const char *place, const char *value) {
        char name[NB_NODE_NAME_MAX + 1];

        if (!value[0] || strpbrk(value, "$%"))
                return value[0];
        if (nb_node_name_parse(value, strlen(value), name) < 0 || strcmp(name, context->node_name) != 0)
                nb_log(LOG_WARNING, NB_NODE_NAME_DIFFERS,
                       "'%s' makes kubelet take the name '%s'; its certificate is for '%s'", place, value, context->node_name);
        return true;
}

static bool compare_file(const struct nb_context *context, const char *path) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char value[NB_OVERRIDE_SIZE];

        return read_text(context, path, &text) && nb_override_find(text.data, value) && compare(context, path, value);
}

void nb_kubelet_name_look(const struct nb_context *context, bool is_flags_kept) {
        struct nb_kubelet_unit unit = { 0 };
        bool is_handed;

        load_unit(context, &unit);
        is_handed = compare(context, unit.exec_place, unit.exec);
        is_handed = compare(context, unit.variable_place, unit.variable) || is_handed;
        is_handed = compare_file(context, "/etc/default/kubelet") || is_handed;
        is_handed = compare_file(context, "/etc/sysconfig/kubelet") || is_handed;
        if (is_flags_kept)
                is_handed = compare_file(context, NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE) || is_handed;
        if (unit.is_there && context->is_override_needed && !unit.hands_name && !is_handed)
                nb_log(LOG_WARNING, NB_NODE_NAME_DIFFERS,
                       UNIT " gives no name to kubelet, which takes that of the host, '%s'; its certificate is for '%s'",
                       context->host_name, context->node_name);
}
