/* SPDX-License-Identifier: Apache-2.0 */
#include "metadata/cloud_names.h"

const char *const nb_provider_names[_NB_PROVIDER_N] = {
        [NB_PROVIDER_NONE] = "none",
        [NB_PROVIDER_AUTO] = "auto",
#define PROVIDER(id, name, ...) [NB_PROVIDER_##id] = name,
#include "metadata/clouds.def"
};

const char *const nb_provider_titles[_NB_PROVIDER_N] = {
        [NB_PROVIDER_NONE] = "no cloud",
        [NB_PROVIDER_AUTO] = "the recognised cloud",
#define PROVIDER(id, name, title, ...) [NB_PROVIDER_##id] = title,
#include "metadata/clouds.def"
};
