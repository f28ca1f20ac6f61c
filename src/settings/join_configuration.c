/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "settings/join_configuration.h"

#define GROUP "kubeadm.k8s.io/"
#define KIND "JoinConfiguration"
#define TIMEOUT_MAX_MS (NB_SETTING_TIMEOUT_MAX_SECONDS * 1000)

enum version {
        V1BETA2 = 1,
        V1BETA3 = 2,
        V1BETA4 = 4,
};

/* The document that is being read. */
struct reading {
        const struct nb_settings_merge *merge;
        enum version version;
        const struct nb_yaml_node *timeout; /* the last timeout; NULL if there is none */
        uint64_t timeout_ms;                /* the sum of all timeouts */
};

/* A key of the document. */
struct key {
        const char *path;
        int (*take)(struct reading *reading, const struct key *key,
                    const struct nb_yaml_node *node); /* NULL: the key is ignored */
        enum nb_setting setting;                      /* the setting that it sets */
        unsigned versions;                            /* the versions that have this key; 0: all */
};

static void add_ignored(const struct nb_settings_merge *merge, const char *name) {
        nb_text_list_add(merge->settings->ignored, NB_SETTINGS_IGNORED_SIZE, name);
}

/* --- Keys --- */

static int refuse_control_plane(struct reading *reading, const struct key *key,
                                const struct nb_yaml_node *node) {
        return nb_settings_refuse(reading->merge, node->line, key->path,
                                  "only workers can join; use `kubeadm join` for a control plane "
                                  "node");
}

/* Files for kubeadm usually contain paths and the CRI socket, so in metadata these are ignored and
 * not refused. */
static int take_setting(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node) {
        const enum nb_setting_metadata allowed = nb_setting_rows[key->setting].metadata;
        bool is_path = node->type == NB_YAML_SCALAR && node->value[0] == '/';

        if (reading->merge->source->is_metadata &&
            (allowed == NB_SETTING_METADATA_NEVER ||
             (allowed == NB_SETTING_METADATA_URL && is_path))) {
                add_ignored(reading->merge, key->path);
                return 0;
        }
        return nb_settings_store(reading->merge, key->setting, node, key->path);
}

static int take_endpoint(struct reading *reading, const struct key *key,
                         const struct nb_yaml_node *node) {
        int r = nb_settings_is_string(node)
                        ? nb_settings_refuse_bare_ipv6(reading->merge, node->line, key->path,
                                                       node->value)
                        : 0;

        if (r < 0)
                return r;
        nb_settings_clear_list(reading->merge, NB_SETTING_ENDPOINTS);
        return nb_settings_store_node(reading->merge, NB_SETTING_ENDPOINTS, node, key->path);
}

static int take_token(struct reading *reading, const struct key *key,
                      const struct nb_yaml_node *node) {
        return nb_settings_store_token(reading->merge,
                                       key->setting == NB_SETTING_BOOTSTRAP_TOKEN
                                               ? NB_SETTINGS_TOKEN_DISCOVERY
                                               : NB_SETTINGS_TOKEN_TLS_BOOTSTRAP,
                                       node, key->path);
}

/* --- Timeouts --- */

static int take_timeout(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node) {
        bool is_string = nb_settings_is_string(node);
        uint64_t ms;

        if (!is_string || nb_setting_duration_parse(node->value, true, &ms) < 0 ||
            ms > TIMEOUT_MAX_MS)
                return nb_settings_refuse_node(reading->merge, node, key->path,
                                               "a duration such as 5m0s, up to 87600h",
                                               is_string ? NULL : "a string");
        reading->timeout = node;
        reading->timeout_ms += ms;
        return 0;
}

static int set_timeout(const struct reading *reading) {
        if (!reading->timeout)
                return 0;
        if (reading->timeout_ms == 0 || reading->timeout_ms > TIMEOUT_MAX_MS)
                return nb_settings_refuse(reading->merge, reading->timeout->line,
                                          reading->timeout->key,
                                          "the sum of the timeouts must be more than 0 and at most "
                                          "87600h");
        /* The installer reads `timeout:` from a text with whole seconds. */
        reading->merge->settings->timeout_ms = (reading->timeout_ms + 999) / 1000 * 1000;
        nb_settings_copy_origin(reading->merge->source->origin,
                                reading->merge->settings->origin[NB_SETTING_TIMEOUT]);
        return 0;
}

