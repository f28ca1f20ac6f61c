/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/kubeconfig_entry.h"

bool nb_kubeconfig_has_text(const struct nb_yaml_node *mapping, const char *key, const char *expected) {
        const struct nb_yaml_node *node = nb_yaml_get(mapping, key);

        return node && node->type == NB_YAML_SCALAR && strcmp(node->value, expected) == 0;
}

int nb_kubeconfig_decode(const struct nb_yaml_node *node, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBECONFIG_DATA_MAX * 4 / 3 + 4);
        int r = 0;

        for (const char *p = node->value; *p && r >= 0;) {
                size_t len = strcspn(p, "\r\n");

                r = nb_buffer_append(&text, p, len);
                p += len + strspn(p + len, "\r\n");
        }
        if (r >= 0)
                r = nb_base64_decode(text.data ? text.data : "", text.len, ret);
        if (r >= 0 && (ret->len == 0 || memchr(ret->data, '\0', ret->len)))
                r = -EINVAL;
        if (text.data)
                explicit_bzero(text.data, text.len);
        return r;
}

bool nb_kubeconfig_is_empty(const struct nb_yaml_node *node) {
        return nb_yaml_is_null(node) || (node->type != NB_YAML_SCALAR && !node->first);
}

const struct nb_yaml_node *nb_kubeconfig_find_named(const struct nb_yaml_node *root, const char *list, const char *name,
                                                    const char *member) {
        const struct nb_yaml_node *entries = nb_yaml_get(root, list), *found = NULL;

        if (!name || !entries || entries->type != NB_YAML_SEQUENCE)
                return NULL;
        for (const struct nb_yaml_node *entry = entries->first; entry; entry = entry->next) {
                if (!nb_kubeconfig_has_text(entry, "name", name))
                        continue;
                if (found)
                        return NULL;
                found = entry;
        }
        return nb_yaml_get(found, member);
}

const struct nb_yaml_node *nb_kubeconfig_find_scalar(const struct nb_yaml_node *mapping, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(mapping, key);

        return node && node->type == NB_YAML_SCALAR && !nb_yaml_is_null(node) && node->value_len > 0 ? node : NULL;
}

const char *nb_kubeconfig_find_text(const struct nb_yaml_node *mapping, const char *key) {
        const struct nb_yaml_node *node = nb_kubeconfig_find_scalar(mapping, key);

        return node ? node->value : NULL;
}

int nb_kubeconfig_refuse(const struct nb_kubeconfig_reading *reading, const char *path, const char *found,
                         const char *expected) {
        return nb_failure_set(reading->f, reading->code, 0, "%s: %s: expected %s, found %s", reading->origin, path, expected,
                              found);
}

/* --- A cluster --- */

static int check_insecure(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster) {
        static const char key[] = "insecure-skip-tls-verify";
        const struct nb_yaml_node *node = nb_yaml_get(cluster, key);

        if (nb_yaml_is_null(node) || (node->is_plain && nb_kubeconfig_has_text(cluster, key, "false")))
                return 0;
        return nb_kubeconfig_refuse(reading, key, node->type == NB_YAML_SCALAR ? "another value" : nb_yaml_type_name(node),
                                    "false, or not there");
}

/* Copies a scalar that `verify` accepts; not there is fine. */
static int take_text(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster, const char *key, int (*verify)(const char *text),
                     const char *expected, char *ret, size_t size) {
        const struct nb_yaml_node *node = nb_yaml_get(cluster, key);

        ret[0] = '\0';
        if (nb_yaml_is_null(node) || (node->type == NB_YAML_SCALAR && node->value_len == 0))
                return 0;
        if (node->type != NB_YAML_SCALAR || node->value_len >= size || verify(node->value) < 0)
                return nb_kubeconfig_refuse(reading, key, nb_yaml_type_name(node), expected);
        memcpy(ret, node->value, node->value_len + 1);
        return 0;
}

static int take_server(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster, struct nb_url *ret_server) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        const struct nb_yaml_node *node = nb_yaml_get(cluster, "server");

        if (nb_yaml_is_null(node) || node->type != NB_YAML_SCALAR)
                return nb_kubeconfig_refuse(reading, "server", nb_yaml_type_name(node), "an https URL");
        if (nb_url_parse(node->value, node->value_len, ret_server) >= 0)
                return 0;
        /* What stands before an '@' may be a password. */
        if (strchr(node->value, '@'))
                return nb_kubeconfig_refuse(reading, "server", "one with a user", "https://HOST[:PORT][/PREFIX]");
        return nb_failure_set(reading->f, reading->code, 0,
                              "%s: server: expected https://HOST[:PORT][/PREFIX], found %s", reading->origin,
                              nb_text_quote(node->value, node->value_len, quoted));
}

