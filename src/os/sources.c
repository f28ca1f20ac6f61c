/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/process.h"
#include "os/sources.h"
#include "os/stop.h"

static int set_unreadable(const char *origin, int r, struct nb_failure *f) {
        origin = nb_text_shown(origin);
        if (r == -EFBIG)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "%s is larger than %d KiB",
                                      origin, NB_CONFIG_MAX / 1024);
        if (r == -EBADF)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "%s is not a regular file",
                                      origin);
        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "%s cannot be read: %m", origin);
}

#define NAMED(credential) [NB_CREDENTIAL_##credential] = NB_CREDENTIAL_##credential##_NAME
const char *const nb_credential_names[_NB_CREDENTIAL_N] = {
        NAMED(TOKEN),  NAMED(TLS_BOOTSTRAP_TOKEN), NAMED(KUBECONFIG), NAMED(CLUSTER_INFO),
        NAMED(CONFIG),
};

void nb_sources_init(struct nb_sources *ret_sources, const char *config_directory) {
        *ret_sources = (struct nb_sources){
                .config_directory = config_directory,
                .credentials_directory = getenv("CREDENTIALS_DIRECTORY"),
        };
}

/* --- Credential stores --- */

const struct nb_store nb_stores[NB_STORES_N] = {
        { "/run/credentials/@system", false },
        { "/etc/credstore", false },
        { "/run/credstore", false },
        { "/usr/local/lib/credstore", false },
        { "/usr/lib/credstore", false },
        { "/run/credentials/@encrypted", true },
        { "/etc/credstore.encrypted", true },
        { "/run/credstore.encrypted", true },
        { "/usr/local/lib/credstore.encrypted", true },
        { "/usr/lib/credstore.encrypted", true },
};

