/* SPDX-License-Identifier: Apache-2.0 */
/*
 * install: the root side of the join, and the only command of node-bootstrap.service. It inspects
 * this machine and finishes an installation that a crash interrupted. If this machine has not
 * joined, it runs `node-bootstrap join` as the user of the service (install/child.h), verifies the
 * handoff, and writes kubelet's files. With --refresh it does the same for
 * `node-bootstrap refresh`, and if only kubelet's configuration is missing, for
 * `node-bootstrap refresh --kubelet-config`. With --gate it is node-bootstrap-gate.service
 * (install/gate.h).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "files/handoff.h"
#include "files/refresh_settings.h"
#include "install/alone.h"
#include "install/child.h"
#include "install/gate.h"
#include "install/install.h"
#include "install/refresh_install.h"
#include "install/remove_join.h"
#include "install/state_directory.h"
#include "node/context.h"
#include "node/present.h"
#include "system/clock.h"
#include "system/lock.h"
#include "system/log.h"
#include "system/options.h"
#include "system/sources.h"
#include "system/stop.h"

struct arguments {
        bool is_refresh;
        bool is_reset;
        bool is_reload;
        bool is_gate;
        const char *program; /* of the child; "": none is run, for tests */
        const char *root;
        int root_fd; /* -1 without */
        struct nb_sources *sources;
        struct nb_teller *teller; /* NULL: not the start of the service */
};

static const char usage[] = "install [OPTION...]\n\n"
                            "Run by node-bootstrap.service as root. Do not run it yourself.\n";

#define SYSTEMD_STATUS_MIN \
        200 /* exit statuses from here on are those of systemd (systemd.exec(5)) */

/* Before the child and after it. */
enum step { BEGIN, END };

/* Returns like run_step(). Needs no settings and no credential: these may be damaged or missing by
 * now. */
__attribute__((noinline)) static int run_refresh(const struct arguments *arguments, enum step step,
                                                 struct nb_failure *f) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_context context = { .root_fd = arguments->root_fd,
                                      .now = time(NULL),
                                      .sources = arguments->sources };
        int r;

        r = nb_node_inspect_disk(arguments->root_fd, &node, f);
        nb_settings_init(&context.settings);
        nb_kubelet_paths_set(&node.paths, &context.settings);
        memcpy(context.node_name, node.inspection.node, sizeof(context.node_name));
        nb_log_field(NB_FIELD_NODE, "%s", context.node_name);
        nb_refresh_settings_recall(&node.present.record, &context.settings);
        /* systemd sets the variable if the timer has started the unit (systemd.exec(5)). */
        if (r >= 0 && step == BEGIN && getenv("TRIGGER_UNIT") && !nb_refresh_is_due(&context))
                return 0;
        if (r >= 0)
                r = step == BEGIN ? nb_refresh_begin(&context, &node, f)
                                  : nb_refresh_install(&context, &node, f);
        if (r < 0 && (f->code == NB_REFRESH_INAPPLICABLE || f->code == NB_TARGET_NOT_KUBECONFIG)) {
                nb_log(LOG_INFO, NB_REFRESH_INAPPLICABLE, "nothing to refresh: %s", f->detail);
                nb_log_status("Nothing to refresh: %s", f->detail);
                r = 0;
        }
        if (r == 0)
                nb_refresh_remember(&context);
        return r;
}

__attribute__((noinline)) static int run_reset(const struct arguments *arguments,
                                               struct nb_failure *f) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        struct nb_record record;
        int r;

        r = nb_context_find_join(&context, arguments->root_fd, arguments->sources, &record, f);
        if (r < 0)
                return r;
        if (r > 0)
                nb_log_field(NB_FIELD_NODE, "%s", record.node);
        return nb_remove_join(&context, r > 0 ? &record : NULL, f);
}

__attribute__((noinline)) static bool is_kept(int root_fd) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_failure ignored = { 0 };

        return nb_node_inspect_disk(root_fd, &node, &ignored) >= 0 &&
               nb_inspection_is_kept(&node.inspection);
}

/* A machine that has not joined waits for a file that the settings name, even if its file system
 * hangs. */
