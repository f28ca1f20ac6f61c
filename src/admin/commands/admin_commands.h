/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands of node-bootstrap-admin. Each returns the exit status of the program, or is negative
 * with a failure, which main() logs. options->argv continues after the name of the command. */

#include <stddef.h>

#include "admin/client/client.h"
#include "system/options.h"

struct nb_admin_command {
        const char *name;
        const char *usage; /* for its --help */
        int (*run)(struct nb_options *options, struct nb_failure *f);
};

/* Runs the command that the next word names. `commands` ends with a row without a name; `names` is
 * for the message. An option instead of a name is explained. */
int nb_admin_run_command(struct nb_options *options, const struct nb_admin_command *commands,
                         const char *names, struct nb_failure *f);

/* Reads options and other words in any order. The words are borrowed from argv. 0, or as for
 * nb_options_read(). */
int nb_admin_read_line(struct nb_options *options, const struct nb_option *rows,
                       const char **ret_words, size_t max, size_t *ret_n, struct nb_failure *f);

/* The rows of all commands that contact the cluster; `place` is a struct nb_admin_place. */
#define NB_ADMIN_PLACE_OPTIONS(place) \
        { "kubeconfig", "FILE", "use this kubeconfig", .ret_value = &(place).kubeconfig }, { \
                "context", "NAME", "use this context of the kubeconfig", \
                        .ret_value = &(place).context \
        }

int nb_admin_command_approve(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_cluster_info(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_enroll(struct nb_options *options, struct nb_failure *f);
int nb_admin_command_token(struct nb_options *options, struct nb_failure *f);
