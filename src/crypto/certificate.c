/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"
#include "crypto/pem.h"

#define DER_INTEGER 0x02
#define DER_SEQUENCE 0x30
#define DER_VERSION 0xa0 /* [0], constructed */

struct der {
        const uint8_t *data;
        size_t len;
};

/* Splits the first element from `in`: returns the whole element and its content. */
static int der_take(struct der *in, uint8_t tag, struct der *ret_whole, struct der *ret_content) {
        const uint8_t *data = in->data;
        size_t len, header = 2;

        if (in->len < header || data[0] != tag)
                return -EINVAL;
        len = data[1];
        if (len >= 0x80) {
                header += len & 0x7f;
                if (header < 3 || header > 5 || header > in->len)
                        return -EINVAL;
                len = 0;
                for (size_t i = 2; i < header; i++)
                        len = len << 8 | data[i];
        }
        if (len > in->len - header)
                return -EINVAL;
        *ret_content = (struct der){ data + header, len };
        *ret_whole = (struct der){ data, header + len };
        *in = (struct der){ data + header + len, in->len - header - len };
        return 0;
}

int nb_der_find_signed(const gnutls_datum_t *certificate, gnutls_datum_t *ret_signed) {
        struct der in = { certificate->data, certificate->size }, whole, content;

        if (der_take(&in, DER_SEQUENCE, &whole, &content) < 0 ||
            der_take(&content, DER_SEQUENCE, &whole, &in) < 0)
                return -EINVAL;
        *ret_signed = nb_datum_const(whole.data, whole.len);
        return 0;
}

/*
 * Finds the bytes of SubjectPublicKeyInfo (RFC 5280, section 4.1). A pin is their hash
 * (RawSubjectPublicKeyInfo in Go). gnutls_x509_crt_get_key_id() hashes its own encoding of the key
 * instead. In GnuTLS 3.7.9, the result differs from `openssl pkey -pubin | sha256sum` for an
 * RSA-PSS key with parameters and for an RSA key without the NULL, and explicit curve parameters
 * are an error.
 */
static int find_spki(const gnutls_datum_t *certificate, struct der *ret_spki) {
        struct der in = { certificate->data, certificate->size }, tbs, whole, content;
        static const uint8_t before[] = {
                DER_INTEGER,  /* serial */
                DER_SEQUENCE, /* algorithm */
                DER_SEQUENCE, /* issuer */
                DER_SEQUENCE, /* validity */
                DER_SEQUENCE, /* subject */
        };

        if (der_take(&in, DER_SEQUENCE, &whole, &content) < 0 || in.len > 0)
                return -EINVAL;
        in = content;
        if (der_take(&in, DER_SEQUENCE, &whole, &tbs) < 0)
                return -EINVAL;
        if (tbs.len > 0 && tbs.data[0] == DER_VERSION &&
            der_take(&tbs, DER_VERSION, &whole, &content) < 0)
                return -EINVAL;
        for (size_t i = 0; i < N_ELEMENTS(before); i++)
                if (der_take(&tbs, before[i], &whole, &content) < 0)
                        return -EINVAL;
        return der_take(&tbs, DER_SEQUENCE, ret_spki, &content);
}

/* Limits the cost of verifying a signature with the key of this certificate, which may be
 * hostile. */
static int verify_key_size(gnutls_x509_crt_t crt) {
        _cleanup_(nb_datum_done) gnutls_datum_t modulus = { 0 }, exponent = { 0 };
        unsigned bits = 0, n_zeros = 0;

        if (gnutls_x509_crt_get_pk_algorithm(crt, &bits) >= 0 && bits > NB_KEY_BITS_MAX)
                return -EFBIG;
        if (gnutls_x509_crt_get_pk_rsa_raw(crt, &modulus, &exponent) < 0)
                return 0;
        while (n_zeros < exponent.size && exponent.data[n_zeros] == 0)
                n_zeros++;
        return exponent.size - n_zeros > NB_RSA_EXPONENT_MAX ? -EFBIG : 0;
}

