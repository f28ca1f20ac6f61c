/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kubeconfig (kind: Config, apiVersion: v1; kubernetes client-go/tools/clientcmd/api/v1): the one in cluster-info,
 * the one that kubelet gets, and what is to be known of one that is on this machine.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "format/identity.h"
#include "format/url.h"

#define NB_KUBECONFIG_MAX (1024 * 1024)
#define NB_PROXY_URL_MAX 255

/* A cluster: where its API server is, and what proves it. */
struct nb_cluster {
        struct nb_url server;
        char tls_server_name[NB_HOST_MAX + 1]; /* "" for none */
        char proxy_url[NB_PROXY_URL_MAX + 1];  /* "" for none; http, https or socks5, with a port, no user */
        char *ca;                              /* PEM, NUL-terminated; NULL: none stands there */
        size_t ca_len;
};

void nb_cluster_done(struct nb_cluster *cluster);

/*
 * The kubeconfig in cluster-info: exactly one cluster with server and certificate-authority-data.
 * NB_CLUSTER_INFO_UNACCEPTABLE for users with any content, exec, tokens, more than one cluster, certificate-authority
 * (a path), insecure-skip-tls-verify: true, no CA, a server that is no https URL; the message names the entry, never
 * a value that may be secret. Unknown keys in the cluster entry are passed over (extensions), except that nothing of
 * them is ever used.
 */
int nb_kubeconfig_parse_cluster(const char *yaml, size_t len, struct nb_cluster *ret_cluster, struct nb_failure *f);

/*
 * A kubeconfig that a machine was given: the document of file discovery, and the bootstrap kubeconfig.
 *
 * `wants_user` false: exactly one cluster, and no credential anywhere: a user entry with anything in it is refused, and
 * the message names the entry and the key ("users[0] 'admin': client-key-data"). True: the cluster and the user of the
 * current context (the only ones where no context is named). Of the user: token, tokenFile (wins over token, as in
 * clientcmd), client-certificate and client-key, by file or data; exec, auth-provider, username and password are refused
 * by name, as is a user with both token and certificate, or with neither.
 *
 * insecure-skip-tls-verify: true is refused. No CA: cluster.ca stays NULL (the CAs of the system). kind and apiVersion may
 * be missing, as for clientcmd.
 *
 * Paths in it are relative to its folder; `read` gets them resolved against `folder` and returns the file's bytes: 0 or
 * -errno. Without `read` no path is taken (a document from elsewhere), without `folder` only absolute ones (a credential).
 * `code` is the failure that is set, NB_DISCOVERY_FILE_UNREADABLE or NB_BOOTSTRAP_KUBECONFIG_UNREADABLE in the place of
 * ..._UNACCEPTABLE for a file that cannot be read; what is quoted is never a value that may be secret. The source of the
 * identity is `origin`. `ret_identity` may be NULL where no user is wanted.
 */
typedef int (*nb_kubeconfig_read)(void *userdata, const char *path, struct nb_secret *ret);

int nb_kubeconfig_parse_given(const char *origin, const char *folder, const char *yaml, size_t len, bool wants_user,
                              nb_kubeconfig_read read, void *userdata, enum nb_code code, struct nb_cluster *ret_cluster,
                              struct nb_identity *ret_identity, struct nb_failure *f);

/* What may stand in proxy-url and tls-server-name; 0 or -EINVAL. install checks with these what `join` hands over. */
int nb_proxy_url_verify(const char *text);
int nb_tls_server_name_verify(const char *text);

/* What kubelet gets; every member is written quoted. */
struct nb_kubeconfig {
        const struct nb_url *server;
        const char *tls_server_name;    /* "" for none */
        const char *proxy_url;          /* "" for none */
        const char *ca_file;            /* NULL: the CAs of the system */
        const char *client_certificate; /* path; stands as client-key too */
};

/* kubelet's own names: cluster default-cluster, user default-auth, context default-context, namespace default. */
int nb_kubeconfig_format(const struct nb_kubeconfig *kubeconfig, struct nb_buffer *ret);

/*
 * The cluster of a kubeconfig that nb_kubeconfig_format() has made with this CA file and this client certificate; what differs
 * from that by a byte was written by another program, or with other settings: NB_REFRESH_INAPPLICABLE. `ca` of the cluster
 * stays NULL: it is in the file.
 */
int nb_kubeconfig_parse_own(const char *origin, const char *yaml, size_t len, const char *ca_file, const char *client_certificate,
                            struct nb_cluster *ret_cluster, struct nb_failure *f);

/* What a kubeconfig on this machine says of its client certificate and of its API server, by its current context. */
struct nb_kubeconfig_client {
        char *server;           /* as it stands there, or NULL */
        char *ca_file;          /* path, or NULL */
        char *certificate_file; /* path, or NULL */
        char *key_file;
        char *certificate_data; /* decoded PEM, or NULL; wins over the path, as in clientcmd */
        size_t certificate_data_len;
        struct nb_secret key_data; /* decoded PEM */
};

/*
 * NB_TARGET_NOT_KUBECONFIG when the document is not of `kind: Config`. An empty file, or one of NUL bytes, as a power
 * cut leaves it, is no failure: nothing can be lost by replacing it. A `kind: Config` without a current context, user
 * or certificate is no failure: the members are NULL then. Unknown keys are passed over: other programs write this
 * file.
 */
int nb_kubeconfig_parse_client(const char *origin, const char *yaml, size_t len,
                               struct nb_kubeconfig_client *ret_client, struct nb_failure *f);

void nb_kubeconfig_client_done(struct nb_kubeconfig_client *client);
