/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/cluster_info_command.h"
#include "base/macro.h"
#include "codec/json.h"
#include "crypto/certificate.h"
#include "kube/jws.h"
#include "kube/pin.h"
#include "kube/token.h"
#include "system/clock.h"

#define OUTPUT_MAX ((size_t)4 * 1024 * 1024)

#define PLACE_OPTIONS(place) \
        { "kubeconfig", "FILE", "use this kubeconfig", .ret_value = &(place).kubeconfig }, { \
                "context", "NAME", "use this context of the kubeconfig", \
                        .ret_value = &(place).context \
        }

/* --- publish --- */

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
                PLACE_OPTIONS(place),
                { "server", "URL", "name this server in cluster-info instead of the kubeconfig's",
                  .ret_value = &server_text },
                { "dry-run", NULL, "only show the changes", .ret_switch = &publication.is_dry_run },
                { "force", NULL, "replace a cluster-info with another CA or server",
                  .ret_switch = &publication.is_forced },
                { "auto-approve", NULL,
                  "let kube-controller-manager approve any node with a token of kubeadm's group",
                  .ret_switch = &publication.is_auto_approved },
                { NULL },
        };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        struct nb_url server;
        int r = nb_options_read(options, rows, f);

        if (r >= 0 && server_text) {
                r = read_server(server_text, &server, f);
                publication.server = &server;
        }
        if (r < 0)
                return r;
        r = nb_admin_connect(&place, &admin, f);
        return r < 0 ? r : nb_publication_apply(&admin, &publication, f);
}

/* --- show --- */

struct shown {
        char server[NB_URL_MAX];
        struct nb_certificates *ca;
        struct nb_json *json; /* the ConfigMap */
};

struct shown_ca {
        char subject[NB_SUBJECT_SIZE];
        char pin[NB_PIN_TEXT_SIZE];
        char not_before[NB_RFC3339_SIZE], not_after[NB_RFC3339_SIZE];
};

static void read_ca(const struct nb_certificates *certificates, size_t i, struct shown_ca *ret) {
        nb_certificate_subject(certificates, i, ret->subject);
        nb_pin_format(nb_certificate_pin(certificates, i), ret->pin);
        nb_time_format(nb_certificate_not_before(certificates, i), ret->not_before);
        nb_time_format(nb_certificate_not_after(certificates, i), ret->not_after);
}

/* The ID of the token that follows `key` among those with a signature; NULL after the last one. */
static const char *next_token(const struct shown *shown, const char **key) {
        while ((*key = nb_json_next_key(shown->json, "data", *key)))
                if (!strncmp(*key, NB_SIGNATURE_PREFIX, strlen(NB_SIGNATURE_PREFIX)))
                        return *key + strlen(NB_SIGNATURE_PREFIX);
        return NULL;
}

static void format_text(const struct shown *shown, struct nb_buffer *ret) {
        unsigned n = 0;

        nb_buffer_printf(ret, "Server: %s\n", shown->server);
        for (size_t i = 0; i < nb_certificates_count(shown->ca); i++) {
                struct shown_ca ca;

                read_ca(shown->ca, i, &ca);
                nb_buffer_printf(ret, "CA: %s\n    %s\n    valid from %s to %s\n", ca.subject,
                                 ca.pin, ca.not_before, ca.not_after);
        }
        nb_buffer_append_string(ret, "Signed with tokens:");
        for (const char *key = NULL, *id; (id = next_token(shown, &key)); n++)
                nb_buffer_printf(ret, "%s %s", n > 0 ? "," : "", id);
        nb_buffer_append_string(ret, n > 0 ? "\n" : " none\n");
}

static void format_json(const struct shown *shown, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret, .is_indented = true };

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "server", shown->server);
        nb_json_open(&writer, "certificateAuthorities", '[');
        for (size_t i = 0; i < nb_certificates_count(shown->ca); i++) {
                struct shown_ca ca;

                read_ca(shown->ca, i, &ca);
                nb_json_open(&writer, NULL, '{');
                nb_json_put_string(&writer, "subject", ca.subject);
                nb_json_put_string(&writer, "pin", ca.pin);
                nb_json_put_string(&writer, "notBefore", ca.not_before);
                nb_json_put_string(&writer, "notAfter", ca.not_after);
                nb_json_close(&writer);
        }
        nb_json_close(&writer);
        nb_json_open(&writer, "signedWithTokens", '[');
        for (const char *key = NULL, *id; (id = next_token(shown, &key));)
                nb_json_put_string(&writer, NULL, id);
        (void)nb_json_finish(&writer);
}

static void put_yaml(const char *key, const char *value, struct nb_buffer *ret) {
        nb_buffer_append_string(ret, key);
        nb_json_quote(value, strlen(value), ret);
        nb_buffer_append_string(ret, "\n");
}

