/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kernel command line says about the platform: what Ignition and cloud-init go by as well. No I/O. */

#include <stddef.h>

#include "format/platform.h"

#define NB_KERNEL_LINE_PATH "/proc/cmdline"
#define NB_KERNEL_LINE_MAX 16384

/*
 * Sets platform_id and data_source, and leaves the other members alone. Words are parted as the kernel does it, double quotes
 * included; the last of several counts, an empty one as none. A value that no platform has (anything but letters, digits,
 * '.', '_' and '-', or too long) counts as none.
 */
void nb_kernel_line_parse(const char *line, size_t len, struct nb_platform *platform);
