/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/failure.h"
#include "base/macro.h"

static void the_first_cause_wins(void **state) {
        struct nb_failure f = { 0 };

        assert_int_equal(nb_failure_set(&f, NB_TOKEN_MISSING, ENOENT, "first"), -ENOENT);
        assert_int_equal(nb_failure_set(&f, NB_INTERNAL, EIO, "second"), -EIO);
        assert_int_equal(f.code, NB_TOKEN_MISSING);
        assert_int_equal(f.errnum, ENOENT);
        assert_string_equal(f.detail, "first");
        nb_failure_clear(&f);
        assert_int_equal(nb_failure_set_http(&f, NB_SERVER_ERROR, 503, "%s", "third"), -EPROTO);
        assert_int_equal(f.http_status, 503);
        assert_string_equal(f.detail, "third");
}

static void some_errors_decide_the_code(void **state) {
        static const struct {
                int errnum;
                enum nb_code code;
        } cases[] = {
                { ENOMEM, NB_INTERNAL },
                { ENOSPC, NB_DISK_FULL },
                { EDQUOT, NB_DISK_FULL },
                { EROFS, NB_TARGET_UNWRITABLE },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_failure f = { 0 };

                assert_int_equal(nb_failure_set(&f, NB_TARGET_UNWRITABLE, cases[i].errnum, "%m"),
                                 -cases[i].errnum);
                assert_int_equal(f.code, cases[i].code);
        }
}

static void a_lack_of_memory_is_an_internal_failure(void **state) {
        struct nb_failure f = { 0 };

        assert_int_equal(nb_failure_set_memory(&f), -ENOMEM);
        assert_int_equal(f.code, NB_INTERNAL);
        assert_int_equal(f.errnum, ENOMEM);
        assert_string_equal(f.detail, "memory ran out");
}

static void an_unverified_peer_ends_no_join(void **state) {
        static const struct {
                enum nb_code code;
                bool is_unverified;
                const char *class;
        } cases[] = {
                { NB_CA_PIN_MISMATCH, false, "fatal" },    { NB_CA_PIN_MISMATCH, true, "wait" },
                { NB_ANSWER_MALFORMED, false, "confirm" }, { NB_ANSWER_MALFORMED, true, "wait" },
                { NB_CSR_PENDING, false, "wait" },         { NB_METADATA_READ, false, "event" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                const struct nb_failure f = { .code = cases[i].code,
                                              .is_unverified = cases[i].is_unverified };

                assert_string_equal(nb_class_name(nb_failure_class(&f)), cases[i].class);
        }
}

static void a_busy_device_ends_no_join(void **state) {
        const struct nb_failure f = { .code = NB_TPM_ERROR, .is_temporary = true };

        assert_int_equal(nb_failure_class(&f), NB_CLASS_WAIT);
}

static void text_from_outside_cannot_drive_a_terminal(void **state) {
        static const struct {
                const char *text, *expected;
        } cases[] = {
                { "a\x1b[2Jb\nc\rd\x7f", "a?[2Jb?c?d?" },
                { "Gr\xc3\xbc\xc3\x9f"
                  "e",
                  "Gr\xc3\xbc\xc3\x9f"
                  "e" },
                { "C1 \xc2\x9b"
                  "31m",
                  "C1 ??31m" },
                { "overlong \xc0\xaf", "overlong ??" },
                { "surrogate \xed\xa0\x80", "surrogate ???" },
                { "cut \xe2\x82", "cut ??" },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                struct nb_failure f = { 0 };

                (void)nb_failure_set(&f, NB_INTERNAL, 0, "%s", cases[i].text);
                assert_string_equal(f.detail, cases[i].expected);
        }
}

static void a_long_sentence_is_cut_and_stays_well_formed(void **state) {
        char text[2 * NB_FAILURE_DETAIL_MAX];
        struct nb_failure f = { 0 };

        for (size_t i = 0; i + 1 < sizeof(text); i += 2)
                memcpy(text + i, "\xc3\xbc", 2);
        text[sizeof(text) - 1] = text[sizeof(text) - 2] = '\0';
        (void)nb_failure_set(&f, NB_INTERNAL, 0, "%s", text);
        assert_int_equal(strlen(f.detail), NB_FAILURE_DETAIL_MAX - 1);
        assert_int_equal(f.detail[NB_FAILURE_DETAIL_MAX - 2], '?');
}

static void what_is_added_is_not_cut(void **state) {
        char text[2 * NB_FAILURE_DETAIL_MAX];
        struct nb_failure f = { 0 };

        (void)nb_failure_set(&f, NB_INTERNAL, 0, "short");
        nb_failure_add(&f, "; and %s", "more");
        assert_string_equal(f.detail, "short; and more");
        nb_failure_clear(&f);
        for (size_t i = 0; i + 1 < sizeof(text); i += 2)
                memcpy(text + i, "\xc3\xbc", 2);
        text[sizeof(text) - 1] = text[sizeof(text) - 2] = '\0';
        (void)nb_failure_set(&f, NB_INTERNAL, 0, "%s", text);
        for (unsigned i = 0; i < 4; i++) {
                nb_failure_add(&f, "; and more%.*s", (int)i, "123");
                assert_int_equal(strlen(f.detail), NB_FAILURE_DETAIL_MAX - 1);
                assert_non_null(strstr(f.detail, "...; and more"));
        }
        nb_failure_add(&f, "%s", text);
        assert_int_equal(strlen(f.detail), NB_FAILURE_DETAIL_MAX - 1);
}

static void every_code_has_a_row(void **state) {
        for (int code = NB_NONE + 1; code < _NB_CODE_N; code++) {
                const struct nb_failure_info *info = nb_failure_info((enum nb_code)code);

                assert_non_null(info->slug);
                assert_int_equal(nb_failure_find(info->slug), code);
                assert_int_equal(strlen(info->message_id), 32);
                /* 1, as diff(1): there is a difference. */
                assert_true(info->class == NB_CLASS_EVENT || info->exit_status >= 64 ||
                            code == NB_SETUP_CONFLICT || code == NB_SETUP_OTHER_CLUSTER);
                assert_true(strlen(info->subject) > 0 && strlen(info->remedy) > 0);
        }
        assert_int_equal(nb_failure_find("none"), NB_NONE);
        assert_int_equal(nb_failure_find("token"), NB_NONE);
        assert_int_equal(nb_failure_info(NB_TOKEN_UNKNOWN)->exit_status, 69);
        assert_int_equal(nb_failure_info(NB_CSR_PENDING)->exit_status, 75);
        assert_int_equal(nb_failure_info(NB_CA_PIN_MISMATCH)->exit_status, 76);
        assert_int_equal(nb_failure_info(NB_CSR_DENIED)->exit_status, 77);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_first_cause_wins),
                cmocka_unit_test(some_errors_decide_the_code),
                cmocka_unit_test(a_lack_of_memory_is_an_internal_failure),
                cmocka_unit_test(an_unverified_peer_ends_no_join),
                cmocka_unit_test(a_busy_device_ends_no_join),
                cmocka_unit_test(text_from_outside_cannot_drive_a_terminal),
                cmocka_unit_test(a_long_sentence_is_cut_and_stays_well_formed),
                cmocka_unit_test(what_is_added_is_not_cut),
                cmocka_unit_test(every_code_has_a_row),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