int nb_store_look(const char *folder) {
        _cleanup_(nb_closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        return fd < 0 || fstatat(fd, ".", &st, 0) < 0 ? -errno : 0;
}

const struct nb_store *nb_store_find(const char *name) {
        for (size_t i = 0; i < NB_STORES_N; i++) {
                _cleanup_(nb_closep) int fd = -1;
                struct stat st;

                /* access(2) would ignore capabilities. To systemd, too, a dangling link is none. */
                if (nb_folder_open(nb_stores[i].folder, &fd) >= 0 &&
                    (fstatat(fd, name, &st, 0) >= 0 || errno != ENOENT))
                        return &nb_stores[i];
        }
        return NULL;
}

void nb_sources_find_stores(struct nb_sources *sources) {
        size_t n = 0;

        for (size_t i = 0; i < NB_STORES_N; i++)
                if (!nb_stores[i].is_sealed && nb_store_look(nb_stores[i].folder) >= 0)
                        sources->stores[n++] = nb_stores[i].folder;
        sources->stores[n] = NULL;
}

/* --- What is kept in memory --- */

struct nb_kept {
        struct nb_kept *next;
        enum nb_source_kind kind;
        int r; /* result of reading the source */
        mode_t mode;
        struct nb_secret data;
        char name[];
};

void nb_sources_done(struct nb_sources *sources) {
        while (sources->kept) {
                struct nb_kept *kept = sources->kept;

                sources->kept = kept->next;
                nb_secret_done(&kept->data);
                free(kept);
        }
        sources->is_keeping = false;
}

/* Returns the newest entry with this name, or NULL. */
static const struct nb_kept *find_kept(const struct nb_sources *sources, enum nb_source_kind kind,
                                       const char *name) {
        const struct nb_kept *kept = sources->kept;

        while (kept && (kept->kind != kind || strcmp(kept->name, name) != 0))
                kept = kept->next;
        return kept;
}

bool nb_sources_is_sealed(const struct nb_sources *sources, const char *name) {
        const struct nb_kept *kept = find_kept(sources, NB_SOURCE_CREDENTIAL, name);
        const struct nb_store *store;

        if (kept && kept->r >= 0)
                return false;
        store = nb_store_find(name);
        return store && store->is_sealed;
}

static int read_kept(const struct nb_kept *kept, size_t max, struct nb_secret *ret,
                     struct stat *ret_stat) {
        if (kept->r < 0)
                return kept->r;
        if (kept->data.len > max)
                return -EFBIG;
        if (ret_stat)
                *ret_stat = (struct stat){ .st_mode = kept->mode };
        return nb_secret_copy(ret, kept->data.data, kept->data.len);
}

/* `r` is the result of reading the source; `data` is NULL if there is none. 0 or -ENOMEM. */
static int add_kept(struct nb_sources *sources, enum nb_source_kind kind, const char *name, int r,
                    const struct nb_secret *data, mode_t mode) {
        size_t name_size = strlen(name) + 1;
        struct nb_kept *kept = calloc(1, sizeof(*kept) + name_size);

        if (!kept)
                return -ENOMEM;
        if (data && nb_secret_copy(&kept->data, data->data, data->len) < 0) {
                free(kept);
                return -ENOMEM;
        }
        kept->kind = kind;
        kept->r = r;
        kept->mode = mode;
        memcpy(kept->name, name, name_size);
        kept->next = sources->kept;
        sources->kept = kept;
        return 0;
}

/* Keeps the result `r` of reading a source, and its data. Returns `r`, or -ENOMEM. */
static int keep_result(struct nb_sources *sources, enum nb_source_kind kind, const char *name,
                       int r, const struct nb_secret *data, mode_t mode) {
        if (!sources->is_keeping || r == -ENOMEM)
                return r;
        return add_kept(sources, kind, name, r, r < 0 ? NULL : data, mode) < 0 ? -ENOMEM : r;
}

int nb_sources_put(struct nb_sources *sources, enum nb_source_kind kind, const char *name,
                   mode_t mode, const struct nb_secret *value) {
        return add_kept(sources, kind, name, value ? 0 : -ENOENT, value, mode);
}

const struct nb_secret *nb_sources_find(const struct nb_sources *sources, enum nb_source_kind kind,
                                        const char *name) {
        const struct nb_kept *kept = find_kept(sources, kind, name);

        return kept && kept->r >= 0 ? &kept->data : NULL;
}

/* --- What is passed to another process --- */

#define PASSED_MAX 256 /* entries */

/* The head of an entry. The name with its NUL and the data follow. */
struct passed {
        uint32_t kind, mode, name_size, len;
        int32_t r;
};

int nb_sources_pass(const struct nb_sources *sources, int *ret_fd) {
        _cleanup_(nb_closep) int fd = nb_memory_file_open("sources");
        char build[NB_BUILD_SIZE];
        size_t total = 0;

        nb_build_format(build);
        if (fd < 0 || write(fd, build, sizeof(build)) != sizeof(build))
                return fd < 0 ? fd : -EIO;
        for (struct nb_kept *kept = sources->kept; kept; kept = kept->next) {
                struct passed head = { kept->kind, kept->mode, (uint32_t)strlen(kept->name) + 1,
                                       (uint32_t)kept->data.len, kept->r };
                const struct iovec parts[] = { { &head, sizeof(head) },
                                               { kept->name, head.name_size },
                                               { kept->data.data, head.len } };
                size_t size = sizeof(head) + head.name_size + head.len;

                if (find_kept(sources, kept->kind, kept->name) != kept)
                        continue;
                total += size;
                if (total > NB_SOURCES_MAX)
                        return -E2BIG;
                if (writev(fd, parts, N_ELEMENTS(parts)) != (ssize_t)size)
                        return -EIO;
        }
        if (lseek(fd, 0, SEEK_SET) < 0 ||
            fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
                return -errno;
        *ret_fd = TAKE_FD(fd);
        return 0;
}

/* Returns the size of the entry; -EBADMSG; -ENOMEM. */
static ssize_t receive_entry(struct nb_sources *sources, char *at, size_t len) {
        struct passed head;
        char *name;

        if (len < sizeof(head))
                return -EBADMSG;
        memcpy(&head, at, sizeof(head));
        name = at + sizeof(head);
        len -= sizeof(head);
        if (head.kind > NB_SOURCE_PLAN || head.r > 0 || head.name_size == 0 ||
            head.name_size > len || head.len > len - head.name_size || name[head.name_size - 1])
                return -EBADMSG;
        if (add_kept(sources, head.kind, name, head.r,
                     &(struct nb_secret){ .data = name + head.name_size, .len = head.len },
                     head.mode) < 0)
                return -ENOMEM;
        return (ssize_t)(sizeof(head) + head.name_size + head.len);
}

int nb_sources_receive(struct nb_sources *sources, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        _cleanup_(nb_closep) int fd = NB_SOURCES_FD;
        unsigned n_left = PASSED_MAX;
        char build[NB_BUILD_SIZE];
        ssize_t r;

        if (!getenv(NB_SOURCES_VARIABLE)) {
                (void)TAKE_FD(fd);
                return 0;
        }
        (void)unsetenv(NB_SOURCES_VARIABLE);
        r = nb_file_read_open(fd, NB_SOURCES_MAX, &text, NULL);
        nb_build_format(build);
        if (r >= 0 && (text.len < sizeof(build) || memcmp(text.data, build, sizeof(build)) != 0))
                return nb_failure_set(f, NB_PROGRAM_REPLACED, 0,
                                      "this program and the service are not from the same build");
        for (size_t at = sizeof(build); r >= 0 && at < text.len; at += (size_t)r)
                r = n_left-- > 0 ? receive_entry(sources, text.data + at, text.len - at) : -E2BIG;
        if (r < 0)
                return nb_failure_set(
                        f, NB_INTERNAL, (int)r,
                        "cannot read the settings and credentials that install passes on: %m");
        return 0;
}

/* --- Files --- */

int nb_sources_read(struct nb_sources *sources, const char *path, size_t max, struct nb_secret *ret,
                    struct stat *ret_stat) {
        const struct nb_kept *kept = find_kept(sources, NB_SOURCE_FILE, path);
        _cleanup_(nb_closep) int fd = -1;
        struct stat st = { 0 };
        int r;

        if (kept)
                return read_kept(kept, max, ret, ret_stat);
        /* Follow links, since configuration managers create them. */
        fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        r = fd < 0 ? -errno : nb_file_read_open(fd, max, ret, &st);
        if (r >= 0 && !nb_file_is_exposed(fd, &st))
                st.st_mode &= ~(mode_t)0007;
        if (r >= 0 && ret_stat)
                *ret_stat = st;
        return keep_result(sources, NB_SOURCE_FILE, path, r, ret, st.st_mode);
}

struct reading {
        const char *path;
        size_t max;
};

static void try_reading(void *userdata) {
        const struct reading *reading = userdata;
        struct nb_sources none = { .config_directory = NULL };
        struct nb_secret text = NB_SECRET_INIT;

        (void)nb_sources_read(&none, reading->path, reading->max, &text, NULL);
}

int nb_sources_read_named(struct nb_sources *sources, const char *path, size_t max,
                          struct nb_secret *ret, struct stat *ret_stat) {
        int r = find_kept(sources, NB_SOURCE_FILE, path)
                        ? 0
                        : nb_process_try(try_reading, &(struct reading){ path, max },
                                         NB_SOURCES_READ_TIMEOUT_MS);

        /* -EPERM: install has restricted itself (install/confine.h). */
        return r < 0 && r != -EPERM ? keep_result(sources, NB_SOURCE_FILE, path, r, NULL, 0)
                                    : nb_sources_read(sources, path, max, ret, ret_stat);
}

int nb_sources_read_stream(int fd, const char *name, size_t max, struct nb_secret *ret,
                           struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        ssize_t n = 1;

        if (nb_secret_init(&text, max + 1) < 0)
                return nb_failure_set_memory(f);
        while (n != 0 && text.len <= max) {
                struct pollfd polls[] = { { 0 }, { .fd = fd, .events = POLLIN } };
                int r = nb_stop_poll(polls, N_ELEMENTS(polls), NB_TIME_INFINITE);

                if (r < 0)
                        return r == -ECANCELED ? r
                                               : nb_failure_set(f, NB_INTERNAL, r,
                                                                "cannot wait for '%s': %m",
                                                                nb_text_shown(name));
                if (!polls[1].revents)
                        continue;
                n = read(fd, text.data + text.len, text.size - text.len);
                if (n < 0 && errno != EINTR)
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno,
                                              "cannot read '%s': %m", nb_text_shown(name));
                text.len += n > 0 ? (size_t)n : 0;
        }
        if (text.len > max)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, EFBIG,
                                      "'%s' is larger than %zu bytes", nb_text_shown(name), max);
        *ret = TAKE(text);
        return 0;
}

