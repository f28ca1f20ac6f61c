/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What `join` hands over, checked as if an attacker had written it: against the settings and what they name, against the
 * pending key, and in form. What comes out is written anew from what was understood; no byte is copied through.
 *
 * Trusted from `join`, since nothing here can tell: that the server belongs to the cluster whose CA is pinned (kubelet
 * checks that by TLS), and the names that the record is adorned with; where the settings give a URL and no pins, the CA
 * and the server. The endpoint has to be a configured one, the server of the document, or the host of the URL. Where nothing on this machine gives
 * an identity, so that metadata is wanted: all that metadata gave, by the word of `join`, beneath what is set on this machine.
 */

#include <stddef.h>

#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "crypto/certificate.h"
#include "format/handoff.h"
#include "install/context.h"
#include "install/state.h"

struct nb_accepted {
        struct nb_handoff handoff;       /* server, proxy and names: checked in form; its PEM texts are not for use */
        struct nb_secret pem;            /* leaf, intermediates, key: as kubelet stores them */
        struct nb_buffer ca;             /* what may be trusted, as PEM; empty: the CAs of the system */
        struct nb_buffer kubelet_config; /* kubelet's configuration out of the cluster; empty for none */
        struct nb_ca_selection selection;
        char not_after[32]; /* of the leaf, RFC 3339 */
};

/* `context` as of nb_context_load_joined(); it is completed by the hash of a k3s token where metadata gave one. -ENOENT, and nothing set, when there is no joined.json. NB_HANDOFF_MALFORMED, NB_HANDOFF_UNTRUSTED,
 * NB_CERTIFICATE_UNUSABLE, NB_SETTINGS_INVALID, and what nb_bootstrap_load() said. A missing token is none: it may be gone
 * by now. */
int nb_accept(struct nb_context *context, const struct nb_state *state, struct nb_accepted *ret_accepted,
              struct nb_failure *f);
void nb_accepted_done(struct nb_accepted *accepted);
