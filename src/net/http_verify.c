/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "net/http_internal.h"

#define CHAIN_MAX ((size_t)256 * 1024)

const char *nb_http_certificate(CURL *easy, int i) {
        const struct curl_certinfo *chain = NULL;
        static const char name[] = "Cert:";

        if (curl_easy_getinfo(easy, CURLINFO_CERTINFO, &chain) != CURLE_OK || !chain ||
            i >= chain->num_of_certs)
                return NULL;
        for (const struct curl_slist *line = chain->certinfo[i]; line; line = line->next)
                if (!strncmp(line->data, name, strlen(name)))
                        return line->data + strlen(name);
        return NULL;
}

int nb_http_server_verify(const struct nb_http_exchange *exchange, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(CHAIN_MAX);
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        const struct nb_http_config *config = exchange->config;
        char reason[256] = "";
        enum nb_code code;
        const char *pem;
        int r;

        r = nb_path_read(-1, NB_HTTP_CA_PATH, NB_HTTP_CA_MAX, &ca);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot read the trusted CAs: %m");
        for (int i = 0; (pem = nb_http_certificate(exchange->easy, i)); i++)
                nb_buffer_append_string(&chain, pem);
        if (chain.len == 0 || chain.error < 0)
                return nb_failure_set(f, NB_TLS_UNTRUSTED, EKEYREJECTED,
                                      "the server's certificates are missing or too large");
        code = config->verify(chain.data, chain.len, ca.data, ca.len,
                              config->tls_server_name[0] ? config->tls_server_name : exchange->host,
                              reason, sizeof(reason));
        return code == NB_NONE ? 0 : nb_failure_set(f, code, EKEYREJECTED, "%s", reason);
}
