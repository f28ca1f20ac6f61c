/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "fuzz.h"
#include "kube_objects/kubeconfig_format.h"

/* Every file exists whose path ends in a digit. */
static int read_any(void *userdata _unused_, const char *path, struct nb_secret *ret) {
        static const char text[] = "text of a file\n";
        int r;

        FUZZ_CHECK(path[0] == '/');
        if (!strchr("0123456789", path[strlen(path) - 1]))
                return -ENOENT;
        r = nb_secret_init(ret, strlen(text));
        return r < 0 ? r : nb_secret_append(ret, text, strlen(text));
}

static void check_cluster(const struct nb_cluster *cluster) {
        FUZZ_CHECK(cluster->server.host[0]);
        FUZZ_CHECK((cluster->ca != NULL) == (cluster->ca_len > 0));
        FUZZ_CHECK(!cluster->ca || strlen(cluster->ca) == cluster->ca_len);
        FUZZ_CHECK(!cluster->tls_server_name[0] ||
                   nb_tls_server_name_verify(cluster->tls_server_name) == 0);
        FUZZ_CHECK(!cluster->proxy_url[0] || nb_proxy_url_verify(cluster->proxy_url) == 0);
}

static void check_identity(const struct nb_identity *identity) {
        FUZZ_CHECK(identity->secret.len > 0 &&
                   strlen(identity->secret.data) == identity->secret.len);
        if (identity->kind == NB_IDENTITY_TOKEN) {
                FUZZ_CHECK(!identity->certificate.data);
                for (const char *p = identity->secret.data; *p; p++)
                        FUZZ_CHECK(*p > ' ' && *p <= '~');
                return;
        }
        FUZZ_CHECK(identity->kind == NB_IDENTITY_CERTIFICATE);
        FUZZ_CHECK(identity->certificate.len > 0 &&
                   strlen(identity->certificate.data) == identity->certificate.len);
}

/* An accepted cluster can be written for kubelet, and is read back the same. */
static void check_written(const struct nb_cluster *cluster) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_kubeconfig_input input = { .origin = "written" };
        struct nb_cluster again;
        struct nb_failure f = {};

        nb_kubeconfig_format(cluster, "/ca.crt", "/client.pem", &text);
        FUZZ_CHECK(nb_kubeconfig_parse_client("written", text.data, text.len, &client, &f) == 0);
        FUZZ_CHECK(strcmp(client.ca_file, "/ca.crt") == 0 &&
                   strcmp(client.key_file, "/client.pem") == 0);
        input.text = text.data;
        input.len = text.len;
        FUZZ_CHECK(nb_kubeconfig_parse_own(&input, "/ca.crt", "/client.pem", &again, &f) == 0);
        FUZZ_CHECK(nb_url_is_equal(&cluster->server, &again.server));
        FUZZ_CHECK(strcmp(cluster->tls_server_name, again.tls_server_name) == 0);
        FUZZ_CHECK(strcmp(cluster->proxy_url, again.proxy_url) == 0);
}

/* 1 if the policy accepts the document. */
static int accepts(const struct nb_kubeconfig_policy *policy,
                   const struct nb_kubeconfig_input *input) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = {};
        int r;

        r = nb_kubeconfig_parse(policy, input, &cluster, &identity, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0) {
                FUZZ_CHECK(f.code == policy->unacceptable || f.code == policy->unreadable);
                return 0;
        }
        check_cluster(&cluster);
        check_written(&cluster);
        FUZZ_CHECK(cluster.ca || policy->ca != NB_KUBECONFIG_CA_REQUIRED);
        if (policy->users == NB_KUBECONFIG_USERS_CURRENT)
                check_identity(&identity);
        else
                FUZZ_CHECK(identity.kind == NB_IDENTITY_NONE);
        return 1;
}

/* A document with a credential is refused wherever none is expected. */
void fuzz_one(const char *data, size_t len) {
        const struct nb_kubeconfig_input bootstrap = { .origin = "fuzzed",
                                                       .text = data,
                                                       .len = len,
                                                       .read = read_any,
                                                       .folder = "/folder" },
                                         document = { .origin = "fuzzed",
                                                      .text = data,
                                                      .len = len };
        int has_user = accepts(&nb_kubeconfig_bootstrap, &bootstrap);
        int is_discovery = accepts(&nb_kubeconfig_discovery_file, &document);
        int is_cluster_info = accepts(&nb_kubeconfig_cluster_info, &document);

        FUZZ_CHECK(!has_user || !is_discovery);
        FUZZ_CHECK(is_discovery || !is_cluster_info);
}
