/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/macro.h"

#define NOBODY 65534

struct folder {
        char path[64];
        int fd;
};

static int setup(void **state) {
        struct folder *folder = calloc(1, sizeof(*folder));

        strcpy(folder->path, "/tmp/nb-test-file-XXXXXX");
        if (!mkdtemp(folder->path) || nb_folder_open(folder->path, &folder->fd) < 0)
                return -1;
        *state = folder;
        return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where) {
        return remove(path);
}

static int teardown(void **state) {
        struct folder *folder = *state;

        close(folder->fd);
        assert_int_equal(nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
        free(folder);
        return 0;
}

static mode_t mode_of(int fd, const char *name) {
        struct stat st;

        assert_int_equal(fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        return st.st_mode & 07777;
}

static void written_files_have_exactly_their_mode(void **state) {
        struct folder *folder = *state;
        mode_t before = umask(0077);

        assert_int_equal(nb_file_write(folder->fd, "a", 0644, "old", 3), 0);
        assert_int_equal(mode_of(folder->fd, "a"), 0644);
        (void)umask(0);
        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "new", 3), 0);
        assert_int_equal(mode_of(folder->fd, "a"), 0600);
        (void)umask(before);
        assert_int_equal(faccessat(folder->fd, ".a.tmp", F_OK, 0), -1);
}

static void a_planted_link_under_the_temporary_name_is_not_followed(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16);
        struct folder *folder = *state;

        assert_int_equal(nb_file_write(folder->fd, "target", 0600, "safe", 4), 0);
        assert_int_equal(symlinkat("target", folder->fd, ".a.tmp"), 0);
        assert_int_equal(symlinkat("target", folder->fd, "a"), 0);
        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "new", 3), 0);
        assert_int_equal(nb_file_read(folder->fd, "target", &text, NULL), 0);
        assert_string_equal(text.data, "safe");
        assert_int_equal(nb_file_read(folder->fd, "a", &text, NULL), 0);
        assert_string_equal(text.data, "new");
}

static void reading_refuses_what_is_no_plain_file(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16);
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct folder *folder = *state;

        assert_int_equal(symlinkat("/etc/hostname", folder->fd, "link"), 0);
        assert_int_equal(mkfifoat(folder->fd, "fifo", 0600), 0);
        assert_int_equal(nb_file_read(folder->fd, "link", &text, NULL), -ELOOP);
        assert_int_equal(nb_file_read(folder->fd, "fifo", &text, NULL), -EBADF);
        assert_int_equal(nb_file_read(folder->fd, "a", &text, NULL), -ENOENT);
        assert_int_equal(nb_file_read_secret(folder->fd, "link", 16, &secret, NULL), -ELOOP);
        assert_null(secret.data);
}

static void reading_stops_at_the_ceiling(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4);
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        struct folder *folder = *state;

        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "1234", 4), 0);
        assert_int_equal(nb_file_write(folder->fd, "b", 0600, "12345", 5), 0);
        assert_int_equal(nb_file_read(folder->fd, "a", &text, NULL), 0);
        assert_int_equal(nb_file_read(folder->fd, "b", &text, NULL), -EFBIG);
        assert_int_equal(nb_file_read_secret(folder->fd, "b", 4, &secret, NULL), -EFBIG);
        assert_int_equal(nb_file_read_secret(folder->fd, "a", 4, &secret, NULL), 0);
        assert_int_equal(secret.len, 4);
        assert_string_equal(secret.data, "1234");
}

/* A part of it could be valid. The kernel gives no size for a file in /proc, so each that is not
 * empty seems to grow. */
static void reading_refuses_a_file_that_grows(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;

        assert_int_equal(nb_path_read(-1, "/proc/self/status", 65536, &secret), -EAGAIN);
        assert_null(secret.data);
}

