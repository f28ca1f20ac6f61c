/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * `node-bootstrap setup`, in steps, each with an input and a result:
 *
 *      setup_arguments.c  the command line, also that of `kubeadm join`    -> wanted
 *      setup_inputs.c     the files that it names                          -> wanted
 *      setup_find.c       this machine or image                            -> found
 *      setup_plan.c       wanted and found: what differs, and whether
 *                         `join` could begin with the result               -> plan
 *      setup_effects.c    plan, on a machine that has joined: what kubelet
 *                         and its Node make of it                          -> plan.effects
 *      setup_changes.c    plan: which files change, in which order         -> plan.changes
 *      setup_service.c    how the service is enabled and started           -> plan.changes
 *      setup_changes.c    makes the changes
 *      setup_watch.c      looks at this machine, as `status` and `check` do, until kubelet is
 *                         healthy
 *
 * Whatever setup changes is first an entry of plan.changes, in --dry-run as well, which differs
 * only in that no change is made.
 */

#include <stdbool.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "cli/commands.h"
#include "cli/machine_state.h"
#include "codec/json.h"
#include "os/sources.h"
#include "settings/settings.h"

#define NB_SETUP_DOCUMENT "50-setup.yaml"        /* in config.yaml.d */
#define NB_SETUP_SECRET_MAX ((size_t)256 * 1024) /* bytes of one credential */
#define NB_SETUP_PATH_SIZE 4096

#define NB_SETUP_KUBELET_MS 60000 /* for kubelet to run; from the end of the join */
/* A kubelet with a wrong configuration or a wrong certificate ends within this time. */
#define NB_SETUP_SETTLED_USEC ((uint64_t)3 * 1000000)
#define NB_SETUP_STORE "/etc/credstore"
#define NB_SETUP_STORE_ENCRYPTED "/etc/credstore.encrypted"
#define NB_SETUP_DELIVERED "/run/credentials/@system" /* the credentials of the boot */

#define _NB_SETUP_SECRET_N NB_CREDENTIAL_CONFIG /* setup knows those before it */

/* --- Wanted --- */

/* What setup waits for (--wait), in the order of the names in setup_inputs.c. */
enum nb_setup_wait {
        NB_SETUP_WAIT_KUBELET,     /* it runs, and is healthy */
        NB_SETUP_WAIT_NONE,        /* nothing */
        NB_SETUP_WAIT_CERTIFICATE, /* the service is active */
        NB_SETUP_WAIT_NODE,        /* kubelet is healthy, and has created the Node */
        _NB_SETUP_WAIT_N,
};

struct nb_setup_wanted {
        const char *config_directory; /* below `root`, if there is one */
        const char *root;             /* NULL: this machine */
        bool is_start_unwanted;
        bool is_forced;
        bool is_rehearsal; /* --dry-run */
        bool is_json;
        uint64_t watch_ms; /* how long to watch; NB_TIME_INFINITE */
        enum nb_setup_wait wait;

        struct nb_settings settings; /* only what is on the command line, or in --config, is set */
        bool has_settings;
        bool is_document; /* they are all settings: those of --config */
        struct nb_secret
                secrets[_NB_SETUP_SECRET_N]; /* without a newline at the end; empty: none */
        struct nb_secret pasted;             /* a pasted line, which values point into */
};

#define NB_SETUP_ORIGIN "the command line" /* of the settings on it */

/* Reads the command line and all files that it names. Release `ret_wanted` with
 * nb_setup_wanted_done() even after a failure. -ECANCELED without a failure, as from
 * nb_options_next(). NB_USAGE, NB_TOKEN_*, NB_SETTINGS_*, ... */
int nb_setup_read(struct nb_options *options, struct nb_setup_wanted *ret_wanted,
                  struct nb_failure *f);

/* Wipes the secrets, and the line that `root` may point into; the rest can still be used. */
void nb_setup_wanted_done(struct nb_setup_wanted *wanted);

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
        struct nb_setup_wanted *wanted;
        const char *values[_NB_SETUP_INPUT_N]; /* NULL: not on the command line */
        struct nb_setup_token {
                const char *option; /* its name; NULL: there is no token */
                struct nb_secret value;
        } tokens[_NB_SETUP_TOKEN_N];
        const char *stdin_reader;        /* the argument for which standard input was read */
        char ignored[256];               /* options */
        char *words[NB_SETUP_WORDS_MAX]; /* the words of a pasted line, then the remaining arguments
                                          */
        int n_pasted;         /* words from standard input, which are not on the command line */
        const char *previous; /* the last word that was pasted */
        bool is_complete;     /* they suffice for a join ... */
        int n_after;          /* ... and this many words after them are ignored */
        int n_words;          /* after `kubeadm join` */
        bool is_join_due;     /* the last word was `kubeadm` */
        bool is_token_seen;   /* a token was on the command line */
};

#define NB_SETUP_API_SERVER "the API server" /* the word of `kubeadm join` */

