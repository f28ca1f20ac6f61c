/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "case.h"
#include "join_method/cluster_identity.h"
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

        set_up(1);
        bootstrap.origin.ca = bundle;
        bootstrap.origin.ca_len = strlen(bundle);
        assert_int_equal(nb_cluster_identity_init(&identity, &bootstrap, &settings), 0);
        assert_string_equal(identity.name, "discovery.caCertHashes");
        set_up(0);
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
        struct nb_record record = { .join_method = "token", .n_pins = 2 };

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
        struct nb_record record = { .join_method = "cacerts", .n_pins = 1 };

        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
        identity.is_k3s_hash = true;
        assert_true(nb_cluster_identity_is_recorded(&identity, &record));
        strcpy(record.join_method, "file");
        assert_false(nb_cluster_identity_is_recorded(&identity, &record));
}

/* Of which methods, and which records, a supervisor of k3s renews the certificate. */
static void who_renews(void **state) {
        static const struct {
                const char *discovery, *csr;
                bool has_k3s_hash, is_by_supervisor;
        } rows[] = {
                { "cacerts", "", true, true },
                { "cacerts", "node-csr-x", true, false },
                { "token", "node-csr-x", false, false },
                { "token", "", false, false },
                { "", "", false, false },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_record record = { 0 };

                (void)strcpy(record.join_method, rows[i].discovery);
                (void)strcpy(record.provenance.csr, rows[i].csr);
                assert_int_equal(nb_record_has_k3s_hash(&record), rows[i].has_k3s_hash);
                assert_int_equal(nb_record_is_by_supervisor(&record), rows[i].is_by_supervisor);
        }
}

/* When a third of its life is left, from the last renewal, or from the join. */
static void when_it_is_renewed(void **state) {
        struct nb_record record = { .joined_at = "2027-01-15T08:00:00Z" };

        assert_int_equal(nb_record_renewal(&record, PKI_NOW + 30 * PKI_DAY),
                         PKI_NOW + 20 * PKI_DAY);
        (void)strcpy(record.refreshed_at, "2027-01-18T08:00:00Z");
        assert_int_equal(nb_record_renewal(&record, PKI_NOW + 30 * PKI_DAY),
                         PKI_NOW + 21 * PKI_DAY);
}

static void pins_are_found(void **state) {
        uint8_t pins[3][NB_PIN_SIZE] = { { 1 }, { 2 }, { 3 } };

        assert_true(nb_pins_contain(pins, 3, (const uint8_t[NB_PIN_SIZE]){ 3 }));
        assert_false(nb_pins_contain(pins, 2, (const uint8_t[NB_PIN_SIZE]){ 3 }));
        assert_false(nb_pins_contain(pins, 3, (const uint8_t[NB_PIN_SIZE]){ 3, 1 }));
        assert_false(nb_pins_contain(pins, 0, pins[0]));
        assert_true(nb_pins_are_in(pins + 1, 2, pins, 3));
        assert_false(nb_pins_are_in(pins, 3, pins + 1, 2));
        assert_true(nb_pins_are_in(pins, 0, pins, 0));
}

static void pins_of_a_ca(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        _cleanup_(nb_certificates_freep) struct nb_certificates *cas = NULL;
        uint8_t pins[2][NB_PIN_SIZE] = { { 1 } };

        assert_int_equal(nb_certificates_parse(ca.pem, strlen(ca.pem), true, &cas), 0);
        assert_false(nb_ca_has_pin(cas, pins, 2));
        memcpy(pins[1], nb_certificate_pin(cas, 0), NB_PIN_SIZE);
        assert_true(nb_ca_has_pin(cas, pins, 2));
        assert_false(nb_ca_has_pin(cas, pins, 1));
        pki_done(&ca);
}

int main(void) {
        CASE(configured_pins);
        CASE(pins_when_nothing_could_be_loaded);
        CASE(cas_of_a_document);
        CASE(hash_of_a_token);
        CASE(recorded);
        CASE(recorded_by_another_kind);
        CASE(who_renews);
        CASE(when_it_is_renewed);
        CASE(pins_are_found);
        CASE(pins_of_a_ca);
        return case_run("install identity");
}
