/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "codec/yaml.h"
#include "kube_objects/kubelet_config.h"
#include "kube_objects/object.h"

#define API_VERSION "kubelet.config.k8s.io/v1beta1"
#define KIND "KubeletConfiguration"
#define PATH_SIZE 128
#define CONFIG_MAP_MAX (2 * 1024 * 1024) /* etcd limits an object to 1.5 MiB */
#define TEXT_MAX 1024
#define NUMBER_MAX 20

enum type {
        BOOLEAN,
        NUMBER,
        TEXT,     /* also durations and quantities */
        SCALAR,   /* a number or a text, unchanged */
        TEXTS,    /* a list of texts */
        TEXT_MAP, /* a mapping of any keys to texts */
        TAINTS,   /* a list of mappings of key, value and effect */
        WEBHOOK,  /* this word; any other is refused */
        CA_FILE,  /* replaced by this machine's; dropped if it has none */
        /* Dropped with any other value: */
        ONLY_FALSE,
        ONLY_ZERO,
        ONLY_EMPTY,
        ABSOLUTE, /* a path */
        _TYPE_N,

        SECTION = _TYPE_N, /* contains other keys */
        UNKNOWN,
};

/*
 * The keys that a cluster may set. All others are dropped, including keys of later kubelet
 * versions. The reasons to drop a key:
 *
 *      staticPodPath, staticPodURL, staticPodURLHeader
 *              anyone who controls that folder or URL could run pods as root
 *      volumePluginDir
 *              programs in it run as root
 *      containerRuntimeEndpoint, imageServiceEndpoint
 *              the endpoint receives every secret of every pod; set kubelet.criSocket instead
 *      tlsCertFile, tlsPrivateKeyFile
 *              kubelet reads these files as root
 *      podLogsDir, systemCgroups, kubeletCgroups, cgroupRoot, systemReservedCgroup,
 *      kubeReservedCgroup
 *              they affect files and cgroups of this machine that are not kubelet's
 *      allowedUnsafeSysctls, featureGates, userNamespaces, reservedMemory,
 *      shutdownGracePeriodByPodPriority
 *              they give power over the kernel, or power without a known limit
 *      providerID, registerNode, runOnce, podCIDR
 *              they differ between nodes
 *      tracing, enableSystemLogQuery, showHiddenMetricsForVersion, enableProfilingHandler,
 *      enableDebugFlagsHandler, enableContentionProfiling
 *              they expose more of the machine than the defaults
 */
