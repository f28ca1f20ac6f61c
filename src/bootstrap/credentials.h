/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The secrets among what a machine was given. Private to bootstrap/. */

#include "bootstrap/bootstrap.h"

/* What tokens there are, of whatever form; a member that is not there is empty. */
struct nb_given_tokens {
        struct nb_token discovery;               /* a bootstrap token */
        struct nb_k3s_token k3s;                 /* the same credential in k3s's form */
        struct nb_identity tls_bootstrap;        /* NB_IDENTITY_TOKEN */
        char source[NB_IDENTITY_SOURCE_MAX + 1]; /* of the first two */
};

/* The credentials, and the tokens of documents where there is no credential. */
int nb_given_tokens_read(const struct nb_settings *settings, struct nb_given_tokens *ret_tokens, struct nb_failure *f);
void nb_given_tokens_done(struct nb_given_tokens *tokens);

/*
 * Whether certificate and key can be shown to a server at all: in TLS that would look like a server that cannot be
 * reached. Not whether they are valid now, which a clock that is wrong would decide.
 * NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE.
 */
int nb_client_certificate_verify(const struct nb_identity *identity, struct nb_failure *f);

/*
 * The bootstrap kubeconfig: the credential, or else the path in the settings. 1: read; 0: there is none.
 * `ret_source` names it for people.
 */
int nb_given_kubeconfig_read(const struct nb_settings *settings, struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                             char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f);

/* The document of file discovery: the credential, or else the path in the settings. As above. */
int nb_given_document_read(const struct nb_settings *settings, struct nb_cluster *ret_cluster,
                           char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f);

/* What a node of a k3s cluster has from before: its password, and its client certificate. Neither has to be there. */
int nb_given_k3s_node_read(const struct nb_settings *settings, struct nb_bootstrap *bootstrap, struct nb_failure *f);
