/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "files/handoff.h"
#include "join/load.h"
#include "join/main.h"
#include "join/retry.h"
#include "join/stages.h"
#include "net/http.h"
#include "system/clock.h"
#include "system/log.h"
#include "system/sources.h"
#include "system/stop.h"
#include "system/terminal.h"

#define ATTESTATION_KEY_MAX ((size_t)16 * 1024)

/* The inputs of `join`. */
struct given {
        struct nb_sources sources;
        struct nb_load load;
        struct nb_secret attestation_key;
        int state_fd;
        uint64_t started_ms;                /* of the join */
        uint64_t begun_usec, metadata_usec; /* of this process; how long reading metadata took */

        /* The state that install has found on this machine. */
        enum nb_node_state state;
        const char *valid_until; /* of the certificate */
        const char *name;        /* of the node, unless settings or metadata have one; or "" */
        bool has_fallback;       /* the certificate is still usable if joining again fails */
};

static void given_done(struct given *given) {
        nb_sources_done(&given->sources);
        nb_load_done(&given->load);
        nb_secret_done(&given->attestation_key);
        nb_closep(&given->state_fd);
}

/* Removes the handoff of an earlier run, since install would trust it for a certificate that this
 * run did not verify. */
static int forget_handoff(struct given *given, struct nb_failure *f) {
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &given->state_fd, f);
        if (r < 0)
                return r;
        r = nb_state_file_clear(given->state_fd, NB_HANDOFF_FILE, f);
        return r < 0 ? r : nb_state_file_clear(given->state_fd, NB_METADATA_FILE, f);
}

/* Written before the handoff, which tells install that there is something to install. */
static int leave_metadata(const struct given *given, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        if (!given->load.has_metadata)
                return 0;
        nb_settings_format(&given->load.from_metadata, &text);
        if (text.error < 0)
                return nb_failure_set_memory(f);
        return nb_state_file_write(given->state_fd, NB_METADATA_FILE, &text, f);
}

/* Limits the timeout if there is a fallback, and returns the deadline. */
static uint64_t limit_time(struct given *given) {
        uint64_t *timeout_ms = &given->load.settings.timeout_ms;

        if (given->has_fallback && *timeout_ms > NB_FALLBACK_TIMEOUT_MS)
                *timeout_ms = NB_FALLBACK_TIMEOUT_MS;
        return *timeout_ms == NB_TIME_INFINITE ? NB_TIME_INFINITE : given->started_ms + *timeout_ms;
}

static int run_stages(struct given *given, const char *node_name, struct nb_failure *f) {
        const struct nb_load *load = &given->load;
        const struct nb_identity *identity = &load->bootstrap.identity;
        _cleanup_(nb_join_done) struct nb_join join = {
                .settings = &load->settings,
                .bootstrap = &load->bootstrap,
                .node_name = node_name,
                .is_name_own = given->state == NB_NODE_STATE_NOT_ROTATABLE ||
                               given->state == NB_NODE_STATE_WITHOUT_KUBECONFIG,
                .metadata = load->has_metadata ? load->provider : NB_PROVIDER_NONE,
                .attestation_key = &given->attestation_key,
                .state_fd = given->state_fd,
                .deadline_ms = limit_time(given),
                .usec = { [NB_STAGE_METADATA] = given->metadata_usec,
                          [NB_STAGE_PREPARE] = nb_now_usec() - given->begun_usec -
                                               given->metadata_usec },
        };
        uint64_t duration_ms;
        int r;

        r = nb_load_verify(load, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_TOKEN_ID, "%s",
                     identity->token_id[0] ? identity->token_id : load->bootstrap.token.token_id);
        nb_log_field(NB_FIELD_TOKEN_SOURCE, "%s", identity->source);
        r = leave_metadata(given, f);
        if (r < 0)
                return r;
        r = nb_join_run(&join, f);
        if (r < 0)
                return r;
        duration_ms = nb_now_ms() - given->started_ms;
        nb_log_field(NB_FIELD_STAGE, NULL);
        nb_log_field(NB_FIELD_DURATION_USEC, "%" PRIu64, duration_ms * 1000);
        nb_log(LOG_INFO, NB_JOINED, "node '%s' has its certificate from the cluster at %s",
               node_name, join.endpoint);
        nb_log_status("Certificate issued; installing it");
        return 0;
}

static int load_settings(const char *config_directory, struct given *given, struct nb_failure *f) {
        int r, forgotten;

        nb_sources_init(&given->sources, config_directory);
        r = nb_sources_receive(&given->sources, f);
        if (r >= 0)
                r = nb_load_settings(&given->load, &given->sources, f);
        /* Even if the settings cannot be loaded: the installer would accept the handoff. */
        forgotten = forget_handoff(given, f);
        return r < 0 ? r : forgotten;
}

