/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"
#include "os/clock.h"

/*
 * Paths from a certificate to a CA. GnuTLS does not search for one: of two CAs with one name, and
 * kubeadm gives all its CAs the same, it tries one; and it drops a new CA that the old one has
 * issued, since such a certificate names itself as its issuer. So the search is here, as Go's:
 * each step compares the names and verifies the signature with the issuer's key, and a whole path
 * is then judged as Go does. gnutls_x509_crt_verify() takes no part in it: whether it has verified
 * a signature depends on what else it finds.
 */

/* As in Go (maxChainSignatureChecks), since a hostile chain can have any number of paths. */
#define SIGNATURES_MAX 100

#define OID_SIZE 128

/* The weakest keys that GnuTLS accepts in a TLS connection by default; without a profile it accepts
 * RSA of 768 bits. A system-wide policy can raise the profile. */
#define SERVER_FLAGS GNUTLS_PROFILE_TO_VFLAGS(GNUTLS_PROFILE_LOW)

#define KEY_ID_SIZE 64 /* usually 20 bytes */

struct search {
        const struct nb_certificates *chain; /* the certificate, then any that may be above it */
        const gnutls_x509_crt_t *anchors;    /* the trusted CAs */
        unsigned n_anchors;
        unsigned n_signatures; /* verified so far */
        gnutls_x509_crt_t path[NB_CERTIFICATES_MAX + 1];
        size_t n;
        gnutls_x509_crt_t found[NB_CERTIFICATES_MAX + 1]; /* the path that leads to an anchor */
        size_t n_found;
        unsigned i_found; /* which anchor */

        /* For a TLS server; `reason` is NULL otherwise. Why the first path was refused. */
        time_t now;
        enum nb_code code; /* NB_NONE: there was no path */
        char *reason;
        size_t size;
};

static int refuse(struct search *search, enum nb_code code, const char *reason) {
        if (search->reason && search->code == NB_NONE) {
                search->code = code;
                nb_text_copy_line(reason, strlen(reason), search->reason, search->size);
        }
        return -EKEYREJECTED;
}

/* --- The certificates of a TLS server --- */

static int refuse_anchor(struct search *search, gnutls_x509_crt_t anchor) {
        char subject[100], reason[192];

        nb_crt_copy_name(gnutls_x509_crt_get_dn3, anchor, subject, sizeof(subject));
        snprintf(reason, sizeof(reason),
                 "'%s' is not a CA: it has no basicConstraints with CA:TRUE", subject);
        return refuse(search, NB_TLS_UNTRUSTED, reason);
}

static const char *describe(const struct search *search, size_t i, char *ret, size_t size) {
        char subject[100];

        if (i == 0)
                return "the server's certificate";
        nb_crt_copy_name(gnutls_x509_crt_get_dn3, search->path[i], subject, sizeof(subject));
        snprintf(ret, size, "%s the server's certificate, '%s',",
                 i + 1 < search->n ? "an intermediate CA of" : "the CA that issued", subject);
        return ret;
}

/*
 * kubelet would refuse what Go does not know. The names of other algorithms are from GnuTLS, if it
 * knows them. Returns NULL if Go knows both, of the key and of the signature.
 */
