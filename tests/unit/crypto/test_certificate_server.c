/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <gnutls/gnutls.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"
#include "server_rows.h"

/* Verify: "CheckSignatureFrom", "isValid", "checkChainForKeyUsage" and "VerifyHostname" are the
 * functions of crypto/x509. */
#define NAMES_RULE "VerifyHostname: one of the DNSNames, or IPAddresses for an address"
#define TIME_RULE "isValid: NotBefore and NotAfter of each certificate"
#define USAGE_RULE "Verify: extended key usages are nested down a chain, intermediates and roots"
#define CA_RULE "CheckSignatureFrom: a parent of version 3 needs basicConstraints with CA"
#define KEY_RULE "PublicKeyAlgorithm: RSA, ECDSA, Ed25519"
#define IDENTIFIER_RULE "findPotentialParents: with another identifier last"
#define CONSTRAINT_RULE \
        "isValid: name constraints on all names below; of other types they are not handled"
#define WILDCARD_RULE \
        "isValid: an excluded name precludes a wildcard that stands for it (1.24.11, 1.25.5)"
#define SIGNATURE_RULE "SignatureAlgorithm: SHA-256 and longer with these keys"

/* --- One certificate, or two, below one CA --- */

struct row {
        const char *name, *rule;
        struct pki_options leaf, intermediate, root; /* without dn: none, or the usual one */
        enum nb_code code;
        const char *host, *reason; /* NULL: HOST; no particular one */
        bool is_stricter;          /* Go 1.19 accepts it */
};

