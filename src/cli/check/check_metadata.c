/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "join/retry.h"
#include "join_method/settings_documents.h"
#include "metadata/user_data.h"
#include "os/clock.h"
#include "os/process.h"
#include "state_files/platform_note.h"
#include "systemd/unit.h"

#define PLATFORM_UNIT "node-bootstrap-platform.service"

/* --- Contents of metadata or user data --- */

static void print_tokens(struct nb_check *check) {
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;
        const struct nb_identity *identity = &bootstrap->identity;
        bool are_two = bootstrap->token.secret.data &&
                       strcmp(bootstrap->token.token_id, identity->token_id) != 0;

        if (are_two)
                nb_check_row(check, NB_CHECK_GOOD, "token for discovery: %s." NB_CHECK_HIDDEN,
                             bootstrap->token.token_id);
        if (identity->kind != NB_IDENTITY_NONE)
                nb_check_row(check, NB_CHECK_GOOD, "token%s: %s%s" NB_CHECK_HIDDEN " (%s)",
                             are_two ? " for the request" : "", identity->token_id,
                             identity->token_id[0] ? "." : "", identity->source);
}

static void print_found(struct nb_check *check) {
        const struct nb_load *load = &check->load;

        print_tokens(check);
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                enum nb_setting setting = i;
                const char *overridden_by = NULL;

                /* The token was printed above. */
                if (setting == NB_SETTING_BOOTSTRAP_TOKEN ||
                    !nb_setting_is_set(&load->from_metadata, setting))
                        continue;
                /* If a document on the machine sets the cluster, metadata cannot weaken it with
                 * further settings of the cluster. */
                if (!nb_setting_is_from(&load->settings, setting, load->from_metadata.origin[i]))
                        overridden_by = nb_setting_is_set(&load->settings, setting)
                                                ? load->settings.origin[i]
                                                : "this machine's cluster settings";
                nb_check_print_setting(check, &load->from_metadata, setting, overridden_by);
        }
        if (load->from_metadata.ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored: %s", load->from_metadata.ignored);
}

/* --- Metadata of this machine --- */

/* Prints the recognised cloud even if its metadata service is not queried. */
static int print_recognition(struct nb_check *check, struct nb_failure *f) {
        struct nb_load *load = &check->load;
        const struct nb_recognition *recognition = &load->recognition;
        int r = nb_load_recognise(load, f);

        if (r < 0)
                return r;
        if (recognition->provider == NB_PROVIDER_NONE)
                nb_check_row(check, NB_CHECK_NOTE, "no cloud is recognised: %s", recognition->why);
        else
                nb_check_row(check, NB_CHECK_NOTE, "recognised: %s (%s)",
                             nb_provider_titles[recognition->provider], recognition->why);
        return 0;
}

bool nb_check_has_platform_data(void) {
        static const char *const argv[] = { "systemd-analyze", "condition", "--unit=" PLATFORM_UNIT,
                                            NULL };
        struct nb_process_result result;

        return access(NB_PLATFORM_NOTE, F_OK) < 0 && errno == ENOENT && nb_systemd_is_running() &&
               nb_process_run(
                       &(struct nb_process){ .argv = argv, .timeout_ms = NB_PROCESS_TIMEOUT_MS },
                       &result) >= 0 &&
               result.status == 0;
}

/* Reports metadata that only the service can read. */
static void print_hidden(struct nb_check *check) {
        _cleanup_(nb_secret_done) struct nb_secret note = NB_SECRET_INIT;
        int r;

        if (!check->load.is_metadata_wanted)
                return;
        r = nb_sources_read(&check->sources, NB_PLATFORM_NOTE, NB_PLATFORM_NOTE_MAX, &note, NULL);
        if (r >= 0 || (r != -EACCES && !check->is_platform_unread &&
                       (check->part != NB_CHECK_ALL || !nb_check_has_platform_data())))
                return;
        if (r == -EACCES)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "cannot read " NB_PLATFORM_NOTE ": run as root");
        else
                nb_check_row(check, NB_CHECK_DOUBT,
                             PLATFORM_UNIT " has not read this machine's data yet: run "
                                           "`systemctl start " PLATFORM_UNIT "`, then check again");
        check->unknown = "it depends on data that only the service can read (see Metadata)";
}

