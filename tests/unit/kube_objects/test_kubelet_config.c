/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "kube_objects/kubelet_config.h"

#include "case.h"

#define HEAD "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
#define OUT "apiVersion: \"kubelet.config.k8s.io/v1beta1\"\nkind: \"KubeletConfiguration\"\n"
#define CA "/etc/kubernetes/pki/ca.crt"

struct filter_case {
        const char *name;
        const char *yaml;     /* after the header */
        const char *expected; /* after the header; NULL: refused */
        const char *words;    /* the dropped keys, or part of the message */
};

static struct filter_case cases[] = {
        { "only the header", "", "", "" },
        { "comments", "# a comment\nmaxPods: 1 # another\n", "maxPods: 1\n", "" },
        { "a boolean, a number, a string",
          "failSwapOn: false\nmaxPods: 250\ncgroupDriver: systemd\n",
          "failSwapOn: false\nmaxPods: 250\ncgroupDriver: \"systemd\"\n", "" },
        { "a number in a mapping of strings becomes a string",
          "systemReserved: {cpu: 1, memory: 100Mi}\n",
          "systemReserved: {\"cpu\": \"1\", \"memory\": \"100Mi\"}\n", "" },
        { "durations", "syncFrequency: 0s\nimageMinimumGCAge: \"2m0s\"\n",
          "syncFrequency: \"0s\"\nimageMinimumGCAge: \"2m0s\"\n", "" },
        { "lists", "clusterDNS: [10.96.0.10]\nenforceNodeAllocatable: []\n",
          "clusterDNS: [\"10.96.0.10\"]\nenforceNodeAllocatable: []\n", "" },
        { "a mapping of any keys", "evictionHard: {memory.available: 5%}\n",
          "evictionHard: {\"memory.available\": \"5%\"}\n", "" },
        { "sections", "authorization:\n  mode: Webhook\n  webhook:\n    cacheAuthorizedTTL: 0s\n",
          "authorization:\n  mode: \"Webhook\"\n  webhook:\n    cacheAuthorizedTTL: \"0s\"\n", "" },
        { "empty sections", "logging: {}\nmemorySwap: {}\n", "logging: {}\nmemorySwap: {}\n", "" },
        { "null is absent", "maxPods: null\nlogging: ~\nclusterDNS:\n", "", "" },
        { "a number or a string, unchanged",
          "logging: {flushFrequency: 0, options: {json: {infoBufferSize: \"0\"}}}\n",
          "logging:\n  flushFrequency: 0\n  options:\n    json:\n      infoBufferSize: \"0\"\n",
          "" },
        { "a number with a fraction", "memoryThrottlingFactor: 0.9\noomScoreAdj: -999\n",
          "memoryThrottlingFactor: 0.9\noomScoreAdj: -999\n", "" },
        { "taints", "registerWithTaints: [{key: a, value: b, effect: NoSchedule}]\n",
          "registerWithTaints: [{\"key\": \"a\", \"value\": \"b\", \"effect\": \"NoSchedule\"}]\n",
          "" },
        { "the CA file is replaced by this machine's",
          "authentication: {x509: {clientCAFile: /tmp/mine.crt}}\n",
          "authentication:\n  x509:\n    clientCAFile: \"" CA "\"\n", "" },
        { "an absolute path", "resolvConf: /run/systemd/resolve/resolv.conf\n",
          "resolvConf: \"/run/systemd/resolve/resolv.conf\"\n", "" },
        { "a quote in a string", "clusterDomain: 'a\"b: c'\n", "clusterDomain: \"a\\\"b: c\"\n",
          "" },

