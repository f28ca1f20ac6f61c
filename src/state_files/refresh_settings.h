/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings that a refresh needs: which API servers to ask, which addresses kubelet serves, the
 * time limit, and whether kubelet is restarted. They may be in a credential that can no longer be
 * decrypted, so the record of the join keeps them, as a document.
 */

#include <time.h>

#include "state_files/record.h"

/* Exists if the refresh is automatic. Its modification time is that of the last refresh that
 * succeeded, or of the join. */
#define NB_REFRESH_MARK "node-bootstrap.automatic-refresh" /* in NB_KUBELET_DIRECTORY */

/* Keeps the settings in the record. Endpoints and kubelet options that a join took from metadata
 * stay until the settings name endpoints, or replace the options. 1: the record has changed; 0;
 * -E2BIG, -ENOMEM. */
int nb_refresh_settings_keep(const struct nb_settings *settings, struct nb_record *record);

/* Merges what the record keeps into `settings`. */
void nb_refresh_settings_recall(const struct nb_record *record, struct nb_settings *settings);

/* 0 without the mark. */
time_t nb_refresh_mark_time(int root_fd);
