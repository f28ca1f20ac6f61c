/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/commands/handout.h"
#include "base/macro.h"
#include "codec/json.h"
#include "kube/token.h"

#define TOKEN_CREDENTIAL "node-bootstrap.token"
#define CONFIG_CREDENTIAL "node-bootstrap.config"
#define STORE "/etc/credstore"
#define TOKEN_PATH STORE "/" TOKEN_CREDENTIAL
#define ENCRYPTED_PATH STORE ".encrypted/" TOKEN_CREDENTIAL
#define CONFIG_PATH "/etc/node-bootstrap/config.yaml"
#define UNIT "node-bootstrap.service"
#define DROP_IN_FOLDER "/etc/systemd/system/" UNIT ".d"
#define DROP_IN "50-setup.conf" /* as `setup` names it, so that `reset --setup` removes it */

/* --- Parts --- */

/* Appends strings up to NULL. nb_buffer_printf() would leave the token in freed memory. */
__attribute__((sentinel)) static void put(struct nb_buffer *ret, ...) {
        va_list strings;
        const char *string;

        va_start(strings, ret);
        while ((string = va_arg(strings, const char *)))
                nb_buffer_append_string(ret, string);
        va_end(strings);
}

/* A word for a POSIX shell. Brackets, as around an IPv6 address, are a pattern there. */
static void put_word(struct nb_buffer *ret, const char *text) {
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_./:=@%+,";
        bool is_plain = *text && !text[strspn(text, plain)];

        if (is_plain) {
                put(ret, text, NULL);
                return;
        }
        put(ret, "'", NULL);
        for (; *text; text++)
                if (*text == '\'')
                        put(ret, "'\\''", NULL);
                else
                        nb_buffer_append(ret, text, 1);
        put(ret, "'", NULL);
}

/* "KEY: VALUE" in YAML; the value is a JSON string, so it is a string in YAML whatever it looks
 * like. */
static void put_string(struct nb_buffer *ret, const char *key, const char *value) {
        put(ret, key, ": ", NULL);
        nb_json_quote(value, strlen(value), ret);
        put(ret, "\n", NULL);
}

static void put_pins(const struct nb_handout *handout, const char *key, struct nb_buffer *ret) {
        put(ret, key, ": [", NULL);
        for (unsigned i = 0; i < handout->n_pins; i++) {
                put(ret, i > 0 ? ", " : "", NULL);
                nb_json_quote(handout->pins[i], strlen(handout->pins[i]), ret);
        }
        put(ret, "]\n", NULL);
}

/* The settings without the token, each line behind `indent`. */
static void put_settings(const struct nb_handout *handout, const char *indent,
                         struct nb_buffer *ret) {
        put(ret, indent, "discovery:\n", indent, "  endpoints: [", NULL);
        for (unsigned i = 0; i < handout->n_endpoints; i++) {
                put(ret, i > 0 ? ", " : "", NULL);
                nb_json_quote(handout->endpoints[i], strlen(handout->endpoints[i]), ret);
        }
        put(ret, "]\n", indent, NULL);
        put_pins(handout, "  caCertHashes", ret);
        if (!handout->node[0])
                return;
        put(ret, indent, "node:\n", indent, NULL);
        put_string(ret, "  name", handout->node);
}

static void put_token_setting(const struct nb_handout *handout, const char *indent,
                              struct nb_buffer *ret) {
        put(ret, indent, "bootstrap:\n", indent, NULL);
        put_string(ret, "  token", handout->token);
}

/* A settings document without the token. */
static void put_document(const struct nb_handout *handout, const char *indent,
                         struct nb_buffer *ret) {
        put(ret, indent, "apiVersion: node-bootstrap/v1\n", NULL);
        put(ret, indent, "kind: NodeBootstrap\n", NULL);
        put_settings(handout, indent, ret);
}

/* --- Documents --- */

static void format_config(const struct nb_handout *handout, struct nb_buffer *ret) {
        put_document(handout, "", ret);
        put_token_setting(handout, "", ret);
}

static void format_user_data(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, "#cloud-config\nnode_bootstrap:\n", NULL);
        put_settings(handout, "  ", ret);
        put_token_setting(handout, "  ", ret);
}

