/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Finds the files that cloud-init or Ignition would write. nb_user_data_find_files() decodes the
 * user data first. */

#include <stddef.h>

#include "base/failure.h"
#include "base/secret.h"

struct nb_user_data_file {
        const char *path; /* absolute */
        unsigned mode;
        const struct nb_secret *text;
};

struct nb_user_data_files {
        int (*each)(void *userdata, const struct nb_user_data_file *file, struct nb_failure *f);
        void *userdata;
};

/* The tool that writes the files. */
enum nb_user_data_tool { NB_USER_DATA_CLOUD_CONFIG, NB_USER_DATA_IGNITION };

/* Calls `each` for every file in the text. `where` names the text in messages. Failures of `each`;
 * NB_METADATA_MALFORMED. */
int nb_user_data_pass_files(enum nb_user_data_tool tool, const char *where, const char *data,
                            size_t len, const struct nb_user_data_files *files,
                            struct nb_failure *f);
