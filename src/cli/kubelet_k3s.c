/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/kubelet_k3s.h"
#include "settings/kubelet_unit.h"

static const char *text_at(const struct nb_yaml_node *node) {
        return node && node->type == NB_YAML_SCALAR ? node->value : "";
}

static const struct nb_yaml_node *below(const struct nb_yaml_node *node, const char *key) {
        return node && node->type == NB_YAML_MAPPING ? nb_yaml_get(node, key) : NULL;
}

void nb_kubelet_contradict_k3s(const struct nb_yaml_node *config, const char *arguments,
                               const char *client_ca, unsigned n, char *ret, size_t size) {
        const char *found = text_at(
                below(below(below(config, "authentication"), "x509"), "clientCAFile"));
        char value[PATH_MAX] = "";
        bool has_provider = nb_kubelet_find_argument(arguments, "--cloud-provider", value,
                                                     sizeof(value)) &&
                            value[0];
        const bool is_found[] = {
                strcmp(found, client_ca) != 0,
                !strcmp(text_at(below(config, "rotateCertificates")), "true"),
                !strcmp(text_at(below(config, "serverTLSBootstrap")), "true"),
                has_provider,
                !below(config, "clusterDNS"),
        };
        const char *const texts[] = {
                NULL,
                "rotateCertificates is true, but k3s does not authorize kubelet to renew its "
                "certificate: its requests stay pending. Set it to false; "
                "node-bootstrap-refresh.timer renews the certificate",
                "serverTLSBootstrap is true, so kubelet does not use the serving certificate of "
                "the join, and its own request stays pending. Remove it",
                "kubelet has --cloud-provider, so the Node keeps a taint until a cloud controller "
                "removes it",
                "clusterDNS is missing, so pods do not find the cluster's services. k3s' default "
                "is 10.43.0.10",
        };

        ret[0] = '\0';
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
                if (!is_found[i] || n-- > 0)
                        continue;
                if (texts[i])
                        snprintf(ret, size, "%s", texts[i]);
                else
                        snprintf(ret, size,
                                 "authentication.x509.clientCAFile is '%s', but '%s' has the CA of "
                                 "the API server's client certificate: logs and exec fail",
                                 found, client_ca);
                return;
        }
}
