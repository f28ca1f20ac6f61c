/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cli/node_client.h"
#include "cloud_script.h"
#include "folder.h"
#include "os/clock.h"
#include "server.h"

#define REVIEW "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews "
#define ALLOWED \
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\"," \
        "\"status\":{\"allowed\":false}}"
#define GET_NODE "GET /api/v1/nodes/a "
#define NODE_OBJECT "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"}}"

static struct server server;
static struct pki_cert node, other;
static struct folder folder;
static char kubeconfig[PATH_MAX];

/* As kubelet's. */
static void put_kubeconfig(const char *user, const struct pki_cert *cert,
                           const struct pki_cert *key) {
        char text[2048], *pem;

        folder_make(&folder);
        (void)snprintf(kubeconfig, sizeof(kubeconfig), "%s/kubelet.conf", folder.path);
        folder_put(&folder, "/ca.crt", server.ca.pem);
        pem = PKI_JOIN(cert->pem, key->key_pem);
        folder_put(&folder, "/node.pem", pem);
        free(pem);
        (void)snprintf(text, sizeof(text),
                       "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                       "contexts: [{name: c, context: {cluster: k, user: u}}]\n"
                       "clusters: [{name: k, cluster: {server: 'https://127.0.0.1:%d', "
                       "certificate-authority: ca.crt}}]\nusers: [{name: u, user: {%s}}]\n",
                       server.port, user);
        folder_put(&folder, "/kubelet.conf", text);
}

#define OF_NODE "client-certificate: node.pem, client-key: node.pem"

static void read_client(struct nb_node_client *client) {
        struct nb_sources sources = { 0 };

        nb_node_client_read(&sources, kubeconfig, client);
}

/* --- The kubeconfig --- */

static void a_kubeconfig_is_read(void **state) {
        struct nb_node_client client;

        put_kubeconfig(OF_NODE, &node, &node);
        read_client(&client);
        assert_int_equal(client.failure.code, NB_NONE);
        assert_false(client.is_missing);
        assert_string_equal(client.node_name, "a");
        assert_in_range(client.not_after, time(NULL), time(NULL) + PKI_DAY);
        assert_int_equal(client.cluster.server.port, server.port);
        nb_node_client_done(&client);
        assert_null(client.identity.secret.data);
        folder_remove(&folder);
}

static void what_is_unusable_is_a_failure(void **state) {
        struct nb_api api = { 0 };
        struct nb_failure f = { 0 };
        struct nb_node_client client;

        put_kubeconfig("token: abc", &node, &node);
        read_client(&client);
        assert_int_equal(client.failure.code, NB_INSTALLED_MALFORMED);
        assert_true(nb_node_client_connect(&client, NB_TIME_INFINITE, &api, &f) < 0);
        assert_int_equal(f.code, NB_INSTALLED_MALFORMED);
        nb_node_client_done(&client);
        folder_remove(&folder);
        put_kubeconfig(OF_NODE, &node, &other);
        read_client(&client);
        assert_int_equal(client.failure.code, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE);
        nb_node_client_done(&client);
        folder_remove(&folder);
        read_client(&client);
        assert_true(client.is_missing);
        nb_node_client_done(&client);
}

/* --- The API server --- */

struct ask_case {
        const char *name;
        struct server_answer answers[5];
        enum nb_code connect, find;
        unsigned n_connections;
};

static struct ask_case asks[] = {
        { "ask: accepted, and there",
          { { REVIEW, 201, ALLOWED }, { GET_NODE, 200, NODE_OBJECT } },
          NB_NONE,
          NB_NONE,
          1 },
        { "ask: accepted, and deleted",
          { { REVIEW, 201, ALLOWED }, { GET_NODE, 404 } },
          NB_NONE,
          NB_NODE_DELETED,
          1 },
        { "ask: accepted, and hidden",
          { { REVIEW, 201, ALLOWED }, { GET_NODE, 403 } },
          NB_NONE,
          NB_NODE_DELETED,
          1 },
        { "ask: accepted by another server behind the address",
          { { REVIEW, 401 }, { REVIEW, 201, ALLOWED }, { GET_NODE, 200, NODE_OBJECT } },
          NB_NONE,
          NB_NONE,
          2 },
        { "ask: rejected by all",
          { { REVIEW, 401, .is_repeated = true } },
          NB_NODE_ACCESS_REVOKED,
          NB_NONE,
          3 },
        { "ask: not now", { { REVIEW, 503 } }, NB_SERVER_ERROR, NB_NONE, 1 },
};

