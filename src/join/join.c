/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "join/join.h"
#include "join/wall_clock.h"

void nb_join_done(struct nb_join *join) {
        nb_cluster_done(&join->cluster);
        nb_api_done(&join->api);
        nb_key_free(TAKE(join->key));
        nb_csr_done(&join->csr);
        nb_buffer_done(&join->certificate);
}

/* Whether the token's hash is that of the exact bytes. The installer verifies it again, so these
 * are kept; otherwise the selection contains the certificate that the hash is of. */
static bool is_hashed_whole(const struct nb_bootstrap *bootstrap,
                            const struct nb_cluster *cluster) {
        uint8_t digest[NB_SHA256_SIZE];

        return bootstrap->has_hash && nb_sha256(cluster->ca, cluster->ca_len, digest) >= 0 &&
               nb_digest_is_equal(digest, bootstrap->hash);
}

int nb_join_trust(const struct nb_join *join, struct nb_cluster *cluster, enum nb_code malformed,
                  struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_BUNDLE_MAX);
        const struct nb_ca_request request = { .bootstrap = join->bootstrap,
                                               .settings = join->settings,
                                               .pem = cluster->ca ? cluster->ca : "",
                                               .len = cluster->ca_len,
                                               .malformed = malformed,
                                               .mismatch = NB_CA_PIN_MISMATCH,
                                               .ret_pem = &ca,
                                               .ret_selection = ret_selection };
        int r;

        r = nb_bootstrap_select_ca(&request, f);
        if (r < 0)
                return r;
        if (!is_hashed_whole(join->bootstrap, cluster))
                nb_cluster_take_ca(cluster, &ca);
        return 0;
}

void nb_join_adopt(struct nb_join *join, struct nb_cluster *cluster, const char *endpoint,
                   const struct nb_ca_selection *selection, const char *what) {
        char pin[NB_PIN_TEXT_SIZE];

        for (unsigned i = 0; i < selection->n_left_out; i++) {
                nb_pin_format(selection->left_out[i], pin);
                nb_log(LOG_WARNING, NB_CERTIFICATE_LEFT_OUT,
                       "%s contains a certificate that may not be trusted as a CA, %s: left out",
                       what, pin);
        }
        if (selection->n_taken > 0) {
                nb_pin_format(selection->taken[0], pin);
                nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        }
        nb_cluster_done(&join->cluster);
        join->cluster = TAKE(*cluster);
        snprintf(join->endpoint, sizeof(join->endpoint), "%s", endpoint);
}

static int64_t clock_skew_sec(const struct nb_join *join) {
        if (join->server_date_ms == 0)
                return 0;
        return (int64_t)join->server_date + (int64_t)((nb_now_ms() - join->server_date_ms) / 1000) -
               (int64_t)time(NULL);
}

/*
 * A wrong name, CA or key is not caused by the clock. The Date comes from whoever terminates TLS:
 * by lying about the time, an attacker must not turn a trust failure into an endless wait.
 */
static bool is_of_time(const struct nb_failure *f) {
        return f->code == NB_TLS_EXPIRED ||
               (f->code == NB_CERTIFICATE_UNUSABLE && f->errnum == EKEYEXPIRED);
}

int nb_join_map_clock_skew(const struct nb_join *join, int r, struct nb_failure *f) {
        const struct nb_wall_clock clock = {
                .now = time(NULL),
                .has_date = join->server_date_ms > 0,
                .behind_sec = clock_skew_sec(join),
                .built = nb_build_time(),
        };
        char why[NB_WALL_CLOCK_TEXT_SIZE], detail[NB_FAILURE_DETAIL_MAX];

        if (r >= 0 || !is_of_time(f) || !nb_wall_clock_is_wrong(&clock, why))
                return r;
        snprintf(detail, sizeof(detail), "%s", f->detail);
        nb_failure_clear(f);
        return nb_failure_set(f, NB_CLOCK_WRONG, ETIME,
                              "%s, so the validity of a certificate cannot be verified (%s)", why,
                              detail);
}
