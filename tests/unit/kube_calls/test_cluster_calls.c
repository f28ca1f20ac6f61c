/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "kube_calls/cluster_calls.h"
#include "kube_objects/kubelet_config.h"
#include "os/clock.h"
#include "server.h"

#define INFO_PATH "/api/v1/namespaces/kube-public/configmaps/cluster-info"
#define INFO \
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":{\"kubeconfig\":\"k\"," \
        "\"jws-kubeconfig-abcdef\":\"s\"}}"
#define STATUS(code) \
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"R\"," \
        "\"message\":\"m\",\"code\":" code "}"

static struct server server;
static struct nb_api api;
static struct nb_failure f;

static void begin(struct server_answer *answers) {
        const struct nb_cluster cluster = server_cluster(&server);

        server_reset(&server, answers);
        f = (struct nb_failure){ 0 };
        assert_int_equal(nb_api_init(&api, &cluster, NULL, nb_now_ms() + 30000, &f), 0);
}

/* --- cluster-info --- */

struct info_case {
        const char *name;
        long status;
        const char *body;
        enum nb_code code;
        bool is_hidden;
};

static struct info_case infos[] = {
        { "cluster-info: there", 200, INFO },
        { "cluster-info: of a captive portal", 200, " \n<html>", NB_ANSWER_MALFORMED },
        { "cluster-info: another object", 200, "{}", NB_ANSWER_MALFORMED },
        { "cluster-info: none", 404, STATUS("404"), NB_CLUSTER_INFO_MISSING, true },
        { "cluster-info: none at a proxy", 404, "", NB_ANSWER_FOREIGN, true },
        { "cluster-info: not for everybody", 403, STATUS("403"), NB_CLUSTER_INFO_FORBIDDEN, true },
        { "cluster-info: no anonymous requests", 401, STATUS("401"), NB_CLUSTER_INFO_FORBIDDEN,
          true },
        { "cluster-info: not now", 503, STATUS("503"), NB_SERVER_ERROR },
};

