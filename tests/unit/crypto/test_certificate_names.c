/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gnutls/gnutls.h>

#include "case.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"
#include "pki.h"

static struct pki_cert ca, other_ca;

static struct nb_certificates *parse(const char *pem) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(pem, strlen(pem), false, &certificates), 0);
        return certificates;
}

static struct nb_certificates *parse_all(char *pem) {
        struct nb_certificates *certificates = parse(pem);

        free(pem);
        return certificates;
}

/* --- Names --- */

struct names_case {
        const char *name;
        const char *names; /* as in struct pki_options */
        const char *listed;
        const char *is_for[4], *is_not_for[6];
};

static struct names_case name_cases[] = {
        { "names: none, but a common name", NULL, "", { NULL }, { "a", "" } },
        { "names: a name and an address",
          "dns:a.example,ip:10.0.0.1",
          "a.example, 10.0.0.1",
          { "a.example", "A.Example", "a.example.", "10.0.0.1" },
          { "example", "b.a.example", "10.0.0.2", "10.0.0.10", "a.example.." } },
        { "names: an IPv6 address",
          "ip:fd00::1",
          "fd00::1",
          { "fd00::1", "fd00:0::1" },
          { "fd00::2", "0.0.0.1" } },
        { "names: a wildcard is one label",
          "dns:*.example",
          "*.example",
          { "a.example", "B.EXAMPLE.", "*.example" },
          { "example", "a.b.example", "a.example.org" } },
        { "names: a wildcard of one label alone", "dns:*.lan", "*.lan", { "a.lan" }, { "lan" } },
        { "names: an address that is written as a name",
          "dns:10.0.0.1",
          "10.0.0.1",
          { NULL },
          { "10.0.0.1" } },
        { "names: one of another kind between others",
          "dns:a,mail:x@b,dns:c",
          "a, c",
          { "a", "c" },
          { "b", "x@b" } },
        { "names: more than fit",
          "dns:aaaaaaaaaaaaaaaaaaaa,dns:bbbbbbbbbbbbbbbbbbbb,dns:c",
          "aaaaaaaaaaaaaaaaaaaa, ...",
          { "c" },
          { "aaaa" } },
};

static void reads_names(void **state) {
        const struct names_case *c = *state;
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a", .names = c->names });
        struct nb_certificates *chain = parse(leaf.pem);
        char names[40];

        nb_certificate_names(chain, 0, names, sizeof(names));
        assert_string_equal(names, c->listed);
        for (size_t i = 0; i < N_ELEMENTS(c->is_for) && c->is_for[i]; i++)
                assert_true(nb_certificate_is_for(chain, c->is_for[i]));
        for (size_t i = 0; i < N_ELEMENTS(c->is_not_for) && c->is_not_for[i]; i++)
                assert_false(nb_certificate_is_for(chain, c->is_not_for[i]));
        nb_certificates_free(chain);
        pki_done(&leaf);
}

/* Otherwise it would hide the names of other machines. */
static void a_name_that_is_too_long_hides_none(void **state) {
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a", .names = "dns:a" });
        struct nb_certificates *chain;
        gnutls_datum_t pem;
        char text[40], long_name[300];

        memset(long_name, 'x', sizeof(long_name));
        assert_true(gnutls_x509_crt_set_subject_alt_name(leaf.crt, GNUTLS_SAN_DNSNAME, long_name,
                                                         sizeof(long_name),
                                                         GNUTLS_FSAN_APPEND) >= 0);
        assert_true(gnutls_x509_crt_set_subject_alt_name(leaf.crt, GNUTLS_SAN_DNSNAME, "b", 1,
                                                         GNUTLS_FSAN_APPEND) >= 0);
        assert_true(gnutls_x509_crt_sign2(leaf.crt, leaf.crt, leaf.key, GNUTLS_DIG_SHA256, 0) >= 0);
        assert_true(gnutls_x509_crt_export2(leaf.crt, GNUTLS_X509_FMT_PEM, &pem) >= 0);
        chain = parse((const char *)pem.data);
        nb_certificate_names(chain, 0, text, sizeof(text));
        assert_string_equal(text, "a, b");
        assert_true(nb_certificate_is_for(chain, "b"));
        nb_certificates_free(chain);
        gnutls_free(pem.data);
        pki_done(&leaf);
}

