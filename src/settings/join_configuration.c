/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
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
        ALL = V1BETA2 | V1BETA3 | V1BETA4,
};

/* The document that is being read. */
struct reading {
        const struct nb_settings_merge *merge;
        enum version version;
        const struct nb_yaml_node *timeout; /* the last one; NULL for none */
        uint64_t timeout_ms;                /* their sum */
};

/* A key of the document. A mapping with keys of its own has a row too. */
struct key {
        const char *path;
        unsigned versions;
        int (*take)(struct reading *reading, const struct key *key,
                    const struct nb_yaml_node *node);
        enum nb_setting setting; /* that it sets */
};

static int take_key(void *userdata, const char *path, const struct nb_yaml_node *node);

static bool is_absent(const struct nb_yaml_node *node) {
        return nb_yaml_is_null(node) || (node->type == NB_YAML_SCALAR && node->value_len == 0);
}

static void add_ignored(const struct reading *reading, const char *name) {
        nb_text_list_add(reading->merge->settings->ignored, NB_SETTINGS_IGNORED_SIZE, name);
}

/* --- Keys --- */

static int take_ignored(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node _unused_) {
        add_ignored(reading, key->path);
        return 0;
}

static int take_section(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node) {
        if (node->type != NB_YAML_MAPPING)
                return nb_settings_refuse_node(reading->merge, node, key->path, "a mapping",
                                               "a mapping");
        return nb_settings_walk(reading->merge, node, key->path, take_key, reading);
}

static int refuse_control_plane(struct reading *reading, const struct key *key,
                                const struct nb_yaml_node *node) {
        return nb_settings_refuse(reading->merge, node->line, key->path,
                                  "only workers can join; use `kubeadm join` for a control plane "
                                  "node");
}

/* kubeadm's users have paths and the socket in each file, so that they are no error in metadata. */
static int take_setting(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node) {
        const enum nb_setting_metadata allowed = nb_setting_rows[key->setting].metadata;
        bool is_path = node->type == NB_YAML_SCALAR && node->value[0] == '/';

        if (reading->merge->source->is_metadata &&
            (allowed == NB_SETTING_METADATA_NEVER ||
             (allowed == NB_SETTING_METADATA_URL && is_path)))
                return take_ignored(reading, key, node);
        return nb_settings_store(reading->merge, key->setting, node, key->path);
}

static int refuse_type(const struct reading *reading, const struct nb_yaml_node *node,
                       const char *path, const char *type) {
        return nb_settings_refuse_node(reading->merge, node, path, type, type);
}