static int query_metadata(struct nb_check *check, struct nb_failure *f) {
        struct nb_load *load = &check->load;
        const struct nb_metadata *metadata = &load->found;
        uint64_t timeout_ms = load->settings.timeout_ms,
                 patience_ms = timeout_ms < NB_CHECK_METADATA_MS ? timeout_ms
                                                                 : NB_CHECK_METADATA_MS,
                 deadline_ms = nb_now_ms() + patience_ms;
        char text[NB_FAILURE_DETAIL_MAX];
        int r;

        nb_check_row(check, NB_CHECK_NOTE, "querying %s", nb_provider_titles[load->provider]);
        r = nb_load_metadata(load, deadline_ms, NULL, f);
        if (r < 0) {
                nb_retry_given_up(deadline_ms, patience_ms,
                                  patience_ms == timeout_ms
                                          ? "timeout"
                                          : "the limit of check, not the setting timeout",
                                  f);
                return r;
        }
        if (!load->has_metadata) {
                nb_load_describe(load, text, sizeof(text));
                nb_check_row(check, NB_CHECK_NOTE, "%s", text);
                return 0;
        }
        if (metadata->user_data_source[0])
                nb_check_row(check, NB_CHECK_NOTE, "%s: %s", metadata->user_data_source,
                             metadata->user_data.what);
        print_found(check);
        return 0;
}

int nb_check_metadata(struct nb_check *check, struct nb_failure *f) {
        const struct nb_load *load = &check->load;
        const char *unknown = check->unknown;
        int r = print_recognition(check, f);

        if (r < 0)
                return r;
        print_hidden(check);
        if (load->provider == NB_PROVIDER_NOCLOUD || load->provider == NB_PROVIDER_VMWARE)
                unknown = check->unknown;
        if (load->is_metadata_wanted && !unknown && load->provider != NB_PROVIDER_NONE)
                return query_metadata(check, f);
        if (load->is_metadata_wanted)
                nb_check_row(check, NB_CHECK_NOTE, "not queried");
        else if (load->bootstrap.identity.kind == NB_IDENTITY_NONE)
                nb_check_row(check, NB_CHECK_NOTE, "not queried: metadata.provider is none (%s)",
                             load->settings.origin[NB_SETTING_METADATA_PROVIDER]);
        else
                nb_check_row(check, NB_CHECK_NOTE, "not queried: the identity is from %s",
                             load->bootstrap.identity.source);
        return 0;
}

/* --- User data --- */

/* Reads the user data and the settings of the image, before the last capability is dropped. */
static int read_user_data(struct nb_check *check, const char *source, struct nb_secret *ret,
                          struct nb_failure *f) {
        /* O_NONBLOCK: opening a pipe does not wait for its writer, but reading it does. */
        _cleanup_(nb_closep) int fd = source == check->user_data
                                              ? open(source,
                                                     O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)
                                              : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        int r;

        if (fd < 0)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, errno, "cannot read '%s': %m",
                                      nb_text_shown(source));
        r = nb_sources_read_stream(fd, source, NB_USER_DATA_MAX, ret, f);
        if (r >= 0)
                r = nb_load_settings(&check->load, &check->sources, f);
        if (r >= 0)
                r = nb_load_bootstrap(&check->load, f);
        return r < 0 ? r : nb_check_drop(check, f);
}

int nb_check_user_data(struct nb_check *check, struct nb_failure *f) {
        const char *source = strcmp(check->user_data, "-") != 0 ? check->user_data
                                                                : "standard input";
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        struct nb_load *load = &check->load;
        int r;

        if (check->sources.config_directory && !check->has_settings) {
                nb_check_row(check, NB_CHECK_NOTE, "skipped: see above");
                return 0;
        }
        r = read_user_data(check, source, &data, f);
        if (r < 0)
                return r;
        r = nb_load_user_data(load, source, &data, f);
        if (load->found.user_data.what[0])
                nb_check_row(check, NB_CHECK_NOTE, "%s: %zu bytes: %s", source, data.len,
                             load->found.user_data.what);
        if (r < 0)
                return r;
        if (!load->has_metadata)
                return nb_failure_set(
                        f, NB_METADATA_NOTHING, 0,
                        "%s has nothing that node-bootstrap itself reads: it is %s%s", source,
                        load->found.user_data.what,
                        load->found.user_data.hint
                                ? load->found.user_data.hint
                                : "; to check the files that cloud-init or Ignition "
                                  "writes, run `node-bootstrap check` on the machine");
        if (!load->is_metadata_wanted) {
                nb_check_row(check, NB_CHECK_DOUBT, "a machine would not read it: %s",
                             load->bootstrap.identity.kind == NB_IDENTITY_NONE
                                     ? "metadata.provider is none"
                                     : load->bootstrap.identity.source);
                return 0;
        }
        print_found(check);
        nb_check_row(check, NB_CHECK_GOOD, "valid");
        return 0;
}
