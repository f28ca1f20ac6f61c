/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "cloud/cloud_internal.h"
#include "kube/node_name.h"
#include "metadata/metadata_document.h"
#include "state/platform.h"

/* A config drive needs no network, and some clouds have nothing else. */
static bool has_drive(const struct nb_cloud_call *call) {
        return !strcmp(call->request->machine->platform.volume, call->row->volume);
}

int nb_cloud_read_openstack_token(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        if (has_drive(call)) {
                call->is_document_read = true;
                r = nb_cloud_read_file(call, NB_PLATFORM_META_DATA, NB_CLOUD_DOCUMENT_MAX,
                                       &call->document, f);
        } else
                r = nb_cloud_load_document(call, f);
        if (r < 0 || !call->document.data)
                return r;
        r = nb_metadata_item(call->document.data, call->document.len, "meta_data.json of OpenStack",
                             NB_CLOUD_TOKEN_KEY, &token, f);
        return r > 0 ? nb_cloud_take_token(call, &token, f) : r;
}

int nb_cloud_read_openstack_user_data(struct nb_cloud_call *call, struct nb_failure *f) {
        return has_drive(call) ? nb_cloud_read_platform_user_data(call, f)
                               : nb_cloud_read_user_data(call, f);
}

/* OpenStack's cloud controller manager finds a machine by `name`, as a person typed it. The host
 * name is derived from it. */
int nb_cloud_read_openstack_name(struct nb_cloud_call *call, struct nb_failure *f) {
        char name[NB_CLOUD_VALUE_MAX + 1], node_name[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_cloud_get_value(call, "name", name, f);
        if (r == 0 || (r > 0 && nb_node_name_parse(name, strlen(name), node_name) < 0))
                r = nb_cloud_get_value(call, "hostname", name, f);
        return r > 0 ? nb_cloud_take_node_name(call, name, f) : r;
}
