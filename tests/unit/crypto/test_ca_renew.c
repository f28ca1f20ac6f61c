/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "crypto/certificate.h"
#include "pki.h"

#define BUNDLE_MAX (256 * 1024)

enum {
        END,
        OLD,
        NEW,
        NEWER,
        RENEWED,     /* OLD's key in another certificate, of another name */
        LEAF,        /* issued by OLD, no CA */
        LEAF_OF_KEY, /* OLD's key, no CA */
        N_CERTS,
};

static struct pki_cert certs[N_CERTS];

static void make_certs(void) {
        certs[OLD] = pki_make(&(struct pki_options){ .dn = "CN=kubernetes", .is_ca = true });
        certs[NEW] = pki_make(&(struct pki_options){ .dn = "CN=kubernetes", .is_ca = true });
        certs[NEWER] = pki_make(&(struct pki_options){ .dn = "CN=kubernetes", .is_ca = true });
        certs[RENEWED] = pki_make(
                &(struct pki_options){ .dn = "CN=renewed", .is_ca = true, .key_of = &certs[OLD] });
        certs[LEAF] = pki_make(&(struct pki_options){ .dn = "CN=leaf", .issuer = &certs[OLD] });
        certs[LEAF_OF_KEY] = pki_make(
                &(struct pki_options){ .dn = "CN=leaf", .key_of = &certs[OLD] });
}

static struct renew_case {
        const char *name;
        int present[4], newer[4];
        int expected; /* 1, 0, or negative */
        enum nb_code code;
        int taken[4];
} cases[] = {
        { "the same", { OLD }, { OLD }, 0, NB_NONE, { OLD } },
        { "the same twice", { OLD }, { OLD, OLD }, 0, NB_NONE, { OLD } },
        { "the same two", { OLD, NEW }, { OLD, NEW }, 0, NB_NONE, { OLD, NEW } },
        { "a second one", { OLD }, { OLD, NEW }, 1, NB_NONE, { OLD, NEW } },
        { "a second one before it", { OLD }, { NEW, OLD }, 1, NB_NONE, { NEW, OLD } },
        { "the old one is gone", { OLD, NEW }, { NEW }, 1, NB_NONE, { NEW } },
        { "the other way round", { OLD, NEW }, { OLD }, 1, NB_NONE, { OLD } },
        { "one of two is another", { OLD, NEW }, { NEW, NEWER }, 1, NB_NONE, { NEW, NEWER } },
        { "another certificate of the same key", { OLD }, { RENEWED }, 1, NB_NONE, { RENEWED } },
        { "a leaf in the file that is there", { LEAF, OLD }, { OLD }, 0, NB_NONE, { OLD } },
        { "another one in one step", { OLD }, { NEW }, -1, NB_CA_PIN_MISMATCH, { END } },
        { "both are others", { OLD, NEW }, { NEWER }, -1, NB_CA_PIN_MISMATCH, { END } },
        { "one that the old one has issued is no CA",
          { OLD },
          { OLD, LEAF },
          -1,
          NB_CA_PIN_MISMATCH,
          { END } },
        { "the trusted key in what is no CA",
          { OLD },
          { LEAF_OF_KEY, NEW },
          -1,
          NB_CA_UNUSABLE,
          { END } },
        { "nothing", { OLD }, { END }, -1, NB_CLUSTER_INFO_UNACCEPTABLE, { END } },
        { "nothing there", { END }, { OLD }, -1, NB_REFRESH_INAPPLICABLE, { END } },
        { "no CA there", { LEAF }, { OLD, LEAF }, -1, NB_REFRESH_INAPPLICABLE, { END } },
};

static char *join(const int *which) {
        const char *texts[5] = { NULL };

        for (size_t i = 0; i < 4 && which[i] != END; i++)
                texts[i] = certs[which[i]].pem;
        return pki_join(texts);
}

static void renews(void **state) {
        const struct renew_case *c = *state;
        char *present = join(c->present), *newer = join(c->newer), *expected = join(c->taken);
        struct nb_buffer pem = NB_BUFFER_INIT(BUNDLE_MAX);
        struct nb_ca_selection selection = { 0 };
        struct nb_failure f = { 0 };
        int r;

        nb_buffer_append_string(&pem, "before\n");
        r = nb_ca_renew(present, strlen(present), newer, strlen(newer),
                        NB_CLUSTER_INFO_UNACCEPTABLE, NB_CA_PIN_MISMATCH, &pem, &selection, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->expected);
        assert_string_equal(pem.data + strlen("before\n"), expected);
        assert_int_equal(pem.len, strlen("before\n") + strlen(expected));
        if (r < 0)
                assert_int_equal(selection.n_taken, 0);
        else
                assert_true(selection.n_taken > 0 && selection.n_left_out == 0);
        nb_buffer_done(&pem);
        free(present);
        free(newer);
        free(expected);
}

int main(void) {
        int r;

        make_certs();
        CASES(cases, renews);
        r = case_run("renewal of a CA bundle");
        for (size_t i = N_CERTS; i-- > OLD;)
                pki_done(&certs[i]);
        return r;
}
