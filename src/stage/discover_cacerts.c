/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "kube/answer.h"
#include "kube/k3s_calls.h"
#include "stage/internal.h"

/* It is handed to the installer as a JSON string: said before anything that a supervisor remembers was sent. */
static int verify_text(const struct nb_http_answer *answer, const char *name, struct nb_failure *f) {
        const char *text = answer->body.data;
        size_t left = answer->body.len;

        while (left > 0) {
                uint32_t code_point;
                size_t n = nb_utf8_decode(text, left, &code_point);

                if (n == 0 || (nb_code_point_is_control(code_point) && code_point != '\t' && code_point != '\r' && code_point != '\n'))
                        return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG,
                                              "/cacerts of %s: expected certificates in PEM and comments in UTF-8, found other bytes", name);
                text += n;
                left -= n;
        }
        return 0;
}

static int verify_hash(const struct nb_join *join, const struct nb_http_answer *answer, const char *name, struct nb_failure *f) {
        char found[2 * NB_SHA256_SIZE + 1], expected[2 * NB_SHA256_SIZE + 1];
        uint8_t hash[NB_SHA256_SIZE];
        int r;

        r = nb_ca_hash_k3s(nb_answer_text(answer), answer->body.len, hash);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EIO)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        if (r < 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, -r, "/cacerts of %s: the answer is not a list of at most %d certificates in PEM", name,
                                      NB_CERTIFICATES_MAX);
        /* Without one it was asked for by unsafeSkipCAVerification: nb_bootstrap_verify(). */
        if (!join->bootstrap->has_hash || nb_digest_is_equal(hash, join->bootstrap->hash))
                return 0;
        nb_hex_encode(hash, sizeof(hash), found);
        nb_hex_encode(join->bootstrap->hash, NB_K3S_HASH_SIZE, expected);
        return nb_failure_set(f, NB_CA_HASH_MISMATCH, EKEYREJECTED, "the CA certificates of %s have the hash %s; the token expects %s", name, found, expected);
}

/* By the hash alone, and over TLS that only what the hash names verifies: then credentials may follow. */
static int confirm_verified(const struct nb_join *join, const struct nb_url *endpoint, const char *name, const struct nb_http_answer *first,
                            struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer vouched_for = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer again = { 0 };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster cluster = { .server = *endpoint };
        int r;

        if (join->bootstrap->has_hash)
                r = nb_ca_select_k3s(first->body.data, first->body.len, join->bootstrap->hash, NB_CA_PINNED, NB_ANSWER_MALFORMED, NB_CA_HASH_MISMATCH,
                                     &vouched_for, NULL, f);
        else
                r = nb_ca_select(first->body.data, first->body.len, NULL, 0, NB_CA_ALL_UNPINNED, NB_ANSWER_MALFORMED, NB_CA_HASH_MISMATCH,
                                 &vouched_for, NULL, f);
        if (r >= 0)
                r = nb_api_init(&api, &cluster, vouched_for.data, vouched_for.len, NULL, f);
        if (r < 0)
                return r;
        r = nb_cacerts_fetch_verified(&api, nb_join_second_copy_ms(join), &again, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (again.body.len != first->body.len || memcmp(again.body.data, first->body.data, first->body.len) != 0)
                return nb_failure_set(f, NB_CACERTS_CHANGED, EKEYREJECTED, "/cacerts of %s is another one when TLS is verified by the CA of the token", name);
        nb_report_new_connection(&api);
        return 0;
}

/*
 * What the hash is of, the installer can only check in the bytes that it is of. A selection in which the certificate stands that the
 * hash names, it can select from again.
 */
static int keep_ca(struct nb_join *join, const struct nb_http_answer *answer, const struct nb_buffer *selected, struct nb_failure *f) {
        const struct nb_buffer *kept = selected;
        uint8_t digest[NB_SHA256_SIZE];

        if (nb_sha256(answer->body.data, answer->body.len, digest) < 0)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        if (join->bootstrap->has_hash && nb_digest_is_equal(digest, join->bootstrap->hash))
                kept = &answer->body;
        nb_buffer_done(&join->ca);
        join->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        return nb_buffer_append(&join->ca, kept->data, kept->len) < 0 ? nb_failure_set_memory(f) : 0;
}

static void log_selection(const struct nb_ca_selection *selection, const char *name) {
        char pin[NB_PIN_TEXT_SIZE];

        for (unsigned i = 0; i < selection->n_left_out; i++) {
                nb_pin_format(selection->left_out[i], pin);
                nb_log(LOG_WARNING, NB_CERTIFICATE_LEFT_OUT, "/cacerts of %s has a certificate that the token does not vouch for, or that is no CA, %s: left out", name,
                       pin);
        }
        nb_pin_format(selection->taken[0], pin);
        nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
}

static int prove(struct nb_join *join, const struct nb_url *endpoint, const struct nb_unverified *unverified, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer selected = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        const struct nb_http_answer *answer = &unverified->answer;
        struct nb_ca_selection selection;
        char name[NB_URL_MAX];
        int r;

        nb_endpoint_format(endpoint, name);
        r = nb_cacerts_verify(answer, name, f);
        if (r >= 0)
                r = verify_text(answer, name, f);
        if (r >= 0)
                r = verify_hash(join, answer, name, f);
        if (r >= 0)
                r = confirm_verified(join, endpoint, name, answer, f);
        /* The hash fits by now; pins may be set besides. */
        if (r >= 0)
                r = nb_bootstrap_select_ca(join->bootstrap, join->settings, answer->body.data, answer->body.len, NB_ANSWER_MALFORMED,
                                           NB_CA_PIN_MISMATCH, &selected, &selection, f);
        if (r >= 0)
                r = keep_ca(join, answer, &selected, f);
        if (r < 0)
                return r;
        log_selection(&selection, name);
        join->cluster = (struct nb_cluster){ .server = *endpoint };
        /* RKE2's supervisor serves no Kubernetes API; its API server is on the same machine. */
        if (endpoint->port == NB_RKE2_SUPERVISOR_PORT)
                join->cluster.server.port = NB_API_SERVER_PORT;
        (void)snprintf(join->endpoint, sizeof(join->endpoint), "%s", name);
        return 0;
}

int nb_stage_discover_cacerts(struct nb_join *join, struct nb_failure *f) {
        static const struct nb_race race = { "/cacerts of", nb_cacerts_start, prove };

        assert(join->bootstrap->has_hash || join->settings->unsafe_skip_ca_verification);
        return nb_join_race(join, &race, f);
}
