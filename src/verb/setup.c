/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "base/unit.h"
#include "verb/setup_internal.h"
#include "verb/verb.h"

/* Making it would hide that its name was misspelt. */
static int check_root(const char *root, struct nb_failure *f) {
        struct stat st;

        if (stat(root, &st) < 0)
                return nb_failure_set(f, NB_SETUP_UNWRITABLE, errno, "'--root=%s': %m; expected the folder of an image that is there", root);
        return S_ISDIR(st.st_mode) ? 0 : nb_failure_set(f, NB_SETUP_UNWRITABLE, ENOTDIR, "'--root=%s': expected the folder of an image, found a file", root);
}

static int check_machine(const struct nb_setup *setup, struct nb_failure *f) {
        if (setup->config_directory[0] != '/')
                return nb_failure_set(f, NB_USAGE, 0, "'--config-directory' is no absolute path");
        if (setup->root)
                return check_root(setup->root, f);
        if (setup->is_rehearsal)
                return 0;
        if (geteuid() != 0)
                return nb_failure_set(f, NB_SETUP_NOT_ROOT, 0, "setup is run by the user with the number %u; expected root", (unsigned)geteuid());
        if (!setup->is_start_wanted)
                return 0;
        if (!nb_systemd_is_running())
                return nb_failure_set(f, NB_SETUP_WITHOUT_SYSTEMD, 0, "systemd is not the init system that runs here");
        if (strcmp(setup->config_directory, NB_CONFIG_DIRECTORY) != 0)
                return nb_failure_set(f, NB_USAGE, 0, "node-bootstrap.service reads its settings in " NB_CONFIG_DIRECTORY ": with another '--config-directory' it cannot be started; expected --no-start or --root");
        return 0;
}

static int prepare(const struct nb_setup *setup, bool *ret_is_changed, struct nb_failure *f) {
        _cleanup_(nb_setup_plan_done) struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        int r;

        r = nb_setup_plan(setup, &plan, f);
        if (r < 0)
                return r;
        *ret_is_changed = !nb_setup_plan_is_empty(&plan);
        if (!*ret_is_changed)
                (void)printf("this machine is set up like that already; nothing to write\n");
        if (plan.n_changes > 0 && !setup->is_forced)
                return nb_failure_set(f, NB_SETUP_CONFLICT, 0, "%u value%s of this machine %s otherwise; --force changes %s", plan.n_changes,
                                      plan.n_changes > 1 ? "s" : "", plan.n_changes > 1 ? "are" : "is", plan.n_changes > 1 ? "them" : "it");
        if (setup->is_rehearsal) {
                if (plan.document.len > 0)
                        (void)fputs(plan.document.data, stdout);
                r = nb_setup_write(setup, &plan, f);
                if (r >= 0)
                        nb_setup_rehearse_service(setup);
                (void)printf("nothing was changed: --dry-run\n");
                return r;
        }
        return nb_setup_write(setup, &plan, f);
}

static int run(struct nb_setup *setup, struct nb_options *options) {
        struct nb_failure f = { 0 };
        bool is_changed = false;
        int r;

        r = nb_setup_read(options, setup, &f);
        if (r == -ECANCELED && f.code == NB_NONE)
                return options->status;
        if (r >= 0)
                r = check_machine(setup, &f);
        if (r >= 0)
                r = prepare(setup, &is_changed, &f);
        (void)fflush(stdout);
        if (r < 0 && f.code == NB_USAGE) {
                (void)nb_options_fail(options, "%s", f.detail);
                return options->status;
        }
        if (r < 0) {
                nb_log_failure(LOG_ERR, &f);
                return nb_failure_info(f.code)->exit_status;
        }
        if (setup->root && !setup->is_rehearsal)
                (void)printf("the image is prepared; `systemctl --root=%s enable " NB_SETUP_UNIT "` lets kubelet wait for it\n", setup->root);
        return setup->root || setup->is_rehearsal ? 0 : nb_setup_run_service(setup, is_changed);
}

int nb_verb_setup(int argc, char **argv) {
        _cleanup_(nb_setup_done) struct nb_setup setup = { 0 };
        struct nb_options options = {
                .verb = "setup",
                .words = "[kubeadm join] [HOST:PORT]",
                .summary = "Writes settings and credentials, and starts node-bootstrap.service. Takes what `kubeadm token create\n"
                           "--print-join-command` prints, and every option of `kubeadm join` that concerns a worker.",
                .argc = argc,
                .argv = argv,
        };

        /* Token and keys pass through: neither to a core file nor to a debugger. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        return run(&setup, &options);
}
