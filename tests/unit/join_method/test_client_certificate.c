/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "join_method/inputs.h"
#include "pki.h"

static struct pki_cert ca, ours, other, rsa;

struct pair_case {
        const char *name;
        const struct pki_cert *certificate, *key;
        const char *text;    /* in the place of the certificate */
        const char *secret;  /* in the place of the key */
        bool is_mixed;       /* certificate and key in one file, named twice */
        const char *message; /* NULL: good */
};

#define KEY "'/x': client-key: expected "
#define CERTIFICATE "'/x': client-certificate: expected certificates in PEM, found something else"

static struct pair_case cases[] = {
        { "certificate and key", &ours, &ours },
        { "an RSA key", &rsa, &rsa },
        { "both in one file", &ours, &ours, .is_mixed = true },
        { "the key of another certificate", &ours, &other,
          .message = KEY "the key of the client certificate, found another one" },
        { "the key of the CA", &ours, &ca,
          .message = KEY "the key of the client certificate, found another one" },
        { "a key that is none", &ours, &ours, .secret = "x",
          .message = KEY "an unencrypted private key in PEM, found something else" },
        { "a key that is encrypted", &ours, &ours,
          .secret = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIGbMFcG\n-----END ENCRYPTED PRIVATE "
                    "KEY-----\n",
          .message = KEY "an unencrypted private key in PEM, found something else" },
        { "a certificate that is none", &ours, &ours, .text = "x", .message = CERTIFICATE },
        { "a certificate that is cut off", &ours, &ours,
          .text = "-----BEGIN CERTIFICATE-----\nMIIB\n", .message = CERTIFICATE },
};

static void fill(struct nb_secret *secret, const char *text) {
        assert_int_equal(nb_secret_init(secret, strlen(text)), 0);
        assert_int_equal(nb_secret_append(secret, text, strlen(text)), 0);
}

static void verified(void **state) {
        const struct pair_case *c = *state;
        struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = { 0 };
        char *both = PKI_JOIN(c->certificate->pem, c->key->key_pem);

        identity.kind = NB_IDENTITY_CERTIFICATE;
        strcpy(identity.source, "'/x'");
        fill(&identity.certificate, c->is_mixed ? both : c->text ? c->text : c->certificate->pem);
        fill(&identity.secret, c->is_mixed ? both : c->secret ? c->secret : c->key->key_pem);
        if (c->message) {
                assert_true(nb_client_certificate_verify(&identity, &f) < 0);
                assert_int_equal(f.code, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE);
                assert_string_equal(f.detail, c->message);
        } else
                assert_int_equal(nb_client_certificate_verify(&identity, &f), 0);
        nb_identity_done(&identity);
        free(both);
}

int main(void) {
        int r;

        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        ours = pki_make(&(struct pki_options){
                .dn = "CN=ours", .issuer = &ca, .purpose = PKI_CLIENT_AUTH });
        other = pki_make(&(struct pki_options){
                .dn = "CN=other", .issuer = &ca, .purpose = PKI_CLIENT_AUTH });
        rsa = pki_make(&(struct pki_options){ .dn = "CN=rsa", .issuer = &ca, .is_rsa = true });
        CASES(cases, verified);
        r = case_run("bootstrap client certificate");
        pki_done(&rsa);
        pki_done(&other);
        pki_done(&ours);
        pki_done(&ca);
        return r;
}
