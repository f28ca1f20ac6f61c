/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "cli/failure_json.h"
#include "os/clock.h"
#include "os/terminal.h"

static const struct {
        const char *sign, *ascii, *colour, *name;
} marks[_NB_CHECK_MARK_N] = {
        [NB_CHECK_NOTE] = { "-", "-", NULL, "note" },
        [NB_CHECK_GOOD] = { "✓", "+", "32", "good" },
        [NB_CHECK_DOUBT] = { "!", "!", "33", "doubt" },
        [NB_CHECK_BAD] = { "✗", "x", "31", "bad" },
        [NB_CHECK_UNTRIED] = { "–", ".", NULL, "untried" },
};

static const struct nb_failure no_failure;

void nb_check_begin_output(struct nb_check_output *output) {
        output->writer = (struct nb_json_writer){ .buffer = &output->json, .is_indented = true };
        nb_json_open(&output->writer, NULL, '{');
        nb_json_put_integer(&output->writer, "version", 1);
        nb_json_open(&output->writer, "steps", '[');
}

/* --- Steps --- */

static void open_step(struct nb_check_output *output, const struct nb_check_step *step,
                      uint64_t duration_ms) {
        struct nb_json_writer *writer = &output->writer;

        if (output->is_json) {
                nb_json_open(writer, NULL, '{');
                nb_json_put_string(writer, "step", step->id);
                nb_json_put_string(writer, "section", step->section);
                nb_json_open(writer, "rows", '[');
        } else if (!output->section || strcmp(output->section, step->section) != 0)
                printf(output->is_coloured ? "%s\033[1m%s\033[0m\n" : "%s%s\n",
                       output->section ? "\n" : "", step->section);
        output->section = step->section;
        output->shown = step;
        output->worst = NB_CHECK_NOTE;
        output->step_ms = nb_now_ms() - duration_ms;
}

/* With the failure of its last row, or NB_NONE. */
static void close_step(struct nb_check_output *output, const struct nb_failure *f) {
        struct nb_json_writer *writer = &output->writer;
        bool is_open = output->shown;

        output->shown = NULL;
        if (!is_open || !output->is_json)
                return;
        nb_json_close(writer);
        nb_json_put_string(writer, "state", marks[output->worst].name);
        nb_json_put_integer(writer, "durationUsec",
                            (int64_t)(nb_now_ms() - output->step_ms) * 1000);
        nb_failure_put_json(f, "failure", writer);
        nb_json_close(writer);
}

/* --- Rows --- */

static void put_line(struct nb_check_output *output, enum nb_check_mark mark, const char *line,
                     uint64_t duration_ms) {
        const char *colour = output->is_coloured ? marks[mark].colour : NULL;
        bool has_duration = output->shown->label;

        if (output->is_json) {
                nb_json_open(&output->writer, NULL, '{');
                nb_json_put_string(&output->writer, "state", marks[mark].name);
                nb_json_put_string(&output->writer, "text", line);
                if (has_duration)
                        nb_json_put_integer(&output->writer, "durationUsec",
                                            (int64_t)duration_ms * 1000);
                nb_json_close(&output->writer);
                return;
        }
        printf(colour ? "  \033[%sm%s\033[0m %s" : "  %s%s %s", colour ? colour : "",
               output->is_ascii ? marks[mark].ascii : marks[mark].sign, line);
        if (has_duration && mark != NB_CHECK_NOTE && mark != NB_CHECK_UNTRIED && duration_ms > 0)
                printf(" (%" PRIu64 " ms)", duration_ms);
        fputc('\n', stdout);
}

