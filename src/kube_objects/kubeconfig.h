/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads kubeconfigs (kind: Config, apiVersion: v1; kubernetes client-go/tools/clientcmd/api/v1).
 * One reader parses all of them; a policy defines what each may contain. For writing, see
 * kubeconfig_format.h.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "codec/url.h"
#include "codec/yaml.h"
#include "kube_objects/identity.h"

#define NB_KUBECONFIG_MAX (1024 * 1024)
#define NB_CONTEXT_MAX 255

/* A cluster: the address of its API server, and the CAs that verify this server. */
struct nb_cluster {
        struct nb_url server;
        char tls_server_name[NB_HOST_MAX + 1]; /* "" for none */
        char proxy_url[NB_PROXY_URL_MAX + 1];  /* "" for none */
        char *ca;                              /* PEM, NUL-terminated, or NULL */
        size_t ca_len;
        char context[NB_CONTEXT_MAX + 1]; /* that named it; "" for none */
};

void nb_cluster_done(struct nb_cluster *cluster);

/* Whether server, TLS server name and proxy are equal. */
bool nb_cluster_has_same_transport(const struct nb_cluster *a, const struct nb_cluster *b);

/* Replaces its CAs by those in `ca`, which is empty afterwards. */
void nb_cluster_take_ca(struct nb_cluster *cluster, struct nb_buffer *ca);

enum nb_kubeconfig_users {
        NB_KUBECONFIG_USERS_EMPTY,   /* entries are allowed, credentials are not */
        NB_KUBECONFIG_USERS_NONE,    /* no entries at all */
        NB_KUBECONFIG_USERS_CURRENT, /* exactly one credential, of the current context */
        NB_KUBECONFIG_USERS_IGNORED,
};

enum nb_kubeconfig_ca {
        NB_KUBECONFIG_CA_OPTIONAL,
        NB_KUBECONFIG_CA_REQUIRED,
        NB_KUBECONFIG_CA_IGNORED,
};

struct nb_kubeconfig_input;

/* Runs the credential plugin of a user. `what` is for messages: "FILE: users[1].user.exec". */
typedef int nb_kubeconfig_exec(const struct nb_kubeconfig_input *input, const char *what,
                               const struct nb_yaml_node *exec, const struct nb_cluster *cluster,
                               struct nb_identity *ret_identity, struct nb_failure *f);

struct nb_kubeconfig_policy {
        enum nb_code unacceptable; /* failure for the document */
        enum nb_code unreadable;   /* failure for a file that it names */
        enum nb_kubeconfig_users users;
        enum nb_kubeconfig_ca ca;
        bool needs_kind; /* clientcmd, and most policies, accept a document without it */
        bool needs_context;
        nb_kubeconfig_exec *exec; /* NULL: refused */
};

extern const struct nb_kubeconfig_policy nb_kubeconfig_cluster_info; /* the signed ConfigMap */
extern const struct nb_kubeconfig_policy nb_kubeconfig_discovery_file;
extern const struct nb_kubeconfig_policy nb_kubeconfig_discovery_url;
extern const struct nb_kubeconfig_policy nb_kubeconfig_bootstrap;

struct nb_kubeconfig_input {
        const char *origin; /* for messages; also the source of the identity */
        const char *text;
        size_t len;

        /* Reads a file that the document names: 0 or -errno. Relative paths are resolved against
         * `folder`, and refused if it is NULL. Without `read` every path is refused. */
        int (*read)(void *userdata, const char *path, struct nb_secret *ret);
        void *userdata;
        const char *folder;

        const char *context; /* NULL: the current one */
        /* A file for the entries whose names this one does not have, or NULL. As in clientcmd, no
         * file adds to an entry of another one. */
        const struct nb_kubeconfig_input *next;
};

/*
 * Reads the only cluster, or with NB_KUBECONFIG_USERS_CURRENT the cluster and the user of the
 * current context, if one is set. Refuses insecure-skip-tls-verify. If the document has no CA,
 * `ret_cluster->ca` stays NULL, which means the system's CAs. Unknown cluster fields are ignored.
 *
 * From a user it reads token, tokenFile (which takes precedence over token, as in clientcmd), or
 * client-certificate and client-key, as files or data (data takes precedence). Any other field is
 * refused by name: auth-provider, username, password, as; exec unless the policy runs it.
 * `ret_identity` is set for NB_KUBECONFIG_USERS_CURRENT only, and may be NULL otherwise.
 *
 * Messages name the field ("users[1].user.exec"), never a value that may be secret.
 */
int nb_kubeconfig_parse(const struct nb_kubeconfig_policy *policy,
                        const struct nb_kubeconfig_input *input, struct nb_cluster *ret_cluster,
                        struct nb_identity *ret_identity, struct nb_failure *f);

/* The server and the client certificate that an installed kubeconfig names, by its current context.
 * A field that is missing or malformed is NULL: other programs write this file. */
struct nb_kubeconfig_client {
        struct nb_yaml_node *document; /* owns the next four */
        const char *server;
        const char *ca_file;
        const char *certificate_file;
        const char *key_file;
        struct nb_secret certificate; /* client-certificate-data in PEM; overrides the file */
        struct nb_secret key;
};

#define NB_KUBECONFIG_CLIENT_INIT \
        { .certificate = NB_SECRET_INIT, .key = NB_SECRET_INIT }

/* NB_TARGET_NOT_KUBECONFIG if it is another document, with -EBADMSG if it is none: not YAML, or
 * without a kind. A file that is empty or holds only NUL bytes,
 * as a power cut leaves it, yields an empty client: replacing it loses nothing. */
int nb_kubeconfig_parse_client(const char *origin, const char *text, size_t len,
                               struct nb_kubeconfig_client *ret_client, struct nb_failure *f);

void nb_kubeconfig_client_done(struct nb_kubeconfig_client *client);
