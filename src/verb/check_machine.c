/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/process.h"
#include "base/text.h"
#include "base/unit.h"
#include "verb/check_internal.h"

#define UNIT "node-bootstrap.service"
#define KUBELET "kubelet.service"
#define UNIT_MAX ((size_t)256 * 1024) /* bytes of what systemctl says of it */

bool nb_check_is_machine(const struct nb_check *check) {
        return !check->is_local && check->has_settings && nb_check_is_here(check);
}

/* --- What systemd says of a unit --- */

/* 1: there it is in `ret_text`, which has been made with room for it; 0: systemd does not run, or says nothing of it. -ENOMEM. */
static int show_unit(const char *unit, const char *properties, struct nb_secret *ret_text) {
        const char *const argv[] = { "systemctl", "show", "--no-pager", properties, unit, NULL };
        struct nb_process_result result = { 0 };

        if (nb_secret_init(ret_text, UNIT_MAX) < 0)
                return -ENOMEM;
        return nb_systemd_is_running() && nb_process_run(argv, NULL, 0, ret_text, &result) >= 0 && result.status == 0;
}

/* Of "Name=a b c", the line; NULL when there is none. */
static const char *find_property(const char *text, const char *name, size_t *ret_len) {
        size_t len = strlen(name);

        for (const char *line = text; *line; line += strcspn(line, "\n") + (line[strcspn(line, "\n")] == '\n')) {
                if (strncmp(line, name, len) != 0 || line[len] != '=')
                        continue;
                *ret_len = strcspn(line, "\n") - len - 1;
                return line + len + 1;
        }
        return NULL;
}

static bool has_word(const char *text, const char *property, const char *word) {
        size_t len = 0, word_len = strlen(word);
        const char *at = find_property(text, property, &len), *end = at ? at + len : NULL;

        while (at && at < end) {
                size_t n = strcspn(at, " \n");

                if (n == word_len && memcmp(at, word, n) == 0)
                        return true;
                at += n + 1;
        }
        return false;
}

static bool is_mentioned(const char *text, const char *property, const char *path) {
        size_t len = 0;
        const char *at = find_property(text, property, &len);

        return at && memmem(at, len, path, strlen(path));
}

/* --- What this process may --- */

static void cut_last(char *path) {
        char *slash = strrchr(path, '/');

        if (!slash || slash == path)
                (void)strcpy(path, "/");
        else
                *slash = '\0';
}

/* What is there of the way to it. */
static int find_existing(const char *path, char ret[static NB_SETTINGS_PATH_MAX], struct stat *ret_stat) {
        (void)snprintf(ret, NB_SETTINGS_PATH_MAX, "%s", path);
        while (stat(ret, ret_stat) < 0) {
                if (errno != ENOENT || strcmp(ret, "/") == 0)
                        return -errno;
                cut_last(ret);
        }
        return 0;
}

/* 0; 1: this user is not told. -errno, with the place in `ret_where`. */
static int try_folder(const char *path, char ret_where[static NB_SETTINGS_PATH_MAX]) {
        struct statvfs file_system;
        struct stat st;
        int r = find_existing(path, ret_where, &st);

        if (r < 0)
                return geteuid() != 0 && r == -EACCES ? 1 : r;
        if (!S_ISDIR(st.st_mode))
                return -ENOTDIR;
        if (statvfs(ret_where, &file_system) == 0 && (file_system.f_flag & ST_RDONLY))
                return -EROFS;
        if (access(ret_where, W_OK | X_OK) == 0)
                return 0;
        return geteuid() != 0 ? 1 : -errno;
}

/* --- The sandbox of the service --- */

static bool is_below(const char *path, const char *folder) {
        size_t len = strlen(folder);

        return !strcmp(folder, "/") || (strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/'));
}

/* Of the paths in a property, how long the longest one is that `path` is below: what is deeper is stronger. 0: there is none. */
static size_t find_cover(const char *text, const char *property, const char *path, bool is_existing) {
        size_t len = 0, longest = 0;
        const char *at = find_property(text, property, &len), *end = at ? at + len : NULL;

        while (at && at < end) {
                size_t n = strcspn(at, " \n"), prefix = strspn(at, "-+");
                char name[NB_SETTINGS_PATH_MAX] = "", real[PATH_MAX];
                const char *folder = name;

                if (prefix < n)
                        nb_text_copy_line(at + prefix, n - prefix, name, sizeof(name));
                if (is_existing)
                        folder = realpath(name, real);
                if (folder && is_below(path, folder) && strlen(folder) > longest)
                        longest = strlen(folder);
                at += n + 1;
        }
        return longest;
}

static bool is_writable(const char *unit, const char *path, bool is_existing) {
        return find_cover(unit, "ReadWritePaths", path, is_existing) > find_cover(unit, "ReadOnlyPaths", path, is_existing);
}

/*
 * access(2) asks for this process, and the installer runs under ProtectSystem=strict: what is below none of the ReadWritePaths= that are there is
 * read-only for it, and it would say so only after the request. Other values, ProtectHome= and the like are not looked at.
 */
static int check_sandbox(const char *unit, const char *what, const char *path, struct nb_failure *f) {
        char where[NB_SETTINGS_PATH_MAX], real[PATH_MAX];
        struct stat st;

        if (!has_word(unit, "ProtectSystem", "strict") || find_existing(path, where, &st) < 0 || !realpath(where, real) || is_writable(unit, real, true))
                return 0;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, EROFS, "%s, '%s': '%s' is read-only for " UNIT ", %s", what, path, where,
                              is_writable(unit, path, false) ? "since the folder below it that ReadWritePaths= names is not there when it starts" : "since its ReadWritePaths= name nothing that this is below");
}

