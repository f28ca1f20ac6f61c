/* SPDX-License-Identifier: Apache-2.0 */

/*
 * test_json_suite FOLDER: the cases of JSONTestSuite. Those named y_ have to be accepted, those
 * named n_ refused; i_ are left to the implementation. Our documents are objects, so each case is
 * also tried as a member of one.
 */

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "codec/json.h"

#include "case.h"

#define DOCUMENT_MAX (1024 * 1024)

static const char *folder;
static unsigned n_accepted[UINT8_MAX + 1], n_refused[UINT8_MAX + 1];

/* The y_ cases that json.h says are refused: keys that are repeated, and U+0000. */
static const char *const documented[] = {
        "y_object_duplicated_key.json",
        "y_object_duplicated_key_and_value.json",
        "y_object_escaped_null_in_key.json",
        "y_string_null_escape.json",
};

static bool is_documented(const char *name) {
        for (size_t i = 0; i < N_ELEMENTS(documented); i++) {
                if (strcmp(name, documented[i]) == 0)
                        return true;
        }
        return false;
}

static bool is_accepted(const struct nb_buffer *text) {
        struct nb_failure f = {};
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(text->data, text->len, "case",
                                                                    NB_ANSWER_MALFORMED, &f);

        return json.r == 0;
}

static void judge(const char *name, const struct nb_buffer *text) {
        _cleanup_(nb_buffer_done) struct nb_buffer member = NB_BUFFER_INIT(DOCUMENT_MAX);
        bool accepted;

        nb_buffer_append_string(&member, "{\"case\":");
        nb_buffer_append(&member, text->data, text->len);
        nb_buffer_append_string(&member, "}");
        accepted = is_accepted(&member);
        if (name[0] != 'i' && accepted != (name[0] == 'y' && !is_documented(name)))
                fail_msg("%s: was %s", name, accepted ? "accepted" : "refused");
        if (!accepted && is_accepted(text))
                fail_msg("%s: was accepted as a document, and refused as a member", name);
        (accepted ? n_accepted : n_refused)[(uint8_t)name[0]]++;
}

static int is_case(const struct dirent *entry) {
        return strchr("yni", entry->d_name[0]) && entry->d_name[1] == '_';
}

static void verdicts(void **state) {
        struct dirent **entries;
        int folder_fd, n;

        folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(folder_fd >= 0);
        n = scandir(folder, &entries, is_case, alphasort);
        assert_int_equal(n, 316);
        for (int i = 0; i < n; i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(DOCUMENT_MAX);

                assert_int_equal(nb_file_read(folder_fd, entries[i]->d_name, &text, NULL), 0);
                judge(entries[i]->d_name, &text);
                free(entries[i]);
        }
        free(entries);
        nb_closep(&folder_fd);
}

/* The two that are too long for the folder. */
static void nested(const char *name, const char *opening, unsigned n) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(DOCUMENT_MAX);

        for (unsigned i = 0; i < n; i++)
                nb_buffer_append_string(&text, opening);
        judge(name, &text);
}

static void deep_verdicts(void **state) {
        nested("n_structure_100000_opening_arrays.json", "[", 100000);
        nested("n_structure_open_array_object.json", "[{\"\":", 50000);
}

int main(int argc, char **argv) {
        int r;

        if (argc != 2)
                return 64;
        folder = argv[1];
        CASE(verdicts);
        CASE(deep_verdicts);
        r = case_run("json suite");
        for (const char *kind = "yni"; *kind; kind++)
                (void)printf("%c_: %u accepted, %u refused\n", *kind, n_accepted[(uint8_t)*kind],
                             n_refused[(uint8_t)*kind]);
        return r;
}
