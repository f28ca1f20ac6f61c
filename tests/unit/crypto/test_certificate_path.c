/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <gnutls/gnutls.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"
#include "server_rows.h"

enum cast {
        OLD,         /* the CA of the cluster before its rotation */
        NEW,         /* after it: the same subject */
        OLD_EXPIRED, /* an earlier certificate of the old CA */
        OTHER,       /* another CA */
        LEAF,        /* of OLD, without key identifier */
        NEW_LEAF,    /* of NEW */
        MIDDLE_A,    /* of OLD */
        MIDDLE_B,    /* of OLD, the same subject */
        MIDDLE_X,    /* MIDDLE_B by OTHER */
        MIDDLE_LEAF, /* of MIDDLE_B */
        CROSS,       /* NEW by OLD */
        SELF,        /* signed by itself, no CA */
        LOOP_A,      /* each is issued by the other one */
        LOOP_B,
        LOOP_LEAF,
        N_CAST,
        END = N_CAST,
};

static struct pki_cert cast[N_CAST];

static int make_cast(void **state) {
        const struct {
                enum cast i;
                struct pki_options options;
                enum cast issuer, key_of;
        } parts[] = {
                { OLD, { ROOT }, END, END },
                { NEW, { ROOT }, END, END },
                { OLD_EXPIRED, { ROOT, .not_after = PKI_NOW - 1 }, END, OLD },
                { OTHER, { .dn = "CN=other", .is_ca = true }, END, END },
                { LEAF, { .dn = "CN=server", .names = NAMES }, OLD, END },
                { NEW_LEAF, { .dn = "CN=server", .names = NAMES }, NEW, END },
                { MIDDLE_A, { MIDDLE }, OLD, END },
                { MIDDLE_B, { MIDDLE }, OLD, END },
                { MIDDLE_X, { MIDDLE }, OTHER, MIDDLE_B },
                { MIDDLE_LEAF, { .dn = "CN=server", .names = NAMES }, MIDDLE_B, END },
                { CROSS, { ROOT }, OLD, NEW },
                { SELF, { .dn = "CN=server", .names = NAMES }, END, END },
                { LOOP_B, { .dn = "CN=b", .is_ca = true }, END, END },
                { LOOP_A, { .dn = "CN=a", .is_ca = true }, LOOP_B, END },
                { LOOP_LEAF, { .dn = "CN=server", .names = NAMES }, LOOP_B, END },
        };

        for (size_t i = 0; i < N_ELEMENTS(parts); i++) {
                struct pki_options options = parts[i].options;

                options.issuer = parts[i].issuer == END ? NULL : &cast[parts[i].issuer];
                options.key_of = parts[i].key_of == END ? NULL : &cast[parts[i].key_of];
                cast[parts[i].i] = pki_make(&options);
        }
        return 0;
}

static int free_cast(void **state) {
        for (size_t i = N_CAST; i > 0; i--)
                pki_done(&cast[i - 1]);
        return 0;
}

/* Go: "Verify attempts to verify c by building one or more chains", with 100 signatures at most. */
static struct path_row {
        const char *name;
        enum cast chain[6], bundle[4];
        enum nb_code code;
} path_rows[] = {
        { "old, of old and new", { LEAF, END }, { OLD, NEW, END }, NB_NONE },
        { "old, of new and old", { LEAF, END }, { NEW, OLD, END }, NB_NONE },
        { "new, of old and new", { NEW_LEAF, END }, { OLD, NEW, END }, NB_NONE },
        { "new, of new and old", { NEW_LEAF, END }, { NEW, OLD, END }, NB_NONE },
        { "old, of new alone", { LEAF, END }, { NEW, END }, UNTRUSTED },
        { "new, of old alone", { NEW_LEAF, END }, { OLD, END }, UNTRUSTED },
        { "new by the old one", { NEW_LEAF, CROSS, END }, { OLD, END }, NB_NONE },
        { "new by the old one, and by itself",
          { NEW_LEAF, NEW, CROSS, END },
          { OLD, END },
          NB_NONE },
        { "the CA is sent, too", { LEAF, OLD, END }, { NEW, OLD, END }, NB_NONE },
        { "the other CA is sent", { LEAF, NEW, END }, { NEW, OLD, END }, NB_NONE },
        { "an expired certificate of the CA first",
          { LEAF, END },
          { OLD_EXPIRED, OLD, END },
          NB_NONE },
        { "an expired certificate of the CA alone",
          { LEAF, END },
          { OLD_EXPIRED, NEW, END },
          EXPIRED },
        { "an expired certificate of the CA is sent",
          { LEAF, OLD_EXPIRED, END },
          { OLD, END },
          NB_NONE },
        { "two intermediate CAs of one name",
          { MIDDLE_LEAF, MIDDLE_A, MIDDLE_B, END },
          { OLD, END },
          NB_NONE },
        { "two intermediate CAs, the right one first",
          { MIDDLE_LEAF, MIDDLE_B, MIDDLE_A, END },
          { OLD, END },
          NB_NONE },
        { "the wrong one alone", { MIDDLE_LEAF, MIDDLE_A, END }, { OLD, END }, UNTRUSTED },
        { "two certificates of an intermediate CA",
          { MIDDLE_LEAF, MIDDLE_X, MIDDLE_B, END },
          { OLD, END },
          NB_NONE },
        { "both, and two CAs of one name",
          { MIDDLE_LEAF, MIDDLE_A, MIDDLE_X, MIDDLE_B, END },
          { NEW, OLD, END },
          NB_NONE },
        { "the intermediate CA is trusted",
          { MIDDLE_LEAF, END },
          { MIDDLE_A, MIDDLE_B, END },
          NB_NONE },
        { "more than is needed, in any order",
          { MIDDLE_LEAF, OLD, SELF, OTHER, MIDDLE_B, END },
          { OLD, END },
          NB_NONE },
        { "a certificate of the server that is trusted",
          { SELF, END },
          { OLD, SELF, END },
          NB_NONE },
        { "signed by itself", { SELF, END }, { OLD, END }, UNTRUSTED },
        { "a circle", { LOOP_LEAF, LOOP_A, LOOP_B, END }, { OLD, END }, UNTRUSTED },
};

