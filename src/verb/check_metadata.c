/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "bootstrap/documents.h"
#include "format/settings_text.h"
#include "stage/metadata.h"
#include "verb/check_internal.h"

#define PATIENCE_MS 15000 /* a person waits */

static const char *const labels[] = { "cidata", "CIDATA", "config-2", "CONFIG-2" };

/* Which cloud this is, also where nobody would ask it. */
static int recognise(struct nb_check *check, struct nb_failure *f) {
        struct nb_load *load = &check->load;
        int r;

        if (load->is_metadata_wanted)
                return nb_load_recognise(load, f);
        r = nb_machine_read(&load->machine, f);
        if (r >= 0)
                nb_recognise(&load->machine, &load->recognition);
        return r;
}

static void print_recognition(const struct nb_check *check) {
        const struct nb_load *load = &check->load;
        const struct nb_recognition *recognition = &load->recognition;

        if (recognition->provider == NB_PROVIDER_NONE)
                nb_check_row(check, NB_CHECK_NOTE, "no cloud is recognised: %s", recognition->why);
        else
                nb_check_row(check, NB_CHECK_NOTE, "recognised: %s, since %s", nb_provider_title(recognition->provider), recognition->why);
        if (load->settings.metadata_provider > NB_PROVIDER_AUTO)
                nb_check_row(check, NB_CHECK_NOTE, "by the settings: %s (%s)", nb_provider_title(load->settings.metadata_provider),
                             load->settings.origin[NB_SETTING_METADATA_PROVIDER]);
}

/* Whose data is that unit's to read; the platforms are those of its conditions. */
static const char *platform_of(const struct nb_load *load) {
        enum nb_provider provider = load->provider == NB_PROVIDER_NONE ? load->recognition.provider : load->provider;
        char path[64];

        for (size_t i = 0; i < N_ELEMENTS(labels); i++) {
                (void)snprintf(path, sizeof(path), "/dev/disk/by-label/%s", labels[i]);
                if (access(path, F_OK) == 0)
                        return labels[i];
        }
        if (provider == NB_PROVIDER_NOCLOUD || provider == NB_PROVIDER_VMWARE)
                return nb_provider_title(provider);
        return provider == NB_PROVIDER_NONE && strncmp(load->machine.dmi.sys_vendor, "VMware", strlen("VMware")) == 0 ? nb_provider_title(NB_PROVIDER_VMWARE) : NULL;
}

/* What recognition goes by, and is not to be seen here. */
static void print_hidden(struct nb_check *check) {
        const char *platform = platform_of(&check->load);
        int r = access(NB_PLATFORM_NOTE, R_OK) == 0 ? 0 : -errno;

        if (r == 0 || !check->load.is_metadata_wanted)
                return;
        if (r == -EACCES)
                nb_check_row(check, NB_CHECK_DOUBT, NB_PLATFORM_NOTE " cannot be read by this user: run as root");
        else if (platform)
                nb_check_row(check, NB_CHECK_DOUBT, "node-bootstrap-platform.service has not run, which reads what %s holds: run `systemctl start node-bootstrap-platform.service`, and look again",
                             platform);
        else
                return;
        check->is_platform_hidden = true;
}

/* What would be asked is those files. */
static bool is_hidden(const struct nb_check *check) {
        enum nb_provider provider = check->load.provider;

        return check->is_platform_hidden && (provider == NB_PROVIDER_NOCLOUD || provider == NB_PROVIDER_VMWARE);
}

static void print_unwanted(const struct nb_check *check) {
        const struct nb_load *load = &check->load;

        if (load->bootstrap.identity.kind == NB_IDENTITY_NONE)
                nb_check_row(check, NB_CHECK_NOTE, "not asked: metadata.provider is none (%s)", load->settings.origin[NB_SETTING_METADATA_PROVIDER]);
        else
                nb_check_row(check, NB_CHECK_NOTE, "not asked: %s gives the identity", load->bootstrap.identity.source);
}

