/* SPDX-License-Identifier: Apache-2.0 */
/*
 * install: the root side of the join, and the only command of node-bootstrap.service. It inspects
 * this machine and finishes an installation that a crash interrupted. If this machine has not
 * joined, it settles the settings, runs `node-bootstrap join` as the user of the service
 * (install/child.h), verifies the handoff, and writes kubelet's files. If the machine has no
 * identity of its own, it runs `node-bootstrap join --metadata` before, which reads metadata. If
 * the machine has joined, now or earlier, and kubelet's configuration is missing, it runs
 * `node-bootstrap refresh --kubelet-config`, and writes that file. With --refresh it does the same
 * for `node-bootstrap refresh`. With --gate it is node-bootstrap-gate.service.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/alone.h"
#include "install/answer.h"
#include "install/child.h"
#include "install/give.h"
#include "install/install.h"
#include "install/refresh_install.h"
#include "install/remove_join.h"
#include "install/state_directory.h"
#include "node_state/context.h"
#include "node_state/present.h"
#include "os/clock.h"
#include "os/options.h"
#include "os/process.h"
#include "os/sources.h"
#include "os/stop.h"
#include "prover/prover.h"
#include "settings/kubelet_unit.h"
#include "state_files/handoff.h"
#include "state_files/lock.h"
#include "state_files/refresh_settings.h"
#include "systemd/log.h"

struct arguments {
        bool is_refresh;
        bool is_reset;
        bool is_reload;
        bool is_gate;
        const char *program; /* of the child; "": none is run, for tests */
        const char *root;
        int root_fd; /* -1 without */
        struct nb_sources *sources;
        bool *is_renewal;         /* set by a refresh that renews the certificate */
        struct nb_teller *teller; /* NULL: not the start of the service */
        struct nb_runner *runner;
};

static const char usage[] = "install [OPTION...]\n\n"
                            "Run by node-bootstrap.service as root. Do not run it yourself.\n";

#define SYSTEMD_STATUS_MIN \
        200 /* exit statuses from here on are those of systemd (systemd.exec(5)) */

#define WAIT_MS 1000 /* other commands get the lock */
/* Then another file system may be in the place of the one that hangs. */
#define LEFT_MS 30000

/* Before the first child, after the one that reads metadata, and after another one. */
enum step { BEGIN, SETTLED, END };

/* Returns 1 if the child must run; 0 if nothing is left to do. Needs no settings and no credential:
 * these may be damaged or missing by now. */
__attribute__((noinline)) static int run_refresh(const struct arguments *arguments, enum step step,
                                                 struct nb_failure *f) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_context context = { .root_fd = arguments->root_fd,
                                      .now = time(NULL),
                                      .sources = arguments->sources,
                                      .is_recalled = true };
        int r;

        r = nb_node_inspect_disk(arguments->root_fd, &node, f);
        nb_settings_init(&context.settings);
        nb_kubelet_paths_set(&node.paths, &context.settings);
        NB_TEXT_COPY(context.node_name, node.inspection.node);
        nb_log_field(NB_FIELD_NODE, "%s", context.node_name);
        nb_refresh_settings_recall(&node.present.record, &context.settings);
        /* systemd sets the variable if the timer has started the unit (systemd.exec(5)). */
        if (r >= 0 && step == BEGIN && getenv("TRIGGER_UNIT") && !nb_refresh_is_due(&context))
                return 0;
        if (r >= 0)
                r = step == BEGIN ? nb_refresh_begin(&context, &node, arguments->is_renewal, f)
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
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
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
               (nb_inspection_is_kept(&node.inspection) ||
                node.inspection.state == NB_NODE_STATE_WITHOUT_KUBECONFIG);
}

/* -ETIMEDOUT if a machine that must join has to wait for its settings, or for a file that they
 * name.
 */
