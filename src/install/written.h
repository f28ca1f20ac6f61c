/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What of kubelet's files is of the join, and what was there before: `reset` takes back the one and leaves the other. A join anew
 * finds what an earlier one wrote, so that the record of that one counts as well.
 */

#include "base/buffer.h"
#include "format/handoff.h"

struct nb_written {
        struct nb_record *previous; /* NULL: there is none */
        struct nb_buffer arguments; /* with a blank between two */
        bool is_known;              /* false: there are more than the record has room for, or nobody knows which */
};

#define NB_WRITTEN_INIT \
        { .arguments = NB_BUFFER_INIT(NB_RECORD_ARGUMENTS_SIZE - 1) }

/* The record that is in the store. One that cannot be read is none. 0, -ENOMEM. */
int nb_written_read(struct nb_written *written, int store_fd);

/* kubeadm-flags.env as it was (NULL: it was not there), and as it will be. 0, -ENOMEM. */
int nb_written_arguments(struct nb_written *written, const char *before, size_t before_len, const char *after, size_t after_len);

/* `is_ca_there`: the CA file holds already what the join would write. */
void nb_written_record(const struct nb_written *written, bool is_ca_there, struct nb_record *record);

void nb_written_done(struct nb_written *written);
