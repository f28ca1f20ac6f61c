/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "format/handoff.h"
#include "stage/internal.h"

/* What the installer does not find on this machine. */
static void take_metadata(const struct nb_join *join, struct nb_handoff *handoff) {
        const struct nb_bootstrap *bootstrap = join->bootstrap;

        if (join->metadata == NB_PROVIDER_NONE)
                return;
        (void)snprintf(handoff->metadata, sizeof(handoff->metadata), "%s", nb_provider_name(join->metadata));
        if (bootstrap->discovery == NB_DISCOVERY_CACERTS && bootstrap->has_hash)
                nb_hex_encode(bootstrap->hash, sizeof(bootstrap->hash), handoff->k3s_hash);
}

int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_identity *identity = &join->bootstrap->identity;
        char none[] = ""; /* the CAs of the system */
        struct nb_handoff handoff = {
                .certificate = join->certificate.data,
                .ca = join->ca.data ? join->ca.data : none,
                .server = join->cluster.server,
        };
        int r;

        (void)snprintf(handoff.tls_server_name, sizeof(handoff.tls_server_name), "%s", join->cluster.tls_server_name);
        (void)snprintf(handoff.proxy_url, sizeof(handoff.proxy_url), "%s", join->cluster.proxy_url);
        (void)snprintf(handoff.csr, sizeof(handoff.csr), "%s", join->csr_name);
        (void)snprintf(handoff.endpoint, sizeof(handoff.endpoint), "%s", join->endpoint);
        (void)snprintf(handoff.token_id, sizeof(handoff.token_id), "%s", identity->token_id[0] ? identity->token_id : join->bootstrap->token.id);
        (void)snprintf(handoff.token_source, sizeof(handoff.token_source), "%s", identity->source);
        take_metadata(join, &handoff);
        r = nb_handoff_format(&handoff, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the note for the installer cannot be made");
        r = nb_file_write(join->state_fd, NB_HANDOFF_FILE, 0600, text.data, text.len);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_STATE_UNWRITABLE, -r, "'%s' in the state directory: %m", NB_HANDOFF_FILE);
        }
        return 0;
}
