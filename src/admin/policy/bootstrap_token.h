/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A bootstrap token and its Secret kube-system/bootstrap-token-ID (kubernetes
 * cluster-bootstrap/token/api/types.go, cmd/kubeadm/app/apis/bootstraptoken). Secrets that kubeadm
 * writes are read, and kubeadm reads those that are written here.
 *
 * A bound token has the node's name in an annotation. kube-controller-manager and kubeadm
 * ignore annotations; the controller approves a request with this token only for this node.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "codec/json.h"
#include "kube/node_name.h"
#include "kube/token.h"

#define NB_TOKEN_SECRET_NAME_PREFIX "bootstrap-token-"
#define NB_TOKEN_SECRET_TYPE "bootstrap.kubernetes.io/token"
#define NB_TOKEN_NODE_ANNOTATION "node-bootstrap/node"
#define NB_TOKEN_GROUP_DEFAULT "system:bootstrappers:kubeadm:default-node-token"
#define NB_TOKEN_TTL_DEFAULT_SEC (24 * 60 * 60)
#define NB_TOKEN_TTL_NODE_SEC (60 * 60)
#define NB_TOKEN_GROUPS_MAX 1024
#define NB_TOKEN_DESCRIPTION_MAX 1024

struct nb_bootstrap_token {
        char id[NB_TOKEN_ID_LEN + 1];
        char secret[NB_TOKEN_SECRET_LEN + 1]; /* wiped by nb_bootstrap_token_done() */
        char uid[64];                         /* of the Secret; "" if it does not exist yet */
        char resource_version[64];
        time_t created;               /* 0: not yet, or not known */
        time_t expires;               /* 0: never */
        bool is_expiration_malformed; /* Kubernetes treats such a token as expired */
        bool may_sign;                /* cluster-info is signed with it */
        bool may_authenticate;
        char groups[NB_TOKEN_GROUPS_MAX + 1]; /* separated by commas; "" for none */
        char description[NB_TOKEN_DESCRIPTION_MAX + 1];
        char node[NB_NODE_NAME_MAX + 1]; /* of a bound token: its node; "" for any */
};

/* Fills in id and secret, uniformly distributed, from getrandom(2). 0, -errno. */
int nb_bootstrap_token_generate(struct nb_bootstrap_token *ret_token);

/* Whether it is expired at `now`. */
bool nb_bootstrap_token_is_expired(const struct nb_bootstrap_token *token, time_t now);

/* Whether `group` may be in auth-extra-groups: system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]. One
 * invalid group makes Kubernetes reject the token. */
bool nb_bootstrap_group_is_valid(const char *group, size_t len);

/* Reads a Secret. json->r is set with NB_ANSWER_MALFORMED if its name, type, token-id and
 * token-secret do not fit together. The message never quotes the secret. */
void nb_bootstrap_token_read(struct nb_json *json, struct nb_bootstrap_token *ret_token);

/* Appends the Secret as JSON. Wipe the buffer after use: it has the token's secret. 0, -ENOMEM. */
int nb_bootstrap_token_format(const struct nb_bootstrap_token *token, struct nb_buffer *ret);

void nb_bootstrap_token_done(struct nb_bootstrap_token *token);