static void creating_never_replaces(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16);
        struct folder *folder = *state;

        assert_int_equal(nb_file_create(folder->fd, "a", 0600, "first", 5), 0);
        assert_int_equal(nb_file_create(folder->fd, "a", 0600, "second", 6), -EEXIST);
        assert_int_equal(nb_file_read(folder->fd, "a", &text, NULL), 0);
        assert_string_equal(text.data, "first");
        assert_int_equal(faccessat(folder->fd, ".a.tmp", F_OK, 0), -1);
}

/* Whoever replaces a file itself finds the text under the temporary name, and nothing of what an
 * earlier attempt left there. */
static void a_staged_file_waits_beside_the_old_one(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16);
        _cleanup_(nb_closep) int fd = -1;
        struct folder *folder = *state;
        char temporary[NAME_MAX + 1], name[NAME_MAX + 1];
        mode_t before = umask(0077);

        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "old", 3), 0);
        assert_int_equal(nb_file_write(folder->fd, ".a.tmp", 0644, "left over", 9), 0);
        assert_int_equal(nb_file_stage(folder->fd, "a", 0640, "new", 3, temporary, &fd), 0);
        (void)umask(before);
        assert_string_equal(temporary, ".a.tmp");
        assert_int_equal(mode_of(folder->fd, temporary), 0640);
        assert_int_equal(fsync(fd), 0);
        assert_int_equal(nb_file_read(folder->fd, temporary, &text, NULL), 0);
        assert_string_equal(text.data, "new");
        assert_int_equal(nb_file_read(folder->fd, "a", &text, NULL), 0);
        assert_string_equal(text.data, "old");
        memset(name, 'n', NAME_MAX);
        name[NAME_MAX] = '\0';
        assert_int_equal(nb_file_stage(folder->fd, name, 0640, "new", 3, temporary, &fd),
                         -ENAMETOOLONG);
}

static bool is_renameat2_unknown;

/* As on NFS. */
int renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags) {
        if (is_renameat2_unknown && flags != 0) {
                errno = EINVAL;
                return -1;
        }
        return (int)syscall(SYS_renameat2, old_fd, old, new_fd, new, flags);
}

static void renaming_never_replaces(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(16);
        struct folder *folder = *state;

        for (int i = 0; i < 2; i++) {
                is_renameat2_unknown = i == 1;
                assert_int_equal(nb_file_write(folder->fd, "a", 0600, "a", 1), 0);
                assert_int_equal(nb_file_write(folder->fd, "b", 0600, "b", 1), 0);
                assert_int_equal(nb_file_rename_new(folder->fd, "a", "b"), -EEXIST);
                assert_int_equal(nb_file_read(folder->fd, "b", &text, NULL), 0);
                assert_string_equal(text.data, "b");
                assert_int_equal(nb_file_remove(folder->fd, "b"), 0);
                assert_int_equal(nb_file_rename_new(folder->fd, "a", "b"), 0);
                assert_int_equal(nb_file_read(folder->fd, "b", &text, NULL), 0);
                assert_string_equal(text.data, "a");
                assert_int_equal(nb_file_rename_new(folder->fd, "a", "c"), -ENOENT);
        }
        is_renameat2_unknown = false;
}

static void an_open_file_is_read_from_its_beginning(void **state) {
        _cleanup_(nb_secret_done) struct nb_secret secret = NB_SECRET_INIT;
        _cleanup_(nb_closep) int fd = -1;
        struct folder *folder = *state;
        struct stat st = { 0 };

        assert_int_equal(nb_file_write(folder->fd, "a", 0640, "1234", 4), 0);
        fd = openat(folder->fd, "a", O_RDONLY | O_CLOEXEC);
        assert_int_equal(nb_file_read_open(fd, 3, &secret, &st), -EFBIG);
        assert_int_equal(nb_file_read_open(folder->fd, 4, &secret, &st), -EBADF);
        assert_null(secret.data);
        assert_int_equal(nb_file_read_open(fd, 4, &secret, &st), 0);
        assert_string_equal(secret.data, "1234");
        assert_int_equal(st.st_mode, S_IFREG | 0640);
}

