/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "state/handoff.h"

#define FIELD(key, type, presence, of, member) \
        NB_STATE_FIELD(key, NB_STATE_##type, NB_STATE_##presence, of, member)

/* --- joined.json --- */

static const struct nb_state_field handoff_fields[] = {
        FIELD("certificate", PEM, REQUIRED, nb_handoff, certificate),
        FIELD("ca", PEM, MAY_BE_EMPTY, nb_handoff, ca),
        FIELD("server", URL, REQUIRED, nb_handoff, server),
        FIELD("tlsServerName", TLS_SERVER_NAME, MAY_BE_EMPTY, nb_handoff, tls_server_name),
        FIELD("proxyURL", PROXY_URL, MAY_BE_EMPTY, nb_handoff, proxy_url),
        FIELD("csr", CSR_NAME, MAY_BE_EMPTY, nb_handoff, csr),
        FIELD("endpoint", ENDPOINT, REQUIRED, nb_handoff, endpoint),
        FIELD("tokenID", TOKEN_ID, MAY_BE_EMPTY, nb_handoff, token_id),
        FIELD("tokenSource", LINE, REQUIRED, nb_handoff, token_source),
        FIELD("metadata", PROVIDER, OPTIONAL, nb_handoff, metadata),
        FIELD("k3sHash", K3S_HASH, OPTIONAL, nb_handoff, k3s_hash),
};

static const struct nb_state_file handoff_file = { NB_HANDOFF_FILE, NB_HANDOFF_MALFORMED,
                                                   handoff_fields, N_ELEMENTS(handoff_fields),
                                                   false };

int nb_handoff_format(const struct nb_handoff *handoff, struct nb_buffer *ret) {
        return nb_state_file_format(&handoff_file, handoff, ret);
}

int nb_handoff_parse(const char *text, size_t len, struct nb_handoff *ret_handoff,
                     struct nb_failure *f) {
        struct nb_handoff handoff = { 0 };
        int r = nb_state_file_parse(&handoff_file, text, len, &handoff, f);

        if (r < 0)
                return r;
        *ret_handoff = handoff;
        return 0;
}

void nb_handoff_done(struct nb_handoff *handoff) {
        free(handoff->certificate);
        free(handoff->ca);
        handoff->certificate = NULL;
        handoff->ca = NULL;
}

/* --- refreshed.json --- */

static const struct nb_state_field refresh_fields[] = {
        FIELD("ca", PEM, REQUIRED, nb_refresh_handoff, ca),
        FIELD("server", URL, REQUIRED, nb_refresh_handoff, server),
        FIELD("tlsServerName", TLS_SERVER_NAME, MAY_BE_EMPTY, nb_refresh_handoff, tls_server_name),
        FIELD("proxyURL", PROXY_URL, MAY_BE_EMPTY, nb_refresh_handoff, proxy_url),
};

static const struct nb_state_file refresh_file = { NB_REFRESH_FILE, NB_HANDOFF_MALFORMED,
                                                   refresh_fields, N_ELEMENTS(refresh_fields),
                                                   false };

int nb_refresh_handoff_format(const struct nb_refresh_handoff *handoff, struct nb_buffer *ret) {
        return nb_state_file_format(&refresh_file, handoff, ret);
}

int nb_refresh_handoff_parse(const char *text, size_t len, struct nb_refresh_handoff *ret_handoff,
                             struct nb_failure *f) {
        struct nb_refresh_handoff handoff = { 0 };
        int r = nb_state_file_parse(&refresh_file, text, len, &handoff, f);

        if (r < 0)
                return r;
        *ret_handoff = handoff;
        return 0;
}

void nb_refresh_handoff_done(struct nb_refresh_handoff *handoff) {
        free(handoff->ca);
        handoff->ca = NULL;
}

/* --- Verdicts --- */

static const char *const state_names[_NB_NODE_STATE_N] = {
        [NB_NODE_STATE_USABLE] = "usable",         [NB_NODE_STATE_NOT_YET_VALID] = "not-yet-valid",
        [NB_NODE_STATE_ABSENT] = "absent",         [NB_NODE_STATE_EXPIRED] = "expired",
        [NB_NODE_STATE_OTHER_NODE] = "other-node", [NB_NODE_STATE_OTHER_CLUSTER] = "other-cluster",
        [NB_NODE_STATE_UNREADABLE] = "unreadable", [NB_NODE_STATE_NOT_ROTATABLE] = "not-rotatable",
};

const char *nb_node_state_name(enum nb_node_state state) {
        return (unsigned)state < _NB_NODE_STATE_N ? state_names[state] : "unknown";
}

int nb_node_state_parse(const char *name, enum nb_node_state *ret_state) {
        for (unsigned i = 0; i < _NB_NODE_STATE_N; i++)
                if (!strcmp(name, state_names[i])) {
                        *ret_state = (enum nb_node_state)i;
                        return 0;
                }
        return -EINVAL;
}
