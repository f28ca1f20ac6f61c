/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The supervisor of k3s and RKE2 (k3s pkg/server/handlers): /cacerts, requested without a
 * credential, and certificates, which are signed at once. k3s serves them on the API server's
 * port, RKE2 on another one and with "rke2" in paths and headers. */

#include "base/buffer.h"
#include "base/failure.h"
#include "codec/url.h"
#include "http/http.h"
#include "kube_calls/api.h"
#include "kube_objects/k3s_token.h"

#define NB_CACERTS_MAX (256 * 1024)
#define NB_K3S_CERTIFICATE_MAX (64 * 1024) /* leaf and client CA: some kilobytes */
#define NB_READY_MAX (16 * 1024)           /* "ok", or a Status */

/* All endpoints are asked at once. An unverified answer proves nothing until the caller has
 * compared its hash. */
extern const struct nb_call nb_cacerts_call;

/* 0 if a supervisor answered, otherwise a failure for the status. */
int nb_cacerts_verify(const struct nb_api *api, const struct nb_http_answer *answer,
                      struct nb_failure *f);

/* Whether the supervisor accepts the identity of an agent, which it stores nothing about, and can
 * sign. NB_TOKEN_REJECTED (401), NB_SUPERVISOR_FORBIDDEN (403), NB_SERVER_ERROR (503), ... */
int nb_k3s_ask_ready(struct nb_api *api, const struct nb_url *endpoint, struct nb_failure *f);

struct nb_k3s_request {
        const struct nb_url *endpoint;
        const char *name; /* the certificate: "client-kubelet", "serving-kubelet" */
        const char *node_name;
        const char *node_password;   /* the supervisor stores a hash of the first password for each
                                        node name; NULL: neither name nor password is sent */
        const char *node_ips;        /* "10.0.0.5,fd00::5", for a serving certificate; or "" */
        const struct nb_buffer *csr; /* PKCS #10 in DER */
};

/*
 * Finds out whether the supervisor signs requests, before sending anything that it stores. Its
 * version cannot be read: it accepts an agent's password for /v1-* only, not for /version. Requests
 * kube-proxy's certificate, which needs no node password, for a key that is not kept. An old
 * supervisor ignores the request and answers with its own key. Failures as nb_k3s_sign().
 */
int nb_k3s_verify_signing(struct nb_api *api, const struct nb_url *endpoint, const char *node_name,
                          struct nb_failure *f);

/*
 * Appends the issued certificate (PEM, unverified). NB_TOKEN_REJECTED (401) and
 * NB_SUPERVISOR_FORBIDDEN (403), both with is_startup; NB_NODE_PASSWORD_REJECTED (403),
 * NB_CSR_REJECTED (400), NB_SERVER_ERROR (429, 503, ...), NB_SUPERVISOR_TOO_OLD if the answer
 * contains a private key, ...
 */
int nb_k3s_sign(struct nb_api *api, const struct nb_k3s_request *request,
                struct nb_buffer *ret_certificate, struct nb_failure *f);
