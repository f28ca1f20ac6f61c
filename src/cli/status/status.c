/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/commands.h"
#include "cli/status/node_metrics.h"
#include "cli/status/renewal.h"
#include "cli/status/timeline.h"
#include "codec/json.h"
#include "join_method/cluster_identity.h"
#include "os/clock.h"
#include "os/sources.h"
#include "os/terminal.h"
#include "systemd/log.h"

#define EXIT_UNKNOWN 5
#define EXIT_EXPIRING \
        3 /* or its renewal is overdue; the others: nb_machine_exit_status(); 64 and above: \
             failures.def */

#define CHECK_PERIOD "30d"
#define OUTPUT_MAX (256 * 1024) /* bytes of JSON, or of metrics */
#define STANDARD_OUTPUT "-"     /* as the file of --prometheus */

enum validity {
        VALID,
        EXPIRING, /* only with --monitor */
        EXPIRED,
        NOT_YET_VALID,
};

static const char *const validities[] = {
        [VALID] = "valid",
        [EXPIRING] = "expiring",
        [EXPIRED] = "expired",
        [NOT_YET_VALID] = "not-yet-valid",
};

struct report {
        bool is_json;
        bool is_kubelet_ignored; /* --no-kubelet */
        const char *period;      /* of --monitor; NULL: no --monitor */
        uint64_t period_ms;
        const char *metrics; /* file of --prometheus; NULL: no --prometheus */

        struct nb_machine_state state;
        const struct nb_record *record;      /* NULL: there is none that can be read */
        const struct nb_certificates *chain; /* of kubelet; NULL: likewise */
        time_t not_before, not_after;
        enum validity validity;
        struct nb_renewal renewal;
};

static enum validity check_validity(const struct report *report) {
        time_t now = report->state.node.now;

        if (now > report->not_after)
                return EXPIRED;
        if (now < report->not_before)
                return NOT_YET_VALID;
        return (uint64_t)(report->not_after - now) < report->period_ms / 1000 ? EXPIRING : VALID;
}

static int read_report(struct nb_sources *sources, struct report *report, struct nb_failure *f) {
        const struct nb_present *present = &report->state.node.present;
        const struct nb_failure *settings = &report->state.settings_failure;
        const struct nb_last *last = &report->state.last;

        if (nb_machine_look(sources, false, &report->state) < 0)
                return nb_failure_set_memory(f);
        /* Unless the state says so already. */
        if (settings->code != NB_NONE && (report->state.why.code != settings->code ||
                                          strcmp(last->detail, settings->detail) != 0))
                nb_log_failure(LOG_WARNING, settings);
        if (present->record_why.code != NB_NONE && report->state.kind != NB_MACHINE_HIDDEN)
                nb_log_failure(LOG_WARNING, &present->record_why);
        report->record = present->has_record ? &present->record : NULL;
        report->chain = present->chain;
        if (!report->chain)
                return 0;
        report->not_before = nb_certificate_not_before(report->chain, 0);
        report->not_after = nb_certificate_not_after(report->chain, 0);
        report->validity = check_validity(report);
        report->renewal = nb_renewal_judge(&report->state);
        return 0;
}

static int exit_status(const struct report *report) {
        int status = nb_machine_exit_status(&report->state, report->is_kubelet_ignored);

        return status == 0 && report->chain &&
                               (report->validity == EXPIRING || report->renewal.overdue_since > 0)
                       ? EXIT_EXPIRING
                       : status;
}

/* --- Text and JSON --- */

/* Prints a line of text, or a member of an object if there is a writer. */
static void print_fact(struct nb_json_writer *writer, const char *label, const char *key,
                       const char *value) {
        if (writer)
                nb_json_put_string(writer, key, value[0] ? value : NULL);
        else if (label && value[0])
                printf("%12s: %s\n", label, value);
}

static void print_record(const struct nb_record *record, struct nb_json_writer *writer) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        char server[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        const struct {
                const char *label, *key, *value;
        } facts[] = {
                { "Node", "node", record->node },
                { "Server", "server", server },
                { "Discovered", "endpoint", record->provenance.endpoint },
                { NULL, "joinMethod", record->join_method },
                { "Joined", "joinedAt", record->joined_at },
                { "Refreshed", "refreshedAt", record->refreshed_at },
                { "Token", "tokenID", record->provenance.token_id },
                { "from", "tokenSource", record->provenance.token_source },
                { "Request", "csr", record->provenance.csr },
        };

        nb_url_format(&record->server, server);
        for (size_t i = 0; i < N_ELEMENTS(facts); i++)
                print_fact(writer, facts[i].label, facts[i].key, facts[i].value);
        if (writer)
                nb_json_open(writer, "caFileHashes", '[');
        if (record->ca)
                (void)nb_certificates_parse(record->ca, strlen(record->ca), true, &ca);
        for (size_t i = 0; ca && i < nb_certificates_count(ca); i++) {
                nb_pin_format(nb_certificate_pin(ca, i), pin);
                print_fact(writer, "CA", NULL, pin);
        }
        if (writer)
                nb_json_close(writer);
}

