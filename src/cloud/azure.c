/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cloud/cloud_internal.h"
#include "metadata/metadata_document.h"

#define COMPUTE "/metadata/instance/compute/"
#define TAGS COMPUTE "tagsList?api-version=2021-01-01&format=json"
#define RESOURCE_ID COMPUTE "resourceId?api-version=2021-01-01&format=text"
#define GROUP "/resourcegroups/"

int nb_cloud_read_azure_token(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret tags = NB_SECRET_INIT, token = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get(call, TAGS, "application/json", NB_CLOUD_DOCUMENT_MAX, &tags, f);
        if (r <= 0)
                return r;
        r = nb_metadata_tag(tags.data, tags.len, "the tags of Microsoft Azure", NB_CLOUD_TOKEN_KEY,
                            &token, f);
        return r > 0 ? nb_cloud_take_token(call, &token, f) : r;
}

/* The resource group in lower case, as in Azure's cloud controller manager: Azure itself returns it
 * in either case. */
int nb_cloud_read_azure_id(struct nb_cloud_call *call, struct nb_failure *f) {
        char resource[NB_CLOUD_VALUE_MAX + 1], id[sizeof(resource) + sizeof("azure://")];
        char *p;
        int r;

        r = nb_cloud_get_value(call, RESOURCE_ID, resource, f);
        if (r <= 0)
                return r;
        p = strcasestr(resource, GROUP);
        for (p = p ? p + strlen(GROUP) : strchr(resource, '\0'); *p && *p != '/'; p++)
                if (*p >= 'A' && *p <= 'Z')
                        *p = (char)(*p - 'A' + 'a');
        snprintf(id, sizeof(id), "azure://%s", resource);
        return nb_cloud_take_provider_id(call, id, f);
}
