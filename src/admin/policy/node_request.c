/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_record.h"
#include "admin/policy/node_request.h"
#include "admin/policy/rfc3339.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "crypto/attestation.h"
#include "crypto/pkcs10.h"

#define BOOTSTRAP_GROUP "system:bootstrappers" /* the API server adds it to each token's user */

const char *const nb_node_request_kinds[] = {
        [NB_NODE_REQUEST_CLIENT] = "client", [NB_NODE_REQUEST_SERVING] = "serving"
};

bool nb_csr_name_is_usable(const char *name) {
        return name[0] && strlen(name) <= NB_CSR_NAME_MAX && strcmp(name, ".") != 0 &&
               strcmp(name, "..") != 0 && !strpbrk(name, "/%");
}

/* The API server accepts each type of condition once, and Approved and Denied only with the status
 * True (or, in older versions, none). */
static enum nb_csr_state read_state(struct nb_json *json) {
        return nb_json_string(json, "status.conditions[type=Denied].type")   ? NB_CSR_STATE_DENIED
               : nb_json_string(json, "status.conditions[type=Failed].type") ? NB_CSR_STATE_FAILED
               : nb_json_string(json, "status.conditions[type=Approved].type")
                       ? NB_CSR_STATE_APPROVED
                       : NB_CSR_STATE_PENDING;
}

static bool has_text(struct nb_json *json, const char *list, const char *text) {
        const ssize_t n = nb_json_array(json, list);

        for (ssize_t i = 0; i < n; i++) {
                char path[64];
                const char *item;

                snprintf(path, sizeof(path), "%s[%zd]", list, i);
                item = nb_json_string(json, path);
                if (item && strcmp(item, text) == 0)
                        return true;
        }
        return false;
}

static void read_requestor(struct nb_json *json, struct nb_node_request *request) {
        const char *id = request->username + strlen(NB_BOOTSTRAP_USER_PREFIX);

        nb_json_line(json, "spec.username", request->username, sizeof(request->username));
        request->is_group_exact = has_text(json, "spec.groups", NB_NODE_ORGANIZATION);
        request->is_in_bound_group = has_text(json, "spec.groups", NB_TOKEN_GROUP_NODE);
        request->is_in_enrolled_group = has_text(json, "spec.groups", NB_TOKEN_GROUP_ENROLLED);
        /* Another authenticator may give out names of this form. */
        if (has_text(json, "spec.groups", BOOTSTRAP_GROUP) &&
            strncmp(request->username, NB_BOOTSTRAP_USER_PREFIX,
                    strlen(NB_BOOTSTRAP_USER_PREFIX)) == 0 &&
            strspn(id, NB_LOWER NB_DIGITS) == NB_TOKEN_ID_LEN && !id[NB_TOKEN_ID_LEN])
                NB_TEXT_COPY(request->token_id, id);
}

static void read_request(struct nb_json *json, struct nb_node_request *request) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX),
                                                   key = NB_BUFFER_INIT(NB_NODE_RECORD_KEY_MAX);
        uint8_t key_id[NB_SHA256_SIZE];
        const char *node = request->facts.common_name + strlen(NB_NODE_COMMON_NAME_PREFIX);
        const char *text = nb_json_string(json, "spec.request");
        int r = text ? nb_base64_decode(text, strlen(text), &pem) : -EINVAL;

        if (r >= 0)
                r = nb_pkcs10_facts_read(pem.data, pem.len, &request->facts);
        if (r == -ENOMEM)
                json->r = nb_failure_set_memory(json->f);
        if (r < 0)
                return;
        if (strncmp(request->facts.common_name, NB_NODE_COMMON_NAME_PREFIX,
                    strlen(NB_NODE_COMMON_NAME_PREFIX)) == 0 &&
            nb_dns_name_is_valid(node, strlen(node), NB_NODE_NAME_MAX))
                NB_TEXT_COPY(request->node, node);
        if (nb_attestation_find_key(pem.data, pem.len, &key, key_id) > 0)
                nb_pin_format(key_id, request->proof_key);
        request->pem_len = pem.len;
        request->pem = TAKE(pem.data);
}

