/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/log.h"
#include "kube/node_calls.h"
#include "stage/internal.h"

/*
 * Two machines with one name would take turns at one Node, and each certificate for it counts as well as the other. A bootstrap token may
 * read nodes (ClusterRole kubeadm:get-nodes); who may not is not kept from joining by that, and no rule of RBAC is needed for it.
 */
int nb_stage_node(struct nb_join *join, struct nb_failure *f) {
        struct nb_node_object node = { 0 };
        long status = 0;
        int r;

        if (join->settings->allow_existing || join->is_name_own)
                return 0;
        r = nb_node_read(&join->api, join->node_name, join->deadline_ms, &node, &status, f);
        if (r == -EACCES && f->code == NB_NONE) {
                nb_log(LOG_DEBUG, NB_NONE, "whether there is a Node '%s' already cannot be told: %s answers %ld", join->node_name,
                       join->api.name, status);
                return 0;
        }
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (r == 0 || !node.is_ready)
                return 0;
        return nb_failure_set(f, NB_NODE_NAME_TAKEN, EEXIST, "there is a Node '%s' in the cluster already, and it is Ready%s%s%s%s", node.name,
                              node.ready_since[0] ? " since " : "", node.ready_since, node.address[0] ? ", at the address " : "", node.address);
}