int nb_kubeconfig_take_cluster(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster,
                               struct nb_cluster *ret) {
        int r;

        r = check_insecure(reading, cluster);
        if (r >= 0)
                r = take_server(reading, cluster, &ret->server);
        if (r >= 0)
                r = take_text(reading, cluster, "tls-server-name", nb_tls_server_name_verify, "a host name",
                              ret->tls_server_name, sizeof(ret->tls_server_name));
        if (r >= 0)
                r = take_text(reading, cluster, "proxy-url", nb_proxy_url_verify,
                              "http, https or socks5 with host and port, without a user", ret->proxy_url,
                              sizeof(ret->proxy_url));
        return r;
}

int nb_kubeconfig_take_ca_data(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *node,
                               struct nb_cluster *ret) {
        static const char key[] = "certificate-authority-data";
        _cleanup_(nb_buffer_done) struct nb_buffer ca = NB_BUFFER_INIT(NB_KUBECONFIG_DATA_MAX);
        int r;

        if (nb_yaml_is_null(node) || node->type != NB_YAML_SCALAR)
                return nb_kubeconfig_refuse(reading, key, nb_yaml_type_name(node), "the CA in base64");
        r = nb_kubeconfig_decode(node, &ca);
        if (r == -ENOMEM)
                return nb_failure_set_memory(reading->f);
        if (r < 0)
                return nb_kubeconfig_refuse(reading, key, "something else", "PEM in base64");
        ret->ca_len = ca.len;
        ret->ca = TAKE(ca.data);
        return 0;
}

/* --- The kubeconfig in cluster-info --- */

static int check_document(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *root) {
        const struct nb_yaml_node *clusters = nb_yaml_get(root, "clusters");

        if (!nb_kubeconfig_has_text(root, "kind", "Config") || !nb_kubeconfig_has_text(root, "apiVersion", "v1"))
                return nb_kubeconfig_refuse(reading, "kind", "another document", "Config of apiVersion v1");
        if (!nb_kubeconfig_is_empty(nb_yaml_get(root, "users")))
                return nb_kubeconfig_refuse(reading, "users", "entries, which may hold credentials", "none");
        if (nb_kubeconfig_is_empty(clusters) || clusters->type != NB_YAML_SEQUENCE)
                return nb_kubeconfig_refuse(reading, "clusters", nb_yaml_type_name(clusters), "a list of exactly one");
        if (clusters->first->next)
                return nb_kubeconfig_refuse(reading, "clusters", "several", "exactly one");
        return 0;
}

static int take_cluster(const struct nb_kubeconfig_reading *reading, const struct nb_yaml_node *cluster,
                        struct nb_cluster *ret) {
        int r;

        if (!cluster || cluster->type != NB_YAML_MAPPING)
                return nb_kubeconfig_refuse(reading, "clusters[0].cluster", nb_yaml_type_name(cluster), "a mapping");
        r = nb_kubeconfig_take_cluster(reading, cluster, ret);
        if (r < 0)
                return r;
        if (nb_yaml_get(cluster, "certificate-authority"))
                return nb_kubeconfig_refuse(reading, "certificate-authority", "a path",
                                            "certificate-authority-data alone");
        return nb_kubeconfig_take_ca_data(reading, nb_yaml_get(cluster, "certificate-authority-data"), ret);
}

int nb_kubeconfig_parse_cluster(const char *yaml, size_t len, struct nb_cluster *ret_cluster, struct nb_failure *f) {
        const struct nb_kubeconfig_reading reading = { "kubeconfig in cluster-info", NB_CLUSTER_INFO_UNACCEPTABLE, f };
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = {};
        int r;

        if (len > NB_KUBECONFIG_MAX)
                return nb_failure_set(f, reading.code, 0, "%s: expected at most %d bytes, found %zu", reading.origin,
                                      NB_KUBECONFIG_MAX, len);
        r = nb_yaml_parse(reading.origin, yaml, len, reading.code, &root, f);
        if (r >= 0)
                r = check_document(&reading, root);
        if (r >= 0)
                r = take_cluster(&reading, nb_yaml_get(nb_yaml_get(root, "clusters")->first, "cluster"), &cluster);
        if (r < 0)
                return r;

        *ret_cluster = cluster;
        cluster = (struct nb_cluster){};
        return 0;
}
