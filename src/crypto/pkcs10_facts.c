/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/key_internal.h"
#include "crypto/pem.h"
#include "crypto/pkcs10_facts.h"

#define OID_SIZE 128
#define OID_EXTENSION_REQUEST "1.2.840.113549.1.9.14"
#define OID_ALTERNATIVE_NAMES "2.5.29.17"

/* GnuTLS reports the end of a list, and a missing value, in this way. */
static bool is_absent(int r) {
        return r == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
}

/* A NUL would end the text early, and a control character could change what a terminal shows. */
static bool is_text(const char *text, size_t len) {
        return len > 0 && len < NB_REQUEST_TEXT_SIZE && nb_text_is_printable(text, len);
}

/* --- Subject --- */

/* The text is escaped as in RFC 4514, so that a value with a special character never equals an
 * expected one, which has none. "#" begins the hexadecimal form of what is not text. */
static int read_attribute(gnutls_x509_crq_t crq, const char *oid,
                          char ret[static NB_REQUEST_TEXT_SIZE]) {
        char text[NB_REQUEST_TEXT_SIZE];
        size_t size = sizeof(text);
        int r = gnutls_x509_crq_get_dn_by_oid(crq, oid, 0, 0, text, &size);

        if (is_absent(r))
                return 0;
        if (r < 0 || !is_text(text, size) || text[0] == '#')
                return -EINVAL;
        memcpy(ret, text, size);
        ret[size] = '\0';
        return 0;
}

static bool has_attribute(gnutls_x509_crq_t crq, unsigned i) {
        char oid[OID_SIZE];
        size_t size = sizeof(oid);

        return !is_absent(gnutls_x509_crq_get_dn_oid(crq, i, oid, &size));
}

static int read_subject(gnutls_x509_crq_t crq, struct nb_pkcs10_facts *facts) {
        int r;

        r = read_attribute(crq, GNUTLS_OID_X520_COMMON_NAME, facts->common_name);
        if (r < 0)
                return r;
        r = read_attribute(crq, GNUTLS_OID_X520_ORGANIZATION_NAME, facts->organization);
        if (r < 0)
                return r;
        facts->is_subject_plain = facts->common_name[0] && facts->organization[0] &&
                                  !has_attribute(crq, 2);
        return 0;
}

/* --- Extensions --- */

/*
 * GnuTLS reads the extensions of the first attribute that requests some, Go those of all such
 * attributes, and the alternative names are in the certificate that is issued. So any attribute or
 * extension beyond a single list of alternative names is reported, whatever it is.
 */
static int has_other_extensions(gnutls_x509_crq_t crq, bool *ret) {
        char oid[OID_SIZE];
        size_t size = sizeof(oid);
        unsigned critical;
        int r;

        *ret = false;
        r = gnutls_x509_crq_get_attribute_info(crq, 0, oid, &size);
        if (is_absent(r))
                return 0;
        if (r < 0)
                return -EINVAL;
        *ret = true;
        if (strcmp(oid, OID_EXTENSION_REQUEST) != 0)
                return 0;
        size = sizeof(oid);
        if (!is_absent(gnutls_x509_crq_get_attribute_info(crq, 1, oid, &size)))
                return 0;
        size = 0;
        if (gnutls_x509_crq_get_attribute_by_oid(crq, OID_EXTENSION_REQUEST, 1, NULL, &size) ==
            GNUTLS_E_SHORT_MEMORY_BUFFER)
                return 0;
        size = sizeof(oid);
        r = gnutls_x509_crq_get_extension_info(crq, 0, oid, &size, &critical);
        if (r < 0)
                return is_absent(r) ? 0 : -EINVAL;
        if (strcmp(oid, OID_ALTERNATIVE_NAMES) != 0)
                return 0;
        size = sizeof(oid);
        *ret = !is_absent(gnutls_x509_crq_get_extension_info(crq, 1, oid, &size, &critical));
        return 0;
}

/* Go reduces an IPv4 address in the form of IPv6 to IPv4, so it would not be what is shown here. */
static int read_address(const void *bytes, size_t len, struct nb_pkcs10_csr_name *ret) {
        if (len != sizeof(struct in_addr) && len != sizeof(struct in6_addr))
                return -EINVAL;
        if (!inet_ntop(len == sizeof(struct in_addr) ? AF_INET : AF_INET6, bytes, ret->text,
                       sizeof(ret->text)))
                return -EINVAL;
        ret->type = len == sizeof(struct in6_addr) && IN6_IS_ADDR_V4MAPPED(bytes)
                            ? NB_REQUEST_NAME_OTHER
                            : NB_REQUEST_NAME_ADDRESS;
        return 0;
}