static int take_endpoint(struct reading *reading, const struct key *key,
                         const struct nb_yaml_node *node) {
        if (!nb_settings_is_string(node))
                return refuse_type(reading, node, key->path, "a string");
        nb_settings_clear_list(reading->merge, NB_SETTING_ENDPOINTS);
        return nb_settings_store_text(reading->merge, NB_SETTING_ENDPOINTS, node->line, key->path,
                                      node->value);
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

/* As Go writes durations: "1h30m", "1.5s", "500ms"; what is below a millisecond is cut. 12 digits
 * cannot overflow. */
static int parse_go_duration(const char *text, uint64_t *ret_ms) {
        static const struct {
                const char *name;
                uint64_t ms;
        } units[] = { { "ms", 1 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 } };
        uint64_t sum = 0;

        if (strcmp(text, "0") == 0)
                text = "0s";
        do {
                uint64_t value = 0, scale = 1;
                bool has_point = false;
                size_t n = 0, unit = 0;

                for (; (*text >= '0' && *text <= '9') || (*text == '.' && !has_point); text++) {
                        if (*text == '.') {
                                has_point = true;
                                continue;
                        }
                        value = value * 10 + (uint64_t)(*text - '0');
                        scale *= has_point ? 10 : 1;
                        if (++n > 12)
                                return -EINVAL;
                }
                while (unit < N_ELEMENTS(units) &&
                       strncmp(text, units[unit].name, strlen(units[unit].name)) != 0)
                        unit++;
                if (n == 0 || unit == N_ELEMENTS(units))
                        return -EINVAL;
                text += strlen(units[unit].name);
                sum += value * units[unit].ms / scale;
                if (sum > TIMEOUT_MAX_MS)
                        return -EINVAL;
        } while (*text);
        *ret_ms = sum;
        return 0;
}

static int take_timeout(struct reading *reading, const struct key *key,
                        const struct nb_yaml_node *node) {
        bool is_string = nb_settings_is_string(node);
        uint64_t ms;

        if (!is_string || parse_go_duration(node->value, &ms) < 0)
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
        nb_settings_set_origin(reading->merge, NB_SETTING_TIMEOUT);
        return 0;
}

/* --- Taints and arguments --- */

/* A mapping of strings. */
struct entry {
        const struct reading *reading;
        const char *const *names; /* of its keys, ends with NULL */
        const char *values[4];    /* "" for absent ones */
};

static int take_member(void *userdata, const char *path, const struct nb_yaml_node *node) {
        static const struct nb_settings_guess none = NB_SETTINGS_GUESS_INIT;
        struct entry *entry = userdata;
        size_t i = 0;

        while (entry->names[i] && strcmp(entry->names[i], node->key) != 0)
                i++;
        if (!entry->names[i])
                return nb_settings_refuse_unknown(entry->reading->merge, node->line, path, &none);
        if (nb_yaml_is_null(node))
                return 0;
        if (!nb_settings_is_string(node))
                return refuse_type(entry->reading, node, path, "a string");
        entry->values[i] = node->value;
        return 0;
}

static int read_entry(struct entry *entry, const struct nb_yaml_node *node, const char *path) {
        for (size_t i = 0; i < N_ELEMENTS(entry->values); i++)
                entry->values[i] = "";
        if (node->type != NB_YAML_MAPPING)
                return refuse_type(entry->reading, node, path, "a mapping");
        return nb_settings_walk(entry->reading->merge, node, path, take_member, entry);
}

/* timeAdded is for taints that a controller set; kubelet's option has no place for it. */
static int take_taint(const struct reading *reading, const struct nb_yaml_node *node,
                      const char *path) {
        static const char *const names[] = { "key", "value", "effect", "timeAdded", NULL };
        struct entry entry = { reading, names, { 0 } };
        char text[NB_SETTINGS_TAINT_SIZE + 1];
        int r;

        r = read_entry(&entry, node, path);
        if (r < 0)
                return r;
        /* A key with '=' in it would be read as key and value. */
        if (strchr(entry.values[0], '='))
                return nb_settings_refuse_text(reading->merge, node->line, path,
                                               "a qualified name as key", entry.values[0], NULL);
        snprintf(text, sizeof(text), "%s%s%s:%s", entry.values[0], entry.values[1][0] ? "=" : "",
                 entry.values[1], entry.values[2]);
        return nb_settings_store_text(reading->merge, NB_SETTING_TAINTS, node->line, path, text);
}

static int add_argument(const struct reading *reading, const struct nb_yaml_node *node,
                        const char *path, const char *name, const char *value) {
        char text[NB_SETTINGS_EXTRA_ARG_SIZE + 1];

        if (strchr(name, '='))
                return nb_settings_refuse_text(reading->merge, node->line, path,
                                               "the name of an option of kubelet", name, NULL);
        snprintf(text, sizeof(text), "%s=%s", name, value);
        return nb_settings_store_text(reading->merge, NB_SETTING_EXTRA_ARGS, node->line, path,
                                      text);
}

static int take_argument(const struct reading *reading, const struct nb_yaml_node *node,
                         const char *path) {
        static const char *const names[] = { "name", "value", NULL };
        struct entry entry = { reading, names, { 0 } };
        int r;

        r = read_entry(&entry, node, path);
        if (r < 0)
                return r;
        return add_argument(reading, node, path, entry.values[0], entry.values[1]);
}

/* Taints, and the arguments of v1beta4. */
static int take_list(struct reading *reading, const struct key *key,
                     const struct nb_yaml_node *node) {
        char path[NB_SETTING_KEY_MAX];
        unsigned i = 0;
        int r;

        if (node->type != NB_YAML_SEQUENCE)
                return refuse_type(reading, node, key->path, "a list");
        nb_settings_clear_list(reading->merge, key->setting);
        for (const struct nb_yaml_node *entry = node->first; entry; entry = entry->next) {
                snprintf(path, sizeof(path), "%s[%u]", key->path, i++);
                r = key->setting == NB_SETTING_TAINTS ? take_taint(reading, entry, path)
                                                      : take_argument(reading, entry, path);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int take_argument_of_map(void *userdata, const char *path, const struct nb_yaml_node *node) {
        const struct reading *reading = userdata;

        if (!nb_yaml_is_null(node) && !nb_settings_is_string(node))
                return refuse_type(reading, node, path, "a string");
        return add_argument(reading, node, path, node->key,
                            nb_yaml_is_null(node) ? "" : node->value);
}

/* v1beta2 and v1beta3: a mapping of name to value. */
static int take_argument_map(struct reading *reading, const struct key *key,
                             const struct nb_yaml_node *node) {
        if (node->type != NB_YAML_MAPPING)
                return refuse_type(reading, node, key->path, "a mapping");
        nb_settings_clear_list(reading->merge, NB_SETTING_EXTRA_ARGS);
        return nb_settings_walk(reading->merge, node, key->path, take_argument_of_map, reading);
}

/* --- The document --- */

#define NONE _NB_SETTING_N

static const struct key keys[] = {
        { "caCertPath", ALL, take_setting, NB_SETTING_CA_FILE },
        { "controlPlane", ALL, refuse_control_plane, NONE },
        { "discovery", ALL, take_section, NONE },
        { "discovery.bootstrapToken", ALL, take_section, NONE },
        { "discovery.bootstrapToken.apiServerEndpoint", ALL, take_endpoint, NONE },
        { "discovery.bootstrapToken.caCertHashes", ALL, take_setting, NB_SETTING_CA_CERT_HASHES },
        { "discovery.bootstrapToken.token", ALL, take_token, NB_SETTING_BOOTSTRAP_TOKEN },
        { "discovery.bootstrapToken.unsafeSkipCAVerification", ALL, take_setting,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { "discovery.file", ALL, take_section, NONE },
        { "discovery.file.kubeConfigPath", ALL, take_setting, NB_SETTING_DISCOVERY_FILE },
        { "discovery.timeout", V1BETA2 | V1BETA3, take_timeout, NONE },
        { "discovery.tlsBootstrapToken", ALL, take_token, NONE },
        { "dryRun", V1BETA4, take_ignored, NONE },
        { "nodeRegistration", ALL, take_section, NONE },
        { "nodeRegistration.criSocket", ALL, take_setting, NB_SETTING_CRI_SOCKET },
        { "nodeRegistration.ignorePreflightErrors", ALL, take_ignored, NONE },
        { "nodeRegistration.imagePullPolicy", V1BETA3 | V1BETA4, take_ignored, NONE },
        { "nodeRegistration.imagePullSerial", V1BETA4, take_ignored, NONE },
        { "nodeRegistration.kubeletExtraArgs", V1BETA2 | V1BETA3, take_argument_map, NONE },
        { "nodeRegistration.kubeletExtraArgs", V1BETA4, take_list, NB_SETTING_EXTRA_ARGS },
        { "nodeRegistration.name", ALL, take_setting, NB_SETTING_NODE_NAME },
        { "nodeRegistration.taints", ALL, take_list, NB_SETTING_TAINTS },
        { "patches", V1BETA3 | V1BETA4, take_ignored, NONE },
        { "skipPhases", V1BETA3 | V1BETA4, take_ignored, NONE },
        { "timeouts", V1BETA4, take_section, NONE },
        { "timeouts.controlPlaneComponentHealthCheck", V1BETA4, take_ignored, NONE },
        { "timeouts.discovery", V1BETA4, take_timeout, NONE },
        { "timeouts.etcdAPICall", V1BETA4, take_ignored, NONE },
        { "timeouts.kubeletHealthCheck", V1BETA4, take_ignored, NONE },
        { "timeouts.kubernetesAPICall", V1BETA4, take_ignored, NONE },
        { "timeouts.tlsBootstrap", V1BETA4, take_timeout, NONE },
        { "timeouts.upgradeManifests", V1BETA4, take_ignored, NONE },
};

static int take_key(void *userdata, const char *path, const struct nb_yaml_node *node) {
        struct nb_settings_guess guess = NB_SETTINGS_GUESS_INIT;
        struct reading *reading = userdata;

        if (strcmp(path, "apiVersion") == 0 || strcmp(path, "kind") == 0)
                return 0;
        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                if (!(keys[i].versions & reading->version))
                        continue;
                if (strcmp(keys[i].path, path) == 0)
                        return is_absent(node) ? 0 : keys[i].take(reading, &keys[i], node);
                nb_settings_guess(&guess, path, keys[i].path);
        }
        return nb_settings_refuse_unknown(reading->merge, node->line, path, &guess);
}

static const char *header_text(const struct nb_yaml_node *root, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        return node && node->type == NB_YAML_SCALAR ? node->value : "";
}

static int parse_version(const struct nb_settings_merge *merge, const struct nb_yaml_node *root,
                         enum version *ret_version) {
        static const struct {
                const char *name;
                enum version version;
        } versions[] = { { GROUP "v1beta2", V1BETA2 },
                         { GROUP "v1beta3", V1BETA3 },
                         { GROUP "v1beta4", V1BETA4 } };
        static const char key[] = "apiVersion",
                          expected[] = GROUP "v1beta2, v1beta3 or v1beta4 for a " KIND;
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        for (size_t i = 0; i < N_ELEMENTS(versions); i++)
                if (strcmp(header_text(root, key), versions[i].name) == 0) {
                        *ret_version = versions[i].version;
                        return 0;
                }
        if (!node)
                return nb_settings_refuse(merge, root->line, key, "expected %s, found nothing",
                                          expected);
        return nb_settings_refuse_node(merge, node, key, expected, NULL);
}

static int merge_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        struct reading reading = { .merge = merge };
        const struct nb_yaml_node *discovery = nb_yaml_get(root, "discovery"),
                                  *token = nb_yaml_get(discovery, "bootstrapToken"),
                                  *file = nb_yaml_get(discovery, "file");
        int r;

        r = parse_version(merge, root, &reading.version);
        if (r < 0)
                return r;
        if (!nb_yaml_is_null(token) && !nb_yaml_is_null(file))
                return nb_settings_refuse(merge, file->line, "discovery.file",
                                          "expected this or discovery.bootstrapToken (line %u), "
                                          "found both",
                                          token->line);
        r = nb_settings_walk(merge, root, "", take_key, &reading);
        return r < 0 ? r : set_timeout(&reading);
}

/* --- The file --- */

static bool is_join_configuration(const struct nb_yaml_node *root) {
        return strcmp(header_text(root, "kind"), KIND) == 0;
}

bool nb_is_join_configuration(const struct nb_yaml_node *documents) {
        for (const struct nb_yaml_node *root = documents; root; root = root->next)
                if (is_join_configuration(root) ||
                    strncmp(header_text(root, "apiVersion"), GROUP, strlen(GROUP)) == 0)
                        return true;
        return false;
}

/* Another document, which kubeadm has to know. */
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
        struct reading reading = { .merge = merge };

        for (size_t i = 0; i < N_ELEMENTS(others); i++)
                if (strcmp(kind, others[i].kind) == 0 &&
                    strncmp(version, others[i].group, strlen(others[i].group)) == 0) {
                        add_ignored(&reading, others[i].kind);
                        return 0;
                }
        return nb_settings_refuse_text(
                merge, root->line, "kind",
                "a document of kubeadm, kubelet or kube-proxy beside the " KIND, kind, NULL);
}

int nb_join_configuration_merge(const struct nb_settings_merge *merge,
                                const struct nb_yaml_node *documents) {
        const struct nb_yaml_node *found = NULL;
        int r;

        for (const struct nb_yaml_node *root = documents; root; root = root->next) {
                if (is_join_configuration(root) && found)
                        return nb_settings_refuse(merge, root->line, "kind",
                                                  "a second " KIND "; the first is in line %u",
                                                  found->line);
                if (is_join_configuration(root)) {
                        found = root;
                        continue;
                }
                r = ignore_document(merge, root);
                if (r < 0)
                        return r;
        }
        if (!found)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                      "%s: expected a " KIND
                                      " among the documents of kubeadm, found none",
                                      merge->source->origin);
        return merge_document(merge, found);
}
