/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "case.h"
#include "install/alone.h"

#define UNIT "/system.slice/node-bootstrap.service"

#define UNIFIED "0::" UNIT "\n"
#define VERSION_1 "3:memory:/other\n2:name=systemd:" UNIT "\n1:cpu,cpuacct:/\n"

struct path_case {
        const char *name, *text;
        bool is_unified;
        int r;
        const char *path;
};

static struct path_case path_cases[] = {
        { "unified", UNIFIED, true, 0, UNIT },
        { "version 1", VERSION_1, false, 0, UNIT },
        { "hybrid: the one of the name systemd counts", VERSION_1 "0::/elsewhere\n", false, 0,
          UNIT },
        { "hybrid, unified in the place of version 1", "2:name=systemd:/elsewhere\n" UNIFIED, true,
          0, UNIT },
        { "root of a namespace", "0::/\n", true, 0, "/" },
        { "a colon in the path", "0::/a:b\n", true, 0, "/a:b" },
        { "no newline at the end", "0::/a", true, 0, "/a" },
        { "version 1 has no unified one", VERSION_1, true, -EINVAL, NULL },
        { "unified has none of version 1", UNIFIED, false, -EINVAL, NULL },
        { "a name that begins alike", "2:name=systemd2:/a\n", false, -EINVAL, NULL },
        { "empty", "", true, -EINVAL, NULL },
        { "no path", "0::\n", true, -EINVAL, NULL },
        { "no colons", "0\n", true, -EINVAL, NULL },
        { "above the namespace", "0::/../other\n", true, -EINVAL, NULL },
        { "ends above the namespace", "0::/..\n", true, -EINVAL, NULL },
        { "beside the main process", "0::" UNIT "/.control\n", true, -EINVAL, NULL },
        { "longer than the place for it",
          "0::/01234567890123456789012345678901234567890123456789012345678901234\n", true,
          -ENAMETOOLONG, NULL },
};

static void path_is_parsed(void **state) {
        const struct path_case *c = *state;
        char path[64] = "untouched";

        assert_int_equal(nb_cgroup_path_parse(c->text, c->is_unified, path, sizeof(path)), c->r);
        if (c->r == 0)
                assert_string_equal(path, c->path);
}

struct procs_case {
        const char *name, *text;
        int r;
        pid_t other;
};

/* The process that asks is 42. */
static struct procs_case procs_cases[] = {
        { "alone", "42\n", 0, 0 },
        { "listed twice, as version 1 may", "42\n42\n", 0, 0 },
        { "another one after", "42\n4242\n", -EEXIST, 4242 },
        { "another one before", "7\n42\n", -EEXIST, 7 },
        { "one without a number here", "42\n0\n", -EEXIST, 0 },
        { "only another one", "43\n", -EEXIST, 43 },
        { "nobody", "", -EINVAL, -1 },
        { "no newline", "42", -EEXIST, 42 },
        { "no number", "x\n", -EEXIST, 0 },
        { "negative", "-42\n", -EEXIST, -42 },
        { "a blank before", " 42\n", -EEXIST, 42 },
        { "a blank after", "42 \n", -EEXIST, 42 },
        { "an empty line", "42\n\n", -EEXIST, 0 },
        { "more than a number can be", "42\n99999999999999999999\n", -EEXIST, -1 },
        { "the number once around", "4294967338\n", -EEXIST, 42 },
};

static void processes_are_counted(void **state) {
        const struct procs_case *c = *state;
        pid_t other = -1;

        assert_int_equal(nb_cgroup_procs_verify(c->text, 42, &other), c->r);
        if (c->r == -EEXIST)
                assert_int_equal(other, c->other);
}

int main(void) {
        CASES(path_cases, path_is_parsed);
        CASES(procs_cases, processes_are_counted);
        return case_run("install alone");
}
