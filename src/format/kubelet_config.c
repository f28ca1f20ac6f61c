/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/json.h"
#include "format/kubelet_config.h"
#include "format/yaml.h"

#define API_VERSION "kubelet.config.k8s.io/v1beta1"
#define KIND "KubeletConfiguration"
#define PATH_SIZE 128
#define TEXT_MAX 1024
#define NUMBER_MAX 20
#define INDENT 2

enum type {
        BOOLEAN,
        NUMBER,
        TEXT,     /* also durations and quantities */
        SCALAR,   /* a number or a text, as it is written */
        TEXTS,    /* a list of them */
        TEXT_MAP, /* any key */
        TAINTS,   /* a list of key, value, effect, timeAdded */
        SECTION,  /* a mapping; its keys are in the table */
        /* Kept by their values; any other is left out. */
        ONLY_FALSE,
        ONLY_ZERO,
        ONLY_EMPTY,
        ABSOLUTE, /* a path */
        /* Others. */
        CA_FILE, /* the one of this machine comes in its place */
        WEBHOOK, /* anything else is refused */
};

/*
 * What may come through. Not in it, and so left out:
 *
 *      staticPodPath, staticPodURL, staticPodURLHeader             pods that run as root, whoever controls that folder or URL
 *      volumePluginDir                                             executed as root
 *      containerRuntimeEndpoint, imageServiceEndpoint              get every secret of every pod; kubelet.criSocket is the operator's
 *      tlsCertFile, tlsPrivateKeyFile                              read as root
 *      podLogsDir, systemCgroups, kubeletCgroups, cgroupRoot,
 *      systemReservedCgroup, kubeReservedCgroup                    reach what is not kubelet's on this machine
 *      allowedUnsafeSysctls, featureGates, userNamespaces,
 *      reservedMemory, shutdownGracePeriodByPodPriority            power over the kernel, or without a bound that is known
 *      providerID, registerNode, runOnce, podCIDR                  what this node is, and that it is one, is not for all nodes alike
 *      tracing, enableSystemLogQuery, showHiddenMetricsForVersion,
 *      enableProfilingHandler, enableDebugFlagsHandler,
 *      enableContentionProfiling                                   show more of the machine than by default
 *
 * and whatever kubelet may learn later.
 */
