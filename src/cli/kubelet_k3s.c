/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
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
                               const char *client_ca, struct nb_buffer *ret) {
        const char *found = text_at(
                below(below(below(config, "authentication"), "x509"), "clientCAFile"));
        char provider[PATH_MAX];

        if (strcmp(found, client_ca) != 0)
                nb_buffer_printf(ret,
                                 "authentication.x509.clientCAFile is '%s', but '%s' has the CA of "
                                 "the API server's client certificate: logs and exec fail\n",
                                 found, client_ca);
        if (!strcmp(text_at(below(config, "rotateCertificates")), "true"))
                nb_buffer_append_string(
                        ret, "rotateCertificates is true, but k3s does not authorize kubelet to "
                             "renew its certificate: its requests stay pending. Set it to false; "
                             "node-bootstrap-refresh.timer renews the certificate\n");
        if (!strcmp(text_at(below(config, "serverTLSBootstrap")), "true"))
                nb_buffer_append_string(
                        ret, "serverTLSBootstrap is true, so kubelet does not use the serving "
                             "certificate of the join, and its own request stays pending. Remove "
                             "it\n");
        if (nb_kubelet_find_argument(arguments, "--cloud-provider", provider, sizeof(provider)) &&
            provider[0])
                nb_buffer_append_string(ret, "kubelet has --cloud-provider, so the Node keeps a "
                                             "taint until a cloud controller removes it\n");
        if (!below(config, "clusterDNS"))
                nb_buffer_append_string(ret, "clusterDNS is missing, so pods do not find the "
                                             "cluster's services. k3s' default is 10.43.0.10\n");
}