        { "dropped: folders whose files are executed",
          "staticPodPath: /etc/kubernetes/pods\nvolumePluginDir: /x\nmaxPods: 1\n", "maxPods: 1\n",
          "staticPodPath, volumePluginDir" },
        { "dropped, not listed: kubeadm's folder of pods",
          "staticPodPath: /etc/kubernetes/manifests\nmaxPods: 1\n", "maxPods: 1\n", "" },
        { "dropped: a list of folders of pods", "staticPodPath: [/etc/kubernetes/manifests]\n", "",
          "staticPodPath" },
        { "dropped: a URL of pods", "staticPodURL: https://x\nstaticPodURLHeader: {a: [b]}\n", "",
          "staticPodURL, staticPodURLHeader" },
        { "dropped: a socket", "containerRuntimeEndpoint: unix:///tmp/x\n", "",
          "containerRuntimeEndpoint" },
        { "an empty socket", "containerRuntimeEndpoint: \"\"\n", "containerRuntimeEndpoint: \"\"\n",
          "" },
        { "dropped: certificate and key of the server", "tlsCertFile: /a\ntlsPrivateKeyFile: /b\n",
          "", "tlsCertFile, tlsPrivateKeyFile" },
        { "dropped: feature gates", "featureGates: {AllAlpha: true}\n", "", "featureGates" },
        { "dropped: what differs between nodes",
          "providerID: x\nregisterNode: false\nrunOnce: true\n", "",
          "providerID, registerNode, runOnce" },
        { "dropped: anonymous requests", "authentication: {anonymous: {enabled: true}}\n",
          "authentication:\n  anonymous: {}\n", "authentication.anonymous.enabled" },
        { "anonymous requests disabled", "authentication: {anonymous: {enabled: false}}\n",
          "authentication:\n  anonymous:\n    enabled: false\n", "" },
        { "dropped: anonymous requests, in quotes",
          "authentication: {anonymous: {enabled: \"false\"}}\n",
          "authentication:\n  anonymous: {}\n", "authentication.anonymous.enabled" },
        { "dropped: the port without authentication", "readOnlyPort: 10255\n", "", "readOnlyPort" },
        { "the port without authentication disabled", "readOnlyPort: 0\n", "readOnlyPort: 0\n",
          "" },
        { "dropped: a relative path", "resolvConf: resolv.conf\n", "", "resolvConf" },
        { "dropped: unknown keys", "tomorrow: 1\nlogging: {tomorrow: {a: 1}}\n", "logging: {}\n",
          "tomorrow, logging.tomorrow" },
        { "dropped: a key with a dot is not that of a section",
          "authorization.mode: AlwaysAllow\n\"authentication.webhook.enabled\": false\n", "",
          "authorization.mode, authentication.webhook.enabled" },
        { "dropped: a key in capitals", "MaxPods: 1\n", "", "MaxPods" },
        { "dropped: a key with a line break", "\"a\\nb\": 1\n", "", "a b" },

        { "refused: AlwaysAllow", "authorization: {mode: AlwaysAllow}\n", NULL,
          "authorization.mode: expected Webhook, found a string 'AlwaysAllow'" },
        { "refused: a string for a number", "maxPods: \"1\"\n", NULL,
          "maxPods: expected a number, found a string" },
        { "refused: a hexadecimal number", "maxPods: 0x10\n", NULL, "maxPods: expected a number" },
        { "refused: a string for a boolean", "failSwapOn: \"false\"\n", NULL,
          "failSwapOn: expected true or false, found a string" },
        { "refused: YAML 1.1's booleans", "failSwapOn: off\n", NULL,
          "failSwapOn: expected true or false" },
        { "refused: a list for a string", "clusterDomain: [a]\n", NULL,
          "clusterDomain: expected a string" },
        { "refused: a string for a list", "clusterDNS: 10.96.0.10\n", NULL,
          "clusterDNS: expected a list, found a string" },
        { "refused: a list in a list", "clusterDNS: [[a]]\n", NULL,
          "clusterDNS: expected a string" },
        { "refused: a mapping in a mapping", "evictionHard: {a: {b: c}}\n", NULL,
          "evictionHard: expected a string" },
        { "refused: a string for a section", "logging: json\n", NULL,
          "logging: expected a mapping, found a string" },
        { "refused: a line break in a string", "clusterDomain: \"a\\nb\"\n", NULL,
          "clusterDomain: expected a string of printable characters" },
        { "refused: a string for taints", "registerWithTaints: a\n", NULL,
          "registerWithTaints: expected a list" },
        { "refused: more in a taint", "registerWithTaints: [{key: a, operator: b}]\n", NULL,
          "key, value and effect" },
        { "refused: the same key twice", "maxPods: 1\nmaxPods: 2\n", NULL, "each key once" },
        { "refused: an alias", "clusterDNS: &a [x]\ntlsCipherSuites: *a\n", NULL,
          "found an anchor" },
        { "refused: another document", "---\nmaxPods: 1\n", NULL, "" },
};

static int filter(const char *yaml, const char *ca_file, struct nb_buffer *out,
                  char dropped[static NB_KUBELET_CONFIG_DROPPED_SIZE], struct nb_failure *f) {
        const struct nb_kubelet_config_source source = { "test", ca_file,
                                                         NB_KUBELET_CONFIG_UNACCEPTABLE };

        return nb_kubelet_config_filter(&source, yaml, strlen(yaml), out, dropped, f);
}

static void filters(void **state) {
        const struct filter_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX),
                                                   again = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char yaml[1024], dropped[NB_KUBELET_CONFIG_DROPPED_SIZE] = "kept";
        struct nb_failure f = { 0 };
        int r;

        (void)snprintf(yaml, sizeof(yaml), HEAD "%s", c->yaml);
        r = filter(yaml, CA, &out, dropped, &f);
        assert_int_equal(f.code, c->expected ? NB_NONE : NB_KUBELET_CONFIG_UNACCEPTABLE);
        if (!c->expected) {
                assert_true(r < 0 && out.len == 0);
                if (!strstr(f.detail, c->words))
                        fail_msg("'%s' is not in '%s'", c->words, f.detail);
                assert_string_equal(dropped, "kept");
                return;
        }
        assert_int_equal(r, 0);
        (void)snprintf(yaml, sizeof(yaml), OUT "%s", c->expected);
        assert_string_equal(out.data, yaml);
        assert_string_equal(dropped, c->words);
        assert_int_equal(filter(out.data, CA, &again, dropped, &f), 0);
        assert_string_equal(again.data, out.data);
        assert_string_equal(dropped, "");
}

