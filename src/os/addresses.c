/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "os/addresses.h"

#define FOLDER "/proc/self/net"
#define V6_DIGITS 32

static void add_line(struct nb_buffer *ret, const char *address) {
        if (nb_addresses_contain(ret, address))
                return;
        nb_buffer_append_string(ret, address);
        nb_buffer_append_string(ret, "\n");
}

bool nb_addresses_contain(const struct nb_buffer *lines, const char *address) {
        size_t len = strlen(address);

        for (const char *p = lines->data; p && *p; p = strchr(p, '\n'), p += p != NULL)
                if (strncmp(p, address, len) == 0 && p[len] == '\n')
                        return true;
        return false;
}

/* "|-- ADDRESS", and below it "/32 host LOCAL" if it is this machine's. */
void nb_addresses_parse_v4(const char *fib_trie, struct nb_buffer *ret) {
        static const char leaf[] = "|-- ", local[] = "/32 host LOCAL";
        char address[INET_ADDRSTRLEN] = "";

        for (const char *line = fib_trie, *end; *line; line = end + (*end == '\n')) {
                const char *p = line + strspn(line, " ");
                struct in_addr bytes;
                size_t len;

                end = line + strcspn(line, "\n");
                len = (size_t)(end - p);
                if (strncmp(p, leaf, strlen(leaf)) == 0) {
                        len -= strlen(leaf);
                        address[0] = '\0';
                        if (len < sizeof(address)) {
                                memcpy(address, p + strlen(leaf), len);
                                address[len] = '\0';
                        }
                } else if (len == strlen(local) && strncmp(p, local, len) == 0 &&
                           inet_pton(AF_INET, address, &bytes) == 1 &&
                           strncmp(address, "127.", 4) != 0 && strncmp(address, "169.254.", 8) != 0)
                        add_line(ret, address);
        }
}

/* "fd000000000000000000000000000002 04 40 00 82     eth0" */
void nb_addresses_parse_v6(const char *if_inet6, struct nb_buffer *ret) {
        for (const char *line = if_inet6, *end; *line; line = end + (*end == '\n')) {
                char address[INET6_ADDRSTRLEN];
                struct in6_addr bytes;

                end = line + strcspn(line, "\n");
                if (end - line > V6_DIGITS &&
                    nb_hex_decode(line, V6_DIGITS, bytes.s6_addr, sizeof(bytes.s6_addr)) >= 0 &&
                    !IN6_IS_ADDR_LOOPBACK(&bytes) && !IN6_IS_ADDR_LINKLOCAL(&bytes) &&
                    inet_ntop(AF_INET6, &bytes, address, sizeof(address)))
                        add_line(ret, address);
        }
}

/* A kernel without IPv6 has no such file. */
int nb_addresses_read(struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer v4 = NB_BUFFER_INIT(NB_ADDRESSES_TABLE_MAX),
                                                   v6 = NB_BUFFER_INIT(NB_ADDRESSES_TABLE_MAX);
        _cleanup_(nb_closep) int folder_fd = -1;
        int r = nb_folder_open(FOLDER, &folder_fd);

        if (r >= 0)
                r = nb_file_read(folder_fd, "fib_trie", &v4, NULL);
        if (r < 0)
                return r;
        r = nb_file_read(folder_fd, "if_inet6", &v6, NULL);
        if (r < 0 && r != -ENOENT)
                return r;
        nb_addresses_parse_v4(v4.data ? v4.data : "", ret);
        nb_addresses_parse_v6(v6.data ? v6.data : "", ret);
        return ret->error;
}
