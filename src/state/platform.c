/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "state/platform.h"
#include "state/state_file.h"

#define FIELD(key, type, member) \
        NB_STATE_FIELD(key, NB_STATE_##type, NB_STATE_OPTIONAL, nb_platform, member)

static const struct nb_state_field fields[] = {
        FIELD("platformId", WORD, platform_id),
        FIELD("dataSource", WORD, data_source),
        FIELD("volume", WORD, volume),
        FIELD("hasGuestinfo", BOOL, has_guestinfo),
};

static const struct nb_state_file file = { "platform.json", NB_METADATA_MALFORMED, fields,
                                           N_ELEMENTS(fields), true };

int nb_platform_format(const struct nb_platform *platform, struct nb_buffer *ret) {
        return nb_state_file_format(&file, platform, ret);
}

int nb_platform_parse(const char *json, size_t len, struct nb_platform *ret_platform,
                      struct nb_failure *f) {
        struct nb_platform platform = { 0 };
        int r = nb_state_file_parse(&file, json, len, &platform, f);

        if (r < 0)
                return r;
        if (platform.volume[0] && strcmp(platform.volume, "config-2") != 0 &&
            strcmp(platform.volume, "cidata") != 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s: volume: expected 'config-2' or 'cidata', found '%s'",
                                      file.name, platform.volume);
        *ret_platform = platform;
        return 0;
}
