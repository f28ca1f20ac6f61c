/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "settings/node_ips.h"

bool nb_node_ips_next(const char **list, char ret[static INET6_ADDRSTRLEN]) {
        size_t len = strcspn(*list, ",");

        snprintf(ret, INET6_ADDRSTRLEN, "%.*s", (int)len, *list);
        *list += len + ((*list)[len] == ',');
        return len > 0;
}

bool nb_node_ips_contain(const char *list, const char *address) {
        char found[INET6_ADDRSTRLEN];

        while (nb_node_ips_next(&list, found))
                if (!strcmp(found, address))
                        return true;
        return false;
}

void nb_node_ips_add(const char *address, char list[static NB_NODE_IPS_SIZE]) {
        size_t len = strlen(list);

        if (!nb_node_ips_contain(list, address) && len + 1 + strlen(address) < NB_NODE_IPS_SIZE)
                snprintf(list + len, NB_NODE_IPS_SIZE - len, "%s%s", len > 0 ? "," : "", address);
}

/* Adds an address. Ignores other text, and addresses that only select a family. */
static void add_configured(const char *text, size_t len, char ret[static NB_NODE_IPS_SIZE]) {
        int family = memchr(text, ':', len) ? AF_INET6 : AF_INET;
        char address[INET6_ADDRSTRLEN];
        struct in6_addr bytes;

        snprintf(address, sizeof(address), "%.*s", (int)len, text);
        if (inet_pton(family, address, &bytes) == 1 &&
            inet_ntop(family, &bytes, address, sizeof(address)) && strcmp(address, "::") != 0 &&
            strcmp(address, "0.0.0.0") != 0)
                nb_node_ips_add(address, ret);
}

void nb_settings_node_ips(const struct nb_settings *settings, char ret[static NB_NODE_IPS_SIZE]) {
        static const char option[] = "node-ip=";

        ret[0] = '\0';
        for (unsigned i = 0; i < settings->n_extra_args; i++) {
                const char *p = settings->extra_args[i];

                if (strncmp(p, option, strlen(option)) != 0)
                        continue;
                ret[0] = '\0'; /* kubelet uses the last one */
                for (p += strlen(option); *p; p += strspn(p, ",")) {
                        add_configured(p, strcspn(p, ","), ret);
                        p += strcspn(p, ",");
                }
        }
}
