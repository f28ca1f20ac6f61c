/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/dns_name.h"

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_label(const char *text, size_t len, size_t label_max) {
        if (len == 0 || len > label_max || !is_alphanumeric(text[0]) ||
            !is_alphanumeric(text[len - 1]))
                return false;
        for (size_t i = 0; i < len; i++)
                if (!is_alphanumeric(text[i]) && text[i] != '-')
                        return false;
        return true;
}

bool nb_dns_name_is_valid(const char *text, size_t len, size_t label_max) {
        size_t start = 0;

        if (len > NB_DNS_NAME_MAX)
                return false;
        for (size_t i = 0; i <= len; i++) {
                if (i < len && text[i] != '.')
                        continue;
                if (!is_label(text + start, i - start, label_max))
                        return false;
                start = i + 1;
        }
        return true;
}
