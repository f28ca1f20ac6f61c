/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate_internal.h"
#include "crypto/key_internal.h"

#define PRESENT_MAX (1024 * 1024)
#define KEY_ID_MAX 64            /* bytes; SHA-1 has 20, SHA-256 32. A longer key ID is ignored */
#define SIGNATURE_CHECKS_MAX 100 /* the limit of Go's crypto/x509, which k3s uses */

enum state {
        STATE_LEFT_OUT,
        STATE_TAKEN,
        STATE_DUPLICATE,
};

/* Compares with all pins, in constant time for each. */
static bool is_pinned(const uint8_t pin[static NB_SHA256_SIZE],
                      const struct nb_ca_criteria *criteria) {
        bool is_found = false;

        for (unsigned i = 0; i < criteria->n_pins; i++)
                is_found |= nb_digest_is_equal(pin, criteria->pins[i]);
        return is_found;
}

static void mark_duplicates(const struct nb_certificates *bundle, enum state *states) {
        for (size_t i = 0; i < bundle->n; i++)
                for (size_t k = 0; k < i; k++)
                        if (nb_digest_is_equal(bundle->entries[i].digest,
                                               bundle->entries[k].digest))
                                states[i] = STATE_DUPLICATE;
}

/* Selects the CAs that match; `criteria` NULL: all CAs. Returns how many. */
static unsigned take_matching(const struct nb_certificates *bundle,
                              const struct nb_ca_criteria *criteria, enum state *states) {
        unsigned n = 0;

        for (size_t i = 0; i < bundle->n; i++) {
                const struct nb_certificate_entry *entry = &bundle->entries[i];

                if (states[i] == STATE_DUPLICATE || !nb_certificate_is_ca(bundle, i))
                        continue;
                if (criteria &&
                    !(criteria->k3s_hash ? nb_digest_is_equal(entry->digest, criteria->k3s_hash)
                                         : is_pinned(entry->pin, criteria)))
                        continue;
                states[i] = STATE_TAKEN;
                n++;
        }
        return n;
}

/* Selects CAs that a selected CA has issued. Each issuer is tried once, so that a hostile bundle
 * costs n² signature checks, not n³. */
static void take_issued(const struct nb_certificates *bundle, enum state *states) {
        size_t queue[NB_CERTIFICATES_MAX], n_queued = 0;

        for (size_t i = 0; i < bundle->n; i++)
                if (states[i] == STATE_TAKEN)
                        queue[n_queued++] = i;
        for (size_t at = 0; at < n_queued; at++)
                for (size_t i = 0; i < bundle->n; i++)
                        if (states[i] == STATE_LEFT_OUT && nb_certificate_is_ca(bundle, i) &&
                            nb_certificate_is_issued_by(bundle, i, bundle, queue[at])) {
                                states[i] = STATE_TAKEN;
                                queue[n_queued++] = i;
                        }
}

/* The detail of a failure has room for this many hashes. */
#define HASHES_NAMED 2

static void name_found(const struct nb_certificates *bundle, const enum state *states,
                       struct nb_buffer *ret_names) {
        unsigned n_named = 0, n_more = 0;

        for (size_t i = 0; i < bundle->n; i++) {
                char hash[2 * NB_SHA256_SIZE + 1];

                if (states[i] == STATE_DUPLICATE || !nb_certificate_is_ca(bundle, i))
                        continue;
                if (n_named == HASHES_NAMED) {
                        n_more++;
                        continue;
                }
                nb_hex_encode(bundle->entries[i].pin, NB_SHA256_SIZE, hash);
                nb_buffer_printf(ret_names, "%ssha256:%s", n_named++ > 0 ? ", " : "", hash);
        }
        if (n_more > 0)
                nb_buffer_printf(ret_names, " and %u more", n_more);
}

static int fail_mismatch(const struct nb_certificates *bundle, const enum state *states,
                         const struct nb_ca_criteria *criteria, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer found = NB_BUFFER_INIT(1024);
        char expected[2 * NB_SHA256_SIZE + 1] = "", others[32] = "";

        name_found(bundle, states, &found);
        if (found.len == 0)
                return nb_failure_set(f, criteria->mismatch,
                                      found.error < 0 ? found.error : EKEYREJECTED,
                                      "the CA bundle holds no CA certificate");
        if (criteria->k3s_hash) {
                nb_hex_encode(criteria->k3s_hash, NB_SHA256_SIZE, expected);
                return nb_failure_set(f, criteria->mismatch, EKEYREJECTED,
                                      "the hash %s of the token is not that of the CA bundle, nor "
                                      "that of a CA certificate in it",
                                      expected);
        }
        if (criteria->n_pins > 0)
                nb_hex_encode(criteria->pins[0], NB_SHA256_SIZE, expected);
        if (criteria->n_pins > 1)
                snprintf(others, sizeof(others), " or one of %u others", criteria->n_pins - 1);
        return nb_failure_set(f, criteria->mismatch, EKEYREJECTED,
                              "the CA certificates found have the hashes %s; expected sha256:%s%s",
                              found.data, expected, others);
}

