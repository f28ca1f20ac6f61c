/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where settings and credentials are found: the folder of configuration files and $CREDENTIALS_DIRECTORY. Bytes only;
 * what they mean is for format/.
 */

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_CONFIG_DIRECTORY "/etc/node-bootstrap"
#define NB_CONFIG_MAX (256 * 1024) /* bytes of one document */
#define NB_CONFIG_FILES_MAX 64     /* files in config.yaml.d */
#define NB_CREDENTIAL_CONFIG "node-bootstrap.config"
#define NB_CREDENTIAL_TOKEN "node-bootstrap.token"
#define NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN "node-bootstrap.tls-bootstrap-token"
#define NB_CREDENTIAL_KUBECONFIG "node-bootstrap.kubeconfig"
#define NB_CREDENTIAL_CLUSTER_INFO "node-bootstrap.cluster-info"
#define NB_NODE_PASSWORD_FILE "/etc/rancher/node/password" /* where k3s and RKE2 have it */
#define NB_GIVEN_PREFIX "given-"                           /* of the copies in the runtime directory */
#define NB_GIVEN_TEMPORARY ".given.tmp"                    /* of one in the making */
#define NB_GIVEN_PATH_MAX 200                              /* bytes of a path that can be handed over as such a copy */

/* `origin` names the document for people: a path, or "credential 'node-bootstrap.config'". */
struct nb_config_document {
        const char *origin;
        const char *path; /* NULL for the credential */
        const char *data;
        size_t len;
        bool is_exposed; /* others can read it */
};
typedef int (*nb_config_each)(void *userdata, const struct nb_config_document *document, struct nb_failure *f);

/*
 * Calls `each` for config.yaml, then the *.yaml of config.yaml.d sorted by name (C locale), then the credential: weakest
 * first. What is not there is passed over; `directory` NULL: the credential alone. Fails with NB_SETTINGS_UNREADABLE, or with what `each` said.
 */
int nb_sources_config(const char *directory, nb_config_each each, void *userdata, struct nb_failure *f);

/*
 * Reads a credential into a secret. -ENOENT (and no failure set) when there is none; NB_TOKEN_EXPOSED when others may
 * read it: systemd delivers 0400, or from 257 on 0440 with an ACL, so only the bits for others count.
 */
int nb_sources_credential(const char *name, size_t max, struct nb_secret *ret, struct nb_failure *f);

/*
 * For who asks outside of the service what it would get: where there is no $CREDENTIALS_DIRECTORY, credentials are taken from these
 * folders, strongest first, up to NULL. Borrowed; NULL: no longer.
 */
void nb_sources_use_stores(const char *const *folders);

/*
 * Reads one as systemd would deliver it from such a folder: links followed, whoever made them there is root or the administrator's tool.
 * -ENOENT; -EBADF when it is no regular file; -EFBIG above `max`; -errno.
 */
int nb_sources_read_stored(const char *folder, const char *name, size_t max, struct nb_secret *ret, struct stat *ret_stat);

/*
 * Reads a file that settings name, links followed. 0; -EBADF when it is no regular file; -EFBIG above `max`; -errno.
 * ret_stat may be NULL.
 *
 * The network side cannot read what only root may. So the installer leaves copies of such files in the runtime
 * directory before (install/give.h), and nb_sources_use_given() makes this function look there first. The root side
 * never calls that: it would read what the network side can replace.
 */
int nb_sources_read(const char *path, size_t max, struct nb_secret *ret, struct stat *ret_stat);
void nb_sources_use_given(int runtime_fd); /* borrowed; -1: no longer */

/* Removes all copies; the network side does so as soon as it has read them. */
int nb_sources_forget_given(int runtime_fd);

/* The name of the copy of a path: NB_GIVEN_PREFIX and the path, escaped as systemd-escape(1) does. -ENAMETOOLONG. */
int nb_given_name(const char *path, char ret_name[static NAME_MAX + 1]);

/* Opens the folder that an environment variable of systemd names ($STATE_DIRECTORY, ...). NB_USAGE when it is not set. */
int nb_sources_folder(const char *variable, int *ret_fd, struct nb_failure *f);

/* The host name as the kernel has it. */
int nb_sources_host_name(char ret[static HOST_NAME_MAX + 1], struct nb_failure *f);
