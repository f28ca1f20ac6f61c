/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/dns_name.h"
#include "format/kubelet_env.h"
#include "format/settings_merge.h"

#define EXPIRATION_SECONDS_MAX INT32_MAX /* the API's type */
#define LABEL_MAX 63                     /* bytes of a label's value, and of a name in its key */

#define MEMBER(m) offsetof(struct nb_settings, m)
#define STRING(key, store, offset, expected, hint) \
        { key, NB_SETTING_TYPE_STRING, store, offset, expected, 0, 0, hint }
#define BOOLEAN(key, m) \
        { key, NB_SETTING_TYPE_BOOLEAN, store_boolean, MEMBER(m), EXPECTED_BOOLEAN, 0, 0, NULL }

static int store_endpoint(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        struct nb_url url;

        if (nb_endpoint_parse(value, len, &url) < 0)
                return -EINVAL;
        if (settings->n_endpoints == NB_SETTINGS_ENDPOINTS_MAX)
                return -E2BIG;
        settings->endpoints[settings->n_endpoints++] = url;
        return 0;
}

static int store_pin(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        uint8_t pin[NB_PIN_SIZE];

        if (nb_pin_parse(value, len, pin) < 0)
                return -EINVAL;
        if (settings->n_pins == NB_SETTINGS_PINS_MAX)
                return -E2BIG;
        memcpy(settings->pins[settings->n_pins++], pin, sizeof(pin));
        return 0;
}

static const char *hint_pin(const char *value, char buffer[static NB_SETTING_HINT_SIZE]) {
        char flaw[NB_PIN_FLAW_SIZE];

        nb_pin_find_flaw(value, strlen(value), flaw);
        (void)snprintf(buffer, NB_SETTING_HINT_SIZE, "%s%s", flaw[0] ? "; " : "", flaw);
        return buffer;
}

static int store_boolean(struct nb_settings *settings, size_t offset, const char *value, size_t len _unused_) {
        bool is_true = strcmp(value, "true") == 0;

        if (!is_true && strcmp(value, "false") != 0)
                return -EINVAL;
        memcpy((char *)settings + offset, &is_true, sizeof(is_true));
        return 0;
}