static struct row rows[] = {
        { "usual", NAMES_RULE, .code = NB_NONE },
        /* Names. */
        { "another name", NAMES_RULE, .host = "other.example", .code = MISMATCH,
          .reason = "is for api.example, not for 'other.example'" },
        { "a longer name", NAMES_RULE, .host = "x" HOST, .code = MISMATCH },
        { "a name below", NAMES_RULE, .host = "x." HOST, .code = MISMATCH },
        { "in capitals", NAMES_RULE, .host = "API.Example", .code = NB_NONE },
        { "capitals in the certificate",
          NAMES_RULE,
          { .names = "dns:API.EXAMPLE" },
          .code = NB_NONE },
        { "a dot at the end of the host", NAMES_RULE, .host = HOST ".", .code = NB_NONE },
        { "a dot at the end in the certificate",
          NAMES_RULE,
          { .names = NAMES "." },
          .code = MISMATCH },
        { "the last of some names",
          NAMES_RULE,
          { .names = "mail:a@b.example,ip:10.0.0.1,dns:kubernetes," NAMES },
          .code = NB_NONE },
        { "a wildcard", NAMES_RULE, { .names = "dns:*.example" }, .code = NB_NONE },
        { "a wildcard below two labels",
          NAMES_RULE,
          { .names = "dns:*.lan.example" },
          .host = "api.lan.example",
          .code = NB_NONE },
        { "a wildcard for two labels",
          NAMES_RULE,
          { .names = "dns:*.example" },
          .host = "a.b.example",
          .code = MISMATCH },
        { "a wildcard for none",
          NAMES_RULE,
          { .names = "dns:*.example" },
          .host = "example",
          .code = MISMATCH },
        { "a wildcard in a label", NAMES_RULE, { .names = "dns:a*.example" }, .code = MISMATCH },
        { "a wildcard in the second label",
          NAMES_RULE,
          { .names = "dns:api.*" },
          .code = MISMATCH },
        { "a wildcard alone, for one label",
          NAMES_RULE,
          { .names = "dns:*" },
          .host = "api",
          .code = NB_NONE },
        { "an address",
          NAMES_RULE,
          { .names = "ip:192.0.2.1" },
          .host = "192.0.2.1",
          .code = NB_NONE },
        { "an IPv6 address",
          NAMES_RULE,
          { .names = "ip:fd00::1" },
          .host = "fd00:0::1",
          .code = NB_NONE },
        { "another address",
          NAMES_RULE,
          { .names = "ip:192.0.2.1" },
          .host = "192.0.2.2",
          .code = MISMATCH },
        { "an address as a DNS name",
          NAMES_RULE,
          { .names = "dns:192.0.2.1" },
          .host = "192.0.2.1",
          .code = MISMATCH },
        { "a name for an address",
          NAMES_RULE,
          { .names = "dns:*.0.2.1" },
          .host = "192.0.2.1",
          .code = MISMATCH },
        { "the common name alone",
          NAMES_RULE,
          { .dn = "CN=" HOST, .names = "" },
          .code = MISMATCH,
          .reason = "is for no name, not for 'api.example'" },
        { "the common name beside a mail address",
          NAMES_RULE,
          { .dn = "CN=" HOST, .names = "mail:a@b.example" },
          .code = MISMATCH },
        { "the common name beside an address",
          NAMES_RULE,
          { .dn = "CN=" HOST, .names = "ip:192.0.2.1" },
          .code = MISMATCH },
        { "an address as the common name",
          NAMES_RULE,
          { .dn = "CN=192.0.2.1", .names = "" },
          .host = "192.0.2.1",
          .code = MISMATCH },
        /* Times. */
        { "ended a second ago",
          TIME_RULE,
          { .not_after = PKI_NOW - 1 },
          .code = EXPIRED,
          .reason = "the server's certificate expired on 2027-01-15T07:59:59Z" },
        { "ends now", TIME_RULE, { .not_after = PKI_NOW }, .code = NB_NONE },
        { "begins now", TIME_RULE, { .not_before = PKI_NOW }, .code = NB_NONE },
        { "begins in a second",
          TIME_RULE,
          { .not_before = PKI_NOW + 1 },
          .code = EXPIRED,
          .reason = "is not valid before" },
        { "the CA has expired", TIME_RULE, .root = { ROOT, .not_after = PKI_NOW - 1 },
          .code = EXPIRED,
          .reason = "the CA that issued the server's certificate, 'CN=kubernetes', expired on" },
        { "the CA is not valid yet", TIME_RULE, .root = { ROOT, .not_before = PKI_NOW + PKI_DAY },
          .code = EXPIRED },
        { "an intermediate CA has expired", TIME_RULE,
          .intermediate = { MIDDLE, .not_after = PKI_NOW - 1 }, .code = EXPIRED,
          .reason = "an intermediate CA of the server's certificate, 'CN=middle', expired" },
        /* Extended key usage. */
        { "for servers", USAGE_RULE, { .purpose = PKI_SERVER_AUTH }, .code = NB_NONE },
        { "for any use", USAGE_RULE, { .purpose = GNUTLS_KP_ANY }, .code = NB_NONE },
        { "for clients",
          USAGE_RULE,
          { .purpose = PKI_CLIENT_AUTH },
          .code = UNTRUSTED,
          .reason = "the server's certificate is not for TLS servers" },
        { "for a use that is not known", USAGE_RULE, { .purpose = "1.2.3.4" }, .code = UNTRUSTED },
        { "an intermediate CA for servers", USAGE_RULE,
          .intermediate = { MIDDLE, .purpose = PKI_SERVER_AUTH }, .code = NB_NONE },
        { "an intermediate CA for any use", USAGE_RULE,
          .intermediate = { MIDDLE, .purpose = GNUTLS_KP_ANY }, .code = NB_NONE },
        { "an intermediate CA for clients", USAGE_RULE,
          .intermediate = { MIDDLE, .purpose = PKI_CLIENT_AUTH }, .code = UNTRUSTED,
          .reason = "an intermediate CA of the server's certificate, 'CN=middle', is not for TLS "
                    "servers" },
        { "an intermediate CA for a use that is not known", USAGE_RULE,
          .intermediate = { MIDDLE, .purpose = "1.2.3.4" }, .code = UNTRUSTED },
        { "the CA for servers", USAGE_RULE, .root = { ROOT, .purpose = PKI_SERVER_AUTH },
          .code = NB_NONE },
        { "the CA for any use", USAGE_RULE, .root = { ROOT, .purpose = GNUTLS_KP_ANY },
          .code = NB_NONE },
        { "the CA for clients", USAGE_RULE, .root = { ROOT, .purpose = PKI_CLIENT_AUTH },
          .code = UNTRUSTED,
          .reason = "the CA that issued the server's certificate, 'CN=kubernetes', is not for TLS "
                    "servers" },
        /* CAs. */
        { "a CA of version 1", CA_RULE, .root = { .dn = "CN=kubernetes", .is_v1 = true },
          .code = NB_NONE },
        { "a CA of version 1 above an intermediate one", CA_RULE, .intermediate = { MIDDLE },
          .root = { .dn = "CN=kubernetes", .is_v1 = true }, .code = NB_NONE },
        { "an intermediate CA of version 1", CA_RULE,
          .intermediate = { .dn = "CN=middle", .is_v1 = true }, .code = UNTRUSTED },
        { "a CA without basicConstraints", CA_RULE,
          .root = { .dn = "CN=kubernetes",
                    .has_no_constraints = true,
                    .key_usage = GNUTLS_KEY_KEY_CERT_SIGN },
          .code = UNTRUSTED,
          .reason = "'CN=kubernetes' is not a CA: it has no basicConstraints with CA:TRUE" },
        { "a CA that is none", CA_RULE, .root = { .dn = "CN=kubernetes" }, .code = UNTRUSTED,
          .reason = "is not a CA" },
        { "an intermediate CA without basicConstraints", CA_RULE,
          .intermediate = { .dn = "CN=middle",
                            .has_no_constraints = true,
                            .key_usage = GNUTLS_KEY_KEY_CERT_SIGN },
          .code = UNTRUSTED },
        { "an intermediate CA that is none", CA_RULE, .intermediate = { .dn = "CN=middle" },
          .code = UNTRUSTED },
        { "a CA that may not sign certificates", "CheckSignatureFrom: key usage of the parent",
          .root = { ROOT, .key_usage = GNUTLS_KEY_DIGITAL_SIGNATURE }, .code = UNTRUSTED },
        { "a CA without CAs below", "isValid: MaxPathLen", .root = { ROOT, .max_path_len = 1 },
          .code = NB_NONE },
        { "a CA below one that has none below", "isValid: MaxPathLen", .intermediate = { MIDDLE },
          .root = { ROOT, .max_path_len = 1 }, .code = UNTRUSTED },
        { "a permitted name", "isValid: name constraints",
          .root = { ROOT, .constraints = "example" }, .code = NB_NONE },
        { "a name that is not permitted", "isValid: name constraints",
          .root = { ROOT, .constraints = "example.org" }, .code = UNTRUSTED },
        { "a critical extension that is not known",
          "isValid: UnhandledCriticalExtensions",
          { .critical = "1.2.3.4" },
          .code = UNTRUSTED },
        { "a critical extension that is not known, in an intermediate CA",
          "isValid: UnhandledCriticalExtensions", .intermediate = { MIDDLE, .critical = "1.2.3.4" },
          .code = UNTRUSTED },
        { "a critical extension that is not known, in the CA",
          "isValid: UnhandledCriticalExtensions", .root = { ROOT, .critical = "1.2.3.4" },
          .code = UNTRUSTED },
        { "a permitted name below an intermediate CA", "isValid: name constraints",
          .intermediate = { MIDDLE }, .root = { ROOT, .constraints = "example" }, .code = NB_NONE },
        { "a name that is not permitted below an intermediate CA", "isValid: name constraints",
          .intermediate = { MIDDLE }, .root = { ROOT, .constraints = "example.org" },
          .code = UNTRUSTED, .reason = "name constraints" },
        { "a name that the intermediate CA does not permit", "isValid: name constraints",
          .intermediate = { MIDDLE, .constraints = "example.org" }, .code = UNTRUSTED },
        /* Keys and signatures. */
        { "RSA", KEY_RULE, { .is_rsa = true }, .root = { ROOT, .is_rsa = true }, .code = NB_NONE },
        { "Ed25519", KEY_RULE, { .key_type = GNUTLS_PK_EDDSA_ED25519 }, .code = NB_NONE },
        { "a CA with Ed25519", KEY_RULE, .root = { ROOT, .key_type = GNUTLS_PK_EDDSA_ED25519 },
          .code = NB_NONE },
        { "an intermediate CA with Ed25519", KEY_RULE,
          .intermediate = { MIDDLE, .key_type = GNUTLS_PK_EDDSA_ED25519 }, .code = NB_NONE },
        { "Ed448",
          KEY_RULE,
          { .key_type = GNUTLS_PK_EDDSA_ED448 },
          .code = UNTRUSTED,
          .reason = "the server's certificate has a key or a signature of the type EdDSA (Ed448)" },
        { "an intermediate CA with Ed448", KEY_RULE,
          .intermediate = { MIDDLE, .key_type = GNUTLS_PK_EDDSA_ED448 }, .code = UNTRUSTED,
          .reason = "Ed448" },
        { "a CA with Ed448", KEY_RULE, .root = { ROOT, .key_type = GNUTLS_PK_EDDSA_ED448 },
          .code = UNTRUSTED, .reason = "Ed448" },
        { "a key for RSA-PSS alone",
          KEY_RULE,
          { .key_type = GNUTLS_PK_RSA_PSS },
          .code = UNTRUSTED,
          .reason = "RSA-PSS" },
        { "ECDSA with SHA-512", SIGNATURE_RULE, { .digest = GNUTLS_DIG_SHA512 }, .code = NB_NONE },
        { "ECDSA with SHA-224",
          SIGNATURE_RULE,
          { .digest = GNUTLS_DIG_SHA224 },
          .code = UNTRUSTED,
          .reason = "ECDSA-SHA224" },
        { "ECDSA with SHA-1",
          SIGNATURE_RULE,
          { .digest = GNUTLS_DIG_SHA1 },
          .code = UNTRUSTED,
          .reason = "ECDSA-SHA1" },
        { "the CA's own signature with SHA-1", "Verify: does not verify the signature of a root",
          .root = { ROOT, .digest = GNUTLS_DIG_SHA1 }, .code = NB_NONE },
        /* Where we, or GnuTLS in the handshake, are stricter. */
        { "for signing certificates only",
          "isValid: key usage is ignored",
          { .key_usage = GNUTLS_KEY_KEY_CERT_SIGN },
          .code = UNTRUSTED,
          .is_stricter = true,
          .reason = "(key usage)" },
        { "the CA's identifier is another one",
          IDENTIFIER_RULE,
          { .authority = "abc" },
          .root = { ROOT, .subject_id = "def" },
          .code = NB_NONE },
        { "the intermediate CA's identifier is another one",
          IDENTIFIER_RULE,
          { .authority = "abc" },
          .intermediate = { MIDDLE, .subject_id = "def", .authority = "abc" },
          .root = { ROOT, .subject_id = "ghi" },
          .code = NB_NONE },
        { "the server's identifier of the CA alone",
          IDENTIFIER_RULE,
          { .authority = "abc" },
          .code = NB_NONE },
        { "the CA's identifier alone", IDENTIFIER_RULE, .root = { ROOT, .subject_id = "def" },
          .code = NB_NONE },
        /* Name constraints. */
        { "a name that is excluded", CONSTRAINT_RULE, .root = { ROOT, .constraints = "-example" },
          .code = UNTRUSTED, .reason = "name constraints" },
        { "another name is excluded", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "-example.org,-i.example" }, .code = NB_NONE },
        { "a name that is permitted and excluded", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "example,-api.example" }, .code = UNTRUSTED },
        { "excluded by the intermediate CA", CONSTRAINT_RULE,
          .intermediate = { MIDDLE, .constraints = "-api.example" },
          .root = { ROOT, .constraints = "example" }, .code = UNTRUSTED },
        { "two permitted names", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "example.org,example" }, .code = NB_NONE },
        { "permitted by one CA of two", CONSTRAINT_RULE,
          .intermediate = { MIDDLE, .constraints = "example.org" },
          .root = { ROOT, .constraints = "example" }, .code = UNTRUSTED },
        { "constraints that are not critical", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "-example", .is_uncritical = true }, .code = UNTRUSTED },
        { "in other letters", CONSTRAINT_RULE, .root = { ROOT, .constraints = "EXAMPLE" },
          .code = NB_NONE },
        { "the end of a word is permitted", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "ample" }, .code = UNTRUSTED },
        { "names below are permitted", CONSTRAINT_RULE, .root = { ROOT, .constraints = ".example" },
          .code = NB_NONE },
        { "only names below are permitted", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = ".api.example" }, .code = UNTRUSTED },
        { "one of its names is not permitted",
          CONSTRAINT_RULE,
          { .names = NAMES ",dns:api.example.org" },
          .root = { ROOT, .constraints = "example" },
          .code = UNTRUSTED },
        { "a dot at the end, with constraints",
          CONSTRAINT_RULE,
          { .names = NAMES "," NAMES "." },
          .root = { ROOT, .constraints = "-example.org" },
          .code = UNTRUSTED },
        { "an excluded name with a dot at the end",
          CONSTRAINT_RULE,
          { .names = NAMES "." },
          .root = { ROOT, .constraints = "-example" },
          .host = HOST ".",
          .code = UNTRUSTED },
        { "a wildcard, and names below it are permitted",
          CONSTRAINT_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "api.example" },
          .code = UNTRUSTED },
        { "a wildcard, and what it stands for is permitted",
          CONSTRAINT_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "example" },
          .code = NB_NONE },
        { "a wildcard below what is excluded",
          CONSTRAINT_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "-example" },
          .code = UNTRUSTED },
        { "a wildcard, and a name two labels below it is excluded",
          CONSTRAINT_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "-a.b.example" },
          .code = NB_NONE },
        { "a wildcard for another name than the excluded one",
          CONSTRAINT_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "-test.example.org,-xexample" },
          .code = NB_NONE },
        { "a wildcard that stands for an excluded name",
          WILDCARD_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "-test.example" },
          .code = UNTRUSTED,
          .is_stricter = true },
        { "a wildcard that stands for the excluded name of the server",
          WILDCARD_RULE,
          { .names = "dns:*.example" },
          .root = { ROOT, .constraints = "-API.example" },
          .code = UNTRUSTED,
          .is_stricter = true },
        { "a wildcard that stands for a name excluded by the intermediate CA",
          WILDCARD_RULE,
          { .names = "dns:*.example" },
          .intermediate = { MIDDLE, .constraints = "-test.example" },
          .code = UNTRUSTED,
          .is_stricter = true },
        { "the common name of the server is not permitted",
          CONSTRAINT_RULE,
          { .dn = "CN=api.example.org" },
          .root = { ROOT, .constraints = "example" },
          .code = NB_NONE },
        { "the common name of the intermediate CA is not permitted", CONSTRAINT_RULE,
          .intermediate = { .dn = "CN=ca.example.org", .is_ca = true },
          .root = { ROOT, .constraints = "example" }, .code = NB_NONE },
        { "a name of the intermediate CA is not permitted", CONSTRAINT_RULE,
          .intermediate = { MIDDLE, .names = "dns:ca.example.org" },
          .root = { ROOT, .constraints = "example" }, .code = UNTRUSTED, .is_stricter = true },
        { "an address that is permitted",
          CONSTRAINT_RULE,
          { .names = "ip:192.0.2.1" },
          .root = { ROOT, .constraints = "ip:192.0.2.0/24" },
          .host = "192.0.2.1",
          .code = NB_NONE },
        { "an address that is not permitted",
          CONSTRAINT_RULE,
          { .names = "ip:198.51.100.1" },
          .root = { ROOT, .constraints = "ip:192.0.2.0/24" },
          .host = "198.51.100.1",
          .code = UNTRUSTED },
        { "an address that is excluded",
          CONSTRAINT_RULE,
          { .names = "ip:192.0.2.1" },
          .root = { ROOT, .constraints = "-ip:192.0.0.0/16" },
          .host = "192.0.2.1",
          .code = UNTRUSTED },
        { "a name beside permitted addresses", CONSTRAINT_RULE,
          .root = { ROOT, .constraints = "ip:192.0.2.0/24" }, .code = NB_NONE },
        { "constraints on directory names", CONSTRAINT_RULE,
          .root = { ROOT, .has_directory_constraint = true }, .code = UNTRUSTED },
        { "constraints on directory names in an intermediate CA", CONSTRAINT_RULE,
          .intermediate = { MIDDLE, .has_directory_constraint = true }, .code = UNTRUSTED },
        { "constraints on directory names above an intermediate CA", CONSTRAINT_RULE,
          .intermediate = { MIDDLE }, .root = { ROOT, .has_directory_constraint = true },
          .code = UNTRUSTED },
        { "constraints on directory names that are not critical", CONSTRAINT_RULE,
          .root = { ROOT, .has_directory_constraint = true, .is_uncritical = true },
          .code = NB_NONE },
        { "a critical policy", "isValid: UnhandledCriticalExtensions",
          .root = { ROOT, .critical = "2.5.29.36" }, .code = UNTRUSTED },
};

