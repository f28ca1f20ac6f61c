/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* DNS-1123 subdomains, as Kubernetes checks them (apimachinery/pkg/util/validation
 * IsDNS1123Subdomain): labels of lower case letters, digits and '-', joined by dots. No label is
 * longer than `label_max`. */

#include <stdbool.h>
#include <stddef.h>

#define NB_DNS_NAME_MAX 253
#define NB_DNS_LABEL_MAX 63 /* RFC 1035; Kubernetes does not require it of object names */

bool nb_dns_name_is_valid(const char *text, size_t len, size_t label_max);
