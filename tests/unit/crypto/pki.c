/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "pki.h"

#define MUST(call) \
        do { \
                int _r = (call); \
                if (_r < 0) { \
                        (void)fprintf(stderr, #call ": %s\n", gnutls_strerror(_r)); \
                        abort(); \
                } \
        } while (0)

static char *to_string(gnutls_datum_t *datum) {
        char *text = strndup((const char *)datum->data, datum->size);

        if (!text)
                abort();
        gnutls_free(datum->data);
        return text;
}

static void set_dn(gnutls_x509_crt_t crt, const char *dn) {
        char *copy = strdup(dn), *state = NULL;

        for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state)) {
                char *value = strchr(part, '=') + 1;
                const char *oid = GNUTLS_OID_X520_COMMON_NAME;

                if (!strncmp(part, "OU=", 3))
                        oid = GNUTLS_OID_X520_ORGANIZATIONAL_UNIT_NAME;
                else if (part[0] == 'O')
                        oid = GNUTLS_OID_X520_ORGANIZATION_NAME;
                MUST(gnutls_x509_crt_set_dn_by_oid(crt, oid, 0, value, (unsigned)strlen(value)));
        }
        free(copy);
}

static void take_key(struct pki_cert *cert, const struct pki_options *o) {
        if (o->key_of) {
                cert->key = o->key_of->key;
                cert->is_key_borrowed = true;
                return;
        }
        MUST(gnutls_x509_privkey_init(&cert->key));
        if (o->key_pem) {
                gnutls_datum_t pem = { (unsigned char *)(uintptr_t)o->key_pem,
                                       (unsigned)strlen(o->key_pem) };

                MUST(gnutls_x509_privkey_import(cert->key, &pem, GNUTLS_X509_FMT_PEM));
        } else if (o->key_type)
                MUST(gnutls_x509_privkey_generate(
                        cert->key, o->key_type,
                        gnutls_sec_param_to_pk_bits(o->key_type, GNUTLS_SEC_PARAM_HIGH), 0));
        else if (o->is_rsa)
                MUST(gnutls_x509_privkey_generate(cert->key, GNUTLS_PK_RSA, 2048, 0));
        else
                MUST(gnutls_x509_privkey_generate(cert->key, GNUTLS_PK_ECDSA,
                                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                                  0));
}

static void add_name(gnutls_x509_crt_t crt, const char *kind, const char *value) {
        unsigned char address[16];
        const bool is_ipv6 = strchr(value, ':');

        if (!strcmp(kind, "ip")) {
                if (inet_pton(is_ipv6 ? AF_INET6 : AF_INET, value, address) != 1)
                        abort();
                MUST(gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, address,
                                                          is_ipv6 ? 16 : 4, GNUTLS_FSAN_APPEND));
                return;
        }
        MUST(gnutls_x509_crt_set_subject_alt_name(
                crt, !strcmp(kind, "dns") ? GNUTLS_SAN_DNSNAME : GNUTLS_SAN_RFC822NAME, value,
                (unsigned)strlen(value), GNUTLS_FSAN_APPEND));
}

static void add_names(gnutls_x509_crt_t crt, const char *names) {
        char *copy = strdup(names), *state = NULL;

        for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state)) {
                char *value = strchr(part, ':');

                *value = '\0';
                add_name(crt, part, value + 1);
        }
        free(copy);
}

static void add_constraint(gnutls_x509_name_constraints_t constraints, char *part) {
        bool is_excluded = part[0] == '-', is_ip;
        unsigned char address[8] = { 0 };
        unsigned bits;
        gnutls_datum_t name;

        part += is_excluded;
        is_ip = !strncmp(part, "ip:", 3);
        name = (gnutls_datum_t){ (unsigned char *)part, (unsigned)strlen(part) };
        if (is_ip) {
                char *slash = strchr(part, '/');

                *slash = '\0';
                if (inet_pton(AF_INET, part + 3, address) != 1)
                        abort();
                bits = (unsigned)strtoul(slash + 1, NULL, 10);
                for (unsigned i = 0; i < bits; i++)
                        address[4 + i / 8] |= (unsigned char)(0x80 >> i % 8);
                name = (gnutls_datum_t){ address, sizeof(address) };
        }
        MUST((is_excluded ? gnutls_x509_name_constraints_add_excluded
                          : gnutls_x509_name_constraints_add_permitted)(
                constraints, is_ip ? GNUTLS_SAN_IPADDRESS : GNUTLS_SAN_DNSNAME, &name));
}

static void constrain(gnutls_x509_crt_t crt, const char *texts, bool is_critical) {
        gnutls_x509_name_constraints_t constraints;
        char *copy = strdup(texts), *state = NULL;

        MUST(gnutls_x509_name_constraints_init(&constraints));
        for (char *part = strtok_r(copy, ",", &state); part; part = strtok_r(NULL, ",", &state))
                add_constraint(constraints, part);
        MUST(gnutls_x509_crt_set_name_constraints(crt, constraints, is_critical));
        gnutls_x509_name_constraints_deinit(constraints);
        free(copy);
}

