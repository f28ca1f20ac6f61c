/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Verifies the handoff of `join` as if an attacker had written it: its format, and its contents
 * against the settings, the files that they name, and the pending key. The result is formatted from
 * parsed values; no byte of the handoff is copied.
 *
 * Install trusts `join` where nothing here can verify it: that the server belongs to the cluster of
 * the pinned CA (kubelet verifies that by TLS); names that are only recorded; with a URL and no
 * pins, the CA and the server; and, if this machine has no identity and therefore reads metadata,
 * everything that came from metadata, with lower precedence than the settings of this machine. The
 * endpoint must be a configured one, the document's server, or the host of the URL.
 */

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "crypto/certificate.h"
#include "install/state_directory.h"
#include "node_state/context.h"
#include "state_files/handoff.h"

struct nb_accepted {
        struct nb_handoff handoff; /* server, proxy and names are valid; do not use its PEM texts */
        struct nb_secret pem;      /* leaf, intermediates, key: as kubelet stores them */
        struct nb_buffer ca;       /* the trusted CAs as PEM; empty: the system's CAs */
        /* From a supervisor of k3s, otherwise empty: */
        struct nb_buffer client_ca; /* PEM: the CA that issued this certificate and the client
                                     * certificate of the API server */
        struct nb_secret serving;   /* kubelet's serving certificate, with its CAs and key */
        struct nb_ca_selection selection;
        char not_after[32]; /* of the leaf, RFC 3339 */
};

/*
 * `context` has the settled settings. -ENOENT without a failure if there is no joined.json.
 * NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED, NB_CERTIFICATE_UNUSABLE, NB_SETTINGS_INVALID, and the
 * failures of nb_bootstrap_load(). A missing token is no failure: it may have been removed. Release
 * `accepted` with nb_accepted_done() even after a failure.
 */
int nb_accept(const struct nb_context *context, const struct nb_state *state,
              struct nb_accepted *accepted, struct nb_failure *f);

/*
 * Verifies the certificates in accepted->handoff for the key in the state directory, and formats
 * them. The serving certificate must also chain to accepted->ca. `trusted` is the existing chain,
 * whose CAs must have issued a renewed certificate; NULL for a join. NB_HANDOFF_MALFORMED,
 * NB_HANDOFF_UNTRUSTED, NB_CERTIFICATE_UNUSABLE.
 */
int nb_accept_certificates(const struct nb_context *context, const struct nb_state *state,
                           const struct nb_certificates *trusted, struct nb_accepted *accepted,
                           struct nb_failure *f);

/* Filters and formats kubelet's configuration in the state directory again, because the filter in
 * `refresh` is not trusted. `ca_file`: see kube_objects/kubelet_config.h. 0; -ENOENT without a
 * failure if there is none; NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED. */
int nb_accept_kubelet_config(const struct nb_state *state, const char *ca_file,
                             struct nb_buffer *ret, struct nb_failure *f);

void nb_accepted_done(struct nb_accepted *accepted);
