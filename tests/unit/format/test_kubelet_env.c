/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "format/kubelet_env.h"

#include "allocation.h"
#include "case.h"

static void formats_the_name(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);

        assert_int_equal(nb_kubelet_env_format("worker-1", &text), 0);
        assert_string_equal(text.data, "KUBELET_NODE_NAME=worker-1\n");
}

struct edit_case {
        const char *name;
        const char *old; /* NULL: no such file */
        bool is_needed;
        int expected;
        const char *text;
};

#define ARGS "KUBELET_KUBEADM_ARGS="

static struct edit_case cases[] = {
        { "no file", NULL, true, 1, ARGS "\"--hostname-override=n1\"\n" },
        { "no file, and none needed", NULL, false, 0, NULL },
        { "an empty file", "", true, 1, ARGS "\"--hostname-override=n1\"\n" },
        { "empty arguments", ARGS "\"\"\n", true, 1, ARGS "\"--hostname-override=n1\"\n" },
        { "added at the end", ARGS "\"--a=b --c=d\"\n", true, 1, ARGS "\"--a=b --c=d --hostname-override=n1\"\n" },
        { "nothing to do", ARGS "\"--a=b --c=d\"\n", false, 0, NULL },
        { "replaced in its place", ARGS "\"--a=b --hostname-override=old --z=y\"\n", true, 1,
          ARGS "\"--a=b --hostname-override=n1 --z=y\"\n" },
        { "replaced also where the host name would do", ARGS "\"--hostname-override=old\"\n", false, 1,
          ARGS "\"--hostname-override=n1\"\n" },
        { "the same already", ARGS "\"--a=b --hostname-override=n1\"\n", true, 0, NULL },
        { "the same already, and none needed", ARGS "\"--hostname-override=n1 --a=b\"\n", false, 0, NULL },
        { "in two words", ARGS "\"--hostname-override old --a=b\"\n", true, 1,
          ARGS "\"--hostname-override=n1 --a=b\"\n" },
        { "in two words, the value missing", ARGS "\"--a=b --hostname-override\"\n", true, 1,
          ARGS "\"--a=b --hostname-override=n1\"\n" },
        { "with an underscore", ARGS "\"--hostname_override=old\"\n", true, 1, ARGS "\"--hostname-override=n1\"\n" },
        { "twice", ARGS "\"--hostname-override=x --a=b --hostname-override=n1\"\n", true, 1,
          ARGS "\"--hostname-override=n1 --a=b\"\n" },
        { "an option that begins alike", ARGS "\"--hostname-override-x=1\"\n", true, 1,
          ARGS "\"--hostname-override-x=1 --hostname-override=n1\"\n" },
        { "an option that begins alike, and none needed", ARGS "\"--hostname-override-x=1\"\n", false, 0, NULL },
        { "without quotes, as old kubeadm wrote", ARGS "--a=b --c=d\n", true, 1,
          ARGS "\"--a=b --c=d --hostname-override=n1\"\n" },
        { "single quotes", ARGS "'--a=b'\n", true, 1, ARGS "\"--a=b --hostname-override=n1\"\n" },
        { "several blanks", ARGS "\"  --a=b \t --c=d  \"  \n", true, 1,
          ARGS "\"--a=b --c=d --hostname-override=n1\"\n" },
        { "no newline at the end", ARGS "\"--a=b\"", true, 1, ARGS "\"--a=b --hostname-override=n1\"\n" },
        { "other lines stay", "# by hand\nFOO=\"a \\\" b\"\n\n" ARGS "\"--a=b\"\n; end\nBAR=1", true, 1,
          "# by hand\nFOO=\"a \\\" b\"\n\n" ARGS "\"--a=b --hostname-override=n1\"\n; end\nBAR=1\n" },
        { "another key alone", "FOO=bar", true, 1, "FOO=bar\n" ARGS "\"--hostname-override=n1\"\n" },
        { "a key that ends alike", "X_" ARGS "\"--a=b\"\n", true, 1,
          "X_" ARGS "\"--a=b\"\n" ARGS "\"--hostname-override=n1\"\n" },
        { "a comment that looks like it", "#" ARGS "\"--a=b\"\n", true, 1,
          "#" ARGS "\"--a=b\"\n" ARGS "\"--hostname-override=n1\"\n" },
        { "indented", "  KUBELET_KUBEADM_ARGS = \"--a=b\"\n", true, 1, ARGS "\"--a=b --hostname-override=n1\"\n" },
        { "a line that is no assignment", "hello\n", true, 1, "hello\n" ARGS "\"--hostname-override=n1\"\n" },
        { "the extra arguments are not ours", "KUBELET_EXTRA_ARGS=--hostname-override=x\n", false, 0, NULL },
        { "an escape", ARGS "\"--a=\\\"b c\\\"\"\n", true, -EINVAL, NULL },
        { "quotes inside", ARGS "\"--a='b c'\"\n", true, -EINVAL, NULL },
        { "quotes in the middle", ARGS "--a=\"b c\"\n", true, -EINVAL, NULL },
        { "two quoted parts", ARGS "\"--a=b\" \"--c=d\"\n", true, -EINVAL, NULL },
        { "a quote that is not closed", ARGS "\"--a=b\n", true, -EINVAL, NULL },
        { "a quote alone", ARGS "\"\n", true, -EINVAL, NULL },
        { "the next line goes on", ARGS "\"--a=b \\\n--c=d\"\n", true, -EINVAL, NULL },
        { "twice in the file", ARGS "\"--a=b\"\n" ARGS "\"--c=d\"\n", true, -EINVAL, NULL },
        { "inside of another value", "FOO=\"\n" ARGS "--a=b\n\"\n", true, -EINVAL, NULL },
        { "after a line that goes on", "FOO=1\\\n" ARGS "--a=b\n", true, -EINVAL, NULL },
        { "after a comment that goes on", "# x \\\n" ARGS "--a=b\n", true, -EINVAL, NULL },
        { "line ends of DOS", ARGS "\"--a=b\"\r\n", true, -EINVAL, NULL },
        { "unreadable, but none needed", ARGS "\"--a='b c'\"\n", false, 0, NULL },
        { "unreadable, with an override in it", ARGS "\"--a='b c' --hostname-override=x\"\n", false, -EINVAL, NULL },
};

