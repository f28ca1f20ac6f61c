/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "cloud/internal.h"
#include "format/metadata_document.h"

#define COMPUTE "/metadata/instance/compute/"
#define TAGS COMPUTE "tagsList?api-version=2021-01-01&format=json"
#define RESOURCE_ID COMPUTE "resourceId?api-version=2021-01-01&format=text"
#define GROUP "/resourcegroups/"

static int read_token(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret tags = NB_SECRET_INIT, token = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get(call, TAGS, "application/json", NB_CLOUD_DOCUMENT_MAX, &tags, f);
        if (r > 0)
                r = nb_metadata_tag(tags.data, tags.len, "the tags of Microsoft Azure", NB_CLOUD_TOKEN_KEY, &token, f);
        return r > 0 ? nb_cloud_take_token(call, token.data, token.len, "tag '" NB_CLOUD_TOKEN_KEY "'", metadata, f) : r;
}

/* As its cloud controller manager writes it: the resource group in lower case, since Azure itself returns it in either. */
static void lower_group(char *id) {
        for (char *p = id; *p; p++)
                if (!strncasecmp(p, GROUP, strlen(GROUP))) {
                        for (p += strlen(GROUP); *p && *p != '/'; p++)
                                if (*p >= 'A' && *p <= 'Z')
                                        *p = (char)(*p - 'A' + 'a');
                        return;
                }
}

static int read_provider_id(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        char resource[NB_CLOUD_VALUE_MAX + 1], id[sizeof(resource) + sizeof("azure://")];
        int r;

        if (!call->request->wants_provider_id)
                return 0;
        r = nb_cloud_get_value(call, RESOURCE_ID, resource, f);
        if (r <= 0)
                return r;
        lower_group(resource);
        (void)snprintf(id, sizeof(id), "azure://%s", resource);
        return nb_cloud_take_provider_id(call, id, metadata, f);
}

int nb_cloud_read_azure(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        int r;

        r = read_token(call, metadata, f);
        if (r >= 0)
                r = nb_cloud_read_user_data(call, metadata, f);
        if (r >= 0)
                r = nb_cloud_read_node_name(call, metadata, f);
        return r < 0 ? r : read_provider_id(call, metadata, f);
}