static int load_context(const struct arguments *arguments, struct nb_context *context,
                        struct nb_failure *f) {
        int r = nb_context_load(context, arguments->root_fd, arguments->sources, f);

        if (r < 0 || context->bootstrap_failure.errnum != ETIMEDOUT || is_kept(arguments->root_fd))
                return r;
        return nb_context_verify_bootstrap(context, f);
}

/* Returns the kind of the child that the caller must run before the next step; NB_CHILD_NONE if
 * nothing is left to do. */
static int run_step(const struct arguments *arguments, enum step step, struct nb_install *install,
                    struct nb_failure *f) {
        int r;

        /* Reset runs in a shell, not in the service, which has been stopped. */
        if (arguments->is_reset)
                return run_reset(arguments, f);
        if (!arguments->root) {
                r = nb_alone_verify(arguments->runner->pid, f);
                if (r < 0)
                        return r;
        }
        if (arguments->is_refresh) {
                r = run_refresh(arguments, step, f);
                return r > 0 ? NB_CHILD_REFRESH : r;
        }
        r = step == BEGIN ? load_context(arguments, &install->own, f) : 0;
        if (r >= 0)
                r = nb_state_open(&install->state, f);
        if (r >= 0)
                r = step == BEGIN     ? nb_install_begin(install, f)
                    : step == SETTLED ? nb_install_settled(install, f)
                                      : nb_install_end(install, f);
        nb_node_done(&install->node);
        nb_state_done(&install->state);
        if (r == NB_CHILD_NONE)
                nb_refresh_set_automatic(&install->own);
        return r;
}

/* A process that could not be killed would keep running in an active service. Looks again, since
 * the failure may have another cause, such as the lock. */
static bool is_process_left(const struct arguments *arguments, enum step step) {
        struct nb_failure f = { 0 };

        return step != BEGIN && !arguments->root &&
               nb_alone_verify(arguments->runner->pid, &f) < 0 &&
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

/* Of a machine that has joined. */
static const char *state_of(const struct nb_install *install) {
        return install->is_installed ? NB_LAST_JOINED : NB_LAST_KEPT;
}

/* The lock is not held while a child runs, which may take days, so the last step inspects the
 * machine again. */
static int run_locked(const struct arguments *arguments, enum step step, struct nb_install *install,
                      struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        int r;

        nb_log_field(NB_FIELD_STAGE, "%s",
                     arguments->is_refresh ? "refresh"
                     : arguments->is_reset ? "reset"
                     : step == BEGIN       ? "inspect"
                                           : "install");
        r = nb_lock_take(arguments->root, &lock_fd, f);
        if (r >= 0)
                r = run_step(arguments, step, install, f);
        if (r == 0)
                nb_tell(arguments->teller, state_of(install), NULL);
        return r < 0 && is_joined_anyway(arguments, step, install->node.inspection.state, f) ? 0
                                                                                             : r;
}

/* The user of the service owns its state directory. */
static int begin_runner(const struct arguments *arguments, struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        if (arguments->runner->pid > 0)
                return 0;
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        /* Only tests run a child with --root. */
        if (state.owner == 0 && !arguments->root)
                return nb_failure_set(f, NB_INTERNAL, EPERM,
                                      "$STATE_DIRECTORY belongs to root; expected the user of the "
                                      "service (DynamicUser=)");
        return nb_runner_begin(&state, arguments->program, !arguments->root, arguments->runner, f);
}

/* Metadata is read without the credentials of this machine, which the next child gets. */
static int pass_sources(const struct arguments *arguments, enum nb_child_kind kind,
                        struct nb_install *install, int *ret_fd, struct nb_failure *f) {
        _cleanup_(nb_sources_done) struct nb_sources few = { 0 };
        int r = kind == NB_CHILD_METADATA ? nb_give_for_metadata(install, &few, f) : 0;

        if (r < 0)
                return r;
        r = nb_sources_pass(kind == NB_CHILD_METADATA ? &few : arguments->sources, ret_fd);
        /* The child may run for days. */
        if (kind != NB_CHILD_METADATA) {
                nb_sources_done(arguments->sources);
                nb_context_forget_secrets(&install->own);
                nb_context_forget_secrets(&install->settled);
        }
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r,
                                      "cannot pass settings to the network side: %m")
                     : 0;
}

