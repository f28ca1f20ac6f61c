/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kube_objects/csr.h"

#include "allocation.h"
#include "case.h"

#define META \
        "\"metadata\":{\"name\":\"node-csr-x\",\"uid\":\"6a7e\",\"resourceVersion\":\"42\"," \
        "\"managedFields\":[{}]}"
#define SPEC \
        "\"spec\":{\"request\":\"UEVN\",\"signerName\":\"kubernetes.io/" \
        "kube-apiserver-client-kubelet\",\"usages\":[\"client auth\"]," \
        "\"username\":\"system:bootstrap:abc123\"}"
#define CSR(status) \
        "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":\"certificates.k8s.io/v1\"," META \
        "," SPEC ",\"status\":" status "}"
#define CONDITION(type, status, reason, message) \
        "{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason \
        "\",\"message\":\"" message "\"}"
#define APPROVED CONDITION("Approved", "True", "AutoApproved", "Auto approving")
#define DENIED CONDITION("Denied", "True", "KubectlDeny", "no")
#define FAILED CONDITION("Failed", "True", "SignerValidationFailure", "bad")

static void formats(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer json = NB_BUFFER_INIT(4096);

        assert_int_equal(
                nb_csr_format("node-csr-x", &(struct nb_csr_request){ "PEM", 3, 0 }, &json), 0);
        assert_string_equal(
                json.data,
                "{\"apiVersion\":\"certificates.k8s.io/v1\",\"kind\":\"CertificateSigningRequest\","
                "\"metadata\":{\"name\":\"node-csr-x\"},\"spec\":{\"request\":\"UEVN\","
                "\"signerName\":\"kubernetes.io/kube-apiserver-client-kubelet\","
                "\"usages\":[\"digital signature\",\"key encipherment\",\"client auth\"]}}");
        nb_buffer_clear(&json);
        assert_int_equal(
                nb_csr_format("node-csr-x", &(struct nb_csr_request){ "PEM", 3, 3600 }, &json), 0);
        assert_non_null(strstr(json.data, ",\"expirationSeconds\":3600,"));
}

static void formatting_keeps_the_ceiling(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer json = NB_BUFFER_INIT(64);

        assert_int_equal(
                nb_csr_format("node-csr-x", &(struct nb_csr_request){ "PEM", 3, 0 }, &json),
                -E2BIG);
}

struct state_case {
        const char *name;
        const char *text;
        enum nb_csr_state expected;
        const char *reason, *message;
        const char *certificate;
};

static struct state_case states[] = {
        { "no status", CSR("null"), NB_CSR_STATE_PENDING, "", "", NULL },
        { "an empty status", CSR("{}"), NB_CSR_STATE_PENDING, "", "", NULL },
        { "no conditions", CSR("{\"conditions\":null}"), NB_CSR_STATE_PENDING, "", "", NULL },
        { "approved", CSR("{\"conditions\":[" APPROVED "]}"), NB_CSR_STATE_APPROVED, "AutoApproved",
          "Auto approving", NULL },
        { "approved and issued", CSR("{\"conditions\":[" APPROVED "],\"certificate\":\"UEVN\"}"),
          NB_CSR_STATE_APPROVED, "AutoApproved", "Auto approving", "PEM" },
        { "an empty certificate is ignored",
          CSR("{\"conditions\":[" APPROVED "],\"certificate\":\"\"}"), NB_CSR_STATE_APPROVED,
          "AutoApproved", "Auto approving", NULL },
        { "denied", CSR("{\"conditions\":[" DENIED "]}"), NB_CSR_STATE_DENIED, "KubectlDeny", "no",
          NULL },
        { "failed", CSR("{\"conditions\":[" FAILED "]}"), NB_CSR_STATE_FAILED,
          "SignerValidationFailure", "bad", NULL },
        { "approved, then denied", CSR("{\"conditions\":[" APPROVED "," DENIED "]}"),
          NB_CSR_STATE_DENIED, "KubectlDeny", "no", NULL },
        { "denied, then approved", CSR("{\"conditions\":[" DENIED "," APPROVED "]}"),
          NB_CSR_STATE_DENIED, "KubectlDeny", "no", NULL },
        { "approved, then failed", CSR("{\"conditions\":[" APPROVED "," FAILED "]}"),
          NB_CSR_STATE_FAILED, "SignerValidationFailure", "bad", NULL },
        { "denied and failed: the first one", CSR("{\"conditions\":[" DENIED "," FAILED "]}"),
          NB_CSR_STATE_DENIED, "KubectlDeny", "no", NULL },
        { "a condition that is not true",
          CSR("{\"conditions\":[" CONDITION("Denied", "False", "r", "m") "]}"),
          NB_CSR_STATE_PENDING, "", "", NULL },
        { "a condition without status", CSR("{\"conditions\":[{\"type\":\"Denied\"}]}"),
          NB_CSR_STATE_DENIED, "", "", NULL },
        { "an unknown condition",
          CSR("{\"conditions\":[" CONDITION("Escalated", "True", "r", "m") "]}"),
          NB_CSR_STATE_PENDING, "", "", NULL },
        { "a message of several lines",
          CSR("{\"conditions\":[" CONDITION("Denied", "True", "r", "a\\nb\\u001b[0m") "]}"),
          NB_CSR_STATE_DENIED, "r", "a b [0m", NULL },
};

