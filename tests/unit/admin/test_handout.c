/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/commands/handout.h"
#include "base/macro.h"

#include "allocation.h"
#include "case.h"

#define TOKEN "abcdef.0123456789abcdef"
#define PIN_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define PIN_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static const struct nb_handout one = {
        .token = TOKEN,
        .endpoint = "10.0.0.10:6443",
        .pins = { PIN_A },
        .n_pins = 1,
        .node = "",
};

static const struct nb_handout all = {
        .token = TOKEN,
        .endpoint = "[fd00::10]:6443",
        .pins = { PIN_A, PIN_B },
        .n_pins = 2,
        .node = "node-1",
        .cluster = "east",
};

struct form_case {
        const char *name, *form;
        const struct nb_handout *handout;
        const char *expected; /* text, or a part of it that begins with "..." */
};

static struct form_case forms[] = {
        { "kubeadm: the arguments of kubeadm", "kubeadm", &one,
          "kubeadm join 10.0.0.10:6443 --discovery-token-ca-cert-hash " PIN_A " --token " TOKEN
          "\n" },
        { "kubeadm: the brackets of an IPv6 address are quoted", "kubeadm", &all,
          "kubeadm join '[fd00::10]:6443' --discovery-token-ca-cert-hash " PIN_A
          " --discovery-token-ca-cert-hash " PIN_B " --node-name node-1 --token " TOKEN "\n" },
        { "setup: the token is on standard input", "setup", &one,
          "node-bootstrap setup --token-file=- --endpoint=10.0.0.10:6443 --ca-cert-hash=" PIN_A
          " <<'END'\n" TOKEN "\nEND\n" },
        { "setup: several pins, and a name", "setup", &all,
          "node-bootstrap setup --token-file=- --endpoint='[fd00::10]:6443' --ca-cert-hash=" PIN_A
          " --ca-cert-hash=" PIN_B " --node-name=node-1 <<'END'\n" TOKEN "\nEND\n" },
        { "config: strings are quoted", "config", &all,
          "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
          "discovery:\n  endpoints: [\"[fd00::10]:6443\"]\n"
          "  caCertHashes: [\"" PIN_A "\", \"" PIN_B "\"]\n"
          "node:\n  name: \"node-1\"\nbootstrap:\n  token: \"" TOKEN "\"\n" },
        { "credential: the token alone", "credential", &all, TOKEN "\n" },
        { "capi-secret: the name and the label of the cluster", "capi-secret", &all,
          "...kind: Secret\nmetadata:\n  name: \"east-node-bootstrap\"\n"
          "  labels: {cluster.x-k8s.io/cluster-name: \"east\"}\n" },
        { "capi-secret: the user data is a block", "capi-secret", &all,
          "...  format: cloud-config\n  value: |\n    #cloud-config\n" },
        { "ignition: the token's data URL", "ignition", &one,
          "...\"source\": \"data:," TOKEN "%0A\"" },
        { "ignition: all but unreserved characters are escaped", "ignition", &all,
          "...%5B%22%5Bfd00%3A%3A10%5D%3A6443%22%5D%0A" },
};

/* Returns the text; the caller frees it. */
static char *print(const char *form, const struct nb_handout *handout) {
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);

        assert_non_null(out);
        assert_non_null(nb_handout_find(form));
        assert_int_equal(nb_handout_print(nb_handout_find(form), handout, out), 0);
        assert_int_equal(fclose(out), 0);
        return text;
}

static void prints(void **state) {
        const struct form_case *c = *state;
        _cleanup_(nb_freep) char *text = print(c->form, c->handout);

        if (!strncmp(c->expected, "...", 3))
                assert_non_null(strstr(text, c->expected + 3));
        else
                assert_string_equal(text, c->expected);
}

static const char *const names[] = { "kubeadm",  "setup",       "config",    "cloud-config",
                                     "ignition", "capi-secret", "credential" };

static void does_not_find_other_forms(_unused_ void **state) {
        assert_null(nb_handout_find("Kubeadm"));
        assert_null(nb_handout_find(""));
}

static void the_message_names_all(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                assert_non_null(strstr(NB_HANDOUT_NAMES, names[i]));
}

/* Every form at its largest: a host name of 253 bytes, 16 pins and a name of 253 bytes. */
static void prints_the_largest(_unused_ void **state) {
        char node[254], cluster[64];
        struct nb_handout handout = {
                .token = TOKEN, .n_pins = NB_HANDOUT_PINS_MAX, .node = node, .cluster = cluster
        };

        memset(cluster, 'c', 63);
        cluster[63] = '\0';
        memset(handout.endpoint, 'a', 253);
        memcpy(handout.endpoint + 253, ":65535", 7);
        memset(node, 'b', 253);
        node[253] = '\0';
        for (unsigned i = 0; i < NB_HANDOUT_PINS_MAX; i++)
                memcpy(handout.pins[i], PIN_A, sizeof(PIN_A));
        for (size_t i = 0; i < N_ELEMENTS(names); i++) {
                _cleanup_(nb_freep) char *text = print(names[i], &handout);

                assert_int_equal(text[strlen(text) - 1], '\n');
                assert_non_null(strstr(text, TOKEN));
        }
}

static void reports_a_stream_that_is_full(_unused_ void **state) {
        FILE *out = fopen("/dev/full", "w");

        assert_non_null(out);
        assert_int_equal(nb_handout_print(nb_handout_find("setup"), &all, out), -ENOSPC);
        fclose(out);
}

static FILE *nowhere;

static int run_print(const void *name) {
        return nb_handout_print(nb_handout_find(name), &all, nowhere);
}

static void reports_lack_of_memory(_unused_ void **state) {
        nowhere = fopen("/dev/null", "w");
        assert_non_null(nowhere);
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                allocation_try_all(run_print, names[i]);
        fclose(nowhere);
}

int main(void) {
        CASES(forms, prints);
        CASE(does_not_find_other_forms);
        CASE(the_message_names_all);
        CASE(prints_the_largest);
        CASE(reports_a_stream_that_is_full);
        CASE(reports_lack_of_memory);
        return case_run("handout");
}