/* More than a pipe holds, so that each write(2) takes a part. */
static void all_is_written(void **state) {
        static char data[300000], read_back[sizeof(data)];
        int fds[2], status;
        size_t len = 0;
        pid_t child;

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (char)(i % 251);
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        child = fork();
        if (child == 0)
                _exit(nb_fd_write(fds[1], data, sizeof(data)) == 0 ? 0 : 1);
        assert_int_equal(close(fds[1]), 0);
        for (ssize_t n; (n = read(fds[0], read_back + len, sizeof(data) - len)) > 0;)
                len += (size_t)n;
        assert_int_equal(close(fds[0]), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_int_equal(len, sizeof(data));
        assert_memory_equal(data, read_back, sizeof(data));
        assert_int_equal(nb_fd_write(-1, "x", 1), -EBADF);
}

static void lost_output_is_noticed(void **state) {
        FILE *stream = fopen("/dev/full", "we");

        assert_non_null(stream);
        assert_int_equal(nb_stream_flush(stream), 0);
        assert_int_equal(fputs("text", stream) >= 0, true);
        assert_int_equal(nb_stream_flush(stream), -ENOSPC);
        /* The text is no longer in the buffer, so that fflush(3) succeeds. */
        assert_int_equal(fflush(stream), 0);
        assert_int_equal(nb_stream_flush(stream), -EIO);
        (void)fclose(stream);
}

static void a_list_of_a_folder_has_a_descriptor_of_its_own(void **state) {
        struct folder *folder = *state;
        unsigned n = 0;
        DIR *none = NULL;
        int fd;

        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "", 0), 0);
        for (int i = 0; i < 2; i++) {
                _cleanup_(nb_folder_closep) DIR *list = nb_folder_list(folder->fd);

                assert_non_null(list);
                fd = dirfd(list);
                assert_int_not_equal(fd, folder->fd);
                for (const struct dirent *entry; (entry = readdir(list));)
                        n += strcmp(entry->d_name, "a") == 0;
        }
        assert_int_equal(n, 2);
        assert_int_equal(fcntl(fd, F_GETFD), -1);
        nb_folder_closep(&none);
        assert_null(nb_folder_list(-1));
}

static void removing_what_is_not_there_is_fine(void **state) {
        struct folder *folder = *state;

        assert_int_equal(nb_file_remove(folder->fd, "a"), 0);
        assert_int_equal(nb_file_write(folder->fd, "a", 0600, "", 0), 0);
        assert_int_equal(nb_file_remove(folder->fd, "a"), 0);
        assert_int_equal(faccessat(folder->fd, "a", F_OK, 0), -1);
}

/* valgrind does not know openat2(2), without which nothing can be opened below a root. */
static void skip_without_lookup(const struct folder *folder) {
        int fd = nb_path_open(folder->fd, "/", O_RDONLY | O_DIRECTORY);

        if (fd == -ENOSYS)
                skip();
        close(fd);
}

static void folders_are_made_with_their_mode(void **state) {
        struct folder *folder = *state;
        char path[128];
        int fd;

        skip_without_lookup(folder);
        (void)snprintf(path, sizeof(path), "%s//b/c/d", folder->path);
        assert_int_equal(nb_folder_make(NULL, path, 0700, &fd), 0);
        close(fd);
        assert_int_equal(mode_of(folder->fd, "b"), 0755);
        assert_int_equal(mode_of(folder->fd, "b/c"), 0755);
        assert_int_equal(mode_of(folder->fd, "b/c/d"), 0700);
        assert_int_equal(nb_folder_make(folder->path, "/b/c/d", 0755, &fd), 0);
        close(fd);
        assert_int_equal(mode_of(folder->fd, "b/c/d"), 0700);
        for (const char *const *name = (const char *const[]){ "b/c/d", "b/c", "b", NULL }; *name;
             name++)
                assert_int_equal(unlinkat(folder->fd, *name, AT_REMOVEDIR), 0);
}

