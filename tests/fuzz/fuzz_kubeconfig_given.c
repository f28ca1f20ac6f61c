/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "format/kubeconfig.h"
#include "fuzz.h"

/* Every file whose path ends in a digit is there. */
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
        FUZZ_CHECK(!cluster->tls_server_name[0] || nb_tls_server_name_verify(cluster->tls_server_name) == 0);
        FUZZ_CHECK(!cluster->proxy_url[0] || nb_proxy_url_verify(cluster->proxy_url) == 0);
}

static void check_identity(const struct nb_identity *identity) {
        FUZZ_CHECK(identity->secret.len > 0 && strlen(identity->secret.data) == identity->secret.len);
        if (identity->kind == NB_IDENTITY_TOKEN) {
                FUZZ_CHECK(!identity->certificate);
                for (const char *p = identity->secret.data; *p; p++)
                        FUZZ_CHECK(*p > ' ' && *p <= '~');
                return;
        }
        FUZZ_CHECK(identity->kind == NB_IDENTITY_CERTIFICATE);
        FUZZ_CHECK(identity->certificate && strlen(identity->certificate) == identity->certificate_len);
}

/* A document with a user has no place where one without is expected. */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {}, alone = {};
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = {}, g = {};
        int r, r_alone;

        r = nb_kubeconfig_parse_given("fuzzed", "/folder", data, len, true, read_any, NULL, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, &cluster,
                                      &identity, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r >= 0) {
                check_cluster(&cluster);
                check_identity(&identity);
        }
        r_alone = nb_kubeconfig_parse_given("fuzzed", NULL, data, len, false, NULL, NULL, NB_DISCOVERY_FILE_UNACCEPTABLE, &alone, NULL, &g);
        FUZZ_CHECK_FAILURE(g, r_alone);
        FUZZ_CHECK(g.code == NB_NONE || g.code == NB_DISCOVERY_FILE_UNACCEPTABLE);
        FUZZ_CHECK(r < 0 || r_alone < 0);
        if (r_alone >= 0)
                check_cluster(&alone);
}
