/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * install, refresh, reset and setup change the same files, so only one of
 * them runs at a time. The kernel releases the lock when the process that holds it exits or is
 * killed.
 */

#include "base/failure.h"

/* Created by tmpfiles.d, since /run is read-only in the sandbox of the services. Only root can open
 * it, and thus lock it. */
#define NB_LOCK_FILE "/run/node-bootstrap.lock"
#define NB_LOCK_TIMEOUT_MS 60000

/* Waits for the lock; closing *ret_fd releases it. If `root`, the directory of an image, is not
 * NULL, locks that directory instead. NB_LOCK_UNAVAILABLE. */
int nb_lock_take(const char *root, int *ret_fd, struct nb_failure *f);