/* Stores a value of the command line. The values of a list are separated by commas. `option` is for
 * messages. NB_USAGE. */
int nb_setup_store(struct nb_settings *settings, enum nb_setting setting, const char *option,
                   const char *text, struct nb_failure *f);

/* Reads a file, a pipe (process substitution), or standard input if `path` is "-". `reader` is the
 * argument that asks for it. `ret_is_exposed` returns whether others can read the file; if NULL,
 * such a file is refused. NB_USAGE, NB_TOKEN_EXPOSED, NB_SETTINGS_UNREADABLE. */
int nb_setup_read_input(struct nb_setup_line *line, const char *reader, const char *path,
                        size_t max, bool *ret_is_exposed, struct nb_secret *ret,
                        struct nb_failure *f);

/* Appends what the terminal on standard input returns, one line at a time; nothing at its end.
 * NB_SETTINGS_UNREADABLE; -ECANCELED without a failure. */
int nb_setup_read_terminal(struct nb_secret *text, struct nb_failure *f);

/* Reads and checks all inputs into the settings and secrets of line->wanted. Moves tokens. */
int nb_setup_take_inputs(struct nb_setup_line *line, struct nb_failure *f);

/* --- Found --- */

/* A credential of this machine or image. */
struct nb_setup_credential {
        struct nb_secret stored;    /* in NB_SETUP_STORE */
        int r;                      /* of reading it: 0; -ENOENT; -EKEYREJECTED: there is only an
                                       encrypted one; -errno */
        struct nb_secret delivered; /* to this boot, by the hypervisor or container manager */
        bool is_delivered;          /* even if it cannot be read */
};

struct nb_setup_found {
        struct nb_sources sources; /* the files are read once, and kept in memory */
        char directory[NB_SETUP_PATH_SIZE], path[NB_SETUP_PATH_SIZE + 64]; /* of the settings, of
                                                                              50-setup.yaml */
        struct nb_secret document; /* 50-setup.yaml; .data is NULL if there is none */
        struct nb_settings settings;
        struct nb_setup_credential credentials[_NB_SETUP_SECRET_N];
        struct nb_machine_state state; /* not of an image */
        struct nb_secret flags;        /* kubeadm-flags.env */
        bool is_joined;                /* this machine, and its next start does not join again */
        bool has_never_joined;         /* this machine: it has no certificate and no record */
        bool are_settings_refused;     /* `settings` has what could be read of them */
};

/* Reads this machine or image. Release `ret_found` with nb_setup_found_done() even after a failure.
 * NB_SETTINGS_*, NB_TOKEN_*. */
int nb_setup_find(const struct nb_setup_wanted *wanted, struct nb_setup_found *ret_found,
                  struct nb_failure *f);
void nb_setup_found_done(struct nb_setup_found *found);

/* --- Plan --- */

enum nb_setup_step {
        NB_SETUP_KEEP,
        NB_SETUP_WRITE,
        NB_SETUP_REMOVE, /* the plain and the encrypted form */
};

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
        const void *data; /* borrowed from the plan's document, or from the secrets wanted */
        size_t len;
        bool is_already_so; /* done again, and not reported: nothing differs */
};

#define NB_SETUP_CHANGES_MAX 32 /* at most 20 are planned */

struct nb_setup_difference {
        char what[64];        /* "discovery.endpoints", "credential node-bootstrap.token" */
        char *before, *after; /* a token by its ID only */
};

enum nb_setup_cluster {
        NB_SETUP_CLUSTER_UNPROVEN,
        NB_SETUP_CLUSTER_SAME,  /* a hash matches the CA of this machine */
        NB_SETUP_CLUSTER_OTHER, /* no pin matches it */
};

struct nb_setup_plan {
        enum nb_setup_cluster cluster;
        bool is_token_unneeded;    /* this machine stays joined: the token is not written */
        struct nb_buffer document; /* the new 50-setup.yaml; empty: there is none */
        bool is_document_new;
        const struct nb_secret *secrets[_NB_SETUP_SECRET_N]; /* to be stored; NULL: none */
        enum nb_setup_step steps[_NB_SETUP_SECRET_N];        /* of the credentials */
        bool has_encrypted_secret; /* the service gets one that only it can read */
        bool is_changed;           /* a file is written or removed */

        struct nb_setup_difference differences[_NB_SETTING_N + _NB_SETUP_SECRET_N];
        unsigned n_differences;
        unsigned n_kept; /* settings among them that a new join command does not replace */
        struct nb_settings settings; /* of this machine or image, once the document is written */

        /* On a machine that has joined, and stays so */
        struct nb_buffer effects; /* lines for a person */
        bool is_flags_file_due;   /* the service writes kubeadm-flags.env again */
        bool is_start_due;        /* the other changes need a start of the service */

        struct nb_setup_change changes[NB_SETUP_CHANGES_MAX];
        unsigned n_changes, n_done;
        char document_folder[NB_SETUP_PATH_SIZE]; /* config.yaml.d */
        struct nb_unit_state service;             /* as it was */
};

