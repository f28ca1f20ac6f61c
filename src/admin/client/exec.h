/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A credential plugin: a program that a kubeconfig names in `exec`, and that writes an
 * ExecCredential. It is run as kubectl runs it (client-go plugin/pkg/client/auth/exec, API versions
 * client.authentication.k8s.io/v1 and v1beta1): with the environment of this process and its
 * standard error, and with its standard input if a user may have to answer.
 *
 * Nothing is cached between two runs of this program.
 */

#include <stddef.h>
#include <time.h>

#include "base/failure.h"
#include "codec/yaml.h"
#include "kube/identity.h"
#include "kube/kubeconfig.h"

#define NB_EXEC_OUTPUT_MAX (256 * 1024)

struct nb_exec_plugin {
        const char *what;   /* for messages: "FILE: exec of the user 'NAME'" */
        const char *folder; /* a command such as "./plugin" is relative to it */
        const struct nb_yaml_node *exec;
        const struct nb_yaml_node *cluster_fields; /* for provideClusterInfo */
        const struct nb_cluster *cluster;
};

/* Runs it. *ret_expires is 0 if the credential has no time limit. NB_ADMIN_KUBECONFIG_UNUSABLE if
 * `exec` is not valid, NB_ADMIN_EXEC_FAILED; -ECANCELED without a failure if a stop was requested.
 */
int nb_exec_run(const struct nb_exec_plugin *plugin, struct nb_identity *ret_identity,
                time_t *ret_expires, struct nb_failure *f);

/* Parses what it wrote. `version`: the API version that the kubeconfig names. */
int nb_exec_credential_parse(const char *text, size_t len, const char *what, const char *version,
                             struct nb_identity *ret_identity, time_t *ret_expires,
                             struct nb_failure *f);
