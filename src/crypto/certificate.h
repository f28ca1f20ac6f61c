/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * X.509 certificates (RFC 5280): lists out of PEM, what the leaf of a node must be, and which CA certificates a pin
 * covers. TLS itself is not here (net/). Nothing here asks for the time; `now` is passed in.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "crypto/digest.h"
#include "crypto/key.h"

#define NB_CERTIFICATES_MAX 32 /* in one bundle or chain */
#define NB_SUBJECT_SIZE 512

struct nb_certificates;

/*
 * Every CERTIFICATE block of a PEM text, in order; other blocks (kubelet's file ends with the key) are passed over when
 * `is_mixed`, and refused otherwise. Text outside of blocks is passed over (RFC 7468 section 5.2; Kubernetes allows it
 * in status.certificate, and bundles have comments) and never exported. 0; -EINVAL when there is no certificate, one
 * that cannot be read, a block that is cut off, or a NUL before the end of a block; -E2BIG above NB_CERTIFICATES_MAX;
 * -ENOMEM.
 */
int nb_certificates_parse(const char *pem, size_t len, bool is_mixed, struct nb_certificates **ret);
void nb_certificates_free(struct nb_certificates *certificates);
void nb_certificates_freep(struct nb_certificates **certificates);

size_t nb_certificates_count(const struct nb_certificates *certificates);

/* Appends certificate i as PEM. */
int nb_certificate_export(const struct nb_certificates *certificates, size_t i, struct nb_buffer *ret_pem);

/* RFC 4514 text, cut at the size. */
void nb_certificate_subject(const struct nb_certificates *certificates, size_t i, char ret[static NB_SUBJECT_SIZE]);
void nb_certificate_issuer(const struct nb_certificates *certificates, size_t i, char ret[static NB_SUBJECT_SIZE]);
time_t nb_certificate_not_before(const struct nb_certificates *certificates, size_t i);
time_t nb_certificate_not_after(const struct nb_certificates *certificates, size_t i);

/* SHA-256 of the SubjectPublicKeyInfo in DER: what a pin names. */
int nb_certificate_pin(const struct nb_certificates *certificates, size_t i, uint8_t ret[static NB_SHA256_SIZE]);

/* The names and addresses that it is for, "a.example, 10.0.0.1": for people, cut to `size`; "" for none. */
void nb_certificate_names(const struct nb_certificates *certificates, size_t i, char *ret, size_t size);

/* basicConstraints with cA TRUE. */
bool nb_certificate_is_ca(const struct nb_certificates *certificates, size_t i);

/* Whether a certificate was signed by one of another list: names and signature, whatever the time. */
bool nb_certificate_is_issued_by(const struct nb_certificates *certificates, size_t i, const struct nb_certificates *issuers, size_t j);

/* Whether TLS servers may use it: extended key usage is absent, or has serverAuth or any (RFC 5280 section 4.2.1.12). */
bool nb_certificate_may_serve(const struct nb_certificates *certificates, size_t i);

/* Whether the leaf's public key is that of `key`. 0, -EKEYREJECTED, -EIO. */
int nb_certificate_verify_key(const struct nb_certificates *certificates, const struct nb_key *key);

/* Whether the leaf's subject is exactly O=system:nodes, CN=system:node:<node_name> (two attributes, in either order).
 * 0, -EPERM. */
int nb_certificate_verify_subject(const struct nb_certificates *certificates, const char *node_name);

/*
 * Whether the API server would take the leaf for this node: the last common name is system:node:<node_name> and an
 * organization is system:nodes; other attributes do not matter. For certificates that are there already, which others
 * may have made. 0, -EPERM.
 */
int nb_certificate_verify_identity(const struct nb_certificates *certificates, const char *node_name);

/*
 * Everything that an issued certificate must be: the leaf has the key, the subject, extended key usage client auth
 * (present and listed), is valid at `now` (every certificate of the chain not past NotAfter; NotBefore up to `skew_sec`
 * in the future is let pass, so that a clock that is a little behind does not refuse a fresh certificate), is no CA;
 * each further certificate of the chain is a CA and issued the one before it. NB_CERTIFICATE_UNUSABLE says what was
 * found and what was expected.
 */
int nb_certificate_verify_node(const struct nb_certificates *chain, const struct nb_key *key, const char *node_name,
                               time_t now, unsigned skew_sec, struct nb_failure *f);

enum nb_ca_choice {
        NB_CA_PINNED,       /* those that a pin names, or that chain to one of them within the bundle */
        NB_CA_ALL,          /* all of them, but at least one pin must fit (trustWholeBundle) */
        NB_CA_ALL_UNPINNED, /* all of them, no pin is asked for (unsafeSkipCAVerification without pins) */
};

/*
 * Which CAs of a bundle are trusted. Appends them as PEM in their order, duplicates once, and writes the pins (hashes)
 * of those taken and of those left out (either may be NULL; NB_CERTIFICATES_MAX places each). Only CA certificates are
 * ever taken. A certificate that is named by a pin but is no CA does not count. `code_mismatch` is the failure for "no
 * pin fits" and its message names the hashes found; `code_malformed` that for a bundle that cannot be read.
 */
struct nb_ca_selection {
        uint8_t taken[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n_taken;
        uint8_t left_out[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n_left_out;
};

int nb_ca_select(const char *pem, size_t len, const uint8_t (*pins)[NB_SHA256_SIZE], unsigned n_pins,
                 enum nb_ca_choice choice, enum nb_code code_malformed, enum nb_code code_mismatch,
                 struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection, struct nb_failure *f);

/*
 * Which CAs of a newer bundle may take the place of those in `present`, which are trusted now: all of them, provided that
 * at least one has a public key that one of those has, and that nothing but CAs is in it. So trust goes on over a
 * rotation (old; old and new; new), and is never replaced in one step.
 *
 * 1: another bundle, 0: the same one; appended in either case. NB_REFRESH_INAPPLICABLE when no CA can be read out of `present`;
 * codes as in nb_ca_select().
 */
int nb_ca_renew(const char *present, size_t present_len, const char *pem, size_t len, enum nb_code code_malformed,
                enum nb_code code_mismatch, struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection,
                struct nb_failure *f);

/*
 * The hash that a k3s token carries for what /cacerts returns (k3s pkg/clientaccess/token.go hashCA): for one certificate
 * SHA-256 over the exact bytes; for several that over the DER of the root of the first one's chain, or over the bytes
 * where no chain can be built. The clock is not asked, where k3s takes a chain that is not valid now for none: TLS sees
 * to that. 0; -EINVAL when it is no list of certificates (k3s passes over other blocks); -E2BIG, -EIO, -ENOMEM.
 */
int nb_ca_hash_k3s(const char *pem, size_t len, uint8_t ret[static NB_SHA256_SIZE]);

/*
 * nb_ca_select() by such a hash in the place of pins. Where it is that of the exact bytes, all CAs in them; where it is
 * that of a CA certificate in DER, this one and what chains to it: for what else is in the bundle the token does not
 * vouch, though k3s would trust it. Whether that CA is the root of the first one's chain is not asked, so that a
 * selection can be selected from again; bytes have to be handed on as they are.
 */
int nb_ca_select_k3s(const char *pem, size_t len, const uint8_t hash[static NB_SHA256_SIZE], enum nb_ca_choice choice,
                     enum nb_code code_malformed, enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                     struct nb_ca_selection *ret_selection, struct nb_failure *f);