static int load_context(const struct arguments *arguments, struct nb_context *context,
                        struct nb_failure *f) {
        int r = nb_context_load(context, arguments->root_fd, arguments->sources, f);

        if (r < 0 || context->bootstrap_failure.errnum != ETIMEDOUT || is_kept(arguments->root_fd))
                return r;
        nb_context_done(context);
        nb_sources_done(arguments->sources);
        arguments->sources->is_keeping = arguments->sources->is_patient = true;
        return nb_context_load(context, arguments->root_fd, arguments->sources, f);
}

/* Returns 1 if the caller must run the child and then the next step; 0 if nothing is left to do. */
static int run_step(const struct arguments *arguments, enum step step,
                    struct nb_inspection *inspection, struct nb_failure *f) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        int r;

        /* Reset runs in a shell, not in the service, which has been stopped. */
        if (arguments->is_reset)
                return run_reset(arguments, f);
        if (!arguments->root) {
                r = nb_alone_verify(f);
                if (r < 0)
                        return r;
        }
        if (arguments->is_refresh)
                return run_refresh(arguments, step, f);
        r = load_context(arguments, &context, f);
        if (r < 0)
                return r;
        r = step == BEGIN
                    ? nb_install_begin(&context, arguments->program[0] && !arguments->is_reload,
                                       inspection, f)
                    : nb_install_end(&context, inspection, f);
        if (r == 0)
                nb_refresh_set_automatic(&context);
        return r;
}

/* A process that could not be killed would keep running in an active service. Looks again, since
 * the failure may have another cause, such as the lock. */
static bool is_process_left(const struct arguments *arguments, enum step step) {
        struct nb_failure f = { 0 };

        return step == END && !arguments->root && nb_alone_verify(&f) < 0 &&
               (f.errnum == EEXIST || f.errnum == ENOTEMPTY);
}

/* If kubelet can start with the existing files, the failure is only a warning. `before` is the
 * state before the join, which the settings may have required. */
static bool is_joined_anyway(const struct arguments *arguments, enum step step,
                             enum nb_node_state before, const struct nb_failure *f) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        const struct nb_inspection *inspection = &node.inspection;
        struct nb_failure ignored = { 0 };

        if (arguments->is_refresh || arguments->is_reset || is_process_left(arguments, step) ||
            nb_node_inspect_disk(arguments->root_fd, &node, &ignored) < 0 ||
            !nb_inspection_is_kept(inspection))
                return false;
        nb_log_field(NB_FIELD_NODE, "%s", inspection->node);
        nb_log_failure(LOG_WARNING, f);
        nb_tell(arguments->teller, NB_LAST_KEPT, f);
        if (nb_node_state_has_fallback(before)) {
                nb_log(LOG_WARNING, NB_PREVIOUS_KEPT,
                       "joining again failed; keeping the existing certificate, which is valid "
                       "until %s",
                       inspection->not_after);
                nb_log_status("Already joined; joining again failed: %s", f->detail);
                return true;
        }
        nb_log(LOG_WARNING, NB_JOINED_ANYWAY, "node '%s' has joined, so kubelet can start: %s",
               inspection->node, inspection->detail);
        nb_log_status("Joined; ignored %s: %s", nb_failure_info(f->code)->slug, f->detail);
        return true;
}

/* The lock is not held while the child runs, which may take days, so the second step inspects the
 * machine again. */
static int run_locked(const struct arguments *arguments, enum step step,
                      struct nb_inspection *inspection, struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        int r;

        nb_log_field(NB_FIELD_STAGE, "%s",
                     arguments->is_refresh ? "refresh"
                     : arguments->is_reset ? "reset"
                     : step == BEGIN       ? "inspect"
                                           : "install");
        r = nb_lock_take(arguments->root, &lock_fd, f);
        if (r >= 0)
                r = run_step(arguments, step, inspection, f);
        if (r == 0)
                nb_tell(arguments->teller, inspection->is_installed ? NB_LAST_JOINED : NB_LAST_KEPT,
                        NULL);
        return r < 0 && is_joined_anyway(arguments, step, inspection->state, f) ? 0 : r;
}

struct naming {
        int root_fd;
        struct nb_inspection *inspection;
};

/* Without a host name, `join` waits for one, and cannot be trusted to report which it used. Takes
 * the first one, as `join` does: it may change once more before the certificate is issued. */
