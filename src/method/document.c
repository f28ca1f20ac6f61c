/* SPDX-License-Identifier: Apache-2.0 */

/* A kubeconfig on this machine: a discovery file or credential, or the bootstrap kubeconfig. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "method/cluster_identity.h"
#include "method/inputs.h"
#include "method/method.h"

#define BUNDLE_MAX (512 * 1024)

static int load_document(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                         struct nb_failure *f) {
        int r;

        r = nb_inputs_read_document(inputs, &bootstrap->document, bootstrap->discovery_source, f);
        if (r <= 0)
                return r;
        r = nb_inputs_verify_alone(inputs, bootstrap->discovery_source, f);
        return r < 0 ? r : 1;
}

static int load_kubeconfig(struct nb_inputs *inputs, struct nb_bootstrap *bootstrap,
                           _unused_ struct nb_failure *f) {
        if (!inputs->has_kubeconfig)
                return 0;
        bootstrap->document = TAKE(inputs->kubeconfig);
        memcpy(bootstrap->discovery_source, inputs->kubeconfig_source,
               sizeof(inputs->kubeconfig_source));
        return 1;
}

static int select_ca(const struct nb_ca_request *c, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(BUNDLE_MAX);
        const struct nb_cluster *document = &c->bootstrap->document;
        const struct nb_settings *s = c->settings;
        struct nb_ca_selection selection;
        int r;

        if (!document->ca)
                return nb_ca_choose_system(c, f);
        r = nb_ca_select(document->ca, document->ca_len, (const uint8_t(*)[NB_PIN_SIZE])s->pins,
                         s->n_pins, s->n_pins > 0 ? NB_CA_PINNED : NB_CA_ALL_UNPINNED,
                         NB_DISCOVERY_FILE_UNACCEPTABLE, c->mismatch, &own, &selection, f);
        if (r < 0)
                return r;
        return nb_ca_select(c->pem, c->len, (const uint8_t(*)[NB_PIN_SIZE])selection.taken,
                            selection.n_taken, s->trust_whole_bundle ? NB_CA_ALL : NB_CA_PINNED,
                            c->malformed, c->mismatch, c->ret_pem, c->ret_selection, f);
}

/* Its CAs, and whether caCertHashes matches them, are known before any server is asked. */
static int verify_document(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                           struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ignored = NB_BUFFER_INIT(BUNDLE_MAX);
        const struct nb_cluster *document = &bootstrap->document;
        struct nb_ca_selection selection;

        return select_ca(&(struct nb_ca_request){ .bootstrap = bootstrap,
                                                  .settings = settings,
                                                  .pem = document->ca ? document->ca : "",
                                                  .len = document->ca ? document->ca_len : 0,
                                                  .malformed = NB_DISCOVERY_FILE_UNACCEPTABLE,
                                                  .mismatch = NB_CA_PIN_MISMATCH,
                                                  .ret_pem = &ignored,
                                                  .ret_selection = &selection },
                         f);
}

static const struct nb_url *get_server(const struct nb_bootstrap *bootstrap) {
        return &bootstrap->document.server;
}

/* Certificates that are not CAs, and those beyond the limit, are left out. */
static int identify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings,
                    struct nb_cluster_identity *ret_identity) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        struct nb_cluster_identity *identity = ret_identity;
        int r;

        if (settings->n_pins > 0)
                return nb_cluster_identity_by_pins(settings, identity);
        snprintf(identity->name, sizeof(identity->name), "the CA in %s",
                 bootstrap->discovery_source);
        if (!bootstrap->document.ca)
                return 0;
        r = nb_certificates_parse(bootstrap->document.ca, bootstrap->document.ca_len, false, &ca);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        for (size_t i = 0; i < nb_certificates_count(ca); i++)
                if (identity->n_pins < NB_SETTINGS_PINS_MAX && nb_certificate_is_ca(ca, i) &&
                    nb_certificate_pin(ca, i, identity->pins[identity->n_pins]) >= 0)
                        identity->n_pins++;
        return 0;
}

const struct nb_method nb_method_document = {
        .name = "file",
        .summary = "a kubeconfig on this machine",
        .object = "the kubeconfig",
        .verified = "the cluster is known from its document",
        .load = load_document,
        .verify = verify_document,
        .select_ca = select_ca,
        .origin = get_server,
        .identify = identify,
};

const struct nb_method nb_method_kubeconfig = {
        .name = "kubeconfig",
        .summary = "the bootstrap kubeconfig",
        .object = "the kubeconfig",
        .verified = "the cluster is known from the bootstrap kubeconfig",
        .load = load_kubeconfig,
        .verify = verify_document,
        .select_ca = select_ca,
        .origin = get_server,
        .identify = identify,
};
