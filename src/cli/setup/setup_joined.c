/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "crypto/certificate.h"
#include "files/record.h"
#include "kube/k3s_token.h"
#include "method/cluster_identity.h"

/* Whether the settings that do not select the cluster are unchanged: another node name or socket is
 * an intended change. */
static bool is_unchanged(const struct nb_setup *setup, const char *node_name) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                enum nb_setting key = i;

                if (!nb_setting_is_set(&setup->settings, key) || key == NB_SETTING_ENDPOINTS ||
                    key == NB_SETTING_CA_CERT_HASHES ||
                    key == NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION ||
                    (key == NB_SETTING_NODE_NAME && !strcmp(setup->settings.node_name, node_name)))
                        continue;
                if (!nb_setup_is_equal(&setup->settings, &setup->now, key))
                        return false;
        }
        return true;
}

static enum nb_setup_joined compare_pins(const struct nb_settings *wanted,
                                         const struct nb_certificates *ca) {
        for (size_t i = 0; i < nb_certificates_count(ca); i++)
                if (nb_pins_contain(wanted->pins, wanted->n_pins, nb_certificate_pin(ca, i)))
                        return NB_SETUP_JOINED;
        return NB_SETUP_JOINED_ANOTHER;
}

/* Without a hash, compares with the API server of the last join. */
static bool is_server_same(const struct nb_settings *wanted, const struct nb_present *present) {
        const struct nb_record *record = &present->record;
        struct nb_url endpoint;
        bool has_endpoint;

        if (wanted->n_endpoints == 0)
                return true;
        if (!present->has_record)
                return false;
        has_endpoint = nb_endpoint_parse(record->provenance.endpoint,
                                         strlen(record->provenance.endpoint), &endpoint) >= 0;
        for (unsigned i = 0; i < wanted->n_endpoints; i++)
                if ((has_endpoint && nb_url_is_equal(&wanted->endpoints[i], &endpoint)) ||
                    nb_url_is_equal(&wanted->endpoints[i], &record->server))
                        return true;
        return false;
}

/* A mismatch proves nothing in two cases: the hash in a k3s token covers all CAs together, and the
 * CA file may contain only some of them; and another server may belong to the same cluster. */
static enum nb_setup_joined compare_cluster(struct nb_setup *setup) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        const struct nb_secret *token = &setup->secrets[NB_CREDENTIAL_TOKEN];
        bool is_same;

        if (nb_sources_read(&setup->sources, setup->state.node.paths.ca_file, NB_CA_FILE_MAX, &pem,
                            NULL) < 0 ||
            nb_certificates_parse(pem.data, pem.len, true, &ca) < 0)
                return NB_SETUP_NOT_JOINED;
        if (setup->settings.n_pins > 0)
                return compare_pins(&setup->settings, ca);
        if (nb_k3s_token_parse(token->data, token->len, "setup", &k3s) >= 0 && k3s.has_hash)
                is_same = nb_ca_has_k3s_hash(ca, k3s.hash);
        else
                is_same = is_server_same(&setup->settings, &setup->state.node.present);
        return is_same ? NB_SETUP_JOINED : NB_SETUP_NOT_JOINED;
}

enum nb_setup_joined nb_setup_find_joined(struct nb_setup *setup) {
        const struct nb_machine_state *state = &setup->state;
        const struct nb_certificates *chain = state->node.present.chain;
        char subject[NB_SUBJECT_SIZE] = "", name[NB_CERTIFICATE_NODE_SIZE] = "";
        enum nb_setup_joined joined;

        /* A kubeconfig that describes a cluster has no pins: nb_setup_plan() compares its text. */
        if (setup->root || !setup->secrets[NB_CREDENTIAL_TOKEN].data ||
            setup->secrets[NB_CREDENTIAL_KUBECONFIG].data ||
            setup->secrets[NB_CREDENTIAL_CLUSTER_INFO].data ||
            (!chain && !state->node.present.has_record))
                return NB_SETUP_NOT_JOINED;
        if (chain) {
                nb_certificate_subject(chain, 0, subject);
                nb_certificate_node_name(chain, name);
        }
        joined = compare_cluster(setup);
        if (joined == NB_SETUP_JOINED_ANOTHER)
                printf("this machine has joined another cluster (%s): the hash does not "
                       "match its CA in %s\n",
                       subject, state->node.paths.ca_file);
        if (joined != NB_SETUP_JOINED)
                return joined;
        if (nb_machine_is_joining(state))
                return NB_SETUP_JOINED_BEFORE;
        if (setup->is_forced || !is_unchanged(setup, name))
                return NB_SETUP_NOT_JOINED;
        printf("already joined (%s); unchanged, the token was not written\n", subject);
        return joined;
}
