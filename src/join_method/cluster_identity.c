/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "join_method/cluster_identity.h"
#include "os/clock.h"

int nb_cluster_identity_init(struct nb_cluster_identity *ret_identity,
                             const struct nb_bootstrap *bootstrap,
                             const struct nb_settings *settings) {
        const struct nb_method *method = nb_method(bootstrap ? bootstrap->method : NB_METHOD_NONE);

        _Static_assert(sizeof(ret_identity->pins) == sizeof(settings->pins),
                       "as many places as the settings have");
        *ret_identity = (struct nb_cluster_identity){ .n_pins = settings->n_pins,
                                                      .name = "discovery.caCertHashes" };
        memcpy(ret_identity->pins, settings->pins, sizeof(ret_identity->pins));
        return method->identify ? method->identify(bootstrap, settings, ret_identity) : 0;
}

bool nb_pins_contain(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                     const uint8_t pin[static NB_PIN_SIZE]) {
        for (unsigned i = 0; i < n_pins; i++)
                if (!memcmp(pins[i], pin, NB_PIN_SIZE))
                        return true;
        return false;
}

bool nb_pins_are_in(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                    const uint8_t (*of)[NB_PIN_SIZE], unsigned n_of) {
        for (unsigned i = 0; i < n_pins; i++)
                if (!nb_pins_contain(of, n_of, pins[i]))
                        return false;
        return true;
}

bool nb_ca_has_pin(const struct nb_certificates *ca, const uint8_t (*pins)[NB_PIN_SIZE],
                   unsigned n_pins) {
        for (size_t i = 0; i < nb_certificates_count(ca); i++)
                if (nb_pins_contain(pins, n_pins, nb_certificate_pin(ca, i)))
                        return true;
        return false;
}

bool nb_record_has_k3s_hash(const struct nb_record *record) {
        return !strcmp(record->join_method, NB_CLUSTER_IDENTITY_K3S);
}

bool nb_record_is_by_supervisor(const struct nb_record *record) {
        return nb_record_has_k3s_hash(record) && !record->provenance.csr[0];
}

time_t nb_record_renewal(const struct nb_record *record, time_t not_after) {
        time_t begin = nb_time_parse(record->refreshed_at[0] ? record->refreshed_at
                                                             : record->joined_at);

        return not_after - (not_after - begin) / 3;
}

bool nb_cluster_identity_is_recorded(const struct nb_cluster_identity *identity,
                                     const struct nb_record *record) {
        return identity->is_k3s_hash == nb_record_has_k3s_hash(record) &&
               nb_pins_are_in(identity->pins, identity->n_pins, record->pins, record->n_pins) &&
               nb_pins_are_in(record->pins, record->n_pins, identity->pins, identity->n_pins);
}
