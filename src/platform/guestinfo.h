/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * VMware's guestinfo: values that the host sets for the machine, by the tool of open-vm-tools that asks for one. Keys go on its
 * command line, secrets never do.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "base/secret.h"

#define NB_GUESTINFO_USER_DATA "guestinfo.userdata"
#define NB_GUESTINFO_USER_DATA_ENCODING "guestinfo.userdata.encoding"
#define NB_GUESTINFO_TOKEN "guestinfo.node-bootstrap.token"

/* Of open-vm-tools; the first that is there is used. NULL ends the list. */
struct nb_guestinfo_tool {
        const char *path;
        const char *option; /* before the request; NULL for none */
};
extern const struct nb_guestinfo_tool nb_guestinfo_tools[];

bool nb_guestinfo_is_there(const struct nb_guestinfo_tool *tools);

/*
 * 0, and *ret_value left alone where the host has set none: nothing, white space, or "---", as who clears one writes.
 * NB_PLATFORM_UNREADABLE, also when it has not answered in time.
 */
int nb_guestinfo_get(const struct nb_guestinfo_tool *tools, const char *key, struct nb_secret *ret_value, struct nb_failure *f);

/* Sets a value that is no secret. NB_PLATFORM_UNREADABLE. */
int nb_guestinfo_set(const struct nb_guestinfo_tool *tools, const char *key, const char *value, struct nb_failure *f);
