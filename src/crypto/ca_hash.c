/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include <gnutls/x509.h>

#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"

#define KEY_ID_MAX 64            /* bytes; SHA-1 has 20, SHA-256 32. A longer one is ignored */
#define SIGNATURE_CHECKS_MAX 100 /* the limit of Go's crypto/x509, which k3s uses */

struct key_id {
        uint8_t bytes[KEY_ID_MAX];
        size_t len; /* 0: there is none */
};

struct search {
        const struct nb_certificates *bundle;
        struct key_id authority[NB_CERTIFICATES_MAX], subject[NB_CERTIFICATES_MAX];
        size_t path[NB_CERTIFICATES_MAX]; /* from the first certificate up */
        size_t n_path;
        unsigned n_checks;
};

static bool is_same_id(const struct key_id *a, const struct key_id *b) {
        return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static void read_key_ids(struct search *s) {
        for (size_t i = 0; i < s->bundle->n; i++) {
                gnutls_x509_crt_t crt = s->bundle->entries[i].crt;

                s->authority[i].len = s->subject[i].len = KEY_ID_MAX;
                if (gnutls_x509_crt_get_authority_key_id(crt, s->authority[i].bytes,
                                                         &s->authority[i].len, NULL) < 0)
                        s->authority[i].len = 0;
                if (gnutls_x509_crt_get_subject_key_id(crt, s->subject[i].bytes, &s->subject[i].len,
                                                       NULL) < 0)
                        s->subject[i].len = 0;
        }
}

/* k3s uses key identifiers, not signatures: a certificate without an authority key identifier is a
 * root to it. */
static bool is_root(const struct search *s, size_t i) {
        return s->authority[i].len == 0 || is_same_id(&s->authority[i], &s->subject[i]);
}

static bool has_same_name(gnutls_x509_crt_t a, gnutls_x509_crt_t b) {
        _cleanup_(nb_datum_done) gnutls_datum_t name_a = { 0 }, name_b = { 0 };

        return gnutls_x509_crt_get_raw_dn(a, &name_a) >= 0 &&
               gnutls_x509_crt_get_raw_dn(b, &name_b) >= 0 && name_a.size == name_b.size &&
               memcmp(name_a.data, name_b.data, name_a.size) == 0;
}

/* Another certificate of a CA that is already on the path is skipped. */
static bool is_on_path(const struct search *s, size_t i) {
        const struct nb_certificate_entry *entry = &s->bundle->entries[i];

        for (size_t k = 0; k < s->n_path; k++) {
                const struct nb_certificate_entry *other = &s->bundle->entries[s->path[k]];

                if (nb_digest_is_equal(entry->pin, other->pin) &&
                    has_same_name(entry->crt, other->crt))
                        return true;
        }
        return false;
}

static bool is_path_short_enough(const struct search *s, size_t i) {
        unsigned critical, is_ca;
        int max = -1;

        if (gnutls_x509_crt_get_basic_constraints(s->bundle->entries[i].crt, &critical, &is_ca,
                                                  &max) < 0 ||
            max < 0)
                return true;
        return s->n_path - 1 <= (size_t)max;
}

static bool is_issuer_of_last(struct search *s, size_t i) {
        gnutls_x509_crt_t last = s->bundle->entries[s->path[s->n_path - 1]].crt,
                          crt = s->bundle->entries[i].crt;

        if (!gnutls_x509_crt_check_issuer(last, crt) || is_on_path(s, i))
                return false;
        if (++s->n_checks > SIGNATURE_CHECKS_MAX)
                return false;
        return nb_certificate_is_issued_by(s->bundle, s->path[s->n_path - 1], s->bundle, i) &&
               is_path_short_enough(s, i) && nb_certificate_may_serve(s->bundle, i);
}

static bool find_root(struct search *s, size_t *ret_root);

/* Searches roots or intermediates, those with a matching key identifier first. */
static bool find_among(struct search *s, bool wants_root, size_t *ret_root) {
        const struct key_id *wanted = &s->authority[s->path[s->n_path - 1]];

        for (int fits = 1; fits >= 0; fits--)
                for (size_t i = 1; i < s->bundle->n; i++) {
                        bool is_found;

                        if (is_root(s, i) != wants_root ||
                            is_same_id(&s->subject[i], wanted) != fits || !is_issuer_of_last(s, i))
                                continue;
                        if (wants_root) {
                                *ret_root = i;
                                return true;
                        }
                        s->path[s->n_path++] = i;
                        is_found = find_root(s, ret_root);
                        s->n_path--;
                        if (is_found)
                                return true;
                }
        return false;
}

/* At each step, Go's crypto/x509 tries all roots before any intermediate; k3s uses the first chain.
 */
static bool find_root(struct search *s, size_t *ret_root) {
        return find_among(s, true, ret_root) || find_among(s, false, ret_root);
}

static bool is_among_roots(const struct search *s, size_t *ret_root) {
        for (size_t i = 1; i < s->bundle->n; i++)
                if (is_root(s, i) && nb_digest_is_equal(s->bundle->entries[0].digest,
                                                        s->bundle->entries[i].digest)) {
                        *ret_root = i;
                        return true;
                }
        return false;
}

static bool find_root_of_first(const struct nb_certificates *bundle, size_t *ret_root) {
        struct search s = { .bundle = bundle, .n_path = 1 };

        read_key_ids(&s);
        if (!nb_certificate_may_serve(bundle, 0))
                return false;
        return is_among_roots(&s, ret_root) || find_root(&s, ret_root);
}

int nb_ca_hash_k3s(const char *pem, size_t len, uint8_t ret[static NB_SHA256_SIZE]) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *bundle = NULL;
        size_t root;
        int r;

        r = nb_certificates_parse(pem, len, false, &bundle);
        if (r < 0)
                return r;
        if (bundle->n < 2 || !find_root_of_first(bundle, &root))
                return nb_sha256(pem, len, ret);
        memcpy(ret, bundle->entries[root].digest, NB_SHA256_SIZE);
        return 0;
}
