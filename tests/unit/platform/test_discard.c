/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "format/user_data.h"
#include "platform/discard.h"
#include "tool.h"

#define TOKEN "abcdef.0123456789abcdef"

/* Values in files beside the tool. */
#define TOOL \
        "d=${0%/*}; set -f; set -- $1\n" \
        "case $1:$# in\n" \
        "info-get:2) [ -e $d/$2 ] || { echo 'No value found' >&2; exit 1; }; cat $d/$2;;\n" \
        "info-set:3) echo \"$3\" >$d/$2; echo;;\n" \
        "*) exit 1;;\n" \
        "esac"

struct world {
        struct folder machine;
        struct tool tool;
        char paths[4][96];
        struct nb_discard_places places;
};

static void make(struct world *world, const char *mark) {
        static const char *const names[] = { "kubelet", "etc", "run", "platform" };

        folder_make(&world->machine);
        tool_make(&world->tool, NULL, TOOL);
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                (void)snprintf(world->paths[i], sizeof(world->paths[i]), "%s/%s", world->machine.path, names[i]);
        world->places = (struct nb_discard_places){ world->paths[0], { world->paths[1], world->paths[2] }, world->paths[3], world->tool.list };
        folder_put(&world->machine, "/kubelet/other", "x");
        if (mark)
                folder_put(&world->machine, "/kubelet/node-bootstrap.discard", mark);
        folder_put(&world->machine, "/etc/node-bootstrap.token", TOKEN);
        folder_put(&world->machine, "/etc/node-bootstrap.config", "kept");
        folder_put(&world->machine, "/run/node-bootstrap.tls-bootstrap-token", TOKEN);
        folder_put(&world->machine, "/platform/token", TOKEN);
        folder_put(&world->machine, "/platform/platform.json", "{}");
        folder_put(&world->tool.folder, "/guestinfo.node-bootstrap.token", TOKEN "\n");
}

static void done(struct world *world) {
        folder_remove(&world->machine);
        tool_remove(&world->tool);
}