/* v1beta2 was removed in 1.27, and v1beta4 came with 1.31; the keys below are the same in all. */
static void format_join_configuration(const struct nb_handout *handout, struct nb_buffer *ret) {
        unsigned minor = handout->kubernetes_minor;
        const char *version = minor == 0 || minor >= 31 ? "v1beta4"
                              : minor >= 22             ? "v1beta3"
                                                        : "v1beta2";

        put(ret, "apiVersion: kubeadm.k8s.io/", version, "\n", NULL);
        put(ret, "kind: JoinConfiguration\ndiscovery:\n  bootstrapToken:\n", NULL);
        put_string(ret, "    token", handout->token);
        put_string(ret, "    apiServerEndpoint", handout->endpoints[0]);
        put_pins(handout, "    caCertHashes", ret);
        if (!handout->node[0])
                return;
        put(ret, "nodeRegistration:\n", NULL);
        put_string(ret, "  name", handout->node);
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

static void format_butane(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret,
            "variant: fcos\nversion: 1.4.0\n"
            "storage:\n"
            "  directories:\n    - path: " STORE "\n      mode: 0700\n"
            "  files:\n"
            "    - path: " TOKEN_PATH "\n      mode: 0600\n      contents:\n        inline: |\n"
            "          ",
            handout->token,
            "\n"
            "    - path: " CONFIG_PATH "\n      mode: 0644\n      contents:\n        inline: |\n",
            NULL);
        put_document(handout, "          ", ret);
        put(ret, "systemd:\n  units:\n    - name: " UNIT "\n      enabled: true\n", NULL);
}

/* --- Ignition --- */

/* Everything but the unreserved characters of RFC 3986 is escaped. */
static void put_data_url(const char *text, struct nb_buffer *ret) {
        static const char unreserved[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                         "0123456789-._~";

        put(ret, "data:,", NULL);
        for (; *text; text++)
                if (strchr(unreserved, *text))
                        nb_buffer_append(ret, text, 1);
                else
                        nb_buffer_printf(ret, "%%%02X", (unsigned char)*text);
}

static void put_ignition_file(struct nb_json_writer *writer, const char *path, int64_t mode,
                              const char *text) {
        _cleanup_(nb_buffer_wipe) struct nb_buffer url = NB_BUFFER_INIT(NB_HANDOUT_MAX);

        put_data_url(text, &url);
        nb_json_open(writer, NULL, '{');
        nb_json_put_string(writer, "path", path);
        nb_json_put_integer(writer, "mode", mode);
        nb_json_open(writer, "contents", '{');
        nb_json_put_string(writer, "source", url.data);
        nb_json_close(writer);
        nb_json_close(writer);
        if (url.error < 0)
                writer->buffer->error = url.error;
}

static void format_ignition(const struct nb_handout *handout, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_wipe) struct nb_buffer document = NB_BUFFER_INIT(NB_HANDOUT_MAX);
        struct nb_json_writer writer = { .buffer = ret, .is_indented = true };
        char token[NB_TOKEN_LEN + 2];

        put_document(handout, "", &document);
        snprintf(token, sizeof(token), "%s\n", handout->token);
        nb_json_open(&writer, NULL, '{');
        nb_json_open(&writer, "ignition", '{');
        nb_json_put_string(&writer, "version", "3.3.0");
        nb_json_close(&writer);
        nb_json_open(&writer, "storage", '{');
        nb_json_open(&writer, "directories", '[');
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "path", STORE);
        nb_json_put_integer(&writer, "mode", 0700);
        nb_json_close(&writer);
        nb_json_close(&writer);
        nb_json_open(&writer, "files", '[');
        put_ignition_file(&writer, TOKEN_PATH, 0600, token);
        put_ignition_file(&writer, CONFIG_PATH, 0644, document.data ? document.data : "");
        nb_json_close(&writer);
        nb_json_close(&writer);
        nb_json_open(&writer, "systemd", '{');
        nb_json_open(&writer, "units", '[');
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "name", UNIT);
        nb_json_put_boolean(&writer, "enabled", true);
        (void)nb_json_finish(&writer);
        explicit_bzero(token, sizeof(token));
        if (document.error < 0)
                ret->error = document.error;
}

/* --- Command lines and scripts --- */

/* As kubeadm prints it, with the blank at the end. It accepts one endpoint. */
static void format_kubeadm(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, "kubeadm join ", NULL);
        put_word(ret, handout->endpoints[0]);
        put(ret, " --token ", handout->token, " ", NULL);
        for (unsigned i = 0; i < handout->n_pins; i++)
                put(ret, "--discovery-token-ca-cert-hash ", handout->pins[i], " ", NULL);
        if (handout->node[0])
                put(ret, "--node-name ", handout->node, " ", NULL);
        put(ret, "\n", NULL);
}

/* Here-documents keep the token out of the arguments of all processes. The delimiter is quoted, so
 * that the shell does not change the text, and no line of the text equals it. */
static void put_here_document(const struct nb_handout *handout, struct nb_buffer *ret) {
        put_document(handout, "", ret);
        put(ret, "END\n", NULL);
}

static void format_setup(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret, "node-bootstrap setup --token-file=-", NULL);
        for (unsigned i = 0; i < handout->n_endpoints; i++) {
                put(ret, " --endpoint=", NULL);
                put_word(ret, handout->endpoints[i]);
        }
        for (unsigned i = 0; i < handout->n_pins; i++)
                put(ret, " --ca-cert-hash=", handout->pins[i], NULL);
        if (handout->node[0])
                put(ret, " --node-name=", handout->node, NULL);
        put(ret, " <<'END'\n", handout->token, "\nEND\n", NULL);
}

