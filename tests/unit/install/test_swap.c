/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "case.h"
#include "folder.h"
#include "install/swap.h"
#include "lookup.h"

static struct folder folder;

static void set_up(void) {
        folder_make(&folder);
}

static void tear_down(void) {
        folder_remove(&folder);
}

/* What has the name "a" ("" for nothing; a link reads as what it names), and whether the temporary
 * name is free. */
static void expect(const char *text, const char *temporary) {
        char found[16] = "";
        struct nb_buffer file = NB_BUFFER_INIT(16);

        if (readlinkat(folder.fd, "a", found, sizeof(found) - 1) < 0 &&
            nb_file_read(folder.fd, "a", &file, NULL) == 0)
                (void)snprintf(found, sizeof(found), "%s", file.data);
        nb_buffer_done(&file);
        assert_string_equal(found, text);
        assert_int_equal(faccessat(folder.fd, temporary, F_OK, AT_SYMLINK_NOFOLLOW), -1);
}

struct old_case {
        const char *name;
        const char *file; /* what is there before; NULL for nothing */
        const char *link;
};

static struct old_case olds[] = {
        { "over nothing", NULL, NULL },
        { "over a file", "old", NULL },
        { "over a link", NULL, "/old" },
};

static void put_old(const struct old_case *c) {
        if (c->file)
                folder_put(&folder, "/a", c->file);
        if (c->link)
                folder_link(&folder, "/a", c->link);
        folder_put(&folder, "/.a.tmp", "of a crash");
}

static const char *old_text(const struct old_case *c) {
        return c->file ? c->file : c->link ? c->link : "";
}

static struct nb_swap new_swap(mode_t mode) {
        static char text[] = "new";

        return (struct nb_swap){ .folder_fd = folder.fd,
                                 .fd = -1,
                                 .name = "a",
                                 .mode = mode,
                                 .is_wanted = true,
                                 .text = { .data = text, .len = 3 } };
}

static void swaps(void **state) {
        const struct old_case *c = *state;

        for (unsigned i = 0; i < 6; i++) {
                struct nb_swap swap;
                struct nb_failure f = { 0 };

                set_up();
                put_old(c);
                /* nb_swap_open() does this. */
                assert_int_equal(nb_file_remove(folder.fd, ".a.tmp"), 0);
                swap = new_swap(i % 2 ? S_IFLNK : 0600);
                assert_int_equal(nb_swap_stage(&swap, 1, &f), 0);
                if (i < 2)
                        assert_int_equal(nb_swap_undo(&swap), 0);
                else {
                        assert_int_equal(nb_swap_publish(&swap, &f), 0);
                        if (i < 4)
                                assert_int_equal(nb_swap_undo(&swap), 0);
                        else
                                nb_swap_keep(&swap);
                }
                expect(i < 4 ? old_text(c) : "new", ".a.tmp");
                assert_int_equal(nb_swap_undo(&swap), 0);
                tear_down();
        }
}

static void folder_is_not_moved_away(void **state) {
        struct nb_swap swap;
        struct nb_failure f = { 0 };

        set_up();
        assert_int_equal(mkdirat(folder.fd, "a", 0755), 0);
        swap = new_swap(0600);
        assert_int_equal(nb_swap_stage(&swap, 1, &f), -EISDIR);
        swap = new_swap(S_IFLNK);
        assert_int_equal(nb_swap_stage(&swap, 1, &f), -EISDIR);
        assert_int_equal(nb_swap_publish(&swap, &f), 0);
        assert_int_equal(nb_swap_undo(&swap), 0);
        tear_down();
}

/* It may hold a key or an old kubeconfig. */
static void opening_removes_what_a_crash_left(void **state) {
        struct nb_failure f = { 0 };
        struct nb_swap swap;

        folder_skip_without_lookup();
        set_up();
        put_old(&olds[1]);
        nb_swap_init(&swap, "/", "a", 0600);
        assert_int_equal(nb_swap_open(&swap, folder.fd, &f), 0);
        expect("old", ".a.tmp");
        nb_swap_done(&swap);
        tear_down();
}

struct fail_case {
        const char *name, *path;
        int r;
        bool has_folder; /* the folder that the unit makes writable */
        enum nb_code code;
};

static struct fail_case fails[] = {
        { "a full disk", "/etc/kubernetes/kubelet.conf", -ENOSPC, false, NB_DISK_FULL },
        { "a folder that the unit does not make writable", "/etc/kubernetes/kubelet.conf", -EROFS,
          false, NB_DIRECTORY_MISSING },
        { "a file system that is read-only", "/etc/kubernetes/kubelet.conf", -EROFS, true,
          NB_TARGET_UNWRITABLE },
        { "a read-only path of the administrator", "/srv/kubelet.conf", -EROFS, false,
          NB_TARGET_UNWRITABLE },
};

static void names_the_cause(void **state) {
        const struct fail_case *c = *state;
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        set_up();
        if (c->has_folder)
                folder_put(&folder, "/etc/kubernetes/x", "");
        assert_true(nb_swap_fail_folder(folder.fd, c->path, c->r, &f) < 0);
        assert_int_equal(f.code, c->code);
        assert_non_null(strstr(f.detail, c->path));
        tear_down();
}

static void knows_what_is_there(void **state) {
        static const mode_t types[] = { S_IFREG, S_IFLNK, S_IFDIR };
        struct nb_failure f = { 0 };
        struct nb_swap swap;

        set_up();
        swap = new_swap(0600);
        for (size_t i = 0; i <= N_ELEMENTS(types); i++) {
                for (size_t j = 0; j < N_ELEMENTS(types); j++)
                        assert_int_equal(nb_swap_is_at(&swap, types[j]), i > 0 && i - 1 == j);
                (void)unlinkat(folder.fd, "a", 0);
                if (i == 0)
                        folder_put(&folder, "/a", "");
                else if (i == 1)
                        folder_link(&folder, "/a", "nowhere");
                else if (i == 2)
                        assert_int_equal(mkdirat(folder.fd, "a", 0755), 0);
        }
        assert_true(nb_swap_fail("/a", -EACCES, &f) < 0);
        assert_int_equal(f.code, NB_TARGET_UNWRITABLE);
        tear_down();
}

int main(void) {
        CASES(fails, names_the_cause);
        CASE(knows_what_is_there);
        CASES(olds, swaps);
        CASE(opening_removes_what_a_crash_left);
        CASE(folder_is_not_moved_away);
        return case_run("install swap");
}
