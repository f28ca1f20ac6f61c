/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/cluster_policy.h"
#include "case.h"

static struct row {
        const char *name;
        const char *content; /* of the ConfigMap */
        const char *failure; /* NULL: it is read */
} rows[] = {
        { "nothing", "\"metadata\":{}" },
        { "no data", "\"data\":{}" },
        { "all keys",
          "\"data\":{\"requireProof\":\"false\",\"servingPrefixes\":\"10.0.0.0/8,fd00::/8\","
          "\"servingNames\":\".nodes.example.org,.internal\","
          "\"servingRefused\":\"10.0.0.9,fd00::9,10.9.0.0/"
          "16,api.example.org\",\"serviceNetworks\":\"10.96.0.0/"
          "12\","
          "\"podNetworks\":\"none\"}" },
        { "prefixes alone", "\"data\":{\"servingPrefixes\":\"10.0.0.0/8\"}",
          "expected servingRefused, serviceNetworks and podNetworks beside servingPrefixes" },
        { "prefixes without pod networks",
          "\"data\":{\"servingPrefixes\":\"10.0.0.0/8\",\"servingRefused\":\"none\","
          "\"serviceNetworks\":\"none\"}",
          "expected servingRefused, serviceNetworks and podNetworks beside servingPrefixes" },
        { "a bare pattern", "\"data\":{\"servingNames\":\"*\"}", "data.servingNames" },
        { "an unknown key", "\"data\":{\"requireproof\":\"true\"}",
          "podNetworks, found 'requireproof'" },
        { "a key in binaryData", "\"binaryData\":{\"requireProof\":\"dHJ1ZQ==\"}", "binaryData" },
        { "a truth that is not one", "\"data\":{\"requireProof\":\"True\"}",
          "data.requireProof: expected \"true\" or \"false\", found 'True'" },
        { "a value that is not a text", "\"data\":{\"requireProof\":true}", "data.requireProof" },
        { "an empty value", "\"data\":{\"servingPrefixes\":\"\"}", "data.servingPrefixes" },
        { "an address instead of a prefix", "\"data\":{\"servingPrefixes\":\"10.0.0.0\"}",
          "data.servingPrefixes" },
        { "bits behind the length", "\"data\":{\"serviceNetworks\":\"10.0.0.1/8\"}",
          "data.serviceNetworks" },
        { "a blank in a list", "\"data\":{\"servingPrefixes\":\"10.0.0.0/8, fd00::/8\"}",
          "data.servingPrefixes" },
        { "a suffix without a dot", "\"data\":{\"servingNames\":\"example.org\"}",
          "data.servingNames" },
        { "a dot alone", "\"data\":{\"servingNames\":\".\"}", "data.servingNames" },
        { "an empty suffix", "\"data\":{\"servingNames\":\".a.org,\"}", "data.servingNames" },
        { "a pattern", "\"data\":{\"servingNames\":\".*.a.org\"}", "data.servingNames" },
        { "a suffix in capitals", "\"data\":{\"servingNames\":\".Example.org\"}",
          "data.servingNames" },
        { "a pattern that no node may have", "\"data\":{\"servingRefused\":\"*.example.org\"}",
          "data.servingRefused" },
        { "bits behind the length of what no node may have",
          "\"data\":{\"servingRefused\":\"10.0.0.9/8\"}", "data.servingRefused" },
};

static void policy_is_read(void **state) {
        const struct row *row = *state;
        static struct nb_policy policy;
        struct nb_failure f = { 0 };
        char text[1024];
        struct nb_json json;

        snprintf(text, sizeof(text), "{%s}", row->content);
        json = nb_json_parse(text, strlen(text), "the ConfigMap", NB_ANSWER_MALFORMED, &f);
        policy = (struct nb_policy){ 0 };
        nb_policy_read(&json, &policy);
        if (row->failure)
                assert_non_null(strstr(f.detail, row->failure));
        else
                assert_string_equal(f.detail, "");
        if (row->failure)
                assert_string_equal(policy.serving_prefixes, "");
        nb_json_done(&json);
}

static void limits_a_list(_unused_ void **state) {
        static struct nb_policy policy;
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        struct nb_failure f = { 0 };
        struct nb_json json;

        nb_buffer_append_string(&text, "{\"data\":{\"servingNames\":\".a");
        while (text.len < 2 * NB_LIST_SIZE)
                nb_buffer_append_string(&text, ",.a");
        nb_buffer_append_string(&text, "\"}}");
        json = nb_json_parse(text.data, text.len, "it", NB_ANSWER_MALFORMED, &f);
        nb_policy_read(&json, &policy);
        assert_non_null(strstr(f.detail, "data.servingNames: expected"));
        nb_json_done(&json);
        nb_buffer_done(&text);
}

static void values_are_read(_unused_ void **state) {
        static const char text[] =
                "{\"data\":{\"requireProof\":\"true\",\"servingNames\":\".a,.b.c\","
                "\"servingPrefixes\":\"10.0.0.0/8\",\"servingRefused\":\"none\","
                "\"serviceNetworks\":\"10.96.0.0/12\",\"podNetworks\":\"none\"}}";
        static struct nb_policy policy;
        struct nb_failure f = { 0 };
        struct nb_json json = nb_json_parse(text, strlen(text), "it", NB_ANSWER_MALFORMED, &f);

        nb_policy_read(&json, &policy);
        assert_true(policy.is_proof_required);
        assert_string_equal(policy.serving_prefixes, "10.0.0.0/8");
        assert_string_equal(policy.service_networks, "10.96.0.0/12");
        assert_string_equal(policy.serving_names, ".a,.b.c");
        nb_json_done(&json);
}

int main(void) {
        CASES(rows, policy_is_read);
        CASE(limits_a_list);
        CASE(values_are_read);
        return case_run("cluster policy");
}
