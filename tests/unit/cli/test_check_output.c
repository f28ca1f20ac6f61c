/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "cli/check/check_internal.h"
#include "cli/failure_json.h"
#include "output.h"

static const struct nb_check_step *find_step(const char *id) {
        const struct nb_check_step *step = nb_check_steps;

        while (strcmp(step->id, id) != 0)
                step++;
        return step;
}

static void begin(struct nb_check *check, bool is_json) {
        *check = (struct nb_check){ .output = { .is_json = is_json,
                                                .json = NB_BUFFER_INIT(NB_CHECK_JSON_MAX),
                                                .frames_fd = -1 } };
        output_begin();
        nb_check_begin_output(&check->output);
}

/* Two steps: one with two rows, the other fails; and one that is skipped because of that. */
static void print_all(struct nb_check *check) {
        struct nb_failure f = { 0 };

        nb_check_begin_step(check, find_step("settings"));
        nb_check_row(check, NB_CHECK_NOTE, "a %d", 1);
        nb_check_row(check, NB_CHECK_GOOD, "b\x1b[2J\nc");
        nb_check_begin_step(check, find_step("join"));
        (void)nb_failure_set(&f, NB_TOKEN_MISSING, ENOENT, "no token");
        nb_log_field(NB_FIELD_NODE, "n");
        nb_check_fail(check, &f);
        nb_check_skip_step(check, find_step("discovery"));
        assert_int_equal(nb_check_end_output(&check->output), 0);
}

static void prints_text(void **state) {
        struct nb_check check;
        const char *text;

        begin(&check, false);
        print_all(&check);
        text = output_end();
        assert_int_equal(strncmp(text,
                                 "Settings\n  - a 1\n  ✓ b [2J c\n\nJoin\n  ✗ token-missing: no "
                                 "token\n    ",
                                 strlen("Settings\n  - a 1\n  ✓ b [2J c\n\nJoin\n  ✗ "
                                        "token-missing: no token\n    ")),
                         0);
        assert_non_null(strstr(text, "\n\nCluster\n  – discovery: skipped\n"));
        assert_int_equal(check.output.first.code, NB_TOKEN_MISSING);
        nb_buffer_done(&check.output.json);
}

static void prints_colours(void **state) {
        struct nb_check check;
        const char *text;

        begin(&check, false);
        check.output.is_coloured = true;
        nb_check_begin_step(&check, find_step("settings"));
        nb_check_row(&check, NB_CHECK_DOUBT, "a");
        assert_int_equal(nb_check_end_output(&check.output), 0);
        text = output_end();
        assert_string_equal(text,
                            "\033[1mSettings\033[0m\n  \033[33m!\033[0m a\n\nNo check failed\n");
        nb_buffer_done(&check.output.json);
}

static const char *text_of(struct nb_json *json, const char *path) {
        const char *text = nb_json_string(json, path);

        return text ? text : "";
}

static void prints_json(void **state) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure f = { 0 };
        struct nb_check check;
        const char *text;

        begin(&check, true);
        print_all(&check);
        text = output_end();
        json = nb_json_parse(text, strlen(text), "a test", NB_INTERNAL, &f);
        assert_int_equal(json.r, 0);
        assert_string_equal(text_of(&json, "failure"), "token-missing");
        assert_non_null(strstr(text, "\"good\": false"));
        assert_non_null(strstr(text, "\"step\": \"settings\""));
        assert_non_null(strstr(text, "\"text\": \"b [2J c\""));
        assert_non_null(strstr(text, "\"state\": \"bad\""));
        assert_non_null(strstr(text, "\"state\": \"untried\""));
        assert_non_null(strstr(text, "\"code\": \"token-missing\""));
        nb_buffer_done(&check.output.json);
}

/* The rehearsal sends its rows, which the command shows. */
static void rows_are_sent_and_shown(void **state) {
        struct nb_check rehearsal = { .output.frames_fd = -1 }, check;
        static struct nb_check_frame frames[2];
        struct nb_failure f = { 0 };
        int fds[2];
        char *text;

        assert_int_equal(pipe(fds), 0);
        rehearsal.output.frames_fd = fds[1];
        nb_check_begin_step(&rehearsal, find_step("join"));
        nb_check_row(&rehearsal, NB_CHECK_GOOD, "a");
        (void)nb_failure_set(&f, NB_TOKEN_MISSING, ENOENT, "why");
        nb_check_fail(&rehearsal, &f);
        for (int i = 0; i < 2; i++) {
                size_t len = 0;

                while (len < sizeof(frames[i])) {
                        ssize_t n = read(fds[0], (char *)&frames[i] + len, sizeof(frames[i]) - len);

                        assert_true(n > 0);
                        len += (size_t)n;
                }
                assert_int_equal(nb_check_frame_verify(&frames[i]), 0);
        }
        begin(&check, false);
        for (int i = 0; i < 2; i++)
                nb_check_show(&check.output, &frames[i]);
        assert_int_equal(nb_check_end_output(&check.output), 0);
        text = strdup(output_end());
        assert_int_equal(strncmp(text, "Join\n  ✓ a\n  ✗ token-missing: why\n",
                                 strlen("Join\n  ✓ a\n  ✗ token-missing: why\n")),
                         0);
        assert_int_equal(check.output.first.code, NB_TOKEN_MISSING);
        free(text);
        (void)close(fds[0]);
        (void)close(fds[1]);
        nb_buffer_done(&check.output.json);
}

/* --- Settings --- */

static void prints_settings(void **state) {
        struct nb_settings settings;
        struct nb_check check;
        const char *text;

        nb_settings_init(&settings);
        settings.timeout_ms = 5000;
        NB_TEXT_COPY(settings.origin[NB_SETTING_TIMEOUT], "x.yaml");
        begin(&check, false);
        nb_check_begin_step(&check, find_step("settings"));
        nb_check_print_setting(&check, &settings, NB_SETTING_TIMEOUT, NULL);
        nb_check_print_setting(&check, &settings, NB_SETTING_TIMEOUT, "y.yaml");
        assert_int_equal(nb_check_end_output(&check.output), 0);
        text = output_end();
        assert_non_null(strstr(text, "timeout: 5s (x.yaml)\n"));
        assert_non_null(strstr(text, "y.yaml"));
        nb_buffer_done(&check.output.json);
}

/* --- Failures --- */

static void a_failure_is_an_object(void **state) {
        static const struct {
                enum nb_code code;
                const char *part;
        } rows[] = {
                { NB_NONE, "\"x\":null" },
                { NB_USAGE, "\"code\":\"usage\",\"class\":\"fatal\"" },
                { NB_USAGE, "\"remedy\":null" },
                { NB_TOKEN_MISSING, "\"detail\":\"a b\"" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_buffer text = NB_BUFFER_INIT(16384);
                struct nb_json_writer writer = { .buffer = &text };
                struct nb_failure f = { .code = rows[i].code, .detail = "a\nb" };

                nb_json_open(&writer, NULL, '{');
                nb_failure_put_json(&f, "x", &writer);
                nb_json_close(&writer);
                assert_int_equal(nb_json_finish(&writer), 0);
                if (!strstr(text.data, rows[i].part))
                        fail_msg("'%s' is not in '%s'", rows[i].part, text.data);
                nb_buffer_done(&text);
        }
}

int main(void) {
        CASE(prints_text);
        CASE(prints_colours);
        CASE(prints_json);
        CASE(rows_are_sent_and_shown);
        CASE(prints_settings);
        CASE(a_failure_is_an_object);
        return case_run("cli check output");
}
