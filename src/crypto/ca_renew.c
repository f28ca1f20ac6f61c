/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/certificate.h"

#define PRESENT_MAX (1024 * 1024)

static int select_present(const char *pem, size_t len, struct nb_buffer *ret_pem,
                          struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        struct nb_failure why = { 0 };
        int r;

        r = nb_ca_select(pem, len, NULL, 0, NB_CA_ALL_UNPINNED, NB_REFRESH_INAPPLICABLE,
                         NB_REFRESH_INAPPLICABLE, ret_pem, ret_selection, &why);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r < 0 ? nb_failure_set(f, NB_REFRESH_INAPPLICABLE, -r,
                                      "the CA file of this machine: %s", why.detail)
                     : 0;
}

int nb_ca_renew(const char *present, size_t present_len, const char *pem, size_t len,
                enum nb_code code_malformed, enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer present_pem = NB_BUFFER_INIT(PRESENT_MAX);
        struct nb_ca_selection trusted, selection;
        size_t before = ret_pem->len;
        char pin[NB_SHA256_SIZE * 2 + 1];
        int r;

        r = select_present(present, present_len, &present_pem, &trusted, f);
        if (r >= 0)
                r = nb_ca_select(pem, len, trusted.taken, trusted.n_taken, NB_CA_ALL,
                                 code_malformed, code_mismatch, ret_pem, &selection, f);
        if (r < 0)
                return r;
        if (selection.n_left_out > 0) {
                ret_pem->len = before;
                ret_pem->data[before] = '\0';
                nb_hex_encode(selection.left_out[0], NB_SHA256_SIZE, pin);
                return nb_failure_set(f, code_mismatch, EKEYREJECTED,
                                      "the CA bundle holds a certificate that is no CA, sha256:%s; "
                                      "expected CAs alone",
                                      pin);
        }
        if (ret_selection)
                *ret_selection = selection;
        return ret_pem->len - before != present_pem.len ||
               memcmp(ret_pem->data + before, present_pem.data, present_pem.len) != 0;
}
