/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "format/handoff.h"
#include "format/json.h"
#include "verb/load.h"
#include "verb/options.h"
#include "verb/timeline.h"
#include "verb/verb.h"

#define EXIT_NOT_JOINED 1
#define CERTIFICATE_FILE_MAX (256 * 1024)
#define OUTPUT_MAX (256 * 1024)
#define WIDTH 80 /* of a pipe */

/* When kubelet asks for the next one, as parts of the validity (client-go util/certificate, nextRotationDeadline). */
#define ROTATION_FROM 0.7
#define ROTATION_UNTIL 0.9

struct certificate {
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE];
        time_t not_before, not_after;
};

struct report {
        bool is_joined; /* by this program: there is a record, and a certificate */
        struct nb_record record;
        struct certificate certificate;
        int timeline_r; /* as nb_timeline_read() returned */
        struct nb_timeline timeline;
        struct nb_unit_entry last_failure; /* of that join */
};

static int unreadable(const struct nb_settings *settings, const char *name, int r, struct nb_failure *f) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, -r, "'%s/%s' is no regular file", settings->certificate_directory, name);
        errno = -r;
        return nb_failure_set(f, NB_INSTALLED_UNREADABLE, -r, "'%s/%s' cannot be read: %m", settings->certificate_directory, name);
}

/* 1: read; 0: this program has installed nothing here. */
static int read_record(const struct nb_settings *settings, int folder_fd, struct nb_record *ret_record, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        int r;

        r = nb_file_read(folder_fd, NB_RECORD_FILE, &text, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unreadable(settings, NB_RECORD_FILE, r, f);
        r = nb_record_parse(text.data ? text.data : "", text.len, ret_record, f);
        return r < 0 ? r : 1;
}

/* The file ends with kubelet's private key: read into a secret, and only its certificates are looked at. */
static int read_certificate(const struct nb_settings *settings, struct certificate *ret_certificate, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_closep) int folder_fd = -1;
        char target[NB_SETTINGS_PATH_MAX + 64], folder[NB_SETTINGS_PATH_MAX + 64];
        const char *name = NB_STORE_CURRENT;
        ssize_t n;
        int r;

        (void)snprintf(folder, sizeof(folder), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        n = readlink(folder, target, sizeof(target) - 1);
        (void)snprintf(folder, sizeof(folder), "%s", settings->certificate_directory);
        if (n > 0) {
                target[n] = '\0';
                r = nb_path_split(target, folder, sizeof(folder), &name);
                if (r < 0)
                        return unreadable(settings, NB_STORE_CURRENT, r, f);
        }
        r = nb_folder_open(folder, &folder_fd);
        if (r >= 0)
                r = nb_file_read_secret(folder_fd, name, CERTIFICATE_FILE_MAX, &pem, NULL);
        if (r < 0)
                return unreadable(settings, NB_STORE_CURRENT, r, f);
        r = nb_certificates_parse(pem.data, pem.len, true, &chain);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, -r, "'%s/" NB_STORE_CURRENT "' holds no certificate that can be read", settings->certificate_directory);
        nb_certificate_subject(chain, 0, ret_certificate->subject);
        nb_certificate_issuer(chain, 0, ret_certificate->issuer);
        ret_certificate->not_before = nb_certificate_not_before(chain, 0);
        ret_certificate->not_after = nb_certificate_not_after(chain, 0);
        return 0;
}

static int read_report(const char *config_directory, const char *journal_directory, struct report *report, char folder[static NB_SETTINGS_PATH_MAX],
                       struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        struct nb_settings settings;
        int r;

        r = nb_load_settings(config_directory, NULL, &settings, f);
        if (r < 0)
                return r;
        memcpy(folder, settings.certificate_directory, sizeof(settings.certificate_directory));
        report->timeline_r = nb_timeline_read(journal_directory, &report->timeline, &report->last_failure);
        r = nb_folder_open(settings.certificate_directory, &folder_fd);
        if (r < 0 && r != -ENOENT)
                return unreadable(&settings, "", r, f);
        r = r < 0 ? 0 : read_record(&settings, folder_fd, &report->record, f);
        if (r <= 0)
                return r;
        report->is_joined = true;
        return read_certificate(&settings, &report->certificate, f);
}