static void print_tokens(const struct nb_check *check) {
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;
        const struct nb_identity *identity = &bootstrap->identity;
        bool are_two = bootstrap->token.value.data && strcmp(bootstrap->token.id, identity->token_id) != 0;

        if (are_two)
                nb_check_row(check, NB_CHECK_GOOD, "token for discovery: %s." NB_CHECK_HIDDEN, bootstrap->token.id);
        if (identity->kind != NB_IDENTITY_NONE)
                nb_check_row(check, NB_CHECK_GOOD, "token%s: %s%s" NB_CHECK_HIDDEN " (%s)", are_two ? " for the request" : "", identity->token_id,
                             identity->token_id[0] ? "." : "", identity->source);
}

static int print_values(const struct nb_check *check) {
        const struct nb_load *load = &check->load;
        int r = 0;

        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++) {
                enum nb_setting setting = (enum nb_setting)i;
                const char *origin = load->from_metadata.origin[i], *instead = NULL;

                /* It has been taken out; print_tokens() tells of it. */
                if (setting == NB_SETTING_BOOTSTRAP_TOKEN)
                        continue;
                /* Where the machine says which cluster it belongs to, some do not count though no document has them. */
                if (!nb_setting_is_from(&load->settings, setting, origin))
                        instead = nb_setting_is_set(&load->settings, setting) ? load->settings.origin[i] : "what this machine has of the cluster";
                if (nb_setting_is_set(&load->from_metadata, setting))
                        r = nb_check_print_setting(check, &load->from_metadata, setting, instead);
        }
        if (load->from_metadata.ignored[0])
                nb_check_row(check, NB_CHECK_NOTE, "ignored: %s", load->from_metadata.ignored);
        return r;
}

int nb_check_print_given(const struct nb_check *check, struct nb_failure *f) {
        print_tokens(check);
        return print_values(check) < 0 ? nb_failure_set_memory(f) : 0;
}

static int print_found(const struct nb_check *check, struct nb_failure *f) {
        const struct nb_load *load = &check->load;
        const struct nb_metadata *metadata = &load->metadata;
        char text[NB_FAILURE_DETAIL_MAX];

        if (!load->has_metadata) {
                nb_load_describe(load, text, sizeof(text));
                nb_check_row(check, metadata->user_data.near_miss[0] ? NB_CHECK_DOUBT : NB_CHECK_NOTE, "%s", text);
                return 0;
        }
        if (metadata->user_data_source[0])
                nb_check_row(check, NB_CHECK_NOTE, "%s: %s", metadata->user_data_source, metadata->user_data.what);
        if (metadata->user_data.near_miss[0])
                nb_check_row(check, NB_CHECK_DOUBT, "%s is passed over: %s", metadata->user_data_source, metadata->user_data.near_miss);
        return nb_check_print_given(check, f);
}

static int read_metadata(struct nb_check *check, struct nb_failure *f) {
        uint64_t timeout_ms = check->load.settings.timeout_ms, patience_ms = timeout_ms < PATIENCE_MS ? timeout_ms : PATIENCE_MS;
        uint64_t deadline_ms = nb_now_ms() + patience_ms;
        int r;

        nb_check_row(check, NB_CHECK_NOTE, "asking %s", nb_provider_title(check->load.provider));
        (void)fflush(stdout);
        r = nb_load_metadata(&check->load, deadline_ms, f);
        if (r >= 0)
                return print_found(check, f);
        nb_metadata_add_limit(deadline_ms, patience_ms, patience_ms == timeout_ms ? "timeout" : "the limit of check, not the setting timeout", f);
        return r;
}

int nb_check_metadata(struct nb_check *check, struct nb_failure *f) {
        const struct nb_load *load = &check->load;
        int r;

        r = recognise(check, f);
        if (r < 0)
                return r;
        print_recognition(check);
        print_hidden(check);
        if (!load->is_metadata_wanted)
                print_unwanted(check);
        else if (nb_check_has_sealed_identity(check))
                nb_check_row(check, NB_CHECK_NOTE, "not asked: a credential that only the service gets gives the identity");
        else if (load->provider == NB_PROVIDER_NONE || is_hidden(check))
                nb_check_row(check, NB_CHECK_NOTE, "not asked");
        else
                return read_metadata(check, f);
        return 0;
}
