/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "codec/json.h"
#include "kube_objects/kubeconfig_format.h"

void nb_kubeconfig_format(const struct nb_cluster *cluster, const char *ca_file,
                          const char *client_certificate, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        const struct {
                const char *before, *value; /* omitted if the value is missing or empty */
        } fields[] = {
                { "    certificate-authority: ", ca_file },
                { "    server: ", server },
                { "    tls-server-name: ", cluster->tls_server_name },
                { "    proxy-url: ", cluster->proxy_url },
                { "contexts:\n"
                  "- name: default-context\n"
                  "  context:\n"
                  "    cluster: default-cluster\n"
                  "    namespace: default\n"
                  "    user: default-auth\n"
                  "current-context: default-context\n"
                  "preferences: {}\n"
                  "users:\n"
                  "- name: default-auth\n"
                  "  user:\n"
                  "    client-certificate: ",
                  client_certificate },
                { "    client-key: ", client_certificate },
        };

        nb_url_format(&cluster->server, server);
        nb_buffer_append_string(ret, "apiVersion: v1\n"
                                     "kind: Config\n"
                                     "clusters:\n"
                                     "- name: default-cluster\n"
                                     "  cluster:\n");
        for (size_t i = 0; i < N_ELEMENTS(fields); i++) {
                const char *value = fields[i].value;

                if (!value || !value[0])
                        continue;
                nb_buffer_append_string(ret, fields[i].before);
                nb_json_quote(value, strlen(value), ret);
                nb_buffer_append_string(ret, "\n");
        }
}

int nb_kubeconfig_parse_own(const struct nb_kubeconfig_input *input, const char *ca_file,
                            const char *client_certificate, struct nb_cluster *ret_cluster,
                            struct nb_failure *f) {
        static const struct nb_kubeconfig_policy policy = {
                .unacceptable = NB_REFRESH_INAPPLICABLE,
                .users = NB_KUBECONFIG_USERS_IGNORED,
                .ca = NB_KUBECONFIG_CA_IGNORED,
        };
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        struct nb_cluster cluster;
        int r;

        r = nb_kubeconfig_parse(&policy, input, &cluster, NULL, f);
        if (r < 0)
                return r;
        nb_kubeconfig_format(&cluster, ca_file, client_certificate, &own);
        if (own.error < 0)
                return nb_failure_set_memory(f);
        if (own.len != input->len || memcmp(own.data, input->text, own.len) != 0)
                return nb_failure_set(f, policy.unacceptable, 0,
                                      "%s was not written by node-bootstrap, or not for the CA "
                                      "file '%s' and the client certificate '%s'",
                                      input->origin, ca_file, client_certificate);
        *ret_cluster = cluster;
        return 0;
}
