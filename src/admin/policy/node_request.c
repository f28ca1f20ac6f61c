/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "crypto/pkcs10.h"
#include "system/clock.h"

#define ORGANIZATION NB_NODE_ORGANIZATION
#define BOOTSTRAP_GROUP "system:bootstrappers" /* the API server adds it to each token's user */

/* The first flaw is kept, and made printable. The format cuts what the requestor chose. */
static void __attribute__((format(printf, 2, 3)))
set_flaw(struct nb_node_request *request, const char *format, ...) {
        va_list arguments;

        if (request->flaw[0])
                return;
        va_start(arguments, format);
        vsnprintf(request->flaw, sizeof(request->flaw), format, arguments);
        va_end(arguments);
        NB_TEXT_COPY_LINE(request->flaw, request->flaw);
}

/* --- What the API server says --- */

bool nb_csr_name_is_usable(const char *name) {
        size_t len = strlen(name);

        return len > 0 && len <= NB_CSR_NAME_MAX && name[0] != '.' &&
               strspn(name, NB_LOWER NB_UPPER NB_DIGITS "-_.:") == len;
}

/* The API server accepts each type of condition once, and Approved and Denied only with the status
 * True (or, in older versions, none). */
static enum nb_csr_state read_state(struct nb_json *json) {
        if (nb_json_string(json, "status.conditions[type=Denied].type"))
                return NB_CSR_STATE_DENIED;
        if (nb_json_string(json, "status.conditions[type=Failed].type"))
                return NB_CSR_STATE_FAILED;
        return nb_json_string(json, "status.conditions[type=Approved].type") ? NB_CSR_STATE_APPROVED
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
        const size_t prefix_len = strlen(NB_BOOTSTRAP_USER_PREFIX);
        const char *user = nb_json_string(json, "spec.username"), *id;

        nb_json_line(json, "spec.username", request->username, sizeof(request->username));
        if (user && strcmp(user, request->username) != 0)
                set_flaw(request, "the requestor's name is too long or not printable");
        request->is_group_exact = has_text(json, "spec.groups", ORGANIZATION);
        request->is_in_bound_group = has_text(json, "spec.groups", NB_TOKEN_GROUP_NODE);
        request->is_in_enrolled_group = has_text(json, "spec.groups", NB_TOKEN_GROUP_ENROLLED);
        /* Another authenticator may give out names of this form. */
        if (strncmp(request->username, NB_BOOTSTRAP_USER_PREFIX, prefix_len) != 0 ||
            request->flaw[0] || !has_text(json, "spec.groups", BOOTSTRAP_GROUP))
                return;
        id = request->username + prefix_len;
        if (strlen(id) == NB_TOKEN_ID_LEN && strspn(id, NB_LOWER NB_DIGITS) == NB_TOKEN_ID_LEN)
                strcpy(request->token_id, id);
}

/* --- What the request asks for --- */

static void read_usages(struct nb_json *json, struct nb_node_request *request) {
        const char *auth = request->kind == NB_NODE_REQUEST_CLIENT ? "client auth" : "server auth";

        if (!has_text(json, "spec.usages", auth) ||
            !has_text(json, "spec.usages", "digital signature") ||
            nb_json_array(json, "spec.usages") !=
                    2 + has_text(json, "spec.usages", "key encipherment"))
                set_flaw(request, "the usages are not '%s' and 'digital signature'", auth);
}

static void check_subject(struct nb_node_request *request) {
        const struct nb_pkcs10_facts *facts = &request->facts;
        const size_t prefix_len = strlen(NB_NODE_COMMON_NAME_PREFIX);
        const char *name = facts->common_name + prefix_len;

        if (strncmp(facts->common_name, NB_NODE_COMMON_NAME_PREFIX, prefix_len) == 0 &&
            nb_dns_name_is_valid(name, strlen(name), NB_NODE_NAME_MAX))
                strcpy(request->node, name);
        else
                set_flaw(request,
                         "the common name is '%.96s', expected '" NB_NODE_COMMON_NAME_PREFIX
                         "' and the name of a node",
                         facts->common_name);
        if (strcmp(facts->organization, ORGANIZATION) != 0)
                set_flaw(request, "the organization is '%.96s', expected '" ORGANIZATION "'",
                         facts->organization);
        if (!facts->is_subject_plain)
                set_flaw(request, "the subject has more than one organization and one common name");
}

static void check_names(struct nb_node_request *request) {
        const struct nb_pkcs10_facts *facts = &request->facts;

        for (unsigned i = 0; i < facts->n_names; i++) {
                const struct nb_pkcs10_csr_name *name = &facts->names[i];

                if (request->kind == NB_NODE_REQUEST_CLIENT)
                        set_flaw(request,
                                 "it has the alternative name '%.96s', expected none for a client",
                                 name->text);
                if (name->type == NB_REQUEST_NAME_OTHER)
                        set_flaw(request,
                                 "the alternative name '%.96s' is not a DNS name, IPv4 or IPv6 "
                                 "address",
                                 name->text);
                for (unsigned k = 0; k < i; k++)
                        if (strcasecmp(facts->names[k].text, name->text) == 0)
                                set_flaw(request, "the alternative name '%.96s' occurs twice",
                                         name->text);
        }
        if (facts->has_other_extensions)
                set_flaw(request, "it requests extensions other than alternative names");
        if (request->kind != NB_NODE_REQUEST_SERVING)
                return;
        if (facts->n_names == 0)
                set_flaw(request, "it has no alternative names");
        if (strcmp(request->username, facts->common_name) != 0)
                set_flaw(request, "the requestor '%.96s' is not the node that the request names",
                         request->username);
        if (!request->is_group_exact)
                set_flaw(request, "the requestor is not in the group '" ORGANIZATION "'");
}

static void read_request(struct nb_json *json, struct nb_node_request *request) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text = nb_json_string(json, "spec.request");
        int r = text ? nb_base64_decode(text, strlen(text), &pem) : -EINVAL;

        if (r >= 0)
                r = nb_pkcs10_facts_read(pem.data, pem.len, &request->facts);
        if (r == -ENOMEM)
                json->r = nb_failure_set_memory(json->f);
        else if (r == -E2BIG)
                set_flaw(request, "it is too large, or has more than %d alternative names",
                         NB_REQUEST_NAMES_MAX);
        else if (r < 0)
                set_flaw(request, "it is not a certificate signing request in PEM with a valid "
                                  "signature and printable values");
        if (r < 0)
                return;
        check_subject(request);
        check_names(request);
        request->pem_len = pem.len;
        request->pem = TAKE(pem.data);
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
        nb_json_line(json, "metadata.name", request->name, sizeof(request->name));
        request->state = read_state(json);
        request->has_certificate = certificate && certificate[0];
        if (!name || !nb_csr_name_is_usable(name) || !signer)
                return;
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
        read_requestor(json, request);
        read_usages(json, request);
        read_request(json, request);
        if (json->r < 0)
                nb_node_request_done(request);
}

void nb_node_request_done(struct nb_node_request *request) {
        free(request->pem);
        request->pem = NULL;
}