/* --- Taints and arguments --- */

/* A mapping of strings. Controllers set timeAdded; kubelet's option cannot express it. */
static const char *const taint_keys[] = { "key", "value", "effect", "timeAdded", NULL };
static const char *const argument_keys[] = { "name", "value", NULL };

struct entry {
        const struct nb_settings_merge *merge;
        const char *values[N_ELEMENTS(taint_keys)];
};

static const char *taint_key(size_t i) {
        return taint_keys[i];
}

static const char *argument_key(size_t i) {
        return argument_keys[i];
}

static int take_member(void *userdata, size_t i, const char *path,
                       const struct nb_yaml_node *node) {
        struct entry *entry = userdata;

        if (nb_yaml_is_null(node))
                return 0;
        if (!nb_settings_is_string(node))
                return nb_settings_refuse_type(entry->merge, node, path, "a string");
        entry->values[i] = node->value;
        return 0;
}

static int store_entry(const struct entry *entry, enum nb_setting setting,
                       const struct nb_yaml_node *node, const char *path) {
        const char *const *values = entry->values;
        char text[NB_SETTINGS_TAINT_SIZE + 1];
        bool is_taint = setting == NB_SETTING_TAINTS;

        /* A name that contains '=' would be read as name and value. */
        if (strchr(values[0], '='))
                return nb_settings_refuse_text(entry->merge, node->line, path,
                                               is_taint ? "a qualified name as key"
                                                        : "the name of an option of kubelet",
                                               values[0], NULL);
        if (is_taint)
                snprintf(text, sizeof(text), "%s%s%s:%s", values[0], values[1][0] ? "=" : "",
                         values[1], values[2]);
        else
                snprintf(text, sizeof(text), "%s=%s", values[0], values[1]);
        return nb_settings_store_text(entry->merge, setting, node->line, path, text);
}

/* By name and value, as kubeadm does (ArgumentsToCommand() in cmd/kubeadm/app/util/arguments.go).
 * Of an option that is no map or list, kubelet uses the last value. */
static int compare_arguments(const void *a, const void *b) {
        size_t len_a = strcspn(a, "="), len_b = strcspn(b, "=");
        int r = memcmp(a, b, len_a < len_b ? len_a : len_b);

        if (r == 0 && len_a != len_b)
                return len_a < len_b ? -1 : 1;
        return r != 0 ? r : strcmp(a, b);
}

/* Taints, and the arguments of v1beta4. */
static int take_list(struct reading *reading, const struct key *key,
                     const struct nb_yaml_node *node) {
        const struct nb_settings_merge *merge = reading->merge;
        bool is_taint = key->setting == NB_SETTING_TAINTS;
        char path[NB_SETTING_KEY_MAX];
        unsigned i = 0;

        if (node->type != NB_YAML_SEQUENCE)
                return nb_settings_refuse_type(merge, node, key->path,
                                               is_taint ? "a list"
                                                        : "a list of name and value, as of "
                                                          "v1beta4");
        nb_settings_clear_list(merge, key->setting);
        for (const struct nb_yaml_node *item = node->first; item; item = item->next) {
                struct entry entry = { merge, { "", "", "" } };
                struct nb_settings_walk walk = { merge, is_taint ? taint_key : argument_key,
                                                 take_member, &entry, 0 };
                int r;

                walk.base_len = (size_t)snprintf(path, sizeof(path), "%s[%u]", key->path, i++) + 1;
                if (item->type != NB_YAML_MAPPING)
                        return nb_settings_refuse_type(merge, item, path, "a mapping");
                r = nb_settings_walk(&walk, item, path);
                if (r < 0)
                        return r;
                r = store_entry(&entry, key->setting, item, path);
                if (r < 0)
                        return r;
        }
        if (!is_taint)
                qsort(merge->settings->extra_args, merge->settings->n_extra_args,
                      sizeof(merge->settings->extra_args[0]), compare_arguments);
        return 0;
}