static const char *find_foreign_algorithm(gnutls_x509_crt_t crt, bool is_signature_used,
                                          char oid[static OID_SIZE]) {
        static const int keys[] = { GNUTLS_PK_RSA, GNUTLS_PK_ECDSA, GNUTLS_PK_EDDSA_ED25519 };
        static const int signatures[] = {
                GNUTLS_SIGN_RSA_SHA256,     GNUTLS_SIGN_RSA_SHA384,     GNUTLS_SIGN_RSA_SHA512,
                GNUTLS_SIGN_RSA_PSS_SHA256, GNUTLS_SIGN_RSA_PSS_SHA384, GNUTLS_SIGN_RSA_PSS_SHA512,
                GNUTLS_SIGN_ECDSA_SHA256,   GNUTLS_SIGN_ECDSA_SHA384,   GNUTLS_SIGN_ECDSA_SHA512,
                GNUTLS_SIGN_EDDSA_ED25519,
        };
        const int key = gnutls_x509_crt_get_pk_algorithm(crt, NULL),
                  signature = gnutls_x509_crt_get_signature_algorithm(crt);
        size_t size = OID_SIZE;
        bool is_known = false;

        for (size_t i = 0; i < N_ELEMENTS(keys); i++)
                is_known |= key == keys[i];
        if (!is_known) {
                if (key > 0)
                        return gnutls_pk_get_name((gnutls_pk_algorithm_t)key);
                return gnutls_x509_crt_get_pk_oid(crt, oid, &size) >= 0 ? oid : "unknown";
        }
        for (size_t i = 0; i < N_ELEMENTS(signatures); i++)
                if (!is_signature_used || signature == signatures[i])
                        return NULL;
        if (signature > 0)
                return gnutls_sign_get_name((gnutls_sign_algorithm_t)signature);
        return gnutls_x509_crt_get_signature_oid(crt, oid, &size) >= 0 ? oid : "unknown";
}

static int refuse_algorithm(struct search *search, const char *what, const char *algorithm) {
        char reason[256];

        /* The OIDs of ML-DSA-44, -65 and -87 (RFC 9881). */
        snprintf(reason, sizeof(reason),
                 "%s has a key or a signature of the type %s%s, which this version of GnuTLS or "
                 "kubelet does not accept",
                 what, algorithm,
                 strncmp(algorithm, "2.16.840.1.101.3.4.3.1", 22) == 0 && algorithm[22] >= '7' &&
                                 algorithm[22] <= '9'
                         ? " (ML-DSA)"
                         : "");
        return refuse(search, NB_TLS_UNTRUSTED, reason);
}

/* What kubelet's Go requires of each certificate of the path, beyond what GnuTLS does: of the root
 * as well. */
static int verify_for_server(struct search *search, size_t i) {
        gnutls_x509_crt_t crt = search->path[i];
        time_t before = gnutls_x509_crt_get_activation_time(crt),
               after = gnutls_x509_crt_get_expiration_time(crt);
        char buffer[192], reason[320], when[NB_RFC3339_SIZE], oid[OID_SIZE];
        const char *what = describe(search, i, buffer, sizeof(buffer)),
                   *algorithm = find_foreign_algorithm(crt, i + 1 < search->n, oid);

        if (algorithm)
                return refuse_algorithm(search, what, algorithm);
        if (!gnutls_x509_crt_check_key_purpose(crt, GNUTLS_KP_TLS_WWW_SERVER, 0)) {
                snprintf(reason, sizeof(reason), "%s is not for TLS servers (extended key usage)",
                         what);
                return refuse(search, NB_TLS_UNTRUSTED, reason);
        }
        if (search->now >= before && search->now <= after)
                return 0;
        nb_time_format(search->now > after ? after : before, when);
        snprintf(reason, sizeof(reason), "%s %s %s", what,
                 search->now > after ? "expired on" : "is not valid before", when);
        return refuse(search, NB_TLS_EXPIRED, reason);
}

/* --- The certificates of any path --- */

