/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "codec/json.h"
#include "codec/url.h"
#include "kube_objects/node_name.h"
#include "kube_objects/pin.h"
#include "metadata/cloud_names.h"
#include "settings/types.h"

#define EXPIRATION_SECONDS_MAX INT32_MAX /* the API's type */
#define LABEL_MAX 63                     /* bytes of a label's value, and of the name in its key */

#define PUNCTUATION "-_." /* inside of a label */
#define EXPECTED_PATH "an absolute path without //, . and .. in it"

static void format_string(const void *value, struct nb_buffer *ret) {
        nb_json_quote(value, strlen(value), ret);
}

static int copy_text(const char *text, size_t len, size_t size, void *ret) {
        if (len >= size)
                return -EINVAL;
        memcpy(ret, text, len + 1);
        return 0;
}

bool nb_kubelet_argument_is_valid(const char *name, size_t name_len, const char *value) {
        if (name_len == 0 || !strchr(NB_LOWER, name[0]) ||
            strspn(name, NB_LOWER NB_DIGITS "-") < name_len)
                return false;
        return !strpbrk(value, NB_KUBELET_ARGUMENT_REFUSED) &&
               nb_text_is_printable(value, strlen(value));
}

/* --- Words --- */

static const char *const booleans[] = { "false", "true" };
const struct nb_setting_type nb_setting_type_boolean = {
        .yaml = "a boolean",
        .expected = "true or false",
        .words = booleans,
        .n_words = N_ELEMENTS(booleans),
};

static const char *const config_sources[] = { "none", "cluster" };
const struct nb_setting_type nb_setting_type_config_from = {
        .expected = "none or cluster",
        .words = config_sources,
        .n_words = N_ELEMENTS(config_sources),
};

static const char *const cluster_types[] = {
        [NB_CLUSTER_TYPE_AUTO] = "auto",
        [NB_CLUSTER_TYPE_KUBERNETES] = "kubernetes",
        [NB_CLUSTER_TYPE_K3S] = "k3s",
};
const struct nb_setting_type nb_setting_type_cluster_type = {
        .expected = "auto, kubernetes or k3s",
        .words = cluster_types,
        .n_words = N_ELEMENTS(cluster_types),
};

void nb_setting_type_format(const struct nb_setting_type *type, const void *value,
                            struct nb_buffer *ret) {
        if (type->words)
                nb_buffer_append_string(ret,
                                        type->words[type->n_words == 2 ? *(const bool *)value
                                                                       : *(const unsigned *)value]);
        else if (type->format)
                type->format(value, ret);
        else
                format_string(value, ret);
}

const struct nb_setting_type nb_setting_type_provider = {
        .expected = "none, auto, or a provider that node-bootstrap.yaml(5) names",
        .words = nb_provider_names,
        .n_words = _NB_PROVIDER_N,
};

/* --- Paths --- */

/* Whether a path is absolute and normalized, so that equal paths are equal texts. */
static bool is_path(const char *text, size_t len) {
        char folder[NB_SETTINGS_PATH_MAX + 1];

        if (len >= NB_SETTINGS_PATH_MAX || text[0] != '/' || !nb_text_is_printable(text, len))
                return false;
        snprintf(folder, sizeof(folder), "%s/", text);
        return !strstr(folder, "//") && !strstr(folder, "/./") && !strstr(folder, "/../");
}

static int parse_path(const char *text, size_t len, void *ret) {
        return is_path(text, len) ? copy_text(text, len, NB_SETTINGS_PATH_MAX, ret) : -EINVAL;
}

const struct nb_setting_type nb_setting_type_path = {
        .expected = EXPECTED_PATH,
        .parse = parse_path,
};

static int parse_path_or_url(const char *text, size_t len, void *ret) {
        struct nb_url url;

        if (text[0] == '/')
                return parse_path(text, len, ret);
        if (nb_url_parse(text, len, &url) < 0)
                return -EINVAL;
        return copy_text(text, len, NB_SETTINGS_PATH_MAX, ret);
}

static const char *hint_path_or_url(const char *text, char *buffer _unused_) {
        if (strcmp(text, "-") == 0)
                return "; only `node-bootstrap setup --discovery-file=-` reads standard input";
        if (strncasecmp(text, "http:", 5) == 0)
                return "; without TLS, anyone on the network could have written it";
        return NULL;
}

const struct nb_setting_type nb_setting_type_path_or_url = {
        .expected = EXPECTED_PATH ", or https://HOST[:PORT]/PATH",
        .parse = parse_path_or_url,
        .hint = hint_path_or_url,
};

