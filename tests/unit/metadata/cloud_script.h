/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A metadata service that answers by a script, on this machine. */

#include <stddef.h>

#define SCRIPT_ADDRESS_SIZE 32
#define SCRIPT_MAX 10
#define OK "200 OK"

/* One request that is expected, by how it begins and a part of its headers (NULL for any), and the
 * answer. The last one has no request. */
struct exchange {
        const char *request, *header;
        const char *status, *body;
};

/* Runs in a thread; the script must remain valid. */
void script_start(const struct exchange *exchanges, char ret_address[static SCRIPT_ADDRESS_SIZE]);

/* Fails the test if the requests were not exactly those of the script. */
void script_stop(void);