static void folders_of_an_image_stay_in_it(void **state) {
        struct folder *folder = *state;
        char path[128];
        int fd;

        skip_without_lookup(folder);
        assert_int_equal(mkdirat(folder->fd, "b", 0700), 0);
        assert_int_equal(symlinkat("/tmp", folder->fd, "link"), 0);
        assert_int_equal(nb_folder_make(folder->path, "/link", 0755, &fd), -ELOOP);
        assert_int_equal(nb_folder_make(folder->path, "/link/node-bootstrap-made-this", 0755, &fd),
                         -ELOOP);
        assert_int_equal(access("/tmp/node-bootstrap-made-this", F_OK), -1);
        assert_int_equal(nb_folder_make("/nowhere/at/all", "/b", 0755, &fd), -ENOENT);
        /* On the running machine, links are the administrator's and are followed. */
        (void)snprintf(path, sizeof(path), "%s/link", folder->path);
        assert_int_equal(nb_folder_make(NULL, path, 0755, &fd), 0);
        close(fd);
        assert_int_equal(unlinkat(folder->fd, "b", AT_REMOVEDIR), 0);
}

static void a_folder_is_opened_below_a_root(void **state) {
        struct folder *folder = *state;
        struct stat expected, st;
        int fd = -1;

        skip_without_lookup(folder);
        assert_int_equal(mkdirat(folder->fd, "b", 0700), 0);
        assert_int_equal(symlinkat("/b", folder->fd, "link"), 0);
        assert_int_equal(fstatat(folder->fd, "b", &expected, 0), 0);
        assert_int_equal(nb_folder_open_below(folder->path, "/none", &fd), -ENOENT);
        assert_int_equal(nb_folder_open_below("/nowhere/at/all", "/b", &fd), -ENOENT);
        assert_int_equal(fd, -1);
        assert_int_equal(nb_folder_open_below(folder->path, "/link", &fd), 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_ino, expected.st_ino);
        close(fd);
        assert_int_equal(nb_folder_open_below(NULL, "/proc/self", &fd), 0);
        assert_int_equal(faccessat(fd, "status", R_OK, 0), 0);
        close(fd);
}

static void paths_are_split_at_their_last_component(void **state) {
        char folder[16];
        const char *name;

        assert_int_equal(nb_path_split("/a/b/c", folder, sizeof(folder), &name), 0);
        assert_string_equal(folder, "/a/b");
        assert_string_equal(name, "c");
        assert_int_equal(nb_path_split("/c", folder, sizeof(folder), &name), 0);
        assert_string_equal(folder, "/");
        assert_int_equal(nb_path_split("c", folder, sizeof(folder), &name), -EINVAL);
        assert_int_equal(nb_path_split("/a/", folder, sizeof(folder), &name), -EINVAL);
        assert_int_equal(nb_path_split("/longer/than/sixteen/c", folder, sizeof(folder), &name),
                         -ENAMETOOLONG);
}

