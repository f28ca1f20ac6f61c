/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The parts of `node-bootstrap-admin token`. */

#include <stddef.h>

#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "base/failure.h"
#include "system/options.h"

#define NB_TOKEN_WORDS_MAX 1000
#define NB_TOKEN_CONFIG_TOKENS_MAX 64

/* Reads options and other words in any order. The words are borrowed from argv. 0, or as for
 * nb_options_read(). */
int nb_token_read_line(struct nb_options *options, const struct nb_option *rows,
                       const char **ret_words, size_t max, size_t *ret_n, struct nb_failure *f);

int nb_token_create(struct nb_options *options, struct nb_failure *f);
int nb_token_list(struct nb_options *options, struct nb_failure *f);

/* A new Secret with a random token if `id` is ""; then a token whose ID exists already is replaced
 * by another random one. NB_ADMIN_EXISTS for a given token: an existing one is never overwritten.
 */
int nb_token_submit(struct nb_admin *admin, struct nb_bootstrap_token *token, struct nb_failure *f);

/* Deletes the Secret of a token. 1: deleted; 0: there is none. */
int nb_token_delete(struct nb_admin *admin, const char *id, struct nb_failure *f);

/* Waits until cluster-info is signed with the token, since no machine can join before that. Warns
 * with the likely reason if it is not; the token is usable once it is. */
void nb_token_await_signature(struct nb_admin *admin, const char *id);

/* "ID.SECRET". Wipe it after use. */
#define NB_TOKEN_TEXT_SIZE (NB_TOKEN_LEN + 1)
void nb_token_format(const struct nb_bootstrap_token *token, char ret[static NB_TOKEN_TEXT_SIZE]);

/* What a token is to be, from the command line or a document of kubeadm. Each returns 0, or -EINVAL
 * with a failure `code` whose message begins with `where`, such as "'--ttl'". */
int nb_token_set_text(struct nb_bootstrap_token *token, const char *text, size_t len,
                      enum nb_code code, const char *where, struct nb_failure *f);
int nb_token_set_ttl(struct nb_bootstrap_token *token, const char *text, enum nb_code code,
                     const char *where, struct nb_failure *f);
int nb_token_add_usage(struct nb_bootstrap_token *token, const char *text, size_t len,
                       enum nb_code code, const char *where, struct nb_failure *f);
int nb_token_add_group(struct nb_bootstrap_token *token, const char *text, size_t len,
                       enum nb_code code, const char *where, struct nb_failure *f);
int nb_token_set_description(struct nb_bootstrap_token *token, const char *text, size_t len,
                             enum nb_code code, const char *where, struct nb_failure *f);

/* Sets what is missing as kubeadm does: both usages, 24 h, kubeadm's default group. Groups without
 * the usage authentication are refused. */
int nb_token_complete(struct nb_bootstrap_token *token, bool has_ttl, bool has_usages,
                      enum nb_code code, const char *where, struct nb_failure *f);

/* Reads bootstrapTokens of an InitConfiguration (kubeadm.k8s.io/v1beta2 to v1beta4), completed.
 * Returns their number, at least 1; NB_ADMIN_INPUT_MALFORMED. */
int nb_token_config_read(const char *path, struct nb_bootstrap_token *ret_tokens, size_t max,
                         struct nb_failure *f);
