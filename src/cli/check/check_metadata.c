/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "files/platform_note.h"
#include "join/retry.h"
#include "metadata/user_data.h"
#include "method/settings_documents.h"
#include "system/clock.h"
#include "system/process.h"
#include "system/unit.h"

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
                enum nb_setting setting = (enum nb_setting)i;
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
        if (load->settings.metadata_provider > NB_PROVIDER_AUTO)
                nb_check_row(check, NB_CHECK_NOTE, "configured: %s (%s)",
                             nb_provider_titles[load->settings.metadata_provider],
                             load->settings.origin[NB_SETTING_METADATA_PROVIDER]);
        return 0;
}

/* Whether there is something to read for that unit, by its conditions. */
static bool has_platform_data(void) {
        static const char *const argv[] = { "systemd-analyze", "condition", "--unit=" PLATFORM_UNIT,
                                            NULL };
        struct nb_process_result result;

        return nb_systemd_is_running() &&
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
        if (r >= 0 || (r != -EACCES && !has_platform_data()))
                return;
        if (r == -EACCES)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "cannot read " NB_PLATFORM_NOTE ": run as root");
        else
                nb_check_row(check, NB_CHECK_DOUBT,
                             PLATFORM_UNIT " has not read this machine's data yet: run "
                                           "`systemctl start " PLATFORM_UNIT "`, then check again");
        check->is_platform_hidden = true;
}

static int query_metadata(struct nb_check *check, struct nb_failure *f) {
        struct nb_load *load = &check->load;
        const struct nb_metadata *metadata = &load->metadata;
        uint64_t timeout_ms = load->settings.timeout_ms,
                 patience_ms = timeout_ms < NB_CHECK_METADATA_MS ? timeout_ms
                                                                 : NB_CHECK_METADATA_MS,
                 deadline_ms = nb_now_ms() + patience_ms;
        char text[NB_FAILURE_DETAIL_MAX];
        int r;

        nb_check_row(check, NB_CHECK_NOTE, "querying %s", nb_provider_titles[load->provider]);
        r = nb_load_metadata(load, deadline_ms, true, f);
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
        bool is_hidden, is_sealed = check->sealed & NB_CHECK_IDENTITIES;
        int r;

        r = print_recognition(check, f);
        if (r < 0)
                return r;
        print_hidden(check);
        is_hidden = check->is_platform_hidden &&
                    (load->provider == NB_PROVIDER_NOCLOUD || load->provider == NB_PROVIDER_VMWARE);
        if (load->is_metadata_wanted && !is_sealed && !is_hidden &&
            load->provider != NB_PROVIDER_NONE)
                return query_metadata(check, f);
        if (load->is_metadata_wanted)
                nb_check_row(check, NB_CHECK_NOTE, "not queried%s",
                             is_sealed ? ": the identity is from a credential that only the "
                                         "service receives"
                                       : "");
        else if (load->bootstrap.identity.kind == NB_IDENTITY_NONE)
                nb_check_row(check, NB_CHECK_NOTE, "not queried: metadata.provider is none (%s)",
                             load->settings.origin[NB_SETTING_METADATA_PROVIDER]);
        else
                nb_check_row(check, NB_CHECK_NOTE, "not queried: the identity is from %s",
                             load->bootstrap.identity.source);
        return 0;
}

/* --- User data --- */

/* A path that names a pipe is refused; standard input may be a pipe. */
static int read_file(struct nb_sources *sources, const char *path, struct nb_secret *ret,
                     struct nb_failure *f) {
        int r = nb_sources_read(sources, path, NB_USER_DATA_MAX, ret, NULL);

        if (r == -EBADF)
                return nb_failure_set(
                        f, NB_SETTINGS_UNREADABLE, r,
                        "'%s' is not a regular file; '--user-data=-' reads standard input", path);
        if (r == -EFBIG)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                      "'%s' is larger than %d KiB, more than any cloud accepts",
                                      path, NB_USER_DATA_MAX / 1024);
        if (r < 0)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "'%s' cannot be read: %m",
                                      path);
        return 0;
}

/* Reads the user data and the settings of the image, before the last capability is dropped. */
static int read_user_data(struct nb_check *check, const char *source, struct nb_secret *ret,
                          struct nb_failure *f) {
        int r;

        if (!strcmp(check->user_data, "-"))
                r = nb_sources_read_stream(STDIN_FILENO, source, NB_USER_DATA_MAX, ret, f);
        else
                r = read_file(&check->sources, source, ret, f);
        if (r < 0)
                return r;
        r = nb_load_local(&check->load, &check->sources, f);
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
        if (load->metadata.user_data.what[0])
                nb_check_row(check, NB_CHECK_NOTE, "%s: %zu bytes: %s", source, data.len,
                             load->metadata.user_data.what);
        if (r < 0)
                return r;
        if (!load->has_metadata)
                return nb_failure_set(
                        f, NB_METADATA_NOTHING, 0,
                        "%s has nothing that node-bootstrap itself reads: it is %s%s", source,
                        load->metadata.user_data.what,
                        load->metadata.user_data.hint
                                ? load->metadata.user_data.hint
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
