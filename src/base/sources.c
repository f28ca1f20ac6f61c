/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"

/* strerror() is not for threads, and curl may run one for name resolution: %m takes errno. */
static int unreadable(const char *origin, int error, struct nb_failure *f) {
        errno = error;
        if (error == EFBIG)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, error, "%s is larger than %d KiB", origin,
                                      NB_CONFIG_MAX / 1024);
        if (error == EBADF)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, error, "%s is not a regular file", origin);
        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, error, "%s cannot be read: %m", origin);
}

/* Of the network side; -1 on the root side. */
static int given_fd = -1;

void nb_sources_use_given(int runtime_fd) {
        given_fd = runtime_fd;
}

int nb_given_name(const char *path, char ret_name[static NAME_MAX + 1]) {
        char *p = stpcpy(ret_name, NB_GIVEN_PREFIX);

        if (strlen(path) > NB_GIVEN_PATH_MAX)
                return -ENAMETOOLONG;
        for (path += strspn(path, "/"); *path; path++) {
                unsigned char c = (unsigned char)*path;

                if (p - ret_name > NAME_MAX - 5)
                        return -ENAMETOOLONG;
                if (c == '/')
                        *p++ = '-';
                else if (isalnum(c) || strchr("_.:", c))
                        *p++ = (char)c;
                else
                        p += sprintf(p, "\\x%02x", c);
        }
        *p = '\0';
        return 0;
}

static bool is_given(const char *name) {
        return !strncmp(name, NB_GIVEN_PREFIX, strlen(NB_GIVEN_PREFIX)) || !strcmp(name, NB_GIVEN_TEMPORARY);
}

int nb_sources_forget_given(int runtime_fd) {
        struct dirent *entry;
        DIR *folder;
        int fd, r = 0;

        fd = openat(runtime_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        folder = fdopendir(fd);
        if (!folder) {
                r = -errno;
                (void)close(fd);
                return r;
        }
        while ((errno = 0, entry = readdir(folder)))
                if (is_given(entry->d_name) && unlinkat(runtime_fd, entry->d_name, 0) < 0)
                        r = -errno;
        if (errno != 0)
                r = -errno;
        (void)closedir(folder);
        return r;
}

/* The size is that of now; a file that grows meanwhile is read to its end, as far as there is room. */
static int read_all(int fd, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct stat st;
        ssize_t n;
        int r;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode))
                return -EBADF;
        if ((uint64_t)st.st_size > max)
                return -EFBIG;
        r = nb_secret_init(&secret, (size_t)st.st_size + 1);
        if (r < 0)
                return r;
        while (secret.len < secret.size && (n = read(fd, secret.data + secret.len, secret.size - secret.len)) != 0) {
                if (n < 0)
                        return -errno;
                secret.len += (size_t)n;
        }
        if (secret.len > (size_t)st.st_size)
                return -EAGAIN;
        secret.data[secret.len] = '\0';
        *ret = secret;
        secret = (struct nb_secret)NB_SECRET_INIT;
        if (ret_stat)
                *ret_stat = st;
        return 0;
}

