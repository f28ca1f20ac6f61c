/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * VMware's guestinfo: values that the host sets for the machine, read with a tool of open-vm-tools.
 * The command line of the tool contains only keys, never a secret.
 */

#include "base/failure.h"
#include "base/secret.h"

#define NB_GUESTINFO_USER_DATA "guestinfo.userdata"
#define NB_GUESTINFO_TOKEN "guestinfo.node-bootstrap.token"

/* The first one that is installed is used. A path of NULL ends the list. */
struct nb_guestinfo_tool {
        const char *path;
        const char *option; /* before the request; NULL for none */
};
extern const struct nb_guestinfo_tool nb_guestinfo_tools[];

/* NULL if none is installed. */
const struct nb_guestinfo_tool *nb_guestinfo_find(const struct nb_guestinfo_tool *tools);

/*
 * 0; *ret_value stays unchanged if the host has set no value, or a cleared one: white space or
 * "---". NB_PLATFORM_UNREADABLE, also if the tool times out.
 */
int nb_guestinfo_get(const struct nb_guestinfo_tool *tool, const char *key,
                     struct nb_secret *ret_value, struct nb_failure *f);
