/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "admin/policy/node_request.h"
#include "base/encoding.h"
#include "make_request.h"

#define CLIENT NB_CSR_SIGNER
#define SERVING NB_SIGNER_SERVING
#define CLIENT_USAGES "\"digital signature\",\"client auth\""
#define SERVING_USAGES "\"digital signature\",\"server auth\""
#define NODE_A \
        { O, "system:nodes", CN, "system:node:a" }
#define OF_NODE_A .username = "system:node:a", .groups = "\"system:nodes\""
#define DNS(text) \
        { GNUTLS_SAN_DNSNAME, text, 0 }
#define ADDRESS \
        { GNUTLS_SAN_IPADDRESS, "\x0a\0\0\5", 4 }

static struct row {
        const char *name;
        const char *signer;
        struct made_request made;
        const char *usages;
        const char *username; /* NULL: system:bootstrap:abcdef */
        const char *groups;   /* NULL: the groups of a bootstrap token */
        const char *flaw;     /* a part of it; "": there is none */
        const char *node;     /* NULL: "a" */
} rows[] = {
        { "a client's", CLIENT, { NODE_A }, CLIENT_USAGES, NULL, NULL, "" },
        { "a client's, with key encipherment",
          CLIENT,
          { NODE_A },
          "\"key encipherment\"," CLIENT_USAGES,
          NULL,
          NULL,
          "" },
        { "a client's, usages in another order",
          CLIENT,
          { NODE_A },
          "\"client auth\",\"digital signature\"",
          NULL,
          NULL,
          "" },
        { "a server's",
          SERVING,
          { NODE_A, .names = { DNS("a"), ADDRESS } },
          SERVING_USAGES,
          OF_NODE_A,
          "" },
        { "a server's, without a DNS name",
          SERVING,
          { NODE_A, .names = { ADDRESS } },
          SERVING_USAGES,
          OF_NODE_A,
          "" },
        { "client: usages of a server",
          CLIENT,
          { NODE_A },
          SERVING_USAGES,
          NULL,
          NULL,
          "the usages are not 'client auth' and 'digital signature'" },
        { "client: one more usage",
          CLIENT,
          { NODE_A },
          CLIENT_USAGES ",\"server auth\"",
          NULL,
          NULL,
          "the usages are not 'client auth' and 'digital signature'" },
        { "client: a usage is missing",
          CLIENT,
          { NODE_A },
          "\"client auth\"",
          NULL,
          NULL,
          "the usages are not 'client auth' and 'digital signature'" },
        { "client: no usage of a client",
          CLIENT,
          { NODE_A },
          "\"digital signature\"",
          NULL,
          NULL,
          "the usages are not 'client auth' and 'digital signature'" },
        { "client: too many usages, of which the last is another",
          CLIENT,
          { NODE_A },
          CLIENT_USAGES "," CLIENT_USAGES "," CLIENT_USAGES "," CLIENT_USAGES ",\"cert sign\"",
          NULL,
          NULL,
          "the usages are not" },
        { "client: a usage twice",
          CLIENT,
          { NODE_A },
          CLIENT_USAGES ",\"client auth\"",
          NULL,
          NULL,
          "the usages are not" },
        { "client: no usage", CLIENT, { NODE_A }, "", NULL, NULL, "the usages are not" },
        { "client: another organization",
          CLIENT,
          { { O, "system:masters", CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the organization is not 'system:nodes'" },
        { "client: organization in capitals",
          CLIENT,
          { { O, "System:Nodes", CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the organization is not 'system:nodes'" },
        { "client: an organization that begins with the expected one",
          CLIENT,
          { { O, "system:nodes:x", CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the organization is not 'system:nodes'" },
        { "client: one more organization",
          CLIENT,
          { { O, "system:nodes", O, "system:masters", CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "more than one organization" },
        { "client: the other organization first",
          CLIENT,
          { { O, "system:masters", O, "system:nodes", CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the organization is not 'system:nodes'" },
        { "client: no organization",
          CLIENT,
          { { CN, "system:node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the organization is not 'system:nodes'" },
        { "client: one more attribute",
          CLIENT,
          { { O, "system:nodes", CN, "system:node:a", OU, "x" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the subject has more" },
        { "client: a common name without the prefix",
          CLIENT,
          { { O, "system:nodes", CN, "a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: the prefix in capitals",
          CLIENT,
          { { O, "system:nodes", CN, "System:Node:a" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: a node name in capitals",
          CLIENT,
          { { O, "system:nodes", CN, "system:node:A" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: a node name with a space",
          CLIENT,
          { { O, "system:nodes", CN, "system:node:a " } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: no node name",
          CLIENT,
          { { O, "system:nodes", CN, "system:node:" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: a path as node name",
          CLIENT,
          { { O, "system:nodes", CN, "system:node:a/../b" } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "the common name is not",
          "" },
        { "client: an alternative name",
          CLIENT,
          { NODE_A, .names = { DNS("a") } },
          CLIENT_USAGES,
          NULL,
          NULL,
          "it has alternative names" },
        { "client: another extension",
          CLIENT,
          { NODE_A, .has_usages = true },
          CLIENT_USAGES,
          NULL,
          NULL,
          "extensions other than" },
        { "client: a wrong signature",
          CLIENT,
          { NODE_A, .is_signature_wrong = true },
          CLIENT_USAGES,
          NULL,
          NULL,
          "it is not a certificate signing request",
          "" },
        { "server: no alternative names",
          SERVING,
          { NODE_A },
          SERVING_USAGES,
          OF_NODE_A,
          "it has no alternative names" },
        { "server: a URI",
          SERVING,
          { NODE_A, .names = { ADDRESS, { GNUTLS_SAN_URI, "https://a", 0 } } },
          SERVING_USAGES,
          OF_NODE_A,
          "is not a DNS name" },
        { "server: an email address",
          SERVING,
          { NODE_A, .names = { { GNUTLS_SAN_RFC822NAME, "a@b", 0 } } },
          SERVING_USAGES,
          OF_NODE_A,
          "is not a DNS name" },
        { "server: a name twice",
          SERVING,
          { NODE_A, .names = { DNS("a"), DNS("A") } },
          SERVING_USAGES,
          OF_NODE_A,
          "occurs twice" },
        { "server: too many names",
          SERVING,
          { NODE_A, .n_more_names = 33 },
          SERVING_USAGES,
          OF_NODE_A,
          "at most 32 alternative names",
          "" },
        { "server: usages of a client",
          SERVING,
          { NODE_A, .names = { ADDRESS } },
          CLIENT_USAGES,
          OF_NODE_A,
          "the usages are not 'server auth' and 'digital signature'" },
        { "server: requested by another node",
          SERVING,
          { NODE_A, .names = { ADDRESS } },
          SERVING_USAGES,
          "system:node:b",
          "\"system:nodes\"",
          "the requestor is not the node" },
        { "server: requested by a token",
          SERVING,
          { NODE_A, .names = { ADDRESS } },
          SERVING_USAGES,
          NULL,
          NULL,
          "the requestor is not the node" },
        { "server: requested by a user of that name outside of the group",
          SERVING,
          { NODE_A, .names = { ADDRESS } },
          SERVING_USAGES,
          "system:node:a",
          "\"system:nodes:x\",\"system:authenticated\"",
          "not in the group" },
};

static void format_object(const struct row *row, const char *name, const char *pem,
                          struct nb_buffer *ret) {
        struct nb_buffer base64 = NB_BUFFER_INIT(65536);

        nb_base64_encode(pem, strlen(pem), &base64);
        nb_buffer_printf(ret,
                         "{\"metadata\":{\"name\":\"%s\",\"uid\":\"u-1\",\"resourceVersion\":\"7\","
                         "\"creationTimestamp\":\"2026-11-23T07:00:00Z\"},\"spec\":{\"request\":"
                         "\"%s\",\"signerName\":\"%s\",\"usages\":[%s],\"username\":\"%s\","
                         "\"groups\":[%s]},\"status\":{}}",
                         name, base64.data, row->signer, row->usages,
                         row->username ? row->username : "system:bootstrap:abcdef",
                         row->groups ? row->groups : "\"system:bootstrappers\"");
        assert_int_equal(ret->error, 0);
        nb_buffer_done(&base64);
}

static void read_object(const char *text, size_t len, struct nb_node_request *ret) {
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(text, len, "the CSR", NB_ANSWER_MALFORMED, &f);

        nb_node_request_read(&json, ret);
        assert_string_equal(f.detail, "");
        assert_int_equal(json.r, 0);
        nb_json_done(&json);
}

static void request_is_judged(void **state) {
        const struct row *row = *state;
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        struct nb_node_request request;
        char *pem = make_request(&row->made);

        format_object(row, "csr-x", pem, &text);
        read_object(text.data, text.len, &request);
        if (row->flaw[0])
                assert_non_null(strstr(request.flaw, row->flaw));
        else
                assert_string_equal(request.flaw, "");
        assert_string_equal(request.node, row->node ? row->node : "a");
        assert_string_equal(request.token_id, row->username ? "" : "abcdef");
        assert_int_equal(request.kind, strcmp(row->signer, CLIENT) == 0 ? NB_NODE_REQUEST_CLIENT
                                                                        : NB_NODE_REQUEST_SERVING);
        assert_int_equal(request.state, NB_CSR_STATE_PENDING);
        assert_int_equal(request.created, 1795417200);
        assert_string_equal(request.name, "csr-x");
        assert_string_equal(request.uid, "u-1");
        assert_string_equal(request.resource_version, "7");
        nb_node_request_done(&request);
        nb_buffer_done(&text);
        free(pem);
}

static struct user {
        const char *name;
        const char *username;
        const char *token_id;
        const char *flaw;
        const char *groups; /* NULL: those of a token */
        bool is_in_bound_group, is_in_enrolled_group;
} users[] = {
        { "a token", "system:bootstrap:012xyz", "012xyz", "" },
        { "a bound token", "system:bootstrap:012xyz", "012xyz", "",
          "\"system:bootstrappers\",\"system:bootstrappers:node-bootstrap\"", true, false },
        { "an enrolled token", "system:bootstrap:012xyz", "012xyz", "",
          "\"system:bootstrappers:node-bootstrap-enrolled\",\"system:bootstrappers\"", false,
          true },
        { "an ID that is too long", "system:bootstrap:012xyz0", "", "" },
        { "text behind the ID", "system:bootstrap:012xyz:x", "", "" },
        { "an ID in capitals", "system:bootstrap:012XYZ", "", "" },
        { "another prefix", "x-system:bootstrap:012xyz", "", "" },
        { "a line break", "system:bootstrap:012xyz\\n", "", "the requestor's name is" },
        { "another user", "kubernetes-admin", "", "" },
        { "without the group", "system:bootstrap:012xyz", "", "", "\"system:authenticated\"" },
        { "a group that begins with it", "system:bootstrap:012xyz", "", "",
          "\"system:bootstrappers:node-bootstraps\"" },
        { "no group", "system:bootstrap:012xyz", "", "", "" },
};

static void token_is_recognized(void **state) {
        const struct user *user = *state;
        const struct row row = { .signer = CLIENT,
                                 .usages = CLIENT_USAGES,
                                 .username = user->username,
                                 .groups = user->groups };
        const struct made_request made = { NODE_A };
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        struct nb_node_request request;
        char *pem = make_request(&made);

        format_object(&row, "csr-x", pem, &text);
        read_object(text.data, text.len, &request);
        assert_string_equal(request.token_id, user->token_id);
        assert_int_equal(request.is_in_bound_group, user->is_in_bound_group);
        assert_int_equal(request.is_in_enrolled_group, user->is_in_enrolled_group);
        if (user->flaw[0])
                assert_non_null(strstr(request.flaw, user->flaw));
        else
                assert_string_equal(request.flaw, "");
        nb_node_request_done(&request);
        nb_buffer_done(&text);
        free(pem);
}

#define LONG_NAME \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" \
        "0123456789ab"

/* The holder of a token chooses the name: a request that is not read could use a token unnoticed.
 */
static struct odd_name {
        const char *name;
        const char *text; /* in JSON */
        const char *expected;
        const char *flaw;
} odd_names[] = {
        { "a name with a question mark", "csr?dryRun=All", "csr?dryRun=All", "" },
        { "a name with an escape sequence", "csr-\\u001b[2K", "csr-\033[2K", "" },
        { "a name with a space", "csr x", "csr x", "" },
        { "the longest name", LONG_NAME "x", LONG_NAME "x", "" },
        { "a longer name", LONG_NAME "xy", "uid/u-1", "its name is not usable" },
        { "a name with a percent sign", "csr%2f", "uid/u-1", "its name is not usable" },
        { "an empty name", "", "uid/u-1", "its name is not usable" },
        { "two dots", "..", "uid/u-1", "its name is not usable" },
};

static void odd_name_is_read(void **state) {
        const struct odd_name *odd = *state;
        const struct row row = { .signer = CLIENT, .usages = CLIENT_USAGES };
        const struct made_request made = { NODE_A };
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        struct nb_node_request request;
        char *pem = make_request(&made);

        format_object(&row, odd->text, pem, &text);
        read_object(text.data, text.len, &request);
        assert_int_equal(request.kind, NB_NODE_REQUEST_CLIENT);
        assert_string_equal(request.name, odd->expected);
        assert_string_equal(request.flaw, odd->flaw);
        nb_node_request_done(&request);
        nb_buffer_done(&text);
        free(pem);
}

static struct condition {
        const char *name;
        const char *status;
        enum nb_csr_state state;
        bool has_certificate;
} conditions[] = {
        { "no conditions", "{}", NB_CSR_STATE_PENDING, false },
        { "approved", "{\"conditions\":[{\"type\":\"Approved\"}]}", NB_CSR_STATE_APPROVED, false },
        { "issued", "{\"conditions\":[{\"type\":\"Approved\"}],\"certificate\":\"QQ==\"}",
          NB_CSR_STATE_APPROVED, true },
        { "approved and denied", "{\"conditions\":[{\"type\":\"Approved\"},{\"type\":\"Denied\"}]}",
          NB_CSR_STATE_DENIED, false },
        { "approved and failed",
          "{\"conditions\":[{\"type\":\"Approved\"},{\"type\":\"Failed\",\"status\":\"True\"}]}",
          NB_CSR_STATE_FAILED, false },
};

static void state_is_read(void **state) {
        const struct condition *condition = *state;
        struct nb_buffer text = NB_BUFFER_INIT(4096);
        struct nb_node_request request;

        nb_buffer_printf(&text,
                         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
                         "\"spec\":{\"signerName\":\"example.org/other\"},\"status\":%s}",
                         condition->status);
        read_object(text.data, text.len, &request);
        assert_int_equal(request.kind, NB_NODE_REQUEST_OTHER);
        assert_int_equal(request.state, condition->state);
        assert_int_equal(request.has_certificate, condition->has_certificate);
        nb_buffer_done(&text);
}

int main(void) {
        CASES(rows, request_is_judged);
        CASES(users, token_is_recognized);
        CASES(odd_names, odd_name_is_read);
        CASES(conditions, state_is_read);
        return case_run("node request");
}
