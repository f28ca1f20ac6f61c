/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/macro.h"
#include "bootstrap/credentials.h"

static int refuse(const struct nb_identity *identity, int r, const char *what, struct nb_failure *f) {
        return r == -ENOMEM ? nb_failure_set_memory(f) : nb_failure_set(f, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, -r, "%s: %s", identity->source, what);
}

int nb_client_certificate_verify(const struct nb_identity *identity, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_certificates_parse(identity->certificate, identity->certificate_len, true, &chain);
        if (r < 0)
                return refuse(identity, r, "client-certificate: expected certificates in PEM, found something else", f);
        r = nb_key_import(identity->secret.data, identity->secret.len, &key);
        if (r < 0)
                return refuse(identity, r, "client-key: expected a private key in PEM that is not encrypted, found something else", f);
        r = nb_certificate_verify_key(chain, key);
        return r < 0 ? refuse(identity, r, "client-key: expected the key of the client certificate, found another one", f) : 0;
}