static void run_row(void **state) {
        struct row *row = *state;
        const char *host = row->host ? row->host : HOST;
        struct pki_cert root, intermediate = { 0 }, leaf;
        char reason[256], *chain;
        enum nb_code code;

        if (!row->root.dn)
                row->root = (struct pki_options){ ROOT };
        root = pki_make(&row->root);
        row->intermediate.issuer = &root;
        if (row->intermediate.dn)
                intermediate = pki_make(&row->intermediate);
        if (!row->leaf.dn)
                row->leaf.dn = "CN=kube-apiserver";
        if (!row->leaf.names)
                row->leaf.names = NAMES;
        row->leaf.issuer = intermediate.crt ? &intermediate : &root;
        leaf = pki_make(&row->leaf);
        chain = intermediate.crt ? PKI_JOIN(leaf.pem, intermediate.pem) : PKI_JOIN(leaf.pem);
        write_row(row->name, row->code == NB_NONE || row->is_stricter, host, root.pem, chain);
        code = verify(chain, root.pem, host, reason);
        print_message("%s\n", reason);
        assert_int_equal(code, row->code);
        if (row->reason)
                assert_non_null(strstr(reason, row->reason));
        free(chain);
        pki_done(&leaf);
        if (intermediate.crt)
                pki_done(&intermediate);
        pki_done(&root);
}

