/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "stage/internal.h"

static void warn_of_clock(const struct nb_join *join, const struct nb_certificates *chain) {
        char not_before[NB_RFC3339_SIZE], now[NB_RFC3339_SIZE];
        time_t clock = time(NULL);

        if (nb_certificate_not_before(chain, 0) <= clock)
                return;
        nb_time_format(nb_certificate_not_before(chain, 0), not_before);
        nb_time_format(clock, now);
        nb_log(LOG_WARNING, NB_NOT_YET_VALID, "the certificate of node '%s' is valid from %s on, and by this machine's clock it is %s",
               join->node_name, not_before, now);
}

static int verify(const struct nb_join *join, const char *pem, size_t len, struct nb_buffer *ret_chain, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = nb_certificates_parse(pem, len, false, &chain);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_CERTIFICATE_UNUSABLE, EBADMSG, "what was issued for node '%s' is no chain of certificates in PEM",
                                      join->node_name);
        /* A NotBefore in the future says something of this machine's clock, and kubelet does not look at it: any is let pass. */
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

        r = nb_join_blame_clock(join, verify(join, pem, len, &chain, f), f);
        if (r < 0)
                return r;
        nb_buffer_done(&join->certificate);
        join->certificate = chain;
        chain = (struct nb_buffer)NB_BUFFER_INIT(0);
        return 0;
}
