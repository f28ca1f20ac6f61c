/* SPDX-License-Identifier: Apache-2.0 */

/* The enrolled nodes and the policy, as far as the order of requests depends on them. A decision
 * reads the record and the policy again. */

#include <stdlib.h>
#include <string.h>

#include "admin/client/facts.h"
#include "admin/frame/controller.h"
#include "admin/frame/enrolled.h"
#include "base/macro.h"
#include "crypto/attestation.h"
#include "systemd/log.h"

struct enrolled_node {
        struct nb_record record; /* key: the node */
        char public_key[];
};

static void drop_enrolled(void *userdata, struct nb_record *record) {
        struct nb_controller *controller = userdata;

        nb_records_drop(&controller->enrolled, record);
}

static void keep_enrolled(struct nb_controller *controller, const struct nb_node_record *node) {
        struct nb_record *old = nb_records_find(&controller->enrolled, node->node);
        const size_t key_size = strlen(node->public_key) + 1;
        struct enrolled_node *enrolled;

        if (old)
                drop_enrolled(controller, old);
        enrolled = nb_records_put(&controller->enrolled, node->node, sizeof(*enrolled) + key_size);
        if (enrolled)
                memcpy(enrolled->public_key, node->public_key, key_size);
}

void nb_enrolled_on_record(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        struct nb_failure f = { 0 };
        struct nb_json view = { object->root, object->what, object->code, &f, object->r };
        struct nb_node_record node = { 0 };
        struct nb_record *record;

        nb_node_record_read(&view, &node);
        if (view.r < 0) {
                nb_controller_wake(controller, NB_FACT_LIMITS, NULL, NULL);
                return;
        }
        record = nb_records_find(&controller->enrolled, node.node);
        if (change != NB_CHANGE_DELETED && node.removed == 0)
                keep_enrolled(controller, &node);
        else if (record)
                drop_enrolled(controller, record);
        nb_controller_wake(controller, NB_FACT_LIMITS, NULL, node.node);
}

void nb_enrolled_on_list(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        nb_records_list(&controller->enrolled, is_complete, drop_enrolled, controller);
        if (is_complete)
                nb_controller_wake(controller, NB_FACT_LIMITS, NULL, NULL);
}

/* Once, until there is a policy. */
static void report_policy(struct nb_controller *controller) {
        if (!controller->has_policy && !controller->is_policy_reported)
                nb_log(LOG_WARNING, NB_NONE,
                       "there is no usable ConfigMap kube-system/" NB_POLICY_NAME
                       ", so nothing is approved; restore it with its keys, such as requireProof: "
                       "the one that `node-bootstrap-admin cluster-info publish` creates has none");
        controller->is_policy_reported = !controller->has_policy;
        controller->report_ms = 0;
}

/* One that cannot be used is no failure of the watch. */
void nb_enrolled_on_policy(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        struct nb_failure f = { 0 };
        struct nb_json view = { object->root, object->what, object->code, &f, object->r };
        struct nb_policy policy = { 0 };

        if (change != NB_CHANGE_DELETED)
                nb_policy_read(&view, &policy);
        controller->has_policy = change != NB_CHANGE_DELETED && view.r >= 0;
        controller->is_proof_required = view.r >= 0 && policy.is_proof_required;
        if (view.r < 0)
                nb_log_failure(LOG_WARNING, &f);
        report_policy(controller);
        nb_controller_wake(controller, NB_FACT_LIMITS, NULL, NULL);
}

void nb_enrolled_on_policy_list(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        if (is_complete)
                report_policy(controller);
        else
                controller->has_policy = controller->is_proof_required = false;
}

bool nb_enrolled_has(const struct nb_controller *controller, const char *node) {
        return nb_records_find(&controller->enrolled, node);
}

bool nb_enrolled_lacks_proof(const struct nb_controller *controller,
                             const struct nb_node_request *request) {
        const struct enrolled_node *node = nb_records_find(&controller->enrolled, request->node);

        if (!node || !node->public_key[0])
                return request->is_in_enrolled_group || controller->is_proof_required;
        return !request->pem ||
               nb_attestation_verify(request->pem, request->pem_len, request->token_id,
                                     node->public_key) != NB_ATTESTATION_VALID;
}
