/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/macro.h"
#include "http/http.h"
#include "join/load.h"
#include "join/main.h"
#include "join/retry.h"
#include "join/stages.h"
#include "join_method/plan.h"
#include "os/clock.h"
#include "os/sources.h"
#include "os/stop.h"
#include "prover/prover.h"
#include "state_files/found_metadata.h"
#include "state_files/handoff.h"
#include "systemd/log.h"

/* The inputs of `join`. */
struct given {
        struct nb_sources sources;
        struct nb_plan plan;
        struct nb_load load;
        int state_fd;
        uint64_t begun_usec; /* of this process */
};

static void given_done(struct given *given) {
        nb_sources_done(&given->sources);
        nb_load_done(&given->load);
        nb_closep(&given->state_fd);
}

/* Removes the handoff of an earlier run, since install would trust it for a certificate that this
 * run did not verify. */
static int forget_handoff(struct given *given, struct nb_failure *f) {
        int r;

        r = nb_sources_folder("STATE_DIRECTORY", &given->state_fd, f);
        return r < 0 ? r : nb_state_file_clear(given->state_fd, NB_HANDOFF_FILE, f);
}

static uint64_t timeout_ms(const struct given *given) {
        return given->load.settings.timeout_ms;
}

static uint64_t deadline_ms(const struct given *given) {
        return timeout_ms(given) == NB_TIME_INFINITE ? NB_TIME_INFINITE
                                                     : given->plan.started_ms + timeout_ms(given);
}

static int run_stages(struct given *given, const char *node_name, struct nb_failure *f) {
        const struct nb_load *load = &given->load;
        const struct nb_identity *identity = &load->bootstrap.identity;
        _cleanup_(nb_join_done) struct nb_join join = {
                .settings = &load->settings,
                .bootstrap = &load->bootstrap,
                .node_name = node_name,
                .is_name_own = given->plan.state == NB_NODE_STATE_NOT_ROTATABLE ||
                               given->plan.state == NB_NODE_STATE_WITHOUT_KUBECONFIG,
                .proof_channel = load->settings.proof_key[0] ? NB_PROVER_CHANNEL_FD : 0,
                .state_fd = given->state_fd,
                .deadline_ms = deadline_ms(given),
                .usec = { [NB_STAGE_METADATA] = given->plan.metadata_usec,
                          [NB_STAGE_PREPARE] = nb_now_usec() - given->begun_usec },
        };
        uint64_t duration_ms;
        int r;

        r = nb_load_verify(load, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_TOKEN_ID, "%s",
                     identity->token_id[0] ? identity->token_id : load->bootstrap.token.token_id);
        nb_log_field(NB_FIELD_TOKEN_SOURCE, "%s", identity->source);
        r = nb_join_run(&join, f);
        if (r < 0)
                return r;
        duration_ms = nb_now_ms() - given->plan.started_ms;
        nb_log_field(NB_FIELD_STAGE, NULL);
        nb_log_field(NB_FIELD_DURATION_USEC, "%" PRIu64, duration_ms * 1000);
        nb_log(LOG_INFO, NB_JOINED, "node '%s' has its certificate from the cluster at %s",
               node_name, join.endpoint);
        nb_log_status("Certificate issued; installing it");
        return 0;
}

static int take_plan(const char *config_directory, bool is_metadata, struct given *given,
                     struct nb_failure *f) {
        struct nb_load *load = &given->load;
        int r, forgotten;

        nb_sources_init(&given->sources, config_directory);
        load->sources = &given->sources;
        r = nb_plan_take(&given->sources, &given->plan, &load->tokens, f);
        if (r >= 0)
                load->settings = given->plan.settings;
        if (is_metadata)
                return r;
        /* Even without a plan: the installer would accept the handoff. */
        forgotten = forget_handoff(given, f);
        return r < 0 ? r : forgotten;
}

/* --- Metadata --- */

/* Install decides. */
static int ask_install(const struct nb_load *load, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        struct nb_found found = { .provider = load->has_metadata ? load->provider
                                                                 : NB_PROVIDER_NONE,
                                  .tokens = load->tokens };
        int r;

        nb_settings_format(&load->from_metadata, &text);
        if (text.error < 0)
                return nb_failure_set_memory(f);
        found.document = (struct nb_secret){ .data = text.data, .len = text.len };
        r = nb_found_send(NB_FOUND_FD, &found);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot pass metadata to install: %m");
        return nb_found_await_answer(NB_FOUND_FD, f);
}