static time_t rotation(const struct certificate *certificate, double part) {
        return certificate->not_before + (time_t)((double)(certificate->not_after - certificate->not_before) * part);
}

/* --- Text --- */

static void print_row(const char *name, const char *value) {
        (void)printf("%12s: %s\n", name, value);
}

static void print_time(const char *name, time_t when) {
        char text[NB_RFC3339_SIZE];

        nb_time_format(when, text);
        print_row(name, text);
}

static void print_record(const struct nb_record *record) {
        char pin[NB_PIN_TEXT_SIZE];

        print_row("Node", record->node);
        print_row("Server", record->server);
        print_row("Discovered", record->endpoint);
        for (unsigned i = 0; i < record->n_ca_hashes; i++) {
                nb_pin_format(record->ca_hashes[i], pin);
                print_row("CA", pin);
        }
        print_row("Joined", record->joined_at);
        if (record->refreshed_at[0])
                print_row("Refreshed", record->refreshed_at);
        print_row("Token", record->token_id);
        print_row("from", record->token_source);
        print_row("Request", record->csr);
}

static void print_certificate(const struct certificate *certificate) {
        char from[NB_RFC3339_SIZE], until[NB_RFC3339_SIZE];

        print_row("Subject", certificate->subject);
        print_row("Issuer", certificate->issuer);
        print_time("Valid from", certificate->not_before);
        print_time("Valid until", certificate->not_after);
        nb_time_format(rotation(certificate, ROTATION_FROM), from);
        nb_time_format(rotation(certificate, ROTATION_UNTIL), until);
        (void)printf("%12s: by kubelet, between %s and %s\n", "Renewed", from, until);
}

/* Of the terminal; $COLUMNS says it where that is not one. */
static unsigned find_width(void) {
        const char *columns = getenv("COLUMNS");
        struct winsize size;
        long width = 0;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) >= 0)
                width = size.ws_col;
        else if (columns)
                width = strtol(columns, NULL, 10);
        return width >= 40 && width <= 1000 ? (unsigned)width : WIDTH;
}

static const char *describe_outcome(const struct nb_timeline *timeline) {
        static const char *const words[] = {
                [NB_TIMELINE_DONE] = "done",
                [NB_TIMELINE_UNDER_WAY] = "under way",
                [NB_TIMELINE_FAILED] = "failed",
        };

        return words[timeline->outcome];
}

/* With the values that its entry in the journal has. */
static void print_remedy(const struct nb_unit_entry *failure, enum nb_code code) {
        for (int i = 0; i < _NB_FIELD_N && strcmp(failure->error, nb_failure_info(code)->slug) == 0; i++)
                nb_log_field((enum nb_field)i, "%s", failure->fields[i]);
        (void)printf("  ");
        nb_log_print_remedy(stdout, code);
        (void)printf("`node-bootstrap explain %s` tells more.\n", nb_failure_info(code)->slug);
}