#define NB_SETUP_PLAN_INIT \
        { \
                .document = NB_BUFFER_INIT(NB_CONFIG_MAX), \
                .effects = NB_BUFFER_INIT(NB_SETUP_EFFECTS_MAX) \
        }

#define NB_SETUP_EFFECTS_MAX ((size_t)256 * 1024) /* bytes */

/* Whether a machine that has joined has what is wanted. Of endpoints and pins, it may have more: a
 * join command has one of several API servers. If it is the same cluster, it needs none of its own.
 */
bool nb_setup_is_in_force(const struct nb_settings *wanted, const struct nb_settings *found,
                          bool is_cluster_same);

/* Adds the settings that differ between found->settings and plan->settings. Fails if a wanted
 * setting would not take effect. NB_USAGE. */
int nb_setup_compare_settings(const struct nb_setup_wanted *wanted,
                              const struct nb_setup_found *found, struct nb_setup_plan *plan,
                              struct nb_failure *f);

/* The same for one credential. Sets its step. NB_USAGE, NB_SETTINGS_UNREADABLE. */
int nb_setup_compare_secret(const struct nb_setup_found *found, enum nb_credential secret,
                            struct nb_setup_plan *plan, struct nb_failure *f);

/* Appends what other settings mean to kubelet and its Node, in lines for a person. `file` is the
 * text of kubeadm-flags.env, "" without one. Returns whether the service will write it again. */
bool nb_setup_explain(const struct nb_record *record, const char *file,
                      const struct nb_settings *settings, struct nb_buffer *ret);

/*
 * Everything but `changes`. The sources of `found` then have what the service will get. Release
 * `plan`, which begins as NB_SETUP_PLAN_INIT, with nb_setup_plan_done(). NB_SETTINGS_*, NB_TOKEN_*,
 * NB_USAGE, NB_DISCOVERY_FILE_*, NB_BOOTSTRAP_KUBECONFIG_*; NB_SETUP_OTHER_CLUSTER and
 * NB_SETUP_CONFLICT unless --force is wanted.
 */
int nb_setup_plan(const struct nb_setup_wanted *wanted, struct nb_setup_found *found,
                  struct nb_setup_plan *plan, struct nb_failure *f);
void nb_setup_plan_done(struct nb_setup_plan *plan);

void nb_setup_add_change(struct nb_setup_plan *plan, const struct nb_setup_change *change);

/* Adds the changes of files, in their order. Asks no file system. */
void nb_setup_order(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan);

/* nb_setup_order(), and the folders that the service needs; leaves out what needs no change, and
 * refuses what cannot be written. NB_SETUP_UNWRITABLE. */
int nb_setup_plan_files(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                        struct nb_failure *f);

/* How the service is enabled and, if wanted, started. NB_UNIT_MASKED, NB_UNIT_MISSING,
 * NB_SETUP_COMMAND_FAILED. */
int nb_setup_plan_service(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                          struct nb_setup_plan *plan, struct nb_failure *f);

/* --- Changes --- */

/* Makes the planned changes up to the last one whose action is at most `last`, and prints them; in
 * a rehearsal only prints them. NB_SETUP_UNWRITABLE, NB_SETUP_COMMAND_FAILED, NB_DIRECTORY_MISSING.
 */
int nb_setup_apply(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                   enum nb_setup_action last, struct nb_failure *f);

/* Appends the changes that were made, or in a rehearsal would be, to "changes". Returns whether
 * there is one. */
bool nb_setup_put_changes(const struct nb_setup_wanted *wanted, const struct nb_setup_plan *plan,
                          struct nb_json_writer *writer);

/* Why the join waits, as far as it was printed. */
struct nb_setup_reasons {
        bool is_printed[_NB_CODE_N];
        char printed[NB_FAILURE_DETAIL_MAX]; /* the last one */
        char seen[NB_FAILURE_DETAIL_MAX];    /* at the last look */
        unsigned n_seen;                     /* in so many looks, without a break */
        char csr[NB_FIELD_SIZE];             /* that was seen last; "" */
};

/* Whether a reason (NB_NONE: there is none) must be printed at this look: the first of its code for
 * each CSR ("": none yet), whose name somebody may have to type; and one that is not the last
 * printed one after this many looks without a break, since those of two endpoints may alternate for
 * days. */
#define NB_SETUP_REASON_LOOKS 60
bool nb_setup_reason_is_due(struct nb_setup_reasons *reasons, enum nb_code code, const char *detail,
                            const char *csr);

/* Makes the planned changes of the service, and watches this machine for what is to be waited for.
 * The exit status, or the failure of the service or of kubelet, NB_SETUP_UNFINISHED,
 * NB_SETUP_COMMAND_FAILED, ... A failure that was already printed comes with its exit status. */
int nb_setup_watch(const struct nb_setup_wanted *wanted, struct nb_setup_plan *plan,
                   struct nb_failure *f);
