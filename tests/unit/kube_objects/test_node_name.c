/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "kube_objects/node_name.h"

#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1

struct name_case {
        const char *name;
        const char *text;
        size_t len;
        const char *expected; /* NULL: refused */
};

static struct name_case cases[] = {
        { "a host name", TEXT("worker-1"), "worker-1" },
        { "a fully qualified name", TEXT("worker-1.example.com"), "worker-1.example.com" },
        { "upper case becomes lower case", TEXT("Worker-1.Example.COM"), "worker-1.example.com" },
        { "space around it goes", TEXT(" \t\v\f\r\nworker\n"), "worker" },
        { "only digits", TEXT("10"), "10" },
        { "an address", TEXT("10.0.0.10"), "10.0.0.10" },
        { "two hyphens", TEXT("xn--bcher-kva"), "xn--bcher-kva" },
        { "nothing", TEXT(""), NULL },
        { "only a space", TEXT(" \n"), NULL },
        { "an underscore", TEXT("worker_1"), NULL },
        { "a space inside", TEXT("worker 1"), NULL },
        { "a hyphen first", TEXT("-worker"), NULL },
        { "a hyphen last", TEXT("worker-"), NULL },
        { "a hyphen before a dot", TEXT("worker-.example"), NULL },
        { "a dot first", TEXT(".worker"), NULL },
        { "a dot last", TEXT("worker."), NULL },
        { "two dots", TEXT("worker..example"), NULL },
        { "a NUL inside", TEXT("work\0er"), NULL },
        { "a NUL at the end", TEXT("worker\0"), NULL },
        { "not ASCII",
          TEXT("b\xc3\xbc"
               "cher"),
          NULL },
        { "a letter that lower-casing by locale would take for k",
          TEXT("wor\xe2\x84\xaa"
               "er"),
          NULL },
        { "a slash", TEXT("../worker"), NULL },
        { "a quote", TEXT("worker\""), NULL },
};

static void parses(void **state) {
        const struct name_case *c = *state;
        char name[NB_NODE_NAME_MAX + 1] = "kept";

        assert_int_equal(nb_node_name_parse(c->text, c->len, name), c->expected ? 0 : -EINVAL);
        assert_string_equal(name, c->expected ? c->expected : "kept");
}

struct choice_case {
        const char *name;
        const char *configured, *host, *expected; /* NULL: refused */
        bool is_override_needed;
};

static struct choice_case choices[] = {
        { "choice: the host's", "", "Worker-1", "worker-1", false },
        { "choice: the configured one", "a", "worker-1", "a", true },
        { "choice: the configured one is the host's", "worker-1", "Worker-1", "worker-1", false },
        { "choice: the host's does not do", "", "worker_1", NULL, false },
        { "choice: the host's does not do, but one is configured", "a", "worker_1", "a", true },
};

static void chooses(void **state) {
        const struct choice_case *c = *state;
        char name[NB_NODE_NAME_MAX + 1] = "";
        bool is_override_needed = false;
        struct nb_failure f = { 0 };
        int r = nb_node_name_choose(c->configured, c->host, name, &is_override_needed, &f);

        assert_int_equal(f.code, c->expected ? NB_NONE : NB_NODE_NAME_INVALID);
        assert_int_equal(r, c->expected ? 0 : -EINVAL);
        assert_string_equal(name, c->expected ? c->expected : "");
        assert_int_equal(is_override_needed, c->is_override_needed);
}

static void the_longest_is_253(void **state) {
        char text[NB_NODE_NAME_MAX + 1], name[NB_NODE_NAME_MAX + 1];

        memset(text, 'a', sizeof(text));
        assert_int_equal(nb_node_name_parse(text, NB_NODE_NAME_MAX, name), 0);
        assert_int_equal(strlen(name), NB_NODE_NAME_MAX);
        assert_int_equal(nb_node_name_parse(text, NB_NODE_NAME_MAX + 1, name), -EINVAL);
}

int main(void) {
        CASES(cases, parses);
        CASES(choices, chooses);
        CASE(the_longest_is_253);
        return case_run("node_name");
}
