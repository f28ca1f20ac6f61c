/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "format/join_configuration.h"

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
        const struct nb_yaml_node *timeout; /* the last one that stood there; NULL for none */
        uint64_t timeout_ms;                /* the sum of them */
};

/* A key of the document; the mappings that it stands in have rows too. */
struct key {
        const char *path;
        unsigned versions; /* that have it */
        int (*take)(struct reading *reading, const struct key *key, const struct nb_yaml_node *node);
        enum nb_setting setting; /* of those that are a setting of ours */
};

static int walk(struct reading *reading, const char *parent, const struct nb_yaml_node *mapping);

static bool is_absent(const struct nb_yaml_node *node) {
        return nb_yaml_is_null(node) || (node->type == NB_YAML_SCALAR && node->value_len == 0);
}

static int refuse_type(const struct reading *reading, const struct nb_yaml_node *node, const char *path,
                       const char *expected) {
        return nb_settings_refuse(reading->merge, node, path, expected, expected, NULL);
}

static int check_type(const struct reading *reading, const struct nb_yaml_node *node, const char *path,
                      enum nb_yaml_type type) {
        if (node->type == type)
                return 0;
        return refuse_type(reading, node, path, type == NB_YAML_MAPPING ? "a mapping" : "a list");
}

/* --- What is passed over --- */

/* Whether `name` is one of those in "a, b, c". */
static bool is_listed(const char *list, const char *name) {
        const size_t len = strlen(name);

        for (const char *p = list; *p;) {
                size_t n = strcspn(p, ",");

                if (n == len && memcmp(p, name, len) == 0)
                        return true;
                p += n + strspn(p + n, ", ");
        }
        return false;
}

static void note_ignored(const struct reading *reading, const char *name) {
        static const char more[] = "...";
        char *list = reading->merge->settings->ignored;
        size_t len = strlen(list);
        const char *separator = len > 0 ? ", " : "";

        if (is_listed(list, name) || is_listed(list, more))
                return;
        /* So that "..." fits as well. */
        if (len + strlen(separator) + strlen(name) + sizeof(", ...") > NB_SETTINGS_IGNORED_SIZE)
                name = more;
        (void)snprintf(list + len, NB_SETTINGS_IGNORED_SIZE - len, "%s%s", separator, name);
}

static int pass_over(struct reading *reading, const struct key *key, const struct nb_yaml_node *node _unused_) {
        note_ignored(reading, key->path);
        return 0;
}

static int pass_over_header(struct reading *reading _unused_, const struct key *key _unused_,
                            const struct nb_yaml_node *node _unused_) {
        return 0;
}

/* --- What is taken --- */

static int take_section(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        int r;

        r = check_type(reading, node, key->path, NB_YAML_MAPPING);
        return r < 0 ? r : walk(reading, key->path, node);
}

/* Paths and the socket stand in every one that kubeadm's users have: out of metadata they are no error, and do nothing. */
static bool is_for_the_machine(const struct reading *reading, enum nb_setting setting, const struct nb_yaml_node *node) {
        bool is_path = setting == NB_SETTING_DISCOVERY_FILE && node->type == NB_YAML_SCALAR && node->value[0] == '/';

        return reading->merge->is_metadata && (is_path || !nb_setting_is_for_metadata(setting));
}

static int take_setting(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        if (is_for_the_machine(reading, key->setting, node)) {
                note_ignored(reading, key->path);
                return 0;
        }
        return nb_settings_store(reading->merge, key->setting, node, key->path);
}

static int refuse_control_plane(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        return nb_failure_set(reading->merge->f, NB_SETTINGS_INVALID, 0,
                              "%s:%u: %s: expected nothing, since only workers are joined; a control plane node needs "
                              "`kubeadm join`",
                              reading->merge->origin, node->line, key->path);
}

static int take_endpoint(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        if (strcmp(nb_yaml_type_name(node), "a string") != 0)
                return refuse_type(reading, node, key->path, "a string");
        nb_settings_clear_list(reading->merge, NB_SETTING_ENDPOINTS);
        return nb_settings_store_entry(reading->merge, NB_SETTING_ENDPOINTS, node->line, node->value, key->path);
}

static int take_discovery_token(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        return nb_settings_store_discovery_token(reading->merge, node, key->path, false);
}

static int take_tls_bootstrap_token(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        return nb_settings_store_tls_bootstrap_token(reading->merge, node, key->path);
}

