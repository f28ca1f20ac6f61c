/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * By what the settings and credentials tell one cluster from another, whichever way it is discovered. Kept in the record
 * of a join, and compared at the next start.
 *
 *      discovery.caCertHashes      those, wherever they are set
 *      document                    the hashes of its own CAs
 *      /cacerts                    the hash that the token carries
 *
 * Nothing else is one: without pins, and with the CAs of the system, no setting says which cluster is meant.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/bootstrap.h"
#include "crypto/certificate.h"
#include "format/handoff.h"
#include "format/settings.h"

struct nb_anchors {
        bool is_k3s_hash; /* one, as of nb_ca_hash_k3s(); otherwise hashes of public keys */
        uint8_t pins[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];
        unsigned n_pins;
        char name[NB_IDENTITY_SOURCE_MAX + 32]; /* for people: "discovery.caCertHashes", "the CA in '/etc/...'" */
};

/* `bootstrap` may be NULL, where it could not be read: what is configured in plain remains. 0, -ENOMEM. */
int nb_anchors_take(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_anchors *ret_anchors);

/* Whether a record of a join has exactly these; false also where it has some of another kind. */
bool nb_anchors_are_recorded(const struct nb_anchors *anchors, const struct nb_record *record);

/* Whether a hash is among them. */
bool nb_anchors_has(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins, const uint8_t pin[static NB_PIN_SIZE]);

/* How the cluster is discovered, as it stands in the record. A document that is the bootstrap kubeconfig is one of its own. */
const char *nb_anchors_discovery(const struct nb_bootstrap *bootstrap);

/* Whether the hashes in a record are that of a k3s token. */
bool nb_anchors_are_of_k3s(const struct nb_record *record);
