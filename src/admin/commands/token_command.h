/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of `node-bootstrap-admin token`. */

#include <stdbool.h>

#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "base/failure.h"
#include "system/options.h"

int nb_token_create(struct nb_options *options, struct nb_failure *f);
int nb_token_list(struct nb_options *options, struct nb_failure *f);

/* Deletes the Secret of a token. 1: deleted; 0: there is none. */
int nb_token_delete(struct nb_admin *admin, const char *id, struct nb_failure *f);

/* Waits until cluster-info is signed with the token, since no machine can join earlier. Warns with
 * the likely reason if the signature does not appear; the token is usable once it does. */
void nb_token_await_signature(struct nb_admin *admin, const char *id);

/* "ID.SECRET". Wipe it after use. */
#define NB_TOKEN_TEXT_SIZE (NB_TOKEN_LEN + 1)
void nb_token_format(const struct nb_bootstrap_token *token, char ret[static NB_TOKEN_TEXT_SIZE]);

/* What the command line says about a token; NULL for options that are missing. */
struct nb_token_options {
        const char *text; /* the token itself */
        const char *node, *ttl, *usages, *groups, *description;
        bool is_enrolled;
};

/* Fills in a token that is all zeros. What is missing is as with kubeadm: both usages, 24 h, and
 * kubeadm's default group; bound tokens expire after 1 h. 0, or NB_USAGE with a message that quotes
 * no token. */
int nb_token_describe(const struct nb_token_options *options, struct nb_bootstrap_token *token,
                      struct nb_failure *f);

/* Verifies the name of a node that was typed after `option`. 0 or NB_USAGE. */
int nb_token_verify_node(const char *option, const char *name, struct nb_failure *f);
