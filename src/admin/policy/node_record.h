/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The record of an enrolled node: a Secret in kube-system, since whoever may write Secrets there
 * can create tokens anyway. Its data: `node`, the name; `publicKey`, the enrolled key as PEM,
 * without which the node needs no proof; `addresses` and `dnsNames`, lists separated by commas, for
 * serving certificates. One of these three, or `removed`, is required.
 *
 * A removed node keeps a record with `removed`, a time by the clock of the API server: requests
 * that were made until then are refused, since they were made by a node that needed a proof. If the
 * node is enrolled again without a key, `removed` stays.
 */

#include <stdint.h>
#include <time.h>

#include "admin/policy/data_fields.h"
#include "base/buffer.h"
#include "codec/json.h"
#include "crypto/digest.h"
#include "kube_objects/node_name.h"
#include "os/clock.h"

#define NB_NODE_RECORD_TYPE "node-bootstrap/enrolled-node"
#define NB_NODE_RECORD_NAME_SIZE (NB_NODE_NAME_MAX + 32)
#define NB_NODE_RECORD_KEY_MAX 4096

/* A value of `removed` that cannot be read: the removal is incomplete, and the record allows
 * nothing. */
#define NB_NODE_RECORD_REMOVING "removing"

struct nb_node_record {
        char uid[64]; /* "" if it does not exist yet */
        char resource_version[64];
        uint8_t key_id[NB_SHA256_SIZE]; /* the same for all encodings of the key */
        time_t removed;                 /* 0: never */

        /* As in the Secret; "": not set. */
        char node[NB_NODE_NAME_MAX + 1];
        char removed_text[NB_RFC3339_SIZE];
        char public_key[NB_NODE_RECORD_KEY_MAX + 1];
        char addresses[NB_LIST_SIZE];
        char dns_names[NB_LIST_SIZE];
};

/* The name of the Secret: node-bootstrap-node-NODE, or with the SHA-256 of the node's name where
 * that is too long. */
void nb_node_record_name(const char *node, char ret[static NB_NODE_RECORD_NAME_SIZE]);

/* Sets the list of addresses or DNS names, separated by commas; "": none. Whether it is valid. */
bool nb_node_record_set_names(struct nb_node_record *record, const char *list, bool is_address);

/* Whether the record has more than the time of a removal. */
bool nb_node_record_is_enrolled(const struct nb_node_record *record);

/* Reads a Secret. json->r is set with NB_ANSWER_MALFORMED if any part of the Secret is not exactly
 * as nb_node_record_format() writes it: a limit that cannot be read must not be ignored. */
void nb_node_record_read(struct nb_json *json, struct nb_node_record *ret_record);

/* Appends the Secret as JSON, to be created, or to replace the one with `uid`. 0, -E2BIG, -ENOMEM.
 */
int nb_node_record_format(const struct nb_node_record *record, struct nb_buffer *ret);