static int read_metadata(struct given *given, struct nb_failure *f) {
        struct nb_load *load = &given->load;
        uint64_t deadline_ms = limit_time(given), begin_usec = nb_now_usec();
        int r;

        r = load->is_metadata_wanted ? nb_load_recognise(load, f) : 0;
        if (r >= 0) {
                r = nb_load_metadata(load, deadline_ms, false, f);
                nb_retry_given_up(deadline_ms, deadline_ms - given->started_ms, "timeout", f);
        }
        if (load->provider != NB_PROVIDER_NONE)
                given->metadata_usec = nb_now_usec() - begin_usec;
        nb_sources_done(&given->sources);
        nb_load_report_metadata(load);
        return r;
}

struct naming {
        const struct given *given;
        char name[NB_NODE_NAME_MAX + 1];
};

static int find_name(void *userdata, struct nb_failure *f) {
        struct naming *naming = userdata;

        return nb_load_node_name(&naming->given->load.settings, naming->given->name, naming->name,
                                 f);
}

/* A host name from DHCP may be set later in the boot. */
static int await_name(struct given *given, char ret_name[static NB_NODE_NAME_MAX + 1],
                      struct nb_failure *f) {
        struct naming naming = { .given = given };
        uint64_t deadline_ms = limit_time(given);
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, deadline_ms },
                                      .attempt = find_name,
                                      .userdata = &naming,
                                      .waiting_since = &since };
        int r = nb_retry_run(&loop, f);

        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        if (r >= 0)
                memcpy(ret_name, naming.name, sizeof(naming.name));
        else
                nb_retry_given_up(deadline_ms, deadline_ms - given->started_ms, "timeout", f);
        return r;
}

static void report_ignored(const char *ignored) {
        if (ignored[0])
                nb_log(LOG_NOTICE, NB_KEYS_IGNORED,
                       "keys that are for other phases of kubeadm join are ignored: %s", ignored);
}

static int join_given(struct given *given, struct nb_failure *f) {
        struct nb_settings *settings = &given->load.settings;
        char node_name[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_load_bootstrap(&given->load, f);
        if (r < 0)
                return r;
        r = nb_sources_credential(&given->sources, NB_CREDENTIAL_ATTESTATION_KEY_NAME,
                                  ATTESTATION_KEY_MAX, &given->attestation_key, f);
        if (r < 0 && r != -ENOENT)
                return r;
        given->started_ms = nb_now_ms();
        r = read_metadata(given, f);
        if (r < 0)
                return r;
        r = await_name(given, node_name, f);
        if (r < 0)
                return r;
        report_ignored(settings->ignored);
        report_ignored(given->load.from_metadata.ignored);
        nb_log_field(NB_FIELD_NODE, "%s", node_name);
        return run_stages(given, node_name, f);
}

int nb_command_join(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(given_done) struct given given = { .load = NB_LOAD_INIT,
                                                     .attestation_key = NB_SECRET_INIT,
                                                     .state_fd = -1,
                                                     .begun_usec = nb_now_usec(),
                                                     .valid_until = "",
                                                     .name = "" };
        const char *previous = nb_node_state_name(NB_NODE_STATE_ABSENT);
        bool has_config = false;
        const struct nb_option rows[] = {
                { "previous", "STATE", .ret_value = &previous },
                { "valid-until", "TIME", .ret_value = &given.valid_until },
                { "name", "NAME", .ret_value = &given.name },
                { "kubelet-config-exists", NULL, .ret_switch = &has_config },
                { NULL },
        };
        struct nb_failure ignored = { 0 };
        int r, started;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        if (nb_node_state_parse(previous, &given.state) < 0)
                return nb_failure_set(f, NB_USAGE, 0, "'--previous' has an unknown value");
        given.has_fallback = nb_node_state_has_fallback(given.state);
        r = nb_stop_init();
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot wait for signals: %m");
        (void)nb_terminal_line_begin(STDERR_FILENO);
        started = nb_http_begin(false, f);
        r = load_settings(options->config_directory, &given, started < 0 ? &ignored : f);
        if (started < 0)
                r = started;
        /* Only root can see the file, which is never replaced. */
        if (has_config)
                given.load.settings.is_config_from_cluster = false;
        if (r >= 0) {
                nb_http_report_landlock();
                r = join_given(&given, f);
        }
        nb_http_end();
        nb_terminal_line_end();
        if (r >= 0)
                return 0;
        if (r == -ECANCELED && f->code == NB_NONE) {
                nb_log(LOG_NOTICE, NB_STOPPED, "stopped before this machine had joined");
                nb_log_status("Stopped before this machine had joined");
                return NB_EXIT_STOPPED;
        }
        if (!given.has_fallback) {
                nb_log_status_of(f, 0, "Not joined (%s): %s", nb_failure_info(f->code)->slug,
                                 f->detail);
                return r;
        }
        nb_log_failure(LOG_WARNING, f);
        nb_log(LOG_WARNING, NB_PREVIOUS_KEPT,
               "joining again failed; keeping the existing certificate, which is valid until %s",
               given.valid_until);
        nb_log_status_of(f, 0, "Already joined; joining again failed: %s", f->detail);
        return 0;
}