static char *join(const enum cast *which) {
        const char *texts[8] = { NULL };

        for (size_t i = 0; which[i] != END; i++)
                texts[i] = cast[which[i]].pem;
        return pki_join(texts);
}

static void run_path(void **state) {
        const struct path_row *row = *state;
        char *chain = join(row->chain), *bundle = join(row->bundle), reason[256];
        enum nb_code code = verify(chain, bundle, HOST, reason);

        write_row(row->name, row->code == NB_NONE, HOST, bundle, chain);
        print_message("%s\n", reason);
        assert_int_equal(code, row->code);
        free(chain);
        free(bundle);
}

/* --- A hostile chain --- */

static unsigned n_signatures;

int __real_gnutls_pubkey_verify_data2(gnutls_pubkey_t key, gnutls_sign_algorithm_t algorithm,
                                      unsigned flags, const gnutls_datum_t *data,
                                      const gnutls_datum_t *signature);
int __wrap_gnutls_pubkey_verify_data2(gnutls_pubkey_t key, gnutls_sign_algorithm_t algorithm,
                                      unsigned flags, const gnutls_datum_t *data,
                                      const gnutls_datum_t *signature);

int __wrap_gnutls_pubkey_verify_data2(gnutls_pubkey_t key, gnutls_sign_algorithm_t algorithm,
                                      unsigned flags, const gnutls_datum_t *data,
                                      const gnutls_datum_t *signature) {
        n_signatures++;
        return __real_gnutls_pubkey_verify_data2(key, algorithm, flags, data, signature);
}

/* 31 certificates of one name and one key, each of which could have issued every other one. */
static void many_paths(void **state) {
        const struct pki_cert *ca = *state ? &cast[OLD] : NULL;
        struct pki_cert first = pki_make(&(struct pki_options){ MIDDLE, .issuer = ca }), all[31],
                        leaf = pki_make(&(struct pki_options){
                                .dn = "CN=server", .names = NAMES, .issuer = &first });
        const char *texts[N_ELEMENTS(all) + 2] = { leaf.pem };
        char reason[256], *chain;

        for (size_t i = 0; i < N_ELEMENTS(all); i++) {
                all[i] = pki_make(
                        &(struct pki_options){ MIDDLE, .issuer = &first, .key_of = &first });
                texts[i + 1] = all[i].pem;
        }
        chain = pki_join(texts);
        n_signatures = 0;
        assert_int_equal(verify(chain, cast[OLD].pem, HOST, reason), UNTRUSTED);
        print_message("%u signatures, %s\n", n_signatures, reason);
        assert_int_equal(n_signatures, 100);
        free(chain);
        for (size_t i = 0; i < N_ELEMENTS(all); i++)
                pki_done(&all[i]);
        pki_done(&leaf);
        pki_done(&first);
}

static void many_expired_paths(void **state) {
        struct pki_cert all[31];
        const char *texts[N_ELEMENTS(all) + 1] = { NULL };
        char reason[256], *bundle;

        for (size_t i = 0; i < N_ELEMENTS(all); i++) {
                all[i] = pki_make(&(struct pki_options){ ROOT, .not_after = PKI_NOW - 1,
                                                         .key_of = &cast[OLD] });
                texts[i] = all[i].pem;
        }
        bundle = pki_join(texts);
        n_signatures = 0;
        assert_int_equal(verify(cast[LEAF].pem, bundle, HOST, reason), EXPIRED);
        assert_int_equal(n_signatures, N_ELEMENTS(all));
        free(bundle);
        for (size_t i = 0; i < N_ELEMENTS(all); i++)
                pki_done(&all[i]);
}

/* --- Many CAs of one name, and the right one last --- */

