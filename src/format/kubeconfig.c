/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "format/json.h"
#include "format/kubeconfig.h"
#include "format/kubeconfig_entry.h"

/* The host part alone, as url.c has it. */
int nb_tls_server_name_verify(const char *text) {
        struct nb_url url;

        /* A port, brackets and a bare IPv6 address would do for an endpoint. */
        if (strchr(text, ':') || text[0] == '[')
                return -EINVAL;
        return nb_endpoint_parse(text, strlen(text), &url);
}

/* The port has to be there: without one, curl and Go go to different ports. */
int nb_proxy_url_verify(const char *text) {
        static const char *const schemes[] = { "http://", "https://", "socks5://" };
        struct nb_url url;

        if (strlen(text) > NB_PROXY_URL_MAX)
                return -EINVAL;
        for (size_t i = 0; i < N_ELEMENTS(schemes); i++) {
                size_t scheme_len = strlen(schemes[i]);
                const char *authority = text + scheme_len, *colon;

                if (strncmp(text, schemes[i], scheme_len) != 0)
                        continue;
                colon = strrchr(authority, ':');
                if (!colon || colon[1 + strspn(colon + 1, "0123456789")] != '\0' || colon[1] == '\0')
                        return -EINVAL;
                if (authority[0] != '[' && strchr(authority, ':') != colon)
                        return -EINVAL;
                return nb_endpoint_parse(authority, strlen(authority), &url);
        }
        return -EINVAL;
}

void nb_cluster_done(struct nb_cluster *cluster) {
        free(cluster->ca);
        cluster->ca = NULL;
        cluster->ca_len = 0;
}

static int quoted(struct nb_buffer *ret, const char *before, const char *text) {
        int r;

        r = nb_buffer_append_string(ret, before);
        if (r >= 0)
                r = nb_json_quote(text, strlen(text), ret);
        if (r >= 0)
                r = nb_buffer_append(ret, "\n", 1);
        return r;
}

int nb_kubeconfig_format(const struct nb_kubeconfig *kubeconfig, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(kubeconfig->server, server);
        r = nb_buffer_append_string(ret,
                                    "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n");
        if (r >= 0 && kubeconfig->ca_file)
                r = quoted(ret, "    certificate-authority: ", kubeconfig->ca_file);
        if (r >= 0)
                r = quoted(ret, "    server: ", server);
        if (r >= 0 && kubeconfig->tls_server_name[0])
                r = quoted(ret, "    tls-server-name: ", kubeconfig->tls_server_name);
        if (r >= 0 && kubeconfig->proxy_url[0])
                r = quoted(ret, "    proxy-url: ", kubeconfig->proxy_url);
        if (r >= 0)
                r = nb_buffer_append_string(
                        ret, "contexts:\n- name: default-context\n  context:\n    cluster: default-cluster\n"
                             "    namespace: default\n    user: default-auth\n"
                             "current-context: default-context\npreferences: {}\n"
                             "users:\n- name: default-auth\n  user:\n");
        if (r >= 0)
                r = quoted(ret, "    client-certificate: ", kubeconfig->client_certificate);
        if (r >= 0)
                r = quoted(ret, "    client-key: ", kubeconfig->client_certificate);
        return r;
}

/* --- A kubeconfig of our own making --- */

static int take_own(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *root, struct nb_cluster *cluster) {
        const struct nb_yaml_node *entry = nb_kubeconfig_find_named(root, "clusters", "default-cluster", "cluster");

        if (!entry || entry->type != NB_YAML_MAPPING)
                return nb_kubeconfig_refuse(reading, "clusters", "something else", "default-cluster");
        return nb_kubeconfig_take_cluster(reading, entry, cluster);
}

int nb_kubeconfig_parse_own(const char *origin, const char *yaml, size_t len, const char *ca_file, const char *client_certificate,
                            struct nb_cluster *ret_cluster, struct nb_failure *f) {
        const struct nb_kubeconfig_reading reading = { origin, NB_REFRESH_INAPPLICABLE, f };
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        struct nb_cluster cluster = { 0 };
        int r;

        r = nb_yaml_parse(origin, yaml, len, reading.code, &root, f);
        if (r >= 0)
                r = take_own(&reading, root, &cluster);
        if (r < 0)
                return r;
        r = nb_kubeconfig_format(
                &(struct nb_kubeconfig){
                        .server = &cluster.server,
                        .tls_server_name = cluster.tls_server_name,
                        .proxy_url = cluster.proxy_url,
                        .ca_file = ca_file,
                        .client_certificate = client_certificate,
                },
                &own);
        if (r < 0)
                return nb_failure_set_memory(f);
        if (own.len != len || memcmp(own.data, yaml, len) != 0)
                return nb_failure_set(f, reading.code, 0,
                                      "%s: expected a kubeconfig as node-bootstrap writes it, with the CA file '%s' and the certificate "
                                      "'%s'; found another one",
                                      origin, ca_file, client_certificate);
        *ret_cluster = cluster;
        return 0;
}

