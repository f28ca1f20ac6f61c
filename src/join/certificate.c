/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "join/stages.h"
#include "state/handoff.h"

/* --- The pending key --- */

static int unwritable(int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_STATE_UNWRITABLE, r, "'%s' in the state directory: %m",
                              NB_PENDING_KEY_FILE);
}

/* 1: loaded; 0: there is no usable one. */
static int read_key(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_file_read_secret(join->state_fd, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem,
                                NULL);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = nb_key_import(pem.data, pem.len, &key);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || !nb_key_is_p256(key)) {
                nb_log(LOG_WARNING, NB_KEY_DROPPED,
                       "'%s' in the state directory is damaged; creating a new key",
                       NB_PENDING_KEY_FILE);
                return 0;
        }
        join->key = TAKE(key);
        return 1;
}

static int make_key(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_key_generate(&key);
        if (r >= 0)
                r = nb_key_export(key, &pem);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the node's key cannot be created");
        r = nb_file_write(join->state_fd, NB_PENDING_KEY_FILE, 0600, pem.data, pem.len);
        if (r < 0)
                return unwritable(r, f);
        join->key = TAKE(key);
        return 0;
}

int nb_pending_key_load(struct nb_join *join, struct nb_failure *f) {
        int r;

        if (join->key)
                return 0;
        r = read_key(join, f);
        if (r != 0)
                return r < 0 ? r : 0;
        return make_key(join, f);
}

int nb_pending_key_drop(struct nb_join *join, struct nb_failure *f) {
        int r;

        nb_key_free(TAKE(join->key));
        r = nb_file_remove(join->state_fd, NB_PENDING_KEY_FILE);
        return r < 0 ? unwritable(r, f) : 0;
}

/* --- The issued certificate --- */

static void warn_of_clock(const struct nb_join *join, const struct nb_certificates *chain) {
        char not_before[NB_RFC3339_SIZE], now[NB_RFC3339_SIZE];
        time_t clock = time(NULL);

        if (nb_certificate_not_before(chain, 0) <= clock)
                return;
        nb_time_format(nb_certificate_not_before(chain, 0), not_before);
        nb_time_format(clock, now);
        nb_log(LOG_WARNING, NB_NOT_YET_VALID,
               "the certificate of node '%s' is valid from %s, and this machine's clock is at %s",
               join->node_name, not_before, now);
}

static int verify_issued(const struct nb_join *join, const char *pem, size_t len,
                         struct nb_buffer *ret_chain, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = nb_certificates_parse(pem, len, false, &chain);
        if (r < 0)
                return nb_failure_set(
                        f, NB_CERTIFICATE_UNUSABLE, r,
                        "expected a chain of certificates in PEM for node '%s', found %s",
                        join->node_name, nb_certificates_reason(r));
        /* A NotBefore in the future means that this machine's clock is wrong, and kubelet ignores
         * it: accept any. */
        r = nb_certificate_verify_node(chain, join->key, join->node_name, time(NULL), UINT_MAX, f);
        for (size_t i = 0; r >= 0 && i < nb_certificates_count(chain); i++)
                if (nb_certificate_export(chain, i, ret_chain) < 0)
                        r = nb_failure_set_memory(f);
        if (r >= 0)
                warn_of_clock(join, chain);
        return r;
}

int nb_join_take_issued(struct nb_join *join, const char *pem, size_t len, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        int r;

        r = nb_join_map_clock_skew(join, verify_issued(join, pem, len, &chain, f), f);
        if (r < 0)
                return r;
        nb_buffer_done(&join->certificate);
        join->certificate = TAKE(chain);
        return 0;
}
