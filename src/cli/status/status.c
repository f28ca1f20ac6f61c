/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/commands.h"
#include "cli/status/timeline.h"
#include "codec/json.h"
#include "files/handoff.h"
#include "join/load.h"
#include "method/cluster_identity.h"
#include "method/settings_documents.h"
#include "settings/kubelet_env.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/sources.h"

#define EXIT_NOT_JOINED 1 /* 64 and above are exit statuses of failures (failures.def) */

#define CHECK_PERIOD "30d"
#define OUTPUT_MAX (256 * 1024) /* bytes of JSON */

/* When kubelet renews the certificate, as parts of its validity (client-go util/certificate,
 * nextRotationDeadline). */
#define ROTATION_FROM 0.7
#define ROTATION_UNTIL 0.9

enum validity {
        VALID,
        EXPIRING, /* only with --check */
        EXPIRED,
        NOT_YET_VALID,
};

static const struct {
        const char *name;  /* in JSON */
        const char *check; /* the line of --check, before the time */
        int exit_status;
} validities[] = {
        [VALID] = { "valid", "OK: the certificate expires", 0 },
        [EXPIRING] = { "expiring", "EXPIRING: the certificate expires", 3 },
        [EXPIRED] = { "expired", "EXPIRED: the certificate expired", 2 },
        [NOT_YET_VALID] = { "not-yet-valid", "NOT YET VALID: the certificate is valid from", 2 },
};

struct report {
        bool is_json;
        const char *period; /* of --check; NULL: no --check */
        uint64_t period_ms;

        bool is_joined;  /* has joined with node-bootstrap: record and certificate exist */
        bool has_record; /* the record can be read */
        struct nb_record record;
        char folder[NB_SETTINGS_PATH_MAX]; /* path of the record, which may not exist */
        struct nb_installed_certificate certificate;
        enum validity validity;
        int timeline_r; /* as nb_timeline_read() returned */
        struct nb_timeline timeline;
        struct nb_unit_entry last_failure; /* of that join */
};

/* Finds the paths of the installed files even if the settings are invalid. */
static int load_settings(struct nb_sources *sources, struct nb_settings *ret_settings,
                         struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_documents_merge(sources, NULL, NULL, ret_settings, f);

        if (r >= 0)
                return 0;
        nb_documents_salvage(sources, ret_settings);
        if (!nb_setting_is_set(ret_settings, NB_SETTING_CERTIFICATE_DIRECTORY) &&
            nb_sources_read(sources, NB_KUBELET_ENV_PATH, NB_HANDOFF_MAX, &text, NULL) >= 0)
                nb_kubelet_env_find_paths(text.data, text.len, ret_settings);
        return r;
}

static enum validity check_validity(const struct report *report) {
        const struct nb_installed_certificate *certificate = &report->certificate;
        time_t now = time(NULL);

        if (now > certificate->not_after)
                return EXPIRED;
        if (now < certificate->not_before)
                return NOT_YET_VALID;
        return (uint64_t)(certificate->not_after - now) < report->period_ms / 1000 ? EXPIRING
                                                                                   : VALID;
}

