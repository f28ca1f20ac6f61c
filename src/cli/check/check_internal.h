/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap check`: the join up to its request, and this machine. Changes nothing. check.c
 * has a table of steps, in sections:
 *
 *      check_rehearsal.c    Service                   whether systemd can start it
 *      check_settings.c     Settings
 *      check_credentials.c  Credentials and tokens    delivered by systemd, or in the stores
 *                           Proof                     a trial of the prover
 *      check_machine.c      This machine              its state (cli/machine_state.h), files that
 *                                                     the join writes, and kubelet
 *      check_metadata.c     Metadata, User data
 *      check_cluster.c      Join, Cluster, Request    the stages of the join (join/join.h), and
 *                                                     whether the node's certificate is accepted
 *      check_output.c       text and JSON
 *
 * Only systemd knows which settings and credentials the service gets, and what the sandbox allows.
 * So if systemd is running, and root runs the command for this machine, the command asks systemd to
 * start the service under another name, with another program: this one, with --rehearsal
 * (rehearsal_unit.h). The rehearsal runs the steps of a join, and sends their rows to the command.
 * The command prints them, and then runs the steps about this machine and kubelet itself. For other
 * users, and without systemd, one process runs all steps, and reads the credential stores that it
 * can read.
 *
 * Run by root, the command continues as an unprivileged user (os/privilege.h). This user can
 * read root's files until nb_check_drop(), so the steps that read them come first. In the rehearsal
 * it is the user of the unit.
 *
 * A step prints rows; without a row, its section is not shown. It returns 0, or a failure, which
 * is printed with its remedy; steps that depend on it are then skipped.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "cli/kubelet.h"
#include "cli/machine_state.h"
#include "cli/node_client.h"
#include "codec/json.h"
#include "join/load.h"
#include "join/stages.h"
#include "kube_objects/node_name.h"
#include "os/sources.h"
#include "settings/settings.h"
#include "systemd/log.h"

#define NB_CHECK_STATE "/var/lib/node-bootstrap" /* $STATE_DIRECTORY of the service */
#define NB_CHECK_METADATA_MS 15000               /* short, since a person waits */
#define NB_CHECK_JSON_MAX ((size_t)1024 * 1024)
#define NB_CHECK_NAMES_SIZE 512
#define NB_CHECK_LINE_MAX ((size_t)8 * 1024) /* bytes of a row */

/* --- State --- */

/* A step has the state of its worst row. */
enum nb_check_mark {
        NB_CHECK_NOTE,
        NB_CHECK_GOOD,
        NB_CHECK_DOUBT, /* a warning, or cannot be determined here */
        NB_CHECK_BAD,
        NB_CHECK_UNTRIED, /* an earlier step failed */
        _NB_CHECK_MARK_N,
};

struct nb_check_output {
        bool is_json, is_coloured, is_ascii;
        struct nb_buffer json;
        struct nb_json_writer writer;
        int frames_fd;                     /* rows are for the command that rehearses; -1: shown */
        const struct nb_check_step *step;  /* that runs in this process */
        const struct nb_check_step *shown; /* its rows are being shown; NULL: none */
        const char *section;               /* of the last step */
        enum nb_check_mark worst;
        uint64_t step_ms, row_ms; /* nb_now_ms() when the step, or the row, began */
        struct nb_failure first;
        int r; /* -ENOMEM: a row is missing */
};

/* Which steps this process runs. */
enum nb_check_part {
        NB_CHECK_ALL,
        NB_CHECK_OF_MACHINE, /* the others were rehearsed */
        NB_CHECK_OF_SERVICE, /* it is the rehearsal */
};

struct nb_check {
        enum nb_check_part part;
        bool is_root, is_dropped; /* run by root; after nb_check_drop() */
        uid_t user;               /* of the rehearsal */
        gid_t group;
        struct nb_machine_units units;

        struct nb_sources sources;
        bool is_folder_given;  /* --config-directory */
        const char *user_data; /* --user-data: a file, or "-"; NULL: check this machine */
        bool shows_all;        /* --all */
        bool is_local;         /* --local */
        struct nb_check_output output;

        const char *unknown;     /* why it is unknown whether there is a token; NULL: it is known */
        bool is_platform_unread; /* node-bootstrap-platform.service has something to read, and has
                                    not run */

        bool has_settings;
        struct nb_load load; /* as in `join`; has metadata after the step "metadata" */

        struct nb_last last;      /* nb_check_look() */
        struct nb_failure unread; /* the file system of the settings does not answer */
        bool has_traces;          /* of a join, which may be damaged, or another machine's */
        bool is_joined;
        bool needs_no_join;   /* kubelet's certificate is usable, or can be repaired */
        char valid_until[32]; /* this certificate */
        bool is_undecided; /* whether a join can start depends on sources that only the service can
                              read */
        char fixed_name[NB_NODE_NAME_MAX + 1]; /* nb_node_fixed_name() */
        char node_name[NB_NODE_NAME_MAX + 1];

        struct nb_node_client client;
        struct nb_certificates *serving;     /* of kubelet, from a supervisor of k3s; NULL: none */
        char health[NB_KUBELET_HEALTH_SIZE]; /* where kubelet, which runs, tells its health; "" */

        bool is_verified; /* with the endpoint that `join` uses */
        struct nb_join join;
};

/* When a step runs. */
enum nb_check_when {
        NB_CHECK_UNPRIVILEGED = 1, /* after nb_check_drop(); skipped if an earlier step failed */
        NB_CHECK_APART = 2, /* about this machine, not the join: runs even after a failure; its own
                               stops no other step */
        NB_CHECK_MACHINE = 4,    /* not with --user-data */
        NB_CHECK_SERVICE = 8,    /* not with --local, and only if the settings are readable */
        NB_CHECK_ONLINE = 16,    /* not with --local, and only if a join can start */
        NB_CHECK_CSR = 32,       /* only if certificates are requested with a CSR */
        NB_CHECK_USER_DATA = 64, /* only with --user-data */
};

typedef int nb_check_run(struct nb_check *check, struct nb_failure *f);

struct nb_check_step {
        const char *id; /* in JSON */
        const char *section;
        const char *label; /* prefix of its rows, which show durations; NULL: the only step of
                              its section, without durations */
        nb_check_run *run; /* NULL: the rehearsal */
        unsigned when;     /* enum nb_check_when */
};

/* In the order of a join. The first one is the rehearsal. */
#define NB_CHECK_STEPS_N 17
extern const struct nb_check_step nb_check_steps[NB_CHECK_STEPS_N];

nb_check_run nb_check_settings, nb_check_credentials, nb_check_proof, nb_check_state,
        nb_check_files, nb_check_user_data, nb_check_kubelet, nb_check_health, nb_check_node_access,
        nb_check_metadata, nb_check_join, nb_check_discover, nb_check_api_server, nb_check_identity,
        nb_check_node_name, nb_check_request;

/*
 * Reads the remaining files that only root can read, and drops the last capability. Untrusted data
 * is parsed only after this. Only files that were already read can be read again (`sources`).
 * NB_INTERNAL: the process must exit.
 */
int nb_check_drop(struct nb_check *check, struct nb_failure *f);

/* What is on this machine, for the steps of a join, too. Release *ret_state with
 * nb_machine_state_done(). 0 or -ENOMEM. */
int nb_check_look(struct nb_check *check, struct nb_machine_state *ret_state);

/* Whether node-bootstrap-platform.service would start, by its conditions. */
bool nb_check_has_platform_data(void);

/* --- Rehearsal --- */

/* Rehearses the start, and shows the rows. Where that is impossible, a row says so. 1: rehearsed;
 * 0; -ECANCELED if stopping was requested. Leaves nothing behind. */
int nb_check_rehearse(struct nb_check *check);

/* --- Output --- */

void nb_check_begin_output(struct nb_check_output *output);
void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step);
void nb_check_skip_step(struct nb_check *check, const struct nb_check_step *step);
/* The last row of the step. */
void nb_check_fail(struct nb_check *check, const struct nb_failure *f);
/* 0, or a negative errno if some output could not be written. */
int nb_check_end_output(struct nb_check_output *output);

/* A row of a step, and its failure. The rehearsal sends it to the command. It parses what servers
 * send, so nothing in it is trusted. */
struct nb_check_frame {
        uint32_t step, mark, code;
        int32_t errnum;
        uint64_t duration_ms;
        char text[NB_CHECK_LINE_MAX];
        char fields[_NB_FIELD_N][NB_FIELD_SIZE]; /* for the remedy */
};

/* Makes the text printable. -EBADMSG if something else is impossible. */
int nb_check_frame_verify(struct nb_check_frame *frame);
void nb_check_show(struct nb_check_output *output, const struct nb_check_frame *frame);

/* One line; control characters are replaced. */
void nb_check_row(struct nb_check *check, enum nb_check_mark mark, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* "timeout: 5m (ORIGIN)"; `overridden_by` is the origin of a stronger value, or NULL. */
void nb_check_print_setting(struct nb_check *check, const struct nb_settings *settings,
                            enum nb_setting setting, const char *overridden_by);

#define NB_CHECK_HIDDEN "****************"
#define NB_CHECK_TOKEN_TEXT_SIZE 128

/* Formats a token without its secret: "bootstrap token abcdef.****************". 0; -EINVAL if it
 * does not have the form of a token; -EBADMSG if it is encrypted; -ENOMEM. */
int nb_check_mask_token(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]);