/* "" where it is not known. -ENOMEM */
static int read_sandbox(struct nb_secret *ret_text) {
        int r = show_unit(UNIT, "--property=LoadState,ProtectSystem,ReadWritePaths,ReadOnlyPaths", ret_text);

        /* systemd puts what has blanks in quotes, and such a list is not taken apart here. */
        if (r == 0 || (r > 0 && (!has_word(ret_text->data, "LoadState", "loaded") || strchr(ret_text->data, '"'))))
                ret_text->data[0] = '\0';
        return r;
}

/* --- Files and folders --- */

static int check_folder(const struct nb_check *check, const char *what, const char *path, enum nb_code code, struct nb_failure *f) {
        char where[NB_SETTINGS_PATH_MAX];
        int r = try_folder(path, where);

        errno = -r;
        if (r < 0)
                return nb_failure_set(f, code, -r, "%s, '%s': '%s': %m", what, path, where);
        if (r > 0)
                nb_check_row(check, NB_CHECK_DOUBT, "%s: whether '%s' can be written is not known: run as root", what, path);
        else
                nb_check_row(check, NB_CHECK_GOOD, "%s: '%s' can be %s", what, path, strcmp(path, where) == 0 ? "written" : "made");
        return 0;
}

/* A node on such a file system has to join at each start, and its token may have expired by then. */
static void check_lasting(const struct nb_check *check, const char *path) {
        char where[NB_SETTINGS_PATH_MAX];
        struct statfs file_system;
        struct stat st;

        if (find_existing(path, where, &st) < 0 || statfs(where, &file_system) < 0)
                return;
        if (file_system.f_type == TMPFS_MAGIC || file_system.f_type == RAMFS_MAGIC)
                nb_check_row(check, NB_CHECK_DOUBT, "certificate: '%s' is in memory: this machine has to join anew at each start", path);
}

static int check_target(const struct nb_check *check, const char *unit, const char *what, const char *folder, struct nb_failure *f) {
        int r = check_sandbox(unit, what, folder, f);

        return r < 0 ? r : check_folder(check, what, folder, NB_TARGET_UNWRITABLE, f);
}

static int check_parent(const struct nb_check *check, const char *unit, const char *what, const char *path, struct nb_failure *f) {
        char folder[NB_SETTINGS_PATH_MAX];

        (void)snprintf(folder, sizeof(folder), "%s", path);
        cut_last(folder);
        return check_target(check, unit, what, folder, f);
}

int nb_check_files(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->settings;
        const char *state = getenv("STATE_DIRECTORY");
        _cleanup_(nb_secret_done) struct nb_secret unit = NB_SECRET_INIT;
        int r;

        if (read_sandbox(&unit) < 0)
                return nb_failure_set_memory(f);
        r = check_parent(check, unit.data, "kubeconfig", settings->kubeconfig, f);
        if (r >= 0)
                r = check_parent(check, unit.data, "CA", settings->ca_file, f);
        if (r >= 0)
                r = check_target(check, unit.data, "certificate", settings->certificate_directory, f);
        if (r >= 0)
                r = check_folder(check, "state", state ? state : NB_CHECK_STATE, NB_STATE_UNWRITABLE, f);
        if (r >= 0)
                check_lasting(check, settings->certificate_directory);
        return r;
}

/* --- kubelet's unit --- */

static void print_unit(const struct nb_check *check, const char *text) {
        const char *kubeconfig = check->settings.kubeconfig;

        if (!has_word(text, "LoadState", "loaded")) {
                nb_check_row(check, NB_CHECK_DOUBT, "kubelet: there is no " KUBELET " that systemd can load");
                return;
        }
        if (has_word(text, "After", UNIT))
                nb_check_row(check, NB_CHECK_GOOD, "kubelet: starts after " UNIT);
        else
                nb_check_row(check, NB_CHECK_DOUBT, "kubelet: not ordered after " UNIT ", so that it does not wait for the join: `systemctl enable " UNIT "`");
        if (has_word(text, "Requires", UNIT) || has_word(text, "BindsTo", UNIT))
                nb_check_row(check, NB_CHECK_GOOD, "kubelet: does not start where the join failed");
        else
                nb_check_row(check, NB_CHECK_DOUBT, "kubelet: does not require " UNIT ", so that it starts also where the join failed: `systemctl enable " UNIT "`");
        if (is_mentioned(text, "ExecStart", kubeconfig) || is_mentioned(text, "Environment", kubeconfig))
                nb_check_row(check, NB_CHECK_GOOD, "kubelet: reads '%s'", kubeconfig);
        else
                nb_check_row(check, NB_CHECK_DOUBT, "kubelet: neither its command line nor its environment in the unit has '%s' (kubelet.kubeconfig)", kubeconfig);
}

int nb_check_kubelet(struct nb_check *check, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (!nb_systemd_is_running()) {
                nb_check_row(check, NB_CHECK_NOTE, "kubelet: not looked at, since systemd does not run here");
                return 0;
        }
        r = show_unit(KUBELET, "--property=LoadState,After,Requires,BindsTo,ExecStart,Environment", &text);
        if (r < 0)
                return nb_failure_set_memory(f);
        if (r == 0)
                nb_check_row(check, NB_CHECK_DOUBT, "kubelet: systemd says nothing of " KUBELET);
        else
                print_unit(check, text.data);
        return 0;
}
