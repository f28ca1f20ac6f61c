/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "install/anchors.h"

#define RECORDED_K3S "cacerts"

static void take_configured(const struct nb_settings *settings, struct nb_anchors *anchors) {
        _Static_assert(sizeof(anchors->pins) == sizeof(settings->pins), "as many places as the settings have");
        memcpy(anchors->pins, settings->pins, sizeof(anchors->pins));
        anchors->n_pins = settings->n_pins;
        (void)snprintf(anchors->name, sizeof(anchors->name), "discovery.caCertHashes");
}

/* Certificates beside the CAs, and more than have a place, tell nothing: those that are taken do. */
static int take_document(const struct nb_bootstrap *bootstrap, struct nb_anchors *anchors) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        int r;

        (void)snprintf(anchors->name, sizeof(anchors->name), "the CA in %s", bootstrap->discovery_source);
        if (!bootstrap->document.ca)
                return 0;
        r = nb_certificates_parse(bootstrap->document.ca, bootstrap->document.ca_len, false, &ca);
        if (r < 0)
                return r == -ENOMEM ? r : 0;
        for (size_t i = 0; i < nb_certificates_count(ca) && anchors->n_pins < NB_SETTINGS_PINS_MAX; i++)
                if (nb_certificate_is_ca(ca, i) && nb_certificate_pin(ca, i, anchors->pins[anchors->n_pins]) >= 0)
                        anchors->n_pins++;
        return 0;
}

static void take_hash(const struct nb_bootstrap *bootstrap, struct nb_anchors *anchors) {
        (void)snprintf(anchors->name, sizeof(anchors->name), "the hash in the token");
        anchors->is_k3s_hash = true;
        if (!bootstrap->has_hash)
                return;
        memcpy(anchors->pins[0], bootstrap->hash, NB_PIN_SIZE);
        anchors->n_pins = 1;
}

int nb_anchors_take(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_anchors *ret_anchors) {
        struct nb_anchors anchors = { 0 };
        int r = 0;

        if (bootstrap && bootstrap->discovery == NB_DISCOVERY_CACERTS)
                take_hash(bootstrap, &anchors);
        else if (bootstrap && bootstrap->discovery == NB_DISCOVERY_DOCUMENT && settings->n_pins == 0)
                r = take_document(bootstrap, &anchors);
        else
                take_configured(settings, &anchors);
        if (r < 0)
                return r;
        *ret_anchors = anchors;
        return 0;
}

const char *nb_anchors_discovery(const struct nb_bootstrap *bootstrap) {
        static const char *const names[_NB_DISCOVERY_N] = {
                [NB_DISCOVERY_NONE] = "",
                [NB_DISCOVERY_TOKEN] = "token",
                [NB_DISCOVERY_DOCUMENT] = "file",
                [NB_DISCOVERY_URL] = "url",
                [NB_DISCOVERY_CACERTS] = RECORDED_K3S,
        };

        if (bootstrap->discovery == NB_DISCOVERY_DOCUMENT && !strcmp(bootstrap->discovery_source, bootstrap->identity.source))
                return "kubeconfig";
        return names[bootstrap->discovery];
}

bool nb_anchors_are_of_k3s(const struct nb_record *record) {
        return !strcmp(record->discovery, RECORDED_K3S);
}

bool nb_anchors_has(const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins, const uint8_t pin[static NB_PIN_SIZE]) {
        for (unsigned i = 0; i < n_pins; i++)
                if (nb_digest_is_equal(pins[i], pin))
                        return true;
        return false;
}

bool nb_anchors_are_recorded(const struct nb_anchors *anchors, const struct nb_record *record) {
        if (anchors->is_k3s_hash != nb_anchors_are_of_k3s(record))
                return false;
        for (unsigned i = 0; i < anchors->n_pins; i++)
                if (!nb_anchors_has((const uint8_t(*)[NB_PIN_SIZE])record->pins, record->n_pins, anchors->pins[i]))
                        return false;
        for (unsigned i = 0; i < record->n_pins; i++)
                if (!nb_anchors_has((const uint8_t(*)[NB_PIN_SIZE])anchors->pins, anchors->n_pins, record->pins[i]))
                        return false;
        return true;
}
