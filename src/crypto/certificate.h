/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* X.509 certificates (RFC 5280): parses PEM bundles, verifies the certificate of a node, and
 * selects the CA certificates that pins cover. TLS is in http/. The current time is a
 * parameter, but for TLS servers. */

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
#define NB_CERTIFICATE_NODE_SIZE 256

struct nb_certificates;

/* Parses all CERTIFICATE blocks of a PEM text, in order. Other blocks are skipped if `is_mixed`
 * (kubelet's file ends with the key), and rejected otherwise. Text outside of blocks is skipped
 * (RFC 7468 section 5.2; Kubernetes allows it in status.certificate, and bundles have comments) and
 * never exported. 0; -EINVAL if there is no certificate, an invalid one, an incomplete block, or a
 * NUL before the end of a block; -E2BIG above NB_CERTIFICATES_MAX; -EFBIG for a certificate that is
 * too expensive to verify; -ENOMEM. */
int nb_certificates_parse(const char *pem, size_t len, bool is_mixed, struct nb_certificates **ret);

/* Appends what the peer of a TLS session has sent, as PEM, whether or not it is trusted; nothing if
 * it has sent none. `session`: a gnutls_session_t of libcurl. */
void nb_certificates_of_session(void *session, struct nb_buffer *ret_pem);

/* Why nb_certificates_parse() failed, as the end of a message: "found ...". */
const char *nb_certificates_reason(int r);

void nb_certificates_free(struct nb_certificates *certificates);
void nb_certificates_freep(struct nb_certificates **certificates);

size_t nb_certificates_count(const struct nb_certificates *certificates);

/* Appends certificate i as PEM; errors are in ret_pem->error. */
void nb_certificate_export(const struct nb_certificates *certificates, size_t i,
                           struct nb_buffer *ret_pem);

/* RFC 4514 text, cut to the size. */
void nb_certificate_subject(const struct nb_certificates *certificates, size_t i,
                            char ret[static NB_SUBJECT_SIZE]);
void nb_certificate_issuer(const struct nb_certificates *certificates, size_t i,
                           char ret[static NB_SUBJECT_SIZE]);
time_t nb_certificate_not_before(const struct nb_certificates *certificates, size_t i);
time_t nb_certificate_not_after(const struct nb_certificates *certificates, size_t i);
/* The expiry of the one that expires first. */
time_t nb_certificates_first_end(const struct nb_certificates *certificates);

/* The pin: SHA-256 of the SubjectPublicKeyInfo in DER, NB_SHA256_SIZE bytes. */
const uint8_t *nb_certificate_pin(const struct nb_certificates *certificates, size_t i);

/* Copies the DNS name or address number `n` among its alternative names. 1; 0: the name is of
 * another kind, or does not fit; -ENOENT: there are no more. */
int nb_certificate_name(const struct nb_certificates *certificates, size_t i, unsigned n, char *ret,
                        size_t size);

/* Its DNS names and addresses for messages: "a.example, 10.0.0.1, ..." if not all fit; "" if there
 * is none. */
void nb_certificate_names(const struct nb_certificates *certificates, size_t i, char *ret,
                          size_t size);

/* basicConstraints with cA TRUE. */
bool nb_certificate_is_ca(const struct nb_certificates *certificates, size_t i);

/* Whether TLS servers may use it: key usage is absent, or has digitalSignature or keyEncipherment;
 * extended key usage is absent, or has serverAuth or any (RFC 5280 section 4.2.1.12). */
bool nb_certificate_may_serve(const struct nb_certificates *certificates, size_t i);

/* Whether a path leads from the first certificate, through the others in any order, to one of the
 * CAs. Ignores validity periods. Verifies at most 100 signatures. A bundle (PEM) has any number of
 * CAs. */
bool nb_certificate_is_trusted(const struct nb_certificates *chain,
                               const struct nb_certificates *ca);
bool nb_certificate_is_trusted_by_bundle(const struct nb_certificates *chain, const char *pem,
                                         size_t len);

/* Appends that path (PEM): the first certificate, those in between, and the CA, whose index is
 * *ret_ca. -EKEYREJECTED if there is none; -ENOMEM, -E2BIG. */
int nb_certificate_find_path(const struct nb_certificates *chain, const struct nb_certificates *ca,
                             struct nb_buffer *ret_pem, size_t *ret_ca);

/*
 * Verifies the chain of a TLS server as kubelet's Go will: such a path leads to one of the CAs of a
 * bundle (PEM), all of it is valid at `now`, for TLS servers, and of algorithms that Go knows; and
 * the first certificate is for this name or address. NB_NONE; NB_TLS_UNTRUSTED, NB_TLS_EXPIRED,
 * NB_TLS_NAME_MISMATCH, with a reason. If several paths are refused, they are for the first one.
 */
enum nb_code nb_certificate_verify_server(const struct nb_certificates *chain, const char *pem,
                                          size_t len, const char *host, time_t now,
                                          char *ret_reason, size_t size);

