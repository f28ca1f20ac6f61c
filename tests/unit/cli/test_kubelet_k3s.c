/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/failure.h"
#include "base/macro.h"
#include "cli/kubelet_k3s.h"

#define CLIENT_CA "/etc/kubernetes/pki/client-ca.crt"
#define CLIENTS "authentication: {x509: {clientCAFile: " CLIENT_CA "}}\n"
#define DNS "clusterDNS: [10.43.0.10]\n"

static void finds_what_contradicts_k3s(void **state) {
        static const struct {
                const char *name, *config, *arguments;
                const char *words[3]; /* of each contradiction, in their order */
        } cases[] = {
                { "nothing", CLIENTS DNS "rotateCertificates: false\n", "--v=1\n", { NULL } },
                { "CA of the cluster",
                  DNS "authentication: {x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}}\n",
                  "",
                  { "clientCAFile is '/etc/kubernetes/pki/ca.crt', but '" CLIENT_CA "'" } },
                { "no CA of clients", DNS, "", { "clientCAFile is ''" } },
                { "another form", DNS "authentication: none\n", "", { "clientCAFile is ''" } },
                { "rotation", CLIENTS DNS "rotateCertificates: true\n", "", { "rotateCert" } },
                { "serving certificate by CSR",
                  CLIENTS DNS "serverTLSBootstrap: true\n",
                  "",
                  { "serverTLSBootstrap" } },
                { "cloud provider",
                  CLIENTS DNS,
                  "--v=1\n--cloud-provider=external\n",
                  { "--cloud-provider" } },
                { "no cloud provider", CLIENTS DNS, "--cloud-provider=\n", { NULL } },
                { "no DNS", CLIENTS, "", { "clusterDNS is missing" } },
                { "several",
                  CLIENTS "serverTLSBootstrap: true\n",
                  "",
                  { "serverTLSBootstrap", "clusterDNS" } },
        };

        for (size_t i = 0; i < N_ELEMENTS(cases); i++) {
                _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
                struct nb_failure f = { 0 };
                char *line, *rest = NULL;

                print_message("%s\n", cases[i].name);
                assert_int_equal(nb_yaml_parse("config", cases[i].config, strlen(cases[i].config),
                                               NB_SETTINGS_INVALID, 1, &root, &f),
                                 0);
                nb_kubelet_contradict_k3s(root, cases[i].arguments, CLIENT_CA, &text);
                line = text.data ? strtok_r(text.data, "\n", &rest) : NULL;
                for (unsigned n = 0; n < N_ELEMENTS(cases[i].words); n++) {
                        const char *expected = cases[i].words[n];

                        if (!expected) {
                                assert_null(line);
                                break;
                        }
                        assert_non_null(line);
                        assert_non_null(strstr(line, expected));
                        line = strtok_r(NULL, "\n", &rest);
                }
        }
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(finds_what_contradicts_k3s),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
