/* SPDX-License-Identifier: Apache-2.0 */
#include "format/kubeconfig.h"
#include "fuzz.h"

/* What is accepted can be written for kubelet, and kubelet's file says the same. */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client = { .key_data = NB_SECRET_INIT };
        struct nb_kubeconfig kubeconfig = { &cluster.server, cluster.tls_server_name, cluster.proxy_url, "/ca.crt",
                                            "/client.pem" };
        struct nb_failure f = {};
        char server[NB_URL_MAX];
        int r;

        r = nb_kubeconfig_parse_cluster(data, len, &cluster, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(cluster.ca && cluster.ca_len > 0 && strlen(cluster.ca) == cluster.ca_len);
        FUZZ_CHECK(!cluster.tls_server_name[0] || nb_tls_server_name_verify(cluster.tls_server_name) == 0);
        FUZZ_CHECK(!cluster.proxy_url[0] || nb_proxy_url_verify(cluster.proxy_url) == 0);

        FUZZ_CHECK(nb_kubeconfig_format(&kubeconfig, &text) == 0);
        FUZZ_CHECK(nb_kubeconfig_parse_client("written", text.data, text.len, &client, &f) == 0);
        nb_url_format(&cluster.server, server);
        FUZZ_CHECK(strstr(text.data, server));
        FUZZ_CHECK(strcmp(client.ca_file, "/ca.crt") == 0 && strcmp(client.key_file, "/client.pem") == 0);
}
