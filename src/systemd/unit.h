/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The manager of systemd, by its D-Bus interface (org.freedesktop.systemd1(5)): state and
 * properties of a unit, and changes to it; and what the journal has of a unit. Nothing here waits
 * for a job: if the caller is killed, the job continues.
 *
 * Root needs no message bus; without one, systemd answers nobody else.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_UNIT_NAME_SIZE 256 /* systemd's UNIT_NAME_MAX */
#define NB_UNIT_PATH_SIZE 1024

struct nb_unit_state {
        char load[32];       /* LoadState: "loaded", "not-found", "masked", ... */
        char active[32];     /* ActiveState: "active", "activating", "failed", ... */
        char sub[32];        /* SubState */
        char file[32];       /* UnitFileState: "enabled", "disabled", ... */
        char status[512];    /* StatusText of this run, control characters replaced */
        char result[32];     /* Result: "success", "exit-code", "resources", ... */
        char invocation[33]; /* InvocationID, of this run or the last one; "" or zeros: none */
        char job[64];        /* Job: the object of the queued or running job, or "/" */
        int exit_code;       /* ExecMainCode: CLD_EXITED, ... of the main process */
        int exit_status;     /* ExecMainStatus: that of the exit, or a signal */
        uint32_t main_pid;   /* MainPID; 0: none */
        bool is_enabled, has_job;
        uint64_t active_since;   /* ActiveEnterTimestampMonotonic, in microseconds; 0: never */
        uint64_t active_until;   /* ActiveExitTimestampMonotonic, of the run before; 0: none */
        uint64_t inactive_since; /* InactiveEnterTimestampMonotonic; 0: never */
        uint64_t changed_since;  /* StateChangeTimestampMonotonic; 0: never */
        uint64_t begun_usec;     /* InactiveExitTimestamp, of CLOCK_REALTIME; 0: never */
        unsigned n_restarts;     /* NRestarts: by Restart=, since the last start by somebody else */
        int is_condition_met;    /* ConditionResult */
        uint64_t condition_usec; /* ConditionTimestamp; 0: never checked */
};

/* Properties of which all strings are listed, in order. */
enum nb_unit_list {
        NB_UNIT_AFTER,
        NB_UNIT_REQUIRES,
        NB_UNIT_WANTED_BY,
        NB_UNIT_REQUIRED_BY,
        NB_UNIT_DROP_INS,
        NB_UNIT_COMMAND, /* ExecStart: the path, then the arguments, beginning with argv[0] */
        NB_UNIT_COMMANDS_BEFORE, /* ExecCondition and ExecStartPre: likewise */
        NB_UNIT_ENVIRONMENT,
        NB_UNIT_ENVIRONMENT_FILES,
        NB_UNIT_CREDENTIALS, /* LoadCredential: name, path, name, path, ... */
        NB_UNIT_ENCRYPTED,   /* LoadCredentialEncrypted: likewise */
        NB_UNIT_IMPORTED,    /* ImportCredential: patterns; systemd 254 and newer */
        _NB_UNIT_LIST_N,
};

#define NB_UNIT_LIST_MAX ((size_t)256 * 1024) /* bytes of one list */

/* Release with nb_unit_done(). .state.active is "" if systemd was not asked, or did not answer. */
struct nb_unit {
        struct nb_unit_state state;
        char fragment[NB_UNIT_PATH_SIZE];        /* FragmentPath: the unit file */
        int is_outdated;                         /* NeedDaemonReload: files have changed since */
        struct nb_buffer lists[_NB_UNIT_LIST_N]; /* each string with its NUL */
};

/* sd_booted(3), and not in a chroot. */
bool nb_systemd_is_running(void);

/* What follows fails with NB_SETUP_COMMAND_FAILED and systemd's message. */

/* Reads all unit files again, if systemd is running. */
int nb_systemd_reload(struct nb_failure *f);

/* Queues a job. `method`: "StartUnit", "StopUnit" or "RestartUnit". */
int nb_unit_queue(const char *method, const char *unit, struct nb_failure *f);

/* Starts a unit that is not on disk. It loads one credential, as LoadCredential= or
 * LoadCredentialEncrypted= do, and runs nothing else. */
int nb_unit_load_credential(const char *unit, bool is_sealed, const char *name, const char *path,
                            struct nb_failure *f);

/* Resets the count for the start limit, which systemd applies to starts by hand as well. */
void nb_unit_reset_limit(const char *unit);

/* Makes or removes the links of [Install]; nb_systemd_reload() makes them known. Also works without
 * a running systemd, as while an image is built. */
int nb_unit_enable(const char *unit, bool is_enabled, struct nb_failure *f);

/* 0, also if there is no such unit. */
int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f);

/* The same, with all lists. *ret_unit is unchanged after a failure. */
int nb_unit_read(const char *unit, struct nb_unit *ret_unit, struct nb_failure *f);
void nb_unit_done(struct nb_unit *unit);

/* Reads the answer to GetAll into a struct of zeros. 0, -errno. */
struct sd_bus_message; /* of libsystemd */
int nb_unit_parse(struct sd_bus_message *reply, struct nb_unit *ret_unit);

/* Finds what a queued unit waits for: a unit that starts, or is queued itself, before it. "" if
 * there is none. */
void nb_unit_find_blocker(const struct nb_unit_state *state, char ret[static NB_UNIT_NAME_SIZE]);

/* The string after `previous` (NULL: the first one); NULL after the last one. */
const char *nb_unit_next(const struct nb_unit *unit, enum nb_unit_list list, const char *previous);
bool nb_unit_has(const struct nb_unit *unit, enum nb_unit_list list, const char *expected);

/* By its ActiveState. */
bool nb_unit_is(const struct nb_unit_state *state, const char *active);

/* The unit has no job, and is active, inactive or failed. */
bool nb_unit_is_at_rest(const struct nb_unit_state *state);

/* The unit has ended, and systemd starts it again after RestartSec=. */
bool nb_unit_awaits_restart(const struct nb_unit_state *state);

/* The unit has ended at `since` (CLOCK_MONOTONIC, in microseconds) or later, and not because it was
 * told to: Restart= has started it again, or will. An earlier end may also have been followed by a
 * restart since then. */
bool nb_unit_has_ended_since(const struct nb_unit_state *state, uint64_t since);

/* How long an active unit has been active, in microseconds. */
uint64_t nb_unit_active_usec(const struct nb_unit_state *state);

/* Whether the unit became active at least that long ago. */
bool nb_unit_is_settled(const struct nb_unit_state *state, uint64_t usec);

/* The unit's newest line that klog marks as an error (its header is "E" or "F", month, day and
 * time; github.com/kubernetes/klog), without that header; without one, the newest line; without
 * any, that of nb_unit_find_reason(). "" if the journal has none. */
void nb_unit_find_error(const char *unit, char *ret, size_t size);

/* The first warning of systemd itself about the unit's last start, which has the cause; "" if the
 * journal has none. For people only: the wording differs between versions. */
void nb_unit_find_reason(const char *unit, char *ret, size_t size);
