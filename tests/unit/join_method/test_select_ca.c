/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "join_method/method.h"
#include "pki.h"

/* The CAs: one, one that it has signed, and an unrelated one. */
enum who {
        NOBODY,
        OURS,
        BELOW,
        STRANGER,
        _N_WHO,
};

static struct pki_cert cas[_N_WHO];

struct select_case {
        const char *name;
        enum nb_method_id method;
        enum who document[2], pins[2], bundle[3], taken[3];
        bool is_whole, is_unsafe;
        unsigned n_left_out;
        enum nb_code code; /* NB_NONE: selected */
};

#define MALFORMED NB_ANSWER_MALFORMED
#define MISMATCH NB_CA_PIN_MISMATCH
#define TOKEN NB_METHOD_TOKEN
#define DOCUMENT NB_METHOD_DOCUMENT
#define URL NB_METHOD_URL
#define K3S NB_METHOD_K3S

static struct select_case cases[] = {
        { "nothing was given", NB_METHOD_NONE, .bundle = { OURS }, .pins = { OURS },
          .code = NB_SETTINGS_INCOMPLETE },

        { "token: what a pin names", TOKEN, .pins = { OURS }, .bundle = { STRANGER, OURS },
          .taken = { OURS }, .n_left_out = 1 },
        { "token: and what chains to it", TOKEN, .pins = { OURS }, .bundle = { BELOW, OURS },
          .taken = { BELOW, OURS } },
        { "token: all of it where that is set", TOKEN, .pins = { OURS },
          .bundle = { STRANGER, OURS }, .taken = { STRANGER, OURS }, .is_whole = true },
        { "token: no pin fits", TOKEN, .pins = { OURS }, .bundle = { STRANGER }, .code = MISMATCH },
        { "token: no pin fits, and all of it would be taken", TOKEN, .pins = { OURS },
          .bundle = { STRANGER }, .is_whole = true, .code = MISMATCH },
        { "token: no pin fits where verification may be skipped", TOKEN, .pins = { OURS },
          .bundle = { STRANGER }, .is_unsafe = true, .code = MISMATCH },
        { "token: no pin", TOKEN, .bundle = { OURS }, .code = MISMATCH },
        { "token: no pin where verification may be skipped", TOKEN, .bundle = { OURS, STRANGER },
          .taken = { OURS, STRANGER }, .is_unsafe = true },
        { "token: an empty bundle", TOKEN, .pins = { OURS }, .code = MALFORMED },

        { "document: its own CA", DOCUMENT, .document = { OURS }, .bundle = { OURS },
          .taken = { OURS } },
        { "document: its own alone, of a newer bundle", DOCUMENT, .document = { OURS },
          .bundle = { STRANGER, OURS }, .taken = { OURS }, .n_left_out = 1 },
        { "document: what chains to its own", DOCUMENT, .document = { OURS }, .bundle = { BELOW },
          .code = MISMATCH },
        { "document: what chains to its own within the bundle", DOCUMENT, .document = { OURS },
          .bundle = { BELOW, OURS }, .taken = { BELOW, OURS } },
        { "document: another one", DOCUMENT, .document = { OURS }, .bundle = { STRANGER },
          .code = MISMATCH },
        { "document: all of a bundle where that is set", DOCUMENT, .document = { OURS },
          .bundle = { STRANGER, OURS }, .taken = { STRANGER, OURS }, .is_whole = true },
        { "document: of its own what a pin names", DOCUMENT, .document = { OURS, STRANGER },
          .pins = { OURS }, .bundle = { STRANGER, OURS }, .taken = { OURS }, .n_left_out = 1 },
        { "document: a pin that names none of its own", DOCUMENT, .document = { OURS },
          .pins = { STRANGER }, .bundle = { OURS }, .code = MISMATCH },
        { "document: a pin that names what only the bundle has", DOCUMENT, .document = { OURS },
          .pins = { STRANGER }, .bundle = { STRANGER, OURS }, .code = MISMATCH },
        { "document: the CAs of the system", DOCUMENT },
        { "document: the CAs of the system, and a pin", DOCUMENT, .pins = { OURS },
          .code = MISMATCH },
        { "document: a CA where it has none", DOCUMENT, .bundle = { OURS }, .code = MISMATCH },
        { "document: none where it has one", DOCUMENT, .document = { OURS }, .code = MALFORMED },

        { "URL: all of it", URL, .bundle = { OURS, STRANGER }, .taken = { OURS, STRANGER } },
        { "URL: what a pin names", URL, .pins = { OURS }, .bundle = { STRANGER, OURS },
          .taken = { OURS }, .n_left_out = 1 },
        { "URL: no pin fits", URL, .pins = { OURS }, .bundle = { STRANGER }, .code = MISMATCH },
        { "URL: the CAs of the system", URL },
        { "URL: the CAs of the system, and a pin", URL, .pins = { OURS }, .code = MISMATCH },

        { "k3s: no hash", K3S, .bundle = { OURS }, .code = MISMATCH },
        { "k3s: no hash where verification may be skipped", K3S, .bundle = { OURS },
          .taken = { OURS }, .is_unsafe = true },
        { "k3s: a pin that does not hold", K3S, .pins = { STRANGER }, .bundle = { OURS },
          .is_unsafe = true, .code = MISMATCH },
};

