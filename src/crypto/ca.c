/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate_internal.h"

#define PRESENT_MAX (1024 * 1024)

enum state {
        STATE_LEFT_OUT,
        STATE_TAKEN,
        STATE_DUPLICATE,
};

/* Compares in constant time for each pin. */
static bool is_matching(const struct nb_certificate_entry *entry,
                        const struct nb_ca_criteria *criteria) {
        bool is_found = false;

        if (criteria->k3s_hash)
                return nb_digest_is_equal(entry->digest, criteria->k3s_hash);
        for (unsigned i = 0; i < criteria->n_pins; i++)
                is_found |= nb_digest_is_equal(entry->pin, criteria->pins[i]);
        return is_found;
}

/* A certificate of the bundle, which a pin, a hash or the bundle itself names. */
static bool is_anchor(const struct nb_certificates *bundle, size_t i) {
        return nb_crt_is_ca(bundle->entries[i].crt, true);
}

bool nb_ca_has_k3s_hash(const struct nb_certificates *bundle,
                        const uint8_t hash[static NB_SHA256_SIZE]) {
        for (size_t i = 0; i < bundle->n; i++)
                if (is_anchor(bundle, i) && nb_digest_is_equal(bundle->entries[i].digest, hash))
                        return true;
        return nb_digest_is_equal(bundle->digest, hash);
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
                if (states[i] == STATE_DUPLICATE || !is_anchor(bundle, i) ||
                    (criteria && !is_matching(&bundle->entries[i], criteria)))
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
                            nb_crt_is_issued_by(bundle->entries[i].crt,
                                                bundle->entries[queue[at]].crt)) {
                                states[i] = STATE_TAKEN;
                                queue[n_queued++] = i;
                        }
}

/* A certificate that matches, or any one without criteria, is not a CA. */
static int fail_unusable(const struct nb_certificates *bundle, size_t i,
                         const struct nb_ca_criteria *criteria, struct nb_failure *f) {
        char subject[NB_SUBJECT_SIZE], hash[2 * NB_SHA256_SIZE + 1];

        nb_certificate_subject(bundle, i, subject);
        nb_hex_encode(bundle->entries[i].pin, NB_SHA256_SIZE, hash);
        return nb_failure_set(
                f, criteria->mismatch == NB_CA_PIN_MISMATCH ? NB_CA_UNUSABLE : criteria->mismatch,
                EKEYREJECTED,
                "'%.200s', sha256:%s, is not a CA: it has no basicConstraints with "
                "CA:TRUE",
                subject, hash);
}

static int fail_mismatch(const struct nb_certificates *bundle,
                         const struct nb_ca_criteria *criteria, struct nb_failure *f) {
        char hash[2 * NB_SHA256_SIZE + 1] = "", text[sizeof("sha256:") + sizeof(hash)],
                                       others[32] = "", found[2 * sizeof(text) + 8] = "";

        for (size_t i = 0; i < bundle->n; i++) {
                if (criteria->choice != NB_CA_ALL_UNPINNED &&
                    is_matching(&bundle->entries[i], criteria))
                        return fail_unusable(bundle, i, criteria, f);
                if (!is_anchor(bundle, i))
                        continue;
                nb_hex_encode(bundle->entries[i].pin, NB_SHA256_SIZE, hash);
                snprintf(text, sizeof(text), "sha256:%s", hash);
                nb_text_list_add(found, sizeof(found), text);
        }
        if (!found[0])
                return fail_unusable(bundle, 0, criteria, f);
        if (criteria->k3s_hash) {
                nb_hex_encode(criteria->k3s_hash, NB_SHA256_SIZE, hash);
                return nb_failure_set(f, criteria->mismatch, EKEYREJECTED,
                                      "the hash %s of the token is not that of the CA bundle, nor "
                                      "that of a CA certificate in it",
                                      hash);
        }
        if (criteria->n_pins == 0)
                return nb_failure_set(f, criteria->mismatch, EKEYREJECTED, "there are no pins");
        nb_hex_encode(criteria->pins[0], NB_SHA256_SIZE, hash);
        if (criteria->n_pins > 1)
                snprintf(others, sizeof(others), " or one of %u others", criteria->n_pins - 1);
        return nb_failure_set(f, criteria->mismatch, EKEYREJECTED,
                              "the CA certificates found have the hashes %s; expected sha256:%s%s",
                              found, hash, others);
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
static unsigned take_chosen(const struct nb_certificates *bundle,
                            const struct nb_ca_criteria *criteria, enum state *states) {
        unsigned n;

        if (criteria->choice == NB_CA_ALL_UNPINNED ||
            (criteria->k3s_hash && nb_digest_is_equal(bundle->digest, criteria->k3s_hash)))
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
        int r;

        r = nb_certificates_parse(pem, len, false, &bundle);
        if (r < 0)
                return nb_failure_set(f, criteria->malformed, -r, "the CA bundle holds %s",
                                      nb_certificates_reason(r));
        mark_duplicates(bundle, states);
        if (take_chosen(bundle, criteria, states) == 0)
                return fail_mismatch(bundle, criteria, f);
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