/* The name is a word of the document, so messages have the key of the mapping, and the line. */
static int take_argument(void *userdata, size_t i _unused_, const char *path _unused_,
                         const struct nb_yaml_node *node) {
        static const char key[] = "nodeRegistration.kubeletExtraArgs";
        struct entry entry = { userdata, { node->key, "" } };
        int r = take_member(&entry, 1, key, node);

        return r < 0 ? r : store_entry(&entry, NB_SETTING_EXTRA_ARGS, node, key);
}

/* v1beta2 and v1beta3 have a mapping of name to value. */
static int take_arguments(struct reading *reading, const struct key *key,
                          const struct nb_yaml_node *node) {
        struct nb_settings_merge merge = *reading->merge;
        const struct nb_settings_walk walk = { &merge, NULL, take_argument, &merge, 0 };

        if (reading->version == V1BETA4)
                return take_list(reading, key, node);
        if (node->type != NB_YAML_MAPPING)
                return nb_settings_refuse_type(&merge, node, key->path,
                                               "a mapping of names to values, as before v1beta4");
        nb_settings_clear_list(&merge, NB_SETTING_EXTRA_ARGS);
        return nb_settings_walk(&walk, node, key->path);
}

/* --- The document --- */

#define NONE _NB_SETTING_N

static const struct key keys[] = {
        { "caCertPath", take_setting, NB_SETTING_CA_FILE },
        { "controlPlane", refuse_control_plane },
        { "discovery.bootstrapToken.apiServerEndpoint", take_endpoint },
        { "discovery.bootstrapToken.caCertHashes", take_setting, NB_SETTING_CA_CERT_HASHES },
        { "discovery.bootstrapToken.token", take_token, NB_SETTING_BOOTSTRAP_TOKEN },
        { "discovery.bootstrapToken.unsafeSkipCAVerification", take_setting,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { "discovery.file.kubeConfigPath", take_setting, NB_SETTING_DISCOVERY_FILE },
        { "discovery.timeout", take_timeout, NONE, V1BETA2 | V1BETA3 },
        { "discovery.tlsBootstrapToken", take_token, NONE },
        { "dryRun", NULL, NONE, V1BETA4 },
        { "nodeRegistration.criSocket", take_setting, NB_SETTING_CRI_SOCKET },
        { "nodeRegistration.ignorePreflightErrors" },
        { "nodeRegistration.imagePullPolicy", NULL, NONE, V1BETA3 | V1BETA4 },
        { "nodeRegistration.imagePullSerial", NULL, NONE, V1BETA4 },
        { "nodeRegistration.kubeletExtraArgs", take_arguments, NB_SETTING_EXTRA_ARGS },
        { "nodeRegistration.name", take_setting, NB_SETTING_NODE_NAME },
        { "nodeRegistration.taints", take_list, NB_SETTING_TAINTS },
        { "patches", NULL, NONE, V1BETA3 | V1BETA4 },
        { "skipPhases", NULL, NONE, V1BETA3 | V1BETA4 },
        { "timeouts.controlPlaneComponentHealthCheck", NULL, NONE, V1BETA4 },
        { "timeouts.discovery", take_timeout, NONE, V1BETA4 },
        { "timeouts.etcdAPICall", NULL, NONE, V1BETA4 },
        { "timeouts.kubeletHealthCheck", NULL, NONE, V1BETA4 },
        { "timeouts.kubernetesAPICall", NULL, NONE, V1BETA4 },
        { "timeouts.tlsBootstrap", take_timeout, NONE, V1BETA4 },
        { "timeouts.upgradeManifests", NULL, NONE, V1BETA4 },
};

static const char *known_key(size_t i) {
        return i < N_ELEMENTS(keys) ? keys[i].path : NULL;
}

static int take_key(void *userdata, size_t i, const char *path, const struct nb_yaml_node *node) {
        struct reading *reading = userdata;

        if (keys[i].versions && !(keys[i].versions & reading->version))
                return nb_settings_refuse(reading->merge, node->line, path,
                                          "unknown key in this apiVersion");
        if (nb_yaml_is_null(node) || (node->type == NB_YAML_SCALAR && node->value_len == 0))
                return 0;
        if (keys[i].take)
                return keys[i].take(reading, &keys[i], node);
        add_ignored(reading->merge, path);
        return 0;
}

static const char *header_text(const struct nb_yaml_node *root, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        return node && node->type == NB_YAML_SCALAR ? node->value : "";
}

static int parse_version(const struct nb_settings_merge *merge, const struct nb_yaml_node *root,
                         enum version *ret_version) {
        static const char *const versions[] = { GROUP "v1beta2", GROUP "v1beta3", GROUP "v1beta4" };
        static const char key[] = "apiVersion",
                          expected[] = GROUP "v1beta2, v1beta3 or v1beta4 for a " KIND;
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        for (size_t i = 0; i < N_ELEMENTS(versions); i++)
                if (strcmp(header_text(root, key), versions[i]) == 0) {
                        *ret_version = 1U << i;
                        return 0;
                }
        if (!node)
                return nb_settings_refuse(merge, root->line, key, "expected %s, found nothing",
                                          expected);
        return nb_settings_refuse_node(merge, node, key, expected, NULL);
}

static int merge_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        struct reading reading = { .merge = merge };
        const struct nb_settings_walk walk = { merge,    known_key, take_key,
                                               &reading, 0,         merge->source->is_tolerant };
        const struct nb_yaml_node *discovery = nb_yaml_get(root, "discovery"),
                                  *token = nb_yaml_get(discovery, "bootstrapToken"),
                                  *file = nb_yaml_get(discovery, "file"),
                                  *name = nb_yaml_get(nb_yaml_get(root, "metadata"), "name");
        int r;

        r = parse_version(merge, root, &reading.version);
        if (r < 0)
                return r;
        /* The place of the name in an object of Kubernetes. */
        if (name)
                return nb_settings_refuse(merge, name->line, "metadata.name",
                                          "unknown key; did you mean nodeRegistration.name?");
        if (!nb_yaml_is_null(token) && !nb_yaml_is_null(file))
                return nb_settings_refuse(merge, file->line, "discovery.file",
                                          "expected this or discovery.bootstrapToken (line %u), "
                                          "found both",
                                          token->line);
        r = nb_settings_walk(&walk, root, "");
        return r < 0 ? r : set_timeout(&reading);
}

