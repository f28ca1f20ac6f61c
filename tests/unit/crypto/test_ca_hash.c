/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <gnutls/gnutls.h>

#include "base/encoding.h"
#include "case.h"
#include "crypto/certificate.h"
#include "k3s_certs.h"
#include "pki.h"

#define BUNDLE_MAX (256 * 1024)
#define END (-1)
#define BYTES (-2) /* in the place of a certificate: the bundle as it stands */

static char *join(const int *which) {
        const char *texts[9] = { NULL };

        for (size_t i = 0; which[i] != END; i++)
                texts[i] = pems[which[i]];
        return pki_join(texts);
}

static char *add_cr(const char *text) {
        char *result = calloc(1, 2 * strlen(text) + 1), *at = result;

        assert_non_null(result);
        for (; *text; text++) {
                if (*text == '\n')
                        *at++ = '\r';
                *at++ = *text;
        }
        return result;
}

/* The hash is the result of k3s' own hashCA() in Go: whatever k3s puts into a token is accepted. */
struct hash_case {
        const char *name;
        int bundle[8];
        const char *hash;
        const char *before, *after;
        bool is_cut; /* without the newline at the end */
        bool has_cr;
};

static struct hash_case hashes[] = {
        { "one certificate",
          { K3S, END },
          "24edb50f0f8a9b6a5dcd47a8a6060325f8306fd9391b6af955050b39d069f0ea" },
        { "one certificate without the last newline",
          { K3S, END },
          "889ef669a475c262d08ecc8f35119e5d331cd27865dbd0c2a0f2b9425e416927",
          .is_cut = true },
        { "one certificate and one more newline",
          { K3S, END },
          "4815a17bfd4006c80f402c53dda54697e2a02267f42946060976b62ea3b51db3",
          .after = "\n" },
        { "one certificate after a comment",
          { K3S, END },
          "4194932d456ca72fc5d9c40aa5fc2b103656d49b8bbf8d99497d39f91e5c8958",
          .before = "# k3s\n" },
        { "one certificate with carriage returns",
          { K3S, END },
          "b0523c5b0005d43871b1e598c287f540833d052345eeaefcb78743527a02260b",
          .has_cr = true },
        { "twice the same",
          { K3S, K3S, END },
          "6c6391559749c95bf5657cf1b77c254253367f062dc3d9d68072627919127a8d" },
        { "intermediate and root",
          { INTERMEDIATE, ROOT, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "root and intermediate",
          { ROOT, INTERMEDIATE, END },
          "bdcbe8143cc91de53b24b238a9b000f30c3751d093cea4024cc2f161f7621488" },
        { "two intermediates and the root",
          { DEEPER, INTERMEDIATE, ROOT, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "two intermediates and the root in another order",
          { DEEPER, ROOT, INTERMEDIATE, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "a gap in the chain",
          { DEEPER, ROOT, END },
          "b64233a4c452f998a4fda2e0fd55b95396ebc833bfdbf7dba177b6332dfdd9b0" },
        { "a root that has nothing to do with it beside",
          { INTERMEDIATE, OTHER, ROOT, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "two roots that have nothing to do with each other",
          { ROOT, OTHER, END },
          "25e316a5daa420067a8f5b887082fa5f17a50d4c9299e96a8cff88c93f16b7f5" },
        { "self-signed and cross-signed root",
          { INTERMEDIATE, CROSS, ROOT, OTHER, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "cross-signed root alone",
          { INTERMEDIATE, CROSS, OTHER, END },
          "3bf32dc129e48b2633076b2a6b39913a7d296c2967453b24cce449d42b20d5b5" },
        { "cross-signed root without who signed it",
          { INTERMEDIATE, CROSS, END },
          "cdcfa8f4b9c859ce3c635c5721f6ccb578f3d29e75f67ecd3bf0bfb43206bb3e" },
        { "cross-signed root first",
          { CROSS, ROOT, OTHER, END },
          "3bf32dc129e48b2633076b2a6b39913a7d296c2967453b24cce449d42b20d5b5" },
        { "renewed root beside",
          { INTERMEDIATE, ROOT, RENEWED, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "renewed root before",
          { INTERMEDIATE, RENEWED, ROOT, END },
          "9a533f8aa8bac05a7b8a018f355819f746075a17c4b6e1467e1d2f4fcb1cb441" },
        { "root and the renewed one",
          { ROOT, RENEWED, END },
          "bf278ab116af190c3bf9765427bd25d90f4fa1b1a8fee1e7f5de8667faa0c477" },
        { "key identifiers that fit go first",
          { INTERMEDIATE, NO_ID, ROOT, END },
          "59243ba92401f4b3db8ea10cca8d1fce4be89e9511229d2c0983cd4470589329" },
        { "an intermediate that names no issuer counts as a root",
          { UNDER_SILENT, SILENT, ROOT, END },
          "889e102d8496170200f30e28b9df84a4debf2304d63237d8d6e44217de4810a8" },
        { "an intermediate for clients alone",
          { UNDER_CLIENTS, CLIENTS, ROOT, END },
          "12577bc09b689eb1e9fe91cd5c254517506c025a507807eecaa9275661bf69cf" },
        { "a CA for clients alone first",
          { CLIENTS, ROOT, END },
          "77d6390edcaa525df678a6787e28724863ddfcfb26c7c0bc2f8d7850752b5cf8" },
        { "path length kept",
          { UNDER_SHORT, SHORT, END },
          "541a0a00faefece133eba08a73e704c1dec695bada666312dd3df92971fad3f4" },
        { "path length exceeded",
          { FAR_BELOW_SHORT, UNDER_SHORT, SHORT, END },
          "170a71fc6905fa78f3a89ffaebc8a5e047d374e12a40bbbb0799551eda4ab027" },
        { "an issuer that is no CA",
          { DEEPER, OVER, ROOT, END },
          "2577f54f2a5d3093421d3e286551a8ca85e0f3a638453ad7ce5ba6f54c185196" },
};

static int select_by(const char *bundle, const uint8_t hash[static NB_SHA256_SIZE],
                     enum nb_ca_choice choice, struct nb_buffer *ret_pem,
                     struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        return nb_ca_select(bundle, strlen(bundle),
                            &(struct nb_ca_criteria){ .k3s_hash = hash,
                                                      .choice = choice,
                                                      .malformed = NB_HANDOFF_MALFORMED,
                                                      .mismatch = NB_HANDOFF_UNTRUSTED },
                            ret_pem, ret_selection, f);
}

static bool has_hash(const char *bundle, const uint8_t hash[static NB_SHA256_SIZE]) {
        struct nb_certificates *certificates = NULL;
        bool result;

        assert_int_equal(nb_certificates_parse(bundle, strlen(bundle), false, &certificates), 0);
        result = nb_ca_has_k3s_hash(certificates, hash);
        nb_certificates_free(certificates);
        return result;
}

static void hash_of_k3s(void **state) {
        const struct hash_case *c = *state;
        char *bundle = join(c->bundle),
             *text = PKI_JOIN(c->before ? c->before : "", bundle, c->after ? c->after : "");
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX), none = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_failure f = { 0 };
        uint8_t hash[NB_SHA256_SIZE];

        if (c->is_cut)
                text[strlen(text) - 1] = '\0';
        if (c->has_cr) {
                char *plain = text;

                text = add_cr(plain);
                free(plain);
        }
        assert_int_equal(nb_hex_decode(c->hash, strlen(c->hash), hash, sizeof(hash)), 0);
        assert_int_equal(select_by(text, hash, NB_CA_PINNED, &pem, NULL, &f), 0);
        assert_true(has_hash(text, hash));
        hash[0] ^= 1;
        assert_true(select_by(text, hash, NB_CA_PINNED, &none, NULL, &f) < 0);
        assert_int_equal(f.code, NB_HANDOFF_UNTRUSTED);
        assert_false(has_hash(text, hash));
        nb_buffer_done(&pem);
        nb_buffer_done(&none);
        free(text);
        free(bundle);
}

/* An answer to /cacerts with a private key is refused, although k3s ignores the key. */
static void hash_of_what_is_no_bundle(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        char *with_key = PKI_JOIN(ca.pem, ca.key_pem), *cut = PKI_JOIN(ca.pem);
        const char *const texts[] = { "", "\n", "pong", "<html></html>", with_key, cut };
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        uint8_t hash[NB_SHA256_SIZE];

        cut[strlen(cut) - 8] = '\0';
        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                struct nb_failure f = { 0 };

                assert_int_equal(nb_sha256(texts[i], strlen(texts[i]), hash), 0);
                assert_true(select_by(texts[i], hash, NB_CA_PINNED, &pem, NULL, &f) < 0);
                assert_int_equal(f.code, NB_HANDOFF_MALFORMED);
        }
        free(with_key);
        free(cut);
        pki_done(&ca);
}

struct selection_case {
        const char *name;
        int bundle[8];
        int hash_of; /* certificate (in DER), or BYTES */
        enum nb_ca_choice choice;
        int taken[8]; /* empty: nothing may be */
        unsigned n_left_out;
};

static struct selection_case selections[] = {
        { "the bytes of one certificate", { K3S, END }, BYTES, NB_CA_PINNED, { K3S, END }, 0 },
        { "the bytes of several",
          { ROOT, OTHER, END },
          BYTES,
          NB_CA_PINNED,
          { ROOT, OTHER, END },
          0 },
        { "the bytes of several, one of them twice",
          { ROOT, OTHER, ROOT, END },
          BYTES,
          NB_CA_PINNED,
          { ROOT, OTHER, END },
          0 },
        { "the bytes of a CA and of a certificate that is none",
          { OVER, ROOT, END },
          BYTES,
          NB_CA_PINNED,
          { ROOT, END },
          1 },
        { "the bytes of a certificate that is no CA",
          { OVER, END },
          BYTES,
          NB_CA_PINNED,
          { END },
          0 },
        { "the root below an intermediate",
          { INTERMEDIATE, ROOT, END },
          ROOT,
          NB_CA_PINNED,
          { INTERMEDIATE, ROOT, END },
          0 },
        { "the root alone, as it was selected before",
          { ROOT, END },
          ROOT,
          NB_CA_PINNED,
          { ROOT, END },
          0 },
        { "a CA beside that nobody vouches for",
          { INTERMEDIATE, ROOT, OTHER, END },
          ROOT,
          NB_CA_PINNED,
          { INTERMEDIATE, ROOT, END },
          1 },
        { "the CA that signed the root across",
          { INTERMEDIATE, CROSS, OTHER, END },
          OTHER,
          NB_CA_PINNED,
          { INTERMEDIATE, CROSS, OTHER, END },
          0 },
        { "an intermediate, which does not vouch for its issuer",
          { DEEPER, INTERMEDIATE, ROOT, END },
          INTERMEDIATE,
          NB_CA_PINNED,
          { DEEPER, INTERMEDIATE, END },
          1 },
        { "the lowest of a chain, which vouches for itself alone",
          { DEEPER, INTERMEDIATE, ROOT, END },
          DEEPER,
          NB_CA_PINNED,
          { DEEPER, END },
          2 },
        { "the bytes of a chain",
          { DEEPER, INTERMEDIATE, ROOT, END },
          BYTES,
          NB_CA_PINNED,
          { DEEPER, INTERMEDIATE, ROOT, END },
          0 },
        { "the root before the intermediate",
          { ROOT, INTERMEDIATE, END },
          ROOT,
          NB_CA_PINNED,
          { ROOT, INTERMEDIATE, END },
          0 },
        { "a root beside the chain of another, which it does not vouch for",
          { INTERMEDIATE, ROOT, OTHER, END },
          OTHER,
          NB_CA_PINNED,
          { OTHER, END },
          2 },
        { "two levels",
          { DEEPER, INTERMEDIATE, ROOT, END },
          ROOT,
          NB_CA_PINNED,
          { DEEPER, INTERMEDIATE, ROOT, END },
          0 },
        { "the root twice", { K3S, K3S, END }, K3S, NB_CA_PINNED, { K3S, END }, 0 },
        { "a certificate that is no CA", { OVER, ROOT, END }, OVER, NB_CA_PINNED, { END }, 0 },
        { "another CA", { INTERMEDIATE, ROOT, END }, OTHER, NB_CA_PINNED, { END }, 0 },
        { "the same key in another certificate", { RENEWED, END }, ROOT, NB_CA_PINNED, { END }, 0 },
        { "whole bundle",
          { INTERMEDIATE, ROOT, OTHER, END },
          ROOT,
          NB_CA_ALL,
          { INTERMEDIATE, ROOT, OTHER, END },
          0 },
        { "whole bundle, another CA", { INTERMEDIATE, ROOT, END }, OTHER, NB_CA_ALL, { END }, 0 },
};

static void hash_of_one(const char *bundle, int which, uint8_t ret[static NB_SHA256_SIZE]) {
        gnutls_datum_t pem = { 0 }, der = { 0 };

        if (which == BYTES) {
                assert_int_equal(nb_sha256(bundle, strlen(bundle), ret), 0);
                return;
        }
        pem.data = (unsigned char *)(uintptr_t)pems[which];
        pem.size = (unsigned)strlen(pems[which]);
        assert_int_equal(gnutls_pem_base64_decode2("CERTIFICATE", &pem, &der), 0);
        assert_int_equal(nb_sha256(der.data, der.size, ret), 0);
        gnutls_free(der.data);
}

static void selection(void **state) {
        const struct selection_case *c = *state;
        char *bundle = join(c->bundle), *expected = join(c->taken);
        uint8_t hash_given[NB_SHA256_SIZE];
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_ca_selection selected = { 0 };
        struct nb_failure f = { 0 };
        int r;

        hash_of_one(bundle, c->hash_of, hash_given);
        r = select_by(bundle, hash_given, c->choice, &pem, &selected, &f);
        if (c->taken[0] == END) {
                assert_true(r < 0);
                assert_int_equal(f.code, NB_HANDOFF_UNTRUSTED);
                assert_int_equal(pem.len, 0);
        } else {
                assert_int_equal(r, 0);
                assert_string_equal(pem.data, expected);
                assert_int_equal(selected.n_left_out, c->n_left_out);
        }
        nb_buffer_done(&pem);
        free(bundle);
        free(expected);
}

static void mismatch_names_the_hash_of_the_token(void **state) {
        static const uint8_t given[NB_SHA256_SIZE] = { 0xab, 0xcd };
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_failure f = { 0 };

        assert_true(select_by(pems[K3S], given, NB_CA_PINNED, &pem, NULL, &f) < 0);
        assert_non_null(strstr(f.detail, "the hash abcd0000"));
}

int main(void) {
        CASES(hashes, hash_of_k3s);
        CASES(selections, selection);
        CASE(hash_of_what_is_no_bundle);
        CASE(mismatch_names_the_hash_of_the_token);
        return case_run("crypto ca_hash");
}
