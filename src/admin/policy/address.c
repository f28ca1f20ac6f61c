/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "admin/policy/address.h"

#define MAPPED_BITS 96 /* of the prefix ::ffff:0:0/96 */

static const uint8_t mapped[MAPPED_BITS / 8] = { [10] = 0xff, [11] = 0xff };

/* RFC 6890 and RFC 4291. */
static const char special_prefixes[] =
        "0.0.0.0/8,127.0.0.0/8,169.254.0.0/16,224.0.0.0/4,255.255.255.255/32,"
        "::/128,::1/128,fe80::/10,ff00::/8";

static bool is_ipv4(const struct nb_address *address) {
        return memcmp(address->bytes, mapped, sizeof(mapped)) == 0;
}

int nb_address_parse(const char *text, struct nb_address *ret_address) {
        struct nb_address address;

        if (inet_pton(AF_INET6, text, address.bytes) == 1) {
                *ret_address = address;
                return 0;
        }
        memcpy(address.bytes, mapped, sizeof(mapped));
        if (inet_pton(AF_INET, text, address.bytes + sizeof(mapped)) != 1)
                return -EINVAL;
        *ret_address = address;
        return 0;
}

bool nb_address_is_equal(const struct nb_address *a, const struct nb_address *b) {
        return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

bool nb_address_is_special(const struct nb_address *address) {
        struct nb_prefixes special;

        return nb_prefixes_parse(special_prefixes, &special) < 0 ||
               nb_prefixes_contain(&special, address);
}

/* The address with all bits behind the prefix cleared. */
static struct nb_address mask_address(const struct nb_address *address, unsigned len) {
        struct nb_address masked = { 0 };

        memcpy(masked.bytes, address->bytes, len / 8);
        if (len % 8 > 0)
                masked.bytes[len / 8] = (uint8_t)(address->bytes[len / 8] & (0xff00U >> (len % 8)));
        return masked;
}

/* One to three digits without a leading zero; -EINVAL for anything else. */
static int parse_length(const char *text, unsigned *ret_len) {
        unsigned len = 0;
        size_t n = strspn(text, "0123456789");

        if (n == 0 || n > 3 || text[n] || (text[0] == '0' && n > 1))
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                len = len * 10 + (unsigned)(text[i] - '0');
        *ret_len = len;
        return 0;
}

static int parse_prefix(char *text, bool is_exact, struct nb_prefix *ret_prefix) {
        char *slash = strchr(text, '/');
        struct nb_address address, masked;
        unsigned len;

        if (!slash)
                return -EINVAL;
        *slash = '\0';
        if (nb_address_parse(text, &address) < 0 || parse_length(slash + 1, &len) < 0)
                return -EINVAL;
        if (!strchr(text, ':'))
                len += MAPPED_BITS;
        if (len > 128)
                return -EINVAL;
        masked = mask_address(&address, len);
        if (is_exact && !nb_address_is_equal(&masked, &address))
                return -EINVAL;
        *ret_prefix = (struct nb_prefix){ masked, len };
        return 0;
}

int nb_network_parse(const char *text, struct nb_prefix *ret_prefix) {
        char word[INET6_ADDRSTRLEN + 4];

        if (strlen(text) >= sizeof(word))
                return -EINVAL;
        strcpy(word, text);
        return parse_prefix(word, false, ret_prefix);
}

int nb_prefixes_parse(const char *text, struct nb_prefixes *ret_prefixes) {
        struct nb_prefixes prefixes = { 0 };

        for (;;) {
                size_t len = strcspn(text, ",");
                char word[INET6_ADDRSTRLEN + 4];

                if (len >= sizeof(word))
                        return -EINVAL;
                if (prefixes.n == NB_PREFIXES_MAX)
                        return -E2BIG;
                memcpy(word, text, len);
                word[len] = '\0';
                if (parse_prefix(word, true, &prefixes.items[prefixes.n++]) < 0)
                        return -EINVAL;
                if (!text[len])
                        break;
                text += len + 1;
        }
        *ret_prefixes = prefixes;
        return 0;
}

bool nb_prefix_contains(const struct nb_prefix *prefix, const struct nb_address *address) {
        struct nb_address masked = mask_address(address, prefix->len);

        return is_ipv4(address) == is_ipv4(&prefix->base) &&
               nb_address_is_equal(&masked, &prefix->base);
}

bool nb_prefixes_contain(const struct nb_prefixes *prefixes, const struct nb_address *address) {
        for (unsigned i = 0; i < prefixes->n; i++)
                if (nb_prefix_contains(&prefixes->items[i], address))
                        return true;
        return false;
}
