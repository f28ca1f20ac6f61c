/* SPDX-License-Identifier: Apache-2.0 */
#include "state/record.h"
#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/macro.h"

#define FIELD(key, type, presence, member) \
        NB_STATE_FIELD(key, NB_STATE_##type, NB_STATE_##presence, nb_record, member)
#define PINS(key, member) \
        { \
                key, NB_STATE_PINS, NB_STATE_REQUIRED, offsetof(struct nb_record, member), 0, \
                        offsetof(struct nb_record, n_##member) \
        }

static const struct nb_state_field fields[] = {
        FIELD("node", NODE_NAME, REQUIRED, node),
        FIELD("server", SERVER, REQUIRED, server),
        FIELD("endpoint", ENDPOINT, REQUIRED, endpoint),
        FIELD("csr", CSR_NAME, MAY_BE_EMPTY, csr),
        FIELD("tokenID", TOKEN_ID, MAY_BE_EMPTY, token_id),
        FIELD("tokenSource", LINE, REQUIRED, token_source),
        FIELD("joinedAt", TIME, REQUIRED, joined_at),
        FIELD("certificate", PATH, REQUIRED, certificate),
        FIELD("discovery", WORD, OPTIONAL, discovery),
        FIELD("refreshedAt", TIME, OPTIONAL, refreshed_at),
        FIELD("metadata", PROVIDER, OPTIONAL, metadata),
        FIELD("kubeletArguments", LINE, OPTIONAL, arguments),
        FIELD("caFileFound", BOOL, OPTIONAL, is_ca_found),
        FIELD("nodeFromMetadata", BOOL, OPTIONAL, is_node_from_metadata),
        FIELD("discardFromMetadata", BOOL, OPTIONAL, is_discard_from_metadata),
        PINS("caCertHashes", pins),
        PINS("caFileHashes", ca_hashes),
};

static const struct nb_state_file file = { NB_RECORD_FILE, NB_INSTALLED_MALFORMED, fields,
                                           N_ELEMENTS(fields), false };

int nb_record_format(const struct nb_record *record, struct nb_buffer *ret) {
        return nb_state_file_format(&file, record, ret);
}

int nb_record_parse(const char *text, size_t len, struct nb_record *ret_record,
                    struct nb_failure *f) {
        struct nb_record record = { 0 };
        int r = nb_state_file_parse(&file, text, len, &record, f);

        if (r < 0)
                return r;
        *ret_record = record;
        return 0;
}

int nb_record_read(int root_fd, const char *certificate_directory, struct nb_record *ret_record,
                   struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];
        struct nb_failure why = { 0 };
        int r;

        snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, certificate_directory);
        r = nb_path_read(root_fd, path, NB_HANDOFF_MAX, &text);
        if (r == -ENOENT)
                return 0;
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, r, "'%s' is not a regular file",
                                      path);
        if (r < 0)
                return nb_failure_set(f, NB_INSTALLED_UNREADABLE, r, "cannot read '%s': %m", path);
        r = nb_record_parse(text.data, text.len, ret_record, &why);
        if (r < 0)
                return nb_failure_set(f, why.code, r, "'%s': %s", path, why.detail);
        return 1;
}
