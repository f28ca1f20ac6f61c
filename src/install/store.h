/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * kubelet's certificate store (client-go util/certificate NewFileStore("kubelet-client", ...)), so
 * that kubelet can rotate the certificate: a dated file with certificates and key, and a link to
 * it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/secret.h"
#include "install/swap.h"
#include "state/handoff.h"

#define NB_STORE_UPDATED "kubelet-client-updated.pem"
#define NB_STORE_NAME_SIZE 64

/* Creates kubelet-client-<local time>.pem, or a name with a later second if that one exists.
 * Nothing refers to the file yet. 0, -errno. */
int nb_store_create(int folder_fd, time_t now, const struct nb_secret *pem,
                    char ret_name[static NB_STORE_NAME_SIZE]);

/*
 * Stages kubelet-client-current.pem as a link to `target`. If a regular file has that name, the
 * caller must set it aside before publishing: kubelet would refuse to rotate it ("expected ... to
 * be a symlink but it is a file"). A regular file with the temporary name,
 * kubelet-client-updated.pem, was created by hand; this function sets it aside.
 * NB_TARGET_UNWRITABLE.
 */
int nb_store_link(struct nb_swap *swap, const char *target, struct nb_failure *f);

/* Whether kubelet-client-current.pem is a regular file. */
bool nb_store_has_file(int folder_fd);
