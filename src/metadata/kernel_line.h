/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Parses the parameters of Ignition and cloud-init on the kernel command line. No I/O. */

#include <stddef.h>

#include "state_files/platform_note.h"

#define NB_KERNEL_LINE_PATH "/proc/cmdline"
#define NB_KERNEL_LINE_MAX 16384

/*
 * Sets platform_id and data_source; the other members are unchanged. Splits words as the kernel
 * does: a space within double quotes is part of the word. If a key appears several times, the last
 * value is used. A value is treated as empty if it is too long or has characters other than
 * letters, digits, '.', '_' and '-'.
 */
void nb_kernel_line_parse(const char *line, size_t len, struct nb_platform *platform);
