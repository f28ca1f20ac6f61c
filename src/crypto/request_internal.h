/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Private to crypto/, since it uses the types of GnuTLS. */

#include <stdbool.h>

#include <gnutls/x509.h>

static inline void nb_crq_deinitp(gnutls_x509_crq_t *crq) {
        if (*crq)
                gnutls_x509_crq_deinit(*crq);
}

/* Imports a request and verifies its signature. The key's size is checked first, since verifying is
 * slow for a huge key. 0, -EINVAL, -ENOMEM. */
int nb_request_import(const gnutls_datum_t *text, gnutls_x509_crt_fmt_t format,
                      gnutls_x509_crq_t *ret_crq);