/* On failure, nb_certificates_free() releases what the entry holds. */
static int entry_init(struct nb_certificate_entry *entry, const struct nb_pem_block *block) {
        gnutls_datum_t pem = nb_datum_const(block->text, block->len);
        _cleanup_(nb_datum_done) gnutls_datum_t der = { 0 };
        struct der spki;
        int r;

        if (block->len > NB_PEM_BLOCK_MAX)
                return -EFBIG;
        if (gnutls_x509_crt_init(&entry->crt) < 0)
                return -ENOMEM;
        r = gnutls_x509_crt_import(entry->crt, &pem, GNUTLS_X509_FMT_PEM);
        if (r >= 0)
                r = gnutls_x509_crt_export2(entry->crt, GNUTLS_X509_FMT_DER, &der);
        if (r < 0)
                return r == GNUTLS_E_MEMORY_ERROR ? -ENOMEM : -EINVAL;
        r = verify_key_size(entry->crt);
        if (r < 0)
                return r;
        r = find_spki(&der, &spki);
        if (r < 0)
                return r;
        r = nb_sha256(der.data, der.size, entry->digest);
        return r < 0 ? r : nb_sha256(spki.data, spki.len, entry->pin);
}

int nb_certificates_parse(const char *pem, size_t len, bool is_mixed,
                          struct nb_certificates **ret) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = calloc(
                1, sizeof(*certificates));
        struct nb_pem_block block;
        size_t offset = 0;
        int r;

        if (!certificates)
                return -ENOMEM;
        while ((r = nb_pem_next(pem, len, &offset, &block)) > 0) {
                if (!nb_pem_block_is(&block, NB_PEM_CERTIFICATE)) {
                        if (is_mixed)
                                continue;
                        return -EINVAL;
                }
                if (certificates->n == NB_CERTIFICATES_MAX)
                        return -E2BIG;
                r = entry_init(&certificates->entries[certificates->n++], &block);
                if (r < 0)
                        return r;
        }
        if (r < 0)
                return r;
        if (certificates->n == 0)
                return -EINVAL;
        r = nb_sha256(pem, len, certificates->digest);
        if (r < 0)
                return r;
        *ret = TAKE(certificates);
        return 0;
}

void nb_certificates_of_session(void *session, struct nb_buffer *ret_pem) {
        unsigned n = 0;
        const gnutls_datum_t *chain = gnutls_certificate_get_peers(session, &n);

        for (unsigned i = 0; chain && i < n && ret_pem->error >= 0; i++) {
                _cleanup_(nb_datum_done) gnutls_datum_t pem = { 0 };

                if (gnutls_pem_base64_encode2(NB_PEM_CERTIFICATE, &chain[i], &pem) < 0)
                        ret_pem->error = -ENOMEM;
                else
                        nb_buffer_append(ret_pem, pem.data, pem.size);
        }
}

const char *nb_certificates_reason(int r) {
        _Static_assert(NB_CERTIFICATES_MAX == 32, "text below");
        if (r == -E2BIG)
                return "more than 32 certificates";
        if (r == -EFBIG)
                return "a certificate larger than 16 KiB, or with a key above 8192 bits or an RSA "
                       "exponent above 32 bits";
        return "text that is not a list of certificates in PEM";
}

void nb_certificates_free(struct nb_certificates *certificates) {
        if (!certificates)
                return;
        for (size_t i = 0; i < certificates->n; i++)
                if (certificates->entries[i].crt)
                        gnutls_x509_crt_deinit(certificates->entries[i].crt);
        free(certificates);
}

void nb_certificates_freep(struct nb_certificates **certificates) {
        nb_certificates_free(*certificates);
}

size_t nb_certificates_count(const struct nb_certificates *certificates) {
        return certificates->n;
}

static gnutls_x509_crt_t crt_at(const struct nb_certificates *certificates, size_t i) {
        assert(i < certificates->n);
        return certificates->entries[i].crt;
}

void nb_certificate_export(const struct nb_certificates *certificates, size_t i,
                           struct nb_buffer *ret_pem) {
        _cleanup_(nb_datum_done) gnutls_datum_t pem = { 0 };
        int r = gnutls_x509_crt_export2(crt_at(certificates, i), GNUTLS_X509_FMT_PEM, &pem);

        if (r < 0)
                ret_pem->error = nb_gnutls_to_errno(r);
        else
                nb_buffer_append(ret_pem, pem.data, pem.size);
}

void nb_crt_copy_name(int (*get)(gnutls_x509_crt_t, gnutls_datum_t *, unsigned),
                      gnutls_x509_crt_t crt, char *ret, size_t size) {
        _cleanup_(nb_datum_done) gnutls_datum_t name = { 0 };

        ret[0] = '\0';
        if (get(crt, &name, 0) >= 0)
                nb_text_copy_line((const char *)name.data, name.size, ret, size);
}