/* Stored with the scheme: kubelet warns of a path without it. */
static int parse_cri_socket(const char *text, size_t len, void *ret) {
        static const char scheme[] = "unix://";
        const size_t scheme_len = strlen(scheme);

        if (strncmp(text, scheme, scheme_len) == 0) {
                text += scheme_len;
                len -= scheme_len;
        }
        if (len + scheme_len >= NB_SETTINGS_PATH_MAX || !is_path(text, len) ||
            strpbrk(text, NB_KUBELET_ARGUMENT_REFUSED))
                return -EINVAL;
        memcpy(stpcpy(ret, scheme), text, len + 1);
        return 0;
}

const struct nb_setting_type nb_setting_type_cri_socket = {
        .expected = "unix:// and an absolute path, or the path alone",
        .parse = parse_cri_socket,
};

/* --- Names --- */

static int parse_node_name(const char *text, size_t len, void *ret) {
        return nb_node_name_parse(text, len, ret);
}

const struct nb_setting_type nb_setting_type_node_name = {
        .expected = "a DNS-1123 subdomain (letters, digits, '-' and '.', at most 253)",
        .parse = parse_node_name,
};

/* A Node's spec.providerID, as cloud controller managers write it: usually
 * "aws:///eu-west-1a/i-0123"; those of Alibaba and Oracle have no "NAME://". */
static int parse_provider_id(const char *text, size_t len, void *ret) {
        static const char option[] = "provider-id", separator[] = "://";
        const char *after_name = strstr(text, separator);

        if ((after_name && (after_name == text || !after_name[strlen(separator)])) ||
            !nb_kubelet_argument_is_valid(option, strlen(option), text))
                return -EINVAL;
        return copy_text(text, len, NB_SETTINGS_PROVIDER_ID_SIZE, ret);
}

const struct nb_setting_type nb_setting_type_provider_id = {
        .expected = "an ID such as NAME://ID, without blanks, quotes, '\\' and '$' in it",
        .parse = parse_provider_id,
};

/* Whether it is `prefix` and six hex digits, which are the rest of a handle. */
static bool is_handle(const char *text, const char *prefix) {
        const size_t len = strlen(prefix);

        return strncmp(text, prefix, len) == 0 && strlen(text + len) == 6 &&
               strspn(text + len, NB_DIGITS "abcdefABCDEF") == 6;
}

static int parse_proof_key(const char *text, size_t len, void *ret) {
        if (strcmp(text, NB_PROOF_KEY_CREDENTIAL) != 0 && strcmp(text, NB_PROOF_KEY_TPM) != 0 &&
            !is_handle(text, NB_PROOF_KEY_TPM ":0x81") &&
            !is_handle(text, NB_PROOF_KEY_TPM ":nv:0x01"))
                return -EINVAL;
        return copy_text(text, len, NB_SETTINGS_PROOF_KEY_SIZE, ret);
}

const struct nb_setting_type nb_setting_type_proof_key = {
        .expected = "credential, tpm, tpm:0x81 and 6 hex digits, or tpm:nv:0x01 and 6 hex digits",
        .parse = parse_proof_key,
};

/* Only the presence of a token is stored here; store.c parses and stores the token. */
static int parse_token(const char *text _unused_, size_t len _unused_, void *ret _unused_) {
        return -EINVAL;
}

static void format_token(const void *value, struct nb_buffer *ret) {
        nb_buffer_append_string(ret, *(const bool *)value ? "\"(not shown)\"" : "\"\"");
}

const struct nb_setting_type nb_setting_type_token = {
        .expected = "a token",
        .parse = parse_token,
        .format = format_token,
};

/* --- Numbers --- */

static int parse_expiration(const char *text, size_t len, void *ret) {
        unsigned long long seconds = strtoull(text, NULL, 10);

        if (len == 0 || strspn(text, NB_DIGITS) != len ||
            (seconds != 0 && seconds < NB_CSR_EXPIRATION_MIN) || seconds > EXPIRATION_SECONDS_MAX)
                return -EINVAL;
        *(uint32_t *)ret = (uint32_t)seconds;
        return 0;
}

static void format_expiration(const void *value, struct nb_buffer *ret) {
        nb_buffer_printf(ret, "%" PRIu32, *(const uint32_t *)value);
}

