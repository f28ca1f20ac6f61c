/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "metadata/metadata_document.h"

#include "case.h"

struct secret_case {
        const char *name;
        const char *yaml;
        int r;             /* 1, 0, or -1 for any failure */
        const char *value; /* or a part of why it failed */
};

static struct secret_case seeds[] = {
        { "nothing", "", 0, "" },
        { "a comment", "# nothing\n", 0, "" },
        { "local-hostname", "instance-id: i1\nlocal-hostname: node-1\n", 1, "node-1" },
        { "hostname", "hostname: node-2\n", 1, "node-2" },
        { "local-hostname is stronger", "hostname: a\nlocal-hostname: b\n", 1, "b" },
        { "JSON, which is YAML", "{\"local-hostname\": \"node-3\"}", 1, "node-3" },
        { "null is nothing", "local-hostname: null\nhostname:\n", 0, "" },
        { "a list", "local-hostname: [a]\n", -1, "local-hostname: expected a name" },
        { "a list instead of a mapping", "node-1\n", -1, "expected a mapping" },
        { "invalid YAML", "local-hostname: [\n", -1, "the metadata" },
};

static void check_secret(const struct secret_case *c, int r, const struct nb_secret *secret,
                         const struct nb_failure *f) {
        if (c->r < 0) {
                assert_true(r < 0);
                assert_int_equal(f->code, NB_METADATA_MALFORMED);
                assert_non_null(strstr(f->detail, c->value));
                assert_null(secret->data);
                return;
        }
        assert_int_equal(r, c->r);
        assert_string_equal(secret->data ? secret->data : "", c->value);
}

static void reads_a_seed_name(void **state) {
        const struct secret_case *c = *state;
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        check_secret(c,
                     nb_metadata_seed_name(c->yaml, strlen(c->yaml), "the metadata", &secret, &f),
                     &secret, &f);
        nb_secret_done(&secret);
}

struct text_case {
        const char *name;
        const char *text;
        int r;
        const char *value;
};

int main(void) {
        CASES(seeds, reads_a_seed_name);
        return case_run("format/metadata_document");
}
