/* SPDX-License-Identifier: Apache-2.0 */
/* NoCloud and VMware, whose data node-bootstrap-platform.service reads (state/platform.h). */
#include <errno.h>

#include "base/macro.h"
#include "base/sources.h"
#include "cloud/cloud_internal.h"
#include "metadata/metadata_document.h"
#include "state/platform.h"

int nb_cloud_read_file(const struct nb_cloud_call *call, const char *path, size_t max,
                       struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_sources_read(call->request->sources, path, max, ret, NULL);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return nb_failure_set(
                        f, NB_PLATFORM_UNREADABLE, r,
                        "'%s' from node-bootstrap-platform.service cannot be read: %m", path);
        return ret->len > 0;
}

/* A NoCloud seed from an HTTP server ("ds=nocloud;s=http://...") is not read: nothing verifies that
 * server. */
int nb_cloud_read_platform_user_data(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        int r;

        r = nb_cloud_read_file(call, NB_PLATFORM_USER_DATA, NB_USER_DATA_MAX, &data, f);
        return r > 0 ? nb_cloud_take_user_data(call, &data, f) : r;
}

int nb_cloud_read_nocloud_name(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret seed = NB_SECRET_INIT;
        char name[NB_CLOUD_VALUE_MAX + 1];
        int r;

        r = nb_cloud_read_file(call, NB_PLATFORM_META_DATA, NB_CLOUD_DOCUMENT_MAX, &seed, f);
        if (r <= 0)
                return r;
        r = nb_metadata_seed_name(seed.data, seed.len, "meta-data of NoCloud", name, sizeof(name),
                                  f);
        return r > 0 ? nb_cloud_take_node_name(call, name, f) : r;
}

int nb_cloud_read_vmware_token(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        r = nb_cloud_read_file(call, NB_PLATFORM_TOKEN, NB_CLOUD_TOKEN_MAX, &token, f);
        return r > 0 ? nb_cloud_take_token(call, &token, f) : r;
}
