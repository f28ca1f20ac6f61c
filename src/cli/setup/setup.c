/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/failure_json.h"
#include "cli/kubelet.h"
#include "cli/setup/setup_internal.h"
#include "crypto/certificate.h"
#include "kube_objects/k3s_token.h"
#include "state_files/lock.h"
#include "state_files/record.h"
#include "systemd/unit.h"

#define JSON_MAX ((size_t)256 * 1024) /* bytes */

static int check_machine(const struct nb_setup_wanted *wanted, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        if (wanted->config_directory[0] != '/')
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--config-directory' requires an absolute path");
        if (wanted->root) {
                /* The folder is not created: its name may be misspelt. */
                r = nb_folder_open(wanted->root, &fd);
                return r < 0 ? nb_failure_set(f, NB_USAGE, r, "'--root=%s': %m",
                                              nb_text_shown(wanted->root))
                             : 0;
        }
        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "must be run as root");
        if (wanted->is_start_unwanted)
                return 0;
        if (!nb_systemd_is_running())
                return nb_failure_set(f, NB_SETUP_WITHOUT_SYSTEMD, 0,
                                      "systemd is not the init system of this machine");
        if (strcmp(wanted->config_directory, NB_CONFIG_DIRECTORY) != 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      NB_SERVICE_UNIT
                                      " reads its settings in " NB_CONFIG_DIRECTORY
                                      ": '--config-directory' requires '--no-start' "
                                      "or '--root'");
        return 0;
}

static void report_plan(const struct nb_setup_found *found, const struct nb_setup_plan *plan) {
        const struct nb_node *node = &found->state.node;
        char subject[NB_SUBJECT_SIZE] = "";

        if (node->present.chain)
                nb_certificate_subject(node->present.chain, 0, subject);
        if (plan->cluster == NB_SETUP_CLUSTER_OTHER)
                printf("this machine has joined another cluster (%s): the hash does not "
                       "match its CA in %s\n",
                       subject, node->paths.ca_file);
        if (plan->is_token_unneeded)
                printf("already joined (%s): the token was not written\n", subject);
        for (unsigned i = 0; i < plan->n_differences; i++)
                printf("%s: %s -> %s\n", plan->differences[i].what, plan->differences[i].before,
                       plan->differences[i].after);
}

/* `node-bootstrap setup` alone, as a person types it. Automation runs setup with its settings
 * on a copy as well, even while only one of the copy's facts differs. */
static bool is_by_hand(const struct nb_setup_wanted *wanted) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (wanted->secrets[i].data)
                        return false;
        return !wanted->has_settings && !wanted->is_json;
}

