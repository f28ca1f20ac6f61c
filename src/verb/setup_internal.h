/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap setup`, in this order:
 *
 *      setup_arguments.c    the command line, also that of `kubeadm join`
 *      setup_inputs.c       the files that it names; values checked, tokens sorted
 *      setup_plan.c         what is there, and what would change
 *      setup_rehearse.c     whether `join` could begin with the whole                           nothing has changed
 *      setup_write.c        credentials, drop-in, settings                                      each whole or as it was
 *      setup_service.c      enabled, started, and watched until it has joined or failed
 */

#include <stdbool.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "base/sources.h"
#include "format/settings.h"
#include "verb/options.h"

#define NB_SETUP_UNIT "node-bootstrap.service"
#define NB_SETUP_DOCUMENT "50-setup.yaml"        /* in config.yaml.d */
#define NB_SETUP_SECRET_MAX ((size_t)256 * 1024) /* bytes of one credential */

#define NB_SETUP_DELIVERED "/run/credentials/@system" /* what the machine was booted with */

/* The credentials that setup knows. */
enum nb_setup_secret {
        NB_SETUP_TOKEN,
        NB_SETUP_TLS_BOOTSTRAP_TOKEN,
        NB_SETUP_KUBECONFIG,
        NB_SETUP_CLUSTER_INFO,
        _NB_SETUP_SECRET_N,
};

/* The name of the credential: "node-bootstrap.token". */
const char *nb_setup_secret_name(enum nb_setup_secret secret);

struct nb_setup {
        const char *config_directory; /* below `root`, where there is one */
        const char *root;             /* NULL: this machine */
        bool is_start_wanted;
        bool is_forced;
        bool is_rehearsal; /* --dry-run */

        struct nb_settings settings;                  /* the keys that were given are set, and no others */
        struct nb_secret secrets[_NB_SETUP_SECRET_N]; /* without a newline at the end; empty: not given */
};

#define NB_SETUP_ORIGIN "the command line" /* of the settings that stand on it */

/* What can be given once, by one option or another. */
enum nb_setup_value {
        NB_SETUP_VALUE_TOKEN,
        NB_SETUP_VALUE_DISCOVERY_TOKEN,
        NB_SETUP_VALUE_TLS_BOOTSTRAP_TOKEN,
        NB_SETUP_VALUE_DISCOVERY_FILE,
        NB_SETUP_VALUE_KUBECONFIG,
        NB_SETUP_VALUE_CONFIG,
        NB_SETUP_VALUE_NODE_NAME,
        NB_SETUP_VALUE_CRI_SOCKET,
        NB_SETUP_VALUE_TIMEOUT,
        NB_SETUP_VALUE_ROOT,
        _NB_SETUP_VALUE_N,
};

struct nb_setup_line {
        const char *given_by[_NB_SETUP_VALUE_N];    /* the name of the option; NULL: not given */
        const char *texts[_NB_SETUP_VALUE_N];       /* as it stands there */
        struct nb_secret tokens[_NB_SETUP_VALUE_N]; /* in its place where it is a token itself */
};

/* Into setup->settings and setup->secrets, all checked by themselves. Takes tokens over. */
int nb_setup_take(struct nb_setup_line *line, struct nb_setup *setup, struct nb_failure *f);

/* -ECANCELED and nothing set: the program ends with options->status. NB_USAGE, NB_TOKEN_*, NB_SETTINGS_*, ... */
int nb_setup_read(struct nb_options *options, struct nb_setup *ret_setup, struct nb_failure *f);
void nb_setup_done(struct nb_setup *setup);

enum nb_setup_step {
        NB_SETUP_KEEP,
        NB_SETUP_WRITE,
        NB_SETUP_REMOVE,
};

struct nb_setup_plan {
        struct nb_buffer document; /* 50-setup.yaml; written when `document_step` says so */
        enum nb_setup_step document_step;
        enum nb_setup_step secret_steps[_NB_SETUP_SECRET_N];
        unsigned n_changes; /* of values that something on this machine has set otherwise: each was printed */
};

#define NB_SETUP_PLAN_INIT \
        { .document = NB_BUFFER_INIT(NB_CONFIG_MAX) }

/* Compares, prints what would change, and checks the whole as `join` would. NB_SETTINGS_*, NB_TOKEN_*, NB_USAGE. */
int nb_setup_plan(const struct nb_setup *setup, struct nb_setup_plan *plan, struct nb_failure *f);
/* Whether `join` could begin with these settings and with the credentials as they will be. NB_SETTINGS_*, NB_TOKEN_*,
 * NB_DISCOVERY_FILE_*, NB_BOOTSTRAP_KUBECONFIG_*. */
int nb_setup_rehearse(const struct nb_setup *setup, const struct nb_setup_plan *plan, const struct nb_settings *settings, struct nb_failure *f);

bool nb_setup_plan_is_empty(const struct nb_setup_plan *plan);
void nb_setup_plan_done(struct nb_setup_plan *plan);

/* In a rehearsal what would be written is told, and nothing touched. NB_SETUP_UNWRITABLE, NB_SETUP_COMMAND_FAILED. */
int nb_setup_write(const struct nb_setup *setup, const struct nb_setup_plan *plan, struct nb_failure *f);

/* Removes all that setup writes, whoever put it there: document, credentials, drop-in. NB_SETUP_UNWRITABLE. */
int nb_setup_erase(const struct nb_setup *setup, struct nb_failure *f);

/* What is in a credstore folder of this machine or image: 0; -ENOENT; -EKEYREJECTED when it is encrypted and cannot be
 * decrypted here; -errno. */
int nb_setup_read_stored(const struct nb_setup *setup, enum nb_setup_secret secret, struct nb_secret *ret, struct nb_failure *f);

/* Tells what nb_setup_run_service() would do. */
void nb_setup_rehearse_service(const struct nb_setup *setup);

/* Enables the unit, and starts it if that is wanted; returns the exit status of the program, all being said. */
int nb_setup_run_service(const struct nb_setup *setup, bool is_changed);