/* permittedSubtrees with the directory name CN=x (RFC 5280, section 4.2.1.10). */
static void constrain_directory(gnutls_x509_crt_t crt, bool is_critical) {
        static const unsigned char der[] = { 0x30, 0x14, 0xa0, 0x12, 0x30, 0x10, 0xa4, 0x0e,
                                             0x30, 0x0c, 0x31, 0x0a, 0x30, 0x08, 0x06, 0x03,
                                             0x55, 0x04, 0x03, 0x0c, 0x01, 'x' };

        MUST(gnutls_x509_crt_set_extension_by_oid(crt, "2.5.29.30", der, sizeof(der), is_critical));
}

static void add_extensions(gnutls_x509_crt_t crt, const struct pki_options *o) {
        if (!o->has_no_constraints)
                MUST(gnutls_x509_crt_set_basic_constraints(crt, o->is_ca,
                                                           (int)o->max_path_len - 1));
        MUST(gnutls_x509_crt_set_key_usage(crt, o->key_usage ? o->key_usage
                                                : o->is_ca   ? GNUTLS_KEY_KEY_CERT_SIGN
                                                             : GNUTLS_KEY_DIGITAL_SIGNATURE));
        if (o->purpose)
                MUST(gnutls_x509_crt_set_key_purpose_oid(crt, o->purpose, 0));
        if (o->authority)
                MUST(gnutls_x509_crt_set_authority_key_id(crt, o->authority, strlen(o->authority)));
        if (o->subject_id)
                MUST(gnutls_x509_crt_set_subject_key_id(crt, o->subject_id, strlen(o->subject_id)));
        if (o->names)
                add_names(crt, o->names);
        if (o->constraints)
                constrain(crt, o->constraints, !o->is_uncritical);
        if (o->has_directory_constraint)
                constrain_directory(crt, !o->is_uncritical);
        if (o->critical)
                MUST(gnutls_x509_crt_set_extension_by_oid(crt, o->critical, "\x05", 2, 1));
}

struct pki_cert pki_make(const struct pki_options *o) {
        static unsigned char serial[] = { 1, 0 };
        struct pki_cert cert = { 0 };
        gnutls_x509_privkey_t signer;
        gnutls_datum_t out;
        int type;

        take_key(&cert, o);
        MUST(gnutls_x509_crt_init(&cert.crt));
        MUST(gnutls_x509_crt_set_version(cert.crt, o->is_v1 ? 1 : 3));
        serial[1]++;
        MUST(gnutls_x509_crt_set_serial(cert.crt, serial, sizeof(serial)));
        set_dn(cert.crt, o->dn);
        MUST(gnutls_x509_crt_set_activation_time(cert.crt,
                                                 o->not_before ? o->not_before : PKI_NOW - 300));
        MUST(gnutls_x509_crt_set_expiration_time(cert.crt, o->not_after ? o->not_after
                                                                        : PKI_NOW + 365 * PKI_DAY));
        MUST(gnutls_x509_crt_set_key(cert.crt, cert.key));
        if (!o->is_v1)
                add_extensions(cert.crt, o);
        signer = o->issuer ? o->issuer->key : cert.key;
        type = gnutls_x509_privkey_get_pk_algorithm(signer);
        MUST(gnutls_x509_crt_sign2(cert.crt, o->issuer ? o->issuer->crt : cert.crt, signer,
                                   o->digest                         ? o->digest
                                   : type == GNUTLS_PK_EDDSA_ED25519 ? GNUTLS_DIG_SHA512
                                   : type == GNUTLS_PK_EDDSA_ED448   ? GNUTLS_DIG_SHAKE_256
                                                                     : GNUTLS_DIG_SHA256,
                                   0));
        MUST(gnutls_x509_crt_export2(cert.crt, GNUTLS_X509_FMT_PEM, &out));
        cert.pem = to_string(&out);
        MUST(gnutls_x509_privkey_export2(cert.key, GNUTLS_X509_FMT_PEM, &out));
        cert.key_pem = to_string(&out);
        return cert;
}

void pki_done(struct pki_cert *cert) {
        gnutls_x509_crt_deinit(cert->crt);
        if (!cert->is_key_borrowed)
                gnutls_x509_privkey_deinit(cert->key);
        free(cert->pem);
        free(cert->key_pem);
}

char *pki_join(const char *const *texts) {
        size_t len = 0;
        char *text;

        for (size_t i = 0; texts[i]; i++)
                len += strlen(texts[i]);
        text = calloc(1, len + 1);
        if (!text)
                abort();
        for (size_t i = 0; texts[i]; i++)
                strcat(text, texts[i]);
        return text;
}
