/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/failure_json.h"
#include "cli/kubelet.h"
#include "cli/setup/setup_internal.h"
#include "files/record.h"
#include "kube/k3s_token.h"
#include "system/lock.h"
#include "system/sources.h"
#include "system/unit.h"

#define JSON_MAX ((size_t)256 * 1024) /* bytes */

static int check_machine(const struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        if (setup->config_directory[0] != '/')
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--config-directory' requires an absolute path");
        if (setup->root) {
                /* The folder is not created: its name may be misspelt. */
                r = nb_folder_open(setup->root, &fd);
                return r < 0 ? nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "'--root=%s': %m",
                                              setup->root)
                             : 0;
        }
        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "must be run as root");
        if (setup->is_start_unwanted)
                return 0;
        if (!nb_systemd_is_running())
                return nb_failure_set(f, NB_SETUP_WITHOUT_SYSTEMD, 0,
                                      "systemd is not the init system of this machine");
        if (strcmp(setup->config_directory, NB_CONFIG_DIRECTORY) != 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      NB_SETUP_UNIT " reads its settings in " NB_CONFIG_DIRECTORY
                                                    ": '--config-directory' requires '--no-start' "
                                                    "or '--root'");
        return 0;
}

/* Without kubelet's files, the record still says that this machine has joined. */
static bool has_never_joined(const struct nb_setup *setup) {
        struct nb_record record = { 0 };
        struct nb_failure ignored = { 0 };

        return !setup->root && setup->state.node.inspection.state == NB_NODE_STATE_ABSENT &&
               nb_record_read(-1, setup->state.node.paths.certificate_directory, &record,
                              &ignored) == 0;
}

/* A new token replaces one with which this machine waits, or with which it joined: it is needed
 * again. Other settings only if they are proven to be those of the same cluster, or if this machine
 * has never joined. */
static bool is_replaceable(const struct nb_setup *setup, enum nb_setup_joined joined) {
        if (setup->root || !nb_machine_is_joining(&setup->state))
                return false;
        return joined == NB_SETUP_JOINED_BEFORE ||
               (joined == NB_SETUP_NOT_JOINED && setup->n_kept == 0);
}

/* Plans everything that is to change. */
static int plan_changes(struct nb_setup *setup, struct nb_failure *f) {
        enum nb_setup_joined joined = nb_setup_find_joined(setup);
        bool is_one;
        int r;

        if (joined == NB_SETUP_JOINED) {
                r = nb_setup_plan_repair(setup, f);
                if (r < 0)
                        return r;
        } else {
                r = nb_setup_plan(setup, f);
                if (r < 0)
                        return r;
                if (!setup->is_changed)
                        printf("this machine is already set up like this; nothing to write\n");
                if (joined == NB_SETUP_JOINED_ANOTHER && !setup->is_forced)
                        return nb_failure_set(f, NB_SETUP_OTHER_CLUSTER, 0,
                                              "this machine has joined another cluster");
                is_one = setup->n_different == 1;
                if (setup->n_different > 0 && !setup->is_forced && !is_replaceable(setup, joined))
                        return nb_failure_set(
                                f, NB_SETUP_CONFLICT, 0,
                                "%u setting%s from this machine's; use --force to replace %s",
                                setup->n_different, is_one ? " differs" : "s differ",
                                is_one ? "it" : "them");
                r = nb_setup_plan_files(setup, f);
                if (r < 0)
                        return r;
        }
        return setup->root ? 0 : nb_setup_plan_service(setup, f);
}

/* `node-bootstrap setup` alone, as a person types it. Automation runs setup with its settings
 * on a copy as well, even while only one of the copy's facts differs. */
static bool is_by_hand(const struct nb_setup *setup) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (setup->secrets[i].data)
                        return false;
        return !setup->is_json && setup->document.len == 0;
}

/* Whoever runs setup confirms the changed name or ID of this machine, unless it is a copy. */
static int record_machine(const struct nb_setup *setup, struct nb_failure *f) {
        const struct nb_node *node = &setup->state.node;
        struct nb_facts facts = node->present.record.facts;
        int r;

        if (setup->root || !is_by_hand(setup) || !node->present.has_record ||
            node->inspection.is_copy || node->inspection.is_maybe_copy ||
            !nb_inspection_is_kept(&node->inspection) || !nb_facts_update(&node->facts, &facts))
                return 0;
        if (setup->is_rehearsal) {
                printf("would record this machine's host name and IDs\n");
                return 0;
        }
        r = nb_node_record_facts(node);
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_UNWRITABLE, r,
                                      "cannot write '%s/" NB_RECORD_FILE "': %m",
                                      node->paths.certificate_directory);
        printf("recorded this machine's host name and IDs\n");
        return 0;
}

static int prepare_machine(struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        int r;

        /* Held until everything is written, but not while the service runs: its installer takes the
         * same lock. */
        r = setup->is_rehearsal ? 0 : nb_lock_take(setup->root, &lock_fd, f);
        if (r < 0)
                return r;
        r = nb_setup_load(setup, f);
        if (r < 0)
                return r;
        if (!setup->root && nb_machine_look(&setup->sources, true, &setup->state) < 0)
                return nb_failure_set_memory(f);
        setup->has_never_joined = has_never_joined(setup);
        r = plan_changes(setup, f);
        if (r >= 0)
                r = record_machine(setup, f);
        if (r < 0)
                return r;
        if (!setup->is_rehearsal)
                return nb_setup_apply(setup, NB_SETUP_ACTION_REMOVE, f);
        if (setup->is_changed && setup->document.len > 0)
                fputs(setup->document.data, stdout);
        r = nb_setup_apply(setup, NB_SETUP_ACTION_RELOAD, f);
        if (setup->root)
                printf("would not enable or start " NB_SETUP_UNIT ": --root\n");
        else if (setup->is_start_unwanted)
                printf("would not start " NB_SETUP_UNIT ": --no-start\n");
        printf("nothing was changed: --dry-run\n");
        return r;
}

