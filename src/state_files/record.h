/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The record of the last join (node-bootstrap.json), for install, reset and status. */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "kube_objects/csr.h"
#include "settings/settings.h"
#include "state_files/state_file.h"

#define NB_TOKEN_SOURCE_MAX 127
#define NB_RECORD_ARGUMENTS_SIZE (24 * 1024)
#define NB_RECORD_SETTINGS_SIZE (24 * 1024) /* 16 endpoints, 32 arguments of kubelet */

#define NB_FACT_HASH_SIZE (2 * 32 + 1) /* of SHA-256 in hex */

/* Which machine this is; each is "" if it is unknown (node_state/machine_facts.h). All users can
 * read the record, so it contains only hashes of machine ID and hardware ID. */
struct nb_facts {
        char host_name[HOST_NAME_MAX + 1]; /* in lower case */
        char machine_id[NB_FACT_HASH_SIZE], hardware_id[NB_FACT_HASH_SIZE];
};

/* The stages of a join, in their order. */
#define NB_STAGES(OF) \
        OF(PREPARE, "prepare") /* reading settings and credentials */ \
        OF(METADATA, "metadata") \
        OF(DISCOVER, "discover") \
        OF(CONNECT, "connect") \
        OF(NODE, "node") \
        OF(REQUEST, "request") \
        OF(AWAIT, "await") \
        OF(HAND_OVER, "handoff") \
        OF(INSTALL, "install")

enum nb_stage {
#define NB_STAGE(ID, name) NB_STAGE_##ID,
        NB_STAGES(NB_STAGE)
#undef NB_STAGE
                _NB_STAGE_N,
};

extern const char *const nb_stage_names[_NB_STAGE_N];

/* How the machine joined, as `join` reports it. */
struct nb_provenance {
        char endpoint[NB_URL_MAX];
        char csr[NB_CSR_NAME_MAX + 1]; /* "" if a k3s supervisor signed */
        char token_id[8];              /* "" if the token was not a bootstrap token */
        char token_source[NB_TOKEN_SOURCE_MAX + 1];
        uint64_t usec[_NB_STAGE_N]; /* how long each stage took; 0: unknown, or there was none */
};

/* Release one that was read with nb_record_done(). */
struct nb_record {
        char node[NB_NODE_NAME_MAX + 1];
        struct nb_facts facts; /* of the machine that joined */
        struct nb_url server;
        struct nb_provenance provenance;
        /* caCertHashes: what identified the cluster (join_method/cluster_identity.h) */
        uint8_t pins[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];
        unsigned n_pins;
        /* fileHashes: SHA-256 of the files that were written, and of our own ones that they have
         * replaced (install/join_files.h) */
        uint8_t hashes[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];
        unsigned n_hashes;
        /* For writing lost files again. */
        char *ca; /* PEM, as last seen in the CA file; NULL for the system's CAs */
        char arguments[NB_RECORD_ARGUMENTS_SIZE];    /* kubeletArguments: for kubeadm-flags.env */
        char runtime_endpoint[NB_SETTINGS_PATH_MAX]; /* runtimeEndpoint: for instance-config.yaml */
        char kubeconfig[NB_SETTINGS_PATH_MAX];
        char tls_server_name[NB_HOST_MAX + 1], proxy_url[NB_PROXY_URL_MAX + 1]; /* "" for none */
        char join_method[16];
        char metadata[16];             /* the cloud that supplied token or settings; "" for none */
        bool is_discard_from_metadata; /* discardFromMetadata: metadata supplied token.discard */
        char joined_at[32];            /* RFC 3339 */
        char refreshed_at[32];         /* when refresh last changed server or CA; "" for never */
        char renewal_failure[40];   /* why the last renewal by the supervisor failed: a code; "" if
                                       it did not */
        char renewal_failed_at[32]; /* RFC 3339: the first time since the last success */
        char certificate[NB_SETTINGS_PATH_MAX + 64]; /* the dated file with certificate and key */
        char settings[NB_RECORD_SETTINGS_SIZE];      /* for a refresh (refresh_settings.h) */
};

/* NB_INSTALLED_MALFORMED */
extern const struct nb_state_file nb_record_file;

void nb_record_done(struct nb_record *record);

/* Reads the record from a certificate directory below `root_fd` (-1: of this machine). 1; 0 if
 * there is none; NB_INSTALLED_UNREADABLE, NB_INSTALLED_MALFORMED. */
int nb_record_read(int root_fd, const char *certificate_directory, struct nb_record *ret_record,
                   struct nb_failure *f);

/* Sets the failure for an installed file that cannot be read: NB_INSTALLED_UNREADABLE or
 * NB_INSTALLED_MALFORMED. `r` is from nb_path_read(). */
int nb_installed_refuse(const char *path, int r, struct nb_failure *f);
