/* SPDX-License-Identifier: Apache-2.0 */

/* A kubeconfig on this machine: a discovery file or credential, or the bootstrap kubeconfig. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join_method/cluster_identity.h"
#include "join_method/inputs.h"
#include "join_method/method.h"

#define BUNDLE_MAX (512 * 1024)

static int load_document(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                         struct nb_failure *f) {
        const char *path = inputs->settings->discovery_file;
        const struct nb_kubeconfig_source source = { NB_CREDENTIAL_CLUSTER_INFO_NAME,
                                                     path[0] == '/' ? path : "",
                                                     &nb_kubeconfig_discovery_file };
        int r;

        r = nb_kubeconfig_load(inputs->sources, &source, &bootstrap->origin, NULL,
                               bootstrap->discovery_source, f);
        if (r <= 0)
                return r;
        r = nb_inputs_verify_alone(inputs, bootstrap->discovery_source, f);
        return r < 0 ? r : 1;
}

static int load_kubeconfig(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                           _unused_ struct nb_failure *f) {
        if (!inputs->has_kubeconfig)
                return 0;
        bootstrap->origin = TAKE(inputs->kubeconfig);
        NB_TEXT_COPY(bootstrap->discovery_source, inputs->kubeconfig_source);
        return 1;
}

/* Selects the document's own CAs that match caCertHashes, before any server is asked. */
static int select_own(const struct nb_bootstrap *bootstrap, const struct nb_settings *s,
                      enum nb_code mismatch, struct nb_ca_selection *ret_selection,
                      struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ignored = NB_BUFFER_INIT(BUNDLE_MAX);

        return nb_ca_select(bootstrap->origin.ca, bootstrap->origin.ca_len,
                            &(struct nb_ca_criteria){ .pins = s->pins,
                                                      .n_pins = s->n_pins,
                                                      .choice = s->n_pins > 0 ? NB_CA_PINNED
                                                                              : NB_CA_ALL_UNPINNED,
                                                      .malformed = NB_DISCOVERY_FILE_UNACCEPTABLE,
                                                      .mismatch = mismatch },
                            &ignored, ret_selection, f);
}

static int select_document_ca(const struct nb_ca_request *c, struct nb_failure *f) {
        struct nb_ca_selection own;
        int r;

        if (!c->bootstrap->origin.ca)
                return nb_ca_choose_system(c, f);
        r = select_own(c->bootstrap, c->settings, c->mismatch, &own, f);
        return r < 0 ? r
                     : nb_ca_choose(c, (const uint8_t(*)[NB_PIN_SIZE])own.taken, own.n_taken, f);
}

static int verify_document(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                           struct nb_failure *f) {
        const struct nb_ca_request none = { .bootstrap = bootstrap,
                                            .settings = settings,
                                            .mismatch = NB_CA_PIN_MISMATCH };
        struct nb_ca_selection own;

        if (!bootstrap->origin.ca)
                return nb_ca_choose_system(&none, f);
        return select_own(bootstrap, settings, NB_CA_PIN_MISMATCH, &own, f);
}

/* Certificates that are not CAs, and those beyond the limit, are left out. */
static int identify_by_document(const struct nb_bootstrap *bootstrap,
                                const struct nb_settings *settings,
                                struct nb_cluster_identity *ret_identity) {
        struct nb_failure ignored = { 0 };
        struct nb_ca_selection own;
        int r;

        if (settings->n_pins > 0)
                return 0;
        snprintf(ret_identity->name, sizeof(ret_identity->name), "the CA in %s",
                 bootstrap->discovery_source);
        if (!bootstrap->origin.ca)
                return 0;
        r = select_own(bootstrap, settings, NB_CA_PIN_MISMATCH, &own, &ignored);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        ret_identity->n_pins = own.n_taken < NB_SETTINGS_PINS_MAX ? own.n_taken
                                                                  : NB_SETTINGS_PINS_MAX;
        memcpy(ret_identity->pins, own.taken, ret_identity->n_pins * sizeof(own.taken[0]));
        return 0;
}

const struct nb_method nb_method_document = {
        .name = "file",
        .summary = "a kubeconfig on this machine",
        .object = "the kubeconfig",
        .verified = "the discovery file describes the cluster",
        .load = load_document,
        .verify = verify_document,
        .select_ca = select_document_ca,
        .has_origin = true,
        .identify = identify_by_document,
};

const struct nb_method nb_method_kubeconfig = {
        .name = "kubeconfig",
        .summary = "the bootstrap kubeconfig",
        .object = "the kubeconfig",
        .verified = "the bootstrap kubeconfig describes the cluster",
        .load = load_kubeconfig,
        .verify = verify_document,
        .select_ca = select_document_ca,
        .has_origin = true,
        .identify = identify_by_document,
};
