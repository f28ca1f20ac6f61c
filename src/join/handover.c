/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the handoff, for the installer, into the state directory. */

#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join/stages.h"
#include "state_files/handoff.h"

int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_bootstrap *bootstrap = join->bootstrap;
        const struct nb_identity *identity = &bootstrap->identity;
        char none[] = ""; /* the system's CAs */
        struct nb_handoff handoff = {
                .certificate = join->certificate.data,
                .serving = join->serving.data,
                .cluster = join->cluster,
        };
        struct nb_provenance *from = &handoff.provenance;
        int r;

        /* They end while this process waits for the disk. */
        nb_http_dismiss(join->api.http);
        if (!handoff.cluster.ca)
                handoff.cluster.ca = none;
        memcpy(from->usec, join->usec, sizeof(from->usec));
        NB_TEXT_COPY(from->csr, join->csr_name);
        NB_TEXT_COPY(from->endpoint, join->endpoint);
        NB_TEXT_COPY(from->token_id,
                     identity->token_id[0] ? identity->token_id : bootstrap->token.token_id);
        NB_TEXT_COPY(from->token_source, identity->source);
        r = nb_state_file_format(&nb_handoff_file, &handoff, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the handoff cannot be formatted");
        return nb_state_file_write(join->state_fd, NB_HANDOFF_FILE, &text, f);
}
