/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "state/handoff.h"
#include "state/platform.h"
#include "state/record.h"

#define FIELD(of, key, type, presence, member) \
        { \
                key, NB_STATE_##type, NB_STATE_##presence, offsetof(struct of, member), \
                        sizeof(((struct of *)NULL)->member), 0 \
        }
#define COUNTED(of, key, type, presence, member, n_member) \
        { \
                key, NB_STATE_##type, NB_STATE_##presence, offsetof(struct of, member), 0, \
                        offsetof(struct of, n_member) \
        }
/* The fields of struct nb_provenance, for the handoff and the record. */
#define PROVENANCE(of) \
        FIELD(of, "endpoint", ENDPOINT, REQUIRED, provenance.endpoint), \
                FIELD(of, "csr", CSR_NAME, MAY_BE_EMPTY, provenance.csr), \
                FIELD(of, "tokenID", TOKEN_ID, MAY_BE_EMPTY, provenance.token_id), \
                FIELD(of, "tokenSource", LINE, REQUIRED, provenance.token_source)
#define FIELDS(of, array) (array), N_ELEMENTS(array), sizeof(struct of)

/* --- joined.json --- */

#define JOINED(...) FIELD(nb_handoff, __VA_ARGS__)

static const struct nb_state_field joined_fields[] = {
        JOINED("certificate", PEM, REQUIRED, certificate),
        COUNTED(nb_handoff, "ca", PEM, MAY_BE_EMPTY, cluster.ca, cluster.ca_len),
        JOINED("server", URL, REQUIRED, cluster.server),
        JOINED("tlsServerName", TLS_SERVER_NAME, MAY_BE_EMPTY, cluster.tls_server_name),
        JOINED("proxyURL", PROXY_URL, MAY_BE_EMPTY, cluster.proxy_url),
        PROVENANCE(nb_handoff),
        JOINED("metadata", PROVIDER, OPTIONAL, metadata),
        JOINED("k3sHash", K3S_HASH, OPTIONAL, k3s_hash),
};

const struct nb_state_file nb_handoff_file = { NB_HANDOFF_FILE, NB_HANDOFF_MALFORMED,
                                               NB_HANDOFF_UNTRUSTED,
                                               FIELDS(nb_handoff, joined_fields) };

void nb_handoff_done(struct nb_handoff *handoff) {
        free(handoff->certificate);
        handoff->certificate = NULL;
        nb_cluster_done(&handoff->cluster);
}

/* --- refreshed.json --- */

static const struct nb_state_field refreshed_fields[] = {
        COUNTED(nb_cluster, "ca", PEM, REQUIRED, ca, ca_len),
        FIELD(nb_cluster, "server", URL, REQUIRED, server),
        FIELD(nb_cluster, "tlsServerName", TLS_SERVER_NAME, MAY_BE_EMPTY, tls_server_name),
        FIELD(nb_cluster, "proxyURL", PROXY_URL, MAY_BE_EMPTY, proxy_url),
};

const struct nb_state_file nb_refresh_file = { NB_REFRESH_FILE, NB_HANDOFF_MALFORMED,
                                               NB_HANDOFF_UNTRUSTED,
                                               FIELDS(nb_cluster, refreshed_fields) };

/* --- platform.json --- */

#define PLATFORM(key, type, member) FIELD(nb_platform, key, type, OPTIONAL, member)

static const struct nb_state_field platform_fields[] = {
        PLATFORM("platformId", WORD, platform_id),
        PLATFORM("dataSource", WORD, data_source),
        PLATFORM("volume", VOLUME, volume),
        PLATFORM("hasGuestinfo", BOOL, has_guestinfo),
};

const struct nb_state_file nb_platform_file = { "platform.json", NB_METADATA_MALFORMED,
                                                NB_METADATA_MALFORMED,
                                                FIELDS(nb_platform, platform_fields),
                                                .is_open = true };

/* --- node-bootstrap.json --- */

#define RECORD(...) FIELD(nb_record, __VA_ARGS__)

static const struct nb_state_field record_fields[] = {
        RECORD("node", NODE_NAME, REQUIRED, node),
        RECORD("server", URL, REQUIRED, server),
        PROVENANCE(nb_record),
        RECORD("joinedAt", TIME, REQUIRED, joined_at),
        RECORD("certificate", PATH, REQUIRED, certificate),
        RECORD("discovery", WORD, OPTIONAL, discovery),
        RECORD("refreshedAt", TIME, OPTIONAL, refreshed_at),
        RECORD("metadata", PROVIDER, OPTIONAL, metadata),
        RECORD("kubeletArguments", LINE, OPTIONAL, arguments),
        RECORD("caFileFound", BOOL, OPTIONAL, is_ca_found),
        RECORD("nodeFromMetadata", BOOL, OPTIONAL, is_node_from_metadata),
        RECORD("discardFromMetadata", BOOL, OPTIONAL, is_discard_from_metadata),
        COUNTED(nb_record, "caCertHashes", PINS, REQUIRED, pins, n_pins),
        COUNTED(nb_record, "caFileHashes", PINS, REQUIRED, ca_hashes, n_ca_hashes),
};

const struct nb_state_file nb_record_file = { NB_RECORD_FILE, NB_INSTALLED_MALFORMED,
                                              NB_INSTALLED_MALFORMED,
                                              FIELDS(nb_record, record_fields) };

int nb_installed_refuse(const char *path, int r, struct nb_failure *f) {
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, r, "'%s' is not a regular file",
                                      path);
        return nb_failure_set(f, NB_INSTALLED_UNREADABLE, r, "cannot read '%s': %m", path);
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
        if (r < 0)
                return nb_installed_refuse(path, r, f);
        r = nb_state_file_parse(&nb_record_file, text.data, text.len, ret_record, &why);
        if (r < 0)
                return nb_failure_set(f, why.code, r, "'%s': %s", path, why.detail);
        return 1;
}

/* --- Node states --- */

static const char *const state_names[_NB_NODE_STATE_N] = {
        [NB_NODE_STATE_USABLE] = "usable",         [NB_NODE_STATE_NOT_YET_VALID] = "not-yet-valid",
        [NB_NODE_STATE_ABSENT] = "absent",         [NB_NODE_STATE_EXPIRED] = "expired",
        [NB_NODE_STATE_OTHER_NODE] = "other-node", [NB_NODE_STATE_OTHER_CLUSTER] = "other-cluster",
        [NB_NODE_STATE_UNREADABLE] = "unreadable", [NB_NODE_STATE_NOT_ROTATABLE] = "not-rotatable",
};

const char *nb_node_state_name(enum nb_node_state state) {
        return state_names[state];
}

int nb_node_state_parse(const char *name, enum nb_node_state *ret_state) {
        for (unsigned i = 0; i < _NB_NODE_STATE_N; i++)
                if (!strcmp(name, state_names[i])) {
                        *ret_state = (enum nb_node_state)i;
                        return 0;
                }
        return -EINVAL;
}