/* --- Durations, as Go writes and reads them --- */

static int parse_digits(const char **text, size_t max, uint64_t *ret, size_t *ret_n) {
        size_t n = strspn(*text, "0123456789");
        uint64_t value = 0;

        if (n > max)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                value = value * 10 + (uint64_t)((*text)[i] - '0');
        *text += n;
        *ret = value;
        *ret_n = n;
        return 0;
}

/* A number, with a fraction perhaps, and its unit: "1.5h". What is shorter than a millisecond is cut. */
static int parse_quantity(const char **text, uint64_t *ret_ms) {
        static const struct {
                const char *name;
                uint64_t ms;
        } units[] = { { "ms", 1 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 } };
        uint64_t whole, fraction = 0, scale = 1;
        size_t n_whole, n_fraction = 0;

        if (parse_digits(text, 10, &whole, &n_whole) < 0)
                return -EINVAL;
        if (**text == '.') {
                (*text)++;
                if (parse_digits(text, 9, &fraction, &n_fraction) < 0)
                        return -EINVAL;
        }
        if (n_whole + n_fraction == 0)
                return -EINVAL;
        for (size_t i = 0; i < n_fraction; i++)
                scale *= 10;
        for (size_t i = 0; i < N_ELEMENTS(units); i++) {
                size_t len = strlen(units[i].name);

                if (strncmp(*text, units[i].name, len) != 0)
                        continue;
                *text += len;
                *ret_ms = whole * units[i].ms + fraction * units[i].ms / scale;
                return 0;
        }
        return -EINVAL;
}

static int parse_go_duration(const char *text, uint64_t *ret_ms) {
        uint64_t sum = 0, ms;

        if (strcmp(text, "0") != 0)
                do {
                        if (parse_quantity(&text, &ms) < 0)
                                return -EINVAL;
                        sum += ms;
                        if (sum > TIMEOUT_MAX_MS)
                                return -EINVAL;
                } while (*text);
        *ret_ms = sum;
        return 0;
}

#define EXPECTED_DURATION "a duration such as 5m0s, up to 87600h"

static int take_timeout(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        uint64_t ms;

        if (strcmp(nb_yaml_type_name(node), "a string") != 0)
                return nb_settings_refuse(reading->merge, node, key->path, EXPECTED_DURATION, "a string", NULL);
        if (parse_go_duration(node->value, &ms) < 0)
                return nb_settings_refuse(reading->merge, node, key->path, EXPECTED_DURATION, NULL, NULL);
        reading->timeout = node;
        reading->timeout_ms += ms;
        return 0;
}

static int set_timeout(const struct reading *reading) {
        if (!reading->timeout)
                return 0;
        if (reading->timeout_ms == 0 || reading->timeout_ms > TIMEOUT_MAX_MS)
                return nb_failure_set(reading->merge->f, NB_SETTINGS_INVALID, 0,
                                      "%s:%u: %s: expected timeouts of more than 0 and up to 87600h together, found others",
                                      reading->merge->origin, reading->timeout->line, reading->timeout->key);
        reading->merge->settings->timeout_ms = reading->timeout_ms;
        nb_settings_set_origin(reading->merge, NB_SETTING_TIMEOUT);
        return 0;
}

/* --- Taints and arguments --- */

/* The string under `key` of an entry, "" where it is not there. */
static int get_text(const struct reading *reading, const struct nb_yaml_node *entry, const char *path, const char *key,
                    const char **ret) {
        const struct nb_yaml_node *node = nb_yaml_get(entry, key);
        char full[NB_SETTING_KEY_MAX];

        *ret = "";
        if (nb_yaml_is_null(node))
                return 0;
        (void)snprintf(full, sizeof(full), "%.80s.%.40s", path, key);
        if (strcmp(nb_yaml_type_name(node), "a string") != 0)
                return refuse_type(reading, node, full, "a string");
        *ret = node->value;
        return 0;
}