/* Whether Go knows all critical extensions (crypto/x509, parser.go). */
static bool has_known_extensions(gnutls_x509_crt_t crt) {
        static const char *const known[] = {
                GNUTLS_X509EXT_OID_SUBJECT_KEY_ID,
                GNUTLS_X509EXT_OID_KEY_USAGE,
                GNUTLS_X509EXT_OID_SAN,
                GNUTLS_X509EXT_OID_BASIC_CONSTRAINTS,
                GNUTLS_X509EXT_OID_NAME_CONSTRAINTS,
                GNUTLS_X509EXT_OID_CRL_DIST_POINTS,
                GNUTLS_X509EXT_OID_CRT_POLICY,
                GNUTLS_X509EXT_OID_AUTHORITY_KEY_ID,
                GNUTLS_X509EXT_OID_EXTENDED_KEY_USAGE,
                GNUTLS_X509EXT_OID_AUTHORITY_INFO_ACCESS,
        };
        unsigned is_critical;
        int r = 0;

        for (unsigned i = 0; r >= 0; i++) {
                char oid[OID_SIZE];
                size_t size = sizeof(oid), k = 0;

                r = gnutls_x509_crt_get_extension_info(crt, i, oid, &size, &is_critical);
                while (r >= 0 && is_critical && k < N_ELEMENTS(known) && strcmp(oid, known[k]) != 0)
                        k++;
                if (k == N_ELEMENTS(known))
                        return false;
        }
        return r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
}

/* A certificate that verifies itself: GnuTLS judges only its key then. */
static bool has_strong_key(const struct search *search, gnutls_x509_crt_t crt) {
        unsigned status = 0;

        return gnutls_x509_crt_verify(crt, &crt, 1,
                                      NB_VERIFY_IGNORING_TIME | (search->reason ? SERVER_FLAGS : 0),
                                      &status) >= 0 &&
               !(status & GNUTLS_CERT_INSECURE_ALGORITHM);
}

/* CAs below a CA, without the certificate itself (RFC 5280, section 4.2.1.9). */
static bool is_length_permitted(const struct search *search) {
        for (size_t i = 1; i < search->n; i++) {
                int max = -1,
                    r = gnutls_x509_crt_get_basic_constraints(search->path[i], NULL, NULL, &max);

                if ((r < 0 && r != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE) ||
                    (r >= 0 && max >= 0 && (size_t)max < i - 1))
                        return false;
        }
        return true;
}

/* Each CA constrains the names of all below it. */
static bool has_permitted_names(const struct search *search) {
        for (size_t i = 1; i < search->n; i++)
                if (!nb_crt_permits_names(search->path[i], search->path, i))
                        return false;
        return true;
}

static int verify_path(struct search *search) {
        for (size_t i = 0; search->reason && i < search->n; i++)
                if (verify_for_server(search, i) < 0)
                        return -EKEYREJECTED;
        for (size_t i = 0; i < search->n; i++) {
                if (!has_known_extensions(search->path[i]))
                        return refuse(search, NB_TLS_UNTRUSTED,
                                      "the server's certificate chain has a critical extension "
                                      "that is not known");
                if (!has_strong_key(search, search->path[i]) ||
                    (i + 1 < search->n && !nb_crt_has_strong_signature(search->path[i])))
                        return refuse(search, NB_TLS_UNTRUSTED,
                                      "an algorithm or a key in the server's certificate chain is "
                                      "too weak");
        }
        if (!is_length_permitted(search) || !has_permitted_names(search))
                return refuse(search, NB_TLS_UNTRUSTED,
                              "a CA of the server's certificate may not issue it (name constraints "
                              "or path length)");
        return 0;
}

/* --- The search --- */

struct key_id {
        uint8_t bytes[KEY_ID_SIZE];
        size_t len; /* 0: none */
};

static struct key_id read_key_id(int (*get)(gnutls_x509_crt_t, void *, size_t *, unsigned *),
                                 gnutls_x509_crt_t crt) {
        struct key_id id = { .len = sizeof(id.bytes) };

        if (get(crt, id.bytes, &id.len, NULL) < 0)
                id.len = 0;
        return id;
}

/* Go tries first the CAs of which the certificate has the identifier, then those that may be it,
 * and last the others: of 110 CAs with one name, the right one (findPotentialParents). */
enum likeness { LIKELY, POSSIBLE, UNLIKELY, N_LIKENESS };

