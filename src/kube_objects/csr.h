/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* CertificateSigningRequest (certificates.k8s.io/v1) and its watch events: bytes to structs and
 * back. A reason or message that is too long is cut; any other string is refused. */

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "kube_objects/object.h"

#define NB_CSR_NAME_MAX 253
#define NB_CSR_OBJECT_MAX (256 * 1024)
#define NB_CSR_SIGNER "kubernetes.io/kube-apiserver-client-kubelet"

enum nb_csr_state {
        NB_CSR_STATE_PENDING,
        NB_CSR_STATE_APPROVED, /* with or without certificate */
        NB_CSR_STATE_DENIED,   /* overrides Approved */
        NB_CSR_STATE_FAILED,   /* overrides Approved */
};

struct nb_csr {
        char name[NB_CSR_NAME_MAX + 1];
        char uid[64];
        char resource_version[64];
        char signer_name[NB_CSR_NAME_MAX + 1];
        char username[384]; /* the user who submitted it, according to the API server; printable,
                               one line; "" when absent. Has room for any ServiceAccount */
        char groups[192];   /* the user's groups without system:authenticated: "a, b, ..." */
        bool is_for_controller;     /* a group is NB_TOKEN_GROUP_NODE or NB_TOKEN_GROUP_ENROLLED,
                                       or begins with the first and ":": node-bootstrap's
                                       controller decides */
        bool has_our_usages;        /* those of nb_csr_format(), in its order */
        int64_t expiration_seconds; /* 0 when absent */
        enum nb_csr_state state;
        char reason[128]; /* of the condition that set the state; printable, one line */
        char message[256];
        char *request; /* spec.request decoded: PEM, NUL-terminated; NULL when absent */
        size_t request_len;
        char *certificate; /* status.certificate decoded: PEM, NUL-terminated; NULL while there is
                              none */
        size_t certificate_len;
};

enum nb_csr_event_type {
        NB_CSR_EVENT_ADDED,
        NB_CSR_EVENT_MODIFIED,
        NB_CSR_EVENT_DELETED,
        NB_CSR_EVENT_BOOKMARK, /* only csr.resource_version is set */
        NB_CSR_EVENT_ERROR,    /* status is set */
};

struct nb_csr_event {
        enum nb_csr_event_type type;
        struct nb_csr csr;
        struct nb_status status;
};

struct nb_csr_request {
        const char *pem;
        size_t len;
        uint32_t expiration_seconds; /* 0: the signer's default */
};

/* Appends the object to create, with the usages digital signature, key encipherment and client
 * auth, which every version of the signer accepts. */
int nb_csr_format(const char *name, const struct nb_csr_request *request, struct nb_buffer *ret);

/* NB_ANSWER_MALFORMED names the path of the unexpected value. */
int nb_csr_parse(const char *text, size_t len, struct nb_csr *ret_csr, struct nb_failure *f);
int nb_csr_event_parse(const char *text, size_t len, struct nb_csr_event *ret_event,
                       struct nb_failure *f);

void nb_csr_done(struct nb_csr *csr);
void nb_csr_event_done(struct nb_csr_event *event);