/* 1: read; 0: there are no more names. */
static int read_name(gnutls_x509_crq_t crq, unsigned i, struct nb_pkcs10_csr_name *ret) {
        union {
                struct in6_addr aligned;
                char text[NB_REQUEST_TEXT_SIZE];
        } value;
        size_t size = sizeof(value.text);
        unsigned type, critical;
        int r = gnutls_x509_crq_get_subject_alt_name(crq, i, value.text, &size, &type, &critical);

        if (is_absent(r))
                return 0;
        if (r < 0)
                return -EINVAL;
        if (type == GNUTLS_SAN_IPADDRESS)
                return read_address(value.text, size, ret) < 0 ? -EINVAL : 1;
        *ret = (struct nb_pkcs10_csr_name){ .type = NB_REQUEST_NAME_OTHER };
        if (type != GNUTLS_SAN_DNSNAME) {
                nb_text_copy_line(value.text, size, ret->text, sizeof(ret->text));
                return 1;
        }
        if (!is_text(value.text, size))
                return -EINVAL;
        ret->type = NB_REQUEST_NAME_DNS;
        memcpy(ret->text, value.text, size);
        return 1;
}

static int read_names(gnutls_x509_crq_t crq, struct nb_pkcs10_facts *facts) {
        struct nb_pkcs10_csr_name excess;
        int r = 1;

        while (r > 0 && facts->n_names < NB_REQUEST_NAMES_MAX) {
                r = read_name(crq, facts->n_names, &facts->names[facts->n_names]);
                facts->n_names += r > 0;
        }
        if (r < 0)
                return r;
        return r > 0 && read_name(crq, facts->n_names, &excess) != 0 ? -E2BIG : 0;
}

static int read_facts(gnutls_x509_crq_t crq, struct nb_pkcs10_facts *facts) {
        size_t size = sizeof(facts->key);
        int r;

        if (gnutls_x509_crq_get_key_id(crq, GNUTLS_KEYID_USE_SHA256, facts->key, &size) < 0)
                return -EINVAL;
        r = read_subject(crq, facts);
        if (r < 0)
                return r;
        r = has_other_extensions(crq, &facts->has_other_extensions);
        if (r < 0)
                return r;
        return read_names(crq, facts);
}

/* Checks the key's size before the signature, since verifying is slow for a huge key. 0, -EINVAL,
 * -ENOMEM. */
static int import_request(const gnutls_datum_t *der, bool is_verified, gnutls_x509_crq_t *ret_crq,
                          bool *ret_is_p256) {
        _cleanup_(nb_crq_deinitp) gnutls_x509_crq_t crq = NULL;
        unsigned bits = 0;
        int type;

        if (gnutls_x509_crq_init(&crq) < 0)
                return -ENOMEM;
        if (gnutls_x509_crq_import(crq, der, GNUTLS_X509_FMT_DER) < 0)
                return -EINVAL;
        type = gnutls_x509_crq_get_pk_algorithm(crq, &bits);
        if ((type >= 0 && bits > NB_KEY_BITS_MAX) ||
            (is_verified && gnutls_x509_crq_verify(crq, 0) < 0))
                return -EINVAL;
        *ret_is_p256 = type == GNUTLS_PK_ECDSA && bits == 256;
        *ret_crq = TAKE(crq);
        return 0;
}

static int read_request(const char *pem, size_t len, bool is_verified,
                        struct nb_pkcs10_facts *ret_facts) {
        _cleanup_(nb_buffer_done) struct nb_buffer der = NB_BUFFER_INIT(NB_PEM_BLOCK_MAX);
        _cleanup_(nb_crq_deinitp) gnutls_x509_crq_t crq = NULL;
        struct nb_pkcs10_facts facts = { 0 };
        gnutls_datum_t datum;
        int r;

        r = nb_pem_decode(pem, len, &facts.end, NB_PEM_REQUEST, &der);
        if (r < 0)
                return r == -E2BIG ? -EINVAL : r;
        datum = nb_datum_const(der.data, der.len);
        r = import_request(&datum, is_verified, &crq, &facts.is_p256);
        if (r < 0)
                return r;
        r = nb_sha256(der.data, der.len, facts.hash);
        if (r < 0)
                return -EINVAL;
        r = read_facts(crq, &facts);
        if (r < 0)
                return r;
        *ret_facts = facts;
        return 0;
}

int nb_pkcs10_facts_read(const char *pem, size_t len, struct nb_pkcs10_facts *ret_facts) {
        return read_request(pem, len, true, ret_facts);
}

int nb_pkcs10_facts_look(const char *pem, size_t len, struct nb_pkcs10_facts *ret_facts) {
        return read_request(pem, len, false, ret_facts);
}