static void print_certificate(const struct report *report, struct nb_json_writer *writer) {
        bool is_supervised = report->record && nb_record_is_by_supervisor(report->record);
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE];
        const struct nb_renewal *renewal = &report->renewal;
        const time_t all[] = { report->not_before, report->not_after, renewal->from, renewal->until,
                               renewal->overdue_since };
        char times[N_ELEMENTS(all)][NB_RFC3339_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(all); i++)
                nb_time_format(all[i], times[i]);
        nb_certificate_subject(report->chain, 0, subject);
        nb_certificate_issuer(report->chain, 0, issuer);
        if (writer)
                nb_json_open(writer, "certificate", '{');
        print_fact(writer, "Subject", "subject", subject);
        print_fact(writer, "Issuer", "issuer", issuer);
        print_fact(writer, NULL, "state", validities[report->validity]);
        print_fact(writer, "Valid from", "notBefore", times[0]);
        print_fact(writer, "Valid until", "notAfter", times[1]);
        print_fact(writer, NULL, "renewalFrom", times[2]);
        print_fact(writer, NULL, "renewalUntil", times[3]);
        print_fact(writer, NULL, "renewalOverdueSince", renewal->overdue_since > 0 ? times[4] : "");
        print_fact(writer, NULL, "renewalFailure",
                   renewal->code == NB_NONE ? "" : nb_failure_info(renewal->code)->slug);
        if (writer) {
                nb_json_close(writer);
                return;
        }
        if (report->validity == NOT_YET_VALID)
                print_fact(NULL, "NOT VALID", NULL,
                           "not yet; this machine's clock is probably wrong: see `timedatectl`");
        if (report->validity == EXPIRED)
                printf("%12s: since %s; it can no longer be renewed\n", "EXPIRED", times[1]);
        else if (renewal->overdue_since > 0)
                printf("%12s: overdue since %s: %s\n", "Renewal", times[4], renewal->reason);
        else if (is_supervised)
                printf("%12s: by node-bootstrap-refresh.timer, through the supervisor, from %s on; "
                       "kubelet itself cannot renew it on k3s and RKE2\n",
                       "Renewed", times[2]);
        else
                printf("%12s: by kubelet, between %s and %s\n", "Renewed", times[2], times[3]);
}

static void print_text(const struct report *report) {
        const struct nb_machine_state *state = &report->state;
        enum nb_code code = state->why.code;

        print_fact(NULL, "State", NULL, state->why.detail);
        if (report->record)
                print_record(report->record, NULL);
        if (report->chain)
                print_certificate(report, NULL);
        if (report->record && nb_timeline_usec(report->record) > 0) {
                printf("\n");
                nb_timeline_print_text(report->record, stdout);
        }
        if (code == NB_NONE)
                code = report->renewal.code;
        if (code == NB_NONE) {
                if (state->kind == NB_MACHINE_NOT_JOINED)
                        printf("%sTo see whether a join would succeed, run `node-bootstrap "
                               "check`.\n",
                               !nb_unit_is(&state->service, "inactive") ? ""
                               : state->service.is_enabled
                                       ? "To start the join, run `systemctl start " NB_SERVICE_UNIT
                                         "`. "
                                       : "To start the join now and at each boot, run `systemctl "
                                         "enable --now " NB_SERVICE_UNIT "`. ");
                return;
        }
        nb_machine_adopt_fields(state);
        nb_log_print_remedy(stdout, code, 2, nb_terminal_columns(STDOUT_FILENO));
        printf("For details, run `node-bootstrap explain %s`.\n", nb_failure_info(code)->slug);
}

static int print_json(const struct report *report, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        struct nb_json_writer writer = { .buffer = &text };
        const struct nb_machine_state *state = &report->state;

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "state", nb_machine_kind_name(state->kind));
        nb_json_put_string(&writer, "message", state->why.detail);
        nb_json_put_string(&writer, "code",
                           state->why.code == NB_NONE ? NULL
                                                      : nb_failure_info(state->why.code)->slug);
        if (state->kind != NB_MACHINE_HIDDEN)
                nb_json_put_boolean(&writer, "joined",
                                    nb_inspection_is_kept(&state->node.inspection));
        if (report->record)
                print_record(report->record, &writer);
        if (report->chain)
                print_certificate(report, &writer);
        nb_timeline_put_json(&state->last, report->record, &writer);
        if (nb_json_finish(&writer) < 0)
                return nb_failure_set_memory(f);
        puts(text.data);
        return 0;
}

/* --- One line, for monitoring --- */

