/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "state_files/last.h"

#include "case.h"
#include "folder.h"
#include "lookup.h"

#define ID "0123456789abcdef0123456789abcdef"
#define OTHER "ffffffffffffffffffffffffffffffff"
#define HEAD "{\"version\":1,\"invocation\":\"" ID "\",\"state\":\"failed\","
#define SINCE "\"since\":\"2026-01-02T03:04:05Z\""
#define GOOD HEAD SINCE ",\"code\":\"csr-denied\",\"detail\":\"no\"}"

struct last_case {
        const char *name, *text;
        const char *active, *invocation; /* of the service, by systemd */
        const char *state, *code;
};

static struct last_case cases[] = {
        { "no file", NULL, "failed", ID, "", "" },
        { "of the newest run", GOOD, "failed", ID, "failed", "csr-denied" },
        { "of an older run", GOOD, "failed", OTHER, "", "" },
        { "of a run of which systemd no longer knows", GOOD, "inactive", "", "", "" },
        { "systemd does not answer", GOOD, "", "", "failed", "csr-denied" },
        { "without a reason", HEAD SINCE "}", "failed", ID, "failed", "" },
        { "an empty file", "", "failed", ID, "", "" },
        { "no JSON", GOOD "x", "failed", ID, "", "" },
        { "no time", HEAD "\"code\":\"csr-denied\"}", "failed", ID, "", "" },
        { "a time that is none", HEAD "\"since\":\"yesterday, at some time\"}", "failed", ID, "",
          "" },
        { "a code that does not exist", HEAD SINCE ",\"code\":\"csr-denie\"}", "failed", ID, "",
          "" },
        { "a control sequence", HEAD SINCE ",\"detail\":\"\\u001b[2J\"}", "failed", ID, "", "" },
        { "a line end", HEAD SINCE ",\"csr\":\"a\\nb\"}", "failed", ID, "", "" },
        { "a detail that is a list", HEAD SINCE ",\"detail\":[\"a\"]}", "failed", ID, "", "" },
        { "a key that does not exist", HEAD SINCE ",\"remedy\":\"a\"}", "failed", ID, "", "" },
        { "a state that is too long",
          "{\"version\":1,\"state\":\"aaaaaaaaaaaaaaaaaaaa\"," SINCE "}", "", "", "", "" },
};

static void reads_only_what_is_of_the_newest_run(void **state) {
        const struct last_case *c = *state;
        struct nb_unit_state service = { 0 };
        struct folder folder;
        struct nb_last last;

        folder_skip_without_lookup();
        folder_make(&folder);
        (void)strcpy(service.active, c->active);
        (void)strcpy(service.invocation, c->invocation);
        if (c->text)
                folder_put(&folder, NB_LAST_FOLDER "/" NB_LAST_NAME, c->text);
        nb_last_read(folder.fd, &service, &last);
        assert_string_equal(last.state, c->state);
        assert_string_equal(last.code, c->code);
        assert_string_equal(last.detail, c->code[0] ? "no" : "");
        assert_true(nb_last_is(&last, c->state));
        folder_remove(&folder);
}

static void adopts_the_fields(void **state) {
        struct nb_last last = { .fields[NB_FIELD_CSR] = "csr-1" };

        nb_log_field(NB_FIELD_NODE, "old");
        nb_last_adopt_fields(&last);
        assert_string_equal(nb_field_value(NB_FIELD_CSR), "csr-1");
        assert_string_equal(nb_field_value(NB_FIELD_NODE), "");
}

int main(void) {
        CASES(cases, reads_only_what_is_of_the_newest_run);
        CASE(adopts_the_fields);
        return case_run("files last");
}