static void a_file_is_exposed_if_all_folders_let_others_through(void **state) {
        static const struct {
                mode_t file, inner, outer;
                bool is_exposed, is_foreign;
        } cases[] = {
                { 0644, 0755, 0755, true },       { 0640, 0755, 0755, false },
                { 0602, 0711, 0711, true },       { 0644, 0700, 0755, false },
                { 0644, 0755, 0700, false },      { 0644, 0750, 0750, true }, /* for the group */
                { 0644, 0700, 0755, true, true }, /* another user may open the folder to others */
        };
        struct folder *folder = *state;

        assert_int_equal(mkdirat(folder->fd, "d", 0755), 0);
        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_closep) int fd = -1;
                struct stat st;

                if (cases[i].is_foreign && geteuid() != 0)
                        continue; /* only root can give a folder away */
                assert_int_equal(nb_file_write(folder->fd, "a", cases[i].file, "x", 1), 0);
                assert_int_equal(renameat(folder->fd, "a", folder->fd, "d/a"), 0);
                if (cases[i].is_foreign)
                        assert_int_equal(fchownat(folder->fd, "d", NOBODY, NOBODY, 0), 0);
                assert_int_equal(fchmodat(folder->fd, "d", cases[i].inner, 0), 0);
                assert_int_equal(fchmod(folder->fd, cases[i].outer), 0);
                fd = openat(folder->fd, "d/a", O_RDONLY | O_CLOEXEC);
                assert_int_equal(fstat(fd, &st), 0);
                assert_int_equal(nb_file_is_exposed(fd, &st), cases[i].is_exposed);
        }
}

static bool is_overtaken;

/* Another process makes the same folder just before. */
int mkdirat(int fd, const char *name, mode_t mode) {
        if (is_overtaken)
                (void)syscall(SYS_mkdirat, fd, name, 0700);
        return (int)syscall(SYS_mkdirat, fd, name, mode);
}

static void a_folder_that_another_process_makes_is_opened(void **state) {
        struct folder *folder = *state;
        _cleanup_(nb_closep) int fd = -1, other = -1;

        skip_without_lookup(folder);
        is_overtaken = true;
        assert_int_equal(nb_path_make_folder(folder->fd, "/a/b", 0755, &fd), 0);
        is_overtaken = false;
        assert_int_equal(mode_of(folder->fd, "a/b"), 0700);
        assert_int_equal(symlinkat("nowhere", folder->fd, "link"), 0);
        assert_int_equal(nb_path_make_folder(folder->fd, "/link", 0755, &other), -EEXIST);
}

static void clearing_frees_the_name_whatever_has_it(void **state) {
        struct folder *folder = *state;

        assert_int_equal(nb_file_clear(folder->fd, "a"), 0);
        assert_int_equal(nb_file_write(folder->fd, "target", 0600, "x", 1), 0);
        assert_int_equal(symlinkat("target", folder->fd, "link"), 0);
        assert_int_equal(nb_file_clear(folder->fd, "link"), 0);
        assert_int_equal(faccessat(folder->fd, "link", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(faccessat(folder->fd, "target", F_OK, 0), 0);
        assert_int_equal(mkdirat(folder->fd, "a", 0700), 0);
        assert_int_equal(mkdirat(folder->fd, "a/b", 0700), 0);
        assert_int_equal(nb_file_clear(folder->fd, "a"), 0);
        assert_int_equal(faccessat(folder->fd, "a", F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(written_files_have_exactly_their_mode),
                TEST(a_planted_link_under_the_temporary_name_is_not_followed),
                TEST(reading_refuses_what_is_no_plain_file),
                TEST(reading_stops_at_the_ceiling),
                cmocka_unit_test(reading_refuses_a_file_that_grows),
                TEST(creating_never_replaces),
                TEST(a_staged_file_waits_beside_the_old_one),
                TEST(renaming_never_replaces),
                TEST(an_open_file_is_read_from_its_beginning),
                cmocka_unit_test(all_is_written),
                cmocka_unit_test(lost_output_is_noticed),
                TEST(a_list_of_a_folder_has_a_descriptor_of_its_own),
                TEST(removing_what_is_not_there_is_fine),
                TEST(clearing_frees_the_name_whatever_has_it),
                TEST(a_file_is_exposed_if_all_folders_let_others_through),
                TEST(a_folder_that_another_process_makes_is_opened),
                TEST(folders_are_made_with_their_mode),
                TEST(folders_of_an_image_stay_in_it),
                TEST(a_folder_is_opened_below_a_root),
                cmocka_unit_test(paths_are_split_at_their_last_component),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
