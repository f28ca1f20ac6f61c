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
#include "system/clock.h"

#define ORGANIZATION "system:nodes"
#define BOOTSTRAP_GROUP "system:bootstrappers" /* the API server adds it to each token's user */
#define USER_PREFIX "system:node:"
#define GROUPS_MAX 64
#define USAGES_MAX 8
#define PATH_SIZE 64

/* The first flaw is kept. Values of the requestor are quoted, and made printable. */
static void __attribute__((format(printf, 2, 3)))
set_flaw(struct nb_node_request *request, const char *format, ...) {
        char text[2 * sizeof(request->flaw)];
        va_list arguments;

        if (request->flaw[0])
                return;
        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        NB_TEXT_COPY_LINE(request->flaw, text);
}

static void set_flaw_quoted(struct nb_node_request *request, const char *what, const char *found,
                            const char *expected) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (!found[0])
                set_flaw(request, "there is no %s, expected %s", what, expected);
        else
                set_flaw(request, "the %s is %s, expected %s", what,
                         nb_text_quote(found, strlen(found), quoted), expected);
}

/* --- What the API server says --- */

bool nb_csr_name_is_usable(const char *name) {
        size_t len = strlen(name);

        return len > 0 && len <= NB_CSR_NAME_MAX && name[0] != '.' &&
               strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:") ==
                       len;
}

static enum nb_node_request_kind find_kind(const char *signer) {
        if (signer && strcmp(signer, NB_SIGNER_CLIENT) == 0)
                return NB_NODE_REQUEST_CLIENT;
        if (signer && strcmp(signer, NB_SIGNER_SERVING) == 0)
                return NB_NODE_REQUEST_SERVING;
        return NB_NODE_REQUEST_OTHER;
}

/* The API server accepts each type of condition once, and Approved and Denied only with the status
 * True (or, in older versions, none). */
static enum nb_csr_state read_state(struct nb_json *json) {
        static const struct {
                const char *path;
                enum nb_csr_state state;
        } conditions[] = {
                { "status.conditions[type=Denied].type", NB_CSR_STATE_DENIED },
                { "status.conditions[type=Failed].type", NB_CSR_STATE_FAILED },
                { "status.conditions[type=Approved].type", NB_CSR_STATE_APPROVED },
        };

        for (size_t i = 0; i < N_ELEMENTS(conditions); i++)
                if (nb_json_string(json, conditions[i].path))
                        return conditions[i].state;
        return NB_CSR_STATE_PENDING;
}

static bool is_token_id(const char *text) {
        return strlen(text) == NB_TOKEN_ID_LEN &&
               strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == NB_TOKEN_ID_LEN;
}

static void read_requestor(struct nb_json *json, struct nb_node_request *request) {
        const size_t prefix_len = strlen(NB_BOOTSTRAP_USER_PREFIX);
        const char *user = nb_json_string(json, "spec.username");
        ssize_t n_groups = nb_json_array(json, "spec.groups");
        bool is_bootstrapper = false;

        user = user ? user : "";
        NB_TEXT_COPY_LINE(request->username, user);
        if (strcmp(user, request->username) != 0)
                set_flaw(request, "the requestor's name is too long or not printable");
        else if (strncmp(user, NB_BOOTSTRAP_USER_PREFIX, prefix_len) == 0 &&
                 is_token_id(user + prefix_len))
                memcpy(request->token_id, user + prefix_len, NB_TOKEN_ID_LEN + 1);
        for (ssize_t i = 0; i < n_groups && i < GROUPS_MAX; i++) {
                char path[PATH_SIZE];
                const char *group;

                snprintf(path, sizeof(path), "spec.groups[%zd]", i);
                group = nb_json_string(json, path);
                if (!group)
                        continue;
                request->is_group_exact |= !strcmp(group, ORGANIZATION);
                request->is_in_bound_group |= !strcmp(group, NB_TOKEN_GROUP_NODE);
                request->is_in_enrolled_group |= !strcmp(group, NB_TOKEN_GROUP_ENROLLED);
                is_bootstrapper |= !strcmp(group, BOOTSTRAP_GROUP);
        }
        /* Another authenticator may give out names of this form. */
        if (!is_bootstrapper)
                request->token_id[0] = '\0';
}

/* --- What the request asks for --- */

static void read_usages(struct nb_json *json, struct nb_node_request *request) {
        enum { SIGNATURE = 1, ENCIPHERMENT = 2, AUTH = 4 };
        const bool is_client = request->kind == NB_NODE_REQUEST_CLIENT;
        const char *auth = is_client ? "client auth" : "server auth";
        const ssize_t n = nb_json_array(json, "spec.usages");
        unsigned found = 0;

        for (ssize_t i = 0; i < n && i < USAGES_MAX; i++) {
                char path[PATH_SIZE];
                const char *usage;

                snprintf(path, sizeof(path), "spec.usages[%zd]", i);
                usage = nb_json_string(json, path);
                if (usage && strcmp(usage, "digital signature") == 0)
                        found |= SIGNATURE;
                else if (usage && strcmp(usage, "key encipherment") == 0)
                        found |= ENCIPHERMENT;
                else if (usage && strcmp(usage, auth) == 0)
                        found |= AUTH;
                else
                        set_flaw_quoted(request, "usage", usage ? usage : "",
                                        is_client ? "those of a client" : "those of a server");
        }
        if (n > USAGES_MAX || (found | ENCIPHERMENT) != (SIGNATURE | ENCIPHERMENT | AUTH))
                set_flaw(request, "the usages are not '%s' and 'digital signature'", auth);
}

