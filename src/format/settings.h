/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings: what node-bootstrap.yaml(5) documents, merged key by key out of several documents, weakest first.
 *
 * Strict: unknown key, wrong type, duplicate key, alias, anchor, tag, second document, depth, size, value out of
 * range: a failure that names the origin, the line, the key (`discovery.caCertHashes[1]`) and what was expected.
 * apiVersion and kind are required in each document. An empty document (only comments) is accepted and changes
 * nothing. A kubeadm JoinConfiguration is accepted in the place of a NodeBootstrap document, also among the other
 * documents that kubeadm allows in one file (join_configuration.h). No I/O here.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "format/node_name.h"
#include "format/provider.h"
#include "format/url.h"

#define NB_SETTINGS_ENDPOINTS_MAX 16
#define NB_SETTINGS_PINS_MAX 32
#define NB_SETTINGS_PATH_MAX 512
#define NB_SETTINGS_TAINTS_MAX 16
#define NB_SETTINGS_TAINT_SIZE 512 /* "prefix/name=value:NoSchedule": 253 + 1 + 63 + 1 + 63 + 1 + 16, and the NUL */
#define NB_SETTINGS_EXTRA_ARGS_MAX 32
#define NB_SETTINGS_EXTRA_ARG_SIZE 512 /* "name=value" */
#define NB_SETTINGS_PROVIDER_ID_SIZE 512
#define NB_SETTINGS_IGNORED_SIZE 256
#define NB_SETTINGS_DEFAULT_ORIGIN "default"
#define NB_PIN_SIZE 32            /* SHA-256 of a SubjectPublicKeyInfo in DER */
#define NB_CSR_EXPIRATION_MIN 600 /* seconds; certificates.k8s.io/v1 spec.expirationSeconds */

enum nb_setting {
        NB_SETTING_ENDPOINTS,                   /* discovery.endpoints */
        NB_SETTING_CA_CERT_HASHES,              /* discovery.caCertHashes */
        NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION, /* discovery.unsafeSkipCAVerification */
        NB_SETTING_TRUST_WHOLE_BUNDLE,          /* discovery.trustWholeBundle */
        NB_SETTING_DISCOVERY_FILE,              /* discovery.file: a path or an https URL */
        NB_SETTING_URL_CA_FILE,                 /* discovery.urlCAFile */
        NB_SETTING_BOOTSTRAP_KUBECONFIG,        /* bootstrap.kubeconfig: a path */
        NB_SETTING_BOOTSTRAP_TOKEN,             /* bootstrap.token: a secret, which is in struct nb_settings_tokens */
        NB_SETTING_CLUSTER_TYPE,                /* cluster.type: auto, kubernetes or k3s */
        NB_SETTING_NODE_NAME,                   /* node.name */
        NB_SETTING_ALLOW_EXISTING,              /* node.allowExisting */
        NB_SETTING_VERIFY_ACCESS,               /* node.verifyAccess */
        NB_SETTING_TAINTS,                      /* node.taints: KEY[=VALUE]:EFFECT */
        NB_SETTING_KUBECONFIG,                  /* kubelet.kubeconfig */
        NB_SETTING_CERTIFICATE_DIRECTORY,       /* kubelet.certificateDirectory */
        NB_SETTING_CA_FILE,                     /* kubelet.caFile */
        NB_SETTING_CRI_SOCKET,                  /* kubelet.criSocket */
        NB_SETTING_EXTRA_ARGS,                  /* kubelet.extraArgs: NAME=VALUE, without the dashes */
        NB_SETTING_CONFIG_FROM,                 /* kubelet.configFrom: none or cluster */
        NB_SETTING_PROVIDER_ID,                 /* kubelet.providerID: NAME://ID */
        NB_SETTING_RESTART_KUBELET,             /* refresh.restartKubelet */
        NB_SETTING_KEY_TYPE,                    /* csr.keyType: only ecdsa-p256 */
        NB_SETTING_EXPIRATION_SECONDS,          /* csr.expirationSeconds */
        NB_SETTING_METADATA_PROVIDER,           /* metadata.provider: none, auto or a name (provider.h) */
        NB_SETTING_METADATA_NODE_NAME,          /* metadata.nodeName */
        NB_SETTING_METADATA_PROVIDER_ID,        /* metadata.providerID */
        NB_SETTING_TOKEN_DISCARD,               /* token.discard */
        NB_SETTING_TIMEOUT,                     /* timeout: infinity, or e.g. 30s, 5m, 1h30m, 2d */
        _NB_SETTING_N,
};

enum nb_cluster_type {
        NB_CLUSTER_TYPE_AUTO, /* by the form of the token */
        NB_CLUSTER_TYPE_KUBERNETES,
        NB_CLUSTER_TYPE_K3S,
};

/* The tokens that documents carry: secrets, so they are not among what is copied and printed. Both have the form of a token. */
struct nb_settings_tokens {
        struct nb_secret discovery;     /* bootstrap.token, a bootstrap token or one of k3s; discovery.bootstrapToken.token of a JoinConfiguration */
        struct nb_secret tls_bootstrap; /* discovery.tlsBootstrapToken of a JoinConfiguration */
        char discovery_origin[128];     /* the document that it stood in */
        char tls_bootstrap_origin[128];
};

#define NB_SETTINGS_TOKENS_INIT \
        { .discovery = NB_SECRET_INIT, .tls_bootstrap = NB_SECRET_INIT }

