/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* DNS-1123 subdomains (kubernetes apimachinery/pkg/util/validation IsDNS1123Subdomain), private to format/. */

#include <stdbool.h>
#include <stddef.h>

#define NB_DNS_NAME_MAX 253
#define NB_DNS_LABEL_MAX 63 /* RFC 1035; Kubernetes does not ask for it in the name of an object */

/* Lower case letters, digits and '-' in labels that begin and end with a letter or digit, joined by single dots. */
bool nb_dns_name_is_valid(const char *text, size_t len, size_t label_max);