static void report_ignored(const char *ignored) {
        if (ignored[0])
                nb_log(LOG_NOTICE, NB_KEYS_IGNORED,
                       "keys that are for other phases of kubeadm join are ignored: %s", ignored);
}

static int read_metadata(struct given *given, struct nb_failure *f) {
        struct nb_load *load = &given->load;
        int r;

        load->is_metadata_wanted = true;
        r = nb_load_recognise(load, f);
        if (r < 0)
                return r;
        r = nb_load_metadata(load, deadline_ms(given), ask_install, f);
        nb_retry_given_up(deadline_ms(given), timeout_ms(given), "timeout", f);
        nb_load_report_metadata(load);
        if (r >= 0)
                report_ignored(load->from_metadata.ignored);
        return r;
}

/* --- The join --- */

struct naming {
        const struct given *given;
        char name[NB_NODE_NAME_MAX + 1];
};

static int find_name(void *userdata, struct nb_failure *f) {
        struct naming *naming = userdata;

        return nb_load_node_name(&naming->given->load.settings, naming->given->plan.name,
                                 naming->name, f);
}

/* A host name from DHCP may be set later in the boot. */
static int await_name(struct given *given, char ret_name[static NB_NODE_NAME_MAX + 1],
                      struct nb_failure *f) {
        struct naming naming = { .given = given };
        int r = nb_retry_until(NB_RETRY_STAGE, deadline_ms(given), find_name, &naming, f);

        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        if (r >= 0)
                memcpy(ret_name, naming.name, sizeof(naming.name));
        else
                nb_retry_given_up(deadline_ms(given), timeout_ms(given), "timeout", f);
        return r;
}

static int join_given(struct given *given, struct nb_failure *f) {
        struct nb_settings *settings = &given->load.settings;
        char node_name[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_load_bootstrap(&given->load, f);
        if (r < 0)
                return r;
        nb_sources_done(&given->sources);
        r = await_name(given, node_name, f);
        if (r < 0)
                return r;
        report_ignored(settings->ignored);
        nb_log_field(NB_FIELD_NODE, "%s", node_name);
        return run_stages(given, node_name, f);
}

int nb_command_join(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(given_done) struct given given = { .load = NB_LOAD_INIT,
                                                     .state_fd = -1,
                                                     .begun_usec = nb_now_usec(),
                                                     .plan = { .state = NB_NODE_STATE_ABSENT } };
        bool is_metadata = false;
        const struct nb_option rows[] = {
                { "metadata", NULL, .ret_switch = &is_metadata },
                { NULL },
        };
        struct nb_failure ignored = { 0 };
        int r, started;

        r = nb_options_read(options, rows, f);
        if (r < 0)
                return r;
        r = nb_stop_init();
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot wait for signals: %m");
        started = nb_http_begin(false, f);
        r = take_plan(options->config_directory, is_metadata, &given, started < 0 ? &ignored : f);
        if (started < 0)
                r = started;
        if (r >= 0) {
                nb_http_report_landlock();
                r = is_metadata ? read_metadata(&given, f) : join_given(&given, f);
        }
        nb_http_end();
        if (r >= 0)
                return 0;
        if (r == -ECANCELED && f->code == NB_NONE) {
                nb_log(LOG_NOTICE, NB_STOPPED, "stopped before this machine had joined");
                nb_log_status("Stopped before this machine had joined");
                return NB_EXIT_STOPPED;
        }
        if (!nb_node_state_has_fallback(given.plan.state)) {
                nb_log_status_of(f, 0, "Not joined (%s): %s", nb_failure_info(f->code)->slug,
                                 f->detail);
                return r;
        }
        nb_log_failure(LOG_WARNING, f);
        nb_log(LOG_WARNING, NB_PREVIOUS_KEPT,
               "joining again failed; keeping the existing certificate, which is valid until %s",
               given.plan.valid_until);
        nb_log_status_of(f, 0, "Already joined; joining again failed: %s", f->detail);
        return 0;
}