static char *join(const enum who *list, size_t n) {
        const char *texts[4] = { NULL };

        for (size_t i = 0; i < n && list[i] != NOBODY; i++)
                texts[i] = cas[list[i]].pem;
        return pki_join(texts);
}

static void take_pin(struct nb_settings *settings, enum who who) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(
                nb_certificates_parse(cas[who].pem, strlen(cas[who].pem), false, &certificates), 0);
        memcpy(settings->pins[settings->n_pins++], nb_certificate_pin(certificates, 0),
               NB_SHA256_SIZE);
        nb_certificates_free(certificates);
}

/* Whether PEM and list are the same certificates in the same order. */
static void assert_taken(const struct nb_buffer *pem, const enum who *list, size_t n) {
        struct nb_certificates *taken = NULL;
        struct nb_settings expected, found;
        size_t i = 0;

        if (list[0] == NOBODY) {
                assert_int_equal(pem->len, 0);
                return;
        }
        nb_settings_init(&expected);
        nb_settings_init(&found);
        assert_int_equal(nb_certificates_parse(pem->data, pem->len, false, &taken), 0);
        for (; i < n && list[i] != NOBODY; i++) {
                take_pin(&expected, list[i]);
                memcpy(found.pins[i], nb_certificate_pin(taken, i), NB_SHA256_SIZE);
                assert_memory_equal(found.pins[i], expected.pins[i], NB_PIN_SIZE);
        }
        assert_int_equal(nb_certificates_count(taken), i);
        nb_certificates_free(taken);
}

static int select_from(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                       const char *pem, struct nb_buffer *ret_pem,
                       struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        const struct nb_ca_request request = { .bootstrap = bootstrap,
                                               .settings = settings,
                                               .pem = pem,
                                               .len = strlen(pem),
                                               .malformed = MALFORMED,
                                               .mismatch = MISMATCH,
                                               .ret_pem = ret_pem,
                                               .ret_selection = ret_selection };

        return nb_bootstrap_select_ca(&request, f);
}

static void selected(void **state) {
        const struct select_case *c = *state;
        struct nb_bootstrap bootstrap = { .method = c->method, .discovery_source = "'/x'" };
        struct nb_buffer pem = NB_BUFFER_INIT(1 << 20);
        struct nb_ca_selection selection = { .n_taken = 99 };
        char *bundle = join(c->bundle, N_ELEMENTS(c->bundle)),
             *document = join(c->document, N_ELEMENTS(c->document));
        struct nb_settings settings;
        struct nb_failure f = { 0 };
        int r;

        nb_settings_init(&settings);
        settings.trust_whole_bundle = c->is_whole;
        settings.unsafe_skip_ca_verification = c->is_unsafe;
        for (size_t i = 0; i < N_ELEMENTS(c->pins) && c->pins[i] != NOBODY; i++)
                take_pin(&settings, c->pins[i]);
        if (c->document[0] != NOBODY) {
                bootstrap.origin.ca = document;
                bootstrap.origin.ca_len = strlen(document);
        }
        r = select_from(&bootstrap, &settings, bundle, &pem, &selection, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0, c->code != NB_NONE);
        assert_taken(&pem, c->taken, N_ELEMENTS(c->taken));
        if (c->code == NB_NONE)
                assert_int_equal(selection.n_left_out, c->n_left_out);
        nb_buffer_done(&pem);
        free(document);
        free(bundle);
}

/* The hash of a k3s token, over the bytes of a bundle. */
static void by_hash(void **state) {
        struct nb_bootstrap bootstrap = { .method = K3S, .has_hash = true };
        struct nb_buffer pem = NB_BUFFER_INIT(1 << 20);
        struct nb_ca_selection selection;
        struct nb_settings settings;
        struct nb_failure f = { 0 };

        nb_settings_init(&settings);
        assert_int_equal(nb_sha256(cas[OURS].pem, strlen(cas[OURS].pem), bootstrap.hash), 0);
        assert_int_equal(select_from(&bootstrap, &settings, cas[OURS].pem, &pem, &selection, &f),
                         0);
        assert_taken(&pem, (const enum who[]){ OURS }, 1);
        nb_buffer_clear(&pem);
        take_pin(&settings, STRANGER); /* has to hold as well */
        assert_true(select_from(&bootstrap, &settings, cas[OURS].pem, &pem, &selection, &f) < 0);
        assert_int_equal(f.code, MISMATCH);
        assert_int_equal(pem.len, 0);
        nb_buffer_done(&pem);
}

int main(void) {
        int r;

        cas[OURS] = pki_make(&(struct pki_options){ .dn = "CN=ours", .is_ca = true });
        cas[BELOW] = pki_make(
                &(struct pki_options){ .dn = "CN=below", .is_ca = true, .issuer = &cas[OURS] });
        cas[STRANGER] = pki_make(&(struct pki_options){ .dn = "CN=stranger", .is_ca = true });
        CASES(cases, selected);
        CASE(by_hash);
        r = case_run("bootstrap select ca");
        for (size_t i = OURS; i < _N_WHO; i++)
                pki_done(&cas[i]);
        return r;
}
