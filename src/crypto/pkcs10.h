/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The PKCS #10 request (RFC 2986) of a node: subject O=system:nodes, CN=system:node:<name> in this
 * order, no extensions, signed with SHA-256. The PEM label is CERTIFICATE REQUEST; kube-apiserver
 * refuses that of GnuTLS, NEW CERTIFICATE REQUEST, with 422. */

#include <stddef.h>

#include "base/buffer.h"
#include "crypto/key.h"

#define NB_NODE_ORGANIZATION "system:nodes"
#define NB_NODE_COMMON_NAME_PREFIX "system:node:"
#define NB_PKCS10_PEM_MAX 4096

/* "node-csr-" and 43 characters of base64url. */
#define NB_PKCS10_NAME_SIZE 64

/* Appends the request as PEM, or as DER for the supervisor of k3s. 0, -EIO, -ENOMEM, -E2BIG. */
int nb_pkcs10_create(const struct nb_key *key, const char *node_name, bool is_pem,
                     struct nb_buffer *ret);

/*
 * Computes the name of the CSR object: "node-csr-" and base64url(SHA-256(stream)). The stream has
 * base64url(item) and "|" for each item. The items are those of kubelet's digestedName
 * (pkg/kubelet/certificate/bootstrap): SubjectPublicKeyInfo in DER, common name, organization,
 * usages. kubelet uses SHA-512/256, which GnuTLS lacks; no other program computes this name. 0,
 * -EIO, -ENOMEM.
 */
int nb_pkcs10_csr_name(const struct nb_key *key, const char *node_name,
                       char ret[static NB_PKCS10_NAME_SIZE]);

/* Verifies that `pem` begins with a request for this key and exactly this node's subject. 0;
 * -EKEYREJECTED for another key; -EPERM for another subject; -EINVAL if it is not a request, or its
 * signature is invalid; -ENOMEM. */
int nb_pkcs10_verify(const char *pem, size_t len, const struct nb_key *key, const char *node_name);

/* Verifies that `pem` is a request as nb_pkcs10_create() makes it for this node, with any key of
 * that type, and nothing else. The signature is verified last, since that is the most expensive
 * check. 0, -EPERM, -EINVAL, -ENOMEM. */
int nb_pkcs10_verify_node(const char *pem, size_t len, const char *node_name);
