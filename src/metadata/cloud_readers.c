/* SPDX-License-Identifier: Apache-2.0 */
/* Code for individual clouds, for what a row of clouds.def cannot describe. */
#include <ctype.h>
#include <string.h>

#include "base/macro.h"
#include "kube_objects/node_name.h"
#include "metadata/cloud_internal.h"
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

/* --- NoCloud --- */

/* A seed from an HTTP server ("ds=nocloud;s=http://...") is not read, since nothing verifies the
 * server. */
int nb_cloud_read_nocloud_name(struct nb_cloud_call *call, struct nb_secret *ret,
                               struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret seed = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get_document(call, NB_PLATFORM_META_DATA, NULL, &seed, f);
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
