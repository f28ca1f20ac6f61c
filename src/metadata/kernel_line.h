/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the kernel command line says about the platform, as Ignition and cloud-init read it. No I/O.
 */

#include <stddef.h>

#include "state/platform.h"

#define NB_KERNEL_LINE_PATH "/proc/cmdline"
#define NB_KERNEL_LINE_MAX 16384

/*
 * Sets platform_id and data_source, and leaves the other members alone. Splits words as the kernel
 * does: a space within double quotes is part of the word. Of several words with one key the last
 * counts. A value that no platform has (anything but letters, digits, '.', '_' and '-', or too
 * long) counts as none.
 */
void nb_kernel_line_parse(const char *line, size_t len, struct nb_platform *platform);
