/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/internal.h"
#include "format/metadata_document.h"
#include "format/platform.h"

int nb_cloud_read_file(const char *path, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        int r;

        r = nb_sources_read(path, max, ret, NULL);
        if (r == -ENOENT)
                return 0;
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_PLATFORM_UNREADABLE, -r, "%s, which node-bootstrap-platform.service left, cannot be read: %m", path);
        }
        return ret->len > 0;
}

static int read_user_data(const struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        int r;

        r = nb_cloud_read_file(NB_PLATFORM_USER_DATA, NB_USER_DATA_MAX, &data, f);
        return r > 0 ? nb_cloud_take_user_data(call, &data, metadata, f) : r;
}

static int read_seed_name(const struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret seed = NB_SECRET_INIT;
        char name[NB_CLOUD_VALUE_MAX + 1];
        int r;

        if (!call->request->wants_node_name)
                return 0;
        r = nb_cloud_read_file(NB_PLATFORM_META_DATA, NB_CLOUD_DOCUMENT_MAX, &seed, f);
        if (r > 0)
                r = nb_metadata_seed_name(seed.data, seed.len, "meta-data of NoCloud", name, sizeof(name), f);
        return r > 0 ? nb_cloud_take_node_name(call, name, strlen(name), metadata, f) : r;
}

/* A seed that cloud-init would fetch by HTTP ("ds=nocloud;s=http://...") is none of ours: nothing certifies where it comes from. */
int nb_cloud_read_nocloud(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        int r;

        r = read_user_data(call, metadata, f);
        return r < 0 ? r : read_seed_name(call, metadata, f);
}

int nb_cloud_read_vmware(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        r = nb_cloud_read_file(NB_PLATFORM_TOKEN, NB_CLOUD_TOKEN_MAX, &token, f);
        if (r > 0)
                r = nb_cloud_take_token(call, token.data, token.len, call->row->token_place, metadata, f);
        return r < 0 ? r : read_user_data(call, metadata, f);
}
