/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The hashes by which settings and credentials identify a cluster. The record of a join contains
 * them, and the next start compares them.
 *
 *      discovery.caCertHashes      with any method but k3s
 *      document, kubeconfig        without caCertHashes: the hashes of its own CAs
 *      k3s                         the hash in the token
 *
 * Without any of these, and with the system's CAs, no setting identifies the cluster.
 */

#include <stdbool.h>
#include <stdint.h>

#include "join_method/method.h"
#include "settings/settings.h"
#include "state_files/record.h"

#define NB_CLUSTER_IDENTITY_K3S "cacerts" /* the name of the method in a record */

struct nb_cluster_identity {
        bool is_k3s_hash; /* the hash in a k3s token; otherwise hashes of public keys */
        uint8_t pins[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];
        unsigned n_pins;
        char name[NB_IDENTITY_SOURCE_MAX + 32]; /* "discovery.caCertHashes", "the CA in '/etc/x'" */
};

/* If `bootstrap` is NULL because it could not be loaded, uses only the settings. 0, -ENOMEM. */
int nb_cluster_identity_init(struct nb_cluster_identity *ret_identity,
                             const struct nb_bootstrap *bootstrap,
                             const struct nb_settings *settings);

/* Whether a record has exactly these hashes, of the same kind. */
bool nb_cluster_identity_is_recorded(const struct nb_cluster_identity *identity,
                                     const struct nb_record *record);

/* Whether the hash in a record is that of a k3s token. */
bool nb_record_has_k3s_hash(const struct nb_record *record);

/*
 * Whether kubelet's certificate comes from a supervisor of k3s, which also renews it: k3s does not
 * authorize nodes to renew their certificates themselves.
 */
bool nb_record_is_by_supervisor(const struct nb_record *record);

/*
 * The time at which a third of the life of such a certificate is left, and refresh renews it. Its
 * life begins when it was issued, not at its notBefore, which k3s copies from its CA.
 */
time_t nb_record_renewal(const struct nb_record *record, time_t not_after);

bool nb_pins_contain(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                     const uint8_t pin[static NB_PIN_SIZE]);

/* Whether each of the pins is one of the others. */
bool nb_pins_are_in(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins,
                    const uint8_t (*of)[NB_PIN_SIZE], unsigned n_of);

/* Whether one of the pins is that of one of the CAs. */
bool nb_ca_has_pin(const struct nb_certificates *ca, const uint8_t (*pins)[NB_PIN_SIZE],
                   unsigned n_pins);