/* --- Algorithms that GnuTLS does not know --- */

/* Replaces the algorithms in a certificate by ML-DSA-65, whose OID is as long. GnuTLS 3.8 knows its
 * name. */
static char *replace_algorithm(const struct pki_cert *cert, const char *oid) {
        static const unsigned char ml_dsa[] = { 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 0x12 };
        gnutls_datum_t der, pem;
        char *text;

        assert_int_equal(gnutls_x509_crt_export2(cert->crt, GNUTLS_X509_FMT_DER, &der), 0);
        for (size_t i = 0; i + sizeof(ml_dsa) <= der.size; i++)
                if (!memcmp(der.data + i, oid, sizeof(ml_dsa)))
                        memcpy(der.data + i, ml_dsa, sizeof(ml_dsa));
        assert_int_equal(gnutls_pem_base64_encode2("CERTIFICATE", &der, &pem), 0);
        text = strndup((char *)pem.data, pem.size);
        gnutls_free(der.data);
        gnutls_free(pem.data);
        return text;
}

static void unknown_algorithms(void **state) {
        static const char rsa_sha256[] = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b",
                          rsa[] = "\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
        struct pki_cert ca = pki_make(&(struct pki_options){ ROOT, .is_rsa = true }),
                        middle = pki_make(
                                &(struct pki_options){ MIDDLE, .is_rsa = true, .issuer = &ca }),
                        leaf = pki_make(&(struct pki_options){ .dn = "CN=server",
                                                               .names = NAMES,
                                                               .is_rsa = true,
                                                               .issuer = &middle });
        char *odd_alone = replace_algorithm(&leaf, rsa_sha256),
             *odd_ca = replace_algorithm(&ca, rsa), *odd_middle = replace_algorithm(&middle, rsa),
             *odd_leaf = replace_algorithm(&leaf, rsa_sha256),
             *odd_key = replace_algorithm(&leaf, rsa);
        const struct {
                const char *name, *chain, *bundle, *reason;
        } cases[] = {
                { "of the server's signature", PKI_JOIN(odd_leaf, middle.pem), ca.pem,
                  "the server's certificate has a key or a signature of the type " },
                { "of the server's key", PKI_JOIN(odd_key, middle.pem), ca.pem,
                  "the server's certificate has" },
                { "of an intermediate CA", PKI_JOIN(leaf.pem, odd_middle), ca.pem,
                  "an intermediate CA of the server's certificate has" },
                { "of the CA", PKI_JOIN(odd_alone), odd_ca, "ML-DSA" },
        };
        char reason[256];

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                assert_int_equal(verify(cases[i].chain, cases[i].bundle, HOST, reason), UNTRUSTED);
                print_message("%s: %s\n", cases[i].name, reason);
                assert_non_null(strstr(reason, cases[i].reason));
                write_row(cases[i].name, false, HOST, cases[i].bundle, cases[i].chain);
                free((char *)(uintptr_t)cases[i].chain);
        }
        free(odd_alone);
        free(odd_ca);
        free(odd_middle);
        free(odd_leaf);
        free(odd_key);
        pki_done(&leaf);
        pki_done(&middle);
        pki_done(&ca);
}

