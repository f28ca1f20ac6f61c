/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tokens and kubeconfigs on this machine, before a join method is chosen. */

#include <stdbool.h>

#include "base/failure.h"
#include "kube_objects/identity.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/kubeconfig.h"
#include "os/sources.h"
#include "settings/settings.h"

struct nb_inputs {
        struct nb_sources *sources;
        const struct nb_settings *settings;
        /* The credential node-bootstrap.token, or the token in a settings document. */
        struct nb_identity token; /* a bootstrap token */
        struct nb_k3s_token k3s;
        bool has_k3s_token;
        char token_source[NB_IDENTITY_SOURCE_MAX + 1];
        /* The bootstrap kubeconfig. */
        bool has_kubeconfig;
        struct nb_cluster kubeconfig;
        char kubeconfig_source[NB_IDENTITY_SOURCE_MAX + 1];
        /* The bootstrap identity, from the kubeconfig, the TLS bootstrap token or the token, in
         * this order. NB_IDENTITY_NONE if there is none. */
        struct nb_identity identity;
};

/* A credential takes precedence over a value in the settings. */
int nb_inputs_read(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_inputs *inputs, struct nb_failure *f);
void nb_inputs_done(struct nb_inputs *inputs);

/* Verifies that only the discovery file or URL `source` identifies the cluster; otherwise
 * NB_SETTINGS_INVALID names both places. */
int nb_inputs_verify_alone(const struct nb_inputs *inputs, const char *source,
                           struct nb_failure *f);

/*
 * Verifies that certificate and key are usable in TLS, where their failure would look like an
 * unreachable server. Their validity period is not checked, since this machine's clock may be
 * wrong. NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE.
 */
int nb_client_certificate_verify(const struct nb_identity *identity, struct nb_failure *f);

/* A kubeconfig: a credential, or the file at a path. */
struct nb_kubeconfig_source {
        const char *credential;
        const char *path; /* "" for none */
        const struct nb_kubeconfig_policy *policy;
        bool is_installed; /* kubelet's kubeconfig: read only from `path`, and with any file mode */
};

/* Reads the kubeconfig, and the files that it names. 1: read; 0: there is none. *ret_source names
 * it in messages. */
int nb_kubeconfig_load(struct nb_sources *sources, const struct nb_kubeconfig_source *source,
                       struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                       char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f);