/* --- Folders --- */

struct names {
        char names[NB_CONFIG_FILES_MAX][NAME_MAX + 1];
        size_t n;
};

/* Adds the name of a document, unless it is already in the list. */
static int add_name(struct names *names, const char *name) {
        size_t len = strlen(name);

        if (name[0] == '.' || len <= 5 || len > NAME_MAX || strcmp(name + len - 5, ".yaml") != 0)
                return 0;
        for (size_t i = 0; i < names->n; i++)
                if (!strcmp(names->names[i], name))
                        return 0;
        if (names->n == NB_CONFIG_FILES_MAX)
                return -E2BIG;
        NB_TEXT_COPY(names->names[names->n], name);
        names->n++;
        return 0;
}

static int list_folder(const char *folder, struct names *names) {
        _cleanup_(nb_folder_closep) DIR *stream = opendir(folder);
        struct dirent *entry;

        if (!stream)
                return -errno;
        while ((errno = 0, entry = readdir(stream)))
                if (add_name(names, entry->d_name) < 0)
                        return -E2BIG;
        return -errno;
}

/* Adds the files of nb_sources_put(), and those already read. */
static int list_kept(const struct nb_sources *sources, const char *folder, struct names *names) {
        size_t len = strlen(folder);

        for (const struct nb_kept *kept = sources->kept; kept; kept = kept->next)
                if (kept->kind == NB_SOURCE_FILE && !strncmp(kept->name, folder, len) &&
                    kept->name[len] == '/' && !strchr(kept->name + len + 1, '/') &&
                    add_name(names, kept->name + len + 1) < 0)
                        return -E2BIG;
        return 0;
}

