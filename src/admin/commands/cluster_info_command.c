/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/cluster_info_command.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "kube/pin.h"
#include "system/clock.h"

static int read_server(const char *text, struct nb_url *ret_url, struct nb_failure *f) {
        int r = !strncmp(text, "https://", 8) ? nb_url_parse(text, strlen(text), ret_url)
                                              : nb_endpoint_parse(text, strlen(text), ret_url);

        if (r < 0)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "--server: expected https://HOST[:PORT] or HOST[:PORT], "
                                      "found '%.100s'",
                                      text);
        return 0;
}

static int publish(struct nb_options *options, struct nb_failure *f) {
        struct nb_admin_place place = { 0 };
        struct nb_publication publication = { 0 };
        const char *server_text = NULL;
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(place),
                { "server", "URL", "name this server in cluster-info instead of the kubeconfig's",
                  .ret_value = &server_text },
                { "dry-run", NULL, "only show the changes", .ret_switch = &publication.is_dry_run },
                { "force", NULL, "replace a cluster-info that names another CA or server",
                  .ret_switch = &publication.is_forced },
                { "auto-approve", NULL,
                  "let kube-controller-manager approve every request with a token of kubeadm's "
                  "group",
                  .ret_switch = &publication.is_auto_approved },
                { NULL },
        };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        int r = nb_options_read(options, rows, f);

        if (r >= 0 && server_text)
                r = read_server(server_text, &publication.server, f);
        if (r >= 0)
                r = nb_admin_connect(&place, &admin, f);
        return r < 0 ? r : nb_publication_apply(&admin, &publication, f);
}

static void print_ca(const struct nb_certificates *certificates, size_t i) {
        char subject[NB_SUBJECT_SIZE], pin[NB_PIN_TEXT_SIZE];
        char not_before[NB_RFC3339_SIZE], not_after[NB_RFC3339_SIZE];

        nb_certificate_subject(certificates, i, subject);
        nb_pin_format(nb_certificate_pin(certificates, i), pin);
        nb_time_format(nb_certificate_not_before(certificates, i), not_before);
        nb_time_format(nb_certificate_not_after(certificates, i), not_after);
        printf("CA: %s\n    %s\n    valid from %s to %s\n", subject, pin, not_before, not_after);
}

static int print_cluster_info(struct nb_json *json, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        const char *kubeconfig = nb_json_string(json, "data.kubeconfig"), *separator = "";
        char server[NB_URL_MAX], id[64];
        int r;

        if (!kubeconfig)
                nb_json_refuse(json, "data.kubeconfig", "a string", NULL);
        if (json->r < 0)
                return json->r;
        r = nb_publication_parse(kubeconfig, &cluster, f);
        if (r < 0)
                return r;
        r = nb_certificates_parse(cluster.ca, cluster.ca_len, false, &certificates);
        if (r < 0)
                return nb_failure_set(f, NB_CLUSTER_INFO_UNACCEPTABLE, r,
                                      "cluster-info: expected CA certificates, found %s",
                                      nb_certificates_reason(r));
        nb_url_format(&cluster.server, server);
        printf("Server: %s\n", server);
        for (size_t i = 0; i < nb_certificates_count(certificates); i++)
                print_ca(certificates, i);
        printf("Signed with tokens:");
        for (const char *key = NULL; (key = nb_json_next_key(json, "data", key));) {
                if (strncmp(key, NB_SIGNATURE_PREFIX, strlen(NB_SIGNATURE_PREFIX)) != 0)
                        continue;
                NB_TEXT_COPY_LINE(id, key + strlen(NB_SIGNATURE_PREFIX));
                printf("%s %s", separator, id);
                separator = ",";
        }
        puts(separator[0] ? "" : " none");
        return 0;
}

static int show(struct nb_options *options, struct nb_failure *f) {
        static const char what[] = "reading the ConfigMap kube-public/cluster-info";
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = { NB_ADMIN_PLACE_OPTIONS(place), { NULL } };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_options_read(options, rows, f);

        if (r >= 0)
                r = nb_admin_connect(&place, &admin, f);
        if (r >= 0)
                r = nb_admin_get(&admin, what, NB_CLUSTER_INFO_PATH, &json, f);
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "%s: it does not exist; `node-bootstrap-admin cluster-info "
                                      "publish` creates it",
                                      what);
        return r < 0 ? r : print_cluster_info(&json, f);
}

static int verify(struct nb_options *options, struct nb_failure *f) {
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = { NB_ADMIN_PLACE_OPTIONS(place), { NULL } };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        int r = nb_options_read(options, rows, f);

        if (r >= 0)
                r = nb_admin_connect(&place, &admin, f);
        return r < 0 ? r : nb_publication_verify(&admin, f);
}

static const struct nb_admin_command commands[] = {
        { "publish",
          "node-bootstrap-admin cluster-info publish [OPTION...]\n\n"
          "Creates or repairs what joining nodes need: cluster-info and the permissions of\n"
          "bootstrap tokens.\n",
          publish },
        { "show",
          "node-bootstrap-admin cluster-info show [OPTION...]\n\n"
          "Prints the server, the CAs and the signatures of cluster-info.\n",
          show },
        { "verify",
          "node-bootstrap-admin cluster-info verify [OPTION...]\n\n"
          "Reports what keeps machines from joining, and changes nothing. Exit status 1: something "
          "does.\n",
          verify },
        { NULL },
};

int nb_admin_command_cluster_info(struct nb_options *options, struct nb_failure *f) {
        return nb_admin_run_command(options, commands, "publish, show or verify", f);
}
