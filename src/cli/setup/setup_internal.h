/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap setup`, in this order:
 *
 *      setup_arguments.c  the command line, also that of `kubeadm join`
 *      setup_inputs.c     the files that it names; checks values, assigns tokens
 *      setup_joined.c     has this machine joined the cluster already? Then nothing changes
 *      setup_plan.c       what differs, and whether `join` could begin with the result
 *      setup_write.c      plans the changes of files, and makes all changes
 *      setup_service.c    plans how the service is enabled and started, and watches it until it has
 *                         joined and kubelet runs
 *      setup_node.c       asks kubelet whether it is healthy, and the cluster for the Node
 *
 * Whatever setup changes is first an entry of `changes`, in --dry-run as well, which differs only
 * in that nb_setup_apply() leaves it at that.
 */

#include <stdbool.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/machine_state.h"
#include "codec/json.h"
#include "settings/settings.h"
#include "system/sources.h"

#define NB_SETUP_UNIT NB_SERVICE_UNIT
#define NB_SETUP_DOCUMENT "50-setup.yaml"        /* in config.yaml.d */
#define NB_SETUP_SECRET_MAX ((size_t)256 * 1024) /* bytes of one credential */

#define NB_SETUP_KUBELET_MS 60000 /* for kubelet to run; from the end of the join */
/* A kubelet with a wrong configuration or a wrong certificate ends within this time. */
#define NB_SETUP_SETTLED_USEC ((uint64_t)3 * 1000000)
#define NB_SETUP_HEADER "# Written by `node-bootstrap setup`, which replaces it.\n"
#define NB_SETUP_DELIVERED "/run/credentials/@system" /* the credentials of the boot */

#define _NB_SETUP_SECRET_N NB_CREDENTIAL_ATTESTATION_KEY /* setup knows those before it */

enum nb_setup_step {
        NB_SETUP_KEEP,
        NB_SETUP_WRITE,
        NB_SETUP_REMOVE,
};

#define NB_SETUP_PATH_SIZE 4096

/* In the order of nb_setup_apply(): files, then the service. */
enum nb_setup_action {
        NB_SETUP_ACTION_CREATE, /* a folder that the service needs */
        NB_SETUP_ACTION_WRITE,
        NB_SETUP_ACTION_REMOVE,
        NB_SETUP_ACTION_ENABLE,
        NB_SETUP_ACTION_START,
        NB_SETUP_ACTION_RESTART,
        NB_SETUP_ACTION_RELOAD,
        _NB_SETUP_ACTION_N,
};

struct nb_setup_change {
        enum nb_setup_action action;
        const char *folder, *name; /* without `folder` a unit, without `name` a folder */
        mode_t mode;
        const void *data; /* owned by struct nb_setup */
        size_t len;
        bool is_already_so; /* done again, and not reported: nothing differs */
};

#define NB_SETUP_CHANGES_MAX 32 /* at most 20 are planned */

/* What setup waits for (--wait). */
enum nb_setup_wait {
        NB_SETUP_WAIT_KUBELET, /* it runs, and is healthy */
        NB_SETUP_WAIT_NONE,    /* nothing */
        NB_SETUP_WAIT_JOINED,  /* the service is active */
        NB_SETUP_WAIT_NODE,    /* kubelet is healthy, and has created the Node */
};

struct nb_setup {
        const char *config_directory; /* below `root`, if there is one */
        const char *root;             /* NULL: this machine */
        bool is_start_unwanted;
        bool is_forced;
        bool is_rehearsal; /* --dry-run */
        bool is_json;
        uint64_t watch_ms; /* how long the service is watched; NB_TIME_INFINITE */
        enum nb_setup_wait wait;

        struct nb_settings settings; /* only what is on the command line is set */
        struct nb_secret
                secrets[_NB_SETUP_SECRET_N]; /* without a newline at the end; empty: none */
        struct nb_secret pasted;             /* a pasted line, which values point into */

        struct nb_machine_state state; /* before anything is changed; not with `root` */
        bool has_never_joined;         /* this machine: it has no certificate and no record */

        /* nb_setup_load(). The files are read once, and kept in memory. */
        struct nb_sources sources;
        char directory[NB_SETUP_PATH_SIZE], path[NB_SETUP_PATH_SIZE + 64]; /* of the settings, of
                                                                              50-setup.yaml */
        struct nb_settings now; /* of this machine or image; with a plan, the new ones */
        bool is_second; /* 50-setup.yaml exists: a setting that is not repeated is a change */
        struct nb_buffer document; /* the new one; empty: no setting is set */
        bool is_document_new;

        /* nb_setup_plan() */
        enum nb_setup_step steps[_NB_SETUP_SECRET_N]; /* of the credentials */
        unsigned n_steps;                             /* other than NB_SETUP_KEEP */
        bool has_new_secret;
        bool has_unknown_secret; /* a credential that is kept can be read only by the service */
        bool is_changed;         /* something is to be written or removed */
        unsigned n_different; /* settings and credentials that differ from this machine's; each was
                                 already reported */
        unsigned n_kept;      /* of these, settings that a new join command does not replace */

        /* nb_setup_plan_files(), nb_setup_plan_service() */
        struct nb_setup_change changes[NB_SETUP_CHANGES_MAX];
        unsigned n_planned, n_done;
        char document_folder[NB_SETUP_PATH_SIZE]; /* config.yaml.d */
        struct nb_unit_state service;             /* as it was */

        struct nb_json_writer writer; /* of the result, at its list of differences */
};

#define NB_SETUP_ORIGIN "the command line" /* of the settings on it */

/* Values that are on the command line at most once. */
enum nb_setup_input {
        NB_SETUP_INPUT_TOKEN_FILE,
        NB_SETUP_INPUT_DISCOVERY_FILE,
        NB_SETUP_INPUT_KUBECONFIG,
        NB_SETUP_INPUT_CONFIG,
        NB_SETUP_INPUT_TIMEOUT,
        NB_SETUP_INPUT_WAIT,
        NB_SETUP_INPUT_ROOT,
        _NB_SETUP_INPUT_N,
};

/* What a token is for; in the order in which they become credentials. */
enum nb_setup_token_kind {
        NB_SETUP_TOKEN_DISCOVERY,
        NB_SETUP_TOKEN_COMMON, /* for both, unless another one is set */
        NB_SETUP_TOKEN_TLS,
        _NB_SETUP_TOKEN_N,
};

#define NB_SETUP_WORDS_MAX 128

/* The command line as it was typed. */
struct nb_setup_line {
        struct nb_options *options;
        struct nb_setup *setup;
        const char *values[_NB_SETUP_INPUT_N]; /* NULL: not on the command line */
        struct nb_setup_token {
                const char *option; /* its name; NULL: there is no token */
                struct nb_secret value;
        } tokens[_NB_SETUP_TOKEN_N];
        const char *stdin_reader;        /* the argument for which standard input was read */
        char ignored[256];               /* options */
        char *words[NB_SETUP_WORDS_MAX]; /* the words of a pasted line, then the remaining arguments
                                          */
        int n_pasted;       /* words from standard input, which are not on the command line */
        int n_words;        /* after `kubeadm join` */
        bool is_join_due;   /* the last word was `kubeadm` */
        bool is_token_seen; /* a token was on the command line */
};

/* Stores a value of the command line. The values of a list are separated by commas. `option` is for
 * messages. NB_USAGE. */
int nb_setup_store(struct nb_setup *setup, enum nb_setting setting, const char *option,
                   const char *text, struct nb_failure *f);

/* Reads a file, a pipe (process substitution), or standard input if `path` is "-". `reader` is the
 * argument that asks for it. `ret_is_exposed` returns whether others can read the file; if NULL,
 * such a file is refused. NB_USAGE, NB_TOKEN_EXPOSED, NB_SETTINGS_UNREADABLE. */
int nb_setup_read_input(struct nb_setup_line *line, const char *reader, const char *path,
                        size_t max, bool *ret_is_exposed, struct nb_secret *ret,
                        struct nb_failure *f);

/* Reads and checks all inputs into the settings and secrets of line->setup. Moves tokens. */
int nb_setup_take_inputs(struct nb_setup_line *line, struct nb_failure *f);

/* Reads the command line and all files that it names. -ECANCELED without a failure, as from
 * nb_options_next(). NB_USAGE, NB_TOKEN_*, NB_SETTINGS_*, ... */
int nb_setup_read(struct nb_options *options, struct nb_setup *ret_setup, struct nb_failure *f);
void nb_setup_done(struct nb_setup *setup);

/* Reads the settings of this machine or image, and formats the new document. NB_SETTINGS_*,
 * NB_TOKEN_*. */
int nb_setup_load(struct nb_setup *setup, struct nb_failure *f);

/* Reports what differs, and checks whether `join` could begin with the result. NB_SETTINGS_*,
 * NB_TOKEN_*, NB_USAGE, NB_DISCOVERY_FILE_*, NB_BOOTSTRAP_KUBECONFIG_*. */
int nb_setup_plan(struct nb_setup *setup, struct nb_failure *f);

enum nb_setup_joined {
        NB_SETUP_NOT_JOINED,     /* or unknown */
        NB_SETUP_JOINED,         /* this cluster, and nothing else would change */
        NB_SETUP_JOINED_BEFORE,  /* this cluster, and the machine has to join it again */
        NB_SETUP_JOINED_ANOTHER, /* no pin matches its CA */
};

/* Compares what is typed with the cluster of the last join, and prints the result if nothing is to
 * be done, or if it is another cluster. */
enum nb_setup_joined nb_setup_find_joined(struct nb_setup *setup);

/* Whether a setting has the same value in both. */
bool nb_setup_is_equal(const struct nb_settings *a, const struct nb_settings *b,
                       enum nb_setting key);

void nb_setup_add_change(struct nb_setup *setup, const struct nb_setup_change *change);

/* Plans the files from `steps` and the document. NB_SETUP_UNWRITABLE. */
int nb_setup_plan_files(struct nb_setup *setup, struct nb_failure *f);

/* On a machine that has joined: plans the removal of the tokens that are encrypted, or that systemd
 * cannot read, if the service did not start for a credential. NB_SETUP_UNWRITABLE. */
int nb_setup_plan_repair(struct nb_setup *setup, struct nb_failure *f);

/* How the service is enabled and, if wanted, started. NB_UNIT_MASKED, NB_UNIT_MISSING,
 * NB_SETUP_COMMAND_FAILED. */
int nb_setup_plan_service(struct nb_setup *setup, struct nb_failure *f);

/* Makes the planned changes up to the last one whose action is at most `last`, and prints them; in
 * a rehearsal only prints them. NB_SETUP_UNWRITABLE, NB_SETUP_COMMAND_FAILED, NB_DIRECTORY_MISSING.
 */
int nb_setup_apply(struct nb_setup *setup, enum nb_setup_action last, struct nb_failure *f);

/* Appends the changes that were made, or in a rehearsal would be, to "changes". Returns whether
 * there is one. */
bool nb_setup_put_changes(struct nb_setup *setup);

/* Reads a credential from a store of this machine or image: 0; -ENOENT; -EKEYREJECTED if it is
 * encrypted; -errno. */
int nb_setup_read_stored(const struct nb_setup *setup, const char *name, struct nb_secret *ret,
                         struct nb_failure *f);

/* What nb_machine_look() finds. 0 or -ENOMEM. */
int nb_setup_look_at_kubelet(struct nb_unit_state *ret_kubelet, enum nb_machine_kind *ret_kind,
                             struct nb_failure *ret_why);

/*
 * Asks every second until `until_ms`, and at least once, each time in an unprivileged child:
 * kubelet whether it is healthy if it runs and, with NB_SETUP_WAIT_NODE, the API server for the
 * Node. 0; the exit status of the last child, with its failure, which it has printed; or the
 * failure of a kubelet that has ended, NB_INTERNAL.
 */
int nb_setup_await_node(const struct nb_setup *setup, bool runs, uint64_t until_ms,
                        struct nb_failure *f);

/* Makes the planned changes of the service, and watches it if it was started: the exit status, or
 * the failure of the service, NB_SETUP_UNFINISHED, NB_SETUP_COMMAND_FAILED, ... A failure that was
 * already printed comes with its exit status. */
int nb_setup_run_service(struct nb_setup *setup, struct nb_failure *f);