static int compare_names(const void *a, const void *b) {
        return strcmp(a, b);
}

/* --- Credentials --- */

int nb_sources_read_stored(const char *folder, const char *name, size_t max, struct nb_secret *ret,
                           struct stat *ret_stat) {
        _cleanup_(nb_closep) int folder_fd = -1;
        _cleanup_(nb_closep) int fd = -1;
        struct stat st = { 0 };
        int r = nb_folder_open(folder, &folder_fd);

        if (r < 0)
                return r;
        fd = openat(folder_fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
        r = fd < 0 ? -errno : nb_file_read_open(fd, max, ret, &st);
        if (r < 0)
                return r;
        /* cluster-info has no secret, so others may read it. */
        if (!nb_file_is_exposed(fd, &st) || !strcmp(name, NB_CREDENTIAL_CLUSTER_INFO_NAME))
                st.st_mode &= ~(mode_t)0007;
        *ret_stat = st;
        return r;
}

static int read_stored(const struct nb_sources *sources, const char *name, size_t max,
                       struct nb_secret *ret, struct stat *ret_stat) {
        int r = -ENOENT;

        for (size_t i = 0; r == -ENOENT && sources->stores[i]; i++)
                r = nb_sources_read_stored(sources->stores[i], name, max, ret, ret_stat);
        return r;
}

const char *nb_sources_find_stored(const char *name, const struct nb_secret *delivered,
                                   struct stat *ret_stat) {
        for (size_t i = 0; i < NB_STORES_N; i++) {
                _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;

                if (!nb_stores[i].is_sealed &&
                    nb_sources_read_stored(nb_stores[i].folder, name, delivered->len, &stored,
                                           ret_stat) >= 0 &&
                    stored.len > 0 && stored.len == delivered->len &&
                    !memcmp(stored.data, delivered->data, stored.len))
                        return nb_stores[i].folder;
        }
        return NULL;
}

static int read_credential(struct nb_sources *sources, const char *name, size_t max,
                           struct nb_secret *ret, struct stat *ret_stat) {
        const char *folder = sources->credentials_directory;
        const struct nb_kept *entry = find_kept(sources, NB_SOURCE_CREDENTIAL, name);
        _cleanup_(nb_closep) int fd = -1;
        struct stat stored;
        int r;

        if (entry)
                return read_kept(entry, max, ret, ret_stat);
        if (!folder)
                r = read_stored(sources, name, max, ret, ret_stat);
        else {
                r = nb_folder_open(folder, &fd);
                if (r >= 0)
                        r = nb_file_read_secret(fd, name, max, ret, ret_stat);
                /* systemd delivers it with mode 0400, even if others can read it in its store. */
                if (r >= 0 && nb_sources_find_stored(name, ret, &stored))
                        ret_stat->st_mode |= stored.st_mode & 0007;
        }
        return keep_result(sources, NB_SOURCE_CREDENTIAL, name, r, ret, ret_stat->st_mode);
}

/* --- Documents --- */

static int skip_unreadable(const struct nb_sources *sources, int r) {
        return sources->is_tolerant ? 0 : r;
}

/* `path` NULL: reads the credential. */
static int each_document(struct nb_sources *sources, const char *path, nb_config_each each,
                         void *userdata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *origin = path ? path : "credential '" NB_CREDENTIAL_CONFIG_NAME "'";
        struct stat st = { 0 };
        int r;

        r = path ? nb_sources_read(sources, path, NB_CONFIG_MAX, &text, &st)
                 : read_credential(sources, NB_CREDENTIAL_CONFIG_NAME, NB_CONFIG_MAX, &text, &st);
        /* A dangling link is an error: its settings would not take effect. */
        if (r == -ENOENT && (!path || lstat(path, &st) < 0))
                return 0;
        if (r < 0)
                return skip_unreadable(sources, set_unreadable(origin, r, f));
        return each(userdata,
                    &(struct nb_config_document){ .origin = origin,
                                                  .data = text.data,
                                                  .len = text.len,
                                                  .is_exposed = st.st_mode & 0007 },
                    f);
}

static int each_in_folder(struct nb_sources *sources, const char *folder, nb_config_each each,
                          void *userdata, struct nb_failure *f) {
        char path[PATH_MAX + NAME_MAX + 2];
        struct names names = { .n = 0 };
        int r = list_folder(folder, &names);

        if (r >= 0 || r == -ENOENT)
                r = list_kept(sources, folder, &names);
        if (r == -E2BIG)
                return skip_unreadable(sources, nb_failure_set(f, NB_SETTINGS_UNREADABLE, E2BIG,
                                                               "%s contains more than %d files",
                                                               folder, NB_CONFIG_FILES_MAX));
        if (r < 0)
                return skip_unreadable(sources, set_unreadable(folder, r, f));
        qsort(names.names, names.n, sizeof(names.names[0]), compare_names);
        for (size_t i = 0; i < names.n; i++) {
                snprintf(path, sizeof(path), "%s/%s", folder, names.names[i]);
                r = each_document(sources, path, each, userdata, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

int nb_sources_config(struct nb_sources *sources, nb_config_each each, void *userdata,
                      struct nb_failure *f) {
        const char *directory = sources->config_directory;
        char path[PATH_MAX];
        int r;

        if (directory) {
                if (snprintf(path, sizeof(path), "%s/config.yaml", directory) >= (int)sizeof(path))
                        return set_unreadable(directory, -ENAMETOOLONG, f);
                r = each_document(sources, path, each, userdata, f);
                if (r < 0)
                        return r;
                snprintf(path, sizeof(path), "%s/config.yaml.d", directory);
                r = each_in_folder(sources, path, each, userdata, f);
                if (r < 0)
                        return r;
        }
        return each_document(sources, NULL, each, userdata, f);
}

int nb_sources_credential(struct nb_sources *sources, const char *name, size_t max,
                          struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct stat st = { 0 };
        int r;

        r = read_credential(sources, name, max, &secret, &st);
        if (r == -ENOENT)
                return r;
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_TOKEN_MALFORMED, r,
                                      "credential '%s' is not a regular file", name);
        if (r < 0)
                return nb_failure_set(f, r == -EFBIG ? NB_TOKEN_MALFORMED : NB_TOKEN_MISSING, r,
                                      "credential '%s' cannot be read: %m", name);
        if (st.st_mode & 0007)
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "credential '%s' has mode %04o, here or in its credential "
                                      "store; expected no access for others",
                                      name, st.st_mode & 07777);
        *ret = TAKE(secret);
        return 0;
}

int nb_sources_folder(const char *variable, int *ret_fd, struct nb_failure *f) {
        const char *path = getenv(variable);
        int r = path && path[0] == '/' ? nb_folder_open(path, ret_fd) : -EINVAL;

        if (r >= 0)
                return 0;
        if (!path)
                return nb_failure_set(f, NB_USAGE, r, "$%s is not set", variable);
        return nb_failure_set(f, NB_USAGE, r, "$%s is '%s': %m; expected an absolute path",
                              variable, path);
}
