/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/json.h"
#include "verb/check_internal.h"

static const struct {
        const char *sign, *colour, *name;
} marks[_NB_CHECK_MARK_N] = {
        [NB_CHECK_NOTE] = { "-", NULL, "note" },
        [NB_CHECK_GOOD] = { "✓", "32", "good" },
        [NB_CHECK_DOUBT] = { "!", "33", "doubt" },
        [NB_CHECK_BAD] = { "✗", "31", "bad" },
        [NB_CHECK_UNTRIED] = { "–", NULL, "untried" },
};

/* --- JSON: what cannot be appended is told at the end --- */

__attribute__((format(printf, 2, 3))) static void json_add(struct nb_check_output *output, const char *format, ...) {
        _cleanup_(nb_freep) char *text = NULL;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n < 0) {
                text = NULL;
                output->r = -1;
        } else if (output->r >= 0)
                output->r = nb_buffer_append(&output->json, text, (size_t)n);
}

static void json_add_string(struct nb_check_output *output, const char *key, const char *text) {
        json_add(output, "\"%s\":", key);
        if (output->r >= 0)
                output->r = nb_json_quote(text, strlen(text), &output->json);
}

static void json_add_row(struct nb_check_output *output, enum nb_check_mark mark, const char *text, uint64_t duration_ms) {
        json_add(output, "%s{\"state\":\"%s\",", output->n_rows > 0 ? "," : "", marks[mark].name);
        json_add_string(output, "text", text);
        if (output->is_timed)
                json_add(output, ",\"durationMs\":%" PRIu64, duration_ms);
        json_add(output, "}");
}

static void json_add_failure(struct nb_check_output *output, const struct nb_failure *f) {
        const struct nb_failure_info *info = nb_failure_info(f->code);
        _cleanup_(nb_freep) char *remedy = NULL;
        size_t len = 0;
        FILE *stream = open_memstream(&remedy, &len);

        if (!stream) {
                output->r = -1;
                return;
        }
        nb_log_print_remedy(stream, f->code);
        if (fclose(stream) != 0 || len == 0) {
                output->r = -1;
                return;
        }
        remedy[len - 1] = '\0';
        json_add(output, "{\"code\":\"%s\",\"class\":\"%s\",\"messageID\":\"%s\",", info->slug, nb_class_name(info->class), info->message_id);
        json_add_string(output, "subject", info->subject);
        json_add(output, ",");
        json_add_string(output, "detail", f->detail);
        json_add(output, ",");
        json_add_string(output, "remedy", remedy);
        json_add(output, "}");
}

/* --- Rows --- */

static void print_row(const struct nb_check_output *output, enum nb_check_mark mark, const char *text, uint64_t duration_ms) {
        if (output->is_coloured && marks[mark].colour)
                (void)printf("  \033[%sm%s\033[0m ", marks[mark].colour, marks[mark].sign);
        else
                (void)printf("  %s ", marks[mark].sign);
        (void)fputs(text, stdout);
        if (output->is_timed && mark != NB_CHECK_NOTE && mark != NB_CHECK_UNTRIED)
                (void)printf(" (%" PRIu64 " ms)", duration_ms);
        (void)fputc('\n', stdout);
        (void)fflush(stdout);
}

static void add_row(struct nb_check_output *output, enum nb_check_mark mark, const char *text) {
        uint64_t now = nb_now_ms();
        size_t size = strlen(text) + 1;
        _cleanup_(nb_freep) char *line = malloc(size);

        if (!line) {
                output->r = -1;
                return;
        }
        nb_text_copy_line(text, size - 1, line, size);
        if (output->is_json)
                json_add_row(output, mark, line, now - output->row_ms);
        else
                print_row(output, mark, line, now - output->row_ms);
        output->n_rows++;
        output->row_ms = now;
        if (mark > output->worst)
                output->worst = mark;
}

void nb_check_row(const struct nb_check *check, enum nb_check_mark mark, const char *format, ...) {
        struct nb_check_output *output = check->output;
        _cleanup_(nb_freep) char *text = NULL;
        va_list arguments;
        int n;

        va_start(arguments, format);
        n = vasprintf(&text, format, arguments);
        va_end(arguments);
        if (n < 0)
                text = NULL;
        else
                add_row(output, mark, text);
}

/* --- Steps --- */

static void print_section(const struct nb_check_output *output, const char *title) {
        (void)printf(output->is_coloured ? "%s\033[1m%s\033[0m\n" : "%s%s\n", output->section ? "\n" : "", title);
        (void)fflush(stdout);
}

void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step) {
        struct nb_check_output *output = check->output;

        if (output->is_json) {
                json_add(output, "%s\n{\"step\":\"%s\",", output->section ? "," : "", step->id);
                json_add_string(output, "section", step->title);
                json_add(output, ",\"rows\":[");
        } else if (!output->section || strcmp(output->section, step->title) != 0)
                print_section(output, step->title);
        output->section = step->title;
        output->is_timed = step->label;
        output->n_rows = 0;
        output->worst = NB_CHECK_NOTE;
        output->step_ms = output->row_ms = nb_now_ms();
}

static void end_json(struct nb_check_output *output, const struct nb_failure *f) {
        json_add(output, "],\"state\":\"%s\",\"durationMs\":%" PRIu64 ",\"failure\":", marks[output->worst].name, nb_now_ms() - output->step_ms);
        if (f->code != NB_NONE)
                json_add_failure(output, f);
        else
                json_add(output, "null");
        json_add(output, "}");
}

void nb_check_leave_out(struct nb_check *check, const struct nb_check_step *step) {
        static const struct nb_failure none = { 0 };
        struct nb_check_output *output = check->output;

        if (step->label)
                nb_check_row(check, NB_CHECK_UNTRIED, "%s: not tried", step->label);
        else
                nb_check_row(check, NB_CHECK_NOTE, "not looked at: see above");
        output->worst = NB_CHECK_UNTRIED;
        if (output->is_json)
                end_json(output, &none);
}

void nb_check_end_step(struct nb_check *check, const struct nb_failure *f) {
        struct nb_check_output *output = check->output;

        if (f->code != NB_NONE)
                nb_check_row(check, NB_CHECK_BAD, "%s: %s", nb_failure_info(f->code)->slug, f->detail);
        if (output->is_json)
                end_json(output, f);
        else if (f->code != NB_NONE) {
                (void)printf("    ");
                nb_log_print_remedy(stdout, f->code);
        }
}

int nb_check_finish(struct nb_check *check, const struct nb_failure *first) {
        struct nb_check_output *output = check->output;
        char code[64] = "null";

        if (!output->is_json)
                return 0;
        if (output->r < 0)
                return output->r;
        if (first->code != NB_NONE)
                (void)snprintf(code, sizeof(code), "\"%s\"", nb_failure_info(first->code)->slug);
        (void)printf("{\"version\":1,\"good\":%s,\"failure\":%s,\"steps\":[%s\n]}\n", first->code == NB_NONE ? "true" : "false", code, output->json.data);
        return 0;
}