/* That an entry is a mapping of these keys alone. `keys` ends with NULL. */
static int check_entry(const struct reading *reading, const struct nb_yaml_node *entry, const char *path,
                       const char *const *keys) {
        char full[NB_SETTING_KEY_MAX];
        int r;

        r = check_type(reading, entry, path, NB_YAML_MAPPING);
        if (r < 0)
                return r;
        for (const struct nb_yaml_node *node = entry->first; node; node = node->next) {
                const char *const *key = keys;

                r = nb_settings_check_key(reading->merge, node);
                if (r < 0)
                        return r;
                while (*key && strcmp(*key, node->key) != 0)
                        key++;
                (void)snprintf(full, sizeof(full), "%.63s.%.63s", path, node->key);
                if (!*key)
                        return nb_settings_refuse_unknown(reading->merge, node, full, NULL);
        }
        return 0;
}

/* timeAdded is for taints that a controller set; kubelet's option has no place for it. */
static int take_taint(const struct reading *reading, const struct nb_yaml_node *entry, const char *path) {
        static const char *const keys[] = { "key", "value", "effect", "timeAdded", NULL };
        const char *key, *value, *effect;
        char text[NB_SETTINGS_TAINT_SIZE + 1];
        int r;

        r = check_entry(reading, entry, path, keys);
        if (r >= 0)
                r = get_text(reading, entry, path, "key", &key);
        if (r >= 0)
                r = get_text(reading, entry, path, "value", &value);
        if (r >= 0)
                r = get_text(reading, entry, path, "effect", &effect);
        if (r < 0)
                return r;
        (void)snprintf(text, sizeof(text), "%s%s%s:%s", key, value[0] ? "=" : "", value, effect);
        /* A key with '=' in it would be read as key and value. */
        if (strchr(key, '='))
                return nb_settings_refuse_text(reading->merge, entry->line, path, "a qualified name as key", key, NULL);
        return nb_settings_store_entry(reading->merge, NB_SETTING_TAINTS, entry->line, text, path);
}

static int take_taints(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        char path[NB_SETTING_KEY_MAX];
        unsigned i = 0;
        int r;

        r = check_type(reading, node, key->path, NB_YAML_SEQUENCE);
        if (r < 0)
                return r;
        nb_settings_clear_list(reading->merge, NB_SETTING_TAINTS);
        for (const struct nb_yaml_node *entry = node->first; entry && r >= 0; entry = entry->next) {
                (void)snprintf(path, sizeof(path), "%s[%u]", key->path, i++);
                r = take_taint(reading, entry, path);
        }
        return r;
}

static int add_argument(const struct reading *reading, const struct nb_yaml_node *node, const char *path,
                        const char *name, const char *value) {
        char text[NB_SETTINGS_EXTRA_ARG_SIZE + 1];

        (void)snprintf(text, sizeof(text), "%s=%s", name, value);
        if (strchr(name, '='))
                return nb_settings_refuse_text(reading->merge, node->line, path, "the name of an option of kubelet",
                                               name, NULL);
        return nb_settings_store_entry(reading->merge, NB_SETTING_EXTRA_ARGS, node->line, text, path);
}

/* v1beta2 and v1beta3: a mapping of name to value. */
static int take_argument_map(struct reading *reading, const struct key *key, const struct nb_yaml_node *mapping) {
        char path[NB_SETTING_KEY_MAX];
        const char *value;
        int r;

        r = check_type(reading, mapping, key->path, NB_YAML_MAPPING);
        if (r < 0)
                return r;
        nb_settings_clear_list(reading->merge, NB_SETTING_EXTRA_ARGS);
        for (const struct nb_yaml_node *node = mapping->first; node && r >= 0; node = node->next) {
                (void)snprintf(path, sizeof(path), "%.63s.%.63s", key->path, node->key);
                r = nb_settings_check_key(reading->merge, node);
                if (r >= 0)
                        r = get_text(reading, mapping, key->path, node->key, &value);
                if (r >= 0)
                        r = add_argument(reading, node, path, node->key, value);
        }
        return r;
}

static int take_argument(const struct reading *reading, const struct nb_yaml_node *entry, const char *path) {
        static const char *const keys[] = { "name", "value", NULL };
        const char *name = NULL, *value = NULL;
        int r;

        r = check_entry(reading, entry, path, keys);
        if (r >= 0)
                r = get_text(reading, entry, path, "name", &name);
        if (r >= 0)
                r = get_text(reading, entry, path, "value", &value);
        return r < 0 ? r : add_argument(reading, entry, path, name, value);
}

