/* SPDX-License-Identifier: Apache-2.0 */
#include "verb/begin.h"
#include "base/macro.h"

/* The CAs of a document, and whether pins fit them, are known before any cluster is asked. */
static int verify_document(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ignored = NB_BUFFER_INIT(NB_KUBECONFIG_MAX);
        const struct nb_cluster *document = &bootstrap->document;
        struct nb_ca_selection selection;

        if (bootstrap->discovery != NB_DISCOVERY_DOCUMENT)
                return 0;
        return nb_bootstrap_select_ca(bootstrap, settings, document->ca ? document->ca : "", document->ca ? document->ca_len : 0,
                                      NB_DISCOVERY_FILE_UNACCEPTABLE, NB_CA_PIN_MISMATCH, &ignored, &selection, f);
}

int nb_begin_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f) {
        int r = nb_bootstrap_verify(bootstrap, settings, f);

        return r < 0 ? r : verify_document(bootstrap, settings, f);
}