/* --- The file --- */

static const struct nb_yaml_node *find_document(const struct nb_yaml_node *documents) {
        while (documents && strcmp(header_text(documents, "kind"), KIND) != 0)
                documents = documents->next;
        return documents;
}

/* Ignores another document if kubeadm knows its kind; otherwise refuses it. */
static int ignore_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        static const struct {
                const char *group;
                const char *kind;
        } others[] = {
                { GROUP, "ClusterConfiguration" },
                { GROUP, "InitConfiguration" },
                { GROUP, "ResetConfiguration" },
                { GROUP, "UpgradeConfiguration" },
                { "kubelet.config.k8s.io/", "KubeletConfiguration" },
                { "kubeproxy.config.k8s.io/", "KubeProxyConfiguration" },
        };
        const char *version = header_text(root, "apiVersion"), *kind = header_text(root, "kind");

        for (size_t i = 0; i < N_ELEMENTS(others); i++)
                if (strcmp(kind, others[i].kind) == 0 &&
                    strncmp(version, others[i].group, strlen(others[i].group)) == 0) {
                        add_ignored(merge, others[i].kind);
                        return 0;
                }
        return nb_settings_refuse_text(
                merge, root->line, "kind",
                "a document of kubeadm, kubelet or kube-proxy beside the " KIND, kind, NULL);
}

int nb_join_configuration_merge(const struct nb_settings_merge *merge,
                                const struct nb_yaml_node *documents) {
        const struct nb_yaml_node *root = find_document(documents), *second;
        int r;

        if (!root && strncmp(header_text(documents, "apiVersion"), GROUP, strlen(GROUP)) == 0)
                return nb_settings_refuse_text(merge, documents->line, "kind",
                                               "a " KIND ", which is what is read of kubeadm",
                                               header_text(documents, "kind"), NULL);
        if (!root)
                return 0;
        second = find_document(root->next);
        if (second)
                return nb_settings_refuse(merge, second->line, "kind",
                                          "a second " KIND "; the first is on line %u", root->line);
        for (; documents; documents = documents->next) {
                r = documents == root ? 0 : ignore_document(merge, documents);
                if (r < 0)
                        return r;
        }
        r = merge_document(merge, root);
        return r < 0 ? r : 1;
}