const struct nb_setting_type nb_setting_type_expiration = {
        .yaml = "a number",
        .expected = "0, or a number from 600 to 2147483647",
        .parse = parse_expiration,
        .format = format_expiration,
};

int nb_setting_duration_parse(const char *text, bool is_go, uint64_t *ret_ms) {
        static const struct {
                const char *name;
                uint64_t ms;
                bool is_own, is_go;
        } units[] = { { "d", 86400000, true, false },
                      { "h", 3600000, true, true },
                      { "ms", 1, false, true },
                      { "m", 60000, true, true },
                      { "s", 1000, true, true } };
        size_t unit = 0;
        uint64_t sum = 0;

        if (is_go && strcmp(text, "0") == 0)
                text = "0s";
        do {
                size_t n = strspn(text, is_go ? NB_DIGITS "." : NB_DIGITS);
                char *end;
                double value = strtod(text, &end);

                /* So the sum does not wrap. */
                if (n == 0 || end != text + n || value >= 1e10 || sum > UINT64_MAX / 2)
                        return -EINVAL;
                for (unit = is_go ? 0 : unit; unit < N_ELEMENTS(units); unit++)
                        if ((is_go ? units[unit].is_go : units[unit].is_own) &&
                            strncmp(end, units[unit].name, strlen(units[unit].name)) == 0)
                                break;
                if (unit == N_ELEMENTS(units))
                        return -EINVAL;
                sum += (uint64_t)(value * (double)units[unit].ms + 0.5);
                text = end + strlen(units[unit++].name);
        } while (*text);
        *ret_ms = sum;
        return 0;
}

static int parse_duration(const char *text, size_t len _unused_, void *ret) {
        uint64_t ms = UINT64_MAX;

        if (strcmp(text, "infinity") != 0 &&
            (nb_setting_duration_parse(text, false, &ms) < 0 || ms == 0 ||
             ms > NB_SETTING_TIMEOUT_MAX_SECONDS * 1000))
                return -EINVAL;
        *(uint64_t *)ret = ms;
        return 0;
}

static void format_duration(const void *value, struct nb_buffer *ret) {
        uint64_t ms = *(const uint64_t *)value;

        if (ms == UINT64_MAX)
                nb_buffer_append_string(ret, "infinity");
        else
                nb_buffer_printf(ret, "%" PRIu64 "s", ms / 1000);
}

const struct nb_setting_type nb_setting_type_duration = {
        .expected = "infinity, or a duration such as 30s, 5m, 1h30m or 2d, up to 3650d",
        .parse = parse_duration,
        .format = format_duration,
};

/* --- Entries of lists --- */

static int parse_endpoint(const char *text, size_t len, void *ret) {
        return nb_endpoint_parse(text, len, ret);
}

static const char *hint_endpoint(const char *text, char *buffer _unused_) {
        size_t len = strcspn(text, ":/");

        if (strncmp(text + len, "://", 3) == 0)
                return "; leave out the scheme, such as https://";
        return len > 0 && text[len - 1] == '.' ? "; leave out the dot at the end of the name"
                                               : NULL;
}

static void format_endpoint(const void *value, struct nb_buffer *ret) {
        char text[NB_URL_MAX];

        nb_endpoint_format(value, text);
        format_string(text, ret);
}

static bool is_same_endpoint(const void *a, const void *b) {
        return nb_url_is_equal(a, b);
}

const struct nb_setting_type nb_setting_type_endpoint = {
        .expected = "HOST:PORT without https://, an IPv6 address in brackets",
        .parse = parse_endpoint,
        .format = format_endpoint,
        .is_same = is_same_endpoint,
        .is_repeatable = true,
        .hint = hint_endpoint,
};

static int parse_pin(const char *text, size_t len, void *ret) {
        return nb_pin_parse(text, len, ret);
}

static void format_pin(const void *value, struct nb_buffer *ret) {
        char text[NB_PIN_TEXT_SIZE];

        nb_pin_format(value, text);
        format_string(text, ret);
}

static bool is_same_pin(const void *a, const void *b) {
        return memcmp(a, b, NB_PIN_SIZE) == 0;
}

static const char *hint_pin(const char *text, char buffer[static NB_SETTING_HINT_SIZE]) {
        char flaw[NB_PIN_FLAW_SIZE];

        nb_pin_find_flaw(text, strlen(text), flaw);
        if (!flaw[0])
                return NULL;
        snprintf(buffer, NB_SETTING_HINT_SIZE, "; %s", flaw);
        return buffer;
}

