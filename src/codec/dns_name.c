/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/dns_name.h"

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool nb_dns_name_is_valid(const char *text, size_t len, size_t label_max) {
        size_t label_len = 0;

        for (size_t i = 0; i <= len; i++) {
                if (i < len && (is_alphanumeric(text[i]) || (text[i] == '-' && label_len > 0)))
                        label_len++;
                else if ((i < len && text[i] != '.') || label_len == 0 || label_len > label_max ||
                         text[i - 1] == '-')
                        return false;
                else
                        label_len = 0;
        }
        return len <= NB_DNS_NAME_MAX;
}