static const struct key {
        const char *path;
        enum type type;
} keys[] = {
        { "address", TEXT },
        { "authentication", SECTION },
        { "authentication.anonymous", SECTION },
        { "authentication.anonymous.enabled", ONLY_FALSE }, /* the other way, everybody who can reach the node would be somebody */
        { "authentication.webhook", SECTION },
        { "authentication.webhook.cacheTTL", TEXT },
        { "authentication.webhook.enabled", BOOLEAN },
        { "authentication.x509", SECTION },
        { "authentication.x509.clientCAFile", CA_FILE }, /* who is signed by it may run commands in pods */
        { "authorization", SECTION },
        { "authorization.mode", WEBHOOK },
        { "authorization.webhook", SECTION },
        { "authorization.webhook.cacheAuthorizedTTL", TEXT },
        { "authorization.webhook.cacheUnauthorizedTTL", TEXT },
        { "cgroupDriver", TEXT },
        { "cgroupsPerQOS", BOOLEAN },
        { "clusterDNS", TEXTS },
        { "clusterDomain", TEXT },
        { "configMapAndSecretChangeDetectionStrategy", TEXT },
        { "containerLogMaxFiles", NUMBER },
        { "containerLogMaxSize", TEXT },
        { "containerLogMaxWorkers", NUMBER },
        { "containerLogMonitorInterval", TEXT },
        { "containerRuntimeEndpoint", ONLY_EMPTY }, /* kubeadm writes "" */
        { "contentType", TEXT },
        { "cpuCFSQuota", BOOLEAN },
        { "cpuCFSQuotaPeriod", TEXT },
        { "cpuManagerPolicy", TEXT },
        { "cpuManagerPolicyOptions", TEXT_MAP },
        { "cpuManagerReconcilePeriod", TEXT },
        { "crashLoopBackOff", SECTION },
        { "crashLoopBackOff.maxContainerRestartPeriod", TEXT },
        { "enableControllerAttachDetach", BOOLEAN },
        { "enableDebuggingHandlers", BOOLEAN }, /* logs and exec; by default they are there, behind authorization */
        { "enableServer", BOOLEAN },
        { "enableSystemLogHandler", BOOLEAN },
        { "enforceNodeAllocatable", TEXTS },
        { "eventBurst", NUMBER },
        { "eventRecordQPS", NUMBER },
        { "evictionHard", TEXT_MAP },
        { "evictionMaxPodGracePeriod", NUMBER },
        { "evictionMinimumReclaim", TEXT_MAP },
        { "evictionPressureTransitionPeriod", TEXT },
        { "evictionSoft", TEXT_MAP },
        { "evictionSoftGracePeriod", TEXT_MAP },
        { "failCgroupV1", BOOLEAN },
        { "failSwapOn", BOOLEAN },
        { "fileCheckFrequency", TEXT },
        { "hairpinMode", TEXT },
        { "healthzBindAddress", TEXT },
        { "healthzPort", NUMBER },
        { "httpCheckFrequency", TEXT },
        { "imageGCHighThresholdPercent", NUMBER },
        { "imageGCLowThresholdPercent", NUMBER },
        { "imageMaximumGCAge", TEXT },
        { "imageMinimumGCAge", TEXT },
        { "iptablesDropBit", NUMBER },
        { "iptablesMasqueradeBit", NUMBER },
        { "kernelMemcgNotification", BOOLEAN },
        { "kubeAPIBurst", NUMBER },
        { "kubeAPIQPS", NUMBER },
        { "kubeReserved", TEXT_MAP },
        { "localStorageCapacityIsolation", BOOLEAN },
        { "logging", SECTION },
        { "logging.flushFrequency", SCALAR },
        { "logging.format", TEXT },
        { "logging.options", SECTION },
        { "logging.options.json", SECTION },
        { "logging.options.json.infoBufferSize", SCALAR },
        { "logging.options.json.splitStream", BOOLEAN },
        { "logging.options.text", SECTION },
        { "logging.options.text.infoBufferSize", SCALAR },
        { "logging.options.text.splitStream", BOOLEAN },
        { "logging.verbosity", NUMBER },
        { "makeIPTablesUtilChains", BOOLEAN },
        { "maxOpenFiles", NUMBER },
        { "maxParallelImagePulls", NUMBER },
        { "maxPods", NUMBER },
        { "memoryManagerPolicy", TEXT },
        { "memorySwap", SECTION },
        { "memorySwap.swapBehavior", TEXT },
        { "memoryThrottlingFactor", NUMBER },
        { "mergeDefaultEvictionSettings", BOOLEAN },
        { "nodeLeaseDurationSeconds", NUMBER },
        { "nodeStatusMaxImages", NUMBER },
        { "nodeStatusReportFrequency", TEXT },
        { "nodeStatusUpdateFrequency", TEXT },
        { "oomScoreAdj", NUMBER },
        { "podPidsLimit", NUMBER },
        { "podsPerCore", NUMBER },
        { "port", NUMBER },
        { "protectKernelDefaults", BOOLEAN },
        { "qosReserved", TEXT_MAP },
        { "readOnlyPort", ONLY_ZERO }, /* nobody is asked who they are there */
        { "registerWithTaints", TAINTS },
        { "registryBurst", NUMBER },
        { "registryPullQPS", NUMBER },
        { "reservedSystemCPUs", TEXT },
        { "resolvConf", ABSOLUTE }, /* of what is in there pods get nameservers and search domains, and nothing else */
        { "rotateCertificates", BOOLEAN },
        { "runtimeRequestTimeout", TEXT },
        { "seccompDefault", BOOLEAN },
        { "serializeImagePulls", BOOLEAN },
        { "serverTLSBootstrap", BOOLEAN },
        { "shutdownGracePeriod", TEXT },
        { "shutdownGracePeriodCriticalPods", TEXT },
        { "singleProcessOOMKill", BOOLEAN },
        { "streamingConnectionIdleTimeout", TEXT },
        { "syncFrequency", TEXT },
        { "systemReserved", TEXT_MAP },
        { "tlsCipherSuites", TEXTS },
        { "tlsMinVersion", TEXT },
        { "topologyManagerPolicy", TEXT },
        { "topologyManagerPolicyOptions", TEXT_MAP },
        { "topologyManagerScope", TEXT },
        { "volumeStatsAggPeriod", TEXT },
};

