/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/certificate_internal.h"

enum state {
        STATE_LEFT_OUT,
        STATE_TAKEN,
        STATE_DUPLICATE,
};

/* What a CA must match: the pins, or the hash of a k3s token. */
struct criterion {
        const uint8_t (*pins)[NB_SHA256_SIZE];
        unsigned n_pins;
        const uint8_t *hash; /* NULL: use the pins */
        bool is_of_bytes;    /* the hash is that of the whole bundle */
};

static bool is_pinned(const uint8_t pin[static NB_SHA256_SIZE], const struct criterion *criterion) {
        bool is_found = false;

        for (unsigned i = 0; i < criterion->n_pins; i++)
                is_found |= nb_digest_is_equal(pin, criterion->pins[i]);
        return is_found;
}

static bool is_vouched_for(const struct nb_certificate_entry *entry,
                           const struct criterion *criterion) {
        uint8_t digest[NB_SHA256_SIZE];

        if (!criterion->hash)
                return is_pinned(entry->pin, criterion);
        return nb_sha256(entry->der.data, entry->der.size, digest) >= 0 &&
               nb_digest_is_equal(digest, criterion->hash);
}

static void mark_duplicates(const struct nb_certificates *bundle, enum state *states) {
        for (size_t i = 0; i < bundle->n; i++)
                for (size_t k = 0; k < i; k++) {
                        const gnutls_datum_t *a = &bundle->entries[i].der,
                                             *b = &bundle->entries[k].der;

                        if (a->size == b->size && memcmp(a->data, b->data, a->size) == 0)
                                states[i] = STATE_DUPLICATE;
                }
}

static unsigned take_vouched_for(const struct nb_certificates *bundle,
                                 const struct criterion *criterion, enum state *states) {
        unsigned n = 0;

        for (size_t i = 0; i < bundle->n; i++)
                if (states[i] == STATE_LEFT_OUT && nb_certificate_is_ca(bundle, i) &&
                    is_vouched_for(&bundle->entries[i], criterion)) {
                        states[i] = STATE_TAKEN;
                        n++;
                }
        return n;
}

static unsigned take_all(const struct nb_certificates *bundle, enum state *states) {
        unsigned n = 0;

        for (size_t i = 0; i < bundle->n; i++)
                if (states[i] != STATE_DUPLICATE && nb_certificate_is_ca(bundle, i)) {
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
                            nb_crt_is_issued_by(bundle->entries[i].crt,
                                                bundle->entries[queue[at]].crt)) {
                                states[i] = STATE_TAKEN;
                                queue[n_queued++] = i;
                        }
}

/* The detail of a failure has room for this many hashes. */
#define HASHES_NAMED 2

static int name_found(const struct nb_certificates *bundle, const enum state *states,
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
                if (nb_buffer_printf(ret_names, "%ssha256:%s", n_named++ > 0 ? ", " : "", hash) < 0)
                        return -ENOMEM;
        }
        return n_more > 0 ? nb_buffer_printf(ret_names, " and %u more", n_more) : 0;
}

static int fail_mismatch(const struct nb_certificates *bundle, const enum state *states,
                         const struct criterion *criterion, enum nb_code code,
                         struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer found = NB_BUFFER_INIT(1024);
        char expected[2 * NB_SHA256_SIZE + 1] = "";

        if (name_found(bundle, states, &found) < 0)
                return nb_failure_set_memory(f);
        if (found.len == 0)
                return nb_failure_set(f, code, EKEYREJECTED,
                                      "the CA bundle holds no CA certificate");
        if (criterion->hash) {
                nb_hex_encode(criterion->hash, NB_SHA256_SIZE, expected);
                return nb_failure_set(f, code, EKEYREJECTED,
                                      "the hash %s of the token is not that of the CA bundle, nor "
                                      "that of a CA certificate in it",
                                      expected);
        }
        if (criterion->n_pins > 0)
                nb_hex_encode(criterion->pins[0], NB_SHA256_SIZE, expected);
        if (criterion->n_pins > 1)
                return nb_failure_set(f, code, EKEYREJECTED,
                                      "the CA certificates found have the hashes %s; expected "
                                      "sha256:%s or one of %u others",
                                      found.data, expected, criterion->n_pins - 1);
        return nb_failure_set(f, code, EKEYREJECTED,
                              "the CA certificates found have the hashes %s; expected sha256:%s",
                              found.data, expected);
}

