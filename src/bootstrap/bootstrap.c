/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/sources.h"
#include "bootstrap/credentials.h"

#define URL_CA_MAX (256 * 1024)

/* Everything that may be there, before it is decided what it means. */
struct given {
        struct nb_given_tokens tokens;
        struct nb_cluster document;
        char document_source[NB_IDENTITY_SOURCE_MAX + 1];
        bool has_document;
        struct nb_cluster kubeconfig;
        struct nb_identity identity;
        char kubeconfig_source[NB_IDENTITY_SOURCE_MAX + 1];
        bool has_kubeconfig;
};

static void given_done(struct given *given) {
        nb_given_tokens_done(&given->tokens);
        nb_cluster_done(&given->document);
        nb_cluster_done(&given->kubeconfig);
        nb_identity_done(&given->identity);
}

static int read_given(const struct nb_settings *settings, struct given *given, struct nb_failure *f) {
        int r;

        r = nb_given_tokens_read(settings, &given->tokens, f);
        if (r < 0)
                return r;
        r = nb_given_document_read(settings, &given->document, given->document_source, f);
        if (r < 0)
                return r;
        given->has_document = r > 0;
        r = nb_given_kubeconfig_read(settings, &given->kubeconfig, &given->identity, given->kubeconfig_source, f);
        if (r < 0)
                return r;
        given->has_kubeconfig = r > 0;
        return 0;
}

static int read_url_ca(const struct nb_settings *settings, struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        int r;

        if (!settings->url_ca_file[0])
                return 0;
        r = nb_sources_read(settings->url_ca_file, URL_CA_MAX, &pem, NULL);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_DISCOVERY_FILE_UNREADABLE, -r, "discovery.urlCAFile: '%s' cannot be read: %m", settings->url_ca_file);
        }
        bootstrap->url_ca = strndup(pem.data, pem.len);
        bootstrap->url_ca_len = pem.len;
        return bootstrap->url_ca ? 0 : nb_failure_set_memory(f);
}

/* A key of its own, so that nobody has to guess which of the two was meant. */
static int verify_exclusive(const struct nb_settings *settings, const struct given *given, struct nb_failure *f) {
        if (settings->n_endpoints == 0)
                return 0;
        if (given->has_document && settings->discovery_file[0] != '/')
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0, "expected discovery.endpoints or a discovery file, found both: discovery.endpoints in %s, and %s",
                                      settings->origin[NB_SETTING_ENDPOINTS], given->document_source);
        if (settings->discovery_file[0])
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected discovery.endpoints or discovery.file, found both: discovery.endpoints in %s, and discovery.file in %s",
                                      settings->origin[NB_SETTING_ENDPOINTS], settings->origin[NB_SETTING_DISCOVERY_FILE]);
        return 0;
}

static void take_document(struct nb_bootstrap *bootstrap, struct nb_cluster *document, const char *source) {
        bootstrap->discovery = NB_DISCOVERY_DOCUMENT;
        bootstrap->document = *document;
        *document = (struct nb_cluster){ 0 };
        (void)snprintf(bootstrap->discovery_source, sizeof(bootstrap->discovery_source), "%s", source);
}

static int choose_discovery(const struct nb_settings *settings, struct given *given, struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        struct nb_given_tokens *tokens = &given->tokens;

        if (given->has_document)
                take_document(bootstrap, &given->document, given->document_source);
        else if (settings->discovery_file[0]) {
                bootstrap->discovery = NB_DISCOVERY_URL;
                (void)snprintf(bootstrap->discovery_source, sizeof(bootstrap->discovery_source), "%.*s", NB_IDENTITY_SOURCE_MAX, settings->discovery_file);
                if (nb_url_parse(settings->discovery_file, strlen(settings->discovery_file), &bootstrap->url) < 0)
                        return nb_failure_set(f, NB_SETTINGS_INVALID, 0, "discovery.file: expected an absolute path or an https URL");
                return read_url_ca(settings, bootstrap, f);
        } else if (tokens->k3s.identity.kind != NB_IDENTITY_NONE || settings->cluster_type == NB_CLUSTER_TYPE_K3S) {
                bootstrap->discovery = NB_DISCOVERY_CACERTS;
                bootstrap->has_hash = tokens->k3s.has_hash;
                memcpy(bootstrap->hash, tokens->k3s.hash, sizeof(bootstrap->hash));
                (void)snprintf(bootstrap->discovery_source, sizeof(bootstrap->discovery_source), "%s", tokens->source);
        } else if (settings->n_endpoints > 0) {
                bootstrap->discovery = NB_DISCOVERY_TOKEN;
                (void)snprintf(bootstrap->discovery_source, sizeof(bootstrap->discovery_source), "%s", tokens->source);
        } else if (given->has_kubeconfig)
                take_document(bootstrap, &given->kubeconfig, given->kubeconfig_source);
        return 0;
}

