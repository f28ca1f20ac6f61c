/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * VMware's guestinfo: values that the host sets for the machine, read by a tool of open-vm-tools.
 * Its command line has the key of a value, and never a secret.
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
 * 0; *ret_value is left alone if the host has set nothing, or only white space or "---", which is
 * how a value is cleared. NB_PLATFORM_UNREADABLE, also if the tool has not answered in time.
 */
int nb_guestinfo_get(const struct nb_guestinfo_tool *tool, const char *key,
                     struct nb_secret *ret_value, struct nb_failure *f);
