/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CertificateSigningRequest (certificates.k8s.io/v1), its watch events, and Status (meta/v1): bytes to structs and
 * back. Every string has a ceiling; a reason or message that is longer is cut, anything else longer is refused.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_CSR_NAME_MAX 253
#define NB_CSR_OBJECT_MAX (256 * 1024)
#define NB_CSR_SIGNER "kubernetes.io/kube-apiserver-client-kubelet"

enum nb_csr_state {
        NB_CSR_STATE_PENDING,
        NB_CSR_STATE_APPROVED, /* with or without certificate */
        NB_CSR_STATE_DENIED,   /* wins over Approved */
        NB_CSR_STATE_FAILED,   /* wins over Approved */
};

struct nb_csr {
        char name[NB_CSR_NAME_MAX + 1];
        char uid[64];
        char resource_version[64];
        char signer_name[NB_CSR_NAME_MAX + 1];
        char username[128]; /* who submitted it, as the API server knows them; printable, one line; "" when absent */
        char groups[192];   /* theirs, but for system:authenticated: "a, b", those that fit */
        enum nb_csr_state state;
        char reason[128]; /* of the condition that decided; printable, one line */
        char message[256];
        char *request; /* spec.request decoded: PEM, NUL-terminated; NULL when absent */
        size_t request_len;
        char *certificate; /* status.certificate decoded: PEM, NUL-terminated; NULL while there is none */
        size_t certificate_len;
};

struct nb_status {
        int64_t code; /* 0 when absent */
        char reason[64];
        char message[256];
};

enum nb_csr_event_type {
        NB_CSR_EVENT_ADDED,
        NB_CSR_EVENT_MODIFIED,
        NB_CSR_EVENT_DELETED,
        NB_CSR_EVENT_BOOKMARK, /* csr.resource_version alone is set */
        NB_CSR_EVENT_ERROR,    /* status is set */
};

struct nb_csr_event {
        enum nb_csr_event_type type;
        struct nb_csr csr;
        struct nb_status status;
};

/* The object to submit: signer and the usages digital signature, key encipherment, client auth (every control
 * plane version takes the three). `request` is PEM. expirationSeconds stands only when it is not 0. */
int nb_csr_format(const char *name, const char *request, size_t request_len, uint32_t expiration_seconds,
                  struct nb_buffer *ret);

/* NB_ANSWER_MALFORMED names the path that is not as expected. */
int nb_csr_parse(const char *json, size_t len, struct nb_csr *ret_csr, struct nb_failure *f);
int nb_csr_event_parse(const char *json, size_t len, struct nb_csr_event *ret_event, struct nb_failure *f);

/* A body that is no Status gives code 0 and empty strings, and 0: an error answer may come from anything on the way. */
int nb_status_parse(const char *json, size_t len, struct nb_status *ret_status);

/* The user whom a refusal names, as in `User "system:anonymous" cannot create ...`; "" when it names none. */
void nb_status_user(const struct nb_status *status, char *ret, size_t size);

void nb_csr_done(struct nb_csr *csr);
void nb_csr_event_done(struct nb_csr_event *event);
