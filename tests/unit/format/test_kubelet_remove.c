/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "format/kubelet_env.h"

#include "allocation.h"
#include "case.h"

#define ARGS "KUBELET_KUBEADM_ARGS="
#define NAME "--hostname-override=n1"
#define TAINTS "--register-with-taints=a=b:NoSchedule"

static const char *const words[] = { NAME, TAINTS };

static struct remove_case {
        const char *name;
        const char *old;
        int expected;
        const char *text; /* NULL: nothing is left */
} cases[] = {
        { "the only one", ARGS "\"" NAME "\"\n", 1, NULL },
        { "all of them", ARGS "\"" NAME " " TAINTS "\"\n", 1, NULL },
        { "the only one, without quotes and newline", ARGS NAME, 1, NULL },
        { "the first", ARGS "\"" NAME " --a=b\"\n", 1, ARGS "\"--a=b\"\n" },
        { "the last", ARGS "\"--a=b " NAME "\"\n", 1, ARGS "\"--a=b\"\n" },
        { "in the middle, with many blanks", ARGS "\" --a=b \t " TAINTS "   --c=d \"\n", 1, ARGS "\"--a=b --c=d\"\n" },
        { "twice", ARGS "\"" NAME " --a=b " NAME "\"\n", 1, ARGS "\"--a=b\"\n" },
        { "beside other lines", "# by hand\nFOO=1\n" ARGS "\"" NAME "\"\nBAR=2", 1, "# by hand\nFOO=1\n" ARGS "\"\"\nBAR=2" },
        { "another value", ARGS "\"--hostname-override=n2\"\n", 0, NULL },
        { "a longer value", ARGS "\"" NAME "0\"\n", 0, NULL },
        { "a shorter value", ARGS "\"--hostname-override=n\"\n", 0, NULL },
        { "none", ARGS "\"--a=b\"\n", 0, NULL },
        { "no arguments", ARGS "\"\"\n", 0, NULL },
        { "another key", "FOO=\"" NAME "\"\n", 0, NULL },
        { "an empty file", "", 0, NULL },
        { "a quote that is not closed", ARGS "\"" NAME "\n", -EINVAL, NULL },
        { "two assignments", ARGS "\"" NAME "\"\n" ARGS "\"\"\n", -EINVAL, NULL },
};

static void removes(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        const struct remove_case *row = *state;

        assert_int_equal(nb_buffer_append_string(&text, "before"), 0);
        assert_int_equal(nb_kubeadm_flags_remove(row->old, strlen(row->old), words, N_ELEMENTS(words), &text), row->expected);
        assert_int_equal(text.len, strlen("before") + (row->text ? strlen(row->text) : 0));
        if (row->text)
                assert_memory_equal(text.data + strlen("before"), row->text, strlen(row->text));
}

static int run(const void *input) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);

        return nb_kubeadm_flags_remove(input, strlen(input), words, N_ELEMENTS(words), &text);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "FOO=1\n" ARGS "\"--a=b " NAME "\"\n");
}

int main(void) {
        CASES(cases, removes);
        CASE(memory_runs_out);
        return case_run("kubelet_remove");
}