static void parses_state(void **state) {
        const struct state_case *c = *state;
        _cleanup_(nb_csr_done) struct nb_csr csr = {};
        struct nb_failure f = {};
        int r;

        r = nb_csr_parse(c->text, strlen(c->text), &csr, &f);
        assert_string_equal(f.detail, "");
        assert_int_equal(r, 0);
        assert_string_equal(csr.name, "node-csr-x");
        assert_string_equal(csr.uid, "6a7e");
        assert_string_equal(csr.resource_version, "42");
        assert_string_equal(csr.signer_name, NB_CSR_SIGNER);
        assert_string_equal(csr.request, "PEM");
        assert_int_equal(csr.request_len, 3);
        assert_int_equal(csr.state, c->expected);
        assert_string_equal(csr.reason, c->reason);
        assert_string_equal(csr.message, c->message);
        if (!c->certificate) {
                assert_null(csr.certificate);
                return;
        }
        assert_string_equal(csr.certificate, c->certificate);
        assert_int_equal(csr.certificate_len, strlen(c->certificate));
}

struct refused_case {
        const char *name;
        const char *text;
        const char *detail;
};

#define NAME "certificate signing request: "
#define KIND "\"kind\":\"CertificateSigningRequest\",\"apiVersion\":\"certificates.k8s.io/v1\""

static struct refused_case refused[] = {
        { "an empty object", "{}",
          NAME "kind: expected 'CertificateSigningRequest', found nothing" },
        { "another kind", "{\"kind\":\"Pod\"}",
          NAME "kind: expected 'CertificateSigningRequest', found 'Pod'" },
        { "the beta version",
          "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":\"certificates.k8s.io/v1beta1\"}",
          NAME
          "apiVersion: expected 'certificates.k8s.io/v1', found 'certificates.k8s.io/v1beta1'" },
        { "no metadata", "{" KIND "," SPEC "}",
          NAME "metadata.name: expected printable text of at most 253 bytes, found nothing" },
        { "an empty name", "{" KIND ",\"metadata\":{\"name\":\"\"}," SPEC "}",
          NAME "metadata.name: expected printable text of at most 253 bytes, found nothing" },
        { "no uid", "{" KIND ",\"metadata\":{\"name\":\"a\"}," SPEC "}",
          NAME "metadata.uid: expected printable text of at most 63 bytes, found nothing" },
        { "a resource version that is an integer",
          "{" KIND ",\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":42}," SPEC "}",
          NAME "metadata.resourceVersion: expected a string, found an integer" },
        { "a resource version too long",
          "{" KIND ",\"metadata\":{\"name\":\"a\",\"uid\":\"u\",\"resourceVersion\":"
          "\"1234567890123456789012345678901234567890123456789012345678901234\"}," SPEC "}",
          NAME "metadata.resourceVersion: expected printable text of at most 63 bytes, found "
               "'1234567890123456789012345678901234567890123456789012345678901234'" },
        { "a control character in the uid",
          "{" KIND ",\"metadata\":{\"name\":\"a\",\"uid\":\"\\u001b[0m\"}," SPEC "}",
          NAME "metadata.uid: expected printable text of at most 63 bytes, found '?[0m'" },
        { "no spec", "{" KIND "," META "}",
          NAME "spec.signerName: expected printable text of at most 253 bytes, found nothing" },
        { "a request that is not base64",
          "{" KIND "," META ",\"spec\":{\"request\":\"!\",\"signerName\":\"s\"}}",
          NAME "spec.request: expected PEM in base64, found '!'" },
        { "a request with a NUL in it",
          "{" KIND "," META ",\"spec\":{\"request\":\"AAAA\",\"signerName\":\"s\"}}",
          NAME "spec.request: expected PEM in base64, found 'AAAA'" },
        { "a certificate that is an object", CSR("{\"certificate\":{}}"),
          NAME "status.certificate: expected a string, found an object" },
        { "a certificate with a line end in its base64", CSR("{\"certificate\":\"UEVN\\n\"}"),
          NAME "status.certificate: expected PEM in base64, found 'UEVN?'" },
        { "conditions that are an object", CSR("{\"conditions\":{}}"),
          NAME "status.conditions: expected a list, found an object" },
        { "a condition that is a string", CSR("{\"conditions\":[\"Approved\"]}"),
          NAME "status.conditions[0]: expected an object, found a string" },
        { "a condition whose type is an integer",
          CSR("{\"conditions\":[" APPROVED ",{\"type\":1}]}"),
          NAME "status.conditions[1].type: expected a string, found an integer" },
};

