/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts and ends the network half of the service, one child after the other: as the user of the
 * service, without any capability, with no_new_privs.
 *
 * install itself starts no child, and has neither CAP_KILL nor CAP_FOWNER. So it forks the runner,
 * and confines itself before the first child starts. The runner has no capability either, but its
 * effective user is that of the service. Its real and saved user remain root, so that no process of
 * the service can send it a signal.
 *
 * When a child has ended, or has to end, the runner kills it and every other process of the service
 * except install, and then empties the state directory (nb_state_empty()). Otherwise a process that
 * the child left could change files between check and use, and would keep running in an active
 * service. Whatever the child has left, the runner is then ready for the next one.
 *
 * The child that reads metadata cannot write to any file.
 *
 * The child cannot use systemd's notification socket (NotifyAccess=main). Each datagram that it
 * sends on descriptor NB_STATUS_FD is one status text, and maybe the failure that it is about; this
 * process reduces the text to one line and passes it to systemd, and the failure to last.json: at
 * most four a second, and the last one always.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/failure.h"
#include "install/state_directory.h"
#include "install/tell.h"

/* What a child is for. */
enum nb_child_kind {
        NB_CHILD_NONE,
        NB_CHILD_METADATA,
        NB_CHILD_JOIN,
        NB_CHILD_REFRESH,
        NB_CHILD_CONFIG,
        _NB_CHILD_N,
};

struct nb_runner {
        pid_t pid; /* 0: there is none */
        int fd;    /* readable when the child has ended */
};

/* `state` belongs to the user of the children, which execute `program`. `is_service`: the control
 * group of this process is that of the service, where it must be alone (install/alone.h).
 * Afterwards, this process is confined (install/confine.h). NB_INTERNAL, NB_NOT_ALONE. */
int nb_runner_begin(const struct nb_state *state, const char *program, bool is_service,
                    struct nb_runner *ret_runner, struct nb_failure *f);

/* How long the runner kills and removes what a child has left; what then remains stays until the
 * next child ends. */
#define NB_RUNNER_SWEEP_MAX_S 30

/* Ends the runner, and waits for that. */
void nb_runner_done(struct nb_runner *runner);

struct nb_child {
        enum nb_child_kind kind;
        uint64_t timeout_ms;      /* NB_TIME_INFINITE: none */
        struct nb_teller *teller; /* gets the failures that the child reports; or NULL */
        int sources_fd;           /* of nb_sources_pass(); closed once the child has it */
        /* Called after each status of the child. */
        void (*on_status)(void *userdata);
        /* Called when the child has sent something on its channel (install/answer.h), at most four
         * times a second; reads it. 1: the child has done its work, and ends; 0: it goes on. NULL:
         * it has no channel. */
        int (*on_message)(void *userdata, int channel);
        void *userdata;
};

/*
 * Returns 0 and how the child has ended. SIGINT and SIGTERM are passed on to the child. It enforces
 * the deadline itself; if it has not ended NB_CHILD_GRACE_S later, it is killed: NB_JOIN_OVERDUE,
 * unless it has done its work. NB_INTERNAL.
 */
#define NB_CHILD_GRACE_S 10
struct nb_child_end {
        int status;      /* exit status, or 128 + signal */
        int signal;      /* that killed it; 0: none */
        bool is_done;    /* on_message() has said so */
        bool is_stopped; /* SIGINT has asked this process to stop, as `systemctl stop` does
                            (KillSignal=) */
};
int nb_child_run(const struct nb_runner *runner, const struct nb_child *child,
                 struct nb_child_end *ret_end, struct nb_failure *f);
