/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The state of this machine, for every command that shows it: setup, status and check. Begins with
 * what is on disk (nb_node_inspect_disk()), and adds the service, last.json, and kubelet.
 * Asks no server.
 */

#include "cli/kubelet.h"
#include "node_state/present.h"
#include "os/sources.h"
#include "settings/kubelet_unit.h"
#include "state_files/last.h"
#include "systemd/unit.h"

/* A kubelet that was started less than this ago may still end, and may not have answered or created
 * its Node yet. kubelet 1.20.2 was seen to need 12 s for each. */
#define NB_KUBELET_SETTLED_USEC ((uint64_t)30 * 1000000)

/* What systemd says. Without a message bus, it answers only root. */
struct nb_machine_units {
        struct nb_unit service, kubelet;
        struct nb_unit_state gate;
        char blocker[NB_UNIT_NAME_SIZE]; /* what the service, or else kubelet, is queued behind; "":
                                            nothing */
        uint64_t blocker_begun_usec;     /* 0: unknown */
        bool is_rehearsed;               /* `check` knows more than what became of the last start */
};

void nb_machine_units_read(struct nb_machine_units *ret_units);
void nb_machine_units_done(struct nb_machine_units *units);

/* Of a sentence about a machine that has not joined, or whose certificate is unusable. */
#define NB_MACHINE_NOT_JOINED_PREFIX "not joined: "

enum nb_machine_kind {
        NB_MACHINE_JOINED, /* and kubelet is running */
        NB_MACHINE_KUBELET_UNPREPARED,
        NB_MACHINE_KUBELET_STOPPED,
        NB_MACHINE_KUBELET_CRASHING,
        NB_MACHINE_KUBELET_UNKNOWN, /* joined, but systemd does not answer */
        NB_MACHINE_WITHOUT_KUBECONFIG,
        NB_MACHINE_NOT_YET_VALID,
        NB_MACHINE_EXPIRED,
        NB_MACHINE_IS_COPY,  /* it is a copy of a machine that has joined */
        NB_MACHINE_UNUSABLE, /* kubeconfig or certificate cannot be used */
        NB_MACHINE_NOT_JOINED,
        NB_MACHINE_QUEUED,  /* the service, or kubelet's start, waits for another unit */
        NB_MACHINE_WAITING, /* the join is under way */
        NB_MACHINE_FAILED,  /* the last join failed */
        NB_MACHINE_HIDDEN,  /* this user cannot read kubelet's files, or their file system hangs */
        _NB_MACHINE_KIND_N,
};

struct nb_machine_state {
        struct nb_node node;
        struct nb_settings settings;        /* as far as they are valid, for hints about kubelet */
        struct nb_failure settings_failure; /* why they cannot be used; NB_NONE: they can */
        struct nb_unit_state service, kubelet; /* .active is "" if systemd does not answer */
        struct nb_last last; /* .state is "joining" only while the join is under way */

        enum nb_machine_kind kind;
        struct nb_failure obstacle; /* why systemd cannot start the service; also part of `why` */
        /* One sentence in `detail`. The code has the remedy; NB_NONE: there is nothing to do.
         * errnum is ETIMEDOUT if the file system of kubelet's files does not answer. */
        struct nb_failure why;
        bool is_certificate_usable;          /* by kubelet, now */
        char health[NB_KUBELET_HEALTH_SIZE]; /* where kubelet tells its health; "": nowhere */
        time_t refreshed;                    /* a refresh succeeded then; 0: unknown */
};

/* Release `state` with nb_machine_state_done(). 0 or -ENOMEM. */
int nb_machine_judge(struct nb_sources *sources, const struct nb_machine_units *units,
                     struct nb_machine_state *ret_state);

/* Adds whether the settings, if they can be used, require another join (nb_node_apply_settings()).
 */
void nb_machine_apply_settings(struct nb_machine_state *state, struct nb_sources *sources);

/* nb_machine_units_read(), then nb_machine_judge(), then nb_machine_apply_settings() if
 * `are_settings_applied`. */
int nb_machine_look(struct nb_sources *sources, bool are_settings_applied,
                    struct nb_machine_state *ret_state);
/* Wipes kubelet's key, and frees the certificates; the rest can still be used. */
void nb_machine_state_done(struct nb_machine_state *state);

/* "joined", "kubelet-stopped", ... */
const char *nb_machine_kind_name(enum nb_machine_kind kind);

/* Of `status`: 0 joined and kubelet is running; 1 not joined; 2 expired or not yet valid; 4 joined,
 * but kubelet is not running; 5 unknown. With `is_kubelet_ignored`, 0 instead of 4. */
int nb_machine_exit_status(const struct nb_machine_state *state, bool is_kubelet_ignored);

/* The next start of the service joins, or a join is under way. */
bool nb_machine_is_joining(const struct nb_machine_state *state);

/* Sets the fields of the failure behind `why`, for nb_log_print_remedy(). */
void nb_machine_adopt_fields(const struct nb_machine_state *state);