/* Each row ends with NULL. */
static const char *const keys[_TYPE_N][40] = {
        [BOOLEAN] = {
                "authentication.webhook.enabled",
                "cgroupsPerQOS",
                "cpuCFSQuota",
                "enableControllerAttachDetach",
                /* Logs and exec: enabled by default, behind authorization. */
                "enableDebuggingHandlers",
                "enableServer",
                "enableSystemLogHandler",
                "failCgroupV1",
                "failSwapOn",
                "kernelMemcgNotification",
                "localStorageCapacityIsolation",
                "logging.options.json.splitStream",
                "logging.options.text.splitStream",
                "makeIPTablesUtilChains",
                "mergeDefaultEvictionSettings",
                "protectKernelDefaults",
                "rotateCertificates",
                "seccompDefault",
                "serializeImagePulls",
                "serverTLSBootstrap",
                "singleProcessOOMKill",
        },
        [NUMBER] = {
                "containerLogMaxFiles",
                "containerLogMaxWorkers",
                "eventBurst",
                "eventRecordQPS",
                "evictionMaxPodGracePeriod",
                "healthzPort",
                "imageGCHighThresholdPercent",
                "imageGCLowThresholdPercent",
                "iptablesDropBit",
                "iptablesMasqueradeBit",
                "kubeAPIBurst",
                "kubeAPIQPS",
                "logging.verbosity",
                "maxOpenFiles",
                "maxParallelImagePulls",
                "maxPods",
                "memoryThrottlingFactor",
                "nodeLeaseDurationSeconds",
                "nodeStatusMaxImages",
                "oomScoreAdj",
                "podPidsLimit",
                "podsPerCore",
                "port",
                "registryBurst",
                "registryPullQPS",
        },
        [TEXT] = {
                "address",
                "authentication.webhook.cacheTTL",
                "authorization.webhook.cacheAuthorizedTTL",
                "authorization.webhook.cacheUnauthorizedTTL",
                "cgroupDriver",
                "clusterDomain",
                "configMapAndSecretChangeDetectionStrategy",
                "containerLogMaxSize",
                "containerLogMonitorInterval",
                "contentType",
                "cpuCFSQuotaPeriod",
                "cpuManagerPolicy",
                "cpuManagerReconcilePeriod",
                "crashLoopBackOff.maxContainerRestartPeriod",
                "evictionPressureTransitionPeriod",
                "fileCheckFrequency",
                "hairpinMode",
                "healthzBindAddress",
                "httpCheckFrequency",
                "imageMaximumGCAge",
                "imageMinimumGCAge",
                "logging.format",
                "memoryManagerPolicy",
                "memorySwap.swapBehavior",
                "nodeStatusReportFrequency",
                "nodeStatusUpdateFrequency",
                "reservedSystemCPUs",
                "runtimeRequestTimeout",
                "shutdownGracePeriod",
                "shutdownGracePeriodCriticalPods",
                "streamingConnectionIdleTimeout",
                "syncFrequency",
                "tlsMinVersion",
                "topologyManagerPolicy",
                "topologyManagerScope",
                "volumeStatsAggPeriod",
        },
        [SCALAR] = {
                "logging.flushFrequency",
                "logging.options.json.infoBufferSize",
                "logging.options.text.infoBufferSize",
        },
        [TEXTS] = { "clusterDNS", "enforceNodeAllocatable", "tlsCipherSuites" },
        [TEXT_MAP] = {
                "cpuManagerPolicyOptions",
                "evictionHard",
                "evictionMinimumReclaim",
                "evictionSoft",
                "evictionSoftGracePeriod",
                "kubeReserved",
                "qosReserved",
                "systemReserved",
                "topologyManagerPolicyOptions",
        },
        [TAINTS] = { "registerWithTaints" },
        [WEBHOOK] = { "authorization.mode" },
        /* Clients with a certificate of this CA can be allowed to run commands in pods. */
        [CA_FILE] = { "authentication.x509.clientCAFile" },
        /* With anonymous access, anyone who can reach the node has an identity. */
        [ONLY_FALSE] = { "authentication.anonymous.enabled" },
        /* The read-only port does not authenticate its clients. */
        [ONLY_ZERO] = { "readOnlyPort" },
        /* kubeadm writes "". */
        [ONLY_EMPTY] = { "containerRuntimeEndpoint" },
        /* Pods get only the name servers and search domains from this file. */
        [ABSOLUTE] = { "resolvConf" },
};

/* After the first failure, nothing more is written. */
struct filter {
        const struct nb_kubelet_config_source *source;
        struct nb_buffer *out;
        char *dropped;
        struct nb_failure *f; /* the first one is kept */
};

static enum type find_type(const char *path) {
        size_t len = strlen(path);

        for (unsigned type = 0; type < _TYPE_N; type++)
                for (const char *const *key = keys[type]; *key; key++)
                        if (strncmp(*key, path, len) == 0 &&
                            ((*key)[len] == '\0' || (*key)[len] == '.'))
                                return (*key)[len] == '.' ? SECTION : (enum type)type;
        return UNKNOWN;
}

static void refuse_value(struct filter *filter, const struct nb_yaml_node *node, const char *path,
                         const char *expected) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        filter->out->error = nb_failure_set(
                filter->f, filter->source->code, 0, "%s:%u: %.100s: expected %s, found %s%s%s",
                filter->source->origin, node->line, path, expected, nb_yaml_type_name(node),
                node->type == NB_YAML_SCALAR ? " " : "",
                node->type == NB_YAML_SCALAR ? nb_text_quote(node->value, node->value_len, quoted)
                                             : "");
}

static int fail_output(const struct filter *filter, int r) {
        return nb_failure_set(filter->f, filter->source->code, r, "%s: larger than %d bytes",
                              filter->source->origin, NB_KUBELET_CONFIG_MAX);
}

static void put_plain(struct filter *filter, const char *text) {
        nb_buffer_append_string(filter->out, text);
}

static void put_quoted(struct filter *filter, const char *text) {
        nb_json_quote(text, strlen(text), filter->out);
}

/* --- Values --- */

static bool is_text(const char *text) {
        size_t len = strlen(text);

        return len <= TEXT_MAX && (len == 0 || nb_text_is_printable(text, len));
}

