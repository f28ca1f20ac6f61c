/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "case.h"
#include "folder.h"
#include "install/acl.h"

#define READER 65533
#define OTHER 65532

static struct folder folder;
static int fd;

static int set_up(void **state) {
        int r;

        folder_make(&folder);
        assert_int_equal(fchmod(folder.fd, 0755), 0);
        fd = openat(folder.fd, "copy", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        r = nb_acl_let_read(fd, READER);
        if (r == -EOPNOTSUPP) {
                print_message("the file system of /tmp has no access control lists\n");
                skip();
        }
        assert_int_equal(r, 0);
        return 0;
}

static int tear_down(void **state) {
        (void)close(fd);
        folder_remove(&folder);
        return 0;
}

/* The same bytes that setfacl(1) makes of u::rw-,u:65533:r--,g::---,m::r--,o::---. */
static void as_setfacl_makes_it(void **state) {
        static const uint8_t expected[] = {
                2, 0,    0,    0,    1,    0,    6,    0, 0xff, 0xff, 0xff, 0xff, 2,    0,    4,
                0, 0xfd, 0xff, 0,    0,    4,    0,    0, 0,    0xff, 0xff, 0xff, 0xff, 0x10, 0,
                4, 0,    0xff, 0xff, 0xff, 0xff, 0x20, 0, 0,    0,    0xff, 0xff, 0xff, 0xff,
        };
        uint8_t found[sizeof(expected) + 1];

        assert_int_equal(fgetxattr(fd, "system.posix_acl_access", found, sizeof(found)),
                         sizeof(expected));
        assert_memory_equal(found, expected, sizeof(expected));
}

static void nothing_for_others(void **state) {
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        assert_int_equal(st.st_mode & 0007, 0);
}

/* What another user gets for an open with these flags: 0 or the errno. */
static int try_as(uid_t uid, int flags) {
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
                        _exit(EIO);
                _exit(openat(folder.fd, "copy", flags | O_CLOEXEC) < 0 ? errno : 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void one_reader_and_nobody_else(void **state) {
        if (geteuid() != 0) {
                print_message("other users can be tried by root alone\n");
                skip();
        }
        assert_int_equal(try_as(READER, O_RDONLY), 0);
        assert_int_equal(try_as(READER, O_WRONLY), EACCES);
        assert_int_equal(try_as(OTHER, O_RDONLY), EACCES);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(as_setfacl_makes_it, set_up, tear_down),
                cmocka_unit_test_setup_teardown(nothing_for_others, set_up, tear_down),
                cmocka_unit_test_setup_teardown(one_reader_and_nobody_else, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
