/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/failure.h"
#include "format/settings.h"

/* All documents merged; not yet nb_settings_verify()d. `tokens` takes those of a JoinConfiguration; NULL drops them. */
int nb_load_settings(const char *config_directory, struct nb_settings_tokens *tokens, struct nb_settings *ret_settings, struct nb_failure *f);

/* The name of the settings, or the host's. NB_NODE_NAME_INVALID. */
int nb_load_node_name(const struct nb_settings *settings, char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f);
