/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/commands/admin_commands.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/inventory.h"
#include "base/file.h"
#include "base/macro.h"
#include "crypto/attestation.h"
#include "settings/types.h"
#include "system/clock.h"
#include "system/sources.h"

#define INVENTORY_DEFAULT "/etc/node-bootstrap/inventory"
#define TEXT_MAX ((size_t)64 * 1024)

struct enroll {
        const char *node;
        const char *folder;
        const char *key_path; /* "-": standard input */
        const char *until;    /* as on the command line; NULL for none */
        bool is_forced;
        struct nb_secret key; /* it may be a private key by mistake */
        time_t end;           /* of `until`; 0 for none */
};

static int parse_until(struct enroll *enroll, struct nb_failure *f) {
        uint64_t ms;

        if (!enroll->until)
                return 0;
        if (nb_rfc3339_parse(enroll->until, &enroll->end) >= 0)
                return enroll->end > time(NULL)
                               ? 0
                               : nb_failure_set(f, NB_USAGE, 0,
                                                "'--until' must be in the future, found %s",
                                                enroll->until);
        if (nb_setting_duration_parse(enroll->until, false, &ms) < 0 || ms < 1000)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--until' must be a time such as 2026-12-01T00:00:00Z, or a "
                                      "duration such as 2h");
        enroll->end = time(NULL) + (time_t)(ms / 1000);
        return 0;
}

static int read_key(struct enroll *enroll, struct nb_failure *f) {
        int r;

        if (strcmp(enroll->key_path, "-") == 0)
                return nb_sources_read_stream(STDIN_FILENO, "standard input", TEXT_MAX,
                                              &enroll->key, f);
        r = nb_path_read(-1, enroll->key_path, TEXT_MAX, &enroll->key);
        return r < 0 ? nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m",
                                      enroll->key_path)
                     : 0;
}

/* No message quotes the text. */
static int verify_key(const struct enroll *enroll, struct nb_failure *f) {
        const char *text = enroll->key.data ? enroll->key.data : "";
        int r = nb_attestation_key_verify(text, enroll->key.len);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r >= 0)
                return 0;
        if (memmem(text, enroll->key.len, "PRIVATE KEY-----", strlen("PRIVATE KEY-----")))
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                                      "'%s': it is a private key, which must stay on its machine; "
                                      "`openssl pkey -pubout` prints the public key",
                                      enroll->key_path);
        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                              "'%s': %s; expected a public key as PEM: ECDSA of at least P-256, "
                              "Ed25519, or RSA of at least 2048 bits",
                              enroll->key_path,
                              r == -ENOTSUP ? "the key is too weak, or of another type"
                                            : "it is not one public key");
}

/* Reads the entry that exists. A different key may be an attacker's, or that of another machine of
 * the same name. */
