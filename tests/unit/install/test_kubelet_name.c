/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "case.h"
#include "install/kubelet_name.h"

struct override_case {
        const char *name, *text, *value; /* NULL: none */
};

static struct override_case overrides[] = {
        { "none", "/usr/bin/kubelet --v=2", NULL },
        { "after an equals sign", "kubelet --hostname-override=a --v=2", "a" },
        { "as a word of its own", "kubelet --hostname-override a --v=2", "a" },
        { "with underscores", "kubelet --hostname_override=a", "a" },
        { "in quotes", "KUBELET_EXTRA_ARGS=\"--hostname-override=a.b\"\n", "a.b" },
        { "with a quoted value", "--hostname-override=\"a\" --v=2", "a" },
        { "the last one counts", "--hostname-override=a --hostname-override=b", "b" },
        { "a longer option", "--hostname-override-file=a", NULL },
        { "at the end without a value", "--hostname-override", NULL },
        { "an empty value", "--hostname-override= --v=2", "" },
        { "a variable", "--hostname-override=${KUBELET_NODE_NAME} x", "${KUBELET_NODE_NAME}" },
};

static void found(void **state) {
        const struct override_case *c = *state;
        char value[NB_OVERRIDE_SIZE] = "";

        assert_int_equal(nb_override_find(c->text, value), c->value != NULL);
        assert_string_equal(value, c->value ? c->value : "");
}

struct unit_case {
        const char *name;
        const char *files[3];
        bool is_there, hands_name;
        const char *exec, *variable, *place; /* of the one that is there */
};

static struct unit_case units[] = {
        { "kubeadm's", { "[Service]\nExecStart=/usr/bin/kubelet\n", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBEADM_ARGS\n" }, true, true, "", "", "" },
        { "one that knows no name", { "[Service]\nExecStart=/usr/bin/kubelet --v=2\n" }, true, false, "", "", "" },
        { "OpenShift's", { "[Service]\nExecStart=/usr/bin/kubelet --hostname-override=${KUBELET_NODE_NAME}\n" }, true, true, "${KUBELET_NODE_NAME}", "", "0" },
        { "lines that go on", { "[Service]\nExecStart=/usr/bin/kubelet \\\n  --v=2 \\\n  --hostname-override=a\n" }, true, true, "a", "", "0" },
        { "a drop-in that replaces it", { "[Service]\nExecStart=/k --hostname-override=a\n", "[Service]\nExecStart=\nExecStart=/k\n" }, true, false, "", "", "" },
        { "a drop-in without an ExecStart=", { "[Service]\nExecStart=/k --hostname-override=a\n", "[Service]\nRestart=no\n" }, true, true, "a", "", "0" },
        { "by a variable", { "[Service]\nExecStart=/k $X\n", "[Service]\nEnvironment=\"X=--hostname-override=b\"\n" }, true, false, "", "b", "1" },
        { "in another section, or a comment", { "[Unit]\nExecStart=/k --hostname-override=a\n[Service]\n#ExecStart=/k --hostname-override=b\n" }, false, false, "", "", "" },
        { "blanks around the equals sign", { "[Service]\n ExecStart = /k --hostname-override=a\n" }, true, true, "a", "", "0" },
        { "nothing of it", { "" }, false, false, "", "", "" },
};

static void read_units(void **state) {
        const struct unit_case *c = *state;
        struct nb_kubelet_unit unit = { 0 };

        for (size_t i = 0; i < N_ELEMENTS(c->files) && c->files[i]; i++)
                nb_kubelet_unit_read(&unit, i == 0 ? "0" : "1", c->files[i]);
        assert_int_equal(unit.is_there, c->is_there);
        assert_int_equal(unit.hands_name, c->hands_name);
        assert_string_equal(unit.exec, c->exec);
        assert_string_equal(unit.variable, c->variable);
        if (unit.exec[0] || unit.variable[0])
                assert_string_equal(unit.exec[0] ? unit.exec_place : unit.variable_place, c->place);
}

/* Longer than a line and a place have room for. */
static void long_ones(void **state) {
        static char text[32 * 1024];
        struct nb_kubelet_unit unit = { 0 };
        char value[NB_OVERRIDE_SIZE];

        (void)snprintf(text, sizeof(text), "[Service]\nExecStart=/k --hostname-override=");
        memset(text + strlen(text), 'a', sizeof(text) - strlen(text) - 1);
        nb_kubelet_unit_read(&unit, text, text);
        assert_int_equal(strlen(unit.exec), NB_OVERRIDE_SIZE - 1);
        assert_true(nb_override_find(text, value));
        assert_int_equal(strlen(value), NB_OVERRIDE_SIZE - 1);
}

int main(void) {
        CASES(overrides, found);
        CASES(units, read_units);
        CASE(long_ones);
        return case_run("install kubelet name");
}
