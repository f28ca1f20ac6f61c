/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "codec/yaml.h"
#include "metadata/metadata_document.h"

#define LEASE_LINE_MAX 256

int nb_metadata_seed_name(const char *yaml, size_t len, const char *what, struct nb_secret *ret,
                          struct nb_failure *f) {
        static const char *const keys[] = { "local-hostname", "hostname" };
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        int r;

        r = nb_yaml_parse(what, yaml, len, NB_METADATA_MALFORMED, 1, &root, f);
        if (r < 0)
                return r;
        if (root && root->type != NB_YAML_MAPPING)
                return nb_failure_set(f, NB_METADATA_MALFORMED, 0,
                                      "%s: expected a mapping, found %s", what,
                                      nb_yaml_type_name(root));
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                const struct nb_yaml_node *node = nb_yaml_get(root, keys[i]);

                if (nb_yaml_is_null(node))
                        continue;
                if (node->type != NB_YAML_SCALAR)
                        return nb_failure_set(f, NB_METADATA_MALFORMED, 0,
                                              "%s:%u: %s: expected a name, found %s", what,
                                              node->line, keys[i], nb_yaml_type_name(node));
                return nb_secret_copy(ret, node->value, node->value_len) < 0
                               ? nb_failure_set_memory(f)
                               : 1;
        }
        return 0;
}

/* Whether the text is a unicast address that another machine can have. */
static bool is_server_address(const char *text) {
        struct in_addr address;
        uint32_t first;

        if (inet_pton(AF_INET, text, &address) != 1)
                return false;
        first = ntohl(address.s_addr) >> 24;
        return first != 0 && first != 127 && first < 224;
}

static bool parse_lease_line(const char *line, char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        int end = 0;

        if (sscanf(line, " SERVER_ADDRESS=%15[0-9.]%n", ret_address, &end) == 1)
                return !line[end];
        return sscanf(line, " option dhcp-server-identifier %15[0-9.]%n", ret_address, &end) == 1 &&
               line[end] == ';';
}

int nb_metadata_lease_server(const char *lease, size_t len,
                             char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        char line[LEASE_LINE_MAX], address[NB_LEASE_ADDRESS_SIZE];
        int r = -ENOENT;

        for (size_t start = 0, line_len; start < len; start += line_len + 1) {
                const char *newline = memchr(lease + start, '\n', len - start);

                line_len = newline ? (size_t)(newline - lease) - start : len - start;
                if (line_len >= sizeof(line))
                        continue;
                memcpy(line, lease + start, line_len);
                line[line_len] = '\0';
                if (parse_lease_line(line, address) && is_server_address(address)) {
                        memcpy(ret_address, address, strlen(address) + 1);
                        r = 0;
                }
        }
        return r;
}
