/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The supervisor of k3s and RKE2 (k3s pkg/server/handlers): /cacerts, requested without a
 * credential, and client-kubelet.crt, which signs at once. k3s serves them on the API server's
 * port, RKE2 on another one and with "rke2" in paths and headers. */

#include "base/buffer.h"
#include "base/failure.h"
#include "codec/url.h"
#include "kube_api/api.h"
#include "net/http.h"

#define NB_CACERTS_MAX (256 * 1024)
#define NB_K3S_CERTIFICATE_MAX (64 * 1024) /* leaf and client CA: some kilobytes */
#define NB_RKE2_SUPERVISOR_PORT 9345

/* All endpoints are asked at once. An unverified answer proves nothing until the caller has
 * compared its hash. */
extern const struct nb_call nb_cacerts_call;

/* 0 if a supervisor answered, otherwise a failure for the status. */
int nb_cacerts_verify(const struct nb_api *api, const struct nb_http_answer *answer,
                      struct nb_failure *f);

struct nb_k3s_request {
        const struct nb_url *endpoint;
        const char *node_name;
        const char *node_password;   /* the supervisor stores a hash of the first password for each
                                        node name */
        const struct nb_buffer *csr; /* PKCS #10 in DER */
};

/* Call this before sending anything that the supervisor stores. 0, also if its version is unknown;
 * NB_SUPERVISOR_TOO_OLD; -ECANCELED. */
int nb_k3s_verify_version(struct nb_api *api, struct nb_failure *f);

/*
 * Appends the issued certificate (PEM, unverified). NB_TOKEN_REJECTED (401),
 * NB_NODE_PASSWORD_REJECTED, NB_SUPERVISOR_REFUSED (403), NB_CSR_REJECTED (400), NB_SERVER_ERROR
 * (503, ...), ...
 */
int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request,
                struct nb_buffer *ret_certificate, struct nb_failure *f);