int nb_sources_read(const char *path, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        char name[NAME_MAX + 1];

        if (given_fd >= 0 && nb_given_name(path, name) >= 0)
                fd = openat(given_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
        /* Settings may be links (configuration managers make them), so the path is opened with links followed. */
        if (fd < 0)
                fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : read_all(fd, max, ret, ret_stat);
}

static int each_file(const char *path, nb_config_each each, void *userdata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_config_document document = { .origin = path, .path = path };
        struct stat st = { 0 };
        int r;

        r = nb_sources_read(path, NB_CONFIG_MAX, &text, &st);
        /* A link that leads nowhere is somebody's setting that would not take effect. */
        if (r == -ENOENT && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        if (r < 0)
                return unreadable(path, -r, f);
        document.data = text.data;
        document.len = text.len;
        document.is_exposed = st.st_mode & 0007;
        return each(userdata, &document, f);
}

static int each_named(const char *folder, const char *name, nb_config_each each, void *userdata, struct nb_failure *f) {
        _cleanup_(nb_freep) char *path = NULL;

        if (asprintf(&path, "%s/%s", folder, name) < 0)
                return nb_failure_set_memory(f);
        return each_file(path, each, userdata, f);
}

static int is_yaml(const struct dirent *entry) {
        size_t len = strlen(entry->d_name);

        return entry->d_name[0] != '.' && len > 5 && !strcmp(entry->d_name + len - 5, ".yaml");
}

static int by_name(const struct dirent **a, const struct dirent **b) {
        return strcmp((*a)->d_name, (*b)->d_name);
}

static int each_in_folder(const char *folder, nb_config_each each, void *userdata, struct nb_failure *f) {
        struct dirent **entries = NULL;
        int n, r = 0;

        n = scandir(folder, &entries, is_yaml, by_name);
        if (n < 0)
                return errno == ENOENT ? 0 : unreadable(folder, errno, f);
        if (n > NB_CONFIG_FILES_MAX)
                r = nb_failure_set(f, NB_SETTINGS_UNREADABLE, E2BIG, "%s holds %d files; %d at the most are read", folder, n,
                                   NB_CONFIG_FILES_MAX);
        for (int i = 0; i < n; i++) {
                if (r >= 0)
                        r = each_named(folder, entries[i]->d_name, each, userdata, f);
                free(entries[i]);
        }
        free(entries);
        return r;
}

static const char *const *store_folders;

void nb_sources_use_stores(const char *const *folders) {
        store_folders = folders;
}

static int read_below(const char *folder, const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_folder_open(folder, &fd);

        return r < 0 ? r : nb_file_read_secret(fd, name, max, ret, ret_stat);
}

int nb_sources_read_stored(const char *folder, const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        _cleanup_(nb_closep) int folder_fd = -1;
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_folder_open(folder, &folder_fd);

        if (r < 0)
                return r;
        fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        return fd < 0 ? -errno : read_all(fd, max, ret, ret_stat);
}

/* What a store holds is delivered for the service alone, whatever its mode is there. */
static int read_stored(const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        struct stat st = { 0 };
        int r = -ENOENT;

        for (size_t i = 0; r == -ENOENT && store_folders && store_folders[i]; i++)
                r = nb_sources_read_stored(store_folders[i], name, max, ret, &st);
        if (r < 0)
                return r;
        st.st_mode &= ~(mode_t)0007;
        *ret_stat = st;
        return r;
}

static int read_credential(const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat) {
        const char *folder = getenv("CREDENTIALS_DIRECTORY");

        return folder ? read_below(folder, name, max, ret, ret_stat) : read_stored(name, max, ret, ret_stat);
}

static int each_credential(nb_config_each each, void *userdata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_config_document document = { .origin = "credential '" NB_CREDENTIAL_CONFIG "'" };
        struct stat st;
        int r;

        r = read_credential(NB_CREDENTIAL_CONFIG, NB_CONFIG_MAX, &text, &st);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unreadable(document.origin, -r, f);
        document.data = text.data;
        document.len = text.len;
        document.is_exposed = st.st_mode & 0007;
        return each(userdata, &document, f);
}

int nb_sources_config(const char *directory, nb_config_each each, void *userdata, struct nb_failure *f) {
        _cleanup_(nb_freep) char *folder = NULL;
        int r;

        if (!directory)
                return each_credential(each, userdata, f);
        if (asprintf(&folder, "%s/config.yaml.d", directory) < 0)
                return nb_failure_set_memory(f);
        r = each_named(directory, "config.yaml", each, userdata, f);
        if (r < 0)
                return r;
        r = each_in_folder(folder, each, userdata, f);
        if (r < 0)
                return r;
        return each_credential(each, userdata, f);
}

int nb_sources_credential(const char *name, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct stat st;
        int r;

        r = read_credential(name, max, &secret, &st);
        if (r == -ENOENT)
                return r;
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_TOKEN_MALFORMED, -r, "credential '%s' is not a regular file", name);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, r == -EFBIG ? NB_TOKEN_MALFORMED : NB_TOKEN_MISSING, -r,
                                      "credential '%s' cannot be read: %m", name);
        }
        if (st.st_mode & 0007)
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "credential '%s' has mode %04o; expected no access for others", name,
                                      st.st_mode & 07777);
        *ret = secret;
        secret = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

int nb_sources_folder(const char *variable, int *ret_fd, struct nb_failure *f) {
        const char *path = getenv(variable);
        int r;

        if (!path || path[0] != '/')
                return nb_failure_set(f, NB_USAGE, EINVAL, "$%s is not set to an absolute path; systemd sets it for the unit",
                                      variable);
        r = nb_folder_open(path, ret_fd);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_USAGE, -r, "$%s: '%s' cannot be opened: %m", variable, path);
        }
        return 0;
}

int nb_sources_host_name(char ret[static HOST_NAME_MAX + 1], struct nb_failure *f) {
        ret[HOST_NAME_MAX] = '\0';
        if (gethostname(ret, HOST_NAME_MAX + 1) < 0)
                return nb_failure_set(f, NB_INTERNAL, errno, "the host name cannot be read: %m");
        return 0;
}