static void settle_name(void *userdata) {
        const struct naming *naming = userdata;
        struct nb_inspection *inspection = naming->inspection;
        struct nb_failure ignored = { 0 };
        char host[HOST_NAME_MAX + 1];

        if (!inspection->name[0] && nb_sources_host_name(host, &ignored) >= 0 &&
            nb_host_name_is_set(naming->root_fd, host))
                (void)nb_node_name_parse(host, strlen(host), inspection->name);
}

/* The user of the service owns its state directory. */
static int run_child(const struct arguments *arguments, struct nb_inspection *inspection,
                     struct nb_child_end *ret_end, struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        char directory[PATH_MAX + 32], until[64], previous[64], name[NB_NODE_NAME_MAX + 16];
        const char *const join[] = {
                arguments->program,
                "join",
                directory,
                previous,
                until,
                name,
                nb_config_exists(arguments->root_fd) ? "--kubelet-config-exists" : NULL,
                NULL,
        };
        const char *const refresh[] = { arguments->program, "refresh", directory, NULL };
        const char *const config[] = { arguments->program, "refresh", directory, "--kubelet-config",
                                       NULL };
        struct naming naming = { arguments->root_fd, inspection };
        struct nb_child child = { .argv = arguments->is_refresh                        ? refresh
                                          : nb_node_state_is_joined(inspection->state) ? config
                                                                                       : join,
                                  .state = &state,
                                  .is_service = !arguments->root,
                                  .timeout_ms = inspection->timeout_ms,
                                  .teller = arguments->teller,
                                  .on_status = settle_name,
                                  .userdata = &naming };
        int r;

        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        /* Only tests run a child with --root. */
        if (state.owner == 0 && !arguments->root)
                return nb_failure_set(f, NB_INTERNAL, EPERM,
                                      "$STATE_DIRECTORY belongs to root; expected the user of the "
                                      "service (DynamicUser=)");
        r = nb_sources_pass(arguments->sources, &child.sources_fd);
        if (r == -E2BIG)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                      "the settings and the files that they name are larger than "
                                      "%d MiB in total",
                                      NB_SOURCES_MAX >> 20);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r,
                                      "cannot pass settings to the network side: %m");
        /* The child may run for days, so the second step reads the sources again, once. */
        nb_sources_done(arguments->sources);
        arguments->sources->is_keeping = true;
        /* nb_confine() permits no other process. */
        arguments->sources->is_patient = true;
        snprintf(directory, sizeof(directory), "--config-directory=%s",
                 arguments->sources->config_directory);
        snprintf(previous, sizeof(previous), "--previous=%s",
                 nb_node_state_name(inspection->state));
        snprintf(until, sizeof(until), "--valid-until=%s", inspection->not_after);
        snprintf(name, sizeof(name), "--name=%s", inspection->name);
        return nb_child_run(&child, ret_end, f);
}

/* A join that has crashed, or that an attacker ends, must not keep kubelet down if there is a
 * usable certificate. */
static bool is_joined_without(const struct arguments *arguments, enum nb_node_state before,
                              const struct nb_child_end *end) {
        struct nb_failure f = { 0 };

        (void)nb_failure_set(&f, NB_INTERNAL, ECHILD, "join %s %d",
                             end->signal > 0 ? "was killed by signal" : "ended with exit status",
                             end->signal > 0 ? end->signal : end->status);
        return is_joined_anyway(arguments, END, before, &f);
}

/* Keeps the failure that the join has reported, if there is one. */
static void tell_end(const struct arguments *arguments, bool is_joined,
                     const struct nb_child_end *end) {
        struct nb_failure f = { 0 };

        if (end->status == NB_EXIT_STOPPED && !is_joined)
                (void)nb_failure_set(&f, NB_STOPPED, 0, "stopped before this machine had joined");
        else if (!is_joined && arguments->teller && !arguments->teller->last.code[0])
                (void)nb_failure_set(&f, NB_INTERNAL, 0, "join ended with exit status %d",
                                     end->status);
        nb_tell(arguments->teller, is_joined ? NB_LAST_KEPT : NB_LAST_FAILED,
                f.code == NB_NONE ? NULL : &f);
}

