/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/k3s_calls.h"
#include "base/encoding.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "join/race.h"
#include "join/stages.h"

/* It is handed to the installer as a JSON string. Verified before anything is sent that a
 * supervisor remembers. */
static int verify_text(const struct nb_http_answer *answer, const char *name,
                       struct nb_failure *f) {
        const char *text = answer->body.data;
        size_t left = answer->body.len;

        while (left > 0) {
                uint32_t code_point;
                size_t n = nb_utf8_decode(text, left, &code_point);

                if (n == 0 || (nb_code_point_is_control(code_point) && code_point != '\t' &&
                               code_point != '\r' && code_point != '\n'))
                        return nb_failure_set(f, NB_ANSWER_MALFORMED, EBADMSG,
                                              "/cacerts of %s: expected certificates in PEM and "
                                              "comments in UTF-8, found other bytes",
                                              name);
                text += n;
                left -= n;
        }
        return 0;
}

static int verify_hash(const struct nb_join *join, const struct nb_http_answer *answer,
                       const char *name, struct nb_failure *f) {
        char found[2 * NB_SHA256_SIZE + 1], expected[2 * NB_SHA256_SIZE + 1];
        uint8_t hash[NB_SHA256_SIZE];
        int r;

        r = nb_ca_hash_k3s(nb_answer_text(answer), answer->body.len, hash);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EIO)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        if (r < 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, r,
                                      "/cacerts of %s: expected CA certificates in PEM, found %s",
                                      name, nb_certificates_reason(r));
        /* Without a hash, unsafeSkipCAVerification is set: nb_bootstrap_verify(). */
        if (!join->bootstrap->has_hash || nb_digest_is_equal(hash, join->bootstrap->hash))
                return 0;
        nb_hex_encode(hash, sizeof(hash), found);
        nb_hex_encode(join->bootstrap->hash, NB_K3S_HASH_SIZE, expected);
        return nb_failure_set(f, NB_CA_HASH_MISMATCH, EKEYREJECTED,
                              "the CA certificates of %s have the hash %s; the token expects %s",
                              name, found, expected);
}

/* Only CAs that match the hash verify the connection for the second copy, and then those that carry
 * credentials. */
static int select_vouched_for(const struct nb_join *join, const struct nb_http_answer *first,
                              struct nb_buffer *ret_ca, struct nb_failure *f) {
        if (join->bootstrap->has_hash)
                return nb_ca_select_k3s(first->body.data, first->body.len, join->bootstrap->hash,
                                        NB_CA_PINNED, NB_ANSWER_MALFORMED, NB_CA_HASH_MISMATCH,
                                        ret_ca, NULL, f);
        return nb_ca_select(first->body.data, first->body.len, NULL, 0, NB_CA_ALL_UNPINNED,
                            NB_ANSWER_MALFORMED, NB_CA_HASH_MISMATCH, ret_ca, NULL, f);
}

static int compare(const struct nb_http_answer *first, const struct nb_http_answer *second,
                   const char *name, struct nb_failure *f) {
        int r;

        r = nb_cacerts_verify(second, name, f);
        if (r < 0)
                return r;
        if (second->body.len != first->body.len ||
            memcmp(second->body.data, first->body.data, first->body.len) != 0)
                return nb_failure_set(
                        f, NB_CACERTS_CHANGED, EKEYREJECTED,
                        "/cacerts of %s differs when TLS is verified by the CA of the token", name);
        return 0;
}

/*
 * The installer verifies the hash again. If it is that of the exact bytes, these are kept;
 * otherwise the selection contains the certificate that the hash is of.
 */
static int keep_ca(struct nb_join *join, const struct nb_http_answer *answer,
                   const struct nb_buffer *selected, struct nb_failure *f) {
        const struct nb_buffer *kept = selected;
        uint8_t digest[NB_SHA256_SIZE];

        if (nb_sha256(answer->body.data, answer->body.len, digest) < 0)
                return nb_failure_set(f, NB_INTERNAL, EIO, "SHA-256 cannot be computed");
        if (join->bootstrap->has_hash && nb_digest_is_equal(digest, join->bootstrap->hash))
                kept = &answer->body;
        nb_buffer_done(&join->ca);
        join->ca = (struct nb_buffer)NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        return nb_buffer_append(&join->ca, kept->data, kept->len) < 0 ? nb_failure_set_memory(f)
                                                                      : 0;
}

/* 0: verified; NB_RACE_AGAIN: by the token alone, and `ret_ca` verifies a second copy. */
static int verify_copies(struct nb_join *join, const char *name, const struct nb_http_answer *first,
                         const struct nb_http_answer *second, struct nb_buffer *ret_ca,
                         struct nb_failure *f) {
        int r;

        r = nb_cacerts_verify(first, name, f);
        if (r >= 0)
                r = verify_text(first, name, f);
        if (r >= 0)
                r = verify_hash(join, first, name, f);
        if (r >= 0 && !second)
                r = select_vouched_for(join, first, ret_ca, f);
        if (r < 0) {
                f->is_unverified = true;
                return r;
        }
        if (!second)
                return NB_RACE_AGAIN;
        r = compare(first, second, name, f);
        f->is_unverified = r < 0 && !join->bootstrap->has_hash;
        return r;
}

static int verify_answer(struct nb_join *join, const struct nb_url *endpoint,
                         const struct nb_unverified *first, const struct nb_http_answer *second,
                         struct nb_buffer *ret_ca, struct nb_failure *f) {
        const struct nb_http_answer *answer = &first->answer;
        struct nb_trust trust = NB_TRUST_INIT;
        char name[NB_URL_MAX], what[NB_URL_MAX + 16];
        int r;

        nb_endpoint_format(endpoint, name);
        r = verify_copies(join, name, answer, second, ret_ca, f);
        if (r != 0)
                return r;
        /* The hash matches by now; pins may be configured as well. */
        r = nb_join_select_ca(join, answer->body.data, answer->body.len, NB_ANSWER_MALFORMED,
                              &trust, f);
        if (r >= 0)
                r = keep_ca(join, answer, &trust.ca, f);
        nb_buffer_done(&trust.ca);
        if (r < 0) {
                f->is_unverified = !join->bootstrap->has_hash;
                return r;
        }
        snprintf(what, sizeof(what), "/cacerts of %s", name);
        nb_join_log_selection(&trust.selection, what);
        join->cluster = (struct nb_cluster){ .server = *endpoint };
        /* RKE2's supervisor serves no Kubernetes API; its API server is on the same machine. */
        if (endpoint->port == NB_RKE2_SUPERVISOR_PORT)
                join->cluster.server.port = NB_API_SERVER_PORT;
        snprintf(join->endpoint, sizeof(join->endpoint), "%s", name);
        return 0;
}

int nb_discover_k3s(struct nb_join *join, struct nb_failure *f) {
        const struct nb_race race = { "/cacerts of", nb_cacerts_start, verify_answer,
                                      !join->bootstrap->has_hash };

        assert(join->bootstrap->has_hash || join->settings->unsafe_skip_ca_verification);
        return nb_join_race(join, &race, f);
}
