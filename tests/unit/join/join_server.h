/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A join with a server that answers as the test prepares it. */

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/encoding.h"
#include "base/text.h"
#include "folder.h"
#include "join/stages.h"
#include "kube_calls/jws.h"
#include "os/clock.h"
#include "server.h"

#define TOKEN "abcdef.0123456789abcdef"
#define NODE "O=system:nodes,CN=system:node:a"
#define CSRS "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define INFO "GET /api/v1/namespaces/kube-public/configmaps/cluster-info "
#define GET_NODE "GET /api/v1/nodes/a "

static struct server server;
static struct pki_cert node; /* for the key in the state directory */
static char csr_name[NB_PKCS10_NAME_SIZE];
static struct folder folder;
static struct nb_settings settings;
static struct nb_bootstrap bootstrap;
static struct nb_join join;
static struct nb_failure f;

static inline void set_token(struct nb_identity *identity, enum nb_identity_kind kind,
                             const char *secret) {
        identity->kind = kind;
        assert_int_equal(nb_secret_copy(&identity->secret, secret, strlen(secret)), 0);
        if (kind == NB_IDENTITY_TOKEN)
                NB_TEXT_COPY(identity->token_id, "abcdef");
        NB_TEXT_COPY(identity->source, "here");
}

static inline void add_pin(const struct pki_cert *cert) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(cert->pem, strlen(cert->pem), false, &certificates),
                         0);
        memcpy(settings.pins[settings.n_pins++], nb_certificate_pin(certificates, 0), NB_PIN_SIZE);
        nb_certificates_free(certificates);
}

static inline void begin(enum nb_method_id method, struct server_answer *answers) {
        server_reset(&server, answers);
        folder_make(&folder);
        folder_put(&folder, "/" NB_PENDING_KEY_FILE, node.key_pem);
        nb_settings_init(&settings);
        settings.n_endpoints = 1;
        settings.endpoints[0] = server_cluster(&server).server;
        add_pin(&server.ca);
        bootstrap = (struct nb_bootstrap){ .method = method };
        set_token(&bootstrap.identity, NB_IDENTITY_TOKEN, TOKEN);
        join = (struct nb_join){ .settings = &settings,
                                 .bootstrap = &bootstrap,
                                 .node_name = "a",
                                 .state_fd = folder.fd,
                                 .deadline_ms = nb_now_ms() + 30000 };
        f = (struct nb_failure){ 0 };
}

static inline void end(void) {
        nb_join_done(&join);
        nb_bootstrap_done(&bootstrap);
        folder_remove(&folder);
}

/* As after discovery. */
static inline void connect_join(void) {
        const struct nb_cluster cluster = server_cluster(&server);

        join.cluster = cluster;
        join.cluster.ca = strdup(cluster.ca);
        (void)snprintf(join.endpoint, sizeof(join.endpoint), "127.0.0.1:%d", server.port);
        assert_int_equal(
                nb_api_init(&join.api, &cluster, &bootstrap.identity, join.deadline_ms, &f), 0);
}

/* --- Texts of the API server --- */

static inline void append_json(struct nb_buffer *json, const char *text) {
        for (; *text; text++)
                if (*text == '\n')
                        nb_buffer_append_string(json, "\\n");
                else
                        nb_buffer_append(json, text, 1);
}

/* cluster-info with this CA, signed with the token. */
static inline char *make_info(const struct pki_cert *ca, const char *key) {
        struct nb_buffer kubeconfig = NB_BUFFER_INIT(8192), json = NB_BUFFER_INIT(16384),
                         signature = NB_BUFFER_INIT(1024);

        nb_buffer_printf(&kubeconfig,
                         "apiVersion: v1\nkind: Config\nclusters:\n- name: ''\n  cluster:\n    "
                         "server: https://127.0.0.1:%d\n    certificate-authority-data: ",
                         server.port);
        nb_base64_encode(ca->pem, strlen(ca->pem), &kubeconfig);
        nb_buffer_append_string(&kubeconfig, "\n");
        assert_int_equal(nb_jws_sign("abcdef", key, strlen(key), kubeconfig.data, &signature), 0);
        nb_buffer_append_string(&json, "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"data\":{"
                                       "\"kubeconfig\":\"");
        append_json(&json, kubeconfig.data);
        nb_buffer_printf(&json, "\",\"jws-kubeconfig-abcdef\":\"%s\"}}", signature.data);
        nb_buffer_done(&kubeconfig);
        nb_buffer_done(&signature);
        return json.data;
}

static inline void make_node(void) {
        struct nb_key *key = NULL;

        node = pki_make(&(struct pki_options){ .dn = NODE,
                                               .issuer = &server.ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) - PKI_DAY,
                                               .not_after = time(NULL) + PKI_DAY });
        assert_int_equal(nb_key_import(node.key_pem, strlen(node.key_pem), &key), 0);
        assert_int_equal(nb_pkcs10_csr_name(key, "a", csr_name), 0);
        nb_key_free(key);
}
