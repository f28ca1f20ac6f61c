/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "http/http_internal.h"

static const struct curl_tlssessioninfo *find_session(CURL *easy) {
        struct curl_tlssessioninfo *session = NULL;

        (void)curl_easy_getinfo(easy, CURLINFO_TLS_SSL_PTR, &session);
        return session;
}

bool nb_http_has_gnutls(CURL *easy) {
        const struct curl_tlssessioninfo *session = find_session(easy);

        return session && session->backend == CURLSSLBACKEND_GNUTLS;
}

void nb_http_read_chain(CURL *easy, struct nb_buffer *ret_pem) {
        static const char name[] = "Cert:";
        const struct curl_certinfo *chain = NULL;

        if (nb_http_has_gnutls(easy)) {
                if (find_session(easy)->internals)
                        nb_certificates_of_session(find_session(easy)->internals, ret_pem);
                return;
        }
        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain)
                return;
        for (int i = 0; i < chain->num_of_certs; i++)
                for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
                        if (!strncmp(line->data, name, strlen(name)))
                                nb_buffer_append_string(ret_pem, line->data + strlen(name));
}

int nb_http_server_verify(const struct nb_http_exchange *exchange, const struct nb_buffer *chain,
                          struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        const struct nb_http_config *config = exchange->config;
        char reason[256] = "";
        enum nb_code code;
        int r;

        r = nb_path_read(-1, NB_HTTP_CA_PATH, NB_HTTP_CA_MAX, &ca);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot read the trusted CAs: %m");
        if (chain->len == 0 || chain->error < 0)
                return nb_failure_set(f, NB_TLS_UNTRUSTED, EKEYREJECTED,
                                      "the server's certificates are missing or too large");
        code = config->verify(chain->data, chain->len, ca.data, ca.len,
                              config->tls_server_name[0] ? config->tls_server_name : exchange->host,
                              reason, sizeof(reason));
        return code == NB_NONE ? 0 : nb_failure_set(f, code, EKEYREJECTED, "%s", reason);
}
