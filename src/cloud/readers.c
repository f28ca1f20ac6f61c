/* SPDX-License-Identifier: Apache-2.0 */
/* Code for single clouds, for what a row of settings/provider.def cannot describe. */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/cloud_internal.h"
#include "kube/node_name.h"
#include "metadata/metadata_document.h"

/* --- Azure --- */

/* Changes the resource group to lower case, like Azure's cloud controller manager, since Azure
 * returns it in either case. */
void nb_cloud_edit_azure_id(char *id) {
        static const char group[] = "/resourcegroups/";
        char *p = strcasestr(id, group);

        for (p = p ? p + strlen(group) : NULL; p && *p && *p != '/'; p++)
                *p = (char)tolower((unsigned char)*p);
}

/* --- CloudStack --- */

#define LEASE_MAX (256 * 1024)

static int read_lease(struct nb_sources *sources, const char *path,
                      char ret_address[static NB_LEASE_ADDRESS_SIZE]) {
        _cleanup_(nb_secret_done) struct nb_secret lease = NB_SECRET_INIT;
        int r = nb_sources_read(sources, path, LEASE_MAX, &lease, NULL);

        return r < 0 ? r : nb_metadata_lease_server(lease.data, lease.len, ret_address);
}

/* The virtual router is both DHCP server and metadata service. */
int nb_cloud_find_cloudstack(struct nb_cloud_call *call, struct nb_failure *f) {
        static const char *const patterns[] = { "/run/systemd/netif/leases/*",
                                                "/var/lib/dhcp/*.leases" };

        for (size_t i = 0; i < N_ELEMENTS(patterns); i++) {
                _cleanup_(globfree) glob_t leases = { 0 };

                if (glob(patterns[i], 0, NULL, &leases) != 0)
                        continue;
                for (size_t n = 0; n < leases.gl_pathc; n++)
                        if (read_lease(call->request->sources, leases.gl_pathv[n], call->found) >=
                            0) {
                                call->address = call->found;
                                return 0;
                        }
        }
        return nb_failure_set(f, NB_METADATA_UNREACHABLE, ENOENT,
                              "CloudStack's metadata service has the address of the DHCP server, "
                              "and no lease in /run/systemd/netif/leases or /var/lib/dhcp has one");
}

/* --- NoCloud --- */

/* A seed from an HTTP server ("ds=nocloud;s=http://...") is not read, since nothing verifies the
 * server. */
int nb_cloud_read_nocloud_name(struct nb_cloud_call *call, struct nb_secret *ret,
                               struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret seed = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get(call, NB_PLATFORM_META_DATA, NULL, NB_CLOUD_DOCUMENT_MAX, &seed, f);
        return r > 0 ? nb_metadata_seed_name(seed.data, seed.len, "meta-data of NoCloud", ret, f)
                     : r;
}

/* --- OpenStack --- */

/* The cloud controller manager finds a machine by `name`, which a person typed and which may not be
 * a valid node name. The host name is derived from it. */
int nb_cloud_read_openstack_name(struct nb_cloud_call *call, struct nb_secret *ret,
                                 struct nb_failure *f) {
        char ignored[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_cloud_get_value(call, "name", ret, f);
        if (r < 0 || (r > 0 && nb_node_name_parse(ret->data, ret->len, ignored) >= 0))
                return r;
        nb_secret_done(ret);
        return nb_cloud_get_value(call, "hostname", ret, f);
}
