/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube_objects/kubeconfig_format.h"

/* Any path is read from a written kubeconfig unchanged, or writing fails. */
static void check_path(const char *path) {
        static const struct nb_cluster cluster = { .server = { .host = "a", .port = 443 } };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4 * NB_KUBECONFIG_MAX);
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure f = {};

        nb_kubeconfig_format(&cluster, path, path, &text);
        if (text.len > NB_KUBECONFIG_MAX)
                return;
        FUZZ_CHECK(nb_kubeconfig_parse_client("written", text.data, text.len, &client, &f) == 0);
        FUZZ_CHECK(strcmp(client.ca_file, path) == 0);
        FUZZ_CHECK(strcmp(client.certificate_file, path) == 0 &&
                   strcmp(client.key_file, path) == 0);
}

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_kubeconfig_parse_client("fuzzed", data, len, &client, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(!client.certificate.data ||
                   strlen(client.certificate.data) == client.certificate.len);
        if (client.ca_file)
                check_path(client.ca_file);
        if (client.certificate_file)
                check_path(client.certificate_file);
}