static void reads_info(void **state) {
        const struct info_case *c = *state;
        const struct nb_api here = { .name = "h:1" };
        struct nb_http_answer answer = { .status = c->status, .body = NB_BUFFER_INIT(4096) };
        struct server_answer answers[] = { { "GET " INFO_PATH " ", (int)c->status, c->body },
                                           { 0 } };
        struct nb_cluster_info info = { 0 };

        f = (struct nb_failure){ 0 };
        nb_buffer_append_string(&answer.body, c->body);
        assert_int_equal(nb_cluster_info_read(&here, &answer, "abcdef", &info, &f) < 0,
                         c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_int_equal(nb_cluster_info_is_hidden(&f), c->is_hidden);
        if (c->code == NB_NONE)
                assert_string_equal(info.signature, "s");
        nb_cluster_info_done(&info);
        nb_http_answer_done(&answer);

        begin(answers);
        info = (struct nb_cluster_info){ 0 };
        assert_int_equal(nb_cluster_info_fetch_verified(&api, &info, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_null(info.signature); /* TLS has verified it */
        if (c->code == NB_NONE)
                assert_string_equal(info.kubeconfig, "k");
        nb_cluster_info_done(&info);
        nb_api_done(&api);
}

/* --- The Node --- */

struct node_case {
        const char *name;
        struct server_answer answers[2];
        int r; /* -1: any failure */
        enum nb_code code;
};

#define NODE "GET /api/v1/nodes/a "
#define OBJECT(name) \
        "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name "\"}," \
        "\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}"

static struct node_case nodes[] = {
        { "Node: there", { { NODE, 200, OBJECT("a") } }, 200 },
        { "Node: not there", { { NODE, 404 } }, 404 },
        { "Node: not permitted", { { NODE, 403 } }, 403 },
        { "Node: not authenticated", { { NODE, 401 } }, 401 },
        { "Node: another one", { { NODE, 200, OBJECT("b") } }, -1, NB_ANSWER_MALFORMED },
        { "Node: none in the answer", { { NODE, 200, "{}" } }, -1, NB_ANSWER_MALFORMED },
        { "Node: not now", { { NODE, 500 } }, -1, NB_SERVER_ERROR },
};

static void reads_node(void **state) {
        struct node_case *c = *state;
        const struct nb_http_request more = { .accept = "application/x" };
        struct nb_node_object node = { 0 };
        int r;

        begin(c->answers);
        r = nb_node_read(&api, "a", &more, &node, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        assert_non_null(strstr(server_log(&server), "Accept: application/x\r\n"));
        if (r == 200)
                assert_true(node.is_ready);
        nb_api_done(&api);
}

/* --- The version --- */

struct version_case {
        const char *name;
        struct server_answer answers[2];
        const char *expected;
        enum nb_code code;
};

#define VERSION "GET /version "

static struct version_case versions[] = {
        { "version: there", { { VERSION, 200, "{\"minor\":\"30+\"}" } }, "30+" },
        { "version: without this value", { { VERSION, 200, "{\"major\":\"1\"}" } }, "" },
        { "version: no JSON", { { VERSION, 200, "<html>" } }, "" },
        { "version: hidden", { { VERSION, 403 } }, "" },
        { "version: cut", { { VERSION, 200, "{}", .is_cut = true } }, "", NB_ENDPOINT_RESET },
};

static void reads_version(void **state) {
        struct version_case *c = *state;
        char version[NB_VERSION_SIZE] = "before";

        begin(c->answers);
        assert_int_equal(nb_version_read(&api, "minor", version, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_string_equal(version, c->expected);
        nb_api_done(&api);
}

/* --- kubelet's configuration --- */

struct config_case {
        const char *name;
        struct server_answer answers[6];
        const char *map; /* which was read */
        enum nb_code code;
};

#define MAP(suffix) "GET /api/v1/namespaces/kube-system/configmaps/kubelet-config" suffix " "
#define CONFIG(text) \
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":{\"kubelet\":\"" text "\"}}"
#define MINOR(n) \
        { VERSION, 200, "{\"minor\":\"" n "\"}" }

static struct config_case configs[] = {
        { "configuration: there", { { MAP(""), 200, CONFIG("text") } }, "kubelet-config" },
        { "configuration: of this version",
          { { MAP(""), 404 }, MINOR("20+"), { MAP("-1.20"), 200, CONFIG("text") } },
          "kubelet-config-1.20" },
        { "configuration: of two versions before",
          { { MAP(""), 403 },
            MINOR("20"),
            { MAP("-1.20"), 403 },
            { MAP("-1.19"), 404 },
            { MAP("-1.18"), 200, CONFIG("text") } },
          "kubelet-config-1.18" },
        { "configuration: none",
          { { MAP(""), 404 }, MINOR("20") },
          .code = NB_KUBELET_CONFIG_MISSING },
        { "configuration: none may be read, and this is what matters",
          { { MAP(""), 403 },
            MINOR("20"),
            { MAP("-1.20"), 403 },
            { MAP("-1.19"), 403 },
            { MAP("-1.18"), 403 } },
          .code = NB_KUBELET_CONFIG_FORBIDDEN },
        { "configuration: one is missing, which says more than that others may not be read",
          { { MAP(""), 403 },
            MINOR("20"),
            { MAP("-1.20"), 403 },
            { MAP("-1.19"), 404 },
            { MAP("-1.18"), 403 } },
          .code = NB_KUBELET_CONFIG_MISSING },
        { "configuration: of a version that is not told",
          { { MAP(""), 404 }, { VERSION, 403 } },
          .code = NB_KUBELET_CONFIG_MISSING },
        { "configuration: without a text",
          { { MAP(""), 200,
              "{\"kind\":\"ConfigMap\","
              "\"apiVersion\":\"v1\",\"data\":{}}" } },
          .code = NB_KUBELET_CONFIG_MISSING },
        { "configuration: not now", { { MAP(""), 503 } }, .code = NB_SERVER_ERROR },
};

static void fetches_config(void **state) {
        struct config_case *c = *state;
        struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char name[NB_KUBELET_CONFIG_NAME_SIZE];

        begin(c->answers);
        assert_int_equal(nb_kubelet_config_fetch(&api, &text, name, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->map) {
                assert_string_equal(name, c->map);
                assert_string_equal(text.data, "text");
        }
        nb_buffer_done(&text);
        nb_api_done(&api);
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        CASES(infos, reads_info);
        CASES(nodes, reads_node);
        CASES(versions, reads_version);
        CASES(configs, fetches_config);
        r = case_run("kube calls cluster");
        server_stop(&server);
        nb_http_end();
        return r;
}
