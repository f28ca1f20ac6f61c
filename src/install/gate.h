/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node-bootstrap-gate.service: whether kubelet may start. The gate reads the files of the join, but
 * no settings and no credential, takes no lock and writes nothing, so that only the certificate
 * decides.
 */

/* Returns the exit status. 0 if kubelet can use the certificate on disk, even if the clock says
 * that it is not valid yet, or if the next start of the service joins again. Otherwise 1, and logs
 * why, for kubelet's unit as well. */
int nb_gate_run(int root_fd);
