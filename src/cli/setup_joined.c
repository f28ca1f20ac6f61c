/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/load.h"
#include "cli/setup_internal.h"
#include "crypto/certificate.h"
#include "crypto/digest.h"
#include "kube/k3s_token.h"
#include "method/cluster_identity.h"
#include "method/documents.h"
#include "state/handoff.h"

#define USER "CN=system:node:"
#define CA_FILE_MAX ((size_t)256 * 1024)

/* Whether kubelet has a certificate that has not expired. */
static bool has_credentials(const struct nb_settings *settings,
                            struct nb_installed_certificate *ret_certificate) {
        struct nb_failure ignored = { 0 };

        return access(settings->kubeconfig, F_OK) == 0 &&
               nb_installed_read_certificate(settings, ret_certificate, &ignored) >= 0 &&
               time(NULL) <= ret_certificate->not_after;
}

static bool is_node(const char *subject, const char *node_name) {
        const char *name = strstr(subject, USER);
        size_t len = strlen(node_name);

        name = name ? name + strlen(USER) : "";
        return strcspn(name, ",") == len && !strncmp(name, node_name, len);
}

/* Whether the settings that do not select the cluster are unchanged: another node name or socket is
 * an intended change. */
static bool is_unchanged(const struct nb_setup *setup, const struct nb_settings *now,
                         const char *subject) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer wanted = NB_BUFFER_INIT(
                                                                   NB_SETUP_VALUE_MAX),
                                                           found = NB_BUFFER_INIT(
                                                                   NB_SETUP_VALUE_MAX);
                enum nb_setting key = (enum nb_setting)i;

                if (!nb_setting_is_set(&setup->settings, key) || key == NB_SETTING_ENDPOINTS ||
                    key == NB_SETTING_CA_CERT_HASHES ||
                    key == NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION ||
                    (key == NB_SETTING_NODE_NAME && is_node(subject, setup->settings.node_name)))
                        continue;
                if (nb_setup_compare(&setup->settings, now, key, &wanted, &found) != 0)
                        return false;
        }
        return true;
}

static enum nb_setup_joined compare_pins(const struct nb_settings *wanted, const char *pem,
                                         size_t len) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        uint8_t pin[NB_SHA256_SIZE];

        if (nb_certificates_parse(pem, len, true, &ca) < 0)
                return NB_SETUP_NOT_JOINED;
        for (size_t i = 0; i < nb_certificates_count(ca); i++)
                if (nb_certificate_pin(ca, i, pin) >= 0 &&
                    nb_pins_contain(wanted->pins, wanted->n_pins, pin))
                        return NB_SETUP_JOINED;
        return NB_SETUP_JOINED_ANOTHER;
}

/* Compares the hash in a k3s token, which covers all CAs together. -ENODATA if there is none. The
 * CA file may hold only some of the CAs that were hashed, so a mismatch proves nothing. */
static int compare_k3s(const struct nb_secret *token, const char *pem, size_t len) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        uint8_t hash[NB_SHA256_SIZE];

        if (!nb_k3s_token_looks_like(token->data, token->len))
                return -ENODATA;
        if (nb_k3s_token_parse(token->data, token->len, "setup", &k3s) < 0)
                return NB_SETUP_NOT_JOINED;
        if (!k3s.has_hash)
                return -ENODATA;
        return nb_ca_hash_k3s(pem, len, hash) >= 0 && nb_digest_is_equal(hash, k3s.hash)
                       ? NB_SETUP_JOINED
                       : NB_SETUP_NOT_JOINED;
}

/* Without a hash, compares with the API server of the last join. Another server may still belong to
 * the same cluster. */
static enum nb_setup_joined compare_servers(const struct nb_settings *wanted,
                                            const struct nb_settings *now) {
        struct nb_record record = { 0 };
        struct nb_failure ignored = { 0 };
        struct nb_url endpoint;
        bool has_endpoint;

        if (wanted->n_endpoints == 0)
                return NB_SETUP_JOINED;
        if (nb_record_read(-1, now->certificate_directory, &record, &ignored) <= 0)
                return NB_SETUP_NOT_JOINED;
        has_endpoint = nb_endpoint_parse(record.endpoint, strlen(record.endpoint), &endpoint) >= 0;
        for (unsigned i = 0; i < wanted->n_endpoints; i++)
                if ((has_endpoint && nb_url_is_equal(&wanted->endpoints[i], &endpoint)) ||
                    nb_url_is_equal(&wanted->endpoints[i], &record.server))
                        return NB_SETUP_JOINED;
        return NB_SETUP_NOT_JOINED;
}

static enum nb_setup_joined compare(const struct nb_setup *setup, struct nb_sources *sources,
                                    const struct nb_settings *now) {
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        int r;

        if (nb_sources_read(sources, now->ca_file, CA_FILE_MAX, &ca, NULL) < 0)
                return NB_SETUP_NOT_JOINED;
        if (setup->settings.n_pins > 0)
                return compare_pins(&setup->settings, ca.data, ca.len);
        r = compare_k3s(&setup->secrets[NB_SETUP_TOKEN], ca.data, ca.len);
        return r >= 0 ? (enum nb_setup_joined)r : compare_servers(&setup->settings, now);
}

enum nb_setup_joined nb_setup_find_joined(const struct nb_setup *setup) {
        struct nb_installed_certificate certificate;
        struct nb_failure ignored = { 0 };
        enum nb_setup_joined joined;
        struct nb_settings now;
        struct nb_sources sources;

        /* A document that describes a cluster has no pins: nb_setup_plan() compares its text. */
        if (setup->root || !setup->secrets[NB_SETUP_TOKEN].data ||
            setup->secrets[NB_SETUP_KUBECONFIG].data || setup->secrets[NB_SETUP_CLUSTER_INFO].data)
                return NB_SETUP_NOT_JOINED;
        nb_sources_init(&sources, setup->config_directory);
        if (nb_documents_merge(&sources, NULL, NULL, &now, &ignored) < 0 ||
            !has_credentials(&now, &certificate))
                return NB_SETUP_NOT_JOINED;
        joined = compare(setup, &sources, &now);
        if (joined == NB_SETUP_JOINED &&
            (setup->is_forced || !is_unchanged(setup, &now, certificate.subject)))
                return NB_SETUP_NOT_JOINED;
        if (joined == NB_SETUP_JOINED)
                printf("already joined (%s); unchanged, the token was not written\n",
                       certificate.subject);
        if (joined == NB_SETUP_JOINED_ANOTHER)
                printf("this machine has joined another cluster (%s): the hash does not "
                       "match its CA in %s\n",
                       certificate.subject, now.ca_file);
        return joined;
}
