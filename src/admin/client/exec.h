/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A credential plugin: a program that a kubeconfig names in `exec`, and that writes an
 * ExecCredential. It is run as kubectl runs it (client-go plugin/pkg/client/auth/exec, API versions
 * client.authentication.k8s.io/v1 and v1beta1): with the environment of this process and its
 * standard error, and with its standard input if that is a terminal, whatever its interactiveMode.
 * With provideClusterInfo it gets the server and its CA, but not the extension with its
 * configuration.
 *
 * Nothing is cached between two runs of this program.
 */

#include <stddef.h>
#include <time.h>

#include "base/failure.h"
#include "kube_objects/identity.h"
#include "kube_objects/kubeconfig.h"

#define NB_EXEC_OUTPUT_MAX (256 * 1024)

/* Runs it for a user of a kubeconfig, whose input->userdata is a struct nb_admin, and sets when its
 * credential expires. NB_ADMIN_KUBECONFIG_UNUSABLE if `exec` is not valid, NB_ADMIN_EXEC_FAILED;
 * -ECANCELED without a failure if a stop was requested. */
nb_kubeconfig_exec nb_exec_run;

/* Parses what it wrote. `version`: the API version that the kubeconfig names. *ret_expires is 0 if
 * the credential has no time limit. */
int nb_exec_credential_parse(const char *text, size_t len, const char *what, const char *version,
                             struct nb_identity *ret_identity, time_t *ret_expires,
                             struct nb_failure *f);