/* v1beta4: a list of name and value. */
static int take_argument_list(struct reading *reading, const struct key *key, const struct nb_yaml_node *node) {
        char path[NB_SETTING_KEY_MAX];
        unsigned i = 0;
        int r;

        r = check_type(reading, node, key->path, NB_YAML_SEQUENCE);
        if (r < 0)
                return r;
        nb_settings_clear_list(reading->merge, NB_SETTING_EXTRA_ARGS);
        for (const struct nb_yaml_node *entry = node->first; entry && r >= 0; entry = entry->next) {
                (void)snprintf(path, sizeof(path), "%s[%u]", key->path, i++);
                r = take_argument(reading, entry, path);
        }
        return r;
}

/* --- The document --- */

#define NONE _NB_SETTING_N

static const struct key keys[] = {
        { "apiVersion", ALL, pass_over_header, NONE },
        { "kind", ALL, pass_over_header, NONE },
        { "caCertPath", ALL, take_setting, NB_SETTING_CA_FILE },
        { "controlPlane", ALL, refuse_control_plane, NONE },
        { "discovery", ALL, take_section, NONE },
        { "discovery.bootstrapToken", ALL, take_section, NONE },
        { "discovery.bootstrapToken.apiServerEndpoint", ALL, take_endpoint, NONE },
        { "discovery.bootstrapToken.caCertHashes", ALL, take_setting, NB_SETTING_CA_CERT_HASHES },
        { "discovery.bootstrapToken.token", ALL, take_discovery_token, NONE },
        { "discovery.bootstrapToken.unsafeSkipCAVerification", ALL, take_setting,
          NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION },
        { "discovery.file", ALL, take_section, NONE },
        { "discovery.file.kubeConfigPath", ALL, take_setting, NB_SETTING_DISCOVERY_FILE },
        { "discovery.timeout", V1BETA2 | V1BETA3, take_timeout, NONE },
        { "discovery.tlsBootstrapToken", ALL, take_tls_bootstrap_token, NONE },
        { "dryRun", V1BETA4, pass_over, NONE },
        { "nodeRegistration", ALL, take_section, NONE },
        { "nodeRegistration.criSocket", ALL, take_setting, NB_SETTING_CRI_SOCKET },
        { "nodeRegistration.ignorePreflightErrors", ALL, pass_over, NONE },
        { "nodeRegistration.imagePullPolicy", V1BETA3 | V1BETA4, pass_over, NONE },
        { "nodeRegistration.imagePullSerial", V1BETA4, pass_over, NONE },
        { "nodeRegistration.kubeletExtraArgs", V1BETA2 | V1BETA3, take_argument_map, NONE },
        { "nodeRegistration.kubeletExtraArgs", V1BETA4, take_argument_list, NONE },
        { "nodeRegistration.name", ALL, take_setting, NB_SETTING_NODE_NAME },
        { "nodeRegistration.taints", ALL, take_taints, NONE },
        { "patches", V1BETA3 | V1BETA4, pass_over, NONE },
        { "skipPhases", V1BETA3 | V1BETA4, pass_over, NONE },
        { "timeouts", V1BETA4, take_section, NONE },
        { "timeouts.controlPlaneComponentHealthCheck", V1BETA4, pass_over, NONE },
        { "timeouts.discovery", V1BETA4, take_timeout, NONE },
        { "timeouts.etcdAPICall", V1BETA4, pass_over, NONE },
        { "timeouts.kubeletHealthCheck", V1BETA4, pass_over, NONE },
        { "timeouts.kubernetesAPICall", V1BETA4, pass_over, NONE },
        { "timeouts.tlsBootstrap", V1BETA4, take_timeout, NONE },
        { "timeouts.upgradeManifests", V1BETA4, pass_over, NONE },
};

static int take_key(struct reading *reading, const char *path, const struct nb_yaml_node *node) {
        const char *meant = NULL;
        unsigned least = NB_SETTINGS_FAR;

        for (size_t i = 0; i < N_ELEMENTS(keys); i++) {
                if (!(keys[i].versions & reading->version))
                        continue;
                if (strcmp(keys[i].path, path) == 0)
                        return is_absent(node) ? 0 : keys[i].take(reading, &keys[i], node);
                nb_settings_nearer(path, keys[i].path, &meant, &least);
        }
        return nb_settings_refuse_unknown(reading->merge, node, path, meant);
}

