/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/tell.h"
#include "systemd/log.h"

#include "case.h"
#include "folder.h"
#include "lookup.h"

#define HEARD "Waiting\nCODE=csr-pending\nDETAIL=it is pending\n"

/* What is in last.json; all "" without it. */
static struct nb_last read_last(const struct folder *folder) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure f = { 0 };
        struct nb_last last = { 0 };

        if (nb_path_read(folder->fd, NB_LAST_FOLDER "/" NB_LAST_NAME, NB_HANDOFF_MAX, &text) >= 0)
                assert_int_equal(nb_state_file_parse(&nb_last_file, text.data, text.len, &last, &f),
                                 0);
        return last;
}

static void begin(struct folder *folder, struct nb_teller *teller) {
        folder_skip_without_lookup();
        folder_make(folder);
        folder_put(folder, NB_LAST_FOLDER "/x", "");
        (void)setenv("INVOCATION_ID", "0123456789abcdef0123456789abcdef", 1);
        nb_tell_begin(teller, folder->fd);
}

struct heard_case {
        const char *name, *text;
        const char *code, *detail, *csr; /* NULL: "" */
};

static struct heard_case heard[] = {
        { "a status alone", "CODE=csr-pending: a status" },
        { "nothing", "" },
        { "a failure", HEARD "CSR=csr-1\n", "csr-pending", "it is pending", "csr-1" },
        { "a failure of which the end is missing", "x\nCODE=csr-pending\nDETAIL=it", "csr-pending",
          "it" },
        { "a code that does not exist", "x\nCODE=csr-\nDETAIL=it\n", "", "it" },
        { "an event, which is no failure", "x\nCODE=already-joined\nDETAIL=it\n", "", "it" },
        { "a code with more behind it", "x\nCODE=csr-pending \n" },
        { "no value", "x\nCODE\nCODE=\n=\n=x\n\n" },
        { "names that do not exist", "x\nstate=joined\nINVOCATION=x\nCS=x\nCSRX=x\n" },
        { "controls", "x\nDETAIL=a\x1b[2J\tb\r\xff\nCSR=\x7f\n", "", "a [2J b ?", " " },
        { "text that is turned around",
          "x\nDETAIL=a\xe2\x80\xae"
          "b\n",
          "", "a b" },
        { "the last of two", "x\nCSR=a\nCSR=b\n", "", "", "b" },
};

/* `join` may be hostile. */
static void hears_only_what_it_knows(void **state) {
        const struct heard_case *c = *state;
        struct nb_teller teller;
        struct folder folder;
        struct nb_last last;

        begin(&folder, &teller);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        nb_tell_heard(&teller, c->text);
        last = read_last(&folder);
        assert_string_equal(last.state, NB_LAST_JOINING);
        assert_string_equal(last.invocation, "0123456789abcdef0123456789abcdef");
        assert_string_equal(last.code, c->code ? c->code : "");
        assert_string_equal(last.detail, c->detail ? c->detail : "");
        assert_string_equal(last.fields[NB_FIELD_CSR], c->csr ? c->csr : "");
        folder_remove(&folder);
}

/* `kubectl delete node` in a remedy names the node of this machine. */
static void names_no_other_node(void **state) {
        static const char *const names[] = { "other", "--all" };
        struct nb_teller teller;
        struct folder folder;

        begin(&folder, &teller);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        nb_log_field(NB_FIELD_NODE, "own");
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                char text[128];

                (void)snprintf(text, sizeof(text), HEARD "NODE=%s\n", names[i]);
                nb_tell_heard(&teller, text);
                assert_string_equal(read_last(&folder).fields[NB_FIELD_NODE], "own");
        }
        nb_log_field(NB_FIELD_NODE, NULL);
        folder_remove(&folder);
}

