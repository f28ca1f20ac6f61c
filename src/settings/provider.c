/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "settings/provider.h"

#define PROVIDER(id, name, title, ...) [NB_PROVIDER_##id] = { name, title },
static const struct {
        const char *name, *title;
} providers[_NB_PROVIDER_N] = {
        [NB_PROVIDER_NONE] = { "none", "no cloud" },
        [NB_PROVIDER_AUTO] = { "auto", "the recognised cloud" },
#include "settings/provider.def"
};

const char *nb_provider_name(enum nb_provider provider) {
        assert((unsigned)provider < _NB_PROVIDER_N);
        return providers[provider].name;
}

const char *nb_provider_title(enum nb_provider provider) {
        assert((unsigned)provider < _NB_PROVIDER_N);
        return providers[provider].title;
}

int nb_provider_parse(const char *name, size_t len, enum nb_provider *ret_provider) {
        for (size_t i = 0; i < N_ELEMENTS(providers); i++)
                if (strlen(providers[i].name) == len && memcmp(providers[i].name, name, len) == 0) {
                        *ret_provider = (enum nb_provider)i;
                        return 0;
                }
        return -EINVAL;
}