static enum likeness compare_key_ids(const struct key_id *authority, gnutls_x509_crt_t issuer) {
        const struct key_id subject = read_key_id(gnutls_x509_crt_get_subject_key_id, issuer);

        if (subject.len == authority->len &&
            memcmp(subject.bytes, authority->bytes, subject.len) == 0)
                return LIKELY;
        return subject.len == 0 || authority->len == 0 ? POSSIBLE : UNLIKELY;
}

/* Appends an issuer of the path's end. Names are compared first, since a signature is expensive. */
static bool append_issuer(struct search *search, gnutls_x509_crt_t issuer, bool is_anchor) {
        gnutls_x509_crt_t end = search->path[search->n - 1];

        if (search->n == N_ELEMENTS(search->path))
                return false;
        if (!nb_crt_may_issue(issuer, is_anchor)) {
                if (is_anchor && !nb_crt_is_ca(issuer, true))
                        (void)refuse_anchor(search, issuer);
                return false;
        }
        for (size_t i = 0; i < search->n; i++)
                if (gnutls_x509_crt_equals(search->path[i], issuer))
                        return false;
        if (search->n_signatures == SIGNATURES_MAX)
                return false;
        search->n_signatures++;
        if (!nb_crt_is_signed_by(end, issuer))
                return false;
        search->path[search->n++] = issuer;
        return true;
}

static bool extend_path(struct search *search);

static bool try_issuer(struct search *search, gnutls_x509_crt_t issuer, bool is_anchor,
                       const struct key_id *authority, enum likeness likeness) {
        bool is_found;

        if (!nb_crt_has_issuer_name(search->path[search->n - 1], issuer) ||
            compare_key_ids(authority, issuer) != likeness ||
            !append_issuer(search, issuer, is_anchor))
                return false;
        is_found = is_anchor ? verify_path(search) >= 0 : extend_path(search);
        search->n--;
        return is_found;
}

static void keep_path(struct search *search, unsigned i_anchor) {
        for (size_t i = 0; i < search->n; i++)
                search->found[i] = search->path[i];
        search->found[search->n] = search->anchors[i_anchor];
        search->n_found = search->n + 1;
        search->i_found = i_anchor;
}

static bool extend_path(struct search *search) {
        const struct key_id authority = read_key_id(gnutls_x509_crt_get_authority_key_id,
                                                    search->path[search->n - 1]);
        bool is_found = false;

        for (int likeness = 0; likeness < N_LIKENESS; likeness++)
                for (unsigned i = 0; i < search->n_anchors && !is_found; i++) {
                        is_found = try_issuer(search, search->anchors[i], true, &authority,
                                              (enum likeness)likeness);
                        if (is_found)
                                keep_path(search, i);
                }
        for (int likeness = 0; likeness < N_LIKENESS; likeness++)
                for (size_t i = 1; i < search->chain->n && !is_found; i++)
                        is_found = try_issuer(search, search->chain->entries[i].crt, false,
                                              &authority, (enum likeness)likeness);
        return is_found;
}

static bool find_path(struct search *search) {
        search->path[0] = search->chain->entries[0].crt;
        search->n = 1;
        /* A trusted certificate needs no issuer. */
        for (unsigned i = 0; i < search->n_anchors; i++)
                if (gnutls_x509_crt_equals(search->path[0], search->anchors[i]))
                        return verify_path(search) >= 0;
        return extend_path(search);
}

bool nb_certificate_is_trusted(const struct nb_certificates *chain,
                               const struct nb_certificates *ca) {
        gnutls_x509_crt_t anchors[NB_CERTIFICATES_MAX];
        struct search search = { .chain = chain, .anchors = anchors, .n_anchors = (unsigned)ca->n };

        for (size_t i = 0; i < ca->n; i++)
                anchors[i] = ca->entries[i].crt;
        return find_path(&search);
}