static void format_yaml(const struct shown *shown, struct nb_buffer *ret) {
        unsigned n = 0;

        put_yaml("server: ", shown->server, ret);
        nb_buffer_append_string(ret, "certificateAuthorities:\n");
        for (size_t i = 0; i < nb_certificates_count(shown->ca); i++) {
                struct shown_ca ca;

                read_ca(shown->ca, i, &ca);
                put_yaml("- subject: ", ca.subject, ret);
                put_yaml("  pin: ", ca.pin, ret);
                put_yaml("  notBefore: ", ca.not_before, ret);
                put_yaml("  notAfter: ", ca.not_after, ret);
        }
        nb_buffer_append_string(ret, "signedWithTokens:");
        for (const char *key = NULL, *id; (id = next_token(shown, &key)); n++)
                put_yaml(n > 0 ? "- " : "\n- ", id, ret);
        nb_buffer_append_string(ret, n > 0 ? "" : " []\n");
}

static const struct form {
        const char *name;
        void (*format)(const struct shown *shown, struct nb_buffer *ret);
} forms[] = { { "text", format_text }, { "json", format_json }, { "yaml", format_yaml } };

static const struct form *find_form(const char *name) {
        for (size_t i = 0; i < N_ELEMENTS(forms); i++)
                if (!strcmp(name, forms[i].name))
                        return &forms[i];
        return NULL;
}

static int read_shown(struct nb_admin *admin, struct nb_json *ret_json,
                      struct nb_cluster *ret_cluster, struct nb_failure *f) {
        static const char what[] = "reading the ConfigMap kube-public/cluster-info";
        const char *kubeconfig;
        int r = nb_admin_get(admin, what, NB_CLUSTER_INFO_PATH, ret_json, f);

        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                      "%s: it does not exist; `node-bootstrap-admin cluster-info "
                                      "publish` creates it",
                                      what);
        kubeconfig = nb_json_string(ret_json, "data.kubeconfig");
        if (!kubeconfig)
                nb_json_refuse(ret_json, "data.kubeconfig", "a string", NULL);
        if (ret_json->r < 0)
                return ret_json->r;
        return nb_publication_parse(kubeconfig, ret_cluster, f);
}

static int show(struct nb_options *options, struct nb_failure *f) {
        struct nb_admin_place place = { 0 };
        const char *name = "text";
        const struct nb_option rows[] = {
                PLACE_OPTIONS(place),
                { "output", "FORMAT", "text, json or yaml; also -o", .ret_value = &name },
                { "o", "FORMAT", .ret_value = &name },
                { NULL },
        };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(OUTPUT_MAX);
        _cleanup_(nb_certificates_freep) struct nb_certificates *certificates = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct shown shown = { .json = &json };
        const struct form *form;
        int r = nb_options_read(options, rows, f);

        if (r < 0)
                return r;
        form = find_form(name);
        if (!form)
                return nb_failure_set(f, NB_USAGE, 0, "--output: expected text, json or yaml");
        r = nb_admin_connect(&place, &admin, f);
        if (r >= 0)
                r = read_shown(&admin, &json, &cluster, f);
        if (r < 0)
                return r;
        r = nb_certificates_parse(cluster.ca, cluster.ca_len, false, &certificates);
        if (r < 0)
                return nb_failure_set(f, NB_CLUSTER_INFO_UNACCEPTABLE, r,
                                      "cluster-info: expected CA certificates, found %s",
                                      nb_certificates_reason(r));
        nb_url_format(&cluster.server, shown.server);
        shown.ca = certificates;
        form->format(&shown, &text);
        if (text.error < 0)
                return nb_failure_set_memory(f);
        fputs(text.data, stdout);
        return 0;
}

/* --- verify --- */

static int verify(struct nb_options *options, struct nb_failure *f) {
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = {
                PLACE_OPTIONS(place),
                { NULL },
        };
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        int r = nb_options_read(options, rows, f);

        if (r >= 0)
                r = nb_admin_connect(&place, &admin, f);
        return r < 0 ? r : nb_publication_verify(&admin, f);
}

/* --- The command --- */

static const struct {
        const char *name, *usage;
        int (*run)(struct nb_options *options, struct nb_failure *f);
} subcommands[] = {
        { "publish",
          "node-bootstrap-admin cluster-info publish [OPTION...]\n\n"
          "Creates what joining nodes need, and repairs it: cluster-info and the permissions of\n"
          "bootstrap tokens.\n",
          publish },
        { "show",
          "node-bootstrap-admin cluster-info show [OPTION...]\n\n"
          "Prints the server, the CAs and the signatures of cluster-info.\n",
          show },
        { "verify",
          "node-bootstrap-admin cluster-info verify [OPTION...]\n\n"
          "Reports what keeps machines from joining. Changes nothing. Exit status 1: something "
          "does.\n",
          verify },
};

int nb_admin_command_cluster_info(struct nb_options *options, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int r = nb_admin_next_command(options, f);

        if (r < 0)
                return r;
        for (size_t i = 0; r == NB_OPTIONS_WORD && i < N_ELEMENTS(subcommands); i++) {
                if (strcmp(options->value, subcommands[i].name) != 0)
                        continue;
                options->usage = subcommands[i].usage;
                return subcommands[i].run(options, f);
        }
        if (r == NB_OPTIONS_WORD)
                return nb_failure_set(f, NB_USAGE, 0, "expected publish, show or verify, found %s",
                                      nb_word_quote(options->value, quoted));
        return nb_failure_set(f, NB_USAGE, 0, "expected publish, show or verify");
}
