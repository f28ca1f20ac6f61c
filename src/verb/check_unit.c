/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/process.h"
#include "base/text.h"
#include "base/unit.h"
#include "verb/check_internal.h"

#define UNIT "node-bootstrap.service"
#define UNIT_MAX ((size_t)1024 * 1024) /* bytes of it with its drop-ins */

/* Those with a value of their own or a path; `is_value`: what follows the name may be a secret. */
static const struct {
        const char *key;
        bool is_value;
} keys[] = {
        { "LoadCredential=", false },
        { "LoadCredentialEncrypted=", false },
        { "SetCredential=", true },
        { "SetCredentialEncrypted=", true },
};

static void forget(struct nb_check_unit *unit, const char *key) {
        for (unsigned i = 0; i < _NB_CHECK_CREDENTIAL_N; i++)
                if (strncmp(unit->sources[i], key, strlen(key)) == 0)
                        unit->sources[i][0] = '\0';
}

/* "NAME:/path" or "NAME:value"; a name alone is looked for in the stores. */
static void take(struct nb_check_unit *unit, size_t key, const char *text, size_t len) {
        const char *colon = memchr(text, ':', len);
        size_t name_len = colon ? (size_t)(colon - text) : len, rest_len = colon ? len - name_len - 1 : 0;

        if (len == 0)
                forget(unit, keys[key].key);
        if (rest_len == 0 || (!keys[key].is_value && colon[1] != '/'))
                return;
        for (unsigned i = 0; i < _NB_CHECK_CREDENTIAL_N; i++) {
                const char *name = nb_check_credential_name((enum nb_check_credential)i);
                char path[NB_CHECK_SOURCE_SIZE / 2] = "";

                if (strlen(name) != name_len || memcmp(name, text, name_len) != 0)
                        continue;
                if (!keys[key].is_value)
                        nb_text_copy_line(colon + 1, rest_len, path, sizeof(path));
                (void)snprintf(unit->sources[i], sizeof(unit->sources[i]), "%s%s%s", keys[key].key, path[0] ? " " : "", path);
        }
}

/* The last one counts, as systemd reads them. */
static void take_users(struct nb_check_unit *unit, const char *line) {
        static const char key[] = "PrivateUsers=", *const off[] = { "no", "false", "off", "0" };
        const char *value = line + strlen(key);

        if (strncmp(line, key, strlen(key)) != 0)
                return;
        unit->has_all_users = false;
        for (size_t i = 0; i < N_ELEMENTS(off); i++)
                if (strcspn(value, "\n") == strlen(off[i]) && strncmp(value, off[i], strlen(off[i])) == 0)
                        unit->has_all_users = true;
}

void nb_check_parse_unit(const char *text, struct nb_check_unit *ret_unit) {
        struct nb_check_unit unit = { 0 };

        for (const char *line = text; *line; line += line[strcspn(line, "\n")] == '\n' ? strcspn(line, "\n") + 1 : strlen(line)) {
                take_users(&unit, line);
                for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                        size_t key_len = strlen(keys[i].key);

                        if (strncmp(line, keys[i].key, key_len) == 0)
                                take(&unit, i, line + key_len, strcspn(line, "\n") - key_len);
                }
        }
        *ret_unit = unit;
}

void nb_check_read_unit(struct nb_check_unit *ret_unit) {
        const char *const argv[] = { "systemctl", "cat", "--no-pager", UNIT, NULL };
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_process_result result = { 0 };

        *ret_unit = (struct nb_check_unit){ 0 };
        if (!nb_systemd_is_running() || nb_secret_init(&text, UNIT_MAX) < 0)
                return;
        if (nb_process_run(argv, NULL, 0, &text, &result) >= 0 && result.status == 0)
                nb_check_parse_unit(text.data, ret_unit);
}
