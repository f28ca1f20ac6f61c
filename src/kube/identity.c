/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "kube/identity.h"

int nb_identity_set_token(struct nb_identity *ret_identity, const char *token, size_t len,
                          const char *source) {
        _cleanup_(nb_token_done) struct nb_token bootstrap = { .value = NB_SECRET_INIT };
        _cleanup_(nb_identity_done) struct nb_identity identity = { .kind = NB_IDENTITY_TOKEN };
        int r;

        r = nb_secret_init(&identity.secret, len);
        if (r < 0)
                return r;
        (void)nb_secret_append(&identity.secret, token, len); /* It fits. */
        r = nb_token_parse(token, len, &bootstrap);
        if (r == -ENOMEM)
                return r;
        if (r >= 0)
                memcpy(identity.token_id, bootstrap.id, sizeof(identity.token_id));
        snprintf(identity.source, sizeof(identity.source), "%s", source);
        nb_identity_done(ret_identity);
        *ret_identity = TAKE(identity);
        return 0;
}

void nb_identity_done(struct nb_identity *identity) {
        nb_secret_done(&identity->secret);
        free(identity->certificate);
        *identity = (struct nb_identity)NB_IDENTITY_INIT;
}
