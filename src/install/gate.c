/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/macro.h"
#include "install/gate.h"
#include "node/present.h"
#include "settings/kubelet_unit.h"
#include "system/log.h"

int nb_gate_run(int root_fd) {
        _cleanup_(nb_node_done) struct nb_node node = { 0 };
        struct nb_failure f = { 0 };
        int r = nb_node_inspect_disk(root_fd, &node, &f);

        if (r >= 0 && nb_inspection_is_kept(&node.inspection))
                return EXIT_SUCCESS;
        nb_log(LOG_NOTICE, NB_NONE, "this machine has not joined: %s",
               r < 0 ? f.detail : node.inspection.detail);
        nb_log_object_unit(NB_KUBELET_UNIT);
        nb_log(LOG_WARNING, NB_NONE,
               "kubelet waits: this machine has not joined; see `node-bootstrap status`");
        return EXIT_FAILURE;
}
