/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of the newest start of node-bootstrap.service (last.json). install writes it at each
 * change, into a folder of root; status, check and setup read it. systemd's properties show whether
 * the program did not run, or was killed.
 */

#include <stdbool.h>

#include "state_files/state_file.h"
#include "systemd/log.h"
#include "systemd/unit.h"

#define NB_LAST_FOLDER "/run/node-bootstrap"
#define NB_LAST_NAME "last.json"

/* What .state is. */
#define NB_LAST_JOINING "joining" /* .code: what it waits for */
#define NB_LAST_JOINED "joined"   /* kubelet's files were written */
#define NB_LAST_KEPT "kept"       /* this machine had already joined; .code: what failed */
#define NB_LAST_FAILED "failed"

struct nb_last {
        char invocation[sizeof(
                ((struct nb_unit_state *)NULL)->invocation)]; /* "": not started by systemd */
        char state[16];
        char since[32];                          /* RFC 3339; of the state, or of .code */
        char code[64];                           /* of failures.def; "" for none */
        char detail[NB_FAILURE_DETAIL_MAX];      /* its sentence; may be from `join` */
        char fields[_NB_FIELD_N][NB_FIELD_SIZE]; /* for its remedy; likewise */
};

extern const struct nb_state_file nb_last_file;

/* Reads last.json below `root_fd` (-1: of this machine) if the newest run of `service` wrote it; if
 * systemd does not answer, whichever run wrote it. Otherwise all members are "". */
void nb_last_read(int root_fd, const struct nb_unit_state *service, struct nb_last *ret_last);

/* By NB_LAST_*. */
bool nb_last_is(const struct nb_last *last, const char *state);

/* Sets the fields of this process, for nb_log_print_remedy() and nb_log_failure(). */
void nb_last_adopt_fields(const struct nb_last *last);
