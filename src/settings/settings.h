/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The settings of node-bootstrap.yaml(5), merged key by key from several documents, weakest first.
 * settings.def has a row for each.
 *
 * Parsing is strict. These are failures: an unknown key, a wrong type, a duplicate key, an alias,
 * anchor or tag, a second document, excessive depth or size, a value out of range. The message
 * names origin, line and key (`discovery.caCertHashes[1]`) and the expected value. Each document
 * must have apiVersion and kind. An empty document (only comments) changes nothing. A kubeadm
 * JoinConfiguration is accepted instead, also with the other documents that kubeadm allows in its
 * file (join_configuration.h). No I/O here.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/failure.h"
#include "base/secret.h"
#include "codec/url.h"
#include "kube_objects/node_name.h"
#include "kube_objects/token.h"
#include "metadata/cloud_names.h"
#include "settings/types.h"

#define NB_KUBELET_DIRECTORY "/var/lib/kubelet" /* kubelet's default --root-dir */
#define NB_KUBELET_CONFIG_PATH NB_KUBELET_DIRECTORY "/config.yaml"
/* What the units make writable (ReadWritePaths=), if it exists when they start. */
#define NB_SETTINGS_FOLDERS_N 2
extern const char *const nb_settings_folders[NB_SETTINGS_FOLDERS_N];
/* The one that `path` is or is in; NULL: none. */
const char *nb_settings_folder_of(const char *path);

#define NB_CA_FILE_MAX (64 * 1024) /* bytes of kubelet.caFile, and of the CAs of a cluster */

#define NB_SETTINGS_ENDPOINTS_MAX 16
#define NB_SETTINGS_PINS_MAX 32
#define NB_SETTINGS_TAINTS_MAX 16
#define NB_SETTINGS_EXTRA_ARGS_MAX 32
#define NB_SETTINGS_IGNORED_SIZE 256
#define NB_SETTINGS_DEFAULT_ORIGIN "default"
#define NB_SETTINGS_ORIGIN_SIZE 128

/* NB_SETTING_ENDPOINTS and so on. */
enum nb_setting {
#define SETTING(identifier, ...) NB_SETTING_##identifier,
#define LIST SETTING
#include "settings/settings.def"
#undef SETTING
#undef LIST
        _NB_SETTING_N,
};

/* The tokens in documents. They are secrets, so struct nb_settings, which is copied and printed,
 * does not contain them. Each has the form of a valid token. */
struct nb_settings_tokens {
        struct nb_secret discovery;     /* bootstrap.token (a bootstrap token or a k3s token), or
                                           discovery.bootstrapToken.token of a JoinConfiguration */
        struct nb_secret tls_bootstrap; /* discovery.tlsBootstrapToken of a JoinConfiguration */
        char discovery_origin[NB_SETTINGS_ORIGIN_SIZE]; /* the document that contains it */
        char tls_bootstrap_origin[NB_SETTINGS_ORIGIN_SIZE];
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
        char url_ca_file[NB_SETTINGS_PATH_MAX];    /* "": the system's CAs */
        char bootstrap_kubeconfig[NB_SETTINGS_PATH_MAX];
        bool has_discovery_token; /* set even if `tokens` is NULL */
        enum nb_cluster_type cluster_type;
        char node_name[NB_NODE_NAME_MAX + 1]; /* "": the host name */
        bool is_node_name_lowered;            /* the name in the document has upper-case letters */
        bool allow_existing;                  /* join although a Node of this name is Ready */
        char taints[NB_SETTINGS_TAINTS_MAX][NB_SETTINGS_TAINT_SIZE];
        unsigned n_taints;
        char kubeconfig[NB_SETTINGS_PATH_MAX];
        char certificate_directory[NB_SETTINGS_PATH_MAX];
        char ca_file[NB_SETTINGS_PATH_MAX];
        char cri_socket[NB_SETTINGS_PATH_MAX]; /* with unix://; "" for none */
        char extra_args[NB_SETTINGS_EXTRA_ARGS_MAX][NB_SETTINGS_EXTRA_ARG_SIZE]; /* "name=value" */
        unsigned n_extra_args;
        bool is_config_from_cluster;
        char provider_id[NB_SETTINGS_PROVIDER_ID_SIZE]; /* "" for none */
        bool refresh_automatic; /* unset: only where a supervisor of k3s issued the certificate */
        bool restart_kubelet;   /* after a refresh that changed something */
        uint32_t csr_expiration_seconds;            /* 0: the signer's default */
        char proof_key[NB_SETTINGS_PROOF_KEY_SIZE]; /* "": requests have no proof */
        enum nb_provider metadata_provider;
        bool metadata_node_name, metadata_provider_id; /* take them from metadata if nothing else
                                                          sets them */
        bool token_discard;                            /* remove the token after the join */
        uint64_t timeout_ms;                           /* UINT64_MAX: infinity */

        /* Where each value comes from: NB_SETTINGS_DEFAULT_ORIGIN, or nb_settings_copy_origin(). */
        char origin[_NB_SETTING_N][NB_SETTINGS_ORIGIN_SIZE];