/* What is left of the time limit, which counts from the first child. */
static uint64_t remaining_ms(const struct nb_install *install) {
        uint64_t passed_ms = nb_now_ms() - install->started_ms;

        if (install->timeout_ms == NB_TIME_INFINITE)
                return NB_TIME_INFINITE;
        return passed_ms < install->timeout_ms ? install->timeout_ms - passed_ms : 0;
}

/* Returns 0 and how the child has ended. */
static int run_child(const struct arguments *arguments, enum nb_child_kind kind,
                     struct nb_install *install, struct nb_child_end *ret_end,
                     struct nb_failure *f) {
        struct nb_child child = { .kind = kind,
                                  .timeout_ms = remaining_ms(install),
                                  .teller = arguments->teller,
                                  .on_status = nb_answer_status,
                                  .userdata = install };
        int r = nb_prover_verify_place(arguments->sources, f);

        if (kind == NB_CHILD_METADATA)
                child.on_message = nb_answer_found;
        else if (kind == NB_CHILD_JOIN && install->context->settings.proof_key[0])
                child.on_message = nb_answer_proof;
        if (r >= 0)
                r = begin_runner(arguments, f);
        if (r >= 0)
                r = pass_sources(arguments, kind, install, &child.sources_fd, f);
        return r < 0 ? r : nb_child_run(arguments->runner, &child, ret_end, f);
}

/* Reports the end of a start. Keeps the failure that the join has reported, if there is one. */
static void tell_end(const struct arguments *arguments, bool is_joined, bool is_stopped,
                     const struct nb_failure *end) {
        struct nb_failure f = { 0 };

        if (is_stopped && !is_joined)
                (void)nb_failure_set(&f, NB_STOPPED, 0, "stopped before this machine had joined");
        else if (!is_joined && arguments->teller && !arguments->teller->last.code[0])
                f = *end;
        nb_tell(arguments->teller, is_joined ? NB_LAST_KEPT : NB_LAST_FAILED,
                f.code == NB_NONE ? NULL : &f);
}

/* Ends this process by a signal, such as the one that has killed the child, so that
 * Restart=on-abnormal applies. */