struct many_row {
        const char *name;
        struct pki_options first, last; /* the 110 others, and the right one */
        const char *authority;          /* of the server's certificate */
        bool is_accepted;
        unsigned n_signatures;
};

static struct many_row many_rows[] = {
        { "of 110 CAs the one with the identifier",
          { ROOT, .subject_id = "abc" },
          { ROOT, .subject_id = "def" },
          "def",
          true,
          1 },
        { "of 110 CAs the one without an identifier",
          { ROOT, .subject_id = "abc" },
          { ROOT },
          "def",
          true,
          1 },
        { "of 110 CAs without identifiers the one with the identifier",
          { ROOT },
          { ROOT, .subject_id = "def" },
          "def",
          true,
          1 },
        { "of 110 CAs without identifiers the last", { ROOT }, { ROOT }, NULL, false, 100 },
        { "of 110 CAs the one with another identifier",
          { ROOT, .subject_id = "def" },
          { ROOT, .subject_id = "abc" },
          "def",
          false,
          100 },
};

static void run_many(void **state) {
        const struct many_row *row = *state;
        enum { N = 110 };
        struct pki_cert all[N], last = pki_make(&row->last),
                                leaf = pki_make(&(struct pki_options){ .dn = "CN=server",
                                                                       .names = NAMES,
                                                                       .authority = row->authority,
                                                                       .issuer = &last });
        const char *texts[N + 2] = { NULL };
        char reason[256], *bundle;

        for (size_t i = 0; i < N; i++) {
                all[i] = pki_make(&row->first);
                texts[i] = all[i].pem;
        }
        texts[N] = last.pem;
        bundle = pki_join(texts);
        write_row(row->name, row->is_accepted, HOST, bundle, leaf.pem);
        n_signatures = 0;
        assert_int_equal(verify(leaf.pem, bundle, HOST, reason),
                         row->is_accepted ? NB_NONE : UNTRUSTED);
        assert_int_equal(n_signatures, row->n_signatures);
        free(bundle);
        pki_done(&leaf);
        pki_done(&last);
        for (size_t i = 0; i < N; i++)
                pki_done(&all[i]);
}

/* The path itself, which may leave out what was sent. */
static struct found_row {
        const char *name;
        enum cast chain[6], ca[3], path[5];
        int r;
        size_t i_ca;
} found_rows[] = {
        { "by a CA", { LEAF, END }, { NEW, OLD, END }, { LEAF, OLD, END }, 0, 1 },
        { "by an intermediate CA; another one was sent, too",
          { MIDDLE_LEAF, MIDDLE_A, MIDDLE_B, END },
          { NEW, OLD, END },
          { MIDDLE_LEAF, MIDDLE_B, OLD, END },
          0,
          1 },
        { "by the old CA", { NEW_LEAF, CROSS, END }, { OLD, END }, { NEW_LEAF, CROSS, OLD, END } },
        { "by none", { LEAF, END }, { NEW, OTHER, END }, { END }, -EKEYREJECTED, 7 },
        { "by the wrong intermediate CA",
          { MIDDLE_LEAF, MIDDLE_A, END },
          { OLD, END },
          { END },
          -EKEYREJECTED,
          7 },
};

static struct nb_certificates *parse_cast(const enum cast *members) {
        const char *texts[8] = { NULL };
        struct nb_certificates *certificates = NULL;
        char *text;

        for (size_t i = 0; members[i] != END; i++)
                texts[i] = cast[members[i]].pem;
        text = pki_join(texts);
        assert_int_equal(nb_certificates_parse(text, strlen(text), false, &certificates), 0);
        free(text);
        return certificates;
}

static void find_path(void **state) {
        const struct found_row *row = *state;
        struct nb_certificates *chain = parse_cast(row->chain), *ca = parse_cast(row->ca);
        struct nb_buffer pem = NB_BUFFER_INIT(16384), small = NB_BUFFER_INIT(16);
        const char *texts[8] = { NULL };
        char *expected;
        size_t i_ca = 7;

        for (size_t i = 0; row->path[i] != END; i++)
                texts[i] = cast[row->path[i]].pem;
        expected = pki_join(texts);
        assert_int_equal(nb_certificate_find_path(chain, ca, &pem, &i_ca), row->r);
        assert_string_equal(pem.data ? pem.data : "", expected);
        assert_int_equal(i_ca, row->i_ca);
        assert_int_equal(nb_certificate_find_path(chain, ca, &small, &i_ca),
                         row->r < 0 ? row->r : -E2BIG);
        free(expected);
        nb_buffer_done(&pem);
        nb_buffer_done(&small);
        nb_certificates_free(chain);
        nb_certificates_free(ca);
}

int main(void) {
        CASES(path_rows, run_path);
        CASES(found_rows, find_path);
        CASES(many_rows, run_many);
        case_add("a chain with many paths", many_paths, NULL);
        case_add("a chain with many paths below a CA", many_paths, &cast);
        CASE(many_expired_paths);
        return _cmocka_run_group_tests("paths", case_list, n_cases, make_cast, free_cast);
}