static int print_timeline(const struct report *report) {
        _cleanup_(nb_buffer_done) struct nb_buffer bars = NB_BUFFER_INIT(OUTPUT_MAX);
        const struct nb_timeline *timeline = &report->timeline;
        char begin[NB_RFC3339_SIZE], span[NB_SPAN_SIZE];
        enum nb_code code = nb_failure_find(timeline->code);
        int r;

        if (report->timeline_r < 0) {
                errno = -report->timeline_r;
                (void)printf("\nThe journal cannot be read: %m\n");
                return 0;
        }
        if (report->timeline_r == 0) {
                (void)printf("\nThe journal has no entry of a join%s.\n", geteuid() == 0 ? "" : " that this user can read: run as root");
                return 0;
        }
        nb_time_format((time_t)(timeline->begin_usec / 1000000), begin);
        nb_span_format(timeline->end_usec - timeline->begin_usec, span);
        (void)printf("\nThe last join, %s: %s, %s\n", begin, span, describe_outcome(timeline));
        (void)setlocale(LC_CTYPE, "");
        r = nb_timeline_format_text(timeline, find_width(), strcmp(nl_langinfo(CODESET), "UTF-8") == 0, &bars);
        if (r < 0)
                return r;
        (void)fputs(bars.data ? bars.data : "", stdout);
        if (timeline->message[0])
                (void)printf("%s%s%s\n", timeline->code, timeline->code[0] ? ": " : "", timeline->message);
        if (code != NB_NONE && timeline->outcome != NB_TIMELINE_DONE)
                print_remedy(&report->last_failure, code);
        return 0;
}

static int print_text(const struct report *report, const char *folder) {
        if (report->is_joined) {
                print_record(&report->record);
                print_certificate(&report->certificate);
        } else
                (void)printf("This machine was not joined by node-bootstrap: no %s/" NB_RECORD_FILE "\n"
                             "What a join would begin with: node-bootstrap check\n",
                             folder);
        return print_timeline(report);
}

/* --- JSON --- */

static int append_member(const char *key, const char *value, struct nb_buffer *ret) {
        int r = nb_buffer_printf(ret, ", \"%s\": ", key);

        if (r < 0)
                return r;
        return value[0] ? nb_json_quote(value, strlen(value), ret) : nb_buffer_append_string(ret, "null");
}

static int append_record(const struct nb_record *record, struct nb_buffer *ret) {
        const struct {
                const char *key, *value;
        } members[] = {
                { "node", record->node },
                { "server", record->server },
                { "endpoint", record->endpoint },
                { "discovery", record->discovery },
                { "joinedAt", record->joined_at },
                { "refreshedAt", record->refreshed_at },
                { "tokenID", record->token_id },
                { "tokenSource", record->token_source },
                { "csr", record->csr },
        };
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(members) && r >= 0; i++)
                r = append_member(members[i].key, members[i].value, ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, ", \"caFileHashes\": [");
        for (unsigned i = 0; i < record->n_ca_hashes && r >= 0; i++) {
                char pin[NB_PIN_TEXT_SIZE];

                nb_pin_format(record->ca_hashes[i], pin);
                r = nb_buffer_printf(ret, "%s\"%s\"", i > 0 ? ", " : "", pin);
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "]");
}

static int append_certificate(const struct certificate *certificate, struct nb_buffer *ret) {
        const struct {
                const char *key;
                time_t when;
        } times[] = {
                { "notBefore", certificate->not_before },
                { "notAfter", certificate->not_after },
                { "rotationFrom", rotation(certificate, ROTATION_FROM) },
                { "rotationUntil", rotation(certificate, ROTATION_UNTIL) },
        };
        int r;

        r = nb_buffer_append_string(ret, ", \"certificate\": {\"subject\": ");
        if (r >= 0)
                r = nb_json_quote(certificate->subject, strlen(certificate->subject), ret);
        if (r >= 0)
                r = append_member("issuer", certificate->issuer, ret);
        for (size_t i = 0; i < N_ELEMENTS(times) && r >= 0; i++) {
                char text[NB_RFC3339_SIZE];

                nb_time_format(times[i].when, text);
                r = append_member(times[i].key, text, ret);
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "}");
}

static int print_json(const struct report *report) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        int r;

        r = nb_buffer_printf(&text, "{\"joined\": %s", report->is_joined ? "true" : "false");
        if (r >= 0 && report->is_joined)
                r = append_record(&report->record, &text);
        if (r >= 0 && report->is_joined)
                r = append_certificate(&report->certificate, &text);
        if (r >= 0)
                r = nb_buffer_append_string(&text, ", \"lastJoin\": ");
        if (r >= 0)
                r = report->timeline_r > 0 ? nb_timeline_format_json(&report->timeline, &text) : nb_buffer_append_string(&text, "null");
        if (r >= 0)
                r = nb_buffer_append_string(&text, "}\n");
        if (r >= 0)
                (void)fputs(text.data, stdout);
        return r;
}