static int append_taken(const struct nb_certificates *bundle, const enum state *states,
                        struct nb_buffer *ret_pem, struct nb_ca_selection *ret_selection) {
        for (size_t i = 0; i < bundle->n; i++) {
                if (states[i] == STATE_TAKEN) {
                        int r = nb_certificate_export(bundle, i, ret_pem);

                        if (r < 0)
                                return r;
                        memcpy(ret_selection->taken[ret_selection->n_taken++],
                               bundle->entries[i].pin, NB_SHA256_SIZE);
                } else if (states[i] == STATE_LEFT_OUT)
                        memcpy(ret_selection->left_out[ret_selection->n_left_out++],
                               bundle->entries[i].pin, NB_SHA256_SIZE);
        }
        return 0;
}

static unsigned choose(const struct nb_certificates *bundle, const struct criterion *criterion,
                       enum nb_ca_choice choice, enum state *states) {
        unsigned n = 0;

        if (choice == NB_CA_ALL_UNPINNED || criterion->is_of_bytes)
                return take_all(bundle, states);
        n = take_vouched_for(bundle, criterion, states);
        if (n == 0)
                return 0;
        if (choice == NB_CA_ALL)
                return take_all(bundle, states);
        take_issued(bundle, states);
        return n;
}

static int parse_bundle(const char *pem, size_t len, enum nb_code code_malformed,
                        struct nb_certificates **ret, struct nb_failure *f) {
        int r;

        r = nb_certificates_parse(pem, len, false, ret);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r < 0 ? nb_failure_set(f, code_malformed, -r, "the CA bundle holds %s",
                                      nb_certificates_reason(r))
                     : 0;
}

static int select_by(const char *pem, size_t len, const struct criterion *criterion,
                     enum nb_ca_choice choice, enum nb_code code_malformed,
                     enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                     struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *bundle = NULL;
        enum state states[NB_CERTIFICATES_MAX] = { STATE_LEFT_OUT };
        struct nb_ca_selection selection = { 0 };
        size_t before = ret_pem->len;
        int r;

        r = parse_bundle(pem, len, code_malformed, &bundle, f);
        if (r < 0)
                return r;
        mark_duplicates(bundle, states);
        if (choose(bundle, criterion, choice, states) == 0)
                return fail_mismatch(bundle, states, criterion, code_mismatch, f);
        r = append_taken(bundle, states, ret_pem, &selection);
        if (r < 0) {
                ret_pem->len = before;
                return r == -E2BIG ? nb_failure_set(f, code_malformed, E2BIG,
                                                    "the CA bundle is larger than %zu bytes",
                                                    ret_pem->max)
                                   : nb_failure_set_memory(f);
        }
        if (ret_selection)
                *ret_selection = selection;
        return 0;
}

int nb_ca_select(const char *pem, size_t len, const uint8_t (*pins)[NB_SHA256_SIZE],
                 unsigned n_pins, enum nb_ca_choice choice, enum nb_code code_malformed,
                 enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                 struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        struct criterion criterion = { .pins = pins, .n_pins = n_pins };

        return select_by(pem, len, &criterion, choice, code_malformed, code_mismatch, ret_pem,
                         ret_selection, f);
}

int nb_ca_select_k3s(const char *pem, size_t len, const uint8_t hash[static NB_SHA256_SIZE],
                     enum nb_ca_choice choice, enum nb_code code_malformed,
                     enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                     struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        struct criterion criterion = { .hash = hash };
        uint8_t digest[NB_SHA256_SIZE];

        if (nb_sha256(pem, len, digest) < 0)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        criterion.is_of_bytes = nb_digest_is_equal(digest, hash);
        return select_by(pem, len, &criterion, choice, code_malformed, code_mismatch, ret_pem,
                         ret_selection, f);
}