static void take_identity(struct nb_identity *ret, struct nb_identity *identity) {
        *ret = *identity;
        *identity = (struct nb_identity)NB_IDENTITY_INIT;
}

static int choose_identity(struct given *given, struct nb_bootstrap *bootstrap) {
        struct nb_given_tokens *tokens = &given->tokens;

        if (given->has_kubeconfig)
                take_identity(&bootstrap->identity, &given->identity);
        else if (tokens->tls_bootstrap.kind != NB_IDENTITY_NONE)
                take_identity(&bootstrap->identity, &tokens->tls_bootstrap);
        else if (tokens->k3s.identity.kind != NB_IDENTITY_NONE)
                take_identity(&bootstrap->identity, &tokens->k3s.identity);
        else if (tokens->discovery.value.data)
                return nb_identity_set_token(&bootstrap->identity, tokens->discovery.value.data, tokens->discovery.value.len, tokens->source);
        return 0;
}

/* k3s is recognised by how the cluster is discovered, unless the settings say what it is. */
static enum nb_issuer choose_issuer(const struct nb_settings *settings, const struct nb_bootstrap *bootstrap) {
        if (settings->cluster_type == NB_CLUSTER_TYPE_K3S)
                return NB_ISSUER_SUPERVISOR;
        if (settings->cluster_type == NB_CLUSTER_TYPE_AUTO && bootstrap->discovery == NB_DISCOVERY_CACERTS)
                return NB_ISSUER_SUPERVISOR;
        return NB_ISSUER_CSR;
}

/*
 * The hash in a token of k3s says which cluster is meant, and a supervisor gets its credentials at the endpoints that were held
 * against it: beside another way to discover the cluster neither would hold.
 */
static int verify_k3s(const struct nb_settings *settings, const struct given *given, const struct nb_bootstrap *bootstrap,
                      struct nb_failure *f) {
        if (bootstrap->discovery != NB_DISCOVERY_DOCUMENT && bootstrap->discovery != NB_DISCOVERY_URL)
                return 0;
        if (given->tokens.k3s.has_hash)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected a token with the hash of the cluster's CA or a discovery file, found both: %s, and %s",
                                      given->tokens.source, bootstrap->discovery_source);
        if (bootstrap->issuer == NB_ISSUER_SUPERVISOR)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected cluster.type: k3s or a discovery file, found both: cluster.type in %s, and %s; a supervisor is found "
                                      "by discovery.endpoints",
                                      settings->origin[NB_SETTING_CLUSTER_TYPE], bootstrap->discovery_source);
        return 0;
}

static int load(const struct nb_settings *settings, struct given *given, struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        int r;

        r = read_given(settings, given, f);
        if (r >= 0)
                r = verify_exclusive(settings, given, f);
        if (r >= 0)
                r = choose_discovery(settings, given, bootstrap, f);
        if (r < 0)
                return r;
        if (choose_identity(given, bootstrap) < 0)
                return nb_failure_set_memory(f);
        if (bootstrap->discovery == NB_DISCOVERY_TOKEN) {
                bootstrap->token = given->tokens.discovery;
                given->tokens.discovery = (struct nb_token){ .value = NB_SECRET_INIT };
        }
        bootstrap->issuer = choose_issuer(settings, bootstrap);
        r = verify_k3s(settings, given, bootstrap, f);
        if (r < 0)
                return r;
        return bootstrap->issuer == NB_ISSUER_SUPERVISOR ? nb_given_k3s_node_read(settings, bootstrap, f) : 0;
}

