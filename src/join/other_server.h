/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Another server for a node of k3s or RKE2, which has no cluster-info. */

#include <stdint.h>

#include "base/failure.h"
#include "kube_objects/kubeconfig.h"
#include "settings/settings.h"

/*
 * 0 if the server of `present` answers over TLS that its CAs verify, whatever it answers. If it
 * does not, several times: 1 and a copy in *ret_other with the first server in
 * discovery.endpoints that does. Sends no credential. -ECANCELED; the failure of the present
 * server.
 */
int nb_find_other_server(const struct nb_cluster *present, const struct nb_settings *settings,
                         uint64_t deadline_ms, struct nb_cluster *ret_other, struct nb_failure *f);
