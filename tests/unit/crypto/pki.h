/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Certificates for tests, made on the spot. Everything that goes wrong in here aborts the test. */

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include <gnutls/x509.h>

#define PKI_NOW ((time_t)1800000000) /* 2027-01-15T08:00:00Z */
#define PKI_DAY ((time_t)86400)
#define PKI_CLIENT_AUTH GNUTLS_KP_TLS_WWW_CLIENT
#define PKI_SERVER_AUTH GNUTLS_KP_TLS_WWW_SERVER

struct pki_cert {
        gnutls_x509_crt_t crt;
        gnutls_x509_privkey_t key;
        bool is_key_borrowed;
        char *pem;
        char *key_pem;
};

struct pki_options {
        const char *dn; /* as it is to stand, e.g. "O=system:nodes,CN=system:node:a": first
                           attribute first */
        const struct pki_cert *issuer; /* NULL: signs itself */
        const struct pki_cert *key_of; /* the subject's key is that one's; NULL: a new one */
        const char *key_pem;           /* or this one */
        bool is_ca;
        bool is_rsa;
        gnutls_pk_algorithm_t key_type;   /* 0: ECDSA, or RSA if is_rsa */
        gnutls_digest_algorithm_t digest; /* of the signature; 0: SHA-256, or EdDSA's own */
        bool is_v1;                       /* without extensions */
        bool has_no_constraints;          /* without basicConstraints */
        unsigned max_path_len;            /* plus 1; 0: without */
        unsigned key_usage;               /* 0: digitalSignature, or keyCertSign for a CA */
        const char *names;                /* "dns:a.example,ip:192.0.2.1,mail:a@b" */
        const char *constraints;          /* of names: "example,-not.example,ip:192.0.2.0/24" */
        bool has_directory_constraint;    /* a name constraint on directory names alone */
        bool is_uncritical;               /* the name constraints */
        const char *critical;             /* OID of a critical extension, or NULL */
        const char *subject_id;           /* subject key identifier, or NULL */
        const char *authority;            /* authority key identifier, or NULL */
        const char *purpose;              /* OID of an extended key usage, or NULL */
        time_t not_before, not_after;     /* 0: PKI_NOW - 5 min, PKI_NOW + 365 days */
};

struct pki_cert pki_make(const struct pki_options *options);
void pki_done(struct pki_cert *cert);

/* Texts one after the other, in memory of the caller. */
char *pki_join(const char *const *texts);
#define PKI_JOIN(...) pki_join((const char *const[]){ __VA_ARGS__, NULL })
