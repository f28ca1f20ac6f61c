/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "join/endpoints.h"
#include "join/stages.h"
#include "kube_calls/api.h"
#include "kube_calls/k3s_calls.h"

/* The installer receives this text as a JSON string, so it must be valid UTF-8. Verify this before
 * sending anything that the supervisor stores. */
static int verify_text(const struct nb_api *api, const struct nb_http_answer *answer,
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
                                              api->name);
                text += n;
                left -= n;
        }
        return 0;
}

/* Selects the CAs that match the hash. Only these verify the connection for the second copy, and
 * later the connections that carry credentials. */
static int select_vouched_for(const struct nb_join *join, const struct nb_api *api,
                              const struct nb_http_answer *first, struct nb_buffer *ret_ca,
                              struct nb_failure *f) {
        /* nb_bootstrap_verify() accepts a token without a hash only with
         * unsafeSkipCAVerification. */
        bool has_hash = join->bootstrap->has_hash;
        const struct nb_ca_criteria criteria = {
                .k3s_hash = has_hash ? join->bootstrap->hash : NULL,
                .choice = has_hash ? NB_CA_PINNED : NB_CA_ALL_UNPINNED,
                .malformed = NB_ANSWER_MALFORMED,
                .mismatch = NB_CA_HASH_MISMATCH,
        };
        int r;

        r = nb_ca_select(nb_answer_text(first), first->body.len, &criteria, ret_ca, NULL, f);
        if (r < 0)
                nb_failure_add(f, " (/cacerts of %s)", api->name);
        return r;
}

static int verify_first(const struct nb_join *join, const struct nb_api *api,
                        const struct nb_http_answer *answer, struct nb_buffer *ret_ca,
                        struct nb_failure *f) {
        int r;

        r = nb_cacerts_verify(api, answer, f);
        if (r < 0)
                return r;
        r = verify_text(api, answer, f);
        return r < 0 ? r : select_vouched_for(join, api, answer, ret_ca, f);
}

static int verify_answer(const struct nb_join *join, const struct nb_api *api,
                         const struct nb_unverified *first, struct nb_http_answer *second,
                         struct nb_cluster *ret_cluster, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_FILE_MAX);
        const struct nb_buffer *known = &first->answer.body;
        int r;

        if (!second) {
                r = verify_first(join, api, &first->answer, &ca, f);
                f->is_unverified = r < 0;
                nb_cluster_take_ca(ret_cluster, &ca);
                return r < 0 ? r : NB_RACE_AGAIN;
        }
        r = nb_cacerts_verify(api, second, f);
        if (r < 0)
                return r;
        if (second->body.len != known->len ||
            memcmp(second->body.data, known->data, known->len) != 0)
                return nb_failure_set(
                        f, NB_CACERTS_CHANGED, EKEYREJECTED,
                        "/cacerts of %s differs when TLS is verified by the CA of the token",
                        api->name);
        nb_cluster_take_ca(ret_cluster, &second->body);
        /* RKE2's supervisor serves no Kubernetes API; its API server is on the same machine. */
        if (ret_cluster->server.port == NB_RKE2_SUPERVISOR_PORT)
                ret_cluster->server.port = NB_API_SERVER_PORT;
        return 0;
}

int nb_discover_k3s(struct nb_join *join, struct nb_failure *f) {
        const struct nb_race race = { &nb_cacerts_call, verify_answer, NB_ANSWER_MALFORMED,
                                      !join->bootstrap->has_hash };

        assert(join->bootstrap->has_hash || join->settings->unsafe_skip_ca_verification);
        if (!join->is_rehearsal)
                nb_join_find_named_ips(join);
        return nb_join_race(join, &race, f);
}
