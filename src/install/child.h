/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runs the network half of the service as a child: as the user of the service, without any
 * capability, with no_new_privs. The child executes the program only after nb_confine() has
 * restricted this process.
 *
 * The child cannot use systemd's notification socket (NotifyAccess=main). Each datagram that it
 * sends on descriptor NB_STATUS_FD is one status text, and maybe the failure that it is about; this
 * process reduces the text to one line and passes it to systemd, and the failure to last.json: at
 * most four a second, and the last one always.
 *
 * When the child has ended, or has to end, a third process kills it and every other process of the
 * service except this one, and then empties the state directory (nb_state_empty()). Otherwise a
 * process that the child left could change files between check and use, and would keep running in
 * an active service.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "install/state_directory.h"
#include "install/tell.h"

struct nb_child {
        const char *const *argv;      /* argv[0] is the path of the program */
        const struct nb_state *state; /* its owner is the user of the child */
        bool is_service;              /* the control group of this process is that of the service */
        uint64_t timeout_ms;          /* NB_TIME_INFINITE: none */
        struct nb_teller *teller;     /* gets the failures that the child reports; or NULL */
        int sources_fd;               /* of nb_sources_pass(); closed once the child has it */
        /* Called after each status of the child. */
        void (*on_status)(void *userdata);
        void *userdata;
};

/*
 * Returns 0 and how the child has ended. SIGINT and SIGTERM are passed on to the child if it runs
 * as the same user; otherwise systemd sends them to both. The child enforces the deadline itself;
 * if it has not ended NB_CHILD_GRACE_S later, it is killed: NB_JOIN_OVERDUE. NB_INTERNAL.
 */
#define NB_CHILD_GRACE_S 10
#define NB_SWEEPER_MAX_S 30
struct nb_child_end {
        int status;      /* exit status, or 128 + signal */
        int signal;      /* that killed it; 0: none */
        bool is_stopped; /* SIGINT has asked this process to stop, as `systemctl stop` does
                            (KillSignal=) */
};
int nb_child_run(const struct nb_child *child, struct nb_child_end *ret_end, struct nb_failure *f);

/* Ends this process by the signal that has killed the child, so that Restart=on-abnormal applies.
 */
void nb_child_end_like(int signal);