/* What is being made. */
struct filter {
        const char *origin;
        const char *ca_file;
        enum nb_code code;
        struct nb_buffer *out;
        char *dropped;
        struct nb_failure *f;
};

const char *nb_kubelet_config_key(size_t i) {
        return i < N_ELEMENTS(keys) ? keys[i].path : NULL;
}

static const struct key *find_key(const char *path) {
        for (size_t i = 0; i < N_ELEMENTS(keys); i++)
                if (strcmp(keys[i].path, path) == 0)
                        return &keys[i];
        return NULL;
}

static int refuse(const struct filter *filter, const struct nb_yaml_node *node, const char *path, const char *expected) {
        return nb_failure_set(filter->f, filter->code, 0, "%s:%u: %.100s: expected %s, found %s", filter->origin, node->line, path, expected,
                              nb_yaml_type_name(node));
}

static int drop(const struct filter *filter, const char *path) {
        static const char more[] = ", ...";
        size_t len = strlen(filter->dropped), n = strlen(path);

        if (len >= sizeof(more) && strcmp(filter->dropped + len - strlen(more), more) == 0)
                return 0;
        if (len + n + 2 + sizeof(more) > NB_KUBELET_CONFIG_DROPPED_SIZE)
                (void)snprintf(filter->dropped + len, NB_KUBELET_CONFIG_DROPPED_SIZE - len, "%s", len > 0 ? more : more + 2);
        else {
                char name[NB_KUBELET_CONFIG_DROPPED_SIZE];

                /* A key from outside, on its way into a message. */
                nb_text_copy_line(path, n, name, sizeof(name));
                (void)snprintf(filter->dropped + len, NB_KUBELET_CONFIG_DROPPED_SIZE - len, "%s%s", len > 0 ? ", " : "", name);
        }
        return 0;
}

static int out_of_bounds(const struct filter *filter, int r) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(filter->f);
        return nb_failure_set(filter->f, filter->code, -r, "%s: expected at most %d bytes", filter->origin, NB_KUBELET_CONFIG_MAX);
}

static int put(const struct filter *filter, const char *text) {
        int r = nb_buffer_append_string(filter->out, text);

        return r < 0 ? out_of_bounds(filter, r) : 0;
}

static int put_quoted(const struct filter *filter, const char *text) {
        int r = nb_json_quote(text, strlen(text), filter->out);

        return r < 0 ? out_of_bounds(filter, r) : 0;
}

/* "  key:" */
static int put_key(const struct filter *filter, const char *key, unsigned depth) {
        int r = 0;

        for (unsigned i = 0; i < depth * INDENT && r >= 0; i++)
                r = put(filter, " ");
        if (r >= 0)
                r = put(filter, key);
        return r < 0 ? r : put(filter, ":");
}

static bool is_text(const struct nb_yaml_node *node) {
        return node->type == NB_YAML_SCALAR && node->value_len <= TEXT_MAX && (node->value_len == 0 || nb_text_is_printable(node->value, node->value_len));
}

static bool is_number(const struct nb_yaml_node *node) {
        const char *at = node->value;
        size_t n;

        if (node->type != NB_YAML_SCALAR || !node->is_plain || node->value_len > NUMBER_MAX)
                return false;
        at += *at == '-';
        n = strspn(at, "0123456789");
        if (n == 0 || (at[0] == '0' && n > 1))
                return false;
        at += n;
        if (*at != '.')
                return *at == '\0';
        n = strspn(++at, "0123456789");
        return n > 0 && at[n] == '\0';
}

static bool is_plain(const struct nb_yaml_node *node, const char *text) {
        return node->type == NB_YAML_SCALAR && node->is_plain && strcmp(node->value, text) == 0;
}

static int put_text(const struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        if (!is_text(node) || nb_yaml_is_null(node))
                return refuse(filter, node, path, "a string of printable characters");
        return put_quoted(filter, node->value);
}

static int put_texts(const struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        int r;

        if (node->type != NB_YAML_SEQUENCE)
                return refuse(filter, node, path, "a list");
        r = put(filter, "[");
        for (const struct nb_yaml_node *entry = node->first; entry && r >= 0; entry = entry->next) {
                r = put_text(filter, entry, path);
                if (r >= 0 && entry->next)
                        r = put(filter, ", ");
        }
        return r < 0 ? r : put(filter, "]");
}