static void refuses(void **state) {
        const struct refused_case *c = *state;
        struct nb_csr csr = {};
        struct nb_failure f = {};

        assert_true(nb_csr_parse(c->text, strlen(c->text), &csr, &f) < 0);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_string_equal(f.detail, c->detail);
        assert_null(csr.request);
}

static void number_of_conditions_has_a_limit(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
        struct nb_csr csr = {};
        struct nb_failure f = {};

        nb_buffer_append_string(&text,
                                "{" KIND "," META "," SPEC ",\"status\":{\"conditions\":[{}");
        for (unsigned i = 0; i < 64; i++)
                nb_buffer_append_string(&text, ",{}");
        nb_buffer_append_string(&text, "]}}");
        assert_true(nb_csr_parse(text.data, text.len, &csr, &f) < 0);
        assert_string_equal(f.detail,
                            NAME "status.conditions: expected at most 64 entries, found 65");
}

struct event_case {
        const char *name;
        const char *text;
        enum nb_csr_event_type type;
        const char *resource_version; /* or the status' message */
};

#define STATUS(code, reason, message) \
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\"," \
        "\"message\":\"" message "\",\"reason\":\"" reason "\",\"code\":" code "}"

static struct event_case events[] = {
        { "event: added", "{\"type\":\"ADDED\",\"object\":" CSR("{}") "}", NB_CSR_EVENT_ADDED,
          "42" },
        { "event: modified",
          "{\"type\":\"MODIFIED\",\"object\":" CSR("{\"certificate\":\"UEVN\"}") "}\n",
          NB_CSR_EVENT_MODIFIED, "42" },
        { "event: deleted", "{\"type\":\"DELETED\",\"object\":" CSR("{}") "}", NB_CSR_EVENT_DELETED,
          "42" },
        { "event: bookmark",
          "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"CertificateSigningRequest\","
          "\"apiVersion\":\"certificates."
          "k8s.io/v1\","
          "\"metadata\":{\"resourceVersion\":\"77\",\"creationTimestamp\":null},\"spec\":{"
          "\"request\":null,"
          "\"signerName\":\"\"},\"status\":{}}}",
          NB_CSR_EVENT_BOOKMARK, "77" },
        { "event: error",
          "{\"type\":\"ERROR\",\"object\":" STATUS("410", "Expired",
                                                   "too old resource version: 1 (2)") "}",
          NB_CSR_EVENT_ERROR, "too old resource version: 1 (2)" },
};

static void parses_event(void **state) {
        const struct event_case *c = *state;
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = {};
        struct nb_failure f = {};

        assert_int_equal(nb_csr_event_parse(c->text, strlen(c->text), &event, &f), 0);
        assert_int_equal(event.type, c->type);
        if (c->type == NB_CSR_EVENT_ERROR) {
                assert_int_equal(event.status.code, 410);
                assert_string_equal(event.status.reason, "Expired");
                assert_string_equal(event.status.message, c->resource_version);
                return;
        }
        assert_string_equal(event.csr.resource_version, c->resource_version);
        assert_string_equal(event.csr.name, c->type == NB_CSR_EVENT_BOOKMARK ? "" : "node-csr-x");
}