/* --- SVG --- */

static int print_svg(const struct report *report, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        const struct nb_timeline *timeline = &report->timeline;
        char title[256], begin[NB_RFC3339_SIZE], span[NB_SPAN_SIZE];
        int r;

        if (report->timeline_r <= 0) {
                errno = report->timeline_r < 0 ? -report->timeline_r : ENOENT;
                return nb_failure_set(f, NB_INSTALLED_UNREADABLE, errno, report->timeline_r < 0 ? "the journal cannot be read: %m" : "the journal has no entry of a join");
        }
        nb_time_format((time_t)(timeline->begin_usec / 1000000), begin);
        nb_span_format(timeline->end_usec - timeline->begin_usec, span);
        (void)snprintf(title, sizeof(title), "node-bootstrap, %s: %s, %s", begin, span, describe_outcome(timeline));
        r = nb_timeline_format_svg(timeline, title, &text);
        if (r >= 0)
                (void)fputs(text.data, stdout);
        return r;
}

/* --- The verb --- */

enum { OPTION_JSON,
       OPTION_PLOT,
       OPTION_JOURNAL };

static const struct nb_option rows[] = {
        [OPTION_JSON] = { "json", NULL, "for programs", '\0' },
        [OPTION_PLOT] = { "plot", NULL, "the last join as a picture, SVG, to standard output", '\0' },
        [OPTION_JOURNAL] = { "journal", "DIR", "a journal's files, instead of this machine's journal", '\0' },
        { NULL },
};

struct choice {
        bool is_json, is_plot;
        const char *journal_directory;
};

static int read_options(struct nb_options *options, struct choice *choice) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        while ((row = nb_options_next(options)) >= 0) {
                if (row == OPTION_JSON)
                        choice->is_json = strcmp(options->value, "true") == 0;
                else if (row == OPTION_PLOT)
                        choice->is_plot = strcmp(options->value, "true") == 0;
                else
                        choice->journal_directory = options->value;
        }
        if (row == NB_OPTIONS_WORD)
                return nb_options_fail(options, "%s after 'status' is one too many", nb_word_quote(options->value, quoted));
        if (row == NB_OPTIONS_END && choice->is_json && choice->is_plot)
                return nb_options_fail(options, "'--json' and '--plot' exclude each other");
        return row;
}

static int print_report(const struct report *report, const struct choice *choice, const char *folder, struct nb_failure *f) {
        int r;

        if (choice->is_plot)
                r = print_svg(report, f);
        else
                r = choice->is_json ? print_json(report) : print_text(report, folder);
        return r < 0 && f->code == NB_NONE ? nb_failure_set_memory(f) : r;
}

int nb_verb_status(int argc, char **argv) {
        struct nb_options options = {
                .verb = "status",
                .summary = "Shows what was installed on this machine, and what the last join took, stage by stage.\n"
                           "Exit status 1: this program has not joined it.",
                .rows = rows,
                .argc = argc,
                .argv = argv,
        };
        struct report report = { .is_joined = false };
        struct choice choice = { .is_json = false };
        struct nb_failure f = { 0 };
        char folder[NB_SETTINGS_PATH_MAX];

        if (read_options(&options, &choice) == NB_OPTIONS_STOP)
                return options.status;
        if (read_report(options.config_directory, choice.journal_directory, &report, folder, &f) < 0 || print_report(&report, &choice, folder, &f) < 0) {
                nb_log_failure(LOG_ERR, &f);
                return nb_failure_info(f.code)->exit_status;
        }
        return report.is_joined ? 0 : EXIT_NOT_JOINED;
}