/* "KUBELET STOPPED" */
static void print_label(const struct report *report) {
        const char *name = nb_machine_kind_name(report->state.kind);
        int status = exit_status(report);

        if (status == 0 || status == EXIT_EXPIRING)
                name = status == 0                         ? "ok"
                       : report->renewal.overdue_since > 0 ? "renewal-overdue"
                                                           : "expiring";
        for (; *name; name++)
                putchar(*name == '-' ? ' ' : toupper((unsigned char)*name));
}

static void print_check(const struct report *report) {
        char text[NB_RFC3339_SIZE], distance[NB_DURATION_SIZE], subject[NB_SUBJECT_SIZE];
        const char *why = report->state.why.detail;
        bool is_begin = report->validity == NOT_YET_VALID;
        time_t when = is_begin ? report->not_before : report->not_after,
               now = report->state.node.now;
        bool is_past = when < now;

        print_label(report);
        if (strncmp(why, NB_MACHINE_NOT_JOINED_PREFIX, strlen(NB_MACHINE_NOT_JOINED_PREFIX)) == 0)
                why += strlen(NB_MACHINE_NOT_JOINED_PREFIX); /* the label says so */
        printf(": %s", why);
        if (report->chain) {
                nb_time_format(when, text);
                nb_certificate_subject(report->chain, 0, subject);
                nb_duration_format((uint64_t)(is_past ? now - when : when - now) * 1000, distance);
                printf("; the certificate %s %s (%s%s%s), %s",
                       is_begin  ? "is valid from"
                       : is_past ? "expired"
                                 : "expires",
                       text, is_past ? "" : "in ", distance, is_past ? " ago" : "", subject);
        }
        if (report->renewal.overdue_since > 0) {
                nb_time_format(report->renewal.overdue_since, text);
                printf("; its renewal is overdue since %s: %s", text, report->renewal.reason);
        }
        printf("\n");
}

/* --- Metrics --- */

/* Without the failure disk-full, whose remedy restarts node-bootstrap.service. */
static int fail_metrics(const char *path, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_METRICS_UNWRITABLE, 0, "cannot write '%s': %s", path,
                              strerror(-r));
}

static int print_metrics(const struct report *report, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        _cleanup_(nb_closep) int fd = -1;
        char folder[PATH_MAX];
        const char *name;
        int r;

        nb_node_metrics_format(&report->state, &text);
        if (text.error < 0)
                return nb_failure_set_memory(f);
        if (!strcmp(report->metrics, STANDARD_OUTPUT)) {
                (void)fputs(text.data, stdout);
                r = nb_stream_flush(stdout);
                if (r < 0)
                        return fail_metrics("standard output", r, f);
        } else {
                if (nb_path_split(report->metrics, folder, sizeof(folder), &name) < 0)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--prometheus': expected an absolute path");
                r = nb_folder_open(folder, &fd);
                if (r >= 0)
                        r = nb_file_write(fd, name, 0644, text.data, text.len);
                if (r < 0)
                        return fail_metrics(report->metrics, r, f);
        }
        /* The state is in the metrics, so that the exit status says only whether there are any. */
        return nb_machine_exit_status(&report->state, false) == EXIT_UNKNOWN ? EXIT_UNKNOWN : 0;
}

/* --- The command --- */

static void report_done(struct report *report) {
        nb_machine_state_done(&report->state);
}

int nb_command_status(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(report_done) struct report report = { 0 };
        const struct nb_option rows[] = {
                { "monitor", "PERIOD",
                  "print one line; fail if the certificate expires within PERIOD "
                  "(default: " CHECK_PERIOD ")",
                  .by_default = CHECK_PERIOD, .ret_value = &report.period },
                { "no-kubelet", NULL, "succeed even if kubelet is not running",
                  .ret_switch = &report.is_kubelet_ignored },
                { "json", NULL, "print JSON", .ret_switch = &report.is_json },
                { "prometheus", "FILE",
                  "print metrics for Prometheus, or write them to FILE, an absolute path",
                  .by_default = STANDARD_OUTPUT, .ret_value = &report.metrics },
                { NULL },
        };
        struct nb_sources sources;
        int r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        if (report.period && nb_setting_duration_parse(report.period, false, &report.period_ms) < 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--monitor': expected a duration such as 12h or 30d");
        if (report.metrics && (report.is_json || report.period))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--prometheus' cannot be combined with '--json' or "
                                      "'--monitor'");
        nb_sources_init(&sources, options->config_directory);
        r = read_report(&sources, &report, f);
        if (r < 0)
                return r;
        if (report.metrics)
                return print_metrics(&report, f);
        if (report.is_json) {
                r = print_json(&report, f);
                if (r < 0)
                        return r;
        } else if (report.period) {
                print_check(&report);
        } else {
                print_text(&report);
        }
        return exit_status(&report);
}
