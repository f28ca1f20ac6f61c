/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "folder.h"
#include "install/lookup.h"
#include "platform/discard.h"

#define TOKEN "abcdef.0123456789abcdef"

struct world {
        struct folder machine;
};

static void make(struct world *world, const char *mark) {
        folder_skip_without_lookup();
        folder_make(&world->machine);
        folder_put(&world->machine, "/var/lib/kubelet/other", "x");
        if (mark)
                folder_put(&world->machine, "/var/lib/kubelet/node-bootstrap.discard", mark);
        folder_put(&world->machine, "/etc/credstore/node-bootstrap.token", TOKEN);
        folder_put(&world->machine, "/etc/credstore/node-bootstrap.config", "kept");
        folder_put(&world->machine, "/run/credstore/node-bootstrap.tls-bootstrap-token", TOKEN);
        folder_put(&world->machine, "/run/node-bootstrap-platform/token", TOKEN);
        folder_put(&world->machine, "/run/node-bootstrap-platform/platform.json", "{}");
}

static void done(struct world *world) {
        folder_remove(&world->machine);
}

static bool is_there(const struct folder *folder, const char *name) {
        struct stat st;

        return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void removes_what_is_plain(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "none\n");
        assert_int_equal(nb_discard(world.machine.path, &f), 0);
        assert_false(is_there(&world.machine, "etc/credstore/node-bootstrap.token"));
        assert_false(is_there(&world.machine, "run/credstore/node-bootstrap.tls-bootstrap-token"));
        assert_false(is_there(&world.machine, "run/node-bootstrap-platform/token"));
        assert_false(is_there(&world.machine, "var/lib/kubelet/node-bootstrap.discard"));
        assert_true(is_there(&world.machine, "etc/credstore/node-bootstrap.config"));
        assert_true(is_there(&world.machine, "run/node-bootstrap-platform/platform.json"));
        assert_true(is_there(&world.machine, "var/lib/kubelet/other"));
        done(&world);
}

static void without_a_mark_nothing_is_done(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, NULL);
        assert_int_equal(nb_discard(world.machine.path, &f), 0);
        assert_true(is_there(&world.machine, "etc/credstore/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "run/node-bootstrap-platform/token"));
        assert_int_equal(unlinkat(world.machine.fd, "var/lib/kubelet/other", 0), 0);
        assert_int_equal(unlinkat(world.machine.fd, "var/lib/kubelet", AT_REMOVEDIR), 0);
        assert_int_equal(nb_discard(world.machine.path, &f), 0);
        assert_true(is_there(&world.machine, "etc/credstore/node-bootstrap.token"));
        done(&world);
}

static void refuses_a_mark_that_is_a_link(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, NULL);
        folder_link(&world.machine, "/var/lib/kubelet/node-bootstrap.discard", "other");
        assert_true(nb_discard(world.machine.path, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_true(is_there(&world.machine, "etc/credstore/node-bootstrap.token"));
        done(&world);
}

static void put_link(struct world *world) {
        folder_put(&world->machine, "/secret", TOKEN);
        assert_int_equal(unlinkat(world->machine.fd, "etc/credstore/node-bootstrap.token", 0), 0);
        folder_link(&world->machine, "/etc/credstore/node-bootstrap.token", "../../secret");
}

static void put_second_name(struct world *world) {
        assert_int_equal(linkat(world->machine.fd, "etc/credstore/node-bootstrap.token",
                                world->machine.fd, "secret", 0),
                         0);
}

static void put_folder(struct world *world) {
        assert_int_equal(unlinkat(world->machine.fd, "etc/credstore/node-bootstrap.token", 0), 0);
        assert_int_equal(mkdirat(world->machine.fd, "etc/credstore/node-bootstrap.token", 0700), 0);
}

struct left_case {
        const char *name;
        void (*put)(struct world *world);
};

static struct left_case left_cases[] = {
        { "a link is left, and said to be", put_link },
        { "a file with a second name is left, and said to be", put_second_name },
        { "a folder is left, and said to be", put_folder },
};

static void leaves(void **state) {
        const struct left_case *c = *state;
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "none\n");
        c->put(&world);
        assert_true(nb_discard(world.machine.path, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_non_null(
                strstr(f.detail,
                       "/etc/credstore/node-bootstrap.token' is not a regular file with one name"));
        assert_true(is_there(&world.machine, "etc/credstore/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "var/lib/kubelet/node-bootstrap.discard"));
        assert_false(is_there(&world.machine, "run/credstore/node-bootstrap.tls-bootstrap-token"));
        done(&world);
}

int main(void) {
        CASE(removes_what_is_plain);
        CASE(without_a_mark_nothing_is_done);
        CASE(refuses_a_mark_that_is_a_link);
        CASES(left_cases, leaves);
        return case_run("platform discard");
}
