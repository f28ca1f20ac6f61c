/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The names of the clouds and platforms that `metadata.provider` accepts. Each has a row in
 * clouds.def. */

#define PROVIDER(id, ...) NB_PROVIDER_##id,
enum nb_provider {
        NB_PROVIDER_NONE, /* metadata is never read; or: no known cloud was recognised */
        NB_PROVIDER_AUTO, /* the recognised cloud */
#include "metadata/clouds.def"
        _NB_PROVIDER_N,
};

extern const char *const nb_provider_names[_NB_PROVIDER_N];  /* "aws": as in the settings */
extern const char *const nb_provider_titles[_NB_PROVIDER_N]; /* "Amazon EC2": for people */
