/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/policy/node_record.h"
#include "admin/policy/node_request.h"
#include "base/encoding.h"
#include "base/text.h"
#include "crypto/attestation.h"
#include "fuzz.h"

static const char public_key[] =
        "-----BEGIN PUBLIC KEY-----\n"
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8EiAPpZbYLqGus/kSQesFkFvtR+1\n"
        "+2ghDB8vaRJOW5+3jnUusLrmnBn2lDc7Kues5se44t9DyqCJX89bqYjgGQ==\n"
        "-----END PUBLIC KEY-----\n";

static void check_facts(const struct nb_pkcs10_facts *facts) {
        FUZZ_CHECK(facts->n_names <= NB_REQUEST_NAMES_MAX);
        FUZZ_CHECK(nb_text_is_printable(facts->common_name, strlen(facts->common_name)));
        FUZZ_CHECK(nb_text_is_printable(facts->organization, strlen(facts->organization)));
        for (unsigned i = 0; i < facts->n_names; i++)
                FUZZ_CHECK(
                        nb_text_is_printable(facts->names[i].text, strlen(facts->names[i].text)));
}

static void check_object(const char *data, size_t len, const char *signer, const char *usage) {
        _cleanup_(nb_buffer_done) struct nb_buffer base64 = NB_BUFFER_INIT(1 << 20);
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(2 << 20);
        struct nb_node_request request;
        struct nb_failure f = { 0 };
        struct nb_json json;

        nb_base64_encode(data, len, &base64);
        nb_buffer_printf(&text,
                         "{\"metadata\":{\"name\":\"x\",\"uid\":\"u\",\"resourceVersion\":\"1\"},"
                         "\"spec\":{\"signerName\":\"%s\",\"usages\":[\"digital signature\","
                         "\"%s auth\"],\"username\":\"system:node:a\",\"groups\":"
                         "[\"system:nodes\"],\"request\":\"%s\"}}",
                         signer, usage, base64.data ? base64.data : "");
        if (text.error < 0)
                return;
        json = nb_json_parse(text.data, text.len, "the CSR", NB_ANSWER_MALFORMED, &f);
        nb_node_request_read(&json, &request);
        FUZZ_CHECK(json.r == 0);
        FUZZ_CHECK(nb_text_is_printable(request.flaw, strlen(request.flaw)));
        FUZZ_CHECK(request.flaw[0] || (request.node[0] && request.pem));
        FUZZ_CHECK(request.flaw[0] || request.facts.is_subject_plain);
        check_facts(&request.facts);
        nb_node_request_done(&request);
        nb_json_done(&json);
}

/* A key that is found can be enrolled, whatever else is in the text. */
static void check_key(const char *data, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer key = NB_BUFFER_INIT(NB_NODE_RECORD_KEY_MAX);
        uint8_t id[NB_SHA256_SIZE], again[NB_SHA256_SIZE];

        if (nb_attestation_find_key(data, len, &key, id) <= 0)
                return;
        FUZZ_CHECK(nb_attestation_key_read(key.data, key.len, again) == 0);
        FUZZ_CHECK(nb_digest_is_equal(id, again));
}

void fuzz_one(const char *data, size_t len) {
        enum nb_attestation_verdict verdict = nb_attestation_verify(data, len, "abcdef",
                                                                    public_key);

        FUZZ_CHECK(verdict == NB_ATTESTATION_MISSING || verdict == NB_ATTESTATION_INVALID);
        check_key(data, len);
        check_object(data, len, NB_CSR_SIGNER, "client");
        check_object(data, len, NB_SIGNER_SERVING, "server");
}