/* Whether the value is a decimal number, with or without a fraction. */
static bool is_number(const struct nb_yaml_node *node) {
        static const char digits[] = "0123456789";
        const char *at = node->value;
        size_t n;

        if (node->type != NB_YAML_SCALAR || !node->is_plain || node->value_len > NUMBER_MAX)
                return false;
        at += *at == '-';
        n = strspn(at, digits);
        if (n == 0 || (at[0] == '0' && n > 1))
                return false;
        at += n;
        if (*at == '.' && (n = strspn(++at, digits)) > 0)
                at += n;
        return *at == '\0' && at[-1] != '.';
}

static bool is_word(const struct nb_yaml_node *node, const char *word) {
        return node->type == NB_YAML_SCALAR && node->is_plain && strcmp(node->value, word) == 0;
}

/* Whether a key with this value is kept. */
static bool is_kept(const struct filter *filter, const struct nb_yaml_node *node, enum type type) {
        if (type == ONLY_FALSE)
                return is_word(node, "false");
        if (type == ONLY_ZERO)
                return is_word(node, "0");
        if (type == ONLY_EMPTY)
                return node->type == NB_YAML_SCALAR && node->value_len == 0;
        if (type == ABSOLUTE)
                return node->type == NB_YAML_SCALAR && node->value[0] == '/' &&
                       is_text(node->value);
        return type != CA_FILE || filter->source->ca_file;
}

static void put_text(struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        if (node->type != NB_YAML_SCALAR || nb_yaml_is_null(node) || !is_text(node->value))
                refuse_value(filter, node, path, "a string of printable characters");
        else
                put_quoted(filter, node->value);
}

/* Writes a list of texts or taints, or a mapping to texts, such as a taint. */
static void put_collection(struct filter *filter, const struct nb_yaml_node *node, const char *path,
                           enum nb_yaml_type type, bool is_of_taints) {
        bool is_map = type == NB_YAML_MAPPING;

        if (node->type != type) {
                refuse_value(filter, node, path, is_map ? "a mapping" : "a list");
                return;
        }
        put_plain(filter, is_map ? "{" : "[");
        for (const struct nb_yaml_node *entry = node->first; entry; entry = entry->next) {
                if (is_map) {
                        if (is_of_taints && strcmp(entry->key, "key") != 0 &&
                            strcmp(entry->key, "value") != 0 && strcmp(entry->key, "effect") != 0)
                                refuse_value(filter, entry, path, "key, value and effect");
                        if (!is_text(entry->key) || !entry->key[0])
                                refuse_value(filter, entry, path, "keys of printable characters");
                        put_quoted(filter, entry->key);
                        put_plain(filter, ": ");
                }
                if (is_of_taints && !is_map)
                        put_collection(filter, entry, path, NB_YAML_MAPPING, true);
                else
                        put_text(filter, entry, path);
                put_plain(filter, entry->next ? ", " : "");
        }
        put_plain(filter, is_map ? "}" : "]");
}

static void put_value(struct filter *filter, const struct nb_yaml_node *node, const char *path,
                      enum type type) {
        if (type == BOOLEAN && !is_word(node, "true") && !is_word(node, "false"))
                refuse_value(filter, node, path, "true or false");
        else if (type == NUMBER && !is_number(node))
                refuse_value(filter, node, path, "a number");
        else if (type == WEBHOOK &&
                 (node->type != NB_YAML_SCALAR || strcmp(node->value, "Webhook") != 0))
                refuse_value(filter, node, path, "Webhook");
        else if (type == TEXTS || type == TAINTS)
                put_collection(filter, node, path, NB_YAML_SEQUENCE, type == TAINTS);
        else if (type == TEXT_MAP)
                put_collection(filter, node, path, NB_YAML_MAPPING, false);
        else if (type == CA_FILE)
                put_quoted(filter, filter->source->ca_file);
        else if (type == BOOLEAN || type == ONLY_FALSE || type == NUMBER || type == ONLY_ZERO ||
                 (type == SCALAR && is_number(node)))
                put_plain(filter, node->value);
        else
                put_text(filter, node, path);
}

/* Every kubeadm cluster has this key. */
static bool is_static_pods(const struct nb_yaml_node *node, const char *path) {
        return !strcmp(path, "staticPodPath") && node->type == NB_YAML_SCALAR &&
               !strcmp(node->value, NB_STATIC_POD_DIRECTORY);
}

/* --- The document --- */

static void put_section(struct filter *filter, const struct nb_yaml_node *mapping,
                        const char *prefix);

