/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How this machine finds and verifies its cluster, and the bootstrap identity it presents. `join`
 * and `install` each load this from the settings, the credentials and the files they name, because
 * `install` trusts nothing that `join` reports and verifies the handoff against its own view.
 *
 * There is no network access here: the network half of a method is in src/join/.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "crypto/certificate.h"
#include "kube_objects/identity.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/kubeconfig.h"
#include "os/sources.h"
#include "settings/settings.h"

enum nb_method_id {
        NB_METHOD_NONE,
#define NB_METHOD(ID, method, discover) NB_METHOD_##ID,
#include "join_method/methods.def"
#undef NB_METHOD
        _NB_METHOD_N,
};

/* Who signs the node's certificate. */
enum nb_issuer {
        NB_ISSUER_CSR,        /* CertificateSigningRequest of certificates.k8s.io/v1 */
        NB_ISSUER_SUPERVISOR, /* POST /v1-k3s/client-kubelet.crt */
        _NB_ISSUER_N,
};

struct nb_bootstrap {
        enum nb_method_id method;
        enum nb_issuer issuer;
        char discovery_source[NB_IDENTITY_SOURCE_MAX + 1]; /* "credential 'node-bootstrap.token'" */

        /* token: the second half of its secret is the key of the signature; NB_IDENTITY_NONE if
         * there is none */
        struct nb_identity token;
        /* document, kubeconfig: its cluster. URL: the web server. `ca` is NULL for the system's
         * CAs. */
        struct nb_cluster origin;
        /* k3s: the hash in the token */
        bool has_hash;
        uint8_t hash[NB_K3S_HASH_SIZE];

        struct nb_identity
                identity; /* requests the certificate; NB_IDENTITY_NONE if there is none */
        /* NB_ISSUER_SUPERVISOR: the node's password, and its present client certificate. Either may
         * be absent. */
        struct nb_secret node_password;
        struct nb_identity previous;
};

/* A CA bundle to choose from. */
struct nb_ca_request {
        const struct nb_bootstrap *bootstrap;
        const struct nb_settings *settings;
        const char *pem; /* empty: the system's CAs */
        size_t len;
        enum nb_code malformed, mismatch; /* as in struct nb_ca_criteria */
        struct nb_buffer *ret_pem;
        struct nb_ca_selection *ret_selection;
};

struct nb_inputs;
struct nb_cluster_identity;

struct nb_method {
        const char *name;        /* in the record of a join */
        const char *summary;     /* in `check` */
        const char *object;      /* what it reads: "cluster-info" */
        const char *verified;    /* logged once the cluster is verified */
        bool is_signed;          /* the object carries a signature made with the token */
        bool has_origin;         /* it asks bootstrap->origin, not discovery.endpoints */
        bool is_document_remote; /* only `join` reads the document, so `install` cannot compare it
                                  */

        /* Takes the inputs of this method. 1: this method is used; 0: its inputs are missing. */
        int (*load)(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap, struct nb_failure *f);
        /* Whether a join can begin: NB_SETTINGS_INCOMPLETE, and its own failures. NULL: always. */
        int (*verify)(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                      struct nb_failure *f);
        int (*select_ca)(const struct nb_ca_request *request, struct nb_failure *f);
        /* Replaces discovery.caCertHashes, which are in *ret_identity, by the hashes that identify
         * this cluster. NULL: keeps them. 0, -ENOMEM. */
        int (*identify)(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                        struct nb_cluster_identity *ret_identity);
};

const struct nb_method *nb_method(enum nb_method_id id);

/*
 * Missing inputs are not errors here, since a token may be gone at a later boot.
 * NB_SETTINGS_INVALID if two methods exclude each other, NB_TOKEN_MALFORMED, NB_TOKEN_ENCRYPTED,
 * NB_TOKEN_EXPOSED, NB_DISCOVERY_FILE_UNREADABLE, NB_DISCOVERY_FILE_UNACCEPTABLE,
 * NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE.
 */
int nb_bootstrap_load(struct nb_sources *sources, const struct nb_settings *settings,
                      struct nb_bootstrap *ret_bootstrap, struct nb_failure *f);
/* Takes the identity of a node whose certificate a supervisor has issued: the node password, and
 * kubelet's client certificate with its key. Either may be missing. 0, -ENOMEM. */
int nb_bootstrap_load_node(struct nb_sources *sources, const struct nb_settings *settings,
                           struct nb_bootstrap *bootstrap, struct nb_failure *f);

void nb_bootstrap_done(struct nb_bootstrap *bootstrap);

/*
 * Whether a join can begin: NB_SETTINGS_INCOMPLETE, NB_TOKEN_MISSING,
 * NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE for an unusable client certificate, and for a document whose
 * CAs cannot be selected NB_DISCOVERY_FILE_UNACCEPTABLE and NB_CA_PIN_MISMATCH.
 */
int nb_bootstrap_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                        struct nb_failure *f);

/*
 * Whether cloud metadata is needed: this machine has no identity, and metadata.provider is not
 * none. Each process decides this from root's own files and credentials. If it is false, no packet
 * is sent, and nothing that claims to come from metadata is accepted.
 */
bool nb_bootstrap_wants_metadata(const struct nb_settings *settings,
                                 const struct nb_bootstrap *bootstrap);

/*
 * Which CAs of a bundle are trusted:
 *
 *      token                   those in discovery.caCertHashes; with unsafeSkipCAVerification and
 *                              no hash, all
 *      document, kubeconfig    the document's own, and those that chain to one of them; with
 *                              caCertHashes, only the document's own CAs that match a hash, and
 *                              those that chain to one of these
 *      URL                     those in caCertHashes; without any hash, all, because `join`
 *                              received the document over verified TLS; `install` cannot check this
 *      k3s                     all, if the token has the hash of the bundle; otherwise the CA
 *                              whose hash it is, and those that chain to it
 *
 * With trustWholeBundle, the whole bundle is trusted if one of its CAs matches. An empty bundle
 * means the system's CAs; only a document or URL without caCertHashes accepts it, and *ret_pem
 * stays empty.
 */
int nb_bootstrap_select_ca(const struct nb_ca_request *request, struct nb_failure *f);

/* Whether the hash in a k3s token is that of exactly these bytes. */
bool nb_bootstrap_has_hash_of(const struct nb_bootstrap *bootstrap, const char *pem, size_t len);

/* The one server that the method asks; NULL: those in discovery.endpoints. */
const struct nb_url *nb_bootstrap_origin(const struct nb_bootstrap *bootstrap);

/* Whether the settings allow discovery through this endpoint. */
bool nb_bootstrap_accepts_endpoint(const struct nb_bootstrap *bootstrap,
                                   const struct nb_settings *settings,
                                   const struct nb_url *endpoint);

/* --- For the methods --- */

/* Selects the CAs that match these pins; all CAs if there are no pins. */
int nb_ca_choose(const struct nb_ca_request *request, const uint8_t (*pins)[NB_PIN_SIZE],
                 unsigned n_pins, struct nb_failure *f);

/* Selects the CAs by discovery.caCertHashes. These are required unless
 * discovery.unsafeSkipCAVerification is set or the method has an origin. */
int nb_ca_choose_configured(const struct nb_ca_request *request, struct nb_failure *f);

/* Selects the system's CAs if the bundle is empty and there are no caCertHashes; otherwise fails
 * with request->mismatch. */
int nb_ca_choose_system(const struct nb_ca_request *request, struct nb_failure *f);
