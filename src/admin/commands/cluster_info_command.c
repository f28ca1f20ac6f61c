/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/commands/admin_commands.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "kube/pin.h"
#include "system/clock.h"

#define CA_MAX ((size_t)1024 * 1024)

bool nb_host_is_loopback(const char *host) {
        return !strcmp(host, "localhost") || !strcmp(host, "::1") || !strncmp(host, "127.", 4);
}

int nb_publication_read(struct nb_admin *admin, struct nb_json *ret_info,
                        struct nb_cluster *ret_cluster, struct nb_failure *f) {
        int r = nb_admin_get(admin, "reading the ConfigMap kube-public/cluster-info",
                             NB_CLUSTER_INFO_PATH, ret_info, f);
        const char *kubeconfig = r > 0 ? nb_json_string(ret_info, "data.kubeconfig") : NULL;

        if (r < 0 || ret_info->r < 0)
                return r < 0 ? r : ret_info->r;
        if (!kubeconfig)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "there is no ConfigMap kube-public/cluster-info with a "
                                      "kubeconfig, so no machine can join; `node-bootstrap-admin "
                                      "cluster-info publish` creates it");
        return nb_cluster_info_parse_cluster(kubeconfig, ret_cluster, f);
}

bool nb_publication_has_ca(const struct nb_cluster *published, const struct nb_cluster *own) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(CA_MAX);
        struct nb_failure ignored = { 0 };

        return nb_ca_renew(own->ca, own->ca_len, published->ca, published->ca_len,
                           NB_CLUSTER_INFO_UNACCEPTABLE, NB_ADMIN_WRONG_CLUSTER, &pem, NULL,
                           &ignored) == 0;
}

int nb_publication_show(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_json_done) struct nb_json info = { 0 };
        const char *separator = "";
        char server[NB_URL_MAX], subject[NB_SUBJECT_SIZE], pin[NB_PIN_TEXT_SIZE], id[64];
        char not_after[NB_RFC3339_SIZE];
        int r = nb_publication_read(admin, &info, &cluster, f);

        if (r < 0)
                return r;
        r = nb_certificates_parse(cluster.ca, cluster.ca_len, false, &certificates);
        if (r < 0)
                return nb_failure_set(f, NB_CLUSTER_INFO_UNACCEPTABLE, r,
                                      "cluster-info: expected CA certificates, found %s",
                                      nb_certificates_reason(r));
        nb_url_format(&cluster.server, server);
        printf("Server: %s\n", server);
        for (size_t i = 0; i < nb_certificates_count(certificates); i++) {
                nb_certificate_subject(certificates, i, subject);
                nb_pin_format(nb_certificate_pin(certificates, i), pin);
                nb_time_format(nb_certificate_not_after(certificates, i), not_after);
                printf("CA: %s\n    %s\n    valid until %s\n", subject, pin, not_after);
        }
        printf("Signed with tokens:");
        for (const char *key = NULL; (key = nb_json_next_key(&info, "data", key));) {
                if (strncmp(key, NB_SIGNATURE_PREFIX, strlen(NB_SIGNATURE_PREFIX)) != 0)
                        continue;
                NB_TEXT_COPY_LINE(id, key + strlen(NB_SIGNATURE_PREFIX));
                printf("%s %s", separator, id);
                separator = ",";
        }
        puts(separator[0] ? "" : " none");
        return 0;
}
