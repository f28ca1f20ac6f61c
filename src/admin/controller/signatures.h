/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The signatures of cluster-info (kube/jws.h) with all tokens: chooses the signatures that
 * it should have, and writes the patch that adds and removes them. Tokens' secrets are not kept:
 * each signature is computed when its Secret is seen.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "admin/controller/records.h"
#include "admin/policy/token_secret.h"
#include "base/buffer.h"
#include "codec/json.h"
#include "kube/jws.h"

/* A joining node reads at most NB_CLUSTER_INFO_MAX bytes of cluster-info. A signature takes 126,
 * and its entries in metadata.managedFields 29 for each of two writers. */
#define NB_SIGNATURES_MAX 5000

/* Bytes of one patch, below the limit of a request body. */
#define NB_SIGNATURES_BODY_MAX ((size_t)60 * 1024)

struct nb_signature {
        struct nb_record record; /* key: the ID */
        char id[NB_TOKEN_ID_LEN + 1];
        bool has_mac; /* computed for the current content */
        bool is_wanted;
        time_t created, expires;
        uint8_t mac[NB_JWS_MAC_SIZE];
};

/* Computes the MAC with the key of `secret`. 0, -ENOMEM, -EIO. */
int nb_signature_compute(struct nb_signature *signature, const struct nb_token_secret *secret,
                         const char *content, size_t len);

/* Marks the signatures that cluster-info should have: of tokens that are not expired, at most
 * `max`, the newest. Returns how many are left out for lack of room, or -ENOMEM. */
ssize_t nb_signatures_choose(const struct nb_records *signatures, time_t now, size_t max);

/*
 * Appends the JSON merge patch that adds the wanted signatures to `cluster_info` (a ConfigMap), and
 * removes all others. It contains only differences, as many as fit into `body_max` bytes. It
 * applies only to this version of the ConfigMap. Returns the number of changes, 0 if there is
 * nothing to do; negative: json->r, -ENOMEM, -EINVAL. *ret_is_complete: nothing was left out.
 */
ssize_t nb_signatures_plan(const struct nb_records *signatures, struct nb_json *cluster_info,
                           size_t body_max, struct nb_buffer *ret_body, bool *ret_is_complete);
