/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/commands/admin_commands.h"
#include "admin/commands/cluster_info_command.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "kube/jws.h"
#include "kube/pin.h"
#include "system/clock.h"

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

static bool has_all(const struct nb_certificates *certificates, const struct nb_certificates *of) {
        size_t n = 0;

        for (size_t i = 0; i < nb_certificates_count(of); i++)
                for (size_t j = 0; j < nb_certificates_count(certificates); j++)
                        if (nb_digest_is_equal(nb_certificate_pin(certificates, j),
                                               nb_certificate_pin(of, i))) {
                                n++;
                                break;
                        }
        return n == nb_certificates_count(of);
}

/* Those of cluster-info. */
static int parse_ca(const struct nb_cluster *cluster, struct nb_certificates **ret,
                    struct nb_failure *f) {
        int r = nb_certificates_parse(cluster->ca, cluster->ca_len, false, ret);

        return r < 0 ? nb_failure_set(f, NB_CLUSTER_INFO_UNACCEPTABLE, r,
                                      "cluster-info: expected CA certificates, found %s",
                                      nb_certificates_reason(r))
                     : 0;
}

int nb_publication_compare_ca(const struct nb_cluster *published, const struct nb_cluster *own,
                              struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *a = NULL, *b = NULL;
        int r = parse_ca(published, &a, f);

        if (r < 0)
                return r;
        r = nb_certificates_parse(own->ca, own->ca_len, false, &b);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r >= 0 && has_all(a, b) && has_all(b, a);
}

/* --- show --- */

static void print_ca(const struct nb_certificates *certificates, size_t i) {
        char subject[NB_SUBJECT_SIZE], pin[NB_PIN_TEXT_SIZE];
        char not_before[NB_RFC3339_SIZE], not_after[NB_RFC3339_SIZE];

        nb_certificate_subject(certificates, i, subject);
        nb_pin_format(nb_certificate_pin(certificates, i), pin);
        nb_time_format(nb_certificate_not_before(certificates, i), not_before);
        nb_time_format(nb_certificate_not_after(certificates, i), not_after);
        printf("CA: %s\n    %s\n    valid from %s to %s\n", subject, pin, not_before, not_after);
}

int nb_publication_show(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_json_done) struct nb_json info = { 0 };
        const char *separator = "";
        char server[NB_URL_MAX], id[64];
        int r = nb_publication_read(admin, &info, &cluster, f);

        if (r >= 0)
                r = parse_ca(&cluster, &certificates, f);
        if (r < 0)
                return r;
        nb_url_format(&cluster.server, server);
        printf("Server: %s\n", server);
        for (size_t i = 0; i < nb_certificates_count(certificates); i++)
                print_ca(certificates, i);
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
