/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "format/json.h"
#include "format/platform.h"

#define WHAT "the note of node-bootstrap-platform.service"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

int nb_platform_format(const struct nb_platform *platform, struct nb_buffer *ret) {
        const struct {
                const char *key, *value;
        } members[] = {
                { "platformId", platform->platform_id },
                { "dataSource", platform->data_source },
                { "volume", platform->volume },
        };
        int r = nb_buffer_append_string(ret, "{");

        for (size_t i = 0; i < N_ELEMENTS(members) && r >= 0; i++) {
                r = nb_buffer_printf(ret, "\"%s\": ", members[i].key);
                if (r >= 0)
                        r = nb_json_quote(members[i].value, strlen(members[i].value), ret);
                if (r >= 0)
                        r = nb_buffer_append_string(ret, ", ");
        }
        return r < 0 ? r : nb_buffer_printf(ret, "\"hasGuestinfo\": %s}\n", platform->has_guestinfo ? "true" : "false");
}

static int take(const struct nb_json *json, const char *key, char *ret, size_t size, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_json_string(json, key, &text, &len, f);
        if (r <= 0)
                return r;
        if (len >= size || strspn(text, LETTERS) != len)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL,
                                      "%s: expected up to %zu letters, digits, '.', '_' and '-' for %s, found %zu bytes", WHAT, size - 1, key, len);
        memcpy(ret, text, len);
        ret[len] = '\0';
        return 0;
}

static int take_volume(const struct nb_json *json, struct nb_platform *platform, struct nb_failure *f) {
        int r = take(json, "volume", platform->volume, sizeof(platform->volume), f);

        if (r < 0)
                return r;
        if (platform->volume[0] && strcmp(platform->volume, "config-2") != 0 && strcmp(platform->volume, "cidata") != 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL, "%s: expected 'config-2' or 'cidata' for volume, found '%s'", WHAT,
                                      platform->volume);
        return 0;
}

int nb_platform_parse(const char *json, size_t len, struct nb_platform *ret_platform, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json parsed = { 0 };
        struct nb_platform platform = { 0 };
        int r;

        r = nb_json_parse(json, len, WHAT, NB_METADATA_MALFORMED, &parsed, f);
        if (r >= 0)
                r = take(&parsed, "platformId", platform.platform_id, sizeof(platform.platform_id), f);
        if (r >= 0)
                r = take(&parsed, "dataSource", platform.data_source, sizeof(platform.data_source), f);
        if (r >= 0)
                r = take_volume(&parsed, &platform, f);
        if (r >= 0)
                r = nb_json_boolean(&parsed, "hasGuestinfo", &platform.has_guestinfo, f);
        if (r < 0)
                return r;
        *ret_platform = platform;
        return 0;
}