void nb_certificate_subject(const struct nb_certificates *certificates, size_t i,
                            char ret[static NB_SUBJECT_SIZE]) {
        nb_crt_copy_name(gnutls_x509_crt_get_dn3, crt_at(certificates, i), ret, NB_SUBJECT_SIZE);
}

void nb_certificate_issuer(const struct nb_certificates *certificates, size_t i,
                           char ret[static NB_SUBJECT_SIZE]) {
        nb_crt_copy_name(gnutls_x509_crt_get_issuer_dn3, crt_at(certificates, i), ret,
                         NB_SUBJECT_SIZE);
}

time_t nb_certificate_not_before(const struct nb_certificates *certificates, size_t i) {
        return gnutls_x509_crt_get_activation_time(crt_at(certificates, i));
}

time_t nb_certificate_not_after(const struct nb_certificates *certificates, size_t i) {
        return gnutls_x509_crt_get_expiration_time(crt_at(certificates, i));
}

time_t nb_certificates_first_end(const struct nb_certificates *certificates) {
        time_t first = nb_certificate_not_after(certificates, 0);

        for (size_t i = 1; i < nb_certificates_count(certificates); i++)
                if (nb_certificate_not_after(certificates, i) < first)
                        first = nb_certificate_not_after(certificates, i);
        return first;
}

const uint8_t *nb_certificate_pin(const struct nb_certificates *certificates, size_t i) {
        assert(i < certificates->n);
        return certificates->entries[i].pin;
}

int nb_certificate_name(const struct nb_certificates *certificates, size_t i, unsigned n, char *ret,
                        size_t size) {
        char data[256];
        size_t len = sizeof(data);
        int r = gnutls_x509_crt_get_subject_alt_name(crt_at(certificates, i), n, data, &len, NULL);

        if (r == GNUTLS_SAN_DNSNAME && len < size) {
                nb_text_copy_line(data, len, ret, size);
                return 1;
        }
        if (r == GNUTLS_SAN_IPADDRESS && (len == 4 || len == 16))
                return inet_ntop(len == 4 ? AF_INET : AF_INET6, data, ret, (socklen_t)size) != NULL;
        return r >= 0 || r == GNUTLS_E_SHORT_MEMORY_BUFFER || r == GNUTLS_E_X509_UNKNOWN_SAN
                       ? 0
                       : -ENOENT;
}

void nb_certificate_names(const struct nb_certificates *certificates, size_t i, char *ret,
                          size_t size) {
        char name[256];
        int r = 0;

        ret[0] = '\0';
        for (unsigned n = 0; r >= 0; n++) {
                r = nb_certificate_name(certificates, i, n, name, sizeof(name));
                if (r > 0)
                        nb_text_list_add(ret, size, name);
        }
}

/* Go compares so (matchHostnames): "*" is one whole label, and only the first one. */
static bool is_name_for(const char *pattern, const char *host) {
        char name[256];
        size_t len = strlen(host);

        if (!strcasecmp(pattern, host))
                return true;
        snprintf(name, sizeof(name), "%.*s", (int)(len - (len > 0 && host[len - 1] == '.')), host);
        return pattern[0] == '*' ? name[0] && !strcasecmp(pattern + 1, name + strcspn(name, "."))
                                 : !strcasecmp(pattern, name);
}

/* As Go's VerifyHostname(). gnutls_x509_crt_check_hostname() also takes the common name, and an
 * address that is written as a DNS name, but not "*.lan", or a host with a dot at its end. */
bool nb_certificate_is_for(const struct nb_certificates *chain, const char *host) {
        gnutls_x509_crt_t crt = chain->entries[0].crt;
        uint8_t address[sizeof(struct in6_addr)];
        size_t address_len = inet_pton(AF_INET, host, address) == 1    ? sizeof(struct in_addr)
                             : inet_pton(AF_INET6, host, address) == 1 ? sizeof(struct in6_addr)
                                                                       : 0;
        int r = 0;

        for (unsigned i = 0;
             r >= 0 || r == GNUTLS_E_SHORT_MEMORY_BUFFER || r == GNUTLS_E_X509_UNKNOWN_SAN; i++) {
                char name[257];
                size_t len = sizeof(name) - 1;

                r = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &len, NULL);
                if (r == GNUTLS_SAN_IPADDRESS && address_len > 0 && len == address_len &&
                    !memcmp(name, address, len))
                        return true;
                if (r != GNUTLS_SAN_DNSNAME || address_len > 0 || memchr(name, '\0', len))
                        continue;
                name[len] = '\0';
                if (is_name_for(name, host))
                        return true;
        }
        return false;
}

