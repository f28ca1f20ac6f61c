/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "format/handoff.h"
#include "verb/load.h"
#include "verb/options.h"
#include "verb/verb.h"

#define EXIT_NOT_JOINED 1
#define CERTIFICATE_FILE_MAX (256 * 1024)

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

static void print_row(const char *name, const char *value) {
        (void)printf("%12s: %s\n", name, value);
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

/* The file ends with kubelet's private key: read into a secret, and only its certificates are looked at. */
static int print_certificate(const struct nb_settings *settings, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_closep) int folder_fd = -1;
        char target[NB_SETTINGS_PATH_MAX + 64], folder[NB_SETTINGS_PATH_MAX + 64], text[NB_SUBJECT_SIZE], time_text[NB_RFC3339_SIZE];
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
        nb_certificate_subject(chain, 0, text);
        print_row("Subject", text);
        nb_certificate_issuer(chain, 0, text);
        print_row("Issuer", text);
        nb_time_format(nb_certificate_not_before(chain, 0), time_text);
        print_row("Valid from", time_text);
        nb_time_format(nb_certificate_not_after(chain, 0), time_text);
        print_row("Valid until", time_text);
        return 0;
}

static int print_status(const char *config_directory, bool *ret_is_joined, struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        struct nb_settings settings;
        struct nb_record record = { 0 };
        int r;

        r = nb_load_settings(config_directory, NULL, &settings, f);
        if (r < 0)
                return r;
        r = nb_folder_open(settings.certificate_directory, &folder_fd);
        if (r < 0 && r != -ENOENT)
                return unreadable(&settings, "", r, f);
        r = r < 0 ? 0 : read_record(&settings, folder_fd, &record, f);
        if (r < 0)
                return r;
        *ret_is_joined = r > 0;
        if (!*ret_is_joined) {
                (void)printf("This machine was not joined by node-bootstrap: no %s/" NB_RECORD_FILE "\n"
                             "What a join would begin with: node-bootstrap check\n",
                             settings.certificate_directory);
                return 0;
        }
        print_record(&record);
        return print_certificate(&settings, f);
}

int nb_verb_status(int argc, char **argv) {
        struct nb_options options = {
                .verb = "status",
                .summary = "Shows what was installed on this machine. Exit status 1: nothing, by this program.",
                .argc = argc,
                .argv = argv,
        };
        struct nb_failure f = { 0 };
        bool is_joined = false;

        if (nb_options_none(&options) == NB_OPTIONS_STOP)
                return options.status;
        if (print_status(options.config_directory, &is_joined, &f) < 0) {
                nb_log_failure(LOG_ERR, &f);
                return nb_failure_info(f.code)->exit_status;
        }
        return is_joined ? 0 : EXIT_NOT_JOINED;
}