void nb_settings_tokens_done(struct nb_settings_tokens *tokens);

struct nb_settings {
        struct nb_url endpoints[NB_SETTINGS_ENDPOINTS_MAX];
        unsigned n_endpoints;
        uint8_t pins[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];
        unsigned n_pins;
        bool unsafe_skip_ca_verification;
        bool trust_whole_bundle;
        char discovery_file[NB_SETTINGS_PATH_MAX]; /* absolute path or https URL; "" for none */
        char url_ca_file[NB_SETTINGS_PATH_MAX];    /* "": the CAs of the system */
        char bootstrap_kubeconfig[NB_SETTINGS_PATH_MAX];
        bool has_discovery_token, has_tls_bootstrap_token; /* some document has it, also where nobody asks for the tokens */
        enum nb_cluster_type cluster_type;
        bool allow_existing; /* a Node of this name that is Ready is no hindrance */
        bool verify_access;  /* a certificate from before is shown to the API server before it is taken for good */
        char taints[NB_SETTINGS_TAINTS_MAX][NB_SETTINGS_TAINT_SIZE];
        unsigned n_taints;
        char cri_socket[NB_SETTINGS_PATH_MAX]; /* as kubelet's --container-runtime-endpoint takes it; "" for none */
        char extra_args[NB_SETTINGS_EXTRA_ARGS_MAX][NB_SETTINGS_EXTRA_ARG_SIZE];
        unsigned n_extra_args;
        bool is_config_from_cluster;
        char provider_id[NB_SETTINGS_PROVIDER_ID_SIZE]; /* kubelet's --provider-id; "" for none */
        enum nb_provider metadata_provider;
        bool metadata_node_name, metadata_provider_id; /* node.name and kubelet.providerID come from metadata where nothing else sets them */
        bool token_discard;                            /* after the join the plaintext of the token is removed */
        bool restart_kubelet;                          /* after a refresh that changed something */
        char node_name[NB_NODE_NAME_MAX + 1];          /* "" where the host name is to be taken */
        bool is_node_name_lowered;                     /* it stands in capitals in the settings */
        char kubeconfig[NB_SETTINGS_PATH_MAX];         /* absolute, normalised (no //, no . or ..) */
        char certificate_directory[NB_SETTINGS_PATH_MAX];
        char ca_file[NB_SETTINGS_PATH_MAX];
        uint32_t csr_expiration_seconds; /* 0: the signer's default */
        uint64_t timeout_ms;             /* UINT64_MAX: infinity */

        /* Where each value came from: NB_SETTINGS_DEFAULT_ORIGIN, or the origin that was given to nb_settings_merge(). */
        char origin[_NB_SETTING_N][128];

        /* Keys and documents for other phases of kubeadm, which were passed over: "dryRun, patches"; ends with "..." when
         * not all of them fit. */
        char ignored[NB_SETTINGS_IGNORED_SIZE];

        struct nb_settings_tokens *tokens; /* borrowed; NULL where nobody asks for them: checked in form and dropped */
};

/* All defaults. */
void nb_settings_init(struct nb_settings *ret_settings);

/* Where a document comes from. */
struct nb_settings_source {
        const char *origin; /* for people: a path, "the user data of Amazon EC2" */
        bool is_exposed;    /* others can read it: a token in it is refused */
        bool is_metadata;   /* of the cloud, or by way of the network side: only some keys are taken (settings_metadata.c) */
};

/*
 * Merges one document (or file of documents); on failure `settings` is as it was, but for its tokens. NB_SETTINGS_MALFORMED,
 * NB_SETTINGS_INVALID; NB_TOKEN_MALFORMED and NB_TOKEN_EXPOSED for a token in it.
 */
int nb_settings_merge(struct nb_settings *settings, const struct nb_settings_source *source, const char *yaml, size_t len,
                      struct nb_failure *f);

/* As if no document had a token. Those of settings->tokens are wiped, and it is NULL afterwards. */
void nb_settings_forget_tokens(struct nb_settings *settings);

/* Whether a document out of metadata may set it, with whatever value. */
bool nb_setting_is_for_metadata(enum nb_setting setting);

/* What only the whole can tell: no target is another target, or what is read; no option of kubelet is given twice. Whether
 * there is enough to join with: nb_bootstrap_verify(). NB_SETTINGS_INVALID. */
int nb_settings_verify(const struct nb_settings *settings, struct nb_failure *f);

/* "discovery.endpoints" and so on: the key as a person writes it. */
const char *nb_setting_key(enum nb_setting setting);

/* `sha256:<64 hex digits>`, type and digits in either case (kubeadm util/pubkeypin). 0 or -EINVAL. */
int nb_pin_parse(const char *text, size_t len, uint8_t ret_pin[static NB_PIN_SIZE]);

/* Why it is none, as the end of a sentence: "it has 63 such digits"; "" for one that is in order. */
#define NB_PIN_FLAW_SIZE 112
void nb_pin_find_flaw(const char *text, size_t len, char ret[static NB_PIN_FLAW_SIZE]);

#define NB_PIN_TEXT_SIZE (7 + 2 * NB_PIN_SIZE + 1)
void nb_pin_format(const uint8_t pin[static NB_PIN_SIZE], char ret[static NB_PIN_TEXT_SIZE]);
