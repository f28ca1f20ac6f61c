/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "method/cluster_identity.h"
#include "pki.h"

static struct nb_settings settings;

static void set_up(unsigned n_pins) {
        nb_settings_init(&settings);
        settings.n_pins = n_pins;
        for (unsigned i = 0; i < n_pins; i++)
                memset(settings.pins[i], (int)(0x10 + i), NB_PIN_SIZE);
}

static void configured_pins(void **state) {
        static const enum nb_method_id all[] = { NB_METHOD_NONE, NB_METHOD_TOKEN, NB_METHOD_URL,
                                                 NB_METHOD_DOCUMENT };
        struct nb_cluster_identity identity;

        set_up(2);
        for (size_t i = 0; i < N_ELEMENTS(all); i++) {
                struct nb_bootstrap bootstrap = { .method = all[i] };

                assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
                assert_int_equal(identity.n_pins, 2);
                assert_memory_equal(identity.pins, settings.pins, 2 * NB_PIN_SIZE);
                assert_false(identity.is_k3s_hash);
                assert_string_equal(identity.name, "discovery.caCertHashes");
        }
}

static void pins_when_nothing_could_be_loaded(void **state) {
        struct nb_cluster_identity identity;

        set_up(1);
        assert_int_equal(nb_cluster_identity_init(&identity, NULL, &settings), 0);
        assert_int_equal(identity.n_pins, 1);
}

static void cas_of_a_document(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        struct pki_cert leaf = pki_make(&(struct pki_options){ .dn = "CN=leaf", .issuer = &ca });
        struct pki_cert other = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        char *bundle = PKI_JOIN(ca.pem, leaf.pem, other.pem);
        struct nb_bootstrap bootstrap = { .method = NB_METHOD_DOCUMENT,
                                          .discovery_source = "'/etc/x.conf'" };
        struct nb_certificates *certificates = NULL;
        uint8_t pin[NB_SHA256_SIZE];
        struct nb_cluster_identity identity;

        set_up(0);
        bootstrap.origin.ca = bundle;
        bootstrap.origin.ca_len = strlen(bundle);
        assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
        assert_int_equal(identity.n_pins, 2);
        assert_string_equal(identity.name, "the CA in '/etc/x.conf'");
        assert_int_equal(nb_certificates_parse(bundle, strlen(bundle), false, &certificates), 0);
        for (size_t i = 0; i < 2; i++) {
                memcpy(pin, nb_certificate_pin(certificates, 2 * i), NB_SHA256_SIZE);
                assert_memory_equal(identity.pins[i], pin, NB_PIN_SIZE);
        }
        nb_certificates_free(certificates);

        bootstrap.origin.ca = NULL;
        assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
        assert_int_equal(identity.n_pins, 0);
        free(bundle);
        pki_done(&other);
        pki_done(&leaf);
        pki_done(&ca);
}

/* caCertHashes is ignored: the token's hash proves more. */
static void hash_of_a_token(void **state) {
        struct nb_bootstrap bootstrap = { .method = NB_METHOD_K3S, .has_hash = true };
        struct nb_cluster_identity identity;

        set_up(2);
        memset(bootstrap.hash, 0x77, sizeof(bootstrap.hash));
        assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
        assert_true(identity.is_k3s_hash);
        assert_int_equal(identity.n_pins, 1);
        assert_memory_equal(identity.pins[0], bootstrap.hash, NB_PIN_SIZE);
        bootstrap.has_hash = false;
        assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
        assert_int_equal(identity.n_pins, 0);
}

static void recorded(void **state) {
        struct nb_cluster_identity identity = { .n_pins = 2 };
        struct nb_record record = { .discovery = "token", .n_pins = 2 };

        memset(identity.pins[1], 1, NB_PIN_SIZE);
        memset(record.pins[0], 1, NB_PIN_SIZE);
        assert_true(nb_cluster_identity_is_recorded(&identity, &record)); /* in whatever order */
        record.n_pins = 1;
        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
        identity.n_pins = 1;
        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
}

/* Two hashes of different kinds with the same bytes. */
static void recorded_by_another_kind(void **state) {
        struct nb_cluster_identity identity = { .n_pins = 1 };
        struct nb_record record = { .discovery = "cacerts", .n_pins = 1 };

        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
        identity.is_k3s_hash = true;
        assert_true(nb_cluster_identity_is_recorded(&identity, &record));
        strcpy(record.discovery, "file");
        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
}

int main(void) {
        CASE(configured_pins);
        CASE(pins_when_nothing_could_be_loaded);
        CASE(cas_of_a_document);
        CASE(hash_of_a_token);
        CASE(recorded);
        CASE(recorded_by_another_kind);
        return case_run("install identity");
}
