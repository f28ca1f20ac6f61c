/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "codec/yaml.h"
#include "fuzz.h"
#include "kube_objects/kubelet_config.h"

#define CA "/etc/kubernetes/pki/ca.crt"

static void check_keys(const struct nb_yaml_node *mapping, const char *prefix) {
        static const char *const forbidden[] = { "staticPodPath",       "staticPodURL",
                                                 "volumePluginDir",     "tlsCertFile",
                                                 "tlsPrivateKeyFile",   "featureGates",
                                                 "imageServiceEndpoint" };

        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next) {
                char path[128];

                /* A longer key is in a mapping that allows any key. */
                if ((size_t)snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] ? "." : "",
                                     node->key) >= sizeof(path))
                        continue;
                for (size_t i = 0; i < N_ELEMENTS(forbidden); i++)
                        FUZZ_CHECK(strcmp(path, forbidden[i]) != 0);
                FUZZ_CHECK(strcmp(path, "authorization.mode") != 0 ||
                           strcmp(node->value, "Webhook") == 0);
                FUZZ_CHECK(strcmp(path, "authentication.anonymous.enabled") != 0 ||
                           strcmp(node->value, "false") == 0);
                FUZZ_CHECK(strcmp(path, "authentication.x509.clientCAFile") != 0 ||
                           strcmp(node->value, CA) == 0);
                FUZZ_CHECK(strcmp(path, "readOnlyPort") != 0 || strcmp(node->value, "0") == 0);
                FUZZ_CHECK(strcmp(path, "containerRuntimeEndpoint") != 0 || node->value_len == 0);
                if (node->type == NB_YAML_MAPPING)
                        check_keys(node, path);
        }
}

/* Filtering the output drops nothing, so it has only keys of the table. */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX),
                                                   again = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE] = "kept";
        const struct nb_kubelet_config_source source = { "fuzzed", CA,
                                                         NB_KUBELET_CONFIG_UNACCEPTABLE };
        struct nb_failure f = {};
        int r;

        r = nb_kubelet_config_filter(&source, data, len, &out, dropped, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0) {
                FUZZ_CHECK(out.len == 0 && strcmp(dropped, "kept") == 0);
                return;
        }
        FUZZ_CHECK(memchr(dropped, '\0', sizeof(dropped)) && !strchr(dropped, '\n'));
        FUZZ_CHECK(nb_yaml_parse("filtered", out.data, out.len, NB_INTERNAL, 1, &root, &f) >= 0);
        check_keys(root, "");
        FUZZ_CHECK(nb_kubelet_config_filter(&source, out.data, out.len, &again, dropped, &f) >= 0);
        FUZZ_CHECK(!dropped[0] && again.len == out.len &&
                   memcmp(again.data, out.data, out.len) == 0);
}
