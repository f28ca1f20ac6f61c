/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap check`: the join up to its request, and this machine. Changes nothing. Settings
 * and credentials are read where the service would get them. check.c has a table of steps, in
 * sections:
 *
 *      check_settings.c     Settings                  whether the service can read them, too
 *      check_credentials.c  Credentials and tokens    delivered by systemd, or in the stores
 *      check_machine.c      This machine              its state (cli/machine_state.h), files that
 *                                                     the join writes, and kubelet
 *      check_metadata.c     Metadata, User data
 *      check_cluster.c      Join, Cluster, Request    the stages of the join (join/join.h), and
 *                                                     whether the node's certificate is accepted
 *      check_output.c       text and JSON
 *
 * Run by root, the command continues as an unprivileged user (system/privilege.h). This user can
 * read root's files until nb_check_drop(), so the steps that read them come first.
 *
 * A step prints rows. It returns 0, or a failure, which is printed with its remedy; steps that
 * depend on it are then skipped.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "cli/kubelet.h"
#include "cli/machine_state.h"
#include "cli/node_client.h"
#include "codec/json.h"
#include "join/load.h"
#include "join/stages.h"
#include "kube/node_name.h"
#include "settings/settings.h"
#include "system/sources.h"

#define NB_CHECK_STATE "/var/lib/node-bootstrap" /* $STATE_DIRECTORY of the service */
#define NB_CHECK_METADATA_MS 15000               /* short, since a person waits */
#define NB_CHECK_JSON_MAX ((size_t)1024 * 1024)

/* --- Credentials --- */

#define NB_CHECK_IDENTITIES \
        (1U << NB_CREDENTIAL_TOKEN | 1U << NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN | \
         1U << NB_CREDENTIAL_KUBECONFIG)

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
        bool is_json, is_coloured;
        struct nb_buffer json;
        struct nb_json_writer writer;
        const char *section; /* of the last step */
        bool is_timed;       /* rows have a duration */
        enum nb_check_mark worst;
        uint64_t step_ms, row_ms; /* nb_now_ms() when the step, or the row, began */
        int r;                    /* -ENOMEM: a row is missing */
};

struct nb_check {
        bool is_root, is_dropped; /* run by root; after nb_check_drop() */
        struct nb_machine_units units;

        struct nb_sources sources;
        bool is_folder_given;  /* --config-directory */
        const char *user_data; /* --user-data: a file, or "-"; NULL: check this machine */
        bool shows_all;        /* --all */
        bool is_local;         /* --local */
        struct nb_check_output output;

        char drop_ins[_NB_CREDENTIAL_N][NB_SETTINGS_PATH_MAX]; /* drop-in of the service that
                                                                        sets it; "" for none */
        unsigned sealed; /* bit n: only the service can read that credential */

        bool is_store_hidden; /* this user cannot read one of the stores */

        bool has_settings;
        struct nb_load load; /* as in `join`; has metadata after the step "metadata" */

        bool is_joined;
        bool needs_no_join;      /* kubelet's certificate is usable for this node */
        char valid_until[32];    /* this certificate */
        bool is_platform_hidden; /* there is metadata that only the service can read */
        bool is_undecided; /* whether a join can start depends on sources that only the service can
                              read */
        struct nb_secret pending_key; /* of the request of an earlier start */
        int pending_r; /* -ENOENT: there is none; another -errno: it cannot be read */
        char fixed_name[NB_NODE_NAME_MAX + 1]; /* nb_node_fixed_name() */
        char node_name[NB_NODE_NAME_MAX + 1];

        struct nb_node_client client;
        char health[NB_KUBELET_HEALTH_SIZE]; /* where kubelet, which runs, tells its health; "" */

        bool is_verified; /* with the endpoint that `join` uses */
        struct nb_join join;
};

/* When a step runs. */
enum nb_check_when {
        NB_CHECK_UNPRIVILEGED = 1, /* after nb_check_drop(); skipped if an earlier step failed */
        NB_CHECK_APART = 2,        /* runs even after a failure; its own stops no other step */
        NB_CHECK_MACHINE = 4,      /* not with --user-data */
        NB_CHECK_SERVICE = 8,      /* not with --local, and only if the settings are readable */
        NB_CHECK_ONLINE = 16,      /* not with --local, and only if a join can start */
        NB_CHECK_CSR = 32,         /* only if certificates are requested with a CSR */
        NB_CHECK_JOINED = 64,      /* only if this machine has kubelet's kubeconfig */
};

struct nb_check_step {
        const char *id; /* in JSON */
        const char *section;
        const char *label; /* prefix of its rows, which show durations; NULL: the only step of
                              its section, without durations */
        int (*run)(struct nb_check *check, struct nb_failure *f);
        unsigned when; /* enum nb_check_when */
};

int nb_check_settings(struct nb_check *check, struct nb_failure *f);
int nb_check_credentials(struct nb_check *check, struct nb_failure *f);
int nb_check_state(struct nb_check *check, struct nb_failure *f);
int nb_check_files(struct nb_check *check, struct nb_failure *f);
int nb_check_user_data(struct nb_check *check, struct nb_failure *f);
int nb_check_kubelet(struct nb_check *check, struct nb_failure *f);
int nb_check_health(struct nb_check *check, struct nb_failure *f);
int nb_check_node_access(struct nb_check *check, struct nb_failure *f);
int nb_check_metadata(struct nb_check *check, struct nb_failure *f);
int nb_check_join(struct nb_check *check, struct nb_failure *f);
int nb_check_discover(struct nb_check *check, struct nb_failure *f);
int nb_check_api_server(struct nb_check *check, struct nb_failure *f);
int nb_check_identity(struct nb_check *check, struct nb_failure *f);
int nb_check_node_name(struct nb_check *check, struct nb_failure *f);
int nb_check_request(struct nb_check *check, struct nb_failure *f);

/*
 * Reads the remaining files that only root can read, and drops the last capability. Untrusted data
 * is parsed only after this. Only files that were already read can be read again (`sources`).
 * NB_INTERNAL: the process must exit.
 */
int nb_check_drop(struct nb_check *check, struct nb_failure *f);

/* Finds which stores can be read, and which credentials only the service can read. */
void nb_check_find_stores(struct nb_check *check);

/* --- Output --- */

void nb_check_begin_output(struct nb_check_output *output);
void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step);
void nb_check_skip_step(struct nb_check *check, const struct nb_check_step *step);
/* `f` is the failure of the step, or NB_NONE. */
void nb_check_end_step(struct nb_check *check, const struct nb_failure *f);
/* 0, or a negative errno if some output could not be written. */
int nb_check_end_output(struct nb_check_output *output, const struct nb_failure *first);

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

/* Judges by mode and owner only. */
bool nb_check_is_readable_to_installer(const struct stat *st);
