/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "bootstrap/bootstrap.h"

/*
 * Whether a join could begin, as far as that is known before any cluster is asked: nb_bootstrap_verify(), and whether pins fit the
 * CAs of a document. NB_DISCOVERY_FILE_UNACCEPTABLE, NB_CA_PIN_MISMATCH, and as there.
 */
int nb_begin_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f);
