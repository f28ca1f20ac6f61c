/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * node-bootstrap-gate.service: whether kubelet may start. It reads what is on disk, but no settings
 * and no credential, takes no lock and writes nothing, so that nothing but the certificate decides.
 */

/* Returns the exit status: 0 if kubelet can use the certificate on disk, also if the clock says
 * that it is not valid yet, or if the next start of the service joins again; 1 otherwise, and logs
 * why, for kubelet as well. */
int nb_gate_run(int root_fd);