/* The one argument that there was first. */
static int edit(const char *old, size_t len, const char *name, bool is_needed, struct nb_buffer *ret) {
        const struct nb_kubelet_argument argument = { "hostname-override", name, !is_needed };

        return nb_kubeadm_flags_edit(old, len, &argument, 1, ret);
}

static void edits(void **state) {
        const struct edit_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(512), again = NB_BUFFER_INIT(512);
        int r;

        r = edit(c->old, c->old ? strlen(c->old) : 0, "n1", c->is_needed, &text);
        assert_int_equal(r, c->expected);
        if (r <= 0) {
                assert_int_equal(text.len, 0);
                return;
        }
        assert_string_equal(text.data, c->text);
        assert_int_equal(edit(text.data, text.len, "n1", c->is_needed, &again), 0);
}

static void a_nul_is_refused(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(512);

        assert_int_equal(edit("A=b\0c\n", 6, "n1", true, &text), -EINVAL);
}

static void the_ceiling_is_kept(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(48);

        assert_int_equal(edit(NULL, 0, "a-name-that-is-too-long", true, &text), -E2BIG);
        assert_int_equal(text.len, 0);
}

struct list_case {
        const char *name;
        struct nb_kubelet_argument arguments[4];
        const char *old; /* NULL: no such file */
        int expected;
        const char *text;
};

#define SOCKET \
        { "container-runtime-endpoint", "unix:///run/containerd/containerd.sock", false }
#define SOCKET_TEXT "--container-runtime-endpoint=unix:///run/containerd/containerd.sock"
#define TAINTS \
        { "register-with-taints", "a=b:NoSchedule,c:NoExecute", false }
#define TAINTS_TEXT "--register-with-taints=a=b:NoSchedule,c:NoExecute"
#define NODE_IF_THERE \
        { "hostname-override", "n1", true }