static int walk(struct reading *reading, const char *parent, const struct nb_yaml_node *mapping) {
        char path[NB_SETTING_KEY_MAX];
        int r = 0;

        for (const struct nb_yaml_node *node = mapping->first; node && r >= 0; node = node->next) {
                (void)snprintf(path, sizeof(path), "%.63s%s%.63s", parent, parent[0] ? "." : "", node->key);
                r = nb_settings_check_key(reading->merge, node);
                if (r < 0)
                        return r;
                if (strchr(node->key, '.'))
                        return nb_failure_set(reading->merge->f, NB_SETTINGS_INVALID, 0,
                                              "%s:%u: %s: expected one mapping in another, found a key with a dot",
                                              reading->merge->origin, node->line, path);
                r = take_key(reading, path, node);
        }
        return r;
}

static int check_exclusive(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        const struct nb_yaml_node *discovery = nb_yaml_get(root, "discovery");
        const struct nb_yaml_node *token = nb_yaml_get(discovery, "bootstrapToken"),
                                  *file = nb_yaml_get(discovery, "file");

        if (nb_yaml_is_null(token) || nb_yaml_is_null(file))
                return 0;
        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                              "%s: expected one of discovery.bootstrapToken and discovery.file, found both, in lines %u "
                              "and %u",
                              merge->origin, token->line, file->line);
}

static int parse_version(const struct nb_settings_merge *merge, const struct nb_yaml_node *root,
                         enum version *ret_version) {
        static const struct {
                const char *name;
                enum version version;
        } versions[] = { { GROUP "v1beta2", V1BETA2 }, { GROUP "v1beta3", V1BETA3 }, { GROUP "v1beta4", V1BETA4 } };
        const struct nb_yaml_node *node = nb_yaml_get(root, "apiVersion");

        for (size_t i = 0; i < N_ELEMENTS(versions); i++)
                if (node && node->type == NB_YAML_SCALAR && strcmp(node->value, versions[i].name) == 0) {
                        *ret_version = versions[i].version;
                        return 0;
                }
        return nb_settings_refuse(merge, node ? node : root, "apiVersion",
                                  GROUP "v1beta2, v1beta3 or v1beta4 for a " KIND, NULL,
                                  node ? NULL : " without an apiVersion");
}

static int merge_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
        struct reading reading = { .merge = merge };
        int r;

        r = parse_version(merge, root, &reading.version);
        if (r >= 0)
                r = check_exclusive(merge, root);
        if (r >= 0)
                r = walk(&reading, "", root);
        return r < 0 ? r : set_timeout(&reading);
}

/* --- The file --- */

static const char *header_text(const struct nb_yaml_node *root, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(root, key);

        return node && node->type == NB_YAML_SCALAR ? node->value : "";
}

static bool is_join_configuration(const struct nb_yaml_node *root) {
        return strcmp(header_text(root, "kind"), KIND) == 0;
}

bool nb_join_configuration_is_meant(const struct nb_yaml_node *documents) {
        for (const struct nb_yaml_node *root = documents; root; root = root->next)
                if (is_join_configuration(root) ||
                    strncmp(header_text(root, "apiVersion"), GROUP, strlen(GROUP)) == 0)
                        return true;
        return false;
}

/* A document that kubeadm allows beside the one that is wanted. */
static int pass_over_document(const struct nb_settings_merge *merge, const struct nb_yaml_node *root) {
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
                        note_ignored(&reading, others[i].kind);
                        return 0;
                }
        return nb_settings_refuse_text(merge, root->line, "kind",
                                       "a document of kubeadm, kubelet or kube-proxy beside the " KIND, kind, NULL);
}

int nb_join_configuration_merge(const struct nb_settings_merge *merge, const struct nb_yaml_node *documents) {
        const struct nb_yaml_node *found = NULL;
        int r = 0;

        for (const struct nb_yaml_node *root = documents; root && r >= 0; root = root->next) {
                if (!is_join_configuration(root)) {
                        r = pass_over_document(merge, root);
                        continue;
                }
                if (found)
                        return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                              "%s:%u: expected one " KIND ", found a second one; the first is in line %u",
                                              merge->origin, root->line, found->line);
                found = root;
        }
        if (r < 0)
                return r;
        if (!found)
                return nb_failure_set(merge->f, NB_SETTINGS_INVALID, 0,
                                      "%s: expected a " KIND " among the documents of kubeadm, found none",
                                      merge->origin);
        return merge_document(merge, found);
}
