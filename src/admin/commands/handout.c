/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "admin/commands/handout.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube/token.h"

#define TOKEN_PATH "/etc/credstore/node-bootstrap.token"
#define CONFIG_PATH "/etc/node-bootstrap/config.yaml"
#define UNIT "node-bootstrap.service"

struct nb_handout_form {
        const char *name;
        void (*format)(const struct nb_handout *handout, struct nb_buffer *ret);
};

/* Appends strings up to NULL. nb_buffer_printf() would leave the token in freed memory. */
__attribute__((sentinel)) static void put(struct nb_buffer *ret, ...) {
        va_list strings;
        const char *string;

        va_start(strings, ret);
        while ((string = va_arg(strings, const char *)))
                nb_buffer_append_string(ret, string);
        va_end(strings);
}

/* An endpoint for a POSIX shell, where the brackets around an IPv6 address are a pattern.
 * Endpoints, pins and names have no other character that a shell, YAML or JSON interprets within
 * quotes. */
static void put_endpoint(const struct nb_handout *handout, struct nb_buffer *ret) {
        const char *quote = handout->endpoint[0] == '[' ? "'" : "";

        put(ret, quote, handout->endpoint, quote, NULL);
}

/* A settings document without the token, each line behind `indent`. */
static void put_document(const struct nb_handout *handout, const char *indent,
                         struct nb_buffer *ret) {
        put(ret, indent, "apiVersion: node-bootstrap/v1\n", indent, "kind: NodeBootstrap\n", indent,
            "discovery:\n", indent, "  endpoints: [\"", handout->endpoint, "\"]\n", indent,
            "  caCertHashes: [", NULL);
        for (unsigned i = 0; i < handout->n_pins; i++)
                put(ret, i > 0 ? ", \"" : "\"", handout->pins[i], "\"", NULL);
        put(ret, "]\n", NULL);
        if (handout->node[0])
                put(ret, indent, "node:\n", indent, "  name: \"", handout->node, "\"\n", NULL);
}

static void format_config(const struct nb_handout *handout, struct nb_buffer *ret) {
        put_document(handout, "", ret);
        put(ret, "bootstrap:\n  token: \"", handout->token, "\"\n", NULL);
}

static void format_credential(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, handout->token, "\n", NULL);
}

/* cloud-init's runcmd would run after multi-user.target, which waits for kubelet, and so after the
 * join; bootcmd runs before, and the service waits for the files. */
static void format_cloud_config(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret,
            "#cloud-config\nwrite_files:\n"
            "  - path: " TOKEN_PATH "\n    permissions: \"0600\"\n    content: |\n      ",
            handout->token,
            "\n"
            "  - path: " CONFIG_PATH "\n    permissions: \"0644\"\n    content: |\n",
            NULL);
        put_document(handout, "      ", ret);
        put(ret,
            "bootcmd:\n  - [cloud-init-per, once, node-bootstrap, systemctl, enable, --now, "
            "--no-block, " UNIT "]\n",
            NULL);
}

/* Everything but the unreserved characters of RFC 3986 is escaped. */
static void put_data_url(const char *text, struct nb_buffer *ret) {
        for (; *text; text++)
                if (strchr(NB_LOWER NB_UPPER NB_DIGITS "-._~", *text))
                        nb_buffer_append(ret, text, 1);
                else
                        nb_buffer_printf(ret, "%%%02X", (unsigned char)*text);
}

/* The modes are 0700, 0600 and 0644. */
static void format_ignition(const struct nb_handout *handout, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer document = NB_BUFFER_INIT(NB_HANDOUT_MAX);

        put_document(handout, "", &document);
        put(ret,
            "{\n"
            "  \"ignition\": {\"version\": \"3.3.0\"},\n"
            "  \"storage\": {\n"
            "    \"directories\": [{\"path\": \"/etc/credstore\", \"mode\": 448}],\n"
            "    \"files\": [\n"
            "      {\"path\": \"" TOKEN_PATH "\", \"mode\": 384,\n"
            "       \"contents\": {\"source\": \"data:,",
            handout->token,
            "%0A\"}},\n"
            "      {\"path\": \"" CONFIG_PATH "\", \"mode\": 420,\n"
            "       \"contents\": {\"source\": \"data:,",
            NULL);
        put_data_url(document.data ? document.data : "", ret);
        put(ret,
            "\"}}\n"
            "    ]\n"
            "  },\n"
            "  \"systemd\": {\"units\": [{\"name\": \"" UNIT "\", \"enabled\": true}]}\n"
            "}\n",
            NULL);
        if (document.error < 0)
                ret->error = document.error;
}

/* As kubeadm prints it, with the blank at the end. */
static void format_kubeadm(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, "kubeadm join ", NULL);
        put_endpoint(handout, ret);
        put(ret, " --token ", handout->token, " ", NULL);
        for (unsigned i = 0; i < handout->n_pins; i++)
                put(ret, "--discovery-token-ca-cert-hash ", handout->pins[i], " ", NULL);
        if (handout->node[0])
                put(ret, "--node-name ", handout->node, " ", NULL);
        put(ret, "\n", NULL);
}

/* The here-document keeps the token out of the arguments of all processes. */
static void format_setup(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, "node-bootstrap setup --token-file=- --endpoint=", NULL);
        put_endpoint(handout, ret);
        for (unsigned i = 0; i < handout->n_pins; i++)
                put(ret, " --ca-cert-hash=", handout->pins[i], NULL);
        if (handout->node[0])
                put(ret, " --node-name=", handout->node, NULL);
        put(ret, " <<'END'\n", handout->token, "\nEND\n", NULL);
}

const struct nb_handout_form *nb_handout_find(const char *name) {
        static const struct nb_handout_form forms[] = {
                { "kubeadm", format_kubeadm },   { "setup", format_setup },
                { "config", format_config },     { "cloud-config", format_cloud_config },
                { "ignition", format_ignition }, { NB_HANDOUT_TOKEN, format_credential },
        };

        for (size_t i = 0; i < N_ELEMENTS(forms); i++)
                if (!strcmp(forms[i].name, name))
                        return &forms[i];
        return NULL;
}

int nb_handout_format(const struct nb_handout_form *form, const struct nb_handout *handout,
                      struct nb_buffer *ret) {
        assert(!ret->data && ret->max == NB_HANDOUT_MAX);
        assert(handout->n_pins > 0 || form->format == format_credential);
        assert(nb_token_verify(handout->token, strlen(handout->token)) == 0);
        ret->data = malloc(NB_HANDOUT_MAX + 1);
        if (!ret->data)
                return -ENOMEM;
        ret->allocated = NB_HANDOUT_MAX + 1;
        form->format(handout, ret);
        return ret->error;
}