/* --- A kubeconfig on this machine --- */

static int copy_text(const struct nb_yaml_node *mapping, const char *key, char **ret, struct nb_failure *f) {
        const char *text = nb_kubeconfig_find_text(mapping, key);

        if (!text)
                return 0;
        *ret = strdup(text);
        return *ret ? 0 : nb_failure_set_memory(f);
}

/* What cannot be decoded is passed over: then there is no certificate or key, and the machine joins anew. */
static int copy_certificate(const struct nb_yaml_node *user, struct nb_kubeconfig_client *client,
                            struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(NB_KUBECONFIG_DATA_MAX);
        const struct nb_yaml_node *node = nb_kubeconfig_find_scalar(user, "client-certificate-data");
        int r;

        if (!node)
                return 0;
        r = nb_kubeconfig_decode(node, &buffer);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        client->certificate_data_len = buffer.len;
        client->certificate_data = TAKE(buffer.data);
        return 0;
}

static int copy_key(const struct nb_yaml_node *user, struct nb_kubeconfig_client *client, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(NB_KUBECONFIG_DATA_MAX);
        const struct nb_yaml_node *node = nb_kubeconfig_find_scalar(user, "client-key-data");
        int r;

        if (!node)
                return 0;
        r = nb_kubeconfig_decode(node, &buffer);
        if (r >= 0)
                r = nb_secret_init(&client->key_data, buffer.len);
        if (r >= 0)
                r = nb_secret_append(&client->key_data, buffer.data, buffer.len);
        if (buffer.data)
                explicit_bzero(buffer.data, buffer.len);
        return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
}

static int take_client(const struct nb_yaml_node *root, struct nb_kubeconfig_client *client, struct nb_failure *f) {
        const struct nb_yaml_node *context = nb_kubeconfig_find_named(root, "contexts", nb_kubeconfig_find_text(root, "current-context"),
                                                                      "context");
        const struct nb_yaml_node *cluster = nb_kubeconfig_find_named(root, "clusters", nb_kubeconfig_find_text(context, "cluster"), "cluster");
        const struct nb_yaml_node *user = nb_kubeconfig_find_named(root, "users", nb_kubeconfig_find_text(context, "user"), "user");
        int r;

        r = copy_text(cluster, "server", &client->server, f);
        if (r >= 0)
                r = copy_text(cluster, "certificate-authority", &client->ca_file, f);
        if (r >= 0)
                r = copy_text(user, "client-certificate", &client->certificate_file, f);
        if (r >= 0)
                r = copy_text(user, "client-key", &client->key_file, f);
        if (r >= 0)
                r = copy_certificate(user, client, f);
        if (r >= 0)
                r = copy_key(user, client, f);
        return r;
}

/* A power cut leaves a file that was not synced empty, or full of NUL bytes: nothing in it that could be lost. */
static bool is_void(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (text[i] != '\0')
                        return false;
        return true;
}

int nb_kubeconfig_parse_client(const char *origin, const char *yaml, size_t len,
                               struct nb_kubeconfig_client *ret_client, struct nb_failure *f) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client = { .key_data = NB_SECRET_INIT };
        int r;

        if (len > NB_KUBECONFIG_MAX)
                return nb_failure_set(f, NB_TARGET_NOT_KUBECONFIG, 0, "%s: expected at most %d bytes, found %zu",
                                      origin, NB_KUBECONFIG_MAX, len);
        if (is_void(yaml, len)) {
                *ret_client = (struct nb_kubeconfig_client){ .key_data = NB_SECRET_INIT };
                return 0;
        }
        r = nb_yaml_parse(origin, yaml, len, NB_TARGET_NOT_KUBECONFIG, &root, f);
        if (r < 0)
                return r;
        if (!nb_kubeconfig_has_text(root, "kind", "Config"))
                return nb_failure_set(f, NB_TARGET_NOT_KUBECONFIG, 0,
                                      "%s: expected a kubeconfig (kind: Config), found kind: '%.64s'", origin,
                                      nb_kubeconfig_find_text(root, "kind") ? nb_kubeconfig_find_text(root, "kind") : "");
        r = take_client(root, &client, f);
        if (r < 0)
                return r;

        *ret_client = client;
        client = (struct nb_kubeconfig_client){ .key_data = NB_SECRET_INIT };
        return 0;
}

void nb_kubeconfig_client_done(struct nb_kubeconfig_client *client) {
        free(client->server);
        free(client->ca_file);
        free(client->certificate_file);
        free(client->key_file);
        free(client->certificate_data);
        nb_secret_done(&client->key_data);
        *client = (struct nb_kubeconfig_client){ .key_data = NB_SECRET_INIT };
}