/* {"key": "value"} */
static int put_map(const struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        int r;

        if (node->type != NB_YAML_MAPPING)
                return refuse(filter, node, path, "a mapping");
        r = put(filter, "{");
        for (const struct nb_yaml_node *entry = node->first; entry && r >= 0; entry = entry->next) {
                if (!nb_text_is_printable(entry->key, strlen(entry->key)) || strlen(entry->key) > TEXT_MAX)
                        return refuse(filter, entry, path, "keys of printable characters");
                r = put_quoted(filter, entry->key);
                if (r >= 0)
                        r = put(filter, ": ");
                if (r >= 0)
                        r = put_text(filter, entry, path);
                if (r >= 0 && entry->next)
                        r = put(filter, ", ");
        }
        return r < 0 ? r : put(filter, "}");
}

static int put_taints(const struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        int r;

        if (node->type != NB_YAML_SEQUENCE)
                return refuse(filter, node, path, "a list");
        r = put(filter, "[");
        for (const struct nb_yaml_node *entry = node->first; entry && r >= 0; entry = entry->next) {
                if (entry->type != NB_YAML_MAPPING)
                        return refuse(filter, entry, path, "a mapping");
                for (const struct nb_yaml_node *part = entry->first; part; part = part->next)
                        if (strcmp(part->key, "key") != 0 && strcmp(part->key, "value") != 0 && strcmp(part->key, "effect") != 0)
                                return refuse(filter, part, path, "key, value and effect");
                r = put_map(filter, entry, path);
                if (r >= 0 && entry->next)
                        r = put(filter, ", ");
        }
        return r < 0 ? r : put(filter, "]");
}

static int put_plain(const struct filter *filter, const struct nb_yaml_node *node, const char *path, enum type type) {
        if (type == BOOLEAN && !is_plain(node, "true") && !is_plain(node, "false"))
                return refuse(filter, node, path, "true or false");
        if (type == NUMBER && !is_number(node))
                return refuse(filter, node, path, "a number");
        return put(filter, node->value);
}

/* Whether the value is one that may come through at all. */
static bool is_let_through(const struct nb_yaml_node *node, enum type type) {
        if (type == ONLY_FALSE)
                return is_plain(node, "false");
        if (type == ONLY_ZERO)
                return is_plain(node, "0");
        if (type == ONLY_EMPTY)
                return node->type == NB_YAML_SCALAR && node->value_len == 0;
        if (type == ABSOLUTE)
                return is_text(node) && node->value[0] == '/';
        return true;
}

static int put_value(const struct filter *filter, const struct nb_yaml_node *node, const struct key *key) {
        switch (key->type) {
        case BOOLEAN:
        case NUMBER:
        case ONLY_FALSE:
        case ONLY_ZERO:
                return put_plain(filter, node, key->path, key->type);
        case SCALAR:
                return is_number(node) ? put(filter, node->value) : put_text(filter, node, key->path);
        case TEXTS:
                return put_texts(filter, node, key->path);
        case TEXT_MAP:
                return put_map(filter, node, key->path);
        case TAINTS:
                return put_taints(filter, node, key->path);
        case CA_FILE:
                return put_quoted(filter, filter->ca_file);
        case WEBHOOK:
                if (node->type != NB_YAML_SCALAR || strcmp(node->value, "Webhook") != 0)
                        return nb_failure_set(filter->f, filter->code, 0, "%s:%u: %s: expected Webhook, found '%.32s'", filter->origin, node->line, key->path,
                                              node->value ? node->value : "");
                return put_quoted(filter, "Webhook");
        case ONLY_EMPTY:
                return put_quoted(filter, "");
        case TEXT:
        case ABSOLUTE:
        case SECTION:
        default:
                return put_text(filter, node, key->path);
        }
}

static int put_section(const struct filter *filter, const struct nb_yaml_node *mapping, const char *prefix, unsigned depth);

static int put_entry(const struct filter *filter, const struct nb_yaml_node *node, const char *path, unsigned depth) {
        /* A dot in a key would make it one of another section. */
        const struct key *key = strchr(node->key, '.') ? NULL : find_key(path);
        int r;

        if (!key || !is_let_through(node, key->type) || (key->type == CA_FILE && !filter->ca_file))
                return drop(filter, path);
        if (key->type == SECTION && node->type != NB_YAML_MAPPING)
                return refuse(filter, node, path, "a mapping");
        r = put_key(filter, node->key, depth);
        if (r < 0)
                return r;
        if (key->type == SECTION)
                return put_section(filter, node, path, depth + 1);
        r = put(filter, " ");
        if (r >= 0)
                r = put_value(filter, node, key);
        return r < 0 ? r : put(filter, "\n");
}