void nb_check_show(struct nb_check_output *output, const struct nb_check_frame *frame) {
        const struct nb_check_step *step = &nb_check_steps[frame->step];
        struct nb_failure f = { .code = frame->code, .errnum = frame->errnum };
        const bool has_failed = f.code != NB_NONE;
        enum nb_check_mark mark = has_failed ? NB_CHECK_BAD : frame->mark;
        char line[NB_CHECK_LINE_MAX + 64];

        if (output->shown != step) {
                close_step(output, &no_failure);
                open_step(output, step, frame->duration_ms);
        }
        snprintf(line, sizeof(line), "%s%s%s", has_failed ? nb_failure_info(f.code)->slug : "",
                 has_failed ? ": " : "", frame->text);
        put_line(output, mark, line, frame->duration_ms);
        if (mark > output->worst)
                output->worst = mark;
        if (has_failed) {
                NB_TEXT_COPY_LINE(f.detail, frame->text);
                for (unsigned i = 0; i < _NB_FIELD_N; i++)
                        nb_log_field(i, "%s", frame->fields[i]);
                close_step(output, &f);
                if (output->first.code == NB_NONE)
                        output->first = f;
                if (!output->is_json)
                        nb_log_print_remedy(stdout, f.code, 4, nb_terminal_columns(STDOUT_FILENO));
        }
        fflush(stdout);
}

static void make_printable(char *text, size_t size) {
        nb_text_copy_line(text, strnlen(text, size - 1), text, size);
}

int nb_check_frame_verify(struct nb_check_frame *frame) {
        if (frame->step >= NB_CHECK_STEPS_N || frame->mark >= _NB_CHECK_MARK_N ||
            frame->code >= _NB_CODE_N ||
            (nb_check_steps[frame->step].when & (NB_CHECK_APART | NB_CHECK_USER_DATA)) ||
            (frame->code != NB_NONE && nb_failure_info(frame->code)->class == NB_CLASS_EVENT))
                return -EBADMSG;
        make_printable(frame->text, sizeof(frame->text));
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                make_printable(frame->fields[i], sizeof(frame->fields[i]));
        return 0;
}

static void put_row(struct nb_check *check, struct nb_check_frame *frame) {
        struct nb_check_output *output = &check->output;
        uint64_t now_ms = nb_now_ms();

        frame->step = (uint32_t)(output->step - nb_check_steps);
        frame->duration_ms = now_ms - output->row_ms;
        output->row_ms = now_ms;
        if (output->frames_fd < 0)
                nb_check_show(output, frame);
        else
                (void)nb_fd_write(output->frames_fd, frame, sizeof(*frame));
}

void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step) {
        check->output.step = step;
        check->output.row_ms = nb_now_ms();
}

void nb_check_row(struct nb_check *check, enum nb_check_mark mark, const char *format, ...) {
        struct nb_check_frame frame = { .mark = mark };
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(frame.text, sizeof(frame.text), format, arguments);
        va_end(arguments);
        make_printable(frame.text, sizeof(frame.text));
        put_row(check, &frame);
}

void nb_check_fail(struct nb_check *check, const struct nb_failure *f) {
        struct nb_check_frame frame = { .code = f->code, .errnum = f->errnum };

        NB_TEXT_COPY_LINE(frame.text, f->detail);
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                NB_TEXT_COPY(frame.fields[i], nb_field_value(i));
        put_row(check, &frame);
}

void nb_check_skip_step(struct nb_check *check, const struct nb_check_step *step) {
        nb_check_begin_step(check, step);
        nb_check_row(check, NB_CHECK_UNTRIED, "%s%s", step->label ? step->label : "",
                     step->label ? ": skipped" : "skipped: see above");
}

int nb_check_end_output(struct nb_check_output *output) {
        bool is_good = output->first.code == NB_NONE;
        int r;

        close_step(output, &no_failure);
        if (output->r < 0)
                return output->r;
        if (!output->is_json) {
                if (is_good)
                        printf("\nNo check failed\n");
                else
                        printf("\nFirst failure: %s: %s\n",
                               nb_failure_info(output->first.code)->slug, output->first.detail);
                return 0;
        }
        nb_json_close(&output->writer);
        nb_json_put_boolean(&output->writer, "good", is_good);
        nb_json_put_string(&output->writer, "failure",
                           is_good ? NULL : nb_failure_info(output->first.code)->slug);
        r = nb_json_finish(&output->writer);
        if (r >= 0)
                fputs(output->json.data, stdout);
        return r;
}
