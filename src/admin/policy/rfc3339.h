/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Times in objects of the cluster, which other programs wrote. */

#include <time.h>

/* Parses "2006-01-02T15:04:05Z", also with an offset or a fraction (RFC 3339). 0, -EINVAL. */
int nb_rfc3339_parse(const char *text, time_t *ret);
