/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/commands/admin_commands.h"
#include "base/file.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "os/sources.h"
#include "systemd/log.h"

int nb_admin_read_line(struct nb_options *options, const struct nb_option *rows, int max,
                       struct nb_failure *f) {
        char place[NB_OPTIONS_PLACE_SIZE];
        int n = 0, row;

        options->rows = rows;
        while ((row = nb_options_next(options, f)) >= 0 && row != NB_OPTIONS_END) {
                if (row == NB_OPTIONS_WORD && n == max)
                        return nb_failure_set(f, NB_USAGE, 0, "unexpected: %s",
                                              nb_options_place(options, place));
                if (row == NB_OPTIONS_WORD)
                        options->argv[n++] = options->argv[options->at];
                else if (rows[row].value && !strcmp(rows[row].value, "LIST") &&
                         *rows[row].ret_value)
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--%s' is used twice; separate its entries by "
                                              "commas",
                                              rows[row].name);
                else
                        nb_options_store(options, row);
        }
        return row < 0 ? row : n;
}

int nb_admin_refuse_word(const char *expected, const char *found, struct nb_failure *f) {
        return nb_failure_set(f, NB_USAGE, 0, "expected %s; found a word of %zu characters",
                              expected, nb_text_count(found, strlen(found)));
}

int nb_admin_read_file(const char *path, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        int r = !strcmp(path, "-")
                        ? nb_sources_read_stream(STDIN_FILENO, "standard input", max, ret, f)
                        : nb_path_read(-1, path, max, ret);

        return r >= 0 ? 0
                      : nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m",
                                       nb_text_shown(path));
}

int nb_admin_read_number(const char *option, const char *text, size_t *ret, struct nb_failure *f) {
        if (!text)
                return 0;
        if (!text[0] || strspn(text, NB_DIGITS) != strlen(text) || strlen(text) > 9)
                return nb_failure_set(f, NB_USAGE, 0, "expected '--%s' to be a number", option);
        *ret = (size_t)strtoul(text, NULL, 10);
        return 0;
}

int nb_admin_verify_node(const char *name, struct nb_failure *f) {
        char parsed[NB_NODE_NAME_MAX + 1];

        /* A token has the form of a DNS name. */
        if (nb_token_verify(name, strlen(name)) >= 0 ||
            nb_node_name_parse(name, strlen(name), parsed) < 0 || strcmp(name, parsed) != 0)
                return nb_admin_refuse_word("the name of a node, a DNS name in lower case", name,
                                            f);
        if (strlen(name) > NB_DNS_LABEL_MAX)
                nb_log(LOG_WARNING, NB_NONE,
                       "the node name has %zu characters: kubelet registers a Node only with at "
                       "most %d, unless its --node-labels set kubernetes.io/hostname",
                       strlen(name), NB_DNS_LABEL_MAX);
        return 0;
}

int nb_admin_write(struct nb_admin *admin, const char *method, const char *what, const char *path,
                   struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f) {
        int r = nb_admin_send(admin, method, what, path, body, ret_json, f);

        if (r != 404 && r != 409)
                return r;
        return nb_failure_set_http(f, NB_ADMIN_CONFLICT, r,
                                   "%s: it already exists, or somebody else has changed or deleted "
                                   "it",
                                   what);
}
