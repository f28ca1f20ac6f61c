/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "folder.h"
#include "metadata/user_data.h"
#include "platform/volume.h"

static int read_volume(const struct folder *folder, enum nb_volume_kind kind,
                       struct nb_volume *volume, struct nb_failure *f) {
        *volume = (struct nb_volume)NB_VOLUME_INIT;
        return nb_volume_read_files(folder->fd, kind, volume, f);
}

static void reads_a_seed(void **state) {
        struct nb_failure f = { 0 };
        struct nb_volume volume;
        struct folder folder;

        folder_make(&folder);
        folder_put(&folder, "/user-data", "#cloud-config\n");
        folder_put(&folder, "/meta-data", "instance-id: a\n");
        assert_int_equal(read_volume(&folder, NB_VOLUME_NOCLOUD, &volume, &f), 0);
        assert_string_equal(volume.label, "cidata");
        assert_string_equal(volume.user_data.data, "#cloud-config\n");
        assert_string_equal(volume.meta_data.data, "instance-id: a\n");
        nb_volume_done(&volume);
        assert_int_equal(read_volume(&folder, NB_VOLUME_CONFIG_DRIVE, &volume, &f), 0);
        assert_string_equal(volume.label, "config-2");
        assert_int_equal(volume.user_data.len + volume.meta_data.len, 0);
        nb_volume_done(&volume);
        folder_remove(&folder);
}

static void reads_a_config_drive(void **state) {
        struct nb_failure f = { 0 };
        struct nb_volume volume;
        struct folder folder;

        folder_make(&folder);
        folder_put(&folder, "/openstack/latest/meta_data.json", "{}");
        assert_int_equal(read_volume(&folder, NB_VOLUME_CONFIG_DRIVE, &volume, &f), 0);
        assert_int_equal(volume.user_data.len, 0);
        assert_string_equal(volume.meta_data.data, "{}");
        nb_volume_done(&volume);
        folder_remove(&folder);
}

struct refused_case {
        const char *name;
        void (*put)(const struct folder *folder);
        enum nb_volume_kind kind;
        const char *expected;
};

static void put_link(const struct folder *folder) {
        folder_link(folder, "/user-data", "/etc/hostname");
}

static void put_link_to_folder(const struct folder *folder) {
        folder_put(folder, "/elsewhere/user_data", "x");
        folder_link(folder, "/openstack/latest", "../elsewhere");
}

static void put_link_above(const struct folder *folder) {
        folder_link(folder, "/openstack", "/tmp");
}

static void put_pipe(const struct folder *folder) {
        assert_int_equal(mkfifoat(folder->fd, "user-data", 0600), 0);
}

static void put_folder(const struct folder *folder) {
        assert_int_equal(mkdirat(folder->fd, "meta-data", 0700), 0);
}

static void put_file_for_folder(const struct folder *folder) {
        folder_put(folder, "/openstack/latest", "x");
}

static void put_large(const struct folder *folder) {
        char path[PATH_MAX];

        folder_put(folder, "/user-data", "");
        folder_locate(folder, "/user-data", path);
        assert_int_equal(truncate(path, NB_USER_DATA_MAX + 1), 0);
}

static struct refused_case refused[] = {
        { "a link", put_link, NB_VOLUME_NOCLOUD,
          "user-data on volume 'cidata' cannot be read: Too many levels of symbolic links" },
        { "a link to a folder", put_link_to_folder, NB_VOLUME_CONFIG_DRIVE,
          "on volume 'config-2' cannot be read: Not a directory" },
        { "a link to a parent folder", put_link_above, NB_VOLUME_CONFIG_DRIVE,
          "on volume 'config-2' cannot be read: Not a directory" },
        { "a pipe", put_pipe, NB_VOLUME_NOCLOUD,
          "user-data on volume 'cidata' cannot be read: Invalid argument; expected a regular "
          "file" },
        { "a folder", put_folder, NB_VOLUME_NOCLOUD,
          "meta-data on volume 'cidata' cannot be read: Invalid argument; expected a regular "
          "file" },
        { "a file where a folder should be", put_file_for_folder, NB_VOLUME_CONFIG_DRIVE,
          "cannot be read: Not a directory" },
        { "a file that is too large", put_large, NB_VOLUME_NOCLOUD,
          "user-data on volume 'cidata' cannot be read: File too large; expected a regular file of "
          "at most 1 MiB" },
};

static void refuses(void **state) {
        const struct refused_case *c = *state;
        struct nb_failure f = { 0 };
        struct nb_volume volume;
        struct folder folder;

        folder_make(&folder);
        c->put(&folder);
        assert_true(read_volume(&folder, c->kind, &volume, &f) < 0);
        assert_int_equal(f.code, NB_PLATFORM_UNREADABLE);
        if (!strstr(f.detail, c->expected))
                fail_msg("'%s' is not in '%s'", c->expected, f.detail);
        assert_null(volume.label);
        nb_volume_done(&volume);
        folder_remove(&folder);
}

static void accepts_a_machine_without_a_volume(void **state) {
        struct nb_volume volume = NB_VOLUME_INIT;
        struct nb_failure f = { 0 };
        struct folder folder;

        folder_make(&folder);
        folder_put(&folder, "/root", "");
        assert_int_equal(nb_volume_read(folder.path, NB_VOLUME_NOCLOUD, &volume, &f), 0);
        assert_null(volume.label);
        assert_int_equal(nb_volume_read("/nonexistent/by-label", NB_VOLUME_NOCLOUD, &volume, &f),
                         0);
        assert_null(volume.label);
        folder_remove(&folder);
}

struct order_case {
        const char *name;
        const char *labels[2];
        enum nb_volume_kind first;
        const char *expected;
};

static struct order_case orders[] = {
        { "either kind: the one asked for first",
          { "cidata", "config-2" },
          NB_VOLUME_NOCLOUD,
          "/cidata' cannot be mounted" },
        { "either kind: the other one asked for first",
          { "cidata", "config-2" },
          NB_VOLUME_CONFIG_DRIVE,
          "/config-2' cannot be mounted" },
        { "the kind that is not asked for first",
          { "cidata" },
          NB_VOLUME_CONFIG_DRIVE,
          "/cidata' cannot be mounted" },
        { "upper case", { "CONFIG-2" }, NB_VOLUME_NOCLOUD, "/CONFIG-2' cannot be mounted" },
        { "lower case before upper case",
          { "CIDATA", "cidata" },
          NB_VOLUME_NOCLOUD,
          "/cidata' cannot be mounted" },
};

/* Fails for root because it is not a volume, and for other users because they may not mount. */
static void finds_in_order(void **state) {
        const struct order_case *c = *state;
        struct nb_volume volume = NB_VOLUME_INIT;
        struct nb_failure f = { 0 };
        struct folder folder;

        folder_make(&folder);
        for (size_t i = 0; i < N_ELEMENTS(c->labels) && c->labels[i]; i++)
                assert_int_equal(symlinkat("/dev/null", folder.fd, c->labels[i]), 0);
        assert_true(nb_volume_read(folder.path, c->first, &volume, &f) < 0);
        assert_int_equal(f.code, NB_PLATFORM_UNREADABLE);
        if (!strstr(f.detail, c->expected))
                fail_msg("'%s' is not in '%s'", c->expected, f.detail);
        folder_remove(&folder);
}

int main(void) {
        CASE(reads_a_seed);
        CASE(reads_a_config_drive);
        CASES(refused, refuses);
        CASE(accepts_a_machine_without_a_volume);
        CASES(orders, finds_in_order);
        return case_run("platform volume");
}
