/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/identity.h"

#define BEARER_MAX (16 * 1024) /* bytes; the token of a service account has about a thousand */

bool nb_bearer_is_valid(const char *text, size_t len) {
        if (len == 0 || len > BEARER_MAX)
                return false;
        for (size_t i = 0; i < len; i++)
                if (text[i] <= ' ' || text[i] > '~')
                        return false;
        return true;
}

int nb_identity_set_token(struct nb_identity *ret_identity, const char *token, size_t len,
                          const char *source) {
        _cleanup_(nb_identity_done) struct nb_identity identity = { .kind = NB_IDENTITY_TOKEN };
        int r;

        if (nb_token_verify(token, len) >= 0) {
                len = NB_TOKEN_LEN;
                memcpy(identity.token_id, token, NB_TOKEN_ID_LEN);
        }
        r = nb_secret_copy(&identity.secret, token, len);
        if (r < 0)
                return r;
        NB_TEXT_COPY_LINE(identity.source, source);
        nb_identity_done(ret_identity);
        *ret_identity = TAKE(identity);
        return 0;
}

void nb_identity_done(struct nb_identity *identity) {
        nb_secret_done(&identity->secret);
        nb_secret_done(&identity->certificate);
        *identity = (struct nb_identity)NB_IDENTITY_INIT;
}