/* Of another party, in messages. */
static void names_cannot_drive_a_terminal(void **state) {
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a\x1b[2Jb" });
        char text[16];

        nb_crt_copy_name(gnutls_x509_crt_get_dn3, leaf.crt, text, sizeof(text));
        assert_null(strchr(text, '\x1b'));
        assert_int_equal(strncmp(text, "CN=a", 4), 0);
        nb_crt_copy_name(gnutls_x509_crt_get_dn3, leaf.crt, text, 4);
        assert_string_equal(text, "CN=");
        pki_done(&leaf);
}

static void the_first_end_counts(void **state) {
        static const struct pki_options options[] = {
                { .dn = "CN=a", .not_after = PKI_NOW + 3 * PKI_DAY },
                { .dn = "CN=b", .not_after = PKI_NOW + 1 * PKI_DAY },
                { .dn = "CN=c", .not_after = PKI_NOW + 2 * PKI_DAY },
        };
        struct pki_cert certs[N_ELEMENTS(options)];
        struct nb_certificates *all;

        for (size_t i = 0; i < N_ELEMENTS(certs); i++)
                certs[i] = pki_make(&options[i]);
        all = parse_all(PKI_JOIN(certs[0].pem, certs[1].pem, certs[2].pem));
        assert_int_equal(nb_certificates_first_end(all), PKI_NOW + PKI_DAY);
        nb_certificates_free(all);
        for (size_t i = 0; i < N_ELEMENTS(certs); i++)
                pki_done(&certs[i]);
}

static void refusals_have_reasons(void **state) {
        char *many = strdup("");
        struct nb_certificates *certificates = NULL;
        int r;

        for (unsigned i = 0; i <= NB_CERTIFICATES_MAX; i++) {
                char *more = PKI_JOIN(many, ca.pem);

                free(many);
                many = more;
        }
        r = nb_certificates_parse(many, strlen(many), false, &certificates);
        free(many);
        assert_string_equal(nb_certificates_reason(r), "more than 32 certificates");
        r = nb_certificates_parse("x", 1, false, &certificates);
        assert_string_equal(nb_certificates_reason(r),
                            "text that is not a list of certificates in PEM");
        assert_non_null(strstr(nb_certificates_reason(-EFBIG), "above 8192 bits"));
}

/* --- Purposes --- */

struct purpose_case {
        const char *name;
        struct pki_options options;
        bool may_serve;
};

static struct purpose_case purposes[] = {
        { "purpose: none", { .dn = "CN=a" }, true },
        { "purpose: of a server", { .dn = "CN=a", .purpose = PKI_SERVER_AUTH }, true },
        { "purpose: any", { .dn = "CN=a", .purpose = GNUTLS_KP_ANY }, true },
        { "purpose: of a client", { .dn = "CN=a", .purpose = PKI_CLIENT_AUTH }, false },
        { "purpose: a key for encipherment",
          { .dn = "CN=a", .key_usage = GNUTLS_KEY_KEY_ENCIPHERMENT },
          true },
        { "purpose: a key for signing certificates alone",
          { .dn = "CN=a", .key_usage = GNUTLS_KEY_KEY_CERT_SIGN },
          false },
        { "purpose: no extensions", { .dn = "CN=a", .is_v1 = true }, true },
};

static void knows_servers(void **state) {
        const struct purpose_case *c = *state;
        struct pki_cert leaf = pki_make(&c->options);
        struct nb_certificates *chain = parse(leaf.pem);

        assert_int_equal(nb_certificate_may_serve(chain, 0), c->may_serve);
        nb_certificates_free(chain);
        pki_done(&leaf);
}

/* --- Issuers --- */

struct issuer_case {
        const char *name;
        struct pki_options options; /* of the issuer; the subject is issued by `ca` */
        bool is_ca, is_anchor, has_name, is_issuer;
};

static struct issuer_case issuers[] = {
        { "issuer: the CA",
          { .dn = "CN=ca", .is_ca = true, .key_of = &ca },
          true,
          true,
          true,
          true },
        { "issuer: another key", { .dn = "CN=ca", .is_ca = true }, true, true, true, false },
        { "issuer: another name",
          { .dn = "CN=b", .is_ca = true, .key_of = &ca },
          true,
          true,
          false,
          false },
        { "issuer: one that has expired",
          { .dn = "CN=ca",
            .is_ca = true,
            .key_of = &ca,
            .not_after = PKI_NOW - PKI_DAY,
            .not_before = PKI_NOW - 2 * PKI_DAY },
          true,
          true,
          true,
          true },
        { "issuer: version 1, signed by itself",
          { .dn = "CN=ca", .is_v1 = true, .key_of = &ca },
          false,
          true,
          true,
          true },
        { "issuer: version 1, signed by another",
          { .dn = "CN=ca", .is_v1 = true, .key_of = &ca, .issuer = &other_ca },
          false,
          false,
          true,
          true },
        { "issuer: no CA", { .dn = "CN=ca", .key_of = &ca }, false, false, true, false },
        { "issuer: version 3 without constraints",
          { .dn = "CN=ca", .key_of = &ca, .has_no_constraints = true },
          false,
          false,
          true,
          false },
};

static void knows_issuers(void **state) {
        const struct issuer_case *c = *state;
        struct pki_cert issuer = pki_make(&c->options);
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a", .issuer = &ca });

        assert_int_equal(nb_crt_is_ca(issuer.crt, false), c->is_ca);
        assert_int_equal(nb_crt_is_ca(issuer.crt, true), c->is_anchor);
        assert_int_equal(nb_crt_has_issuer_name(leaf.crt, issuer.crt), c->has_name);
        assert_int_equal(c->has_name && c->is_anchor && nb_crt_is_issued_by(leaf.crt, issuer.crt),
                         c->is_issuer && c->is_anchor);
        pki_done(&leaf);
        pki_done(&issuer);
}

static void paths_lead_to_a_trusted_ca(void **state) {
        struct pki_cert inner = pki_make(
                &(struct pki_options){ .dn = "CN=inner", .issuer = &ca, .is_ca = true });
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a", .issuer = &inner });
        struct nb_certificates *whole = parse_all(PKI_JOIN(leaf.pem, other_ca.pem, inner.pem)),
                               *alone = parse(leaf.pem), *trusted = parse(ca.pem),
                               *both = parse_all(PKI_JOIN(other_ca.pem, ca.pem)),
                               *other = parse(other_ca.pem);

        assert_true(nb_certificate_is_trusted(whole, trusted));
        assert_true(nb_certificate_is_trusted(whole, both));
        assert_true(nb_certificate_is_trusted(alone, alone));
        assert_false(nb_certificate_is_trusted(alone, trusted));
        assert_false(nb_certificate_is_trusted(whole, other));
        nb_certificates_free(whole);
        nb_certificates_free(alone);
        nb_certificates_free(trusted);
        nb_certificates_free(both);
        nb_certificates_free(other);
        pki_done(&leaf);
        pki_done(&inner);
}

/* --- Serving certificates --- */

struct serving_case {
        const char *name;
        struct pki_options options;
        const char *ips;
        bool is_other_key;
        const char *detail; /* in the failure; NULL: accepted */
};

#define SERVING(list) .dn = "CN=a", .issuer = &ca, .purpose = PKI_SERVER_AUTH, .names = list

static struct serving_case servings[] = {
        { "serving: as k3s issues it",
          { SERVING("dns:a,dns:localhost,ip:127.0.0.1,ip:10.0.0.5,ip:fd00::5") },
          "10.0.0.5,fd00::5" },
        { "serving: no addresses are asked for", { SERVING("dns:localhost,dns:a") }, "" },
        { "serving: an address is missing",
          { SERVING("dns:a,dns:localhost,ip:10.0.0.50") },
          "10.0.0.5",
          .detail = "is for 'a, localhost, 10.0.0.50'" },
        { "serving: of another node", { SERVING("dns:b,dns:localhost") }, "", .detail = "is for" },
        { "serving: of another one, too",
          { SERVING("dns:a,dns:localhost,dns:b") },
          "",
          .detail = "is for" },
        { "serving: without localhost", { SERVING("dns:a") }, "", .detail = "is for" },
        { "serving: for another key",
          { SERVING("dns:a,dns:localhost") },
          "",
          .is_other_key = true,
          .detail = "is for another key" },
        { "serving: a CA",
          { SERVING("dns:a,dns:localhost"), .is_ca = true },
          "",
          .detail = "is not for server authentication" },
        { "serving: of a client",
          { .dn = "CN=a", .issuer = &ca, .purpose = PKI_CLIENT_AUTH, .names = "dns:a" },
          "",
          .detail = "is not for server authentication" },
        { "serving: of another CA",
          { .dn = "CN=a", .issuer = &other_ca, .purpose = PKI_SERVER_AUTH, .names = "dns:a" },
          "",
          .detail = "is not issued by a CA of the cluster" },
        { "serving: expired",
          { SERVING("dns:a,dns:localhost"), .not_before = PKI_NOW - 2 * PKI_DAY,
            .not_after = PKI_NOW - PKI_DAY },
          "",
          .detail = "expired at 2027-01-14T08:00:00Z" },
        { "serving: not yet valid by a clock that is wrong",
          { SERVING("dns:a,dns:localhost"), .not_before = PKI_NOW + PKI_DAY },
          "" },
};

static void verifies_serving(void **state) {
        const struct serving_case *c = *state;
        struct pki_cert leaf = pki_make(&c->options);
        struct nb_certificates *chain = parse(leaf.pem), *trusted = parse(ca.pem);
        const char *pem = c->is_other_key ? ca.key_pem : leaf.key_pem;
        struct nb_failure f = { 0 };
        struct nb_key *key = NULL;

        assert_int_equal(nb_key_import(pem, strlen(pem), &key), 0);
        assert_int_equal(
                nb_certificate_verify_serving(chain, trusted, key, "a", c->ips, PKI_NOW, &f) < 0,
                c->detail != NULL);
        assert_int_equal(f.code, c->detail ? NB_CERTIFICATE_UNUSABLE : NB_NONE);
        if (c->detail)
                assert_non_null(strstr(f.detail, c->detail));
        nb_key_free(key);
        nb_certificates_free(chain);
        nb_certificates_free(trusted);
        pki_done(&leaf);
}

/* --- DER --- */

struct der_case {
        const char *name;
        const char *bytes;
        unsigned len;
        unsigned offset, signed_len; /* 0: refused */
};

#define BYTES(text) text, sizeof(text) - 1

static struct der_case ders[] = {
        { "der: what is signed", BYTES("\x30\x06\x30\x02\x05\x00\x05\x00"), 2, 4 },
        { "der: a long form", BYTES("\x30\x81\x04\x30\x02\x05\x00"), 3, 4 },
        { "der: nothing in it", BYTES("\x30\x02\x30\x00"), 2, 2 },
        { "der: nothing", BYTES(""), 0, 0 },
        { "der: no sequence", BYTES("\x31\x04\x30\x02\x05\x00"), 0, 0 },
        { "der: no sequence in it", BYTES("\x30\x04\x31\x02\x05\x00"), 0, 0 },
        { "der: cut", BYTES("\x30\x04\x30\x02\x05"), 0, 0 },
        { "der: longer than what it is in", BYTES("\x30\x04\x30\x04\x05\x00\x05\x00"), 0, 0 },
        { "der: a length of five bytes", BYTES("\x30\x85\x00\x00\x00\x00\x02\x30\x00"), 0, 0 },
        { "der: an indefinite length", BYTES("\x30\x80\x30\x00\x00\x00"), 0, 0 },
};

static void finds_what_is_signed(void **state) {
        const struct der_case *c = *state;
        const gnutls_datum_t whole = nb_datum_const(c->bytes, c->len);
        gnutls_datum_t found = { 0 };

        assert_int_equal(nb_der_find_signed(&whole, &found), c->signed_len > 0 ? 0 : -EINVAL);
        assert_int_equal(found.size, c->signed_len);
        if (c->signed_len > 0)
                assert_ptr_equal(found.data, whole.data + c->offset);
}

/* --- The peer of a session --- */

static void pair(gnutls_session_t sessions[2], gnutls_certificate_credentials_t credentials[2]) {
        int r[2] = { GNUTLS_E_AGAIN, GNUTLS_E_AGAIN }, fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds),
                         0);
        for (int i = 0; i < 2; i++) {
                assert_true(gnutls_init(&sessions[i], (i == 0 ? GNUTLS_SERVER : GNUTLS_CLIENT) |
                                                              GNUTLS_NONBLOCK) >= 0);
                assert_true(gnutls_set_default_priority(sessions[i]) >= 0);
                assert_true(gnutls_credentials_set(sessions[i], GNUTLS_CRD_CERTIFICATE,
                                                   credentials[i]) >= 0);
                gnutls_transport_set_int(sessions[i], fds[i]);
        }
        while (r[0] == GNUTLS_E_AGAIN || r[1] == GNUTLS_E_AGAIN)
                for (int i = 0; i < 2; i++)
                        if (r[i] == GNUTLS_E_AGAIN)
                                r[i] = gnutls_handshake(sessions[i]);
        assert_int_equal(r[0], 0);
        assert_int_equal(r[1], 0);
        for (int i = 0; i < 2; i++)
                assert_int_equal(close(fds[i]), 0);
}

