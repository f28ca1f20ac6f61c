/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Settings written down again, in a form that nb_settings_merge() reads as the same. */

#include "base/buffer.h"
#include "format/settings.h"

#define NB_SETTINGS_TEXT_MAX (64 * 1024)

/* Whether some document has set this key. */
bool nb_setting_is_set(const struct nb_settings *settings, enum nb_setting setting);

/* The value as it stands in a document: `["10.0.0.1:6443"]`, `true`, `"5m"`; of a token only that there is one. 0, -E2BIG,
 * -ENOMEM. */
int nb_setting_format(const struct nb_settings *settings, enum nb_setting setting, struct nb_buffer *ret);

/* A document with those keys that are set, without tokens. 0, -E2BIG, -ENOMEM. */
int nb_settings_format(const struct nb_settings *settings, struct nb_buffer *ret);