static void end_like(int signal) {
        sigset_t set;

        sigemptyset(&set);
        sigaddset(&set, signal);
        (void)sigaction(signal, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
        (void)kill(getpid(), signal);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Runs a child. 1: the next step follows; 0: there is none, and *ret_status is the exit status of
 * the service. */
static int run_network(const struct arguments *arguments, int kind, struct nb_install *install,
                       int *ret_status, struct nb_failure *f) {
        enum nb_node_state before = install->node.inspection.state;
        struct nb_child_end end = { 0 };
        struct nb_failure why = { 0 };
        uint64_t usec = nb_now_usec();
        int r;

        if (install->started_ms == 0)
                install->started_ms = nb_now_ms();
        r = arguments->program[0] ? run_child(arguments, kind, install, &end, f) : 0;
        if (kind == NB_CHILD_METADATA)
                install->metadata_usec = nb_now_usec() - usec;
        if (r < 0)
                return is_joined_anyway(arguments, END, before, f) ? 0 : r;
        install->is_stopped = end.is_stopped;
        /* SIGINT arrived before the child could block it. */
        if (end.is_stopped && end.signal == SIGINT)
                end.status = NB_EXIT_STOPPED;
        /* The unit treats NB_EXIT_STOPPED as success. If only the child was stopped (by SIGTERM),
         * the next step inspects the machine. */
        if (end.status == 0 || (!end.is_stopped && (end.is_done || end.status == NB_EXIT_STOPPED)))
                return 1;
        (void)nb_failure_set(&why, NB_INTERNAL, ECHILD, "join %s %d",
                             end.signal > 0 ? "was killed by signal" : "ended with exit status",
                             end.signal > 0 ? end.signal : end.status);
        /* A join that has crashed, or that an attacker ends, must not keep kubelet down if there is
         * a usable certificate. */
        if (!end.is_stopped && is_joined_anyway(arguments, END, before, &why))
                return 0;
        if (end.status == nb_failure_info(NB_PROGRAM_REPLACED)->exit_status)
                end.signal = SIGHUP;
        if (end.signal > 0 && !end.is_stopped)
                end_like(end.signal);
        tell_end(arguments, nb_node_state_is_joined(before), end.status == NB_EXIT_STOPPED, &why);
        /* A hostile child must not pass for systemd. */
        *ret_status = end.status < SYSTEMD_STATUS_MIN ? end.status
                                                      : nb_failure_info(NB_INTERNAL)->exit_status;
        return 0;
}

static void stop(_unused_ int signal) {
        _exit(NB_EXIT_STOPPED);
}

/* The first step. A machine that must join waits, up to the timeout, for its settings and for a
 * file that they name, if the file system hangs. The lock is free in between. */
static int begin(const struct arguments *arguments, struct nb_install *install,
                 struct nb_failure *f) {
        const char *directory = arguments->sources->config_directory;
        uint64_t begun_ms = nb_now_ms(), tried_ms;
        bool is_waiting = false;
        int kind;

        while ((kind = run_locked(arguments, BEGIN, install, f)) == -ETIMEDOUT &&
               install->is_child_run) {
                const uint64_t timeout_ms = install->own.settings.timeout_ms;

                if (nb_now_ms() - begun_ms >= timeout_ms) {
                        nb_failure_add(f, "; gave up at the timeout");
                        break;
                }
                if (!is_waiting) {
                        (void)signal(SIGINT, stop);
                        nb_log_failure(LOG_WARNING, f);
                        nb_tell(arguments->teller, NB_LAST_JOINING, f);
                }
                is_waiting = true;
                nb_log_status("Waiting: %s; see 'node-bootstrap explain %s'", f->detail,
                              nb_failure_info(f->code)->slug);
                nb_context_done(&install->own);
                nb_sources_done(arguments->sources);
                arguments->sources->is_keeping = true;
                arguments->sources->config_directory = directory;
                nb_failure_clear(f);
                tried_ms = nb_now_ms();
                do
                        (void)poll(NULL, 0, WAIT_MS);
                while (nb_process_count_left() > 0 && nb_now_ms() - tried_ms < LEFT_MS &&
                       nb_now_ms() - begun_ms < timeout_ms);
        }
        if (is_waiting && kind >= 0)
                nb_tell_heard(arguments->teller, "");
        return kind;
}

static void freep(struct nb_install **install) {
        if (*install)
                nb_install_done(*install);
        free(*install);
}

/* Without a failure, *ret_status is the exit status of the service. */
static int run_service(const struct arguments *arguments, int *ret_status, struct nb_failure *f) {
        /* On the stack, each start of a joined machine would pay for pages that only a join uses.
         */
        _cleanup_(freep) struct nb_install *install = calloc(1, sizeof(*install));
        int kind, r;

        if (!install)
                return nb_failure_set_memory(f);
        install->is_child_run = arguments->program[0] && !arguments->is_reload;
        install->node.inspection.state = NB_NODE_STATE_ABSENT;
        install->state.fd = -1;
        install->timeout_ms = NB_TIME_INFINITE;
        kind = begin(arguments, install, f);
        if (kind > 0 && arguments->is_reload)
                return nb_failure_set(f, NB_JOIN_NEEDED, 0, "%s", install->node.inspection.detail);
        while (kind > 0) {
                nb_tell(arguments->teller,
                        kind == NB_CHILD_CONFIG ? state_of(install) : NB_LAST_JOINING, NULL);
                r = run_network(arguments, kind, install, ret_status, f);
                if (r <= 0)
                        return r;
                kind = run_locked(arguments,
                                  install->context == &install->settled && kind == NB_CHILD_METADATA
                                          ? SETTLED
                                          : END,
                                  install, f);
                /* The signal came after the child's last word. */
                if (kind > 0 && install->is_stopped) {
                        *ret_status = NB_EXIT_STOPPED;
                        tell_end(arguments, kind == NB_CHILD_CONFIG, true, NULL);
                        return 0;
                }
        }
        return kind;
}

/* What the network side has reported, which may be hostile, becomes a warning. */
static void note_refusal(const struct arguments *arguments, bool is_own, int status,
                         const struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        struct nb_failure ignored = { 0 };
        enum nb_code code = is_own ? f->code : nb_failure_find(arguments->teller->last.code);

        if (status != NB_EXIT_STOPPED && nb_lock_take(arguments->root, &lock_fd, &ignored) >= 0)
                nb_refresh_note_failure(arguments->root_fd, *arguments->is_renewal,
                                        code == NB_NONE ? NB_REFRESH_UNFINISHED : code);
}

/*
 * node-bootstrap-gate.service: whether kubelet may start. The gate reads the files of the join, but
 * no settings and no credential, takes no lock and writes nothing, so that only the certificate
 * decides. It succeeds even if the clock says that the certificate is not valid yet, or if the next
 * start of the service joins again. Otherwise it logs why, for kubelet's unit as well.
 */
static int run_gate(int root_fd) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_failure f = { 0 };
        int r = nb_node_inspect_disk(root_fd, &node, &f);

        if (r >= 0 && nb_inspection_is_kept(&node.inspection))
                return EXIT_SUCCESS;
        nb_log(LOG_NOTICE, NB_NONE, "this machine has not joined: %s",
               r < 0 ? f.detail : node.inspection.detail);
        nb_log_object_unit(NB_KUBELET_UNIT);
        nb_log(LOG_WARNING, NB_NONE,
               "kubelet waits: this machine has not joined; see `node-bootstrap status`");
        return EXIT_FAILURE;
}

/* For `check`, which lets systemd start this program as the service would: runs the words that
 * follow as a command of node-bootstrap, if there are any. */
static int rehearse(char *words[]) {
        if (!words[1])
                return EXIT_SUCCESS;
        (void)execv(NB_PROGRAM, words);
        fprintf(stderr, "cannot execute " NB_PROGRAM ": %s\n", strerror(errno));
        return EXIT_FAILURE;
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
        _cleanup_(nb_runner_done) struct nb_runner runner = { .fd = -1 };
        struct nb_teller teller;
        struct nb_failure f = { 0 };
        bool is_renewal = false;
        int r, status = EXIT_SUCCESS;

        if (argc > 1 && !strcmp(argv[1], "--rehearsal"))
                return rehearse(argv + 1);
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
                return run_gate(arguments.root_fd);
        if (r >= 0) {
                arguments.sources = &sources;
                arguments.runner = &runner;
                arguments.is_renewal = &is_renewal;
                nb_tell_begin(&teller, arguments.root_fd);
                /* last.json has the state of the join. */
                teller.is_silent = arguments.is_refresh;
                if (!arguments.is_reset && !arguments.is_reload)
                        arguments.teller = &teller;
                r = run_service(&arguments, &status, &f);
                if (arguments.is_refresh && (r < 0 || status != EXIT_SUCCESS))
                        note_refusal(&arguments, r < 0, status, &f);
        }
        if (r >= 0)
                return status;
        nb_tell(arguments.teller, NB_LAST_FAILED, &f);
        nb_log_failure(LOG_ERR, &f);
        nb_log_status("Not %s (%s): %s", arguments.is_refresh ? "refreshed" : "joined",
                      nb_failure_info(f.code)->slug, f.detail);
        return nb_failure_info(f.code)->exit_status;
}
