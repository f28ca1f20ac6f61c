/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The notes on disk: joined.json (join to install), inspect.json (install --inspect to join), node-bootstrap.json
 * (what was installed, for --inspect and status) and refreshed.json (refresh to install). Each parser wants exactly the
 * members below, of the right type, once each.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "format/csr.h"
#include "format/k3s_token.h"
#include "format/kubeconfig.h"
#include "format/settings.h"

#define NB_HANDOFF_FILE "joined.json"
#define NB_METADATA_FILE "metadata.yaml" /* beside the former: settings that came from metadata, where some did; a NodeBootstrap document without tokens */
#define NB_REFRESH_FILE "refreshed.json"
#define NB_PENDING_KEY_FILE "pending.key"
#define NB_INSPECTION_FILE "inspect.json"
#define NB_RECORD_FILE "node-bootstrap.json"
#define NB_DISCARD_FILE "node-bootstrap.discard"      /* in kubelet's folder, for platform/discard.h: token.discard is to be done */
#define NB_STORE_CURRENT "kubelet-client-current.pem" /* beside the record: kubelet's link to its certificate and key */
#define NB_HANDOFF_MAX (512 * 1024)                   /* bytes of any of the notes */
#define NB_PENDING_KEY_MAX 4096
#define NB_TOKEN_SOURCE_MAX 127
#define NB_RECORD_ARGUMENTS_SIZE 8192

struct nb_handoff {
        char *certificate; /* PEM chain, leaf first, NUL-terminated */
        char *ca;          /* PEM bundle, NUL-terminated; "": the CAs of the system */
        struct nb_url server;
        char tls_server_name[NB_HOST_MAX + 1];
        char proxy_url[NB_PROXY_URL_MAX + 1];
        char csr[NB_CSR_NAME_MAX + 1]; /* "" where a supervisor signed without one */
        char endpoint[NB_URL_MAX];
        char token_id[8]; /* "" when it was no bootstrap token */
        char token_source[NB_TOKEN_SOURCE_MAX + 1];
        char metadata[16];                       /* the cloud whose metadata gave token or settings; "" for none (missing: "") */
        char k3s_hash[2 * NB_K3S_HASH_SIZE + 1]; /* k3sHash: of the cluster's CA, 64 hex digits, where metadata gave a k3s token; "" for none (missing: "") */
};

int nb_handoff_format(const struct nb_handoff *handoff, struct nb_buffer *ret);
/* NB_HANDOFF_MALFORMED; server, tlsServerName and proxyURL that are not acceptable: NB_HANDOFF_UNTRUSTED. */
int nb_handoff_parse(const char *text, size_t len, struct nb_handoff *ret_handoff, struct nb_failure *f);
void nb_handoff_done(struct nb_handoff *handoff);

/* What a refresh has found to be newer. */
struct nb_refresh_note {
        char *ca; /* PEM bundle, NUL-terminated */
        struct nb_url server;
        char tls_server_name[NB_HOST_MAX + 1];
        char proxy_url[NB_PROXY_URL_MAX + 1];
};

int nb_refresh_note_format(const struct nb_refresh_note *note, struct nb_buffer *ret);
/* As nb_handoff_parse(). */
int nb_refresh_note_parse(const char *text, size_t len, struct nb_refresh_note *ret_note, struct nb_failure *f);
void nb_refresh_note_done(struct nb_refresh_note *note);

enum nb_verdict {
        NB_VERDICT_USABLE,
        NB_VERDICT_NOT_YET_VALID, /* the clock is wrong, not the certificate */
        NB_VERDICT_ABSENT,
        NB_VERDICT_EXPIRED,
        NB_VERDICT_OTHER_NODE,
        NB_VERDICT_OTHER_CLUSTER,
        NB_VERDICT_UNREADABLE,
        NB_VERDICT_NOT_ROTATABLE, /* a file where kubelet wants its link: it does, until it has to be renewed */
        _NB_VERDICT_N,
};

/* "usable", "not-yet-valid", ... */
const char *nb_verdict_name(enum nb_verdict verdict);

struct nb_inspection {
        enum nb_verdict verdict;
        char node[NB_NODE_NAME_MAX + 1];
        char not_after[32]; /* RFC 3339, "" when not known */
        bool fallback;      /* what is there would still do if joining anew fails */
        bool verify_access; /* `join` asks the API server whether what is there still counts (verifyAccess; missing: false) */
        char detail[NB_FAILURE_DETAIL_MAX];
};

int nb_inspection_format(const struct nb_inspection *inspection, struct nb_buffer *ret);
/* NB_INTERNAL: it is written by our own program just before. */
int nb_inspection_parse(const char *text, size_t len, struct nb_inspection *ret_inspection, struct nb_failure *f);

struct nb_record {
        char node[NB_NODE_NAME_MAX + 1];
        char server[NB_URL_MAX];
        char endpoint[NB_URL_MAX];
        uint8_t pins[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE]; /* caCertHashes: by what the cluster was told then (install/anchors.h) */
        unsigned n_pins;
        uint8_t ca_hashes[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE]; /* caFileHashes: of what was installed */
        unsigned n_ca_hashes;
        bool is_ca_found;                         /* caFileFound: the CA file was there before, and is not of the join (missing: false) */
        bool has_arguments;                       /* false: nobody knows, as of what an older version wrote */
        char arguments[NB_RECORD_ARGUMENTS_SIZE]; /* kubeletArguments: those that the join wrote, with a blank between two */
        char csr[NB_CSR_NAME_MAX + 1];            /* "" where a supervisor signed without one */
        char discovery[16];                       /* "token", "file", "url", "cacerts", "kubeconfig"; "" in what an older version wrote */
        char token_id[8];                         /* "" when it was no bootstrap token */
        char token_source[NB_TOKEN_SOURCE_MAX + 1];
        char metadata[16];             /* the cloud whose metadata gave token or settings, as in metadata.provider; "" for none */
        bool is_node_from_metadata;    /* nodeFromMetadata: the node name is not of the settings on this machine, nor the host's (missing: false) */
        bool is_discard_from_metadata; /* discardFromMetadata: token.discard was set there, and not on this machine (missing: false) */
        char joined_at[32];            /* RFC 3339 */
        char refreshed_at[32];         /* when server and caFileHashes were last changed since; "" for never */
        char certificate[NB_SETTINGS_PATH_MAX + 64];
};

int nb_record_format(const struct nb_record *record, struct nb_buffer *ret);
/* NB_HANDOFF_MALFORMED */
int nb_record_parse(const char *text, size_t len, struct nb_record *ret_record, struct nb_failure *f);
