/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "kube_objects/cluster_info.h"

void fuzz_one(const char *data, size_t len) {
        _cleanup_(nb_cluster_info_done) struct nb_cluster_info info = {};
        struct nb_failure f = {};
        int r;

        r = nb_cluster_info_parse(data, len, "abc123", &info, &f);
        FUZZ_CHECK_FAILURE(f, r);
        if (r < 0)
                return;
        FUZZ_CHECK(info.kubeconfig);
        FUZZ_CHECK(!info.signature || info.n_signatures > 0);
}