/* Nothing was written, so the remedies for the service, which restart it, cannot help. */
static void say_what_to_type(const struct nb_setup *setup, struct nb_failure *f) {
        const struct nb_secret *token = &setup->secrets[NB_CREDENTIAL_TOKEN];
        bool is_pasted = setup->pasted.data;
        const char *hint;

        if (f->code == NB_TOKEN_MISSING)
                hint = "run the same command again with --token-file=FILE, or paste the whole line "
                       "that `kubeadm token create --print-join-command` prints to "
                       "`node-bootstrap setup -`";
        else if (f->code == NB_TOKEN_MALFORMED)
                hint = is_pasted ? "was all of the line pasted? Paste it again"
                                 : "run the same command again with the token exactly as it was "
                                   "printed";
        else if (f->code != NB_SETTINGS_INCOMPLETE)
                return;
        else if (token->data && nb_k3s_token_looks_like(token->data, token->len))
                hint = "run the same command again with a token that `k3s token create` "
                       "(`rke2 token create`) prints";
        else if (is_pasted && setup->settings.n_endpoints > 0)
                hint = "the pasted line has no --discovery-token-ca-cert-hash; was all of it "
                       "pasted?";
        else
                hint = "paste the whole line that `kubeadm token create --print-join-command` "
                       "prints to `node-bootstrap setup -`";
        f->code = NB_USAGE;
        nb_failure_add(f, "; %s", hint);
}

static int prepare(struct nb_setup *setup, struct nb_failure *f) {
        int r = check_machine(setup, f);

        if (r >= 0)
                r = prepare_machine(setup, f);
        nb_sources_done(&setup->sources);
        if (r < 0)
                return r;
        /* The join does not need kubelet, but the node does. */
        if (!setup->root)
                nb_kubelet_print_causes(&setup->now);
        if (setup->root && !setup->is_rehearsal)
                printf("the image is prepared; `systemctl --root=%s enable " NB_SETUP_UNIT
                       "` makes kubelet wait for it\n",
                       setup->root);
        return 0;
}

/* --- JSON --- */

/* Everything that is printed goes to standard error from now on. Returns what was standard output.
 */
static int redirect_output(void) {
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

        return fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -errno : fd;
}

static int print_json(struct nb_setup *setup, int fd, int status, const struct nb_failure *f) {
        struct nb_json_writer *writer = &setup->writer;
        struct nb_unit_state kubelet;
        enum nb_machine_kind kind;
        struct nb_failure why;
        bool is_known = !setup->root && nb_setup_look_at_kubelet(&kubelet, &kind, &why) >= 0;
        int r;

        nb_json_close(writer);
        nb_json_put_boolean(writer, "changed", nb_setup_put_changes(setup));
        nb_json_put_boolean(writer, "dryRun", setup->is_rehearsal);
        nb_json_put_string(writer, "state", is_known ? nb_machine_kind_name(kind) : NULL);
        nb_json_put_integer(writer, "exitStatus", status);
        nb_failure_put_json(f, "failure", writer);
        r = nb_json_finish(writer);
        if (r >= 0 && dup2(fd, STDOUT_FILENO) < 0)
                r = -errno;
        if (r < 0)
                return r;
        /* Until now, this stream was standard error. main() must report only a loss of the JSON. */
        clearerr(stdout);
        (void)fwrite(writer->buffer->data, 1, writer->buffer->len, stdout);
        return 0;
}

int nb_command_setup(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer json = NB_BUFFER_INIT(JSON_MAX);
        _cleanup_(nb_setup_done) struct nb_setup setup = { 0 };
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_setup_read(options, &setup, f), status, written;

        if (r == -ECANCELED)
                return r;
        if (setup.is_json) {
                fd = redirect_output();
                if (fd < 0)
                        return nb_failure_set(f, NB_INTERNAL, fd, "cannot redirect the output: %m");
        }
        setup.writer = (struct nb_json_writer){ .buffer = &json, .is_indented = true };
        nb_json_open(&setup.writer, NULL, '{');
        nb_json_open(&setup.writer, "differences", '[');
        if (r >= 0)
                r = prepare(&setup, f);
        if (r < 0)
                say_what_to_type(&setup, f);
        /* A child will parse what servers send: it must have no copy of a token or a key. Without a
         * child, the line is kept, since --root may be in it. */
        if (!setup.root)
                nb_setup_done(&setup);
        if (r >= 0 && !setup.root && !setup.is_rehearsal)
                r = nb_setup_run_service(&setup, f);
        fflush(stdout);
        if (!setup.is_json)
                return r;
        status = r < 0 ? nb_failure_info(f->code)->exit_status : r;
        written = print_json(&setup, fd, status, f);
        return written < 0 ? nb_failure_set(f, NB_INTERNAL, written, "cannot print the result: %m")
                           : r;
}