/* The system's CAs would let in anyone with a certificate of any of them. */
static void drops_the_ca_file_without_one(_unused_ void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        struct nb_failure f = { 0 };

        assert_int_equal(filter(HEAD "authentication: {x509: {clientCAFile: /a}}\n", NULL, &out,
                                dropped, &f),
                         0);
        assert_string_equal(out.data, OUT "authentication:\n  x509: {}\n");
        assert_string_equal(dropped, "authentication.x509.clientCAFile");
}

static const char *const heads[] = {
        "",
        "kind: KubeletConfiguration\n",
        "apiVersion: kubelet.config.k8s.io/v1beta1\n",
        "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n",
        "apiVersion: v1\nkind: Config\n",
        "apiVersion: [a]\nkind: KubeletConfiguration\n",
        "- apiVersion\n",
        "KubeletConfiguration\n",
        "{",
};

static void refuses_another_kind(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(heads); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(
                        NB_KUBELET_CONFIG_MAX);
                char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
                struct nb_failure f = { 0 };

                assert_true(filter(heads[i], CA, &out, dropped, &f) < 0);
                assert_int_equal(f.code, NB_KUBELET_CONFIG_UNACCEPTABLE);
        }
}

static void truncates_the_list_of_dropped_keys(_unused_ void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer yaml = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX),
                                                   out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        struct nb_failure f = { 0 };

        nb_buffer_append_string(&yaml, HEAD);
        for (unsigned i = 0; i < 200; i++)
                nb_buffer_printf(&yaml, "unknown%u: 1\n", i);
        assert_int_equal(filter(yaml.data, CA, &out, dropped, &f), 0);
        assert_true(strlen(dropped) < sizeof(dropped) && strlen(dropped) > sizeof(dropped) / 2);
        assert_string_equal(dropped + strlen(dropped) - 5, ", ...");
}

static void refuses_a_large_document(_unused_ void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE], *yaml = malloc(NB_KUBELET_CONFIG_MAX + 2);
        struct nb_failure f = { 0 };

        assert_non_null(yaml);
        memset(yaml, '\n', NB_KUBELET_CONFIG_MAX + 1);
        yaml[NB_KUBELET_CONFIG_MAX + 1] = '\0';
        memcpy(yaml, HEAD, strlen(HEAD));
        assert_true(filter(yaml, CA, &out, dropped, &f) < 0);
        assert_int_equal(f.code, NB_KUBELET_CONFIG_UNACCEPTABLE);
        yaml[NB_KUBELET_CONFIG_MAX] = '\0';
        nb_failure_clear(&f);
        assert_int_equal(filter(yaml, CA, &out, dropped, &f), 0);
        free(yaml);
}

struct map_case {
        const char *name, *json, *expected;
        enum nb_code code;
};

#define MAP(data) "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":" data "}"

static struct map_case maps[] = {
        { "map: the text", MAP("{\"kubelet\":\"a: b\\n\"}"), "a: b\n", NB_NONE },
        { "map: no such key", MAP("{\"other\":\"a\"}"), NULL, NB_KUBELET_CONFIG_MISSING },
        { "map: no data", "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"}", NULL,
          NB_KUBELET_CONFIG_MISSING },
        { "map: no string", MAP("{\"kubelet\":{}}"), NULL, NB_ANSWER_MALFORMED },
        { "map: another kind",
          "{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"data\":{\"kubelet\":\"a\"}}", NULL,
          NB_ANSWER_MALFORMED },
        { "map: not JSON", "a", NULL, NB_ANSWER_MALFORMED },
};

static void reads_map(void **state) {
        const struct map_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        struct nb_failure f = { 0 };
        int r = nb_kubelet_config_map_parse(c->json, strlen(c->json), &text, &f);

        assert_int_equal(f.code, c->code);
        assert_int_equal(r >= 0, c->code == NB_NONE);
        if (c->expected)
                assert_string_equal(text.data, c->expected);
        else
                assert_int_equal(text.len, 0);
}

int main(void) {
        CASES(cases, filters);
        CASES(maps, reads_map);
        CASE(drops_the_ca_file_without_one);
        CASE(refuses_another_kind);
        CASE(truncates_the_list_of_dropped_keys);
        CASE(refuses_a_large_document);
        return case_run("kubelet_config");
}
