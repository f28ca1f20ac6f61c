/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/bootstrap_token.h"

void nb_bootstrap_token_done(struct nb_bootstrap_token *token) {
        explicit_bzero(token->secret, sizeof(token->secret));
}
