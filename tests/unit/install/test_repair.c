/* SPDX-License-Identifier: Apache-2.0 */
#include "install/repair.h"
#include "join_folder.h"
#include "join_method/cluster_identity.h"

#define ENDPOINTS(text) \
        "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\ndiscovery:\n  endpoints: [" text "]" \
        "\n"

#define SERVING_KEY PKI "/kubelet.key"
#define SERVING_CERTIFICATE PKI "/kubelet.crt"
#define SERVING "kubelet-serving.pem"
#define PEM "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"

struct repair_case {
        const char *name;
        enum nb_node_state state;
        bool is_joined; /* with a record */
        struct file before[4], after[9];
        const char *cri_socket; /* in the settings */
        const char *endpoints;  /* in the settings; then in the record */
        bool is_recorded;
        const char *arguments; /* kubelet.extraArgs */
        bool is_recalled;      /* in a refresh */
        bool is_supervised;    /* a supervisor of k3s has issued the certificate */
};

static struct repair_case cases[] = {
        { "nothing is lost", NB_NODE_STATE_USABLE, true, .after = { ALL } },
        { "files are lost", NB_NODE_STATE_USABLE, true,
          .before = { { CA, NULL }, { ENV, NULL }, { FLAGS, NULL } }, .after = { ALL } },
        { "the kubeconfig is lost", NB_NODE_STATE_WITHOUT_KUBECONFIG, true,
          .before = { { KUBECONFIG, NULL } }, .after = { ALL } },
        { "the clock is behind", NB_NODE_STATE_NOT_YET_VALID, true, .before = { { CA, NULL } },
          .after = { ALL } },
        { "the kubeconfig is lost, and there is no record", NB_NODE_STATE_WITHOUT_KUBECONFIG, false,
          .before = { { KUBECONFIG, NULL } }, .after = { { KUBECONFIG, NULL }, { ENV, NULL } } },
        { "another program has joined the machine", NB_NODE_STATE_USABLE, false,
          .before = { { KUBECONFIG, "theirs" } },
          .after = { { KUBECONFIG, "theirs" }, { ENV, NAME }, { CA, NULL }, { RECORD, NULL } } },
        { "the settings name another node", NB_NODE_STATE_OTHER_NODE, true,
          .before = { { CA, NULL }, { ENV, NULL } }, .after = { { CA, NULL }, { ENV, NAME } } },
        { "an expired certificate", NB_NODE_STATE_EXPIRED, true,
          .before = { { CA, NULL }, { ENV, NULL } }, .after = { { CA, NULL }, { ENV, NULL } } },
        { "a copy of a machine", NB_NODE_STATE_COPIED, true,
          .before = { { CA, NULL }, { ENV, NULL } }, .after = { { CA, NULL }, { ENV, NULL } } },
        { "another socket in the settings", NB_NODE_STATE_USABLE, true,
          .before = { { INSTANCE, NULL } }, .after = { { INSTANCE, SOCKET("/t") } },
          .cri_socket = "unix:///t" },
        { "other endpoints in the settings", NB_NODE_STATE_USABLE, true,
          .after = { { KUBECONFIG, OURS }, { CA, "ca" } }, .endpoints = "10.0.0.8:6443",
          .is_recorded = true },
        { "other arguments in the settings", NB_NODE_STATE_USABLE, true,
          .after = { { FLAGS, ARGUMENTS("--hostname-override=a --v=4") } },
          .endpoints = "10.0.0.1:6443", .is_recorded = true, .arguments = "v=4" },
        { "other arguments than those that a refresh knows", NB_NODE_STATE_USABLE, true,
          .after = { ALL }, .endpoints = "10.0.0.1:6443", .is_recorded = true, .arguments = "v=4",
          .is_recalled = true },
        { "other arguments, after kubeadm has written the file", NB_NODE_STATE_USABLE, true,
          .before = { { FLAGS, "KUBELET_KUBEADM_ARGS= --hostname-override=a\n" } },
          .after = { { FLAGS, ARGUMENTS("--hostname-override=a --v=4") } },
          .endpoints = "10.0.0.1:6443", .is_recorded = true, .arguments = "v=4" },
        { "other arguments, after somebody has changed the file", NB_NODE_STATE_USABLE, true,
          .before = { { FLAGS, ARGUMENTS("--a=1 --b") } },
          .after = { { FLAGS, ARGUMENTS("--a=1 --b") } }, .endpoints = "10.0.0.1:6443",
          .is_recorded = true, .arguments = "v=4" },
        { "other arguments, of a machine whose certificate has expired", NB_NODE_STATE_EXPIRED,
          true, .after = { ALL }, .endpoints = "10.0.0.1:6443", .arguments = "v=4" },
        { "the links of a join through a supervisor are lost", NB_NODE_STATE_USABLE, true,
          .before = { { SERVING_KEY, NULL }, { SERVING_CERTIFICATE, "" } },
          .after = { { SERVING_KEY, SERVING }, { SERVING_CERTIFICATE, SERVING } },
          .is_supervised = true },
        { "a serving certificate of its own", NB_NODE_STATE_USABLE, true,
          .before = { { SERVING_CERTIFICATE, PEM } },
          .after = { { SERVING_CERTIFICATE, PEM }, { SERVING_KEY, NULL } }, .is_supervised = true },
        { "a link to a key of its own", NB_NODE_STATE_USABLE, true,
          .before = { { SERVING_KEY, "own.pem", .is_link = true } },
          .after = { { SERVING_CERTIFICATE, NULL } }, .is_supervised = true },
        { "links beside another program's kubeconfig", NB_NODE_STATE_USABLE, true,
          .before = { { KUBECONFIG, "theirs" } },
          .after = { { SERVING_KEY, NULL }, { SERVING_CERTIFICATE, NULL } },
          .is_supervised = true },
        { "links that no join has written", NB_NODE_STATE_USABLE, true,
          .after = { { SERVING_KEY, NULL }, { SERVING_CERTIFICATE, NULL } } },
        { "other endpoints in the settings of another node", NB_NODE_STATE_OTHER_NODE, true,
          .after = { ALL }, .endpoints = "10.0.0.8:6443" },
};

