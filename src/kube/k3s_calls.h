/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The supervisor of k3s and RKE2 (k3s pkg/server/handlers): /cacerts, never with a credential, and client-kubelet.crt, which signs on
 * the spot. With k3s it is on the API server's port; with RKE2 it has one of its own, and the paths and headers say rke2.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "format/url.h"
#include "kube/api.h"
#include "net/http.h"

#define NB_CACERTS_MAX (256 * 1024)
#define NB_K3S_CERTIFICATE_MAX (64 * 1024) /* leaf and client CA: some kilobytes */
#define NB_RKE2_SUPERVISOR_PORT 9345

/*
 * The unverified form starts a transfer, so that all endpoints are asked together. What it returns proves nothing until its
 * hash was compared, which is not done here.
 */
int nb_cacerts_start(struct nb_http *unverified, const struct nb_url *endpoint, struct nb_http_transfer **ret_transfer,
                     struct nb_failure *f);

/* Whether the answer is one of a supervisor: 0, or a failure for its status. `name` of the endpoint, for messages. */
int nb_cacerts_verify(const struct nb_http_answer *answer, const char *name, struct nb_failure *f);

int nb_cacerts_fetch_verified(struct nb_api *api, uint64_t until_ms, struct nb_http_answer *ret_answer, struct nb_failure *f);

struct nb_k3s_request {
        const struct nb_url *endpoint;
        const char *node_name;
        const char *node_password;   /* the supervisor keeps the hash of the first one that it sees for a name */
        const struct nb_buffer *csr; /* PKCS #10 in DER */
};

/*
 * Appends what the supervisor issued, PEM, unchecked. NB_TOKEN_REJECTED (401), NB_NODE_PASSWORD_REJECTED,
 * NB_SUPERVISOR_REFUSED (403), NB_CSR_REJECTED (400), NB_SERVER_ERROR (503, ...), ...
 */
int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request, uint64_t until_ms, struct nb_buffer *ret_certificate,
                struct nb_failure *f);