static int store_node_name(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        settings->is_node_name_lowered = strpbrk(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (len == 0) {
                settings->node_name[0] = '\0';
                return 0;
        }
        return nb_node_name_parse(value, len, settings->node_name);
}

/* Absolute and with one spelling, so that comparing paths compares files, as far as text can tell. */
static bool is_path(const char *value, size_t len) {
        const char *end;

        if (len >= NB_SETTINGS_PATH_MAX || value[0] != '/' || !nb_text_is_printable(value, len))
                return false;
        for (const char *p = value; *p; p = end) {
                size_t n;

                p++;
                end = strchrnul(p, '/');
                n = (size_t)(end - p);
                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
        }
        return true;
}

static int store_path(struct nb_settings *settings, size_t offset, const char *value, size_t len) {
        if (!is_path(value, len))
                return -EINVAL;
        memcpy((char *)settings + offset, value, len + 1);
        return 0;
}

/* What may be left out again by a stronger document. */
static int store_optional_path(struct nb_settings *settings, size_t offset, const char *value, size_t len) {
        if (len > 0)
                return store_path(settings, offset, value, len);
        ((char *)settings)[offset] = '\0';
        return 0;
}

static int store_discovery_file(struct nb_settings *settings, size_t offset, const char *value, size_t len) {
        struct nb_url url;

        if (len == 0 || value[0] == '/')
                return store_optional_path(settings, offset, value, len);
        if (len >= NB_SETTINGS_PATH_MAX || nb_url_parse(value, len, &url) < 0)
                return -EINVAL;
        memcpy((char *)settings + offset, value, len + 1);
        return 0;
}

static const char *hint_discovery_file(const char *value, char *buffer _unused_) {
        if (strcmp(value, "-") == 0)
                return "; standard input is for `node-bootstrap setup --discovery-file=-` alone";
        if (strncasecmp(value, "http:", 5) == 0)
                return "; without TLS anybody on the way could have written it";
        return NULL;
}

static int store_cluster_type(struct nb_settings *settings, size_t offset _unused_, const char *value,
                              size_t len _unused_) {
        static const char *const names[] = {
                [NB_CLUSTER_TYPE_AUTO] = "auto",
                [NB_CLUSTER_TYPE_KUBERNETES] = "kubernetes",
                [NB_CLUSTER_TYPE_K3S] = "k3s",
        };

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (strcmp(value, names[i]) == 0) {
                        settings->cluster_type = (enum nb_cluster_type)i;
                        return 0;
                }
        return -EINVAL;
}

static bool is_alphanumeric(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* What a label's value and the name in its key may be (apimachinery/pkg/util/validation). */
static bool is_label_text(const char *text, size_t len) {
        if (len == 0 || len > LABEL_MAX || !is_alphanumeric(text[0]) || !is_alphanumeric(text[len - 1]))
                return false;
        for (size_t i = 0; i < len; i++)
                if (!is_alphanumeric(text[i]) && text[i] != '-' && text[i] != '_' && text[i] != '.')
                        return false;
        return true;
}

static bool is_qualified_name(const char *text, size_t len) {
        const char *slash = memchr(text, '/', len);
        size_t prefix_len = slash ? (size_t)(slash - text) : 0;

        if (!slash)
                return is_label_text(text, len);
        return nb_dns_name_is_valid(text, prefix_len, NB_DNS_NAME_MAX) &&
               is_label_text(slash + 1, len - prefix_len - 1);
}

static bool is_taint_effect(const char *text) {
        return strcmp(text, "NoSchedule") == 0 || strcmp(text, "PreferNoSchedule") == 0 ||
               strcmp(text, "NoExecute") == 0;
}

/* Where the value of a taint begins, or where its effect does: of key and effect there is one of each on a node. */
static size_t taint_key_len(const char *taint) {
        return strcspn(taint, "=:");
}

/* `KEY[=VALUE]:EFFECT`, as kubelet's --register-with-taints takes it (kubernetes pkg/util/taints). */
static int store_taint(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        const char *colon = strchr(value, ':');
        size_t key_len = taint_key_len(value), value_len;

        if (len >= NB_SETTINGS_TAINT_SIZE || !colon || !is_qualified_name(value, key_len) || !is_taint_effect(colon + 1))
                return -EINVAL;
        value_len = value[key_len] == '=' ? (size_t)(colon - value) - key_len - 1 : 0;
        if (value_len > 0 && !is_label_text(value + key_len + 1, value_len))
                return -EINVAL;
        for (unsigned i = 0; i < settings->n_taints; i++) {
                const char *other = settings->taints[i];

                if (taint_key_len(other) == key_len && memcmp(other, value, key_len) == 0 &&
                    strcmp(strchr(other, ':'), colon) == 0)
                        return -EEXIST;
        }
        if (settings->n_taints == NB_SETTINGS_TAINTS_MAX)
                return -E2BIG;
        memcpy(settings->taints[settings->n_taints++], value, len + 1);
        return 0;
}

/* Kept with the scheme: kubelet takes a path alone with a warning. */
static int store_cri_socket(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        static const char scheme[] = "unix://";
        const size_t scheme_len = strlen(scheme);

        if (len == 0) {
                settings->cri_socket[0] = '\0';
                return 0;
        }
        if (strncmp(value, scheme, scheme_len) == 0) {
                value += scheme_len;
                len -= scheme_len;
        }
        if (len + scheme_len >= NB_SETTINGS_PATH_MAX || !is_path(value, len) ||
            strpbrk(value, NB_KUBELET_ARGUMENT_REFUSED))
                return -EINVAL;
        memcpy(stpcpy(settings->cri_socket, scheme), value, len + 1);
        return 0;
}

/* The options of kubelet that this program sets by itself, or that would undo what it does. */
static const struct {
        const char *option;
        const char *hint;
} owned_options[] = {
        { "bootstrap-kubeconfig", "; kubelet would join by itself, see bootstrap.kubeconfig" },
        { "cert-dir", "; see kubelet.certificateDirectory" },
        { "container-runtime-endpoint", "; see kubelet.criSocket (nodeRegistration.criSocket of a JoinConfiguration)" },
        { "hostname-override", "; see node.name (nodeRegistration.name of a JoinConfiguration)" },
        { "kubeconfig", "; see kubelet.kubeconfig" },
        { "register-with-taints", "; see node.taints (nodeRegistration.taints of a JoinConfiguration)" },
};

static const char *find_owned_option(const char *value) {
        size_t len = strcspn(value, "=");

        for (size_t i = 0; i < N_ELEMENTS(owned_options); i++)
                if (strlen(owned_options[i].option) == len && memcmp(owned_options[i].option, value, len) == 0)
                        return owned_options[i].hint;
        return NULL;
}

static const char *hint_extra_arg(const char *value, char *buffer _unused_) {
        return find_owned_option(value);
}

static int store_extra_arg(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        size_t name_len = strcspn(value, "=");

        if (len >= NB_SETTINGS_EXTRA_ARG_SIZE || !value[name_len] ||
            !nb_kubelet_argument_is_valid(value, name_len, value + name_len + 1) || find_owned_option(value))
                return -EINVAL;
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                if (strncmp(settings->extra_args[i], value, name_len + 1) == 0)
                        return -EEXIST;
        if (settings->n_extra_args == NB_SETTINGS_EXTRA_ARGS_MAX)
                return -E2BIG;
        memcpy(settings->extra_args[settings->n_extra_args++], value, len + 1);
        return 0;
}

static int store_config_from(struct nb_settings *settings, size_t offset _unused_, const char *value,
                             size_t len _unused_) {
        bool is_cluster = strcmp(value, "cluster") == 0;

        if (!is_cluster && strcmp(value, "none") != 0)
                return -EINVAL;
        settings->is_config_from_cluster = is_cluster;
        return 0;
}

static int store_key_type(struct nb_settings *settings _unused_, size_t offset _unused_, const char *value,
                          size_t len _unused_) {
        return strcmp(value, "ecdsa-p256") == 0 ? 0 : -EINVAL;
}

static int store_provider(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        return nb_provider_parse(value, len, &settings->metadata_provider);
}

/* As cloud controller managers write it into a Node's spec.providerID: "aws:///eu-west-1a/i-0123" as a rule; those of Alibaba and Oracle
 * write theirs without a name. */
static int store_provider_id(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len) {
        static const char option[] = "provider-id", separator[] = "://";
        const char *after_name = strstr(value, separator);

        if (len == 0) {
                settings->provider_id[0] = '\0';
                return 0;
        }
        if (after_name && (after_name == value || !after_name[strlen(separator)]))
                return -EINVAL;
        if (len >= NB_SETTINGS_PROVIDER_ID_SIZE || !nb_kubelet_argument_is_valid(option, strlen(option), value))
                return -EINVAL;
        memcpy(settings->provider_id, value, len + 1);
        return 0;
}

/* The empty one, which takes a weaker document's back; any other has a way of its own (settings_tokens.c). */
static int store_no_token(struct nb_settings *settings, size_t offset _unused_, const char *value _unused_, size_t len) {
        if (len > 0)
                return -EINVAL;
        settings->has_discovery_token = false;
        if (settings->tokens)
                nb_secret_done(&settings->tokens->discovery);
        return 0;
}

/* Decimal digits up to the first other character. -EINVAL when there is none, or more than ten. */
static int parse_digits(const char **text, uint64_t *ret) {
        size_t n = strspn(*text, "0123456789");
        uint64_t value = 0;

        if (n == 0 || n > 10)
                return -EINVAL;
        for (size_t i = 0; i < n; i++)
                value = value * 10 + (uint64_t)((*text)[i] - '0');
        *text += n;
        *ret = value;
        return 0;
}

static int store_expiration(struct nb_settings *settings, size_t offset _unused_, const char *value,
                            size_t len _unused_) {
        uint64_t seconds;

        if (parse_digits(&value, &seconds) < 0 || *value)
                return -EINVAL;
        if (seconds != 0 && (seconds < NB_CSR_EXPIRATION_MIN || seconds > EXPIRATION_SECONDS_MAX))
                return -EINVAL;
        settings->csr_expiration_seconds = (uint32_t)seconds;
        return 0;
}

int nb_setting_duration_parse(const char *text, uint64_t *ret_seconds) {
        static const struct {
                char name;
                unsigned seconds;
        } units[] = { { 'd', 24 * 3600 }, { 'h', 3600 }, { 'm', 60 }, { 's', 1 } };
        uint64_t seconds = 0, n;
        size_t unit = 0;

        while (*text) {
                if (parse_digits(&text, &n) < 0)
                        return -EINVAL;
                while (unit < N_ELEMENTS(units) && units[unit].name != *text)
                        unit++;
                if (unit == N_ELEMENTS(units))
                        return -EINVAL;
                seconds += n * units[unit++].seconds;
                text++;
        }
        *ret_seconds = seconds;
        return 0;
}

static int store_timeout(struct nb_settings *settings, size_t offset _unused_, const char *value, size_t len _unused_) {
        uint64_t seconds;

        if (strcmp(value, "infinity") == 0) {
                settings->timeout_ms = UINT64_MAX;
                return 0;
        }
        if (nb_setting_duration_parse(value, &seconds) < 0 || seconds == 0 || seconds > NB_SETTING_TIMEOUT_MAX_SECONDS)
                return -EINVAL;
        settings->timeout_ms = seconds * 1000;
        return 0;
}

/* --- The table --- */

#define EXPECTED_BOOLEAN "true or false"
#define EXPECTED_PATH "an absolute path without //, . and .. in it"

const struct nb_setting_row nb_setting_rows[_NB_SETTING_N] = {
        [NB_SETTING_ENDPOINTS] = { "discovery.endpoints", NB_SETTING_TYPE_LIST, store_endpoint, 0,
                                   "HOST:PORT without https://, an IPv6 address in brackets", MEMBER(n_endpoints),
                                   NB_SETTINGS_ENDPOINTS_MAX, NULL },
        [NB_SETTING_CA_CERT_HASHES] = { "discovery.caCertHashes", NB_SETTING_TYPE_LIST, store_pin, 0,
                                        "sha256: and 64 hex digits", MEMBER(n_pins), NB_SETTINGS_PINS_MAX, hint_pin },
        [NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION] = BOOLEAN("discovery.unsafeSkipCAVerification", unsafe_skip_ca_verification),
        [NB_SETTING_TRUST_WHOLE_BUNDLE] = BOOLEAN("discovery.trustWholeBundle", trust_whole_bundle),
        [NB_SETTING_DISCOVERY_FILE] = STRING("discovery.file", store_discovery_file, MEMBER(discovery_file), "an absolute path without //, . and .. in it, or https://HOST[:PORT]/PATH", hint_discovery_file),
        [NB_SETTING_URL_CA_FILE] = STRING("discovery.urlCAFile", store_optional_path, MEMBER(url_ca_file), EXPECTED_PATH, NULL),
        [NB_SETTING_BOOTSTRAP_KUBECONFIG] = STRING("bootstrap.kubeconfig", store_optional_path, MEMBER(bootstrap_kubeconfig), EXPECTED_PATH, NULL),
        [NB_SETTING_BOOTSTRAP_TOKEN] = STRING("bootstrap.token", store_no_token, 0, "a token", NULL),
        [NB_SETTING_CLUSTER_TYPE] = STRING("cluster.type", store_cluster_type, 0, "auto, kubernetes or k3s", NULL),
        [NB_SETTING_NODE_NAME] = STRING("node.name", store_node_name, 0, "a DNS-1123 subdomain (letters, digits, '-' and '.', at most 253)", NULL),
        [NB_SETTING_ALLOW_EXISTING] = BOOLEAN("node.allowExisting", allow_existing),
        [NB_SETTING_VERIFY_ACCESS] = BOOLEAN("node.verifyAccess", verify_access),
        [NB_SETTING_TAINTS] = { "node.taints", NB_SETTING_TYPE_LIST, store_taint, 0, "KEY[=VALUE]:EFFECT with the effect NoSchedule, PreferNoSchedule or NoExecute", MEMBER(n_taints), NB_SETTINGS_TAINTS_MAX, NULL },
        [NB_SETTING_KUBECONFIG] = STRING("kubelet.kubeconfig", store_path, MEMBER(kubeconfig), EXPECTED_PATH, NULL),
        [NB_SETTING_CERTIFICATE_DIRECTORY] = STRING("kubelet.certificateDirectory", store_path, MEMBER(certificate_directory), EXPECTED_PATH, NULL),
        [NB_SETTING_CA_FILE] = STRING("kubelet.caFile", store_path, MEMBER(ca_file), EXPECTED_PATH, NULL),
        [NB_SETTING_CRI_SOCKET] = STRING("kubelet.criSocket", store_cri_socket, 0, "unix:// and an absolute path, or the path alone", NULL),
        [NB_SETTING_EXTRA_ARGS] = { "kubelet.extraArgs", NB_SETTING_TYPE_LIST, store_extra_arg, 0, "NAME=VALUE without dashes before it, and without blanks, quotes, '\\' and '$' in it", MEMBER(n_extra_args), NB_SETTINGS_EXTRA_ARGS_MAX, hint_extra_arg },
        [NB_SETTING_CONFIG_FROM] = STRING("kubelet.configFrom", store_config_from, 0, "none or cluster", NULL),
        [NB_SETTING_PROVIDER_ID] = STRING("kubelet.providerID", store_provider_id, 0, "an ID such as NAME://ID, without blanks, quotes, '\\' and '$' in it", NULL),
        [NB_SETTING_RESTART_KUBELET] = BOOLEAN("refresh.restartKubelet", restart_kubelet),
        [NB_SETTING_KEY_TYPE] = STRING("csr.keyType", store_key_type, 0, "ecdsa-p256", NULL),
        [NB_SETTING_EXPIRATION_SECONDS] = { "csr.expirationSeconds", NB_SETTING_TYPE_NUMBER, store_expiration, 0,
                                            "0, or a number from 600 to 2147483647", 0, 0, NULL },
        [NB_SETTING_METADATA_PROVIDER] = STRING("metadata.provider", store_provider, 0, "none, auto, or a provider that node-bootstrap.yaml(5) names", NULL),
        [NB_SETTING_METADATA_NODE_NAME] = BOOLEAN("metadata.nodeName", metadata_node_name),
        [NB_SETTING_METADATA_PROVIDER_ID] = BOOLEAN("metadata.providerID", metadata_provider_id),
        [NB_SETTING_TOKEN_DISCARD] = BOOLEAN("token.discard", token_discard),
        [NB_SETTING_TIMEOUT] = STRING("timeout", store_timeout, 0, "infinity, or a duration such as 30s, 5m, 1h30m or 2d, up to 3650d", NULL),
};

const char *nb_setting_key(enum nb_setting setting) {
        assert((unsigned)setting < _NB_SETTING_N);
        return nb_setting_rows[setting].key;
}

#define PIN_TYPE "sha256:"
#define PIN_TYPE_LEN (sizeof(PIN_TYPE) - 1)
#define PIN_DIGITS (2 * (size_t)NB_PIN_SIZE)
#define PIN_REST_QUOTED_MAX 12 /* a token has 23, and may be what was pasted behind a pin */

int nb_pin_parse(const char *text, size_t len, uint8_t ret_pin[static NB_PIN_SIZE]) {
        if (len < PIN_TYPE_LEN || strncasecmp(text, PIN_TYPE, PIN_TYPE_LEN) != 0)
                return -EINVAL;
        return nb_hex_decode(text + PIN_TYPE_LEN, len - PIN_TYPE_LEN, ret_pin, NB_PIN_SIZE);
}

void nb_pin_find_flaw(const char *text, size_t len, char ret[static NB_PIN_FLAW_SIZE]) {
        const char *digits = text + PIN_TYPE_LEN, *rest;
        size_t n = 0, n_rest;

        ret[0] = '\0';
        if (len < PIN_TYPE_LEN || strncasecmp(text, PIN_TYPE, PIN_TYPE_LEN) != 0) {
                (void)snprintf(ret, NB_PIN_FLAW_SIZE, "it does not begin with '" PIN_TYPE "'");
                return;
        }
        while (n < len - PIN_TYPE_LEN && isxdigit((unsigned char)digits[n]))
                n++;
        rest = digits + n;
        n_rest = len - PIN_TYPE_LEN - n;
        if (n != PIN_DIGITS)
                (void)snprintf(ret, NB_PIN_FLAW_SIZE, "it has %zu such digits%s", n, n_rest > 0 ? " up to the first other character" : "");
        else if (n_rest > PIN_REST_QUOTED_MAX || nb_text_has_letters(rest, n_rest)) /* which may be a password */
                (void)snprintf(ret, NB_PIN_FLAW_SIZE, "it is %zu bytes long, %zu more than a pin, which stand behind the last digit", len, n_rest);
        else if (n_rest > 0)
                (void)snprintf(ret, NB_PIN_FLAW_SIZE, "it is %zu bytes long, and not %zu: behind the last digit stands '%.*s'", len, PIN_TYPE_LEN + PIN_DIGITS,
                               (int)n_rest, rest);
}

void nb_pin_format(const uint8_t pin[static NB_PIN_SIZE], char ret[static NB_PIN_TEXT_SIZE]) {
        nb_hex_encode(pin, NB_PIN_SIZE, stpcpy(ret, "sha256:"));
}
