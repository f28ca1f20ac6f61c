/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/macro.h"
#include "cloud/internal.h"
#include "format/metadata_document.h"
#include "format/node_name.h"
#include "format/platform.h"

/* The config drive, where there is one: it does not need a network, and some clouds have nothing else. */
static int read_drive(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret user_data = NB_SECRET_INIT;
        int r;

        call->is_document_read = true;
        r = nb_cloud_read_file(NB_PLATFORM_META_DATA, NB_CLOUD_DOCUMENT_MAX, &call->document, f);
        if (r >= 0)
                r = nb_cloud_read_file(NB_PLATFORM_USER_DATA, NB_USER_DATA_MAX, &user_data, f);
        return r > 0 ? nb_cloud_take_user_data(call, &user_data, metadata, f) : r;
}

static int read_service(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        int r;

        r = nb_cloud_load_document(call, f);
        return r < 0 ? r : nb_cloud_read_user_data(call, metadata, f);
}

static int read_token(const struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        if (!call->document.data)
                return 0;
        r = nb_metadata_item(call->document.data, call->document.len, "meta_data.json of OpenStack", NB_CLOUD_TOKEN_KEY, &token, f);
        return r > 0 ? nb_cloud_take_token(call, token.data, token.len, call->row->token_place, metadata, f) : r;
}

/* Its cloud controller manager finds a machine by `name`; that is what people typed, and the host name is made of it. */
static int read_node_name(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        char name[NB_CLOUD_VALUE_MAX + 1], node_name[NB_NODE_NAME_MAX + 1];
        int r;

        if (!call->request->wants_node_name)
                return 0;
        r = nb_cloud_get_value(call, "name", name, f);
        if (r == 0 || (r > 0 && nb_node_name_parse(name, strlen(name), node_name) < 0))
                r = nb_cloud_get_value(call, "hostname", name, f);
        return r > 0 ? nb_cloud_take_node_name(call, name, strlen(name), metadata, f) : r;
}

int nb_cloud_read_openstack(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        bool has_drive = !strcmp(call->request->machine->platform.volume, "config-2");
        int r;

        r = has_drive ? read_drive(call, metadata, f) : read_service(call, metadata, f);
        if (r >= 0)
                r = read_token(call, metadata, f);
        if (r >= 0)
                r = read_node_name(call, metadata, f);
        return r < 0 ? r : nb_cloud_read_provider_id(call, metadata, f);
}
