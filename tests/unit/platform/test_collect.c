/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "platform/collect.h"
#include "state_files/platform_note.h"
#include "tool.h"

#define VALUES "case $1 in *token) echo T;; *userdata) echo U;; esac"

struct world {
        struct folder machine, runtime;
        struct tool tool;
        char kernel_line[96], dmi[96], by_label[96];
        struct nb_places places;
};

static void make(struct world *world, const char *kernel_line, const char *vendor,
                 const char *script) {
        folder_make(&world->machine);
        folder_make(&world->runtime);
        tool_make(&world->tool, NULL, script);
        if (kernel_line)
                folder_put(&world->machine, "/cmdline", kernel_line);
        if (vendor)
                folder_put(&world->machine, "/dmi/sys_vendor", vendor);
        (void)snprintf(world->kernel_line, sizeof(world->kernel_line), "%s/cmdline",
                       world->machine.path);
        (void)snprintf(world->dmi, sizeof(world->dmi), "%s/dmi", world->machine.path);
        (void)snprintf(world->by_label, sizeof(world->by_label), "%s/by-label",
                       world->machine.path);
        world->places = (struct nb_places){ world->kernel_line, world->dmi, world->by_label,
                                            world->tool.list };
}

static void done(struct world *world) {
        folder_remove(&world->machine);
        folder_remove(&world->runtime);
        tool_remove(&world->tool);
}

/* NULL: there is no such file. */
static void assert_left(const struct world *world, const char *name, const char *expected) {
        struct nb_buffer data = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);
        struct stat st;
        int r = nb_file_read(world->runtime.fd, name, &data, &st);

        assert_int_equal(r, expected ? 0 : -ENOENT);
        if (expected) {
                assert_string_equal(data.data, expected);
                assert_int_equal(st.st_mode & 07777, 0600);
        }
        nb_buffer_done(&data);
}

#define NOTE(id, source, guestinfo) \
        "{\n  \"platformId\": \"" id "\",\n  \"dataSource\": \"" source \
        "\",\n  \"volume\": \"\",\n  \"hasGuestinfo\": " guestinfo "\n}\n"

struct machine_case {
        const char *name;
        const char *kernel_line, *vendor, *script;
        const char *note, *user_data, *token;
};

static struct machine_case cases[] = {
        { "nothing", "ro quiet\n", NULL, "exit 9", NOTE("", "", "false"), NULL, NULL },
        { "the kernel command line", "ignition.platform.id=qemu ds=nocloud;x\n", "QEMU\n", "exit 9",
          NOTE("qemu", "nocloud", "false"), NULL, NULL },
        { "guestinfo by DMI", "ro\n", "VMware, Inc.\n", VALUES, NOTE("", "", "true"), "U", "T" },
        { "guestinfo by the short vendor of DMI", "ro\n", "VMW\n", VALUES, NOTE("", "", "true"),
          "U", "T" },
        { "guestinfo by the kernel command line", "ignition.platform.id=vmware\n", NULL, VALUES,
          NOTE("vmware", "", "true"), "U", "T" },
        { "guestinfo without values", "ro\n", "VMware, Inc.\n", "echo 'No value found' >&2; exit 1",
          NOTE("", "", "true"), NULL, NULL },
        { "VMware's tools on another platform", "ro\n", "QEMU\n", VALUES, NOTE("", "", "false"),
          NULL, NULL },
};

static void collects(void **state) {
        const struct machine_case *c = *state;
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, c->kernel_line, c->vendor, c->script);
        folder_put(&world.runtime, "/user-data", "old");
        folder_put(&world.runtime, "/meta-data", "old");
        folder_put(&world.runtime, "/token", "old");
        assert_int_equal(nb_collect(&world.places, world.runtime.fd, &f), 0);
        assert_left(&world, "platform.json", c->note);
        assert_left(&world, "user-data", c->user_data);
        assert_left(&world, "meta-data", NULL);
        assert_left(&world, "token", c->token);
        done(&world);
}

static void writes_what_can_be_read(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, "ignition.platform.id=vmware\n", NULL, VALUES);
        folder_link(&world.machine, "/by-label/cidata", "/dev/null");
        assert_true(nb_collect(&world.places, world.runtime.fd, &f) < 0);
        assert_int_equal(f.code, NB_PLATFORM_UNREADABLE);
        assert_non_null(strstr(f.detail, "/by-label/cidata' cannot be mounted"));
        assert_left(&world, "platform.json", NOTE("vmware", "", "true"));
        assert_left(&world, "token", "T");
        done(&world);
}

static void names_what_cannot_be_read(void **state) {
        struct nb_failure f = { 0 };
        struct world world;

        make(&world, NULL, "VMware, Inc.\n", "echo broken >&2; exit 3");
        assert_true(nb_collect(&world.places, world.runtime.fd, &f) < 0);
        assert_int_equal(f.code, NB_PLATFORM_UNREADABLE);
        assert_non_null(strstr(f.detail, "/cmdline' cannot be read: No such file or directory"));
        assert_left(&world, "platform.json", NOTE("", "", "false"));
        done(&world);
}

int main(void) {
        CASES(cases, collects);
        CASE(writes_what_can_be_read);
        CASE(names_what_cannot_be_read);
        return case_run("platform collect");
}
