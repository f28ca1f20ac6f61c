/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "join/join.h"
#include "os/clock.h"
#include "systemd/log.h"

void nb_join_done(struct nb_join *join) {
        nb_cluster_done(&join->cluster);
        nb_api_done(&join->api);
        nb_key_free(TAKE(join->key));
        nb_buffer_done(&join->request);
        nb_prover_leave(&join->prover_fd);
        nb_csr_done(&join->csr);
        nb_buffer_done(&join->certificate);
        nb_buffer_done(&join->serving);
}

int nb_join_trust(const struct nb_join *join, struct nb_cluster *cluster, enum nb_code malformed,
                  struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_CA_FILE_MAX);
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
        /* If the token's hash is that of the bundle's exact bytes, all bytes are kept, because the
         * installer verifies the hash again. Otherwise the hash is that of a single certificate,
         * which the selection contains. */
        if (!nb_bootstrap_has_hash_of(join->bootstrap, cluster->ca, cluster->ca_len))
                nb_cluster_take_ca(cluster, &ca);
        return 0;
}

void nb_join_adopt(struct nb_join *join, struct nb_cluster *cluster, const char *endpoint,
                   const struct nb_ca_selection *selection, const char *what) {
        char pin[NB_PIN_TEXT_SIZE];

        for (unsigned i = 0; i < selection->n_left_out; i++) {
                nb_pin_format(selection->left_out[i], pin);
                nb_log(LOG_WARNING, NB_CERTIFICATE_LEFT_OUT,
                       "ignoring a certificate in %s that must not be trusted as a CA: %s", what,
                       pin);
        }
        if (selection->n_taken > 0) {
                nb_pin_format(selection->taken[0], pin);
                nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        }
        nb_cluster_done(&join->cluster);
        join->cluster = TAKE(*cluster);
        NB_TEXT_COPY(join->endpoint, endpoint);
}

bool nb_clock_is_wrong(time_t now, time_t built, int64_t behind_sec,
                       char ret[static NB_CLOCK_TEXT_SIZE]) {
        char duration[NB_DURATION_SIZE], then[NB_RFC3339_SIZE], build[NB_RFC3339_SIZE];

        if (behind_sec >= NB_CLOCK_SKEW_MAX_SEC || behind_sec <= -NB_CLOCK_SKEW_MAX_SEC) {
                nb_duration_format((uint64_t)(behind_sec < 0 ? -behind_sec : behind_sec) * 1000,
                                   duration);
                snprintf(ret, NB_CLOCK_TEXT_SIZE, "this machine's clock is %s %s the API server's",
                         duration, behind_sec > 0 ? "behind" : "ahead of");
                return true;
        }
        if (now >= built)
                return false;
        nb_time_format(now, then);
        nb_time_format(built, build);
        snprintf(ret, NB_CLOCK_TEXT_SIZE,
                 "this machine's clock is at %s, before this program was built (%s)", then, build);
        return true;
}

int64_t nb_join_clock_behind_sec(const struct nb_join *join) {
        if (join->server_date_ms == 0)
                return 0;
        return (int64_t)join->server_date + (int64_t)((nb_now_ms() - join->server_date_ms) / 1000) -
               (int64_t)time(NULL);
}

int nb_join_map_clock_skew(const struct nb_join *join, int r, struct nb_failure *f) {
        char why[NB_CLOCK_TEXT_SIZE], detail[NB_FAILURE_DETAIL_MAX];
        /* A wrong clock does not cause a mismatch of name, CA or key. The Date header is
         * unverified: an attacker must not be able to turn a trust failure into an endless wait by
         * sending a false time. */
        bool is_of_time = f->code == NB_TLS_EXPIRED ||
                          (f->code == NB_CERTIFICATE_UNUSABLE && f->errnum == EKEYEXPIRED);

        if (r >= 0 || !is_of_time ||
            !nb_clock_is_wrong(time(NULL), nb_build_time(), nb_join_clock_behind_sec(join), why))
                return r;
        snprintf(detail, sizeof(detail), "%s", f->detail);
        nb_failure_clear(f);
        return nb_failure_set(f, NB_CLOCK_WRONG, ETIME,
                              "%s, so the validity of a certificate cannot be verified (%s)", why,
                              detail);
}