/* What is left of it may be nothing. */
static int put_section(const struct filter *filter, const struct nb_yaml_node *mapping, const char *prefix, unsigned depth) {
        size_t before;
        int r;

        r = put(filter, "\n");
        before = filter->out->len;
        for (const struct nb_yaml_node *node = mapping->first; node && r >= 0; node = node->next) {
                char path[PATH_SIZE];

                /* null is the default, as if it were not there; kubeadm writes none. */
                if (nb_yaml_is_null(node))
                        continue;
                (void)snprintf(path, sizeof(path), "%s.%s", prefix, node->key);
                r = put_entry(filter, node, path, depth);
        }
        if (r < 0 || filter->out->len > before)
                return r;
        filter->out->len = before - 1;
        return put(filter, " {}\n");
}

static int verify_kind(const struct filter *filter, const struct nb_yaml_node *root) {
        static const char *const expected[][2] = { { "apiVersion", API_VERSION }, { "kind", KIND } };

        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                const struct nb_yaml_node *node = root && root->type == NB_YAML_MAPPING ? nb_yaml_get(root, expected[i][0]) : NULL;

                if (!node || node->type != NB_YAML_SCALAR || strcmp(node->value, expected[i][1]) != 0)
                        return nb_failure_set(filter->f, filter->code, 0, "%s: %s: expected %s, found %s%.64s", filter->origin, expected[i][0], expected[i][1],
                                              node ? "" : "nothing", node && node->value ? node->value : "");
        }
        return 0;
}

static int put_document(const struct filter *filter, const struct nb_yaml_node *root) {
        int r;

        r = put(filter, "apiVersion: \"" API_VERSION "\"\nkind: \"" KIND "\"\n");
        for (const struct nb_yaml_node *node = root->first; node && r >= 0; node = node->next) {
                if (strcmp(node->key, "apiVersion") == 0 || strcmp(node->key, "kind") == 0 || nb_yaml_is_null(node))
                        continue;
                r = put_entry(filter, node, node->key, 0);
        }
        return r;
}

int nb_kubelet_config_filter(const char *origin, const char *yaml, size_t len, const char *ca_file, enum nb_code code, struct nb_buffer *ret,
                             char ret_dropped[static NB_KUBELET_CONFIG_DROPPED_SIZE], struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE] = "";
        struct filter filter = { origin, ca_file, code, &out, dropped, f };
        int r;

        if (len > NB_KUBELET_CONFIG_MAX)
                return out_of_bounds(&filter, -E2BIG);
        r = nb_yaml_parse(origin, yaml, len, code, &root, f);
        if (r >= 0)
                r = verify_kind(&filter, root);
        if (r >= 0)
                r = put_document(&filter, root);
        if (r >= 0) {
                r = nb_buffer_append(ret, out.data, out.len);
                if (r < 0)
                        r = out_of_bounds(&filter, r);
        }
        if (r < 0)
                return r;
        memcpy(ret_dropped, dropped, sizeof(dropped));
        return 0;
}

int nb_kubelet_config_map_parse(const char *text, size_t len, struct nb_buffer *ret_text, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *value;
        size_t value_len;
        int r;

        r = nb_json_parse(text, len, "the ConfigMap", NB_ANSWER_MALFORMED, &json, f);
        if (r >= 0)
                r = nb_json_expect(&json, "kind", "ConfigMap", f);
        if (r >= 0)
                r = nb_json_expect(&json, "apiVersion", "v1", f);
        if (r >= 0)
                r = nb_json_string(&json, "data.kubelet", &value, &value_len, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, NB_KUBELET_CONFIG_MISSING, ENOENT, "the ConfigMap has no data.kubelet");
        r = nb_buffer_append(ret_text, value, value_len);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r < 0 ? nb_failure_set(f, NB_KUBELET_CONFIG_UNACCEPTABLE, -r, "the ConfigMap's data.kubelet has %zu bytes; expected at most %d", value_len,
                                      NB_KUBELET_CONFIG_MAX)
                     : 0;
}