static int read_old_entry(const struct enroll *enroll, int folder_fd,
                          struct nb_inventory_node *ret_old, struct nb_failure *f) {
        _cleanup_(nb_inventory_done) struct nb_inventory inventory = { .path = enroll->folder };
        int r;

        if (faccessat(folder_fd, enroll->node, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
                return nb_failure_set(f, NB_ADMIN_EXISTS, EEXIST,
                                      "'%s/%s' exists, and would be read instead of '%s.yaml'; "
                                      "rename it",
                                      enroll->folder, enroll->node, enroll->node);
        r = nb_inventory_find(&inventory, enroll->node, ret_old, f);
        if (r < 0 && enroll->is_forced)
                nb_failure_clear(f);
        else if (r < 0)
                return r;
        if (r <= 0)
                *ret_old = (struct nb_inventory_node){ 0 };
        if (enroll->is_forced || !ret_old->public_key[0] ||
            strcmp(ret_old->public_key, enroll->key.data) == 0)
                return 0;
        return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                              "node %s is enrolled with another public key in %s; --force replaces "
                              "it",
                              enroll->node, enroll->folder);
}

static void format_names(const struct nb_inventory_node *old, const char *key, bool is_address,
                         struct nb_buffer *text) {
        const char *separator = "[";
        struct in6_addr bytes;

        for (unsigned i = 0; i < old->n_names; i++) {
                const char *name = old->names[i];

                if ((inet_pton(AF_INET, name, &bytes) == 1 ||
                     inet_pton(AF_INET6, name, &bytes) == 1) != is_address)
                        continue;
                if (separator[0] == '[')
                        nb_buffer_printf(text, "%s: ", key);
                nb_buffer_printf(text, "%s\"%s\"", separator, name);
                separator = ", ";
        }
        if (separator[0] == ',')
                nb_buffer_append_string(text, "]\n");
}

/* What limits the node stays: names, and the time unless there is a new one. */
static void format_entry(const struct enroll *enroll, const struct nb_inventory_node *old,
                         struct nb_buffer *text) {
        time_t end = enroll->end != 0 ? enroll->end : old->until;
        char until[NB_RFC3339_SIZE];

        nb_time_format(end, until);
        if (end != 0)
                nb_buffer_printf(text, "until: %s\n", until);
        format_names(old, "addresses", true, text);
        format_names(old, "dnsNames", false, text);
        nb_buffer_append_string(text, "publicKey: |\n");
        for (const char *line = enroll->key.data; *line;) {
                size_t len = strcspn(line, "\n");

                nb_buffer_printf(text, "  %.*s\n", (int)len, line);
                line += len + (line[len] == '\n');
        }
}

static int write_entry(const struct enroll *enroll, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_closep) int fd = -1;
        char name[NB_NODE_NAME_MAX + sizeof(".yaml")];
        struct nb_inventory_node old = { 0 };
        int r;

        snprintf(name, sizeof(name), "%s.yaml", enroll->node);
        r = nb_path_make_folder(-1, enroll->folder, 0755, &fd);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, r, "'%s': %m", enroll->folder);
        r = read_old_entry(enroll, fd, &old, f);
        if (r < 0)
                return r;
        format_entry(enroll, &old, &text);
        if (text.error < 0)
                return nb_failure_set_memory(f);
        r = nb_file_write(fd, name, 0644, text.data, text.len);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, r, "'%s/%s': %m",
                                      enroll->folder, name);
        printf("%s/%s\n"
               "The controller and `approve` use it with --inventory=%s\n",
               enroll->folder, name, enroll->folder);
        return 0;
}

/* --- Command line --- */

static int read_words(struct nb_options *options, const struct nb_option *rows,
                      struct enroll *enroll, struct nb_failure *f) {
        char quoted[NB_WORD_QUOTED_SIZE];
        int row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row != NB_OPTIONS_END) {
                if (row != NB_OPTIONS_WORD)
                        nb_options_store(options, row);
                else if (enroll->node)
                        return nb_failure_set(f, NB_USAGE, 0, "unexpected argument %s",
                                              nb_word_quote(options->value, quoted));
                else
                        enroll->node = options->value;
        }
        return row < 0 ? row : 0;
}

static int verify_arguments(struct enroll *enroll, struct nb_failure *f) {
        char name[NB_NODE_NAME_MAX + 1], quoted[NB_WORD_QUOTED_SIZE];

        if (!enroll->node)
                return nb_failure_set(f, NB_USAGE, 0, "the name of a node is required");
        if (nb_node_name_parse(enroll->node, strlen(enroll->node), name) < 0 ||
            strcmp(enroll->node, name) != 0)
                return nb_failure_set(f, NB_USAGE, 0, "%s is not the name of a node",
                                      nb_word_quote(enroll->node, quoted));
        if (nb_token_verify(enroll->node, strlen(enroll->node)) == 0)
                return nb_failure_set(f, NB_USAGE, 0, "expected the name of a node, found a token");
        if (!enroll->key_path)
                return nb_failure_set(f, NB_USAGE, 0, "'--public-key' is required");
        return parse_until(enroll, f);
}

static void enroll_done(struct enroll *enroll) {
        nb_secret_done(&enroll->key);
}

int nb_admin_command_enroll(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(enroll_done) struct enroll enroll = { .folder = INVENTORY_DEFAULT,
                                                        .key = NB_SECRET_INIT };
        const struct nb_option rows[] = {
                { "public-key", "FILE", "the machine's public key as PEM; '-': standard input",
                  .ret_value = &enroll.key_path },
                { "until", "TIME", "the node may join until then, or for a duration such as 2h",
                  .ret_value = &enroll.until },
                { "inventory", "DIRECTORY", "write NODE.yaml here (default: " INVENTORY_DEFAULT ")",
                  .ret_value = &enroll.folder },
                { "force", NULL, "replace a different key", .ret_switch = &enroll.is_forced },
                { NULL },
        };
        int r;

        r = read_words(options, rows, &enroll, f);
        if (r < 0)
                return r;
        r = verify_arguments(&enroll, f);
        if (r < 0)
                return r;
        r = read_key(&enroll, f);
        if (r < 0)
                return r;
        r = verify_key(&enroll, f);
        return r < 0 ? r : write_entry(&enroll, f);
}
