/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files that settings, credentials and state come from, as bytes. Every function takes a
 * `struct nb_sources`, which says where they are; the main function of each program fills it in.
 */

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_CONFIG_DIRECTORY "/etc/node-bootstrap"
#define NB_CONFIG_MAX (256 * 1024) /* bytes of one document */
#define NB_CONFIG_FILES_MAX 64     /* files in config.yaml.d */
#define NB_CREDENTIAL_CONFIG_NAME "node-bootstrap.config"
#define NB_CREDENTIAL_TOKEN_NAME "node-bootstrap.token"
#define NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME "node-bootstrap.tls-bootstrap-token"
#define NB_CREDENTIAL_KUBECONFIG_NAME "node-bootstrap.kubeconfig"
#define NB_CREDENTIAL_CLUSTER_INFO_NAME "node-bootstrap.cluster-info"
/* Only the prover gets this credential. */
#define NB_CREDENTIAL_ATTESTATION_KEY_NAME "node-bootstrap.attestation-key"

/* The credentials of node-bootstrap.service, and their names. */
enum nb_credential {
        NB_CREDENTIAL_TOKEN,
        NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN,
        NB_CREDENTIAL_KUBECONFIG,
        NB_CREDENTIAL_CLUSTER_INFO,
        NB_CREDENTIAL_CONFIG,
        _NB_CREDENTIAL_N,
};
extern const char *const nb_credential_names[_NB_CREDENTIAL_N];

/* If the variable is set, this descriptor has the data that install passes to its child. */
#define NB_SOURCES_FD 4
#define NB_SOURCES_VARIABLE "NODE_BOOTSTRAP_SOURCES"
#define NB_SOURCES_MAX (7 * 1024 * 1024) /* bytes; less than LimitFSIZE= of the units */

/* The folders in which systemd looks for a credential (systemd.exec(5)), strongest first; encrypted
 * ones only if there is no other. */
#define NB_STORES_N 10
extern const struct nb_store {
        const char *folder;
        bool is_sealed; /* of encrypted credentials */
} nb_stores[NB_STORES_N];

/* Whether this user can list a store and search it. 0, -errno. */
int nb_store_look(const char *folder);

struct nb_sources {
        const char *config_directory;        /* NULL: read no configuration files */
        const char *credentials_directory;   /* $CREDENTIALS_DIRECTORY; NULL: not run by systemd */
        const char *stores[NB_STORES_N + 1]; /* credential stores to read instead, in order of
                                                precedence, ending with NULL */
        bool is_tolerant; /* nb_sources_config() skips what it cannot read, although it sets the
                             failure */
        bool is_keeping;  /* keep what is read in memory, for reads after privileges are dropped */
        struct nb_kept *kept;
};

/* Reads $CREDENTIALS_DIRECTORY. Nothing is allocated yet. */
void nb_sources_init(struct nb_sources *ret_sources, const char *config_directory);

/* Returns the store that takes precedence among those with the credential, also if this user cannot
 * read it; NULL if there is none. */
const struct nb_store *nb_store_find(const char *name);

/* Sets `stores` to the stores of credentials that are not encrypted, as far as this user can read
 * them. */
void nb_sources_find_stores(struct nb_sources *sources);

/* Whether only the service can read a credential: the store that takes precedence is one of
 * encrypted credentials, and its value is not kept in memory. */
bool nb_sources_is_sealed(const struct nb_sources *sources, const char *name);

/* Wipes what is kept in memory; later reads are not kept. */
void nb_sources_done(struct nb_sources *sources);

/* `origin` names the document for people: a path, or "credential 'node-bootstrap.config'". */
struct nb_config_document {
        const char *origin;
        const char *data;
        size_t len;
        bool is_exposed; /* others can read it */
};
typedef int (*nb_config_each)(void *userdata, const struct nb_config_document *document,
                              struct nb_failure *f);

/*
 * Calls `each` for config.yaml, then the *.yaml of config.yaml.d sorted by name (C locale), then
 * the credential: later ones take precedence. Missing files are skipped. NB_SETTINGS_UNREADABLE, or
 * the failure of `each`.
 */
int nb_sources_config(struct nb_sources *sources, nb_config_each each, void *userdata,
                      struct nb_failure *f);