bool nb_crt_has_issuer_name(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer) {
        _cleanup_(nb_datum_done) gnutls_datum_t a = { 0 }, b = { 0 };

        return gnutls_x509_crt_get_raw_issuer_dn(crt, &a) >= 0 &&
               gnutls_x509_crt_get_raw_dn(issuer, &b) >= 0 && a.size == b.size &&
               !memcmp(a.data, b.data, a.size);
}

/* As for Go. GnuTLS also takes an anchor of version 3 without basicConstraints for a CA. */
bool nb_crt_is_ca(gnutls_x509_crt_t crt, bool is_anchor) {
        unsigned critical, is_ca = 0;
        int r = gnutls_x509_crt_get_basic_constraints(crt, &critical, &is_ca, NULL);

        return r >= 0 ? is_ca
                      : is_anchor && gnutls_x509_crt_get_version(crt) == 1 &&
                                nb_crt_has_issuer_name(crt, crt);
}

bool nb_certificate_is_ca(const struct nb_certificates *certificates, size_t i) {
        return nb_crt_is_ca(crt_at(certificates, i), false);
}

/* In a handshake, GnuTLS checks the key usage itself; OpenSSL does not unless libcurl verifies the
 * server. */
bool nb_certificate_may_serve(const struct nb_certificates *certificates, size_t i) {
        gnutls_x509_crt_t crt = crt_at(certificates, i);
        unsigned usage = 0;
        int r = gnutls_x509_crt_get_key_usage(crt, &usage, NULL);

        return (r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE ||
                (r >= 0 && usage & (GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT))) &&
               gnutls_x509_crt_check_key_purpose(crt, GNUTLS_KP_TLS_WWW_SERVER, 0) != 0;
}

static bool may_sign_certificates(gnutls_x509_crt_t crt) {
        unsigned usage = 0;
        int r = gnutls_x509_crt_get_key_usage(crt, &usage, NULL);

        return r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE ||
               (r >= 0 && usage & GNUTLS_KEY_KEY_CERT_SIGN);
}

bool nb_crt_may_issue(gnutls_x509_crt_t crt, bool is_anchor) {
        return nb_crt_is_ca(crt, is_anchor) && may_sign_certificates(crt);
}

bool nb_crt_has_strong_signature(gnutls_x509_crt_t crt) {
        const int algorithm = gnutls_x509_crt_get_signature_algorithm(crt);

        return algorithm > 0 && gnutls_sign_is_secure2((gnutls_sign_algorithm_t)algorithm,
                                                       GNUTLS_SIGN_FLAG_SECURE_FOR_CERTS) != 0;
}

/* Not gnutls_x509_crt_verify(): if the type of the signature is not that of the key, it reports a
 * failure of constraints, and for an unknown type it reports no reason. Anybody can make such a
 * certificate. */
bool nb_crt_is_signed_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer) {
        _cleanup_(nb_pubkey_deinitp) gnutls_pubkey_t key = NULL;
        _cleanup_(nb_datum_done) gnutls_datum_t certificate = { 0 };
        const int algorithm = gnutls_x509_crt_get_signature_algorithm(crt);
        uint8_t bytes[NB_KEY_BITS_MAX / 8];
        size_t size = sizeof(bytes);
        gnutls_datum_t text;

        return algorithm > 0 && gnutls_x509_crt_get_signature(crt, (char *)bytes, &size) >= 0 &&
               gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_DER, &certificate) >= 0 &&
               nb_der_find_signed(&certificate, &text) >= 0 && gnutls_pubkey_init(&key) >= 0 &&
               gnutls_pubkey_import_x509(key, issuer, 0) >= 0 &&
               gnutls_pubkey_verify_data2(key, (gnutls_sign_algorithm_t)algorithm,
                                          GNUTLS_VERIFY_ALLOW_BROKEN, &text,
                                          &(gnutls_datum_t){ bytes, (unsigned)size }) >= 0;
}

bool nb_crt_is_issued_by(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer) {
        return nb_crt_has_issuer_name(crt, issuer) && may_sign_certificates(issuer) &&
               nb_crt_has_strong_signature(crt) && nb_crt_is_signed_by(crt, issuer);
}