/* No message quotes what the requestor chose. */
static const char *find_flaw(struct nb_json *json, const struct nb_node_request *request) {
        const struct nb_pkcs10_facts *facts = &request->facts;
        const bool is_client = request->kind == NB_NODE_REQUEST_CLIENT;
        const char *user = nb_json_string(json, "spec.username");

        if (!nb_csr_name_is_usable(nb_json_string(json, "metadata.name")))
                return "its name is not usable";
        if (user && strcmp(user, request->username) != 0)
                return "the requestor's name is too long or not printable";
        if (!has_text(json, "spec.usages", is_client ? "client auth" : "server auth") ||
            !has_text(json, "spec.usages", "digital signature") ||
            nb_json_array(json, "spec.usages") !=
                    2 + has_text(json, "spec.usages", "key encipherment"))
                return is_client ? "the usages are not 'client auth' and 'digital signature'"
                                 : "the usages are not 'server auth' and 'digital signature'";
        if (!request->pem)
                return "it is not a certificate signing request in PEM with a valid signature, "
                       "printable values and at most 32 alternative names";
        if (!request->node[0])
                return "the common name is not '" NB_NODE_COMMON_NAME_PREFIX
                       "' and the name of a node";
        if (strcmp(facts->organization, NB_NODE_ORGANIZATION) != 0)
                return "the organization is not '" NB_NODE_ORGANIZATION "'";
        if (!facts->is_subject_plain)
                return "the subject has more than one organization and one common name";
        if (is_client ? facts->n_names > 0 : facts->n_names == 0)
                return is_client ? "it has alternative names" : "it has no alternative names";
        for (unsigned i = 0; i < facts->n_names; i++) {
                if (facts->names[i].type == NB_REQUEST_NAME_OTHER)
                        return "an alternative name is not a DNS name, IPv4 or IPv6 address";
                for (unsigned k = 0; k < i; k++)
                        if (strcasecmp(facts->names[k].text, facts->names[i].text) == 0)
                                return "an alternative name occurs twice";
        }
        if (facts->has_other_extensions)
                return "it requests extensions other than alternative names";
        if (is_client)
                return "";
        if (strcmp(request->username, facts->common_name) != 0)
                return "the requestor is not the node that the request names";
        return request->is_group_exact ? ""
                                       : "the requestor is not in the group '" NB_NODE_ORGANIZATION
                                         "'";
}

void nb_node_request_read(struct nb_json *json, struct nb_node_request *ret_request) {
        struct nb_node_request *request = ret_request;
        const char *name = nb_json_string(json, "metadata.name");
        const char *signer = nb_json_string(json, "spec.signerName");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        const char *certificate = nb_json_string(json, "status.certificate");
        const char *time = nb_json_string(json, "status.conditions[type=Approved].lastUpdateTime");
        const char *reason = nb_json_string(json, "status.conditions[type=Approved].reason");

        *request = (struct nb_node_request){ 0 };
        nb_json_copy(json, "metadata.uid", request->uid, sizeof(request->uid));
        nb_json_copy(json, "metadata.resourceVersion", request->resource_version,
                     sizeof(request->resource_version));
        request->state = read_state(json);
        request->has_certificate = certificate && certificate[0];
        if (!name || !signer)
                return;
        if (nb_csr_name_is_usable(name))
                NB_TEXT_COPY(request->name, name);
        else
                snprintf(request->name, sizeof(request->name), "uid/%s", request->uid);
        if (strcmp(signer, NB_CSR_SIGNER) == 0)
                request->kind = NB_NODE_REQUEST_CLIENT;
        else if (strcmp(signer, NB_SIGNER_SERVING) == 0)
                request->kind = NB_NODE_REQUEST_SERVING;
        else
                return;
        if (created && nb_rfc3339_parse(created, &request->created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        if (time && nb_rfc3339_parse(time, &request->approved) < 0)
                request->approved = 0;
        request->is_approved_by_controller = reason && !strcmp(reason, NB_APPROVED_REASON);
        request->is_approved_by_command = reason && !strcmp(reason, NB_APPROVED_BY_COMMAND);
        read_requestor(json, request);
        read_request(json, request);
        snprintf(request->flaw, sizeof(request->flaw), "%s", find_flaw(json, request));
        if (json->r < 0)
                nb_node_request_done(request);
}

void nb_node_request_done(struct nb_node_request *request) {
        free(request->pem);
        request->pem = NULL;
}
