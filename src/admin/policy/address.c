/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/address.h"
#include "admin/policy/data_fields.h"

int nb_prefix_parse(const char *text, struct nb_prefix *ret_prefix) {
        struct nb_prefix prefix = { .base.s6_addr = { [10] = 0xff, [11] = 0xff }, .len = 128 };
        const size_t n = strcspn(text, "/");
        char address[INET6_ADDRSTRLEN], *end;
        unsigned long len, len_max = 32;

        if (n >= sizeof(address))
                return -EINVAL;
        snprintf(address, sizeof(address), "%.*s", (int)n, text);
        if (inet_pton(AF_INET, address, prefix.base.s6_addr + 12) != 1) {
                len_max = 128;
                if (inet_pton(AF_INET6, address, &prefix.base) != 1)
                        return -EINVAL;
        }
        if (text[n]) {
                text += n + 1;
                len = strtoul(text, &end, 10);
                if (!isdigit((unsigned char)text[0]) || (text[0] == '0' && text[1]) || *end ||
                    len > len_max)
                        return -EINVAL;
                prefix.len = (unsigned)(128 - len_max + len);
        }
        *ret_prefix = prefix;
        return 0;
}

int nb_address_parse(const char *text, struct nb_prefix *ret_address) {
        return strchr(text, '/') ? -EINVAL : nb_prefix_parse(text, ret_address);
}

bool nb_prefix_is_exact(const char *text) {
        struct nb_prefix prefix;

        if (!strchr(text, '/') || nb_prefix_parse(text, &prefix) < 0)
                return false;
        for (unsigned i = prefix.len; i < 128; i++)
                if (prefix.base.s6_addr[i / 8] & (0x80 >> i % 8))
                        return false;
        return true;
}

bool nb_prefix_contains(const struct nb_prefix *prefix, const struct nb_prefix *address) {
        const uint8_t *a = prefix->base.s6_addr, *b = address->base.s6_addr;
        const unsigned n = prefix->len / 8, rest = prefix->len % 8;

        return prefix->len <= address->len && memcmp(a, b, n) == 0 &&
               (rest == 0 || (a[n] ^ b[n]) >> (8 - rest) == 0) &&
               IN6_IS_ADDR_V4MAPPED(&prefix->base) == IN6_IS_ADDR_V4MAPPED(&address->base);
}

int nb_host_fold(const char *text, char ret_host[static NB_HOST_SIZE]) {
        struct nb_prefix address;
        size_t len = strlen(text);

        if (nb_address_parse(text, &address) >= 0)
                return inet_ntop(AF_INET6, &address.base, ret_host, NB_HOST_SIZE) ? 0 : -EINVAL;
        if (len > 0 && text[len - 1] == '.')
                len--;
        if (len >= NB_HOST_SIZE)
                return -EINVAL;
        for (size_t i = 0; i < len; i++)
                ret_host[i] = (char)tolower((unsigned char)text[i]);
        ret_host[len] = '\0';
        return nb_host_is_name(ret_host) ? 0 : -EINVAL;
}

bool nb_host_is_name(const char *text) {
        return nb_dns_name_is_valid(text, strlen(text), NB_DNS_LABEL_MAX);
}

bool nb_host_is_address(const char *host) {
        return strchr(host, ':');
}

bool nb_hosts_contain(const char *hosts, const char *host) {
        char item[NB_ITEM_SIZE], folded[NB_HOST_SIZE];
        struct nb_prefix address, prefix;
        const bool is_address = nb_prefix_parse(host, &address) >= 0;

        while (nb_list_next(&hosts, item))
                if (is_address ? nb_prefix_parse(item, &prefix) >= 0 &&
                                         nb_prefix_contains(&prefix, &address)
                               : nb_host_fold(item, folded) >= 0 && strcmp(folded, host) == 0)
                        return true;
        return false;
}
