/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "metadata/user_data.h"
#include "platform/guestinfo.h"
#include "tool.h"

struct answer_case {
        const char *name;
        const char *script;
        const char *expected; /* NULL: no value */
        const char *failure;  /* in the message */
};

static struct answer_case cases[] = {
        { "a value", "echo abcdef.0123456789abcdef", "abcdef.0123456789abcdef", NULL },
        { "a value of several lines", "printf 'a\\nb\\n\\n'", "a\nb\n", NULL },
        { "the request is one argument", "[ $# = 1 ] && echo \"$1\"", "info-get guestinfo.x",
          NULL },
        { "no value, by vmware-rpctool", "echo 'No value found' >&2; exit 1", NULL, NULL },
        { "no value, by vmtoolsd", "echo 'No value found'; exit 1", NULL, NULL },
        { "an empty value", "echo", NULL, NULL },
        { "white space", "printf ' \\t\\n'", NULL, NULL },
        { "a cleared value", "echo ---", NULL, NULL },
        { "a value that begins like a cleared one", "echo '--- a'", "--- a", NULL },
        { "not on VMware", "echo 'Failed sending message to VMware.' >&2; exit 1", NULL,
          "cannot read guestinfo.x (exit status 1): Failed sending message to VMware." },
        { "killed", "kill -SEGV $$", NULL, "exit status 139" },
        { "a value that is too large", "exec cat /dev/zero", NULL, "it is larger than 1 MiB" },
};

static void asks(void **state) {
        const struct answer_case *c = *state;
        struct nb_secret value = NB_SECRET_INIT;
        struct nb_failure f = { 0 };
        struct tool tool;
        int r;

        tool_make(&tool, NULL, c->script);
        r = nb_guestinfo_get(nb_guestinfo_find(tool.list), "guestinfo.x", &value, &f);
        assert_int_equal(r >= 0, !c->failure);
        assert_int_equal(f.code, c->failure ? NB_PLATFORM_UNREADABLE : NB_NONE);
        if (c->failure && !strstr(f.detail, c->failure))
                fail_msg("'%s' is not in '%s'", c->failure, f.detail);
        if (c->expected)
                assert_string_equal(value.data, c->expected);
        else
                assert_null(value.data);
        nb_secret_done(&value);
        tool_remove(&tool);
}

static void runs_the_first_installed_tool(void **state) {
        struct nb_secret value = NB_SECRET_INIT;
        struct nb_failure f = { 0 };
        struct tool tool;

        tool_make(&tool, "--cmd", "[ $# = 2 ] && echo \"$1:$2\"");
        {
                const struct nb_guestinfo_tool list[] = { { "/nonexistent/vmware-rpctool", NULL },
                                                          tool.list[0],
                                                          { NULL, NULL } };

                assert_int_equal(
                        nb_guestinfo_get(nb_guestinfo_find(list), "guestinfo.x", &value, &f), 0);
        }
        assert_string_equal(value.data, "--cmd:info-get guestinfo.x");
        nb_secret_done(&value);
        tool_remove(&tool);
}

static void reports_that_no_tool_is_installed(void **state) {
        const struct nb_guestinfo_tool list[] = { { "/nonexistent/vmware-rpctool", NULL },
                                                  { NULL, NULL } };

        assert_null(nb_guestinfo_find(list));
}

int main(void) {
        CASES(cases, asks);
        CASE(runs_the_first_installed_tool);
        CASE(reports_that_no_tool_is_installed);
        return case_run("platform guestinfo");
}