static void check_subject(struct nb_node_request *request) {
        const size_t prefix_len = strlen(USER_PREFIX);
        const char *name = request->facts.common_name;
        char node[NB_NODE_NAME_MAX + 1];

        /* nb_node_name_parse() trims and lowers the name, so compare. */
        if (strncmp(name, USER_PREFIX, prefix_len) == 0 &&
            nb_node_name_parse(name + prefix_len, strlen(name + prefix_len), node) >= 0 &&
            strcmp(name + prefix_len, node) == 0)
                memcpy(request->node, node, sizeof(node));
        else
                set_flaw_quoted(request, "common name", name,
                                "'" USER_PREFIX "' and the name of a node");
        if (strcmp(request->facts.organization, ORGANIZATION) != 0)
                set_flaw_quoted(request, "organization", request->facts.organization,
                                "'" ORGANIZATION "'");
        if (!request->facts.is_subject_plain)
                set_flaw(request, "the subject has more than one organization and one common name");
}

static void check_names(struct nb_node_request *request) {
        const struct nb_pkcs10_facts *facts = &request->facts;
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (request->kind == NB_NODE_REQUEST_CLIENT && facts->n_names > 0)
                set_flaw(request, "it has the alternative name %s, expected none for a client",
                         nb_text_quote(facts->names[0].text, strlen(facts->names[0].text), quoted));
        if (request->kind == NB_NODE_REQUEST_SERVING && facts->n_names == 0)
                set_flaw(request, "it has no alternative names");
        for (unsigned i = 0; i < facts->n_names; i++) {
                const struct nb_pkcs10_csr_name *name = &facts->names[i];

                nb_text_quote(name->text, strlen(name->text), quoted);
                if (name->type == NB_REQUEST_NAME_OTHER)
                        set_flaw(request,
                                 "the alternative name %s is not a DNS name, IPv4 or IPv6 address",
                                 quoted);
                for (unsigned k = 0; k < i; k++)
                        if (strcasecmp(facts->names[k].text, name->text) == 0)
                                set_flaw(request, "the alternative name %s occurs twice", quoted);
        }
        if (facts->has_other_extensions)
                set_flaw(request, "it requests extensions other than alternative names");
}

static void check_facts(struct nb_node_request *request) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        check_subject(request);
        check_names(request);
        if (request->kind != NB_NODE_REQUEST_SERVING)
                return;
        if (strcmp(request->username, request->facts.common_name) != 0)
                set_flaw(request, "the requestor %s is not the node that the request names",
                         nb_text_quote(request->username, strlen(request->username), quoted));
        if (!request->is_group_exact)
                set_flaw(request, "the requestor is not in the group '" ORGANIZATION "'");
}

static int decode_request(struct nb_json *json, struct nb_buffer *ret) {
        const char *text = nb_json_string(json, "spec.request");

        return text ? nb_base64_decode(text, strlen(text), ret) : -EINVAL;
}

static void read_request(struct nb_json *json, struct nb_node_request *request) {
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        int r = decode_request(json, &pem);

        if (r >= 0)
                r = nb_pkcs10_facts_read(pem.data, pem.len, &request->facts);
        if (r == -ENOMEM) {
                json->r = nb_failure_set_memory(json->f);
                return;
        }
        if (r == -E2BIG)
                set_flaw(request, "it is too large, or has more than %d alternative names",
                         NB_REQUEST_NAMES_MAX);
        else if (r < 0)
                set_flaw(request, "it is not a certificate signing request in PEM with a valid "
                                  "signature and printable values");
        if (r < 0)
                return;
        check_facts(request);
        request->pem_len = pem.len;
        request->pem = TAKE(pem.data);
}

static void read_approval(struct nb_json *json, struct nb_node_request *request) {
        const char *time = nb_json_string(json, "status.conditions[type=Approved].lastUpdateTime");
        const char *reason = nb_json_string(json, "status.conditions[type=Approved].reason");

        if (time && nb_rfc3339_parse(time, &request->approved) < 0)
                request->approved = 0;
        request->is_approved_by_controller = reason && !strcmp(reason, NB_APPROVED_REASON);
}

void nb_node_request_read(struct nb_json *json, struct nb_node_request *ret_request) {
        struct nb_node_request *request = ret_request;
        const char *name = nb_json_string(json, "metadata.name");
        const char *created = nb_json_string(json, "metadata.creationTimestamp");
        const char *certificate = nb_json_string(json, "status.certificate");

        *request = (struct nb_node_request){ 0 };
        nb_json_copy(json, "metadata.uid", request->uid, sizeof(request->uid));
        nb_json_copy(json, "metadata.resourceVersion", request->resource_version,
                     sizeof(request->resource_version));
        request->state = read_state(json);
        request->has_certificate = certificate && certificate[0];
        if (!name || !nb_csr_name_is_usable(name)) {
                nb_json_line(json, "metadata.name", request->name, sizeof(request->name));
                return;
        }
        memcpy(request->name, name, strlen(name) + 1);
        request->kind = find_kind(nb_json_string(json, "spec.signerName"));
        if (request->kind == NB_NODE_REQUEST_OTHER)
                return;
        if (created && nb_rfc3339_parse(created, &request->created) < 0)
                nb_json_refuse(json, "metadata.creationTimestamp", "a time", created);
        read_approval(json, request);
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
