/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Another server for a node of k3s or RKE2, which has no cluster-info. */

#include <stdint.h>

#include "base/failure.h"
#include "kube_objects/kubeconfig.h"
#include "settings/settings.h"

/*
 * Asks the server of `present`, without a credential. Returns 0 if it answers over TLS that its CAs
 * verify, whatever it says. If it does not answer for a minute, asks the servers in
 * discovery.endpoints: returns 1 for the first that answers like that, and in *ret_other a copy of
 * `present` with that server. If none does, fails as the server of `present` did. -ECANCELED.
 */
int nb_find_other_server(const struct nb_cluster *present, const struct nb_settings *settings,
                         uint64_t deadline_ms, struct nb_cluster *ret_other, struct nb_failure *f);