static struct refused_case refused_events[] = {
        { "event: no type", "{\"object\":{}}",
          "watch event: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, found "
          "nothing" },
        { "event: an unknown type", "{\"type\":\"Added\",\"object\":{}}",
          "watch event: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, found "
          "'Added'" },
        { "event: no object", "{\"type\":\"ADDED\"}",
          "object of watch event: expected an object, found null" },
        { "event: an object that is a list", "{\"type\":\"ADDED\",\"object\":[]}",
          "watch event: object: expected an object, found a list" },
        { "event: another kind of object", "{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\"}}",
          "object of watch event: kind: expected 'CertificateSigningRequest', found 'Pod'" },
        { "event: a bookmark without a version",
          "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"x\"}}",
          "object of watch event: metadata.resourceVersion: expected printable text of at most 63 "
          "bytes, found nothing" },
        { "event: an error that is no Status", "{\"type\":\"ERROR\",\"object\":{}}",
          "object of watch event: kind: expected 'Status', found nothing" },
        { "event: two in one line", "{\"type\":\"ADDED\"}{\"type\":\"ADDED\"}",
          "watch event: expected JSON, found at byte 16: a second document" },
};

static void refuses_event(void **state) {
        const struct refused_case *c = *state;
        struct nb_csr_event event = {};
        struct nb_failure f = {};

        assert_true(nb_csr_event_parse(c->text, strlen(c->text), &event, &f) < 0);
        assert_int_equal(f.code, NB_ANSWER_MALFORMED);
        assert_string_equal(f.detail, c->detail);
}

struct status_case {
        const char *name;
        const char *text;
        int64_t code;
        const char *reason, *message;
};

static struct status_case statuses[] = {
        { "status: forbidden", STATUS("403", "Forbidden", "User \\\"x\\\" cannot create"), 403,
          "Forbidden", "User \"x\" cannot create" },
        { "status: only a code", "{\"kind\":\"Status\",\"code\":500}", 500, "", "" },
        { "status: nothing in it", "{\"kind\":\"Status\"}", 0, "", "" },
        { "status: another kind", "{\"kind\":\"Pod\"}", 0, "", "" },
        { "status: a code that is a string",
          "{\"kind\":\"Status\",\"message\":\"m\",\"code\":\"500\"}", 0, "", "" },
        { "status: plain text", "404 page not found\n", 0, "", "" },
        { "status: an empty body", "", 0, "", "" },
};

static void parses_status(void **state) {
        const struct status_case *c = *state;
        struct nb_status status;

        memset(&status, 0x5a, sizeof(status));
        status = nb_status_parse(c->text, strlen(c->text));
        assert_int_equal(status.code, c->code);
        assert_string_equal(status.reason, c->reason);
        assert_string_equal(status.message, c->message);
}

struct user_case {
        const char *name;
        const char *message;
        const char *expected;
};

static struct user_case users[] = {
        { "user: anonymous",
          "certificatesigningrequests.certificates.k8s.io is forbidden: User \"system:anonymous\" "
          "cannot create",
          "system:anonymous" },
        { "user: of a token",
          "is forbidden: User \"system:bootstrap:abcdef\" cannot create resource",
          "system:bootstrap:abcdef" },
        { "user: a quote in the name", "User \"a\\\"b\" cannot", "a\\\"b" },
        { "user: a backslash at the end", "User \"a\\", "" },
        { "user: cut short", "User \"system:boot", "" },
        { "user: no name", "User \"\" cannot", "" },
        { "user: not named", "admission webhook denied the request: no nodes today", "" },
        { "user: no message", "", "" },
};

static void finds_user(void **state) {
        const struct user_case *c = *state;
        struct nb_status status = { .code = 403 };
        char user[32] = "kept";

        (void)snprintf(status.message, sizeof(status.message), "%s", c->message);
        nb_status_user(&status, user, sizeof(user));
        assert_string_equal(user, c->expected);
}

#define SPEC_OF(requester) \
        "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":\"certificates.k8s.io/v1\"," META \
        ",\"spec\":{\"signerName\":\"s\"" requester "}}"

struct requester_case {
        const char *name;
        const char *text;
        const char *username, *groups;
        bool is_for_controller;
};

