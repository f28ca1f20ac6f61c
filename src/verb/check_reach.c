/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "verb/check_internal.h"

#define PATH_SIZE 4096

/* Somebody has said more than mode and owner do: then it is not judged here. */
static bool has_access_list(const char *path) {
        return getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

/*
 * The installer is uid 0 and gid 0 in a user name space (PrivateUsers=yes) that knows no user but root and the service's own: its
 * capability counts only for what belongs to root.
 */
bool nb_check_is_readable_to_installer(const struct stat *st) {
        if (st->st_uid == 0)
                return (st->st_mode & S_IRUSR) || st->st_gid == 0;
        return st->st_mode & (st->st_gid == 0 ? S_IRGRP : S_IROTH);
}

/* Not the files in them: of those the installer leaves copies. */
static int check_folder(const char *path, mode_t wanted, struct nb_failure *f) {
        struct stat st;

        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode) || (st.st_mode & wanted) == wanted || has_access_list(path))
                return 0;
        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EACCES,
                              "'%s' has mode %04o: node-bootstrap.service, which runs as a user of its own, cannot list it; expected mode 0755", path,
                              st.st_mode & 07777);
}

static int check_file(const struct nb_check *check, const char *path, enum nb_code code, struct nb_failure *f) {
        struct stat st;

        if (check->unit.has_all_users || stat(path, &st) < 0 || nb_check_is_readable_to_installer(&st) || has_access_list(path))
                return 0;
        return nb_failure_set(f, code, EACCES,
                              "'%s' has mode %04o, owner %u and group %u: node-bootstrap.service, which has no right over files of other users than root, cannot "
                              "read it; expected owner 0 (root)",
                              path, st.st_mode & 07777, (unsigned)st.st_uid, (unsigned)st.st_gid);
}

static int is_document(const struct dirent *entry) {
        size_t len = strlen(entry->d_name);

        return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".yaml") == 0;
}

static int check_documents(const struct nb_check *check, const char *folder, struct nb_failure *f) {
        struct dirent **entries = NULL;
        char path[PATH_SIZE];
        int n, r = 0;

        n = scandir(folder, &entries, is_document, alphasort);
        for (int i = 0; i < n; i++) {
                (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
                if (r >= 0)
                        r = check_file(check, path, NB_SETTINGS_UNREADABLE, f);
                free(entries[i]);
        }
        free(entries);
        return r;
}

int nb_check_reach(const struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->settings;
        int r;

        /* Of other folders it is not told. */
        if (strcmp(check->config_directory, NB_CONFIG_DIRECTORY) != 0)
                return 0;
        r = check_folder(NB_CONFIG_DIRECTORY, S_IXOTH, f);
        if (r >= 0)
                r = check_folder(NB_CONFIG_DIRECTORY "/config.yaml.d", S_IROTH, f);
        if (r >= 0)
                r = check_file(check, NB_CONFIG_DIRECTORY "/config.yaml", NB_SETTINGS_UNREADABLE, f);
        if (r >= 0)
                r = check_documents(check, NB_CONFIG_DIRECTORY "/config.yaml.d", f);
        if (r >= 0 && settings->discovery_file[0] == '/')
                r = check_file(check, settings->discovery_file, NB_DISCOVERY_FILE_UNREADABLE, f);
        if (r >= 0 && settings->bootstrap_kubeconfig[0])
                r = check_file(check, settings->bootstrap_kubeconfig, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, f);
        return r;
}