static void put_entry(struct filter *filter, const struct nb_yaml_node *node, const char *path) {
        /* A key that contains a dot could have the same path as a key in a section. */
        enum type type = strchr(node->key, '.') ? UNKNOWN : find_type(path);

        if (is_static_pods(node, path))
                return;
        if (type == UNKNOWN || !is_kept(filter, node, type)) {
                nb_text_list_add(filter->dropped, NB_KUBELET_CONFIG_DROPPED_SIZE, path);
                return;
        }
        /* A path has a dot for each level. */
        for (const char *p = path; (p = strchr(p, '.')); p++)
                put_plain(filter, "  ");
        put_plain(filter, node->key);
        put_plain(filter, ":");
        if (type == SECTION) {
                put_section(filter, node, path);
                return;
        }
        put_plain(filter, " ");
        put_value(filter, node, path, type);
        put_plain(filter, "\n");
}

static void put_section(struct filter *filter, const struct nb_yaml_node *mapping,
                        const char *prefix) {
        char path[PATH_SIZE];
        size_t before;

        if (mapping->type != NB_YAML_MAPPING) {
                refuse_value(filter, mapping, prefix, "a mapping");
                return;
        }
        put_plain(filter, "\n");
        before = filter->out->len;
        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next) {
                /* null means the default; kubeadm writes none. */
                if (nb_yaml_is_null(node))
                        continue;
                snprintf(path, sizeof(path), "%s.%s", prefix, node->key);
                put_entry(filter, node, path);
        }
        if (filter->out->error < 0 || filter->out->len > before)
                return;
        filter->out->len = before - 1;
        put_plain(filter, " {}\n");
}

static int verify_kind(const struct filter *filter, const struct nb_yaml_node *root) {
        static const char *const expected[][2] = { { "apiVersion", API_VERSION },
                                                   { "kind", KIND } };

        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                const struct nb_yaml_node *node = nb_yaml_get(root, expected[i][0]);

                if (!node || node->type != NB_YAML_SCALAR ||
                    strcmp(node->value, expected[i][1]) != 0)
                        return nb_failure_set(
                                filter->f, filter->source->code, 0,
                                "%s: %s: expected %s, found %.64s", filter->source->origin,
                                expected[i][0], expected[i][1],
                                node && node->value ? node->value : nb_yaml_type_name(node));
        }
        return 0;
}

int nb_kubelet_config_filter(const struct nb_kubelet_config_source *source, const char *yaml,
                             size_t len, struct nb_buffer *ret,
                             char ret_dropped[static NB_KUBELET_CONFIG_DROPPED_SIZE],
                             struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer out = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        char dropped[NB_KUBELET_CONFIG_DROPPED_SIZE] = "";
        struct filter filter = { source, &out, dropped, f };
        int r;

        if (len > NB_KUBELET_CONFIG_MAX)
                return fail_output(&filter, -E2BIG);
        r = nb_yaml_parse(source->origin, yaml, len, source->code, 1, &root, f);
        if (r < 0)
                return r;
        r = verify_kind(&filter, root);
        if (r < 0)
                return r;
        put_plain(&filter, "apiVersion: \"" API_VERSION "\"\nkind: \"" KIND "\"\n");
        for (const struct nb_yaml_node *node = root->first; node; node = node->next)
                if (strcmp(node->key, "apiVersion") != 0 && strcmp(node->key, "kind") != 0 &&
                    !nb_yaml_is_null(node))
                        put_entry(&filter, node, node->key);
        if (out.error >= 0)
                nb_buffer_append(ret, out.data, out.len);
        if (out.error < 0 || ret->error < 0)
                return fail_output(&filter, out.error < 0 ? out.error : ret->error);
        memcpy(ret_dropped, dropped, sizeof(dropped));
        return 0;
}

int nb_kubelet_config_map_parse(const char *text, size_t len, struct nb_buffer *ret_text,
                                struct nb_failure *f) {
        static const struct nb_object_type type = {
                .what = "the ConfigMap",
                .kind = "ConfigMap",
                .api_version = "v1",
                .max = CONFIG_MAP_MAX,
        };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, f);
        const char *value = nb_json_string(&json, "data.kubelet");

        if (json.r < 0)
                return json.r;
        if (!value)
                return nb_failure_set(f, NB_KUBELET_CONFIG_MISSING, ENOENT,
                                      "the ConfigMap has no data.kubelet");
        nb_buffer_append_string(ret_text, value);
        if (ret_text->error < 0)
                return nb_failure_set(f, NB_KUBELET_CONFIG_UNACCEPTABLE, ret_text->error,
                                      "data.kubelet of the ConfigMap has %zu bytes, expected at "
                                      "most %d",
                                      strlen(value), NB_KUBELET_CONFIG_MAX);
        return 0;
}