/* The files of `node-bootstrap setup`. Before systemd 254, LoadCredential= in the unit does not
 * search credstore.encrypted; the drop-in works with any version. */
static void format_systemd_creds(const struct nb_handout *handout, struct nb_buffer *ret) {
        put(ret,
            "#!/bin/sh\n"
            "# Run it as root on the machine, whose TPM or host key encrypts the token.\n"
            "set -eu\n"
            "umask 022\n"
            "mkdir -p " DROP_IN_FOLDER " /etc/node-bootstrap\n"
            "mkdir -p -m 0700 " STORE ".encrypted\n"
            "systemd-creds encrypt --name=" TOKEN_CREDENTIAL " - " ENCRYPTED_PATH " <<'END'\n",
            handout->token,
            "\nEND\n"
            "cat >" DROP_IN_FOLDER "/" DROP_IN " <<'END'\n"
            "[Service]\n"
            "LoadCredentialEncrypted=" TOKEN_CREDENTIAL ":" ENCRYPTED_PATH "\n"
            "END\n"
            "cat >" CONFIG_PATH " <<'END'\n",
            NULL);
        put_here_document(handout, ret);
        put(ret, "systemctl daemon-reload\nsystemctl enable --now --no-block " UNIT "\n", NULL);
}

/* Token and settings as the descriptors 3 and 4, so that neither is on a command line or in a file
 * of its own. */
static void put_descriptors(const struct nb_handout *handout, const char *comment,
                            struct nb_buffer *ret) {
        put(ret, "#!/bin/sh\n", comment, "set -eu\nexec 3<<'END' 4<<'END'\n", handout->token,
            "\nEND\n", NULL);
        put_here_document(handout, ret);
}

static void format_qemu(const struct nb_handout *handout, struct nb_buffer *ret) {
        put_descriptors(handout, "# Arguments: the other options of QEMU.\n", ret);
        put(ret,
            "exec qemu-system-x86_64 \\\n"
            "        -fw_cfg name=opt/io.systemd.credentials/" TOKEN_CREDENTIAL
            ",file=/dev/fd/3 \\\n"
            "        -fw_cfg name=opt/io.systemd.credentials/" CONFIG_CREDENTIAL
            ",file=/dev/fd/4 \"$@\"\n",
            NULL);
}

static void format_nspawn(const struct nb_handout *handout, struct nb_buffer *ret) {
        put_descriptors(handout, "# Arguments: the other options of systemd-nspawn.\n", ret);
        put(ret,
            "exec systemd-nspawn \\\n"
            "        --load-credential=" TOKEN_CREDENTIAL ":/dev/fd/3 \\\n"
            "        --load-credential=" CONFIG_CREDENTIAL ":/dev/fd/4 \"$@\"\n",
            NULL);
}

const struct nb_handout_form nb_handout_forms[] = {
        { "kubeadm", "line of kubeadm join, also for `node-bootstrap setup -`", "kubeadm", true,
          format_kubeadm },
        { "setup", "command for the machine, with the token on its standard input", "sh", false,
          format_setup },
        { "config", "settings with the token, for `node-bootstrap setup --config`", "config.yaml",
          false, format_config },
        { "join-configuration", "JoinConfiguration of kubeadm", "join.yaml", true,
          format_join_configuration },
        { "cloud-config", "user data for cloud-init, which writes token and settings",
          "cloud-config.yaml", false, format_cloud_config },
        { "user-data", "user data that node-bootstrap itself reads", "user-data", false,
          format_user_data },
        { "ignition", "Ignition config", "ign", false, format_ignition },
        { "butane", "Butane config", "bu", false, format_butane },
        { "credential", "token alone, the credential " TOKEN_CREDENTIAL, "token", false,
          format_credential },
        { "systemd-creds", "script for the machine, which encrypts the token", "creds.sh", false,
          format_systemd_creds },
        { "qemu", "script that starts QEMU with credentials", "qemu.sh", false, format_qemu },
        { "nspawn", "script that starts systemd-nspawn with credentials", "nspawn.sh", false,
          format_nspawn },
        { NULL },
};

const struct nb_handout_form *nb_handout_find(const char *name) {
        const struct nb_handout_form *form = nb_handout_forms;

        while (form->name && strcmp(form->name, name) != 0)
                form++;
        return form->name ? form : NULL;
}

int nb_handout_format(const struct nb_handout_form *form, const struct nb_handout *handout,
                      struct nb_buffer *ret) {
        assert(!ret->data && ret->max == NB_HANDOUT_MAX);
        assert(nb_token_verify(handout->token, strlen(handout->token)) == 0);
        assert(handout->n_endpoints > 0 && handout->n_pins > 0);
        ret->data = malloc(NB_HANDOUT_MAX + 1);
        if (!ret->data)
                return -ENOMEM;
        ret->allocated = NB_HANDOUT_MAX + 1;
        form->format(handout, ret);
        return ret->error;
}