static int read_report(struct nb_sources *sources, struct report *report, struct nb_failure *f) {
        struct nb_settings settings;
        struct nb_failure why = { 0 }, invalid = { 0 };
        int loaded, r;

        loaded = load_settings(sources, &settings, &invalid);
        memcpy(report->folder, settings.certificate_directory,
               sizeof(settings.certificate_directory));
        report->timeline_r = nb_timeline_read(&report->timeline, &report->last_failure);
        r = nb_record_read(-1, settings.certificate_directory, &report->record, &why);
        /* Without the settings, the path of the record is unknown. */
        if (r == 0 && loaded < 0)
                *f = invalid;
        if (r == 0)
                return loaded;
        if (loaded < 0)
                nb_log_failure(LOG_WARNING, &invalid);
        if (r < 0)
                nb_log_failure(LOG_WARNING, &why);
        report->is_joined = true;
        report->has_record = r > 0;
        r = nb_installed_read_certificate(&settings, &report->certificate, f);
        report->validity = check_validity(report);
        return r;
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
        char server[NB_URL_MAX], pin[NB_PIN_TEXT_SIZE];
        const struct {
                const char *label, *key, *value;
        } facts[] = {
                { "Node", "node", record->node },
                { "Server", "server", server },
                { "Discovered", "endpoint", record->provenance.endpoint },
                { NULL, "discovery", record->discovery },
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
        for (unsigned i = 0; i < record->n_ca_hashes; i++) {
                nb_pin_format(record->ca_hashes[i], pin);
                print_fact(writer, "CA", NULL, pin);
        }
        if (writer)
                nb_json_close(writer);
}

/* The command that prints a token for joining again, and where to type it. */
static const char *token_command(bool is_supervised) {
        return is_supervised ? "`k3s token create` (`rke2 token create`) on a server"
                             : "`kubeadm token create` on a control plane node";
}

static void print_certificate(const struct report *report, struct nb_json_writer *writer) {
        const struct nb_installed_certificate *certificate = &report->certificate;
        bool is_supervised = report->has_record && nb_record_is_by_supervisor(&report->record);
        const double shares[] = { 0, 1, ROTATION_FROM, ROTATION_UNTIL };
        char times[N_ELEMENTS(shares)][NB_RFC3339_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(shares); i++)
                nb_time_format(certificate->not_before +
                                       (time_t)((double)(certificate->not_after -
                                                         certificate->not_before) *
                                                shares[i]),
                               times[i]);
        if (is_supervised) {
                nb_time_format(nb_record_renewal(&report->record, certificate->not_after),
                               times[2]);
                memcpy(times[3], times[1], sizeof(times[3]));
        }
        if (writer)
                nb_json_open(writer, "certificate", '{');
        print_fact(writer, "Subject", "subject", certificate->subject);
        print_fact(writer, "Issuer", "issuer", certificate->issuer);
        print_fact(writer, NULL, "state", validities[report->validity].name);
        print_fact(writer, "Valid from", "notBefore", times[0]);
        print_fact(writer, "Valid until", "notAfter", times[1]);
        print_fact(writer, NULL, "rotationFrom", times[2]);
        print_fact(writer, NULL, "rotationUntil", times[3]);
        if (writer) {
                nb_json_close(writer);
                return;
        }
        if (report->validity == NOT_YET_VALID)
                print_fact(NULL, "NOT VALID", NULL,
                           "not yet; this machine's clock is probably wrong: see `timedatectl`");
        if (report->validity == EXPIRED)
                printf("%12s: since %s; it can no longer be renewed. `systemctl restart "
                       "node-bootstrap.service` joins again; this requires a valid token: run %s\n",
                       "EXPIRED", times[1], token_command(is_supervised));
        else if (is_supervised)
                printf("%12s: by node-bootstrap-refresh.timer, through the supervisor, from %s on; "
                       "kubelet itself cannot renew it on k3s and RKE2\n",
                       "Renewed", times[2]);
        else
                printf("%12s: by kubelet, between %s and %s\n", "Renewed", times[2], times[3]);
}

static void print_timeline(const struct report *report) {
        const struct nb_timeline *timeline = &report->timeline;
        enum nb_code code = nb_failure_find(timeline->code);

        printf("\n");
        if (report->timeline_r < 0) {
                printf("Cannot read the journal: %s\n", strerror(-report->timeline_r));
                return;
        }
        if (report->timeline_r == 0) {
                printf("The journal has no entry of a join%s.\n",
                       geteuid() == 0 ? "" : " that this user can read: run as root");
                return;
        }
        nb_timeline_print_text(timeline, stdout);
        if (timeline->message[0])
                printf("%s%s%s\n", timeline->code, timeline->code[0] ? ": " : "",
                       timeline->message);
        if (code == NB_NONE || timeline->outcome == NB_TIMELINE_DONE)
                return;
        if (strcmp(report->last_failure.error, timeline->code) == 0)
                nb_unit_entry_adopt_fields(&report->last_failure);
        printf("  ");
        nb_log_print_remedy(stdout, code);
        printf("For details, run `node-bootstrap explain %s`.\n", timeline->code);
}

static void print_text(const struct report *report) {
        if (!report->is_joined)
                printf("This machine was not joined by node-bootstrap: %s/" NB_RECORD_FILE
                       " does not exist.\n"
                       "To see whether a join would succeed, run `node-bootstrap check`.\n",
                       report->folder);
        if (report->has_record)
                print_record(&report->record, NULL);
        if (report->is_joined)
                print_certificate(report, NULL);
        print_timeline(report);
}

static int print_json(const struct report *report, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        struct nb_json_writer writer = { .buffer = &text };

        nb_json_open(&writer, NULL, '{');
        nb_json_put_boolean(&writer, "joined", report->is_joined);
        if (report->has_record)
                print_record(&report->record, &writer);
        if (report->is_joined)
                print_certificate(report, &writer);
        if (report->timeline_r > 0)
                nb_timeline_put_json(&report->timeline, "lastJoin", &writer);
        else
                nb_json_put_string(&writer, "lastJoin", NULL);
        if (nb_json_finish(&writer) < 0)
                return nb_failure_set_memory(f);
        puts(text.data);
        return 0;
}

/* --- One line, for monitoring --- */

static void print_check(const struct report *report) {
        time_t when = report->validity == NOT_YET_VALID ? report->certificate.not_before
                                                        : report->certificate.not_after,
               now = time(NULL);
        char text[NB_RFC3339_SIZE], distance[NB_DURATION_SIZE];

        if (!report->is_joined) {
                printf("NOT JOINED by node-bootstrap: %s/" NB_RECORD_FILE " does not exist\n",
                       report->folder);
                return;
        }
        nb_time_format(when, text);
        nb_duration_format((uint64_t)(when < now ? now - when : when - now) * 1000, distance);
        printf("%s %s (%s%s%s), %s\n", validities[report->validity].check, text,
               when < now ? "" : "in ", distance, when < now ? " ago" : "",
               report->certificate.subject);
}

/* --- The command --- */

int nb_command_status(struct nb_options *options, struct nb_failure *f) {
        struct report report = { .is_joined = false };
        const struct nb_option rows[] = {
                { "check", "PERIOD",
                  "print one line: does the certificate expire within PERIOD? "
                  "(default: " CHECK_PERIOD ")",
                  .by_default = CHECK_PERIOD, .ret_value = &report.period },
                { "json", NULL, "print JSON", .ret_switch = &report.is_json },
                { NULL },
        };
        struct nb_sources sources;
        int r;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        if (report.period && nb_setting_duration_parse(report.period, false, &report.period_ms) < 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--check': expected a duration such as 12h or 30d");
        nb_sources_init(&sources, options->config_directory);
        r = read_report(&sources, &report, f);
        if (r < 0)
                return r;
        if (report.is_json) {
                r = print_json(&report, f);
                if (r < 0)
                        return r;
        } else if (report.period) {
                print_check(&report);
        } else {
                print_text(&report);
        }
        return report.is_joined ? validities[report.validity].exit_status : EXIT_NOT_JOINED;
}
