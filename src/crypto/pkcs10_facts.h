/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads a PKCS #10 request (RFC 2986) of another party, for a decision whether to approve it. The
 * signature is verified: it proves that the requestor has the private key. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crypto/digest.h"

#define NB_REQUEST_NAMES_MAX 32
#define NB_REQUEST_TEXT_SIZE 320 /* of a common name, organization or alternative name */

enum nb_request_name_type {
        NB_REQUEST_NAME_DNS,
        NB_REQUEST_NAME_ADDRESS, /* IPv4 or IPv6, in the form of inet_ntop(3) */
        NB_REQUEST_NAME_OTHER,   /* email, URI, directory name, ... */
};

struct nb_pkcs10_csr_name {
        enum nb_request_name_type type;
        char text[NB_REQUEST_TEXT_SIZE];
};

struct nb_pkcs10_facts {
        char common_name[NB_REQUEST_TEXT_SIZE];
        char organization[NB_REQUEST_TEXT_SIZE];
        bool is_subject_plain; /* exactly one organization and one common name, nothing else */
        unsigned n_names;      /* subject alternative names */
        struct nb_pkcs10_csr_name names[NB_REQUEST_NAMES_MAX];
        bool has_other_extensions;    /* requests an extension other than alternative names */
        bool is_p256;                 /* the key is ECDSA with P-256 */
        size_t end;                   /* what follows the request begins here */
        uint8_t key[NB_SHA256_SIZE];  /* SHA-256 of the SubjectPublicKeyInfo in DER */
        uint8_t hash[NB_SHA256_SIZE]; /* SHA-256 of the request in DER, which attestation covers */
};

/* Reads the first PEM block, whose label must be CERTIFICATE REQUEST (what follows it is ignored,
 * as by the API server). 0; -EINVAL if it is not a request, its signature is invalid, or a value
 * does not fit or contains control characters; -E2BIG for too many names; -ENOMEM. */
int nb_pkcs10_facts_read(const char *pem, size_t len, struct nb_pkcs10_facts *ret_facts);

/* The same without the signature, which takes longest to verify. */
int nb_pkcs10_facts_look(const char *pem, size_t len, struct nb_pkcs10_facts *ret_facts);
