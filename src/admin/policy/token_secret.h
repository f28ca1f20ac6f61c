/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A Secret of type bootstrap.kubernetes.io/token, read as bootstrapsigner and tokencleaner of
 * kube-controller-manager read it (pkg/controller/bootstrap/util.go,
 * cluster-bootstrap/util/secrets), which is less strict than nb_bootstrap_token_read(): where both
 * run, they must not disagree.
 */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "base/buffer.h"
#include "codec/json.h"
#include "kube/token.h"

#define NB_TOKEN_SECRET_NAME_MAX 253

struct nb_token_secret {
        char name[NB_TOKEN_SECRET_NAME_MAX + 1];
        char uid[64];
        char resource_version[64];
        time_t created; /* 0 if unknown */
        time_t expires; /* 0: never. An expiration that cannot be parsed counts as expired: 1 */
        char signer_id[NB_TOKEN_ID_LEN + 1]; /* cluster-info is signed with this token until it
                                                expires; "" if it is not */
        struct nb_buffer key;                /* the token's secret, if signer_id is set */
};

/* json->r is set for an object without name, UID and resourceVersion. Otherwise the caller frees
 * *ret_secret with nb_token_secret_done(), which wipes the key. */
void nb_token_secret_read(struct nb_json *json, struct nb_token_secret *ret_secret);
void nb_token_secret_done(struct nb_token_secret *secret);

bool nb_token_secret_is_expired(time_t expires, time_t now);
