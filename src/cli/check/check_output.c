/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "cli/failure_json.h"
#include "system/clock.h"
#include "system/log.h"

static const struct {
        const char *sign, *colour, *name;
} marks[_NB_CHECK_MARK_N] = {
        [NB_CHECK_NOTE] = { "-", NULL, "note" },       [NB_CHECK_GOOD] = { "✓", "32", "good" },
        [NB_CHECK_DOUBT] = { "!", "33", "doubt" },     [NB_CHECK_BAD] = { "✗", "31", "bad" },
        [NB_CHECK_UNTRIED] = { "–", NULL, "untried" },
};

void nb_check_begin_output(struct nb_check_output *output) {
        output->writer = (struct nb_json_writer){ .buffer = &output->json, .is_indented = true };
        nb_json_open(&output->writer, NULL, '{');
        nb_json_put_integer(&output->writer, "version", 1);
        nb_json_open(&output->writer, "steps", '[');
}

static void print_row(const struct nb_check_output *output, enum nb_check_mark mark,
                      const char *line, uint64_t duration_ms) {
        if (output->is_coloured && marks[mark].colour)
                printf("  \033[%sm%s\033[0m %s", marks[mark].colour, marks[mark].sign, line);
        else
                printf("  %s %s", marks[mark].sign, line);
        if (output->is_timed && mark != NB_CHECK_NOTE && mark != NB_CHECK_UNTRIED)
                printf(" (%" PRIu64 " ms)", duration_ms);
        fputc('\n', stdout);
        fflush(stdout);
}

static void write_row(struct nb_check_output *output, enum nb_check_mark mark, const char *line,
                      uint64_t duration_ms) {
        nb_json_open(&output->writer, NULL, '{');
        nb_json_put_string(&output->writer, "state", marks[mark].name);
        nb_json_put_string(&output->writer, "text", line);
        if (output->is_timed)
                nb_json_put_integer(&output->writer, "durationMs", (int64_t)duration_ms);
        nb_json_close(&output->writer);
}

void nb_check_row(struct nb_check *check, enum nb_check_mark mark, const char *format, ...) {
        struct nb_check_output *output = &check->output;
        _cleanup_(nb_freep) char *line = NULL;
        uint64_t now_ms = nb_now_ms();
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&line, format, arguments);
        va_end(arguments);
        if (n < 0) {
                line = NULL;
                output->r = -ENOMEM;
                return;
        }
        nb_text_copy_line(line, (size_t)n, line, (size_t)n + 1);
        if (output->is_json)
                write_row(output, mark, line, now_ms - output->row_ms);
        else
                print_row(output, mark, line, now_ms - output->row_ms);
        output->row_ms = now_ms;
        if (mark > output->worst)
                output->worst = mark;
}

void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step) {
        struct nb_check_output *output = &check->output;

        if (output->is_json) {
                nb_json_open(&output->writer, NULL, '{');
                nb_json_put_string(&output->writer, "step", step->id);
                nb_json_put_string(&output->writer, "section", step->section);
                nb_json_open(&output->writer, "rows", '[');
        } else if (!output->section || strcmp(output->section, step->section) != 0) {
                printf(output->is_coloured ? "%s\033[1m%s\033[0m\n" : "%s%s\n",
                       output->section ? "\n" : "", step->section);
                fflush(stdout);
        }
        output->section = step->section;
        output->is_timed = step->label;
        output->worst = NB_CHECK_NOTE;
        output->step_ms = output->row_ms = nb_now_ms();
}

void nb_check_end_step(struct nb_check *check, const struct nb_failure *f) {
        struct nb_check_output *output = &check->output;

        if (f->code != NB_NONE)
                nb_check_row(check, NB_CHECK_BAD, "%s: %s", nb_failure_info(f->code)->slug,
                             f->detail);
        if (!output->is_json) {
                if (f->code == NB_NONE)
                        return;
                printf("    ");
                nb_log_print_remedy(stdout, f->code);
                return;
        }
        nb_json_close(&output->writer);
        nb_json_put_string(&output->writer, "state", marks[output->worst].name);
        nb_json_put_integer(&output->writer, "durationMs",
                            (int64_t)(nb_now_ms() - output->step_ms));
        nb_failure_put_json(f, "failure", &output->writer);
        nb_json_close(&output->writer);
}

void nb_check_skip_step(struct nb_check *check, const struct nb_check_step *step) {
        static const struct nb_failure none = { 0 };

        if (step->label)
                nb_check_row(check, NB_CHECK_UNTRIED, "%s: skipped", step->label);
        else
                nb_check_row(check, NB_CHECK_NOTE, "skipped: see above");
        check->output.worst = NB_CHECK_UNTRIED;
        nb_check_end_step(check, &none);
}

int nb_check_end_output(struct nb_check_output *output, const struct nb_failure *first) {
        int r;

        if (!output->is_json || output->r < 0)
                return output->r;
        nb_json_close(&output->writer);
        nb_json_put_boolean(&output->writer, "good", first->code == NB_NONE);
        nb_json_put_string(&output->writer, "failure",
                           first->code == NB_NONE ? NULL : nb_failure_info(first->code)->slug);
        r = nb_json_finish(&output->writer);
        if (r >= 0)
                fputs(output->json.data, stdout);
        return r;
}
