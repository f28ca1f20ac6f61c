/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "verb/begin.h"
#include "verb/setup_internal.h"

/* In memory, never on a disk, and open to this user alone. */
#define FOLDER "/dev/shm/node-bootstrap-XXXXXX"
#define VARIABLE "CREDENTIALS_DIRECTORY"

static const int ending_signals[] = { SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM };

struct rehearsal {
        sigset_t before; /* signals blocked before: one that ends the program would leave secrets behind */
        char path[sizeof(FOLDER)];
        int fd;
        bool is_blocked;
        bool has_unknown; /* a credential that only the service can read */
};

static int open_folder(struct rehearsal *rehearsal) {
        sigset_t ending;

        (void)sigemptyset(&ending);
        for (size_t i = 0; i < N_ELEMENTS(ending_signals); i++)
                (void)sigaddset(&ending, ending_signals[i]);
        if (sigprocmask(SIG_BLOCK, &ending, &rehearsal->before) < 0)
                return -errno;
        rehearsal->is_blocked = true;
        (void)strcpy(rehearsal->path, FOLDER);
        if (!mkdtemp(rehearsal->path)) {
                rehearsal->path[0] = '\0';
                return -errno;
        }
        return nb_folder_open(rehearsal->path, &rehearsal->fd);
}

static void rehearsal_done(struct rehearsal *rehearsal) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && rehearsal->fd >= 0; i++)
                (void)unlinkat(rehearsal->fd, nb_setup_secret_name((enum nb_setup_secret)i), 0);
        nb_closep(&rehearsal->fd);
        if (rehearsal->path[0])
                (void)rmdir(rehearsal->path);
        if (rehearsal->is_blocked)
                (void)sigprocmask(SIG_SETMASK, &rehearsal->before, NULL);
}

static int read_delivered(enum nb_setup_secret secret, struct nb_secret *ret) {
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_folder_open(NB_SETUP_DELIVERED, &fd);

        return r < 0 ? r : nb_file_read_secret(fd, nb_setup_secret_name(secret), NB_SETUP_SECRET_MAX, ret, NULL);
}

static int put(struct rehearsal *rehearsal, enum nb_setup_secret secret, const struct nb_secret *value, struct nb_failure *f) {
        int r = nb_file_write(rehearsal->fd, nb_setup_secret_name(secret), 0400, value->data, value->len);

        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_INTERNAL, -r, "'%s' cannot be written: %m", rehearsal->path);
        }
        return 0;
}

/* As systemd will deliver it. */
static int deliver(const struct nb_setup *setup, const struct nb_setup_plan *plan, enum nb_setup_secret secret, struct rehearsal *rehearsal,
                   struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        int r = -ENOENT;

        if (setup->secrets[secret].data)
                return put(rehearsal, secret, &setup->secrets[secret], f);
        if (!setup->root)
                r = read_delivered(secret, &stored);
        if (r < 0 && plan->secret_steps[secret] == NB_SETUP_KEEP)
                r = nb_setup_read_stored(setup, secret, &stored, f);
        if (r >= 0)
                return put(rehearsal, secret, &stored, f);
        if (r == -EKEYREJECTED)
                rehearsal->has_unknown = true;
        return r == -EKEYREJECTED || (r == -ENOENT && f->code == NB_NONE) ? 0 : r;
}

/* What an image will have when it runs, and what only the service can read, cannot be missed here. */
static bool is_excused(const struct nb_setup *setup, const struct rehearsal *rehearsal, enum nb_code code) {
        if (code == NB_TOKEN_MISSING)
                return setup->root || rehearsal->has_unknown;
        return setup->root && (code == NB_DISCOVERY_FILE_UNREADABLE || code == NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
}

static int load(const struct nb_settings *settings, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_done) struct nb_bootstrap bootstrap = { 0 };
        int r = nb_bootstrap_load(settings, &bootstrap, f);

        return r < 0 ? r : nb_begin_verify(&bootstrap, settings, f);
}

int nb_setup_rehearse(const struct nb_setup *setup, const struct nb_setup_plan *plan, const struct nb_settings *settings, struct nb_failure *f) {
        _cleanup_(rehearsal_done) struct rehearsal rehearsal = { .fd = -1 };
        struct nb_failure why = { 0 };
        int r;

        r = open_folder(&rehearsal);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_INTERNAL, -r, "no folder can be made in /dev/shm: %m");
        }
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++)
                r = deliver(setup, plan, (enum nb_setup_secret)i, &rehearsal, f);
        if (r < 0)
                return r;
        if (setenv(VARIABLE, rehearsal.path, 1) < 0)
                return nb_failure_set_memory(f);
        r = load(settings, &why);
        (void)unsetenv(VARIABLE);
        if (r >= 0 || is_excused(setup, &rehearsal, why.code))
                return 0;
        *f = why;
        return r;
}