static void set_settings(const struct repair_case *c) {
        const struct nb_settings_source source = { .origin = "a test" };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(256);
        struct nb_failure f = { 0 };

        nb_settings_init(&context.settings);
        if (c->cri_socket)
                (void)snprintf(context.settings.cri_socket, sizeof(context.settings.cri_socket),
                               "%s", c->cri_socket);
        if (!c->endpoints)
                return;
        nb_buffer_printf(&text, ENDPOINTS("%s") "%s%s%s", c->endpoints,
                         c->arguments ? "kubelet: {extraArgs: [" : "",
                         c->arguments ? c->arguments : "", c->arguments ? "]}\n" : "");
        assert_int_equal(nb_settings_merge(&context.settings, &source, text.data, text.len, &f), 0);
}

/* As nb_node_inspect_disk() finds it. */
static void repairs(void **state) {
        const struct repair_case *c = *state;
        struct nb_node node = { .inspection = { .state = c->state, .node = "a" } };
        struct files_case put = { "", .is_joined = c->is_joined };
        _cleanup_(nb_record_done) struct nb_record after = { 0 };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        memcpy(put.before, c->before, sizeof(c->before));
        put_before(&put);
        set_settings(c);
        context.is_recalled = c->is_recalled;
        node.present.has_record = read_previous(&node.present.record) > 0;
        if (c->is_supervised)
                NB_TEXT_COPY(node.present.record.join_method, NB_CLUSTER_IDENTITY_K3S);
        assert_true(nb_repair(&context, &node, &f) >= 0);
        nb_settings_init(&context.settings);
        for (const struct file *file = c->after; file->path; file++)
                expect(file->path, text_of(file->text));
        if (read_previous(&after) > 0 && c->endpoints)
                assert_int_equal(strstr(after.settings, c->endpoints) != NULL, c->is_recorded);
        nb_node_done(&node);
        folder_remove(&folder);
}

static void repair(const char *arguments) {
        struct nb_node node = { .inspection = { .state = NB_NODE_STATE_USABLE, .node = "a" } };
        struct nb_failure f = { 0 };

        set_settings(&(struct repair_case){ .endpoints = "10.0.0.1:6443", .arguments = arguments });
        node.present.has_record = read_previous(&node.present.record) > 0;
        assert_true(nb_repair(&context, &node, &f) >= 0);
        nb_settings_init(&context.settings);
        nb_node_done(&node);
}

/* The join wrote this text, but other arguments are in force since: somebody has put it back. */
static void keeps_an_older_text(void **state) {
        static const char old[] = ARGUMENTS("--hostname-override=a");

        folder_skip_without_lookup();
        put_before(&(struct files_case){ "", .is_joined = true });
        expect(FLAGS, old);
        repair("v=4");
        expect(FLAGS, ARGUMENTS("--hostname-override=a --v=4"));
        folder_put(&folder, FLAGS, old);
        repair("v=4");
        expect(FLAGS, old);
        repair("v=5");
        expect(FLAGS, old);
        folder_remove(&folder);
}

/* The disk is full: the machine keeps what it has. */
static void cannot_write(void **state) {
        struct nb_node node = { .inspection = { .state = NB_NODE_STATE_USABLE, .node = "a" } };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        put_before(&(struct files_case){ "", .is_joined = true,
                                         .before = { { ENV, NULL }, { ENV "/x", "" } } });
        node.present.has_record = read_previous(&node.present.record) > 0;
        assert_true(nb_repair(&context, &node, &f) < 0);
        assert_int_equal(f.code, NB_TARGET_UNWRITABLE);
        expect(KUBECONFIG, OURS);
        nb_node_done(&node);
        folder_remove(&folder);
}

int main(void) {
        prepare_context();
        CASES(cases, repairs);
        CASE(keeps_an_older_text);
        CASE(cannot_write);
        return case_run("install repair");
}
