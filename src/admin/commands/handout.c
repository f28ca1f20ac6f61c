/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/commands/handout.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"

#define DOCUMENT_MAX ((size_t)64 * 1024)
#define TOKEN_PATH "/etc/credstore/node-bootstrap.token"
#define CONFIG_PATH "/etc/node-bootstrap/config.yaml"
#define UNIT "node-bootstrap.service"

struct nb_handout_form {
        const char *name;
        /* `document` has the settings without the token. */
        void (*print)(const struct nb_handout *handout, const char *document, FILE *out);
        const char *indent; /* of the document */
};

static void format_document(const struct nb_handout *handout, const char *indent,
                            struct nb_buffer *ret) {
        nb_buffer_printf(ret,
                         "%1$sapiVersion: node-bootstrap/v1\n"
                         "%1$skind: NodeBootstrap\n"
                         "%1$sdiscovery:\n"
                         "%1$s  endpoints: [\"%2$s\"]\n"
                         "%1$s  caCertHashes: [",
                         indent, handout->endpoint);
        for (unsigned i = 0; i < handout->n_pins; i++)
                nb_buffer_printf(ret, "%s\"%s\"", i > 0 ? ", " : "", handout->pins[i]);
        nb_buffer_append_string(ret, "]\n");
        if (handout->node[0])
                nb_buffer_printf(ret, "%1$snode:\n%1$s  name: \"%2$s\"\n", indent, handout->node);
        if (handout->proof_key)
                nb_buffer_printf(ret, "%1$sproof:\n%1$s  key: \"%2$s\"\n", indent,
                                 handout->proof_key);
}

/* Endpoints, pins, names and the key have no character that a shell, YAML or JSON interprets within
 * quotes. For a shell, the brackets around an IPv6 address are a pattern. */
static void print_options(const struct nb_handout *handout, const char *endpoint_option,
                          const char *pin_option, const char *node_option, FILE *out) {
        const char *quote = handout->endpoint[0] == '[' ? "'" : "";

        fprintf(out, "%s%s%s%s", endpoint_option, quote, handout->endpoint, quote);
        for (unsigned i = 0; i < handout->n_pins; i++)
                fprintf(out, "%s%s", pin_option, handout->pins[i]);
        if (handout->node[0])
                fprintf(out, "%s%s", node_option, handout->node);
}

static void print_kubeadm(const struct nb_handout *handout, _unused_ const char *document,
                          FILE *out) {
        print_options(handout, "kubeadm join ", " --discovery-token-ca-cert-hash ", " --node-name ",
                      out);
        fprintf(out, " --token %s\n", handout->token);
}

/* The here-document keeps the token out of the arguments of all processes. */
static void print_setup(const struct nb_handout *handout, _unused_ const char *document,
                        FILE *out) {
        print_options(handout, "node-bootstrap setup --token-file=- --endpoint=",
                      " --ca-cert-hash=", " --node-name=", out);
        fprintf(out, " <<'END'\n%s\nEND\n", handout->token);
}

static void print_config(const struct nb_handout *handout, const char *document, FILE *out) {
        fprintf(out, "%sbootstrap:\n  token: \"%s\"\n", document, handout->token);
}

/* cloud-init's runcmd would run after multi-user.target, which waits for kubelet, and so after the
 * join; bootcmd runs before, and the service waits for the files. `document` is already indented.
 *
 * With a cluster, a Secret that contains this: the contract of Cluster API for bootstrap data, and
 * `format` as its provider for kubeadm has it. Without a namespace: that of the Cluster is the
 * caller's to choose. */
static void print_cloud_config(const struct nb_handout *handout, const char *document, FILE *out) {
        if (handout->cluster)
                fprintf(out,
                        "apiVersion: v1\nkind: Secret\nmetadata:\n"
                        "  name: \"%1$s-node-bootstrap\"\n"
                        "  labels: {cluster.x-k8s.io/cluster-name: \"%1$s\"}\n"
                        "type: cluster.x-k8s.io/secret\nstringData:\n"
                        "  format: cloud-config\n  value: |\n",
                        handout->cluster);
        fprintf(out,
                "%1$s#cloud-config\n%1$swrite_files:\n"
                "%1$s  - path: " TOKEN_PATH "\n%1$s    permissions: \"0600\"\n"
                "%1$s    content: |\n%1$s      %2$s\n"
                "%1$s  - path: " CONFIG_PATH "\n%1$s    permissions: \"0644\"\n"
                "%1$s    content: |\n%3$s"
                "%1$sbootcmd:\n%1$s  - [cloud-init-per, once, node-bootstrap, systemctl, enable, "
                "--now, --no-block, " UNIT "]\n",
                handout->cluster ? "    " : "", handout->token, document);
}

/* The modes are 0700, 0600 and 0644. A data URL has everything but the unreserved characters of RFC
 * 3986 escaped. */
static void print_ignition(const struct nb_handout *handout, const char *document, FILE *out) {
        fprintf(out,
                "{\n"
                "  \"ignition\": {\"version\": \"3.3.0\"},\n"
                "  \"storage\": {\n"
                "    \"directories\": [{\"path\": \"/etc/credstore\", \"mode\": 448}],\n"
                "    \"files\": [\n"
                "      {\"path\": \"" TOKEN_PATH "\", \"mode\": 384,\n"
                "       \"contents\": {\"source\": \"data:,%s%%0A\"}},\n"
                "      {\"path\": \"" CONFIG_PATH "\", \"mode\": 420,\n"
                "       \"contents\": {\"source\": \"data:,",
                handout->token);
        for (; *document; document++)
                fprintf(out,
                        strchr(NB_LOWER NB_UPPER NB_DIGITS "-._~", *document) ? "%c" : "%%%02X",
                        *document);
        fprintf(out, "\"}}\n"
                     "    ]\n"
                     "  },\n"
                     "  \"systemd\": {\"units\": [{\"name\": \"" UNIT "\", \"enabled\": true}]}\n"
                     "}\n");
}

static void print_credential(const struct nb_handout *handout, _unused_ const char *document,
                             FILE *out) {
        fprintf(out, "%s%s%s\n", handout->is_listed ? handout->node : "",
                handout->is_listed ? " " : "", handout->token);
}

bool nb_handout_is_document(const struct nb_handout_form *form) {
        return form->print != print_kubeadm && form->print != print_setup &&
               form->print != print_credential;
}

const struct nb_handout_form *nb_handout_find(const char *name) {
        static const struct nb_handout_form forms[] = {
                { "kubeadm", print_kubeadm, "" },
                { "setup", print_setup, "" },
                { "config", print_config, "" },
                { "cloud-config", print_cloud_config, "      " },
                { "ignition", print_ignition, "" },
                { NB_HANDOUT_SECRET, print_cloud_config, "          " },
                { NB_HANDOUT_TOKEN, print_credential, "" },
        };

        for (size_t i = 0; i < N_ELEMENTS(forms); i++)
                if (!strcmp(forms[i].name, name))
                        return &forms[i];
        return NULL;
}

int nb_handout_print(const struct nb_handout_form *form, const struct nb_handout *handout,
                     FILE *out) {
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(DOCUMENT_MAX);

        format_document(handout, form->indent, &document);
        if (document.error < 0)
                return document.error;
        form->print(handout, document.data, out);
        return nb_stream_flush(out);
}
