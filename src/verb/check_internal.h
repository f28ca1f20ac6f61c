/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap check`: the join, as far as it goes without a request, and nothing changed. What it would begin with is read in the places
 * where the service reads it. A table of steps (check.c) in sections of the output (check_output.c):
 *
 *      check_settings.c       Settings                  the documents of this machine, and
 *      check_unread.c                                   what lies beside them unread, as beside the credentials
 *      check_reach.c                                    and whether the service may read them, whoever runs this
 *      check_user_data.c      User data                 instead of credentials and metadata, where a file is to be looked at that a machine is to be made with
 *      check_credentials.c    Credentials and tokens    those of the service, or of the stores that systemd takes them from;
 *      check_unit.c                                     and by which drop-ins it gets others
 *      check_metadata.c       Metadata                  which cloud this is; read only where a join would read it
 *      check_join.c           Join                      whether one could begin with all of it
 *      check_network.c        Network                   names, connections, TLS and the clock, for each endpoint
 *      check_cluster.c        Cluster                   the stages that discover and prove the cluster (stage/join.h), one attempt each
 *      check_request.c        Request                   what the identity may, and what there is of this node in the cluster already
 *      check_machine.c        This machine              whether what it gets can be written, and kubelet waits for it and reads it
 *
 * A step prints rows as it finds them. It returns 0, or a failure, which is printed with its remedy and does not keep later steps
 * from running, unless they need what it was to find.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "format/node_name.h"
#include "format/settings.h"
#include "verb/check_network.h"
#include "verb/load.h"

/* Credentials as bits of nb_check.sealed. */
enum nb_check_credential {
        NB_CHECK_TOKEN,
        NB_CHECK_TLS_BOOTSTRAP_TOKEN,
        NB_CHECK_KUBECONFIG,
        NB_CHECK_CLUSTER_INFO,
        NB_CHECK_CONFIG,
        _NB_CHECK_CREDENTIAL_N,
};

#define NB_CHECK_STORES_MAX 8
#define NB_CHECK_SOURCE_SIZE 512

/* What drop-ins say of where the service gets a credential: "LoadCredential= /run/token", without any value; "" for nothing. */
struct nb_check_unit {
        char sources[_NB_CHECK_CREDENTIAL_N][NB_CHECK_SOURCE_SIZE];
        bool has_all_users; /* PrivateUsers=no: root's rights are those over the files of all users */
};

struct nb_check_output {
        bool is_json, is_coloured;
        struct nb_buffer json; /* of the steps so far */
        const char *section;   /* the one that was begun last */
        bool is_timed;         /* rows say how long they took */
        unsigned n_rows;       /* of this step */
        unsigned worst;        /* of these, enum nb_check_mark */
        uint64_t step_ms;      /* nb_now_ms() at the begin of the step, */
        uint64_t row_ms;       /* and of the row in the making */
        int r;                 /* of the writing of JSON */
};

#define NB_CHECK_STATE "/var/lib/node-bootstrap" /* where the service has its $STATE_DIRECTORY */
#define NB_CHECK_JSON_MAX ((size_t)1024 * 1024)
#define NB_CHECK_OUTPUT_INIT \
        { .json = NB_BUFFER_INIT(NB_CHECK_JSON_MAX) }

struct nb_check {
        const char *config_directory;   /* NULL: none is looked at */
        bool is_folder_given;           /* by --config-directory */
        const char *user_data;          /* --user-data: a file, or "-"; NULL: this machine is meant */
        bool shows_all;                 /* --all: settings with their default, and credentials that are not there */
        bool is_local;                  /* --local: no endpoint is asked */
        struct nb_check_output *output; /* borrowed */

        const char *stores[NB_CHECK_STORES_MAX + 1]; /* those that can be read here, for nb_sources_use_stores() */
        struct nb_check_unit unit;
        unsigned sealed; /* bit n: the service gets that credential, and it cannot be looked into here */

        /* Of the documents, as they stand there; their tokens are not among what is loaded below. */
        bool has_settings;
        struct nb_settings_tokens tokens;
        struct nb_settings settings;

        bool is_platform_hidden; /* what node-bootstrap-platform.service reads is not to be seen here, or it has not run */
        bool is_undecided;       /* whether a join could begin is up to that, or to a credential that only the service gets */
        char node_name[NB_NODE_NAME_MAX + 1];
        bool is_joined;                   /* this machine has been joined */
        struct nb_check_network *network; /* what was found there (check_network.h); NULL before */

        struct nb_load load; /* as `join` has it: from the second step on without metadata, from the third on with it */
};

/* In the order of how much they say about a step. */
enum nb_check_mark {
        NB_CHECK_NOTE,
        NB_CHECK_GOOD,
        NB_CHECK_DOUBT, /* worth a look, or not to be told here */
        NB_CHECK_BAD,
        NB_CHECK_UNTRIED, /* since something before it failed */
        _NB_CHECK_MARK_N,
};

struct nb_check_step {
        const char *id;    /* for programs */
        const char *title; /* of the section that it is of */
        const char *label; /* for its rows where it takes time: how long is said; NULL: it has the section to itself */
        int (*run)(struct nb_check *check, struct nb_failure *f);
        bool (*applies)(const struct nb_check *check); /* false: it is no step of this join; NULL: always one */
        bool needs_all_before;
};

void nb_check_begin_step(struct nb_check *check, const struct nb_check_step *step);
void nb_check_leave_out(struct nb_check *check, const struct nb_check_step *step);
/* With its failure, or NB_NONE. */
void nb_check_end_step(struct nb_check *check, const struct nb_failure *f);
/* After the last one. 0, or -ENOMEM, -E2BIG where JSON could not be made. */
int nb_check_finish(struct nb_check *check, const struct nb_failure *first);

/* One line. What a terminal or a pipe could take for more than text is taken out. */
void nb_check_row(const struct nb_check *check, enum nb_check_mark mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A row for one setting: "timeout: 5m (ORIGIN)"; `instead` is the origin of the stronger value that counts in its place, or NULL. 0 or -ENOMEM. */
int nb_check_print_setting(const struct nb_check *check, const struct nb_settings *settings, enum nb_setting setting, const char *instead);

/* What lies in a folder under a name that is nearly one that is read. */
void nb_check_print_unread_settings(const struct nb_check *check);
void nb_check_print_unread_credentials(const struct nb_check *check, const char *folder);
/* NB_SETTINGS_UNREADABLE where a folder was asked for that is not there. */
int nb_check_folder(const struct nb_check *check, struct nb_failure *f);

/* Tokens and settings of metadata, as far as they count. */
int nb_check_print_given(const struct nb_check *check, struct nb_failure *f);

/* By mode and owner, as the service has rights: whether it can list the folders of settings, and read the files. NB_SETTINGS_UNREADABLE,
 * NB_DISCOVERY_FILE_UNREADABLE, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE. */
int nb_check_reach(const struct nb_check *check, struct nb_failure *f);
bool nb_check_is_readable_to_installer(const struct stat *st);

/* Whether the service would see an identity that cannot be seen here. */
bool nb_check_has_sealed_identity(const struct nb_check *check);

/* "node-bootstrap.token" */
const char *nb_check_credential_name(enum nb_check_credential credential);

/* By `systemctl cat`; nothing where systemd does not run. */
void nb_check_read_unit(struct nb_check_unit *ret_unit);
void nb_check_parse_unit(const char *text, struct nb_check_unit *ret_unit);

/* Looks which of the places for credentials there are. */
void nb_check_find_stores(struct nb_check *check);
void nb_check_forget_stores(void);

bool nb_check_has_folder(const struct nb_check *check);
bool nb_check_is_here(const struct nb_check *check);
bool nb_check_has_user_data(const struct nb_check *check);
int nb_check_settings(struct nb_check *check, struct nb_failure *f);
int nb_check_user_data(struct nb_check *check, struct nb_failure *f);
int nb_check_credentials(struct nb_check *check, struct nb_failure *f);
int nb_check_metadata(struct nb_check *check, struct nb_failure *f);
int nb_check_join(struct nb_check *check, struct nb_failure *f);

bool nb_check_is_machine(const struct nb_check *check);
int nb_check_files(struct nb_check *check, struct nb_failure *f);
int nb_check_kubelet(struct nb_check *check, struct nb_failure *f);

bool nb_check_is_online(const struct nb_check *check);
bool nb_check_is_direct(const struct nb_check *check);
bool nb_check_is_shown(const struct nb_check *check);
int nb_check_resolve(struct nb_check *check, struct nb_failure *f);
int nb_check_connect(struct nb_check *check, struct nb_failure *f);
int nb_check_tls(struct nb_check *check, struct nb_failure *f);
int nb_check_clock(struct nb_check *check, struct nb_failure *f);

bool nb_check_has_signature(const struct nb_check *check);
int nb_check_discover(struct nb_check *check, struct nb_failure *f);
int nb_check_signature(struct nb_check *check, struct nb_failure *f);
int nb_check_ca(struct nb_check *check, struct nb_failure *f);
int nb_check_api_server(struct nb_check *check, struct nb_failure *f);

bool nb_check_has_request(const struct nb_check *check);
int nb_check_identity(struct nb_check *check, struct nb_failure *f);
int nb_check_right(struct nb_check *check, struct nb_failure *f);
bool nb_check_is_requesting(const struct nb_check *check);
int nb_check_node_name(struct nb_check *check, struct nb_failure *f);
int nb_check_request(struct nb_check *check, struct nb_failure *f);

#define NB_CHECK_HIDDEN "****************"
#define NB_CHECK_TOKEN_TEXT_SIZE 128

/*
 * A token for people, in which nothing secret is left: "bootstrap token abcdef.****************". 0; -EINVAL when it is of no form that is known; -EBADMSG
 * when it is still encrypted; -ENOMEM.
 */
int nb_check_mask_token(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]);