/* Without a failure, *ret_status is the exit status of the service. */
static int run_service(const struct arguments *arguments, int *ret_status, struct nb_failure *f) {
        struct nb_inspection inspection = { .state = NB_NODE_STATE_ABSENT,
                                            .timeout_ms = NB_TIME_INFINITE };
        struct nb_child_end end = { 0 };
        int r;

        r = run_locked(arguments, BEGIN, &inspection, f);
        if (r <= 0)
                return r;
        if (arguments->is_reload)
                return nb_failure_set(f, NB_JOIN_NEEDED, 0, "%s", inspection.detail);
        nb_tell(arguments->teller, NB_LAST_JOINING, NULL);
        if (arguments->program[0]) {
                r = run_child(arguments, &inspection, &end, f);
                if (r < 0)
                        return is_joined_anyway(arguments, END, inspection.state, f) ? 0 : r;
        }
        /* SIGINT arrived before the child could block it. */
        if (end.is_stopped && end.signal == SIGINT)
                end.status = NB_EXIT_STOPPED;
        /* The unit treats NB_EXIT_STOPPED as success. If only the child was stopped (by SIGTERM),
         * the next step inspects the machine. */
        if (end.status != 0 && (end.status != NB_EXIT_STOPPED || end.is_stopped)) {
                if (!end.is_stopped && is_joined_without(arguments, inspection.state, &end))
                        return 0;
                if (end.signal > 0 && !end.is_stopped)
                        nb_child_end_like(end.signal);
                tell_end(arguments, nb_node_state_is_joined(inspection.state), &end);
                /* A hostile child must not pass for systemd. */
                *ret_status = end.status < SYSTEMD_STATUS_MIN
                                      ? end.status
                                      : nb_failure_info(NB_INTERNAL)->exit_status;
                return 0;
        }
        return run_locked(arguments, END, &inspection, f);
}

int main(int argc, char *argv[]) {
        struct arguments arguments = { .program = NB_PROGRAM, .root_fd = -1 };
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
        const struct nb_option rows[] = {
                { "refresh", NULL,
                  "run by node-bootstrap-refresh.service: replace the CA file and the server",
                  .ret_switch = &arguments.is_refresh },
                { "reset", NULL, "run by node-bootstrap reset: remove what the last join wrote",
                  .ret_switch = &arguments.is_reset },
                { "reload", NULL,
                  "run by systemctl reload: write lost files of the join again; joins nothing",
                  .ret_switch = &arguments.is_reload },
                { "gate", NULL, "run by node-bootstrap-gate.service: succeed if kubelet may start",
                  .ret_switch = &arguments.is_gate },
                { "root", "DIR",
                  "write below DIR, as for an image; paths inside the files omit DIR",
                  .ret_value = &arguments.root },
                { "program", "PATH", "run this instead of " NB_PROGRAM,
                  .ret_value = &arguments.program },
                { NULL },
        };
        _cleanup_(nb_sources_done) struct nb_sources sources = { 0 };
        struct nb_teller teller;
        struct nb_failure f = { 0 };
        int r, status = EXIT_SUCCESS;

        /* The private key passes through this process. */
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)umask(0077);
        nb_log_init("node-bootstrap-install");
        r = nb_options_read(&options, rows, &f);
        if (r == -ECANCELED)
                return EXIT_SUCCESS;
        if (r >= 0) {
                nb_sources_init(&sources, options.config_directory);
                sources.is_keeping = true;
                if (arguments.root)
                        r = nb_folder_open(arguments.root, &arguments.root_fd);
                if (r < 0)
                        (void)nb_failure_set(&f, NB_USAGE, r, "--root=%s: %m", arguments.root);
        }
        if (r >= 0 && arguments.is_gate)
                return nb_gate_run(arguments.root_fd);
        if (r >= 0) {
                arguments.sources = &sources;
                nb_tell_begin(&teller, arguments.root_fd);
                if (!arguments.is_refresh && !arguments.is_reset && !arguments.is_reload)
                        arguments.teller = &teller;
                r = run_service(&arguments, &status, &f);
        }
        if (r >= 0)
                return status;
        nb_tell(arguments.teller, NB_LAST_FAILED, &f);
        nb_log_failure(LOG_ERR, &f);
        nb_log_status("Not %s (%s): %s", arguments.is_refresh ? "refreshed" : "joined",
                      nb_failure_info(f.code)->slug, f.detail);
        return nb_failure_info(f.code)->exit_status;
}