/*
 * Reads a credential. -ENOENT without a failure if there is none. NB_TOKEN_EXPOSED if others can
 * read it, here or in the credential store it comes from: systemd delivers it with mode 0400, or
 * from 257 on with 0440 and an ACL, so only the bits for others matter.
 */
int nb_sources_credential(struct nb_sources *sources, const char *name, size_t max,
                          struct nb_secret *ret, struct nb_failure *f);

/* Reads a credential from a credential store; follows links, like systemd. -ENOENT; -EBADF if it is
 * not a regular file; -EFBIG above `max`; -errno. The bits for others in ret_stat->st_mode are 0
 * unless nb_file_is_exposed(). */
int nb_sources_read_stored(const char *folder, const char *name, size_t max, struct nb_secret *ret,
                           struct stat *ret_stat);

/* Finds the store of credentials that are not encrypted that has the same bytes as what systemd has
 * delivered, and their attributes. NULL if there is none. */
const char *nb_sources_find_stored(const char *name, const struct nb_secret *delivered,
                                   struct stat *ret_stat);

/* Reads a file; follows links. 0; -EBADF if it is not a regular file; -EFBIG above `max`; -errno.
 * ret_stat may be NULL; its bits for others are 0 unless nb_file_is_exposed(). */
int nb_sources_read(struct nb_sources *sources, const char *path, size_t max, struct nb_secret *ret,
                    struct stat *ret_stat);

/* The same for a file that is named in the settings, which may be on a file system that hangs, such
 * as NFS: kubelet waits for install, even on a machine that has joined. -ETIMEDOUT after
 * NB_SOURCES_READ_TIMEOUT_MS, unless this process may start no other. */
#define NB_SOURCES_READ_TIMEOUT_MS 10000
int nb_sources_read_named(struct nb_sources *sources, const char *path, size_t max,
                          struct nb_secret *ret, struct stat *ret_stat);

/* Reads a descriptor to its end. `name` is for messages, such as "standard input".
 * NB_SETTINGS_UNREADABLE; -ECANCELED without a failure if a stop was requested. */
int nb_sources_read_stream(int fd, const char *name, size_t max, struct nb_secret *ret,
                           struct nb_failure *f);

/* A file has an absolute path, and is also listed in its folder. */
enum nb_source_kind {
        NB_SOURCE_FILE,
        NB_SOURCE_CREDENTIAL,
        NB_SOURCE_PLAN, /* of join_method/plan.h; not on disk */
};

/* Adds a source to those kept in memory. If `value` is NULL, the file or credential is missing. 0
 * or -ENOMEM. */
int nb_sources_put(struct nb_sources *sources, enum nb_source_kind kind, const char *name,
                   mode_t mode, const struct nb_secret *value);

/* Returns what nb_sources_put() has added, or NULL. */
const struct nb_secret *nb_sources_find(const struct nb_sources *sources, enum nb_source_kind kind,
                                        const char *name);

/*
 * Writes what is kept in memory to a sealed memory file, for the process that uses the network and
 * cannot read root's files. -E2BIG above NB_SOURCES_MAX; -errno.
 */
int nb_sources_pass(const struct nb_sources *sources, int *ret_fd);

/* Receives the data of nb_sources_pass() and closes NB_SOURCES_FD. Does nothing if the parent
 * passes no data. NB_PROGRAM_REPLACED if the parent is from another build; NB_INTERNAL. */
int nb_sources_receive(struct nb_sources *sources, struct nb_failure *f);

/* Opens the folder in an environment variable that systemd sets, such as $STATE_DIRECTORY. NB_USAGE
 * if it is not set. */
int nb_sources_folder(const char *variable, int *ret_fd, struct nb_failure *f);

/* Reads the host name from the kernel. NB_INTERNAL. */
int nb_sources_host_name(char ret[static HOST_NAME_MAX + 1], struct nb_failure *f);

/* Whether `name` is "localhost" or begins with "localhost.". */
bool nb_host_name_is_localhost(const char *name);

/* Whether somebody has set this host name. The host name of a machine without a name is empty,
 * "(none)", localhost, or DEFAULT_HOSTNAME= in os-release. */
bool nb_host_name_is_set(int root_fd, const char *name);
