/* SPDX-License-Identifier: Apache-2.0 */

/* cluster-info of the configured endpoints, signed with the token; its CA is in caCertHashes. */

#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join_method/inputs.h"
#include "join_method/method.h"

static int load_token(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                      _unused_ struct nb_failure *f) {
        if (inputs->settings->n_endpoints == 0)
                return 0;
        bootstrap->token = TAKE(inputs->token);
        NB_TEXT_COPY(bootstrap->discovery_source, inputs->token_source);
        return 1;
}

static int verify_token(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                        struct nb_failure *f) {
        if (settings->n_pins == 0 && !settings->unsafe_skip_ca_verification)
                return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0,
                                      "discovery.caCertHashes: expected at least one hash of the "
                                      "cluster's CA, or "
                                      "discovery.unsafeSkipCAVerification: true; found neither");
        if (bootstrap->token.kind != NB_IDENTITY_NONE)
                return 0;
        return nb_failure_set(f, NB_TOKEN_MISSING, ENOENT,
                              "there is no credential '" NB_CREDENTIAL_TOKEN_NAME "'%s",
                              bootstrap->identity.kind == NB_IDENTITY_NONE
                                      ? ""
                                      : ", which discovery.endpoints requires; with a bootstrap "
                                        "kubeconfig alone, remove discovery.endpoints");
}

const struct nb_method nb_method_token = {
        .name = "token",
        .summary = "cluster-info from discovery.endpoints, verified with the token and the pins",
        .object = "cluster-info",
        .verified = "the cluster is verified by token and CA",
        .is_signed = true,
        .load = load_token,
        .verify = verify_token,
        .select_ca = nb_ca_choose_configured,
};