/* Whether an alternative name of the first certificate is this name or address. */
bool nb_certificate_is_for(const struct nb_certificates *chain, const char *host);

/* Verifies that the leaf is for this key. 0 or -EKEYREJECTED. */
int nb_certificate_verify_key(const struct nb_certificates *certificates, const struct nb_key *key);

/* The node name in the leaf's last common name, "system:node:<name>"; "" if it is of another kind,
 * unprintable or too long. */
void nb_certificate_node_name(const struct nb_certificates *chain,
                              char ret[static NB_CERTIFICATE_NODE_SIZE]);

/* Whether the API server accepts the leaf as this node: the last common name is
 * system:node:<node_name> and an organization is system:nodes. An existing certificate, which
 * another program may have requested, may have further attributes; with `is_exact` it must have
 * only these two, in either order. */
bool nb_certificate_is_for_node(const struct nb_certificates *chain, const char *node_name,
                                bool is_exact);

/* Verifies an issued certificate: the leaf has this key, this subject and the extended key usage
 * clientAuth, and is not a CA; each further certificate of the chain is a CA that issued the
 * previous one; and none has expired at `now`. NotBefore may be in the future: then this machine's
 * clock is wrong, and kubelet ignores it. NB_CERTIFICATE_UNUSABLE. */
int nb_certificate_verify_node(const struct nb_certificates *chain, const struct nb_key *key,
                               const char *node_name, time_t now, struct nb_failure *f);

/* Verifies a serving certificate of kubelet that k3s issued: the leaf is for this key, has the
 * extended key usage serverAuth, has not expired, and chains to one of the CAs. Its names must be
 * the node's, localhost and all `ips` ("a,b"); other addresses are accepted.
 * NB_CERTIFICATE_UNUSABLE. */
int nb_certificate_verify_serving(const struct nb_certificates *chain,
                                  const struct nb_certificates *ca, const struct nb_key *key,
                                  const char *node_name, const char *ips, time_t now,
                                  struct nb_failure *f);

enum nb_ca_choice {
        NB_CA_PINNED,       /* those that match, and those that chain to them within the bundle */
        NB_CA_ALL,          /* all, if at least one matches (trustWholeBundle) */
        NB_CA_ALL_UNPINNED, /* all, without a check (unsafeSkipCAVerification without pins) */
};

/*
 * What a CA must match. k3s hashes /cacerts in one of two ways (pkg/clientaccess/token.go hashCA):
 * the SHA-256 of the exact bytes, or of the root of the first certificate's chain in DER. If the
 * hash in a token is that of the bytes, all CAs match. If it is that of a CA certificate in DER,
 * that CA and those that chain to it match: the token does not cover the rest of the bundle,
 * although k3s would trust all of it. Which CA of the bundle k3s itself would hash does not matter.
 */
struct nb_ca_criteria {
        const uint8_t (*pins)[NB_SHA256_SIZE];
        unsigned n_pins;
        /* the hash in a k3s token, to use instead of the pins; NULL: none */
        const uint8_t *k3s_hash;
        enum nb_ca_choice choice;
        enum nb_code malformed; /* the failure for an invalid bundle */
        /* the failure if nothing matches; the message lists the hashes found */
        enum nb_code mismatch;
};

struct nb_ca_selection {
        uint8_t taken[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n_taken;
        uint8_t left_out[NB_CERTIFICATES_MAX][NB_SHA256_SIZE];
        unsigned n_left_out;
};

/* Whether the hash in a k3s token is that of the parsed text or of one CA in it. */
bool nb_ca_has_k3s_hash(const struct nb_certificates *bundle,
                        const uint8_t hash[static NB_SHA256_SIZE]);

/* Selects the trusted CAs of a bundle. Appends them to ret_pem in their order, without duplicates,
 * and returns the pins of the selected certificates and of the others. Only CA certificates are
 * selected, even if another certificate matches a pin. ret_selection may be NULL. */
int nb_ca_select(const char *pem, size_t len, const struct nb_ca_criteria *criteria,
                 struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection,
                 struct nb_failure *f);

/*
 * Decides whether a newer bundle may replace `present`, the CAs that are trusted now: only if the
 * public key of at least one CA is in both, and the bundle contains nothing but CAs. A CA can
 * therefore be rotated in steps (old; old and new; new), but not replaced in one step.
 *
 * 1 if the bundle differs, 0 if it is the same; both append it to ret_pem. NB_REFRESH_INAPPLICABLE
 * if `present` contains no valid CA; otherwise fails as nb_ca_select().
 */
int nb_ca_renew(const char *present, size_t present_len, const char *pem, size_t len,
                enum nb_code malformed, enum nb_code mismatch, struct nb_buffer *ret_pem,
                struct nb_ca_selection *ret_selection, struct nb_failure *f);