static void asks_server(void **state) {
        struct ask_case *c = *state;
        struct nb_node_object found = { 0 };
        struct nb_api api = { 0 };
        struct nb_failure f = { 0 };
        struct nb_node_client client;

        server_reset(&server, c->answers);
        put_kubeconfig(OF_NODE, &node, &node);
        read_client(&client);
        assert_int_equal(nb_node_client_connect(&client, nb_now_ms() + 30000, &api, &f) < 0,
                         c->connect != NB_NONE);
        assert_int_equal(f.code, c->connect);
        if (c->connect == NB_NONE) {
                assert_int_equal(nb_node_client_find(&client, &api, &found, &f) < 0,
                                 c->find != NB_NONE);
                assert_int_equal(f.code, c->find);
                nb_api_done(&api);
        }
        assert_int_equal(server.n_connections, c->n_connections);
        nb_node_client_done(&client);
        folder_remove(&folder);
}

/* --- kubelet --- */

struct health_case {
        const char *name;
        struct exchange exchanges[2];
        enum nb_code code;
        const char *detail;
};

#define HEALTH "GET /healthz HTTP/1.1"

static struct health_case healths[] = {
        { "health: good", { { HEALTH, NULL, OK, "ok" } } },
        { "health: bad",
          { { HEALTH, NULL, "500 Internal Server Error", "no" } },
          NB_KUBELET_DOWN,
          "answers with status 500" },
};

static void asks_kubelet(void **state) {
        const struct health_case *c = *state;
        char address[SCRIPT_ADDRESS_SIZE];
        struct nb_failure f = { 0 };

        script_start(c->exchanges, address);
        assert_int_equal(nb_kubelet_ask_health(address, &f) < 0, c->code != NB_NONE);
        script_stop();
        assert_int_equal(f.code, c->code);
        if (c->detail)
                assert_non_null(strstr(f.detail, c->detail));
        /* Nobody listens there any more. */
        nb_failure_clear(&f);
        assert_true(nb_kubelet_ask_health(address, &f) < 0);
        assert_int_equal(f.code, NB_KUBELET_DOWN);
        assert_non_null(strstr(f.detail, "cannot read kubelet's health"));
}

/* In a child, which leaves its failure. */
static void a_child_asks_kubelet(void **state) {
        const struct health_case *c = *state;
        char address[SCRIPT_ADDRESS_SIZE];
        struct nb_failure f = { 0 };

        if (geteuid() != 0)
                skip();
        nb_http_end(); /* it needs a launcher of its own */
        script_start(c->exchanges, address);
        assert_int_equal(nb_node_ask(address, &f) < 0, c->code != NB_NONE);
        script_stop();
        assert_int_equal(f.code, c->code);
        if (c->detail)
                assert_non_null(strstr(f.detail, c->detail));
        nb_failure_clear(&f);
        assert_int_equal(nb_http_begin(true, &f), 0);
}

static struct pki_cert make_node(void) {
        return pki_make(&(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                               .issuer = &server.ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) - PKI_DAY,
                                               .not_after = time(NULL) + PKI_DAY });
}

int main(void) {
        struct nb_failure f = { 0 };
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        node = make_node();
        other = make_node();
        CASE(a_kubeconfig_is_read);
        CASE(what_is_unusable_is_a_failure);
        CASES(asks, asks_server);
        CASES(healths, asks_kubelet);
        CASES(healths, a_child_asks_kubelet);
        r = case_run("cli node client");
        server_stop(&server);
        pki_done(&node);
        pki_done(&other);
        nb_http_end();
        return r;
}
