/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "crypto/pkcs10.h"
#include "fuzz.h"

/* Kubernetes' own test key (client-go util/certificate). */
static const char pem[] = "-----BEGIN EC PRIVATE KEY-----\n"
                          "MHcCAQEEIHb7bL0ccx8oLfPycKQT/R2sKrPH8LU5CnDz/65jUjWooAoGCCqGSM49\n"
                          "AwEHoUQDQgAExNsMY0QTw83e3eFOZMLqpT6vqEAvpSMo5+9TSU/faJScYeSsHxlK\n"
                          "tO96nbPcQbWCMGjhrpBWYZcn07iu125DpA==\n"
                          "-----END EC PRIVATE KEY-----\n";

static void check_key(const char *data, size_t len) {
        _cleanup_(nb_key_freep) struct nb_key *key = NULL, *again = NULL;
        struct nb_secret text = NB_SECRET_INIT;

        if (nb_key_import(data, len, &key) < 0 || !nb_key_is_p256(key))
                return;
        if (nb_key_export(key, &text) < 0)
                return;
        FUZZ_CHECK(nb_key_import(text.data, text.len, &again) == 0 && nb_key_is_p256(again));
        nb_secret_done(&text);
}

void fuzz_one(const char *data, size_t len) {
        static struct nb_key *key;
        int r;

        if (!key)
                FUZZ_CHECK(nb_key_import(pem, sizeof(pem) - 1, &key) == 0);
        r = nb_pkcs10_verify(data, len, key, "worker-1");
        FUZZ_CHECK(r == 0 || r == -EINVAL || r == -EPERM || r == -EKEYREJECTED);
        check_key(data, len);
}