int nb_bootstrap_load(const struct nb_settings *settings, struct nb_bootstrap *ret_bootstrap, struct nb_failure *f) {
        struct nb_bootstrap bootstrap = {
                .token = { .value = NB_SECRET_INIT }, .identity = NB_IDENTITY_INIT, .previous = NB_IDENTITY_INIT
        };
        _cleanup_(given_done) struct given given = { .identity = NB_IDENTITY_INIT };
        int r;

        r = load(settings, &given, &bootstrap, f);
        if (r < 0) {
                nb_bootstrap_done(&bootstrap);
                return r;
        }
        *ret_bootstrap = bootstrap;
        return 0;
}

bool nb_bootstrap_wants_metadata(const struct nb_settings *settings, const struct nb_bootstrap *bootstrap) {
        return settings->metadata_provider != NB_PROVIDER_NONE && bootstrap->identity.kind == NB_IDENTITY_NONE;
}

static int incomplete(const char *what, struct nb_failure *f) {
        return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0, "%s", what);
}

static int verify_discovery(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f) {
        bool is_proven = settings->unsafe_skip_ca_verification;

        switch (bootstrap->discovery) {
        case NB_DISCOVERY_NONE:
                return incomplete("discovery.endpoints: expected at least one HOST:PORT, or discovery.file, or a bootstrap kubeconfig; found none", f);
        case NB_DISCOVERY_TOKEN:
                if (settings->n_pins > 0 || is_proven)
                        return 0;
                return incomplete("discovery.caCertHashes: expected at least one hash of the cluster's CA, or "
                                  "discovery.unsafeSkipCAVerification: true; found neither",
                                  f);
        case NB_DISCOVERY_CACERTS:
                if (settings->n_endpoints == 0)
                        return incomplete("discovery.endpoints: expected at least one HOST:PORT of a k3s or RKE2 server, found none", f);
                if (bootstrap->has_hash || is_proven || bootstrap->identity.kind == NB_IDENTITY_NONE)
                        return 0;
                return incomplete("the token carries no hash of the cluster's CA: expected K10 and 64 hex digits before '::', or "
                                  "discovery.unsafeSkipCAVerification: true; found neither",
                                  f);
        case NB_DISCOVERY_DOCUMENT:
        case NB_DISCOVERY_URL:
        case _NB_DISCOVERY_N:
        default:
                return 0;
        }
}

int nb_bootstrap_verify(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, struct nb_failure *f) {
        int r;

        r = verify_discovery(bootstrap, settings, f);
        if (r < 0)
                return r;
        if (bootstrap->discovery == NB_DISCOVERY_TOKEN && !bootstrap->token.value.data)
                return nb_failure_set(f, NB_TOKEN_MISSING, ENOENT, "there is no credential '" NB_CREDENTIAL_TOKEN "'%s",
                                      bootstrap->identity.kind == NB_IDENTITY_NONE ? "" : ", which discovery by endpoints needs; with a bootstrap kubeconfig alone, leave discovery.endpoints out");
        if (bootstrap->identity.kind == NB_IDENTITY_PASSWORD && bootstrap->issuer != NB_ISSUER_SUPERVISOR)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "cluster.type: expected k3s with a token of user and password, found kubernetes (%s): the API server takes no passwords",
                                      settings->origin[NB_SETTING_CLUSTER_TYPE]);
        if (bootstrap->identity.kind == NB_IDENTITY_CERTIFICATE)
                return nb_client_certificate_verify(&bootstrap->identity, f);
        if (bootstrap->identity.kind != NB_IDENTITY_NONE)
                return 0;
        /* A node of k3s that joins anew shows its certificate; the cluster is known by the hash in a token, though. */
        return nb_failure_set(f, NB_TOKEN_MISSING, ENOENT,
                              "there is no credential '" NB_CREDENTIAL_TOKEN "', '" NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN "' or '" NB_CREDENTIAL_KUBECONFIG
                              "', and no bootstrap.kubeconfig");
}

void nb_bootstrap_done(struct nb_bootstrap *bootstrap) {
        nb_token_done(&bootstrap->token);
        nb_cluster_done(&bootstrap->document);
        free(bootstrap->url_ca);
        nb_identity_done(&bootstrap->identity);
        nb_identity_done(&bootstrap->previous);
        explicit_bzero(bootstrap->node_password, sizeof(bootstrap->node_password));
        *bootstrap = (struct nb_bootstrap){ .token = { .value = NB_SECRET_INIT }, .identity = NB_IDENTITY_INIT, .previous = NB_IDENTITY_INIT };
}
