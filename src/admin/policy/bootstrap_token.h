/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A bootstrap token and its Secret kube-system/bootstrap-token-ID (kubernetes
 * cluster-bootstrap/token/api/types.go, cmd/kubeadm/app/apis/bootstraptoken). Secrets that kubeadm
 * writes are read, and kubeadm reads those that are written here.
 *
 * A bound token has the node's name in an annotation. kube-controller-manager and kubeadm
 * ignore annotations; the controller approves a request with this token only for this node.
 *
 * bootstrapsigner and tokencleaner of kube-controller-manager (pkg/controller/bootstrap/util.go,
 * cluster-bootstrap/util/secrets) also use Secrets that have a flaw. Where ours run beside them,
 * they must not disagree: what they need is read from every Secret.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "codec/json.h"
#include "kube_objects/node_name.h"
#include "kube_objects/token.h"

#define NB_TOKEN_SECRET_NAME_PREFIX "bootstrap-token-"
#define NB_TOKEN_SECRET_NAME_MAX 253
#define NB_TOKEN_SECRET_TYPE "bootstrap.kubernetes.io/token"
#define NB_TOKEN_NODE_ANNOTATION "node-bootstrap/node"
#define NB_TOKEN_GROUP_DEFAULT "system:bootstrappers:kubeadm:default-node-token"
#define NB_TOKEN_TTL_DEFAULT_SEC (24 * 60 * 60)
#define NB_TOKEN_TTL_NODE_SEC (60 * 60)
#define NB_TOKEN_GROUPS_MAX 1024
#define NB_TOKEN_DESCRIPTION_MAX 1024
#define NB_TOKEN_KEY_MAX 1024 /* Kubernetes signs with longer ones, which no machine can use */
/* In cluster-info, of which a joining node reads at most NB_CLUSTER_INFO_MAX bytes. A signature
 * takes 126, and its entries in metadata.managedFields 29 for each of two writers. */
#define NB_SIGNATURES_MAX 5000
#define NB_TOKEN_EXPIRATION_MALFORMED ((time_t)-1)

struct nb_bootstrap_token {
        const char *flaw;                        /* why no request may be approved; NULL: none */
        char name[NB_TOKEN_SECRET_NAME_MAX + 1]; /* of the Secret */
        char id[NB_TOKEN_ID_LEN + 1];            /* "" if name and token-id do not have it */
        char secret[NB_TOKEN_KEY_MAX + 1];       /* wiped by nb_bootstrap_token_done() */
        char uid[64], resource_version[64];      /* of the Secret */
        time_t created;                          /* 0: not known */
        time_t expires;                          /* 0: never */
        bool may_sign, may_authenticate, is_being_deleted;
        bool is_signer;                       /* cluster-info is signed with it, until it expires */
        char groups[NB_TOKEN_GROUPS_MAX + 1]; /* separated by commas; "" for none */
        char description[NB_TOKEN_DESCRIPTION_MAX + 1];
        char node[NB_NODE_NAME_MAX + 1]; /* of a bound token: its node; "" for any */
};

/* Fills in id and secret, uniformly distributed, from getentropy(3). 0, -errno. */
int nb_bootstrap_token_generate(struct nb_bootstrap_token *ret_token);

bool nb_bootstrap_token_is_expired(time_t expires, time_t now);

/* Reads a Secret. json->r is set for an object without name, UID and resourceVersion. */
void nb_bootstrap_token_read(struct nb_json *json, struct nb_bootstrap_token *ret_token);

/* Appends the Secret as JSON. Wipe the buffer after use: it has the token's secret. 0, -ENOMEM. */
int nb_bootstrap_token_format(const struct nb_bootstrap_token *token, struct nb_buffer *ret);

void nb_bootstrap_token_done(struct nb_bootstrap_token *token);