static bool is_there(const struct folder *folder, const char *name) {
        struct stat st;

        return fstatat(folder->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_holds(const struct folder *folder, const char *name, const char *expected) {
        char path[PATH_MAX], text[512] = "";
        FILE *file;

        folder_locate(folder, name, path);
        file = fopen(path, "re");
        assert_non_null(file);
        assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
        assert_int_equal(fclose(file), 0);
        assert_string_equal(text, expected);
}

static void removes_what_is_plain(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "none\n");
        assert_int_equal(nb_discard(&world.places, &f), 0);
        assert_false(is_there(&world.machine, "etc/node-bootstrap.token"));
        assert_false(is_there(&world.machine, "run/node-bootstrap.tls-bootstrap-token"));
        assert_false(is_there(&world.machine, "platform/token"));
        assert_false(is_there(&world.machine, "kubelet/node-bootstrap.discard"));
        assert_true(is_there(&world.machine, "etc/node-bootstrap.config"));
        assert_true(is_there(&world.machine, "platform/platform.json"));
        assert_true(is_there(&world.machine, "kubelet/other"));
        assert_holds(&world.tool.folder, "/guestinfo.node-bootstrap.token", TOKEN "\n");
        done(&world);
}

static void without_a_mark_nothing_is_done(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, NULL);
        assert_int_equal(nb_discard(&world.places, &f), 0);
        assert_true(is_there(&world.machine, "etc/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "platform/token"));
        world.places.kubelet = "/nonexistent/kubelet";
        assert_int_equal(nb_discard(&world.places, &f), 0);
        assert_true(is_there(&world.machine, "etc/node-bootstrap.token"));
        done(&world);
}

struct mark_case {
        const char *name;
        const char *mark;
};

static struct mark_case bad_marks[] = {
        { "a mark that is empty", "" },
        { "a mark with a line break alone", "\n" },
        { "a mark with a name that is not known", "cloud\n" },
        { "a mark with two lines", "none\nnone\n" },
        { "a mark that is too long", "nonenonenonenonenonenonenonenonenone" },
};

static void refuses_a_mark(void **state) {
        const struct mark_case *c = *state;
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, c->mark);
        assert_true(nb_discard(&world.places, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_true(is_there(&world.machine, "etc/node-bootstrap.token"));
        done(&world);
}

static void put_link(struct world *world) {
        folder_put(&world->machine, "/secret", TOKEN);
        assert_int_equal(unlinkat(world->machine.fd, "etc/node-bootstrap.token", 0), 0);
        folder_link(&world->machine, "/etc/node-bootstrap.token", "../secret");
}

static void put_second_name(struct world *world) {
        assert_int_equal(linkat(world->machine.fd, "etc/node-bootstrap.token", world->machine.fd, "secret", 0), 0);
}

static void put_folder(struct world *world) {
        assert_int_equal(unlinkat(world->machine.fd, "etc/node-bootstrap.token", 0), 0);
        assert_int_equal(mkdirat(world->machine.fd, "etc/node-bootstrap.token", 0700), 0);
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
        assert_true(nb_discard(&world.places, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_non_null(strstr(f.detail, "/etc/node-bootstrap.token' is no regular file of its own"));
        assert_true(is_there(&world.machine, "etc/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "kubelet/node-bootstrap.discard"));
        assert_false(is_there(&world.machine, "run/node-bootstrap.tls-bootstrap-token"));
        done(&world);
}

#define DOCUMENT "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define DOCUMENT_JSON "apiVersion: node-bootstrap/v1\\nkind: NodeBootstrap\\n"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct user_data_case {
        const char *name;
        const char *user_data, *encoding; /* NULL: not set */
        const char *expected;             /* NULL: as it was */
};

static struct user_data_case user_data_cases[] = {
        { "a document with a token", DOCUMENT "bootstrap:\n  token: " TOKEN "\n", NULL, "---\n" },
        { "a document without one", DOCUMENT "timeout: 5m\n", NULL, NULL },
        { "a document with an error in it", DOCUMENT "bootstrap:\n  taken: " TOKEN "\n", NULL, "---\n" },
        { "a cloud-config with a token", "#cloud-config\nnode_bootstrap:\n  bootstrap:\n    token: " TOKEN "\n", NULL, "---\n" },
        { "a document with an error in it, and no token", DOCUMENT "timeout: soon\n", NULL, NULL },
        { "a document with an error in it, and a token of k3s", DOCUMENT "bootstrap:\n  taken: K10" HASH "::node:secret\n", NULL, "---\n" },
        { "a document with an error in it, and a short token of k3s", DOCUMENT "bootstrap:\n  taken: K10::node:secret\n", NULL, "---\n" },
        { "a document with an error in it, and no token of k3s", DOCUMENT "bootstrap:\n  taken: K10node::K10\n", NULL, NULL },
        { "a cloud-config with an error in it, and a token", "#cloud-config\nnode_bootstrap: [ " TOKEN "\n", NULL, "---\n" },
        { "another tool's", "#!/bin/sh\necho " TOKEN "\n", NULL, NULL },
        { "a credential in JSON", "{\"systemd.credentials\":[{\"name\":\"node-bootstrap.token\",\"text\":\"" TOKEN "\"}]}\n", NULL, "---\n" },
        { "settings in JSON", "{\"systemd.credentials\":[{\"name\":\"node-bootstrap.config\",\"text\":\"" DOCUMENT_JSON "\"}]}\n", NULL, NULL },
        { "base64", "{\"systemd.credentials\":[{\"name\":\"node-bootstrap.token\",\"text\":\"" TOKEN "\"}]}\n", "base64\n", "LS0tCg==\n" },
        { "gzip and base64", "{\"systemd.credentials\":[{\"name\":\"node-bootstrap.token\",\"text\":\"" TOKEN "\"}]}\n", "gz+b64\n",
          "H4sIAAAAAAAC/9PV1eUCAL3OdoMEAAAA\n" },
};

static void clears_user_data(void **state) {
        const struct user_data_case *c = *state;
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "vmware\n");
        folder_put(&world.tool.folder, "/guestinfo.userdata", c->user_data);
        if (c->encoding)
                folder_put(&world.tool.folder, "/guestinfo.userdata.encoding", c->encoding);
        assert_int_equal(nb_discard(&world.places, &f), 0);
        assert_holds(&world.tool.folder, "/guestinfo.node-bootstrap.token", "---\n");
        assert_holds(&world.tool.folder, "/guestinfo.userdata", c->expected ? c->expected : c->user_data);
        done(&world);
}

static struct left_user_data_case {
        const char *name;
        const char *user_data;
} left_user_data_cases[] = {
        { "a cloud-config with an error in it is left, and said to be", "#cloud-config\nnode_bootstrap: [\n" },
        { "a gzip stream with an error in it is left, and said to be", "H4sIAAAAAAAC/9PV1eUCAL3O\n" },
};

/* It may be another tool's, and there is no other copy. */
static void leaves_user_data(void **state) {
        const struct left_user_data_case *c = *state;
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "vmware\n");
        folder_put(&world.tool.folder, "/guestinfo.userdata", c->user_data);
        assert_true(nb_discard(&world.places, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_non_null(strstr(f.detail, "'guestinfo.userdata' was left, though it may hold a token: "));
        assert_holds(&world.tool.folder, "/guestinfo.node-bootstrap.token", "---\n");
        assert_holds(&world.tool.folder, "/guestinfo.userdata", c->user_data);
        assert_false(is_there(&world.machine, "etc/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "kubelet/node-bootstrap.discard"));
        done(&world);
}

/* So that the next boot finds nothing in it, and no error either. */
static void what_it_sets_is_nothing(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(user_data_cases); i++) {
                const char *text = user_data_cases[i].expected;
                struct nb_user_data user_data = NB_USER_DATA_INIT;
                struct nb_failure f = { 0 };

                if (!text)
                        continue;
                assert_int_equal(nb_user_data_parse("a test", text, strlen(text), &user_data, &f), 0);
                assert_int_equal(user_data.kind, NB_USER_DATA_NOTHING);
                nb_user_data_done(&user_data);
        }
}

static void says_that_vmware_refuses(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "vmware\n");
        assert_int_equal(unlinkat(world.tool.folder.fd, "tool", 0), 0);
        assert_true(nb_discard(&world.places, &f) < 0);
        assert_int_equal(f.code, NB_TOKEN_NOT_DISCARDED);
        assert_non_null(strstr(f.detail, "guestinfo.node-bootstrap.token: "));
        assert_false(is_there(&world.machine, "etc/node-bootstrap.token"));
        assert_true(is_there(&world.machine, "kubelet/node-bootstrap.discard"));
        done(&world);
}

int main(void) {
        CASE(removes_what_is_plain);
        CASE(without_a_mark_nothing_is_done);
        CASES(bad_marks, refuses_a_mark);
        CASES(left_cases, leaves);
        CASES(user_data_cases, clears_user_data);
        CASES(left_user_data_cases, leaves_user_data);
        CASE(what_it_sets_is_nothing);
        CASE(says_that_vmware_refuses);
        return case_run("platform discard");
}