static void cuts_what_is_too_long(void **state) {
        static char text[NB_STATUS_MAX] = "x\nDETAIL=";
        struct nb_teller teller;
        struct folder folder;
        size_t len = strlen(text);

        begin(&folder, &teller);
        memset(text + len, 'x', sizeof(text) - len - 1);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        nb_tell_heard(&teller, text);
        assert_int_equal(strlen(read_last(&folder).detail), NB_FAILURE_DETAIL_MAX - 1);
        folder_remove(&folder);
}

struct since_case {
        const char *name, *value;
        const char *expected; /* NULL: now */
};

static struct since_case sinces[] = {
        { "a time", "1767323045", "2026-01-02T03:04:05Z" },
        { "now", "0" },
        { "a time that has not come", "99999999999" },
        { "a time before all times", "-5" },
        { "no number", "x" },
        { "a number that is too large", "999999999999999999999999" },
};

static void believes_no_time_to_come(void **state) {
        const struct since_case *c = *state;
        char text[128];
        struct nb_teller teller;
        struct folder folder;

        begin(&folder, &teller);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        (void)snprintf(text, sizeof(text), HEARD "SINCE=%s\n", c->value);
        nb_tell_heard(&teller, text);
        if (c->expected)
                assert_string_equal(read_last(&folder).since, c->expected);
        else
                assert_true(strcmp(read_last(&folder).since, teller.begun) >= 0);
        folder_remove(&folder);
}

static void writes_only_what_is_new(void **state) {
        struct nb_teller teller;
        struct folder folder;

        begin(&folder, &teller);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        nb_tell_heard(&teller, HEARD "SINCE=1767323045\n");
        assert_int_equal(unlinkat(folder.fd, "run/node-bootstrap/last.json", 0), 0);
        nb_tell_heard(&teller, HEARD "SINCE=1767323045\n");
        assert_string_equal(read_last(&folder).state, "");
        /* It has what it waited for. */
        nb_tell_heard(&teller, "Requesting a certificate\n");
        assert_string_equal(read_last(&folder).state, NB_LAST_JOINING);
        assert_string_equal(read_last(&folder).code, "");
        assert_string_equal(read_last(&folder).since, teller.begun);
        folder_remove(&folder);
}

static void keeps_the_words_of_join_at_the_end(void **state) {
        struct nb_failure f = { .code = NB_SETTINGS_INVALID, .detail = "ours" };
        struct nb_teller teller;
        struct folder folder;

        begin(&folder, &teller);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        nb_tell_heard(&teller, HEARD);
        nb_tell(&teller, NB_LAST_FAILED, NULL);
        assert_string_equal(read_last(&folder).state, NB_LAST_FAILED);
        assert_string_equal(read_last(&folder).code, "csr-pending");
        nb_log_field(NB_FIELD_NODE, "worker-1");
        nb_tell(&teller, NB_LAST_FAILED, &f);
        assert_string_equal(read_last(&folder).code, "settings-invalid");
        assert_string_equal(read_last(&folder).detail, "ours");
        assert_string_equal(read_last(&folder).fields[NB_FIELD_NODE], "worker-1");
        folder_remove(&folder);
}

static void tells_nothing_without_the_folder(void **state) {
        struct nb_teller teller;
        struct folder folder;

        folder_skip_without_lookup();
        folder_make(&folder);
        nb_tell_begin(&teller, folder.fd);
        nb_tell(&teller, NB_LAST_JOINING, NULL);
        assert_string_equal(read_last(&folder).state, "");
        assert_int_equal(faccessat(folder.fd, "run", F_OK, 0), -1);
        folder_remove(&folder);
}

int main(void) {
        CASES(heard, hears_only_what_it_knows);
        CASE(names_no_other_node);
        CASE(cuts_what_is_too_long);
        CASES(sinces, believes_no_time_to_come);
        CASE(writes_only_what_is_new);
        CASE(keeps_the_words_of_join_at_the_end);
        CASE(tells_nothing_without_the_folder);
        return case_run("install tell");
}