int nb_certificate_find_path(const struct nb_certificates *chain, const struct nb_certificates *ca,
                             struct nb_buffer *ret_pem, size_t *ret_ca) {
        gnutls_x509_crt_t anchors[NB_CERTIFICATES_MAX];
        struct search search = { .chain = chain, .anchors = anchors, .n_anchors = (unsigned)ca->n };

        for (size_t i = 0; i < ca->n; i++)
                anchors[i] = ca->entries[i].crt;
        if (!find_path(&search) || search.n_found == 0)
                return -EKEYREJECTED;
        for (size_t i = 0; i < search.n_found; i++) {
                _cleanup_(nb_datum_done) gnutls_datum_t pem = { 0 };

                if (gnutls_x509_crt_export2(search.found[i], GNUTLS_X509_FMT_PEM, &pem) < 0)
                        return -ENOMEM;
                nb_buffer_append(ret_pem, pem.data, pem.size);
        }
        *ret_ca = search.i_found;
        return ret_pem->error;
}

/* The bundle of the system has more CAs than a struct nb_certificates. */
static bool find_path_to_bundle(struct search *search, const char *pem, size_t len) {
        const gnutls_datum_t bundle = nb_datum_const(pem, len);
        gnutls_x509_crt_t *anchors = NULL;
        bool is_found;

        if (gnutls_x509_crt_list_import2(&anchors, &search->n_anchors, &bundle, GNUTLS_X509_FMT_PEM,
                                         0) < 0)
                return false;
        search->anchors = anchors;
        is_found = find_path(search);
        for (unsigned i = 0; i < search->n_anchors; i++)
                gnutls_x509_crt_deinit(anchors[i]);
        gnutls_free(anchors);
        return is_found;
}

bool nb_certificate_is_trusted_by_bundle(const struct nb_certificates *chain, const char *pem,
                                         size_t len) {
        struct search search = { .chain = chain };

        return find_path_to_bundle(&search, pem, len);
}

/* There is no path. A signature of an unknown type cannot be verified. */
static void explain_missing(struct search *search) {
        char issuer[NB_SUBJECT_SIZE], oid[OID_SIZE], text[256];

        for (size_t i = 0; i < search->chain->n; i++) {
                const char *algorithm = find_foreign_algorithm(search->chain->entries[i].crt, true,
                                                               oid);

                if (algorithm) {
                        (void)refuse_algorithm(search,
                                               i == 0 ? "the server's certificate"
                                                      : "an intermediate CA of the server's "
                                                        "certificate",
                                               algorithm);
                        return;
                }
        }
        nb_certificate_issuer(search->chain, 0, issuer);
        snprintf(text, sizeof(text),
                 "the server's certificate was issued by '%.120s', not by the cluster's CA",
                 issuer);
        (void)refuse(search, NB_TLS_UNTRUSTED, text);
}

enum nb_code nb_certificate_verify_server(const struct nb_certificates *chain, const char *pem,
                                          size_t len, const char *host, time_t now,
                                          char *ret_reason, size_t size) {
        struct search search = { .chain = chain, .now = now, .reason = ret_reason, .size = size };
        char names[160];

        if (!find_path_to_bundle(&search, pem, len)) {
                if (search.code == NB_NONE)
                        explain_missing(&search);
                return search.code;
        }
        if (!nb_certificate_is_for(chain, host)) {
                nb_certificate_names(chain, 0, names, sizeof(names));
                snprintf(ret_reason, size, "the server's certificate is for %s, not for '%.64s'",
                         names[0] ? names : "no name", host);
                return NB_TLS_NAME_MISMATCH;
        }
        /* Without this, a server could use any client certificate of the cluster with its name. */
        if (nb_certificate_may_serve(chain, 0)) {
                ret_reason[0] = '\0'; /* of another path */
                return NB_NONE;
        }
        snprintf(ret_reason, size, "the server's certificate is not for TLS servers (key usage)");
        return NB_TLS_UNTRUSTED;
}
