/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Reads what a join installed on this machine, for commands that change nothing. */

#include <time.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "settings/settings.h"
#include "state/handoff.h"

struct nb_installed_certificate {
        char subject[NB_SUBJECT_SIZE], issuer[NB_SUBJECT_SIZE];
        time_t not_before, not_after;
};

/* Kubelet's client certificate. NB_INSTALLED_*. */
int nb_installed_read_certificate(const struct nb_settings *settings,
                                  struct nb_installed_certificate *ret_certificate,
                                  struct nb_failure *f);