static struct list_case lists[] = {
        { "list: none", { { NULL } }, ARGS "'--a b'\n", 0, NULL },
        { "list: no file", { SOCKET, TAINTS }, NULL, 1, ARGS "\"" SOCKET_TEXT " " TAINTS_TEXT "\"\n" },
        { "list: what is not kept is added, what is there only kept is not",
          { NODE_IF_THERE, TAINTS },
          ARGS "\"--a=b\"\n",
          1,
          ARGS "\"--a=b " TAINTS_TEXT "\"\n" },
        { "list: each in its place",
          { TAINTS, NODE_IF_THERE, SOCKET },
          ARGS "\"--hostname-override=x --b=c --container-runtime-endpoint=unix:///x --register-with-taints=y:NoExecute\"\n",
          1,
          ARGS "\"--hostname-override=n1 --b=c " SOCKET_TEXT " " TAINTS_TEXT "\"\n" },
        { "list: one of two is there already", { SOCKET, TAINTS }, ARGS "\"" TAINTS_TEXT "\"\n", 1, ARGS "\"" TAINTS_TEXT " " SOCKET_TEXT "\"\n" },
        { "list: all are there, in another order", { SOCKET, TAINTS }, ARGS "'" TAINTS_TEXT "   " SOCKET_TEXT "'\n", 0, NULL },
        { "list: all are there, one of them twice", { SOCKET }, ARGS "\"" SOCKET_TEXT " " SOCKET_TEXT "\"\n", 1, ARGS "\"" SOCKET_TEXT "\"\n" },
        { "list: an empty value", { { "node-ip", "", false } }, NULL, 1, ARGS "\"--node-ip=\"\n" },
        { "list: an option without a value keeps the next option", { { "rotate-certificates", "true", false } }, ARGS "\"--rotate-certificates --a=b\"\n", 1, ARGS "\"--rotate-certificates=true --a=b\"\n" },
        { "list: a value with a dash, in two words", { { "oom-score-adj", "0", false } }, ARGS "\"--oom-score-adj -999\"\n", 1, ARGS "\"--oom-score-adj=0\"\n" },
        { "list: an option in the value of another", { { "a", "1", false } }, ARGS "\"--b=--a=2\"\n", 1, ARGS "\"--b=--a=2 --a=1\"\n" },
        { "list: the file cannot be edited", { TAINTS }, ARGS "\"--a='b c'\"\n", -EINVAL, NULL },
        { "list: the file cannot be edited, and one that is only kept is in it",
          { NODE_IF_THERE },
          ARGS "\"--a='b c' --hostname_override=x\"\n",
          -EINVAL,
          NULL },
        { "list: the same option twice", { TAINTS, TAINTS }, NULL, -EINVAL, NULL },
        { "list: a name with a capital letter", { { "Name", "a", false } }, NULL, -EINVAL, NULL },
        { "list: a name with dashes before it", { { "--name", "a", false } }, NULL, -EINVAL, NULL },
        { "list: a name with '=' in it", { { "a=b", "a", false } }, NULL, -EINVAL, NULL },
        { "list: an empty name", { { "", "a", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a blank", { { "a", "b c", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a tab", { { "a", "b\tc", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a line end", { { "a", "b\nKUBELET_X=1", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a double quote", { { "a", "b\"c", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a quote", { { "a", "b'c", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a backslash", { { "a", "b\\c", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a variable", { { "a", "$HOME", false } }, NULL, -EINVAL, NULL },
        { "list: a value with a command", { { "a", "`id`", false } }, NULL, -EINVAL, NULL },
        { "list: a value that is no UTF-8", { { "a", "\xff", false } }, NULL, -EINVAL, NULL },
};

static size_t count(const struct nb_kubelet_argument *arguments) {
        size_t n = 0;

        while (n < 4 && arguments[n].name)
                n++;
        return n;
}

static void edits_a_list(void **state) {
        const struct list_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(512), again = NB_BUFFER_INIT(512);
        const size_t n = count(c->arguments);
        int r;

        r = nb_kubeadm_flags_edit(c->old, c->old ? strlen(c->old) : 0, c->arguments, n, &text);
        assert_int_equal(r, c->expected);
        if (r <= 0) {
                assert_int_equal(text.len, 0);
                return;
        }
        assert_string_equal(text.data, c->text);
        assert_int_equal(nb_kubeadm_flags_edit(text.data, text.len, c->arguments, n, &again), 0);
}

static int run(const void *input) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);

        return edit(input, strlen(input), "n1", true, &text);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, ARGS "\"--a=b --c=d\"\n");
}

int main(void) {
        CASE(formats_the_name);
        CASES(cases, edits);
        CASES(lists, edits_a_list);
        CASE(a_nul_is_refused);
        CASE(the_ceiling_is_kept);
        CASE(memory_runs_out);
        return case_run("kubelet_env");
}
