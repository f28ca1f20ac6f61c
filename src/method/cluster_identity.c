/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "method/cluster_identity.h"
#include "system/clock.h"

int nb_cluster_identity_by_pins(const struct nb_settings *settings,
                                struct nb_cluster_identity *ret_identity) {
        _Static_assert(sizeof(ret_identity->pins) == sizeof(settings->pins),
                       "as many places as the settings have");
        memcpy(ret_identity->pins, settings->pins, sizeof(ret_identity->pins));
        ret_identity->n_pins = settings->n_pins;
        snprintf(ret_identity->name, sizeof(ret_identity->name), "discovery.caCertHashes");
        return 0;
}

int nb_cluster_identity_init(struct nb_cluster_identity *ret_identity,
                             const struct nb_bootstrap *bootstrap,
                             const struct nb_settings *settings) {
        const struct nb_method *method = nb_method(bootstrap ? bootstrap->method : NB_METHOD_NONE);

        *ret_identity = (struct nb_cluster_identity){ 0 };
        if (method->identify)
                return method->identify(bootstrap, settings, ret_identity);
        return nb_cluster_identity_by_pins(settings, ret_identity);
}

bool nb_pins_contain(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                     const uint8_t pin[static NB_PIN_SIZE]) {
        for (unsigned i = 0; i < n_pins; i++)
                if (!memcmp(pins[i], pin, NB_PIN_SIZE))
                        return true;
        return false;
}

static bool is_subset(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                      const uint8_t (*of)[NB_PIN_SIZE], unsigned n_of) {
        for (unsigned i = 0; i < n_pins; i++)
                if (!nb_pins_contain(of, n_of, pins[i]))
                        return false;
        return true;
}

bool nb_record_has_k3s_hash(const struct nb_record *record) {
        return !strcmp(record->discovery, NB_CLUSTER_IDENTITY_K3S);
}

bool nb_record_is_by_supervisor(const struct nb_record *record) {
        return nb_record_has_k3s_hash(record) && !record->provenance.csr[0];
}

time_t nb_record_renewal(const struct nb_record *record, time_t not_after) {
        time_t begin = nb_time_parse(record->refreshed_at[0] ? record->refreshed_at
                                                             : record->joined_at);

        return not_after - (not_after - begin) / 3;
}

bool nb_pins_are_equal(const uint8_t (*a)[NB_PIN_SIZE], unsigned n_a,
                       const uint8_t (*b)[NB_PIN_SIZE], unsigned n_b) {
        return is_subset(a, n_a, b, n_b) && is_subset(b, n_b, a, n_a);
}

bool nb_cluster_identity_is_recorded(const struct nb_cluster_identity *identity,
                                     const struct nb_record *record) {
        return identity->is_k3s_hash == nb_record_has_k3s_hash(record) &&
               nb_pins_are_equal(identity->pins, identity->n_pins, record->pins, record->n_pins);
}
