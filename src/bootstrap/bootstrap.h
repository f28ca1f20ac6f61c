/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What this machine was given to join with: how the cluster is discovered, and the bootstrap identity. Read out of the
 * settings, the credentials and the files that they name, in the same way on both sides: `join` goes by it, and the
 * installer, which trusts nothing that `join` says, checks by it what `join` hands over.
 *
 * A new way in is a row of nb_discovery or nb_issuer here, a file that runs it in stage/, and a rule for the CAs below.
 * No network here, and no word of what the cluster answers.
 */

#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "crypto/certificate.h"
#include "format/identity.h"
#include "format/k3s_token.h"
#include "format/kubeconfig.h"
#include "format/settings.h"
#include "format/token.h"

enum nb_discovery {
        NB_DISCOVERY_NONE,
        NB_DISCOVERY_TOKEN,    /* cluster-info of the endpoints: signed with the token, its CA pinned */
        NB_DISCOVERY_DOCUMENT, /* a kubeconfig on this machine: a file, a credential, or the bootstrap kubeconfig */
        NB_DISCOVERY_URL,      /* the same from an https URL */
        NB_DISCOVERY_CACERTS,  /* /cacerts of a k3s server, proven by the hash in the token */
        _NB_DISCOVERY_N,
};

/* Who signs the node's certificate. */
enum nb_issuer {
        NB_ISSUER_CSR,        /* CertificateSigningRequest of certificates.k8s.io/v1 */
        NB_ISSUER_SUPERVISOR, /* POST /v1-k3s/client-kubelet.crt */
        _NB_ISSUER_N,
};

struct nb_bootstrap {
        enum nb_discovery discovery;
        enum nb_issuer issuer;

        char discovery_source[NB_IDENTITY_SOURCE_MAX + 1]; /* for people: "credential 'node-bootstrap.cluster-info'", "'/etc/...'" */
        struct nb_token token;                             /* NB_DISCOVERY_TOKEN: its secret is the key of the signature; empty while there is none */
        struct nb_cluster document;                        /* NB_DISCOVERY_DOCUMENT; ca NULL: the CAs of the system */
        struct nb_url url;                                 /* NB_DISCOVERY_URL: the server; */
        char *url_ca;                                      /* who must answer there, PEM; NULL: the CAs of the system */
        size_t url_ca_len;
        bool has_hash; /* NB_DISCOVERY_CACERTS: the hash that the token carries */
        uint8_t hash[NB_K3S_HASH_SIZE];

        struct nb_identity identity; /* with which the certificate is requested; NB_IDENTITY_NONE while there is none */
        char node_password[65];      /* NB_ISSUER_SUPERVISOR: NUL-terminated, "" where none is there */
        struct nb_identity previous; /* NB_ISSUER_SUPERVISOR: the client certificate that this node has; or NB_IDENTITY_NONE */
};

/*
 * Reads what is there. Nothing that may be gone at a later boot has to be: a missing token leaves its member empty.
 * NB_SETTINGS_INVALID when two ways exclude each other (endpoints and a file: both places are named), NB_TOKEN_MALFORMED,
 * NB_TOKEN_ENCRYPTED, NB_TOKEN_EXPOSED, NB_DISCOVERY_FILE_UNREADABLE, NB_DISCOVERY_FILE_UNACCEPTABLE,
 * NB_BOOTSTRAP_KUBECONFIG_UNREADABLE, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE.
 */
int nb_bootstrap_load(const struct nb_settings *settings, struct nb_bootstrap *ret_bootstrap, struct nb_failure *f);

/* Whether a join can begin with it: NB_SETTINGS_INCOMPLETE, NB_TOKEN_MISSING, and NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE for a
 * client certificate that is none, or whose key is another one. */
int nb_bootstrap_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f);

/*
 * Whether metadata of the cloud is to be asked: nothing on this machine gives an identity, and metadata.provider is not none. Each side
 * decides this by what it has read of root's own files and credentials; where it says no, not a packet is sent, and nothing that is said to
 * be from metadata counts.
 */
bool nb_bootstrap_wants_metadata(const struct nb_settings *settings, const struct nb_bootstrap *bootstrap);

/*
 * Which CAs of a bundle may be trusted, by what was given alone:
 *
 *      token         those that discovery.caCertHashes names; all with unsafeSkipCAVerification and no hash
 *      document      the document's own, and what chains to one of them; of those what caCertHashes names, if it is set
 *      URL           those that caCertHashes names; without any, all: proven by the TLS of the URL, which only `join` saw
 *      /cacerts      the root that the token's hash names, and what chains to it
 *
 * with trustWholeBundle all of the bundle, provided that one fits. An empty bundle, which stands for the CAs of the
 * system, fits a document or URL without caCertHashes alone; *ret_pem stays empty then. Codes and selection as in
 * nb_ca_select().
 */
int nb_bootstrap_select_ca(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, const char *pem, size_t len,
                           enum nb_code code_malformed, enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                           struct nb_ca_selection *ret_selection, struct nb_failure *f);

void nb_bootstrap_done(struct nb_bootstrap *bootstrap);
