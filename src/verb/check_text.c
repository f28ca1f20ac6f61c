/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "format/k3s_token.h"
#include "format/token.h"
#include "verb/check_internal.h"

static int mask_k3s(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token token = { .identity = NB_IDENTITY_INIT };
        const char *id = token.identity.token_id;
        int r = nb_k3s_token_parse(data, len, "", &token);

        if (r < 0)
                return r;
        (void)snprintf(ret, NB_CHECK_TOKEN_TEXT_SIZE, "k3s token %s%s" NB_CHECK_HIDDEN ", with%s the hash of a CA", id, id[0] ? "." : "",
                       token.has_hash ? "" : "out");
        return 0;
}

int nb_check_mask_token(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]) {
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };
        int r;

        if (nb_k3s_token_is_meant(data, len))
                return mask_k3s(data, len, ret);
        r = nb_token_parse(data, len, &token);
        if (r < 0)
                return r;
        (void)snprintf(ret, NB_CHECK_TOKEN_TEXT_SIZE, "bootstrap token %s." NB_CHECK_HIDDEN, token.id);
        return 0;
}
