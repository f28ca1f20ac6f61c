/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/cloud_internal.h"
#include "metadata/metadata_document.h"

#define LEASE_MAX (256 * 1024)

static int read_lease(struct nb_sources *sources, const char *path,
                      char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        _cleanup_(nb_secret_done) struct nb_secret lease = NB_SECRET_INIT;
        int r = nb_sources_read(sources, path, LEASE_MAX, &lease, NULL);

        return r < 0 ? r : nb_metadata_lease_server(lease.data, lease.len, ret_address);
}

/* CloudStack's virtual router is both DHCP server and metadata service. */
int nb_cloud_find_cloudstack(struct nb_cloud_call *call, struct nb_failure *f) {
        static const char *const patterns[] = { "/run/systemd/netif/leases/*",
                                                "/var/lib/dhcp/*.leases" };
        char address[NB_LEASE_ADDRESS_SIZE];

        for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
                _cleanup_(globfree) glob_t leases = { 0 };

                if (glob(patterns[i], 0, NULL, &leases) != 0)
                        continue;
                for (size_t n = 0; n < leases.gl_pathc; n++) {
                        if (read_lease(call->request->sources, leases.gl_pathv[n], address) < 0)
                                continue;
                        snprintf(call->found, sizeof(call->found), "%s", address);
                        call->address = call->found;
                        return 0;
                }
        }
        return nb_failure_set(f, NB_METADATA_UNREACHABLE, ENOENT,
                              "CloudStack's metadata service has the address of the DHCP server, "
                              "and no lease in /run/systemd/netif/leases or /var/lib/dhcp has one");
}
