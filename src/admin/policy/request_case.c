/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/request_case.h"
#include "admin/policy/rfc3339.h"

void nb_node_facts_read(struct nb_json *json, struct nb_node_facts *ret_node) {
        const char *ready = nb_json_string(json, "status.conditions[type=Ready].status");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        struct nb_node_facts node = { .is_ready = ready && !strcmp(ready, "True") };
        ssize_t n = nb_json_array(json, "status.addresses");
        size_t len = 0;

        if (created && nb_rfc3339_parse(created, &node.created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        node.is_being_deleted = nb_json_string(json, "metadata.deletionTimestamp") != NULL;
        for (ssize_t i = 0; i < n; i++) {
                char path[64];
                const char *address;

                snprintf(path, sizeof(path), "status.addresses[%zd].address", i);
                address = nb_json_string(json, path);
                if (address && !strchr(address, '/') &&
                    strlen(address) + 1 < sizeof(node.addresses) - len)
                        len += (size_t)snprintf(node.addresses + len, sizeof(node.addresses) - len,
                                                "%s,", address);
        }
        if (json->r >= 0)
                *ret_node = node;
}

void nb_request_case_prove(struct nb_request_case *c) {
        const struct nb_node_request *request = c->request;

        c->proof = NB_ATTESTATION_MISSING;
        if (c->record && c->record->public_key[0] && request->pem)
                c->proof = nb_attestation_verify(request->pem, request->pem_len, request->token_id,
                                                 c->record->public_key);
}

bool nb_request_case_is_removed(const struct nb_request_case *c) {
        return c->record && c->record->removed != 0 && c->record->removed >= c->request->created;
}