/* The client gets the chain of the server, which nobody trusts; the server gets none. */
static void shows_what_the_peer_has_sent(void **state) {
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=a", .issuer = &ca });
        char *chain = PKI_JOIN(leaf.pem, ca.pem);
        const gnutls_datum_t pem = nb_datum_const(chain, strlen(chain)),
                             key = nb_datum_const(leaf.key_pem, strlen(leaf.key_pem));
        gnutls_certificate_credentials_t credentials[2];
        struct nb_buffer seen = NB_BUFFER_INIT(65536), small = NB_BUFFER_INIT(8);
        gnutls_session_t sessions[2];

        for (int i = 0; i < 2; i++)
                assert_true(gnutls_certificate_allocate_credentials(&credentials[i]) >= 0);
        assert_true(gnutls_certificate_set_x509_key_mem(credentials[0], &pem, &key,
                                                        GNUTLS_X509_FMT_PEM) >= 0);
        pair(sessions, credentials);
        nb_certificates_of_session(sessions[1], &seen);
        assert_string_equal(seen.data, chain);
        nb_certificates_of_session(sessions[1], &small);
        assert_int_equal(small.error, -E2BIG);
        nb_buffer_clear(&seen);
        nb_certificates_of_session(sessions[0], &seen);
        assert_int_equal(seen.len, 0);
        for (int i = 0; i < 2; i++) {
                gnutls_deinit(sessions[i]);
                gnutls_certificate_free_credentials(credentials[i]);
        }
        nb_buffer_done(&seen);
        nb_buffer_done(&small);
        pki_done(&leaf);
        free(chain);
}

int main(void) {
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        other_ca = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        CASES(name_cases, reads_names);
        CASE(a_name_that_is_too_long_hides_none);
        CASE(names_cannot_drive_a_terminal);
        CASE(the_first_end_counts);
        CASE(refusals_have_reasons);
        CASES(purposes, knows_servers);
        CASES(issuers, knows_issuers);
        CASE(paths_lead_to_a_trusted_ca);
        CASES(servings, verifies_serving);
        CASES(ders, finds_what_is_signed);
        CASE(shows_what_the_peer_has_sent);
        return case_run("crypto certificate names");
}