/* Whoever runs setup confirms the changed name or ID of this machine, unless it is a copy. */
static int record_machine(const struct nb_setup_wanted *wanted, const struct nb_node *node,
                          struct nb_failure *f) {
        struct nb_facts facts = node->present.record.facts;
        int r;

        if (wanted->root || !is_by_hand(wanted) || !node->present.has_record ||
            node->inspection.is_copy || node->inspection.is_maybe_copy ||
            !nb_inspection_is_kept(&node->inspection) || !nb_facts_update(&node->facts, &facts))
                return 0;
        if (wanted->is_rehearsal) {
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

static int plan_all(const struct nb_setup_wanted *wanted, struct nb_setup_found *found,
                    struct nb_setup_plan *plan, struct nb_failure *f) {
        int r = nb_setup_plan(wanted, found, plan, f);

        report_plan(found, plan);
        if (r < 0)
                return r;
        if (!plan->is_changed)
                printf("this machine is already set up like this; nothing to write\n");
        r = nb_setup_plan_files(wanted, plan, f);
        return r < 0 || wanted->root ? r : nb_setup_plan_service(wanted, found, plan, f);
}

/* Until the service is to be enabled and started. */
static int prepare(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                   struct nb_failure *f) {
        _cleanup_(nb_setup_found_done) struct nb_setup_found found = { .has_never_joined = false };
        _cleanup_(nb_closep) int lock_fd = -1;
        int r = check_machine(wanted, f);

        /* Held until everything is written, but not while the service runs: its installer takes the
         * same lock. */
        if (r >= 0 && !wanted->is_rehearsal)
                r = nb_lock_take(wanted->root, &lock_fd, f);
        if (r >= 0)
                r = nb_setup_find(wanted, &found, f);
        if (r >= 0)
                r = plan_all(wanted, &found, plan, f);
        if (r >= 0)
                r = record_machine(wanted, &found.state.node, f);
        if (r >= 0 && wanted->is_rehearsal && plan->is_changed && plan->document.len > 0)
                fputs(plan->document.data, stdout);
        return r < 0 ? r
                     : nb_setup_apply(wanted, plan,
                                      wanted->is_rehearsal ? NB_SETUP_ACTION_RELOAD
                                                           : NB_SETUP_ACTION_REMOVE,
                                      f);
}

static void print_causes(const struct nb_setup_wanted *wanted, const struct nb_setup_plan *plan) {
        const struct nb_secret *token = &wanted->secrets[NB_CREDENTIAL_TOKEN];
        struct nb_settings settings = plan->settings;

        if (token->data && nb_k3s_token_looks_like(token->data, token->len) &&
            settings.cluster_type != NB_CLUSTER_TYPE_KUBERNETES)
                settings.cluster_type = NB_CLUSTER_TYPE_K3S;
        nb_kubelet_print_causes(&settings);
}

static void print_end(const struct nb_setup_wanted *wanted, const struct nb_setup_plan *plan) {
        if (plan->effects.len > 0)
                fputs(plan->effects.data, stdout);
        if (wanted->is_rehearsal && wanted->root)
                printf("would not enable or start " NB_SERVICE_UNIT ": --root\n");
        else if (wanted->is_rehearsal && wanted->is_start_unwanted)
                printf("would not start " NB_SERVICE_UNIT ": --no-start\n");
        if (wanted->is_rehearsal)
                printf("nothing was changed: --dry-run\n");
        /* The join does not need kubelet, but the node does. */
        if (!wanted->root)
                print_causes(wanted, plan);
        else if (!wanted->is_rehearsal)
                printf("the image is prepared; `systemctl --root=%s enable " NB_SERVICE_UNIT
                       "` makes kubelet wait for it\n",
                       wanted->root);
}

/* Nothing was written, so the remedies for the service, which restart it, cannot help. */
static void say_what_to_type(const struct nb_setup_wanted *wanted, struct nb_failure *f) {
        const struct nb_secret *token = &wanted->secrets[NB_CREDENTIAL_TOKEN];
        bool is_pasted = wanted->pasted.data;
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
        else if (is_pasted && wanted->settings.n_endpoints > 0)
                hint = "the pasted line has no --discovery-token-ca-cert-hash; was all of it "
                       "pasted?";
        else
                hint = "paste the whole line that `kubeadm token create --print-join-command` "
                       "prints to `node-bootstrap setup -`";
        f->code = NB_USAGE;
        nb_failure_add(f, "; %s", hint);
}

/* --- JSON --- */

/* Everything that is printed goes to standard error from now on. Returns what was standard output.
 */
static int redirect_output(void) {
        int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);

        return fd < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0 ? -errno : fd;
}

static int print_json(const struct nb_setup_wanted *wanted, const struct nb_setup_plan *plan,
                      int fd, int result, const struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer json = NB_BUFFER_INIT(JSON_MAX);
        struct nb_json_writer writer = { .buffer = &json, .is_indented = true };
        struct nb_machine_state state;
        struct nb_sources sources;
        bool is_known;
        int r;

        nb_sources_init(&sources, NB_CONFIG_DIRECTORY);
        is_known = !wanted->root && nb_machine_look(&sources, false, &state) >= 0;
        nb_json_open(&writer, NULL, '{');
        nb_json_open(&writer, "differences", '[');
        for (unsigned i = 0; i < plan->n_differences; i++) {
                const struct nb_setup_difference *difference = &plan->differences[i];

                nb_json_open(&writer, NULL, '{');
                nb_json_put_string(&writer, "what", difference->what);
                nb_json_put_string(&writer, "before", difference->before);
                nb_json_put_string(&writer, "after", difference->after);
                nb_json_close(&writer);
        }
        nb_json_close(&writer);
        nb_json_put_boolean(&writer, "changed", nb_setup_put_changes(wanted, plan, &writer));
        nb_json_put_boolean(&writer, "dryRun", wanted->is_rehearsal);
        nb_json_put_string(&writer, "state", is_known ? nb_machine_kind_name(state.kind) : NULL);
        nb_json_put_integer(&writer, "exitStatus",
                            result < 0 ? nb_failure_info(f->code)->exit_status : result);
        nb_failure_put_json(f, "failure", &writer);
        if (!wanted->root)
                nb_machine_state_done(&state);
        r = nb_json_finish(&writer);
        if (r >= 0 && dup2(fd, STDOUT_FILENO) < 0)
                r = -errno;
        if (r < 0)
                return r;
        /* Until now, this stream was standard error. main() must report only a loss of the JSON. */
        clearerr(stdout);
        fputs(json.data, stdout);
        return 0;
}

int nb_command_setup(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(nb_setup_wanted_done) struct nb_setup_wanted wanted = { .root = NULL };
        _cleanup_(nb_setup_plan_done) struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_setup_read(options, &wanted, f), written;

        if (r == -ECANCELED)
                return r;
        if (wanted.is_json) {
                fd = redirect_output();
                if (fd < 0)
                        return nb_failure_set(f, NB_INTERNAL, fd, "cannot redirect the output: %m");
        }
        if (r >= 0)
                r = prepare(&wanted, &plan, f);
        if (r < 0)
                say_what_to_type(&wanted, f);
        else
                print_end(&wanted, &plan);
        /* A child will parse what servers send: it must have no copy of a token or a key. Without a
         * child, the line is kept, since --root may be in it. */
        if (!wanted.root)
                nb_setup_wanted_done(&wanted);
        if (r >= 0 && !wanted.root && !wanted.is_rehearsal)
                r = nb_setup_watch(&wanted, &plan, f);
        if (r == 0 && !wanted.root)
                nb_kubelet_print_next_boot();
        fflush(stdout);
        if (!wanted.is_json)
                return r;
        written = print_json(&wanted, &plan, fd, r, f);
        return written < 0 ? nb_failure_set(f, NB_INTERNAL, written, "cannot print the result: %m")
                           : r;
}