static int append_taken(const struct nb_certificates *bundle, const enum state *states,
                        struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection) {
        for (size_t i = 0; i < bundle->n; i++) {
                if (states[i] == STATE_TAKEN) {
                        nb_certificate_export(bundle, i, ret_pem);
                        memcpy(ret_selection->taken[ret_selection->n_taken++],
                               bundle->entries[i].pin, NB_SHA256_SIZE);
                } else if (states[i] == STATE_LEFT_OUT)
                        memcpy(ret_selection->left_out[ret_selection->n_left_out++],
                               bundle->entries[i].pin, NB_SHA256_SIZE);
        }
        return ret_pem->error;
}

/* Selects CAs according to criteria->choice. Returns 0 if nothing matches. */
static unsigned choose(const struct nb_certificates *bundle, const struct nb_ca_criteria *criteria,
                       bool is_hash_of_bytes, enum state *states) {
        unsigned n;

        if (criteria->choice == NB_CA_ALL_UNPINNED || is_hash_of_bytes)
                return take_matching(bundle, NULL, states);
        n = take_matching(bundle, criteria, states);
        if (n == 0)
                return 0;
        if (criteria->choice == NB_CA_ALL)
                return take_matching(bundle, NULL, states);
        take_issued(bundle, states);
        return n;
}

int nb_ca_select(const char *pem, size_t len, const struct nb_ca_criteria *criteria,
                 struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection,
                 struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *bundle = NULL;
        enum state states[NB_CERTIFICATES_MAX] = { STATE_LEFT_OUT };
        struct nb_ca_selection selection = { 0 };
        size_t before = ret_pem->len;
        uint8_t digest[NB_SHA256_SIZE];
        bool is_hash_of_bytes;
        int r;

        if (nb_sha256(pem, len, digest) < 0)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        is_hash_of_bytes = criteria->k3s_hash && nb_digest_is_equal(digest, criteria->k3s_hash);
        r = nb_certificates_parse(pem, len, false, &bundle);
        if (r < 0)
                return nb_failure_set(f, criteria->malformed, -r, "the CA bundle holds %s",
                                      nb_certificates_reason(r));
        mark_duplicates(bundle, states);
        if (choose(bundle, criteria, is_hash_of_bytes, states) == 0)
                return fail_mismatch(bundle, states, criteria, f);
        r = append_taken(bundle, states, ret_pem, &selection);
        if (r < 0) {
                ret_pem->len = before;
                return nb_failure_set(f, criteria->malformed, r,
                                      "the CA bundle is larger than %zu bytes", ret_pem->max);
        }
        if (ret_selection)
                *ret_selection = selection;
        return 0;
}

/* --- A newer bundle --- */

static int select_present(const char *pem, size_t len, struct nb_buffer *ret_pem,
                          struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        const struct nb_ca_criteria all = { .choice = NB_CA_ALL_UNPINNED,
                                            .malformed = NB_REFRESH_INAPPLICABLE,
                                            .mismatch = NB_REFRESH_INAPPLICABLE };
        struct nb_failure why = { 0 };
        int r;

        r = nb_ca_select(pem, len, &all, ret_pem, ret_selection, &why);
        return r < 0 ? nb_failure_set(f, NB_REFRESH_INAPPLICABLE, -r,
                                      "the CA file of this machine: %s", why.detail)
                     : 0;
}

int nb_ca_renew(const char *present, size_t present_len, const char *pem, size_t len,
                enum nb_code malformed, enum nb_code mismatch, struct nb_buffer *ret_pem,
                struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer present_pem = NB_BUFFER_INIT(PRESENT_MAX);
        struct nb_ca_selection trusted = { 0 }, selection = { 0 };
        struct nb_ca_criteria criteria = { .pins = trusted.taken,
                                           .choice = NB_CA_ALL,
                                           .malformed = malformed,
                                           .mismatch = mismatch };
        size_t before = ret_pem->len;
        char pin[NB_SHA256_SIZE * 2 + 1];
        int r;

        r = select_present(present, present_len, &present_pem, &trusted, f);
        if (r < 0)
                return r;
        criteria.n_pins = trusted.n_taken;
        r = nb_ca_select(pem, len, &criteria, ret_pem, &selection, f);
        if (r < 0)
                return r;
        if (selection.n_left_out > 0) {
                ret_pem->len = before;
                ret_pem->data[before] = '\0';
                nb_hex_encode(selection.left_out[0], NB_SHA256_SIZE, pin);
                return nb_failure_set(
                        f, mismatch, EKEYREJECTED,
                        "the CA bundle contains a certificate that is not a CA, sha256:%s; "
                        "expected only CAs",
                        pin);
        }
        if (ret_selection)
                *ret_selection = selection;
        return ret_pem->len - before != present_pem.len ||
               memcmp(ret_pem->data + before, present_pem.data, present_pem.len) != 0;
}

/* --- The hash in a k3s token --- */

struct key_id {
        uint8_t bytes[KEY_ID_MAX];
        size_t len; /* 0: the certificate has none */
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

/* k3s recognises roots by key identifiers, not by signatures: a certificate without an authority
 * key identifier is a root. */
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

/* Like Go's crypto/x509, tries all roots before any intermediate at each step; k3s uses the first
 * chain that is found. */
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
