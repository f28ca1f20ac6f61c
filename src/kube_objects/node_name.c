/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "codec/dns_name.h"
#include "kube_objects/node_name.h"

static bool is_space(char c) {
        return c == ' ' || (c >= '\t' && c <= '\r');
}

int nb_node_name_parse(const char *text, size_t len, char ret_name[static NB_NODE_NAME_MAX + 1]) {
        char name[NB_NODE_NAME_MAX + 1];

        while (len > 0 && is_space(text[len - 1]))
                len--;
        while (len > 0 && is_space(text[0])) {
                text++;
                len--;
        }
        if (len > NB_NODE_NAME_MAX)
                return -EINVAL;

        for (size_t i = 0; i < len; i++)
                name[i] = (text[i] >= 'A' && text[i] <= 'Z') ? (char)(text[i] - 'A' + 'a')
                                                             : text[i];
        name[len] = '\0';
        if (!nb_dns_name_is_valid(name, len, NB_NODE_NAME_MAX))
                return -EINVAL;

        memcpy(ret_name, name, len + 1);
        return 0;
}

int nb_node_name_choose(const char *configured, const char *host,
                        char ret_name[static NB_NODE_NAME_MAX + 1], bool *ret_is_override_needed,
                        struct nb_failure *f) {
        char by_host[NB_NODE_NAME_MAX + 1] = "";
        int r = nb_node_name_parse(host, strlen(host), by_host);

        if (!configured[0] && r < 0)
                return nb_failure_set(f, NB_NODE_NAME_INVALID, EINVAL,
                                      "the host name '%s' is not a node name; expected a DNS-1123 "
                                      "subdomain, or set node.name",
                                      host);
        *ret_is_override_needed = configured[0] && strcmp(configured, by_host) != 0;
        snprintf(ret_name, NB_NODE_NAME_MAX + 1, "%s", configured[0] ? configured : by_host);
        return 0;
}