const struct nb_setting_type nb_setting_type_pin = {
        .expected = "sha256: and 64 hex digits",
        .parse = parse_pin,
        .format = format_pin,
        .is_same = is_same_pin,
        .is_repeatable = true,
        .hint = hint_pin,
};

/* The value of a label, and the name in its key (apimachinery/pkg/util/validation). */
static bool is_label_text(const char *text, size_t len) {
        return len > 0 && len <= LABEL_MAX &&
               strspn(text, NB_LOWER NB_UPPER NB_DIGITS PUNCTUATION) >= len &&
               !strchr(PUNCTUATION, text[0]) && !strchr(PUNCTUATION, text[len - 1]);
}

static bool is_qualified_name(const char *text, size_t len) {
        const char *slash = memchr(text, '/', len);
        size_t prefix_len = slash ? (size_t)(slash - text) : 0;

        if (!slash)
                return is_label_text(text, len);
        return nb_dns_name_is_valid(text, prefix_len, NB_DNS_NAME_MAX) &&
               is_label_text(slash + 1, len - prefix_len - 1);
}

/* `KEY[=VALUE]:EFFECT`, as kubelet's --register-with-taints (kubernetes pkg/util/taints). */
static int parse_taint(const char *text, size_t len, void *ret) {
        const char *colon = strchr(text, ':'), *effect = colon ? colon + 1 : "";
        size_t key_len = strcspn(text, "=:"), value_len = 0;

        if (strcmp(effect, "NoSchedule") != 0 && strcmp(effect, "PreferNoSchedule") != 0 &&
            strcmp(effect, "NoExecute") != 0)
                return -EINVAL;
        if (text[key_len] == '=')
                value_len = (size_t)(colon - text) - key_len - 1;
        if (!is_qualified_name(text, key_len) ||
            (value_len > 0 && !is_label_text(text + key_len + 1, value_len)))
                return -EINVAL;
        return copy_text(text, len, NB_SETTINGS_TAINT_SIZE, ret);
}

/* A node can have only one taint for each key and effect. */
static bool is_same_taint(const void *a, const void *b) {
        size_t key_len = strcspn(a, "=:");

        return strcspn(b, "=:") == key_len && memcmp(a, b, key_len) == 0 &&
               strcmp(strchr(a, ':'), strchr(b, ':')) == 0;
}

const struct nb_setting_type nb_setting_type_taint = {
        .expected = "KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute",
        .parse = parse_taint,
        .is_same = is_same_taint,
};

/* Options of kubelet that node-bootstrap sets, or that would make kubelet join on its own. */
static const char *hint_extra_arg(const char *text, char *buffer _unused_) {
        static const char *const owned[][2] = {
                { "bootstrap-kubeconfig", "; kubelet would join on its own, see "
                                          "bootstrap.kubeconfig" },
                { "cert-dir", "; see kubelet.certificateDirectory" },
                { "container-runtime-endpoint",
                  "; see kubelet.criSocket (nodeRegistration.criSocket of a JoinConfiguration)" },
                { "hostname-override",
                  "; see node.name (nodeRegistration.name of a JoinConfiguration)" },
                { "kubeconfig", "; see kubelet.kubeconfig" },
                { "register-with-taints",
                  "; see node.taints (nodeRegistration.taints of a JoinConfiguration)" },
        };
        size_t len = strcspn(text, "=");

        for (size_t i = 0; i < N_ELEMENTS(owned); i++)
                if (strlen(owned[i][0]) == len && memcmp(owned[i][0], text, len) == 0)
                        return owned[i][1];
        return NULL;
}

static int parse_extra_arg(const char *text, size_t len, void *ret) {
        size_t name_len = strcspn(text, "=");

        if (!text[name_len] || hint_extra_arg(text, NULL) ||
            !nb_kubelet_argument_is_valid(text, name_len, text + name_len + 1))
                return -EINVAL;
        return copy_text(text, len, NB_SETTINGS_EXTRA_ARG_SIZE, ret);
}

/* A name may repeat: kubelet adds up the values of maps and lists. */
static bool is_same_extra_arg(const void *a, const void *b) {
        return strcmp(a, b) == 0;
}

const struct nb_setting_type nb_setting_type_extra_arg = {
        .expected = "NAME=VALUE without leading dashes, and without blanks, quotes, '\\' and '$' "
                    "in it",
        .parse = parse_extra_arg,
        .is_same = is_same_extra_arg,
        .is_repeatable = true,
        .hint = hint_extra_arg,
        .is_hint_enough = true,
};