        /* Keys and documents for other phases of kubeadm, "dryRun, patches"; ends with "..." if not
         * all fit. */
        char ignored[NB_SETTINGS_IGNORED_SIZE];

        /* Borrowed; NULL: tokens in documents are checked and dropped. */
        struct nb_settings_tokens *tokens;
};

/* Copies the origin of a document for messages. Of a long path, keeps the end: two files in one
 * folder stay different. */
void nb_settings_copy_origin(const char *origin, char ret[static NB_SETTINGS_ORIGIN_SIZE]);

/* All defaults. */
void nb_settings_init(struct nb_settings *ret_settings);

/* Where a document comes from. */
struct nb_settings_source {
        const char *origin; /* for messages: a path, "the user data of Amazon EC2" */
        const char *key;  /* the settings are the value of this top-level key of a foreign document,
                             and need no apiVersion and kind; NULL: they are the whole document */
        bool is_exposed;  /* other users can read it: a token in it is refused */
        bool is_tolerant; /* keys that are refused are skipped: no failure, but `f` is set if one of
                             them is the path of a file that a join writes */
        bool is_metadata; /* from cloud metadata, perhaps passed on by `join`: only some keys are
                             accepted (settings.def) */
};

/*
 * Merges one document (or file of documents); on failure `settings` is unchanged, except for its
 * tokens. NB_SETTINGS_MALFORMED, NB_SETTINGS_INVALID; for a token,
 * NB_TOKEN_EXPOSED, and NB_TOKEN_MALFORMED or, in metadata, NB_METADATA_MALFORMED.
 */
int nb_settings_merge(struct nb_settings *settings, const struct nb_settings_source *source,
                      const char *yaml, size_t len, struct nb_failure *f);

/* Replaces the values that `over` sets, with their origins. Tokens are the caller's: struct
 * nb_settings has none. */
void nb_settings_overlay(struct nb_settings *settings, const struct nb_settings *over);

/* Wipes the tokens in settings->tokens and sets it to NULL, as if no document contained a token. */
void nb_settings_forget_tokens(struct nb_settings *settings);

/* Checks combinations of settings: the path of an output differs from those of all inputs and other
 * outputs, and no kubelet option is set twice. nb_bootstrap_verify() checks that they suffice for a
 * join. NB_SETTINGS_INVALID. */
int nb_settings_verify(const struct nb_settings *settings, struct nb_failure *f);

/* Whether kubelet can register a Node of this name, and no other machine has it: kubelet puts the
 * name into the label kubernetes.io/hostname, unless an argument sets that label (kubernetes
 * pkg/kubelet/kubelet_node_status.go). `source` is for the message. 0, NB_NODE_NAME_INVALID,
 * NB_NODE_NAME_LOCALHOST. */
int nb_settings_verify_name(const struct nb_settings *settings, const char *name,
                            const char *source, struct nb_failure *f);

#define NB_CLIENT_CA_PATH_MAX (NB_SETTINGS_PATH_MAX + 8)

/* The file for the CA of the API server's client certificate, if that CA is not in caFile, as with
 * k3s: beside caFile, "client-ca.crt" for "ca.crt". */
void nb_settings_client_ca(const struct nb_settings *settings,
                           char ret[static NB_CLIENT_CA_PATH_MAX]);

/* "discovery.endpoints": the key in a document. */
const char *nb_setting_key(enum nb_setting setting);

/* Whether a document sets it. */
bool nb_setting_is_set(const struct nb_settings *settings, enum nb_setting setting);

#define NB_SETTINGS_TEXT_MAX (64 * 1024)

/* Appends the value as it is written in a document: `["10.0.0.1:6443"]`, `true`, `"5m"`; for a
 * token, only whether there is one. */
void nb_setting_format(const struct nb_settings *settings, enum nb_setting setting,
                       struct nb_buffer *ret);

/* Appends a document with the keys that are set, without tokens. nb_settings_merge() reads the same
 * settings from it. */
void nb_settings_format(const struct nb_settings *settings, struct nb_buffer *ret);

/* --- For the parsers of documents --- */

/* Which values a document in metadata may set. */
enum nb_setting_metadata {
        NB_SETTING_METADATA_NEVER,
        NB_SETTING_METADATA_ALWAYS,
        NB_SETTING_METADATA_URL,
        NB_SETTING_METADATA_HARMLESS,
};

struct nb_setting_row {
        const char *key;
        const struct nb_setting_type *type; /* of a list: of its entries */
        size_t offset, size;                /* of the member of struct nb_settings */
        size_t n_offset;                    /* of a list: of its length */
        size_t entry_size;
        unsigned max;        /* entries in a list; 0: no list */
        const char *initial; /* the default, as in a document; NULL for a list */
        enum nb_setting_metadata metadata;
};

extern const struct nb_setting_row nb_setting_rows[_NB_SETTING_N];

/* Stores a value, or appends an entry to a list. 0; -EINVAL; for a list, -E2BIG if it is full,
 * -EEXIST if it already has this entry and the type is not is_repeatable. */
int nb_setting_parse(struct nb_settings *settings, enum nb_setting setting, const char *text,
                     size_t len);