static struct requester_case requesters[] = {
        { "requester: missing", SPEC_OF(""), "", "" },
        { "requester: a token",
          SPEC_OF(",\"username\":\"system:bootstrap:abcdef\",\"groups\":[\"system:bootstrappers\","
                  "\"system:authenticated\",\"g\"]"),
          "system:bootstrap:abcdef", "system:bootstrappers, g" },
        { "requester: only system:authenticated",
          SPEC_OF(",\"username\":\"u\",\"groups\":[\"system:authenticated\"]"), "u", "" },
        { "requester: a line break",
          SPEC_OF(",\"username\":\"u\\n2\",\"groups\":[\"g\\u001b[2J\"]"), "u 2", "g [2J" },
        { "requester: a token for one node",
          SPEC_OF(",\"groups\":[\"system:bootstrappers:node-bootstrap\"]"), "",
          "system:bootstrappers:node-bootstrap", true },
        { "requester: the group of enrolled tokens",
          SPEC_OF(",\"groups\":[\"system:bootstrappers:node-bootstrap-enrolled\"]"), "",
          "system:bootstrappers:node-bootstrap-enrolled", true },
        { "requester: another group of node-bootstrap",
          SPEC_OF(",\"groups\":[\"system:bootstrappers:node-bootstrap:rack-4\"]"), "",
          "system:bootstrappers:node-bootstrap:rack-4", true },
        { "requester: a group whose name only begins alike",
          SPEC_OF(",\"groups\":[\"system:bootstrappers:node-bootstrapping\"]"), "",
          "system:bootstrappers:node-bootstrapping" },
        { "requester: another group of bootstrappers",
          SPEC_OF(",\"groups\":[\"system:bootstrappers:node\"]"), "", "system:bootstrappers:node" },
};

static void knows_requester(void **state) {
        const struct requester_case *c = *state;
        _cleanup_(nb_csr_done) struct nb_csr csr = {};
        struct nb_failure f = {};

        assert_int_equal(nb_csr_parse(c->text, strlen(c->text), &csr, &f), 0);
        assert_string_equal(csr.username, c->username);
        assert_string_equal(csr.groups, c->groups);
        assert_int_equal(csr.is_for_controller, c->is_for_controller);
}

/* The groups that fit are named, and no name is truncated. */
static void many_groups_are_left_out(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
        _cleanup_(nb_csr_done) struct nb_csr csr = {};
        struct nb_failure f = {};

        nb_buffer_append_string(&text, "{\"kind\":\"CertificateSigningRequest\",\"apiVersion\":"
                                       "\"certificates.k8s.io/v1\"," META
                                       ",\"spec\":{\"signerName\":\"s\",\"groups\":[\"first\"");
        for (unsigned i = 0; i < 100; i++)
                nb_buffer_printf(&text, ",\"system:group%02u\"", i);
        nb_buffer_append_string(&text, ",\"system:bootstrappers:node-bootstrap\"]}}");
        assert_int_equal(nb_csr_parse(text.data, text.len, &csr, &f), 0);
        assert_true(csr.is_for_controller);
        assert_memory_equal(csr.groups, "first, system:group00, ", 23);
        assert_int_equal((strlen(csr.groups) - strlen("first, ...")) % strlen(", system:group00"),
                         0);
        assert_string_equal(strrchr(csr.groups, ','), ", ...");
}

static void a_long_message_is_cut(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
        struct nb_status status;

        nb_buffer_append_string(&text, "{\"kind\":\"Status\",\"message\":\"");
        for (unsigned i = 0; i < 1000; i++)
                nb_buffer_append_string(&text, "\xc3\xa9");
        nb_buffer_append_string(&text, "\"}");
        status = nb_status_parse(text.data, text.len);
        assert_int_equal(strlen(status.message),
                         sizeof(status.message) - 2); /* no half of a character */
}

static void size_has_a_limit(void **state) {
        struct nb_csr csr = {};
        struct nb_failure f = {};

        assert_true(nb_csr_parse("{}", NB_CSR_OBJECT_MAX + 1, &csr, &f) < 0);
        assert_string_equal(f.detail, NAME "expected at most 262144 bytes, found 262145");
}

static int run(const void *input) {
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = {};
        struct nb_failure f = {};

        return nb_csr_event_parse(input, strlen(input), &event, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, events[1].text);
}

int main(void) {
        CASE(formats);
        CASE(formatting_keeps_the_ceiling);
        CASES(states, parses_state);
        CASES(refused, refuses);
        CASE(number_of_conditions_has_a_limit);
        CASES(events, parses_event);
        CASES(refused_events, refuses_event);
        CASES(statuses, parses_status);
        CASES(users, finds_user);
        CASES(requesters, knows_requester);
        CASE(many_groups_are_left_out);
        CASE(a_long_message_is_cut);
        CASE(size_has_a_limit);
        CASE(memory_runs_out);
        return case_run("csr");
}
