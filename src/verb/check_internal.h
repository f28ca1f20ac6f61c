/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap check`: what a join would begin with, read in the places where the service reads it, and nothing changed. A
 * table of steps (check.c), each with a section of the output:
 *
 *      check_settings.c       Settings                  the documents of this machine
 *      check_credentials.c    Credentials and tokens    those of the service, or of the stores that systemd takes them from;
 *      check_unit.c                                     and by which drop-ins it gets others
 *      check_metadata.c       Metadata                  which cloud this is; read only where a join would read it
 *      check_join.c           Join                      whether one could begin with all of it
 *
 * A step prints rows as it finds them. It returns 0, or a failure, which is printed with its remedy and does not keep later steps
 * from running, unless they need what it was to find.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "format/settings.h"
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
};

struct nb_check {
        const char *config_directory;
        bool shows_all; /* --all: settings with their default, and credentials that are not there */
        bool is_coloured;

        const char *stores[NB_CHECK_STORES_MAX + 1]; /* those that can be read here, for nb_sources_use_stores() */
        struct nb_check_unit unit;
        unsigned sealed; /* bit n: the service gets that credential, and it cannot be looked into here */

        /* Of the documents, as they stand there; their tokens are not among what is loaded below. */
        bool has_settings;
        struct nb_settings_tokens tokens;
        struct nb_settings settings;

        struct nb_load load; /* as `join` has it: from the second step on without metadata, from the third on with it */
};

enum nb_check_mark {
        NB_CHECK_GOOD,
        NB_CHECK_BAD,
        NB_CHECK_DOUBT, /* worth a look, or not to be told here */
        NB_CHECK_NOTE,
};

/* One line. What a terminal or a pipe could take for more than text is taken out. */
void nb_check_row(const struct nb_check *check, enum nb_check_mark mark, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* A row for one setting: "timeout: 5m (ORIGIN)"; `instead` is the origin of the stronger value that counts in its place, or NULL. 0 or -ENOMEM. */
int nb_check_print_setting(const struct nb_check *check, const struct nb_settings *settings, enum nb_setting setting, const char *instead);

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

int nb_check_settings(struct nb_check *check, struct nb_failure *f);
int nb_check_credentials(struct nb_check *check, struct nb_failure *f);
int nb_check_metadata(struct nb_check *check, struct nb_failure *f);
int nb_check_join(struct nb_check *check, struct nb_failure *f);

#define NB_CHECK_HIDDEN "****************"
#define NB_CHECK_TOKEN_TEXT_SIZE 128

/*
 * A token for people, in which nothing secret is left: "bootstrap token abcdef.****************". 0; -EINVAL when it is of no form that is known; -EBADMSG
 * when it is still encrypted; -ENOMEM.
 */
int nb_check_mask_token(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]);
