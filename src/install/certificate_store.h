/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubelet's certificate store (client-go util/certificate NewFileStore("kubelet-client", ...)), so
 * that kubelet can rotate the certificate: a dated file with certificates and key, and the link
 * kubelet-client-current.pem to it.
 */

#include <time.h>

#include "base/secret.h"

#define NB_STORE_NAME_SIZE 64

/* Creates kubelet-client-<local time>.pem, or a name with a later second if that one exists.
 * Nothing refers to the file yet. 0, -errno. */
int nb_store_create(int folder_fd, time_t now, const struct nb_secret *pem,
                    char ret_name[static NB_STORE_NAME_SIZE]);
