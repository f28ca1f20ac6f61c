/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>

#include "case.h"
#include "folder.h"
#include "state_files/lock.h"

static struct folder folder;

static bool is_locked(void) {
        int fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        bool is_ours;

        assert_true(fd >= 0);
        is_ours = flock(fd, LOCK_EX | LOCK_NB) == 0;
        (void)close(fd);
        return !is_ours;
}

/* The kernel releases it when its process ends. */
static void excludes_others(void **state) {
        struct nb_failure f = { 0 };
        int fd, status = 0;
        pid_t pid;

        folder_make(&folder);
        assert_false(is_locked());
        assert_int_equal(nb_lock_take(folder.path, &fd, &f), 0);
        assert_true(is_locked());
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void)close(fd);
                _exit(nb_lock_take(folder.path, &fd, &f) < 0);
        }
        (void)close(fd);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_false(is_locked());
        folder_remove(&folder);
}

static void names_what_it_cannot_open(void **state) {
        static const char *const names[] = { "/absent", "/file" };

        folder_make(&folder);
        folder_put(&folder, "/file", "");
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                struct nb_failure f = { 0 };
                char path[PATH_MAX];
                int fd = -1;

                (void)snprintf(path, sizeof(path), "%s%s", folder.path, names[i]);
                assert_true(nb_lock_take(path, &fd, &f) < 0);
                assert_int_equal(f.code, NB_LOCK_UNAVAILABLE);
                assert_non_null(strstr(f.detail, path));
                assert_int_equal(fd, -1);
        }
        folder_remove(&folder);
}

int main(void) {
        CASE(excludes_others);
        CASE(names_what_it_cannot_open);
        return case_run("system lock");
}