/* A weak key, which Go does not look at (crypto/rsa refuses less than 1024 bits since 1.24). */
static void weak_keys(void **state) {
        gnutls_x509_privkey_t key;
        gnutls_datum_t pem;
        char reason[256];

        assert_int_equal(gnutls_x509_privkey_init(&key), 0);
        assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_RSA, 768, 0), 0);
        assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem), 0);
        for (int is_ca = 0; is_ca <= 1; is_ca++) {
                struct pki_cert root = pki_make(&(struct pki_options){
                                        ROOT, .key_pem = is_ca ? (char *)pem.data : NULL }),
                                leaf = pki_make(&(struct pki_options){
                                        .dn = "CN=server",
                                        .names = NAMES,
                                        .issuer = &root,
                                        .key_pem = is_ca ? NULL : (char *)pem.data });

                assert_int_equal(verify(leaf.pem, root.pem, HOST, reason), UNTRUSTED);
                assert_non_null(strstr(reason, "too weak"));
                pki_done(&leaf);
                pki_done(&root);
        }
        gnutls_free(pem.data);
        gnutls_x509_privkey_deinit(key);
}

int main(void) {
        CASES(rows, run_row);
        CASE(unknown_algorithms);
        CASE(weak_keys);
        return case_run("servers");
}
