/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/client/exec.h"

#include "allocation.h"
#include "case.h"

#define V1 "client.authentication.k8s.io/v1"
#define HEAD "{\"apiVersion\":\"" V1 "\",\"kind\":\"ExecCredential\""
#define STATUS(members) HEAD ",\"spec\":{},\"status\":{" members "}}"
#define PAIR "\"clientCertificateData\":\"LEAF\",\"clientKeyData\":\"KEY\""

static struct {
        const char *name;
        const char *text;
        const char *token;       /* or */
        const char *certificate; /* with the key KEY */
        time_t expires;
        const char *detail; /* of the failure */
} documents[] = {
        { "a token", STATUS("\"token\":\"abc\""), "abc" },
        { "a client certificate", STATUS(PAIR), .certificate = "LEAF" },
        { "both: the certificate", STATUS(PAIR ",\"token\":\"abc\""), .certificate = "LEAF" },
        { "a time", STATUS("\"token\":\"a\",\"expirationTimestamp\":\"1970-01-02T00:00:00Z\""), "a",
          .expires = 86400 },
        { "no time", STATUS("\"token\":\"a\",\"expirationTimestamp\":null"), "a" },
        { "empty fields", STATUS("\"token\":\"\"," PAIR), .certificate = "LEAF" },
        { "no status", HEAD "}",
          .detail =
                  "x: status: expected a token, or clientCertificateData and clientKeyData, found "
                  "nothing" },
        { "an empty token", STATUS("\"token\":\"\""),
          .detail =
                  "x: status: expected a token, or clientCertificateData and clientKeyData, found "
                  "nothing" },
        { "a certificate alone", STATUS("\"token\":\"t\",\"clientCertificateData\":\"LEAF\""),
          .detail =
                  "x: status: expected a token, or clientCertificateData and clientKeyData, found "
                  "nothing" },
        { "a line break in a token", STATUS("\"token\":\"secret\\nHost: x\""),
          .detail = "x: status.token: expected printable characters without blanks, found "
                    "'something else'" },
        { "a token of another type", STATUS("\"token\":1"),
          .detail = "x: status.token: expected a string, found an integer" },
        { "a time of another form", STATUS("\"token\":\"t\",\"expirationTimestamp\":\"tomorrow\""),
          .detail = "x: status.expirationTimestamp: expected a time such as "
                    "'2026-01-02T15:04:05Z', found 'tomorrow'" },
        { "another version", "{\"apiVersion\":\"v1\",\"kind\":\"ExecCredential\"}",
          .detail = "x: apiVersion: expected '" V1 "', found 'v1'" },
        { "another kind", "{\"apiVersion\":\"" V1 "\",\"kind\":\"Secret\"}",
          .detail = "x: kind: expected 'ExecCredential', found 'Secret'" },
        { "no JSON", "token",
          .detail = "x: expected JSON, found at byte 0: an unexpected "
                    "character" },
};

static void parses_document(void **state) {
        const __typeof__(documents[0]) *row = *state;
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = {};
        time_t expires = -1;
        int r = nb_exec_credential_parse(row->text, strlen(row->text), "x", V1, &identity, &expires,
                                         &f);

        if (row->detail) {
                assert_true(r < 0);
                assert_int_equal(f.code, NB_ADMIN_EXEC_FAILED);
                assert_string_equal(f.detail, row->detail);
                assert_int_equal(identity.kind, NB_IDENTITY_NONE);
                assert_int_equal(expires, -1);
                return;
        }
        assert_int_equal(r, 0);
        assert_int_equal(expires, row->expires);
        assert_string_equal(identity.secret.data, row->token ? row->token : "KEY");
        assert_int_equal(identity.kind, row->token ? NB_IDENTITY_TOKEN : NB_IDENTITY_CERTIFICATE);
        if (row->certificate)
                assert_string_equal(identity.certificate.data, row->certificate);
}

static int run(const void *text) {
        _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
        struct nb_failure f = {};
        time_t expires;

        return nb_exec_credential_parse(text, strlen(text), "x", V1, &identity, &expires, &f);
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, STATUS("\"token\":\"abc\""));
        allocation_try_all(run, STATUS(PAIR));
}

int main(void) {
        CASES(documents, parses_document);
        CASE(memory_runs_out);
        return case_run("exec");
}
