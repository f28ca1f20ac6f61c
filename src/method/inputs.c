/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "method/inputs.h"

/* A token in ciphertext has some hundred bytes. */
#define TOKEN_FILE_MAX 4096
#define NAMED_FILE_MAX (256 * 1024) /* bytes of a file that a kubeconfig refers to */

/* --- Tokens --- */

/* A token's text, wherever it comes from. */
struct token_text {
        struct nb_secret own; /* of a credential */
        const struct nb_secret *text;
        const char *source;                     /* "credential 'node-bootstrap.token'" */
        char credential[64];                    /* what `source` points to, for a credential */
        char what[NB_IDENTITY_SOURCE_MAX + 16]; /* for messages */
};

static void token_text_done(struct token_text *text) {
        nb_secret_done(&text->own);
}

static void trim_token(struct nb_secret *text, const char *name) {
        size_t len = nb_token_trim(text->data, text->len);

        if (text->len - len > 1)
                nb_log(LOG_WARNING, NB_NONE,
                       "the credential '%s' ends with more than one newline, or with CRLF; "
                       "ignoring them",
                       name);
        text->data[len] = '\0';
        text->len = len;
}

/* The credential, or else what the settings contain. 1: found; 0: there is none. */
static int find_token(struct nb_sources *sources, const char *name, const struct nb_secret *setting,
                      const char *origin, struct token_text *ret, struct nb_failure *f) {
        int r;

        r = nb_sources_credential(sources, name, TOKEN_FILE_MAX, &ret->own, f);
        if (r >= 0) {
                trim_token(&ret->own, name);
                ret->text = &ret->own;
                snprintf(ret->credential, sizeof(ret->credential), "credential '%s'", name);
                ret->source = ret->credential;
                snprintf(ret->what, sizeof(ret->what), "%s", ret->source);
                return 1;
        }
        if (r != -ENOENT || f->code != NB_NONE)
                return r;
        if (!setting->data)
                return 0;
        ret->text = setting;
        ret->source = origin;
        snprintf(ret->what, sizeof(ret->what), "token in %s", origin);
        return 1;
}

static int refuse_token(const struct token_text *token, int r, struct nb_failure *f) {
        const char *data = token->text->data;
        size_t len = token->text->len;
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (r == -EBADMSG)
                return nb_failure_set(f, NB_TOKEN_ENCRYPTED, r,
                                      "the %s (%zu bytes) is still encrypted", token->what, len);
        if (r != -EINVAL)
                return nb_failure_set_memory(f);
        nb_any_token_find_flaw(data, len, flaw);
        return nb_failure_set(f, NB_TOKEN_MALFORMED, r, "the %s (%zu bytes) %s: %s", token->what,
                              len,
                              nb_k3s_token_looks_like(data, len)
                                      ? "begins as a token of k3s, and is not of the form K10<64 "
                                        "hex digits>::<id>.<secret> or K10<64 hex "
                                        "digits>::<user>:<password>"
                                      : "is not of the form xxxxxx.yyyyyyyyyyyyyyyy with a-z and "
                                        "0-9",
                              flaw);
}

/* A bootstrap token, or one of k3s. */
static int read_token(const struct nb_settings_tokens *settings, struct nb_inputs *inputs,
                      struct nb_failure *f) {
        _cleanup_(token_text_done) struct token_text token = { .own = NB_SECRET_INIT };
        int r;

        r = find_token(inputs->sources, NB_CREDENTIAL_TOKEN, &settings->discovery,
                       settings->discovery_origin, &token, f);
        if (r <= 0)
                return r;
        snprintf(inputs->token_source, sizeof(inputs->token_source), "%s", token.source);
        if (nb_k3s_token_looks_like(token.text->data, token.text->len)) {
                inputs->has_k3s_token = true;
                r = nb_k3s_token_parse(token.text->data, token.text->len, token.source,
                                       &inputs->k3s);
                return r < 0 ? refuse_token(&token, r, f) : 0;
        }
        r = nb_token_parse(token.text->data, token.text->len, &inputs->token);
        return r < 0 ? refuse_token(&token, r, f) : 0;
}

static int read_tls_bootstrap(const struct nb_settings_tokens *settings, struct nb_inputs *inputs,
                              struct nb_failure *f) {
        _cleanup_(token_text_done) struct token_text text = { .own = NB_SECRET_INIT };
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };
        int r;

        r = find_token(inputs->sources, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN, &settings->tls_bootstrap,
                       settings->tls_bootstrap_origin, &text, f);
        if (r <= 0)
                return r;
        r = nb_token_parse(text.text->data, text.text->len, &token);
        if (r < 0)
                return refuse_token(&text, r, f);
        r = nb_identity_set_token(&inputs->tls_bootstrap, token.value.data, token.value.len,
                                  text.source);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

/* --- Kubeconfigs --- */

struct kubeconfig {
        const char *credential;
        const char *path; /* in the settings; "" for none */
        const struct nb_kubeconfig_policy *policy;
};

static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        return nb_sources_read(userdata, path, NAMED_FILE_MAX, ret, NULL);
}

static int read_path(struct nb_sources *sources, const struct kubeconfig *kubeconfig,
                     struct nb_secret *ret_text, struct nb_failure *f) {
        struct stat st;
        int r;

        r = nb_sources_read(sources, kubeconfig->path, NB_KUBECONFIG_MAX, ret_text, &st);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EFBIG)
                return nb_failure_set(f, kubeconfig->policy->unacceptable, r,
                                      "'%s' is larger than %d bytes", kubeconfig->path,
                                      NB_KUBECONFIG_MAX);
        if (r == -EBADF)
                return nb_failure_set(f, kubeconfig->policy->unreadable, r,
                                      "'%s' is not a regular file", kubeconfig->path);
        if (r < 0)
                return nb_failure_set(f, kubeconfig->policy->unreadable, r,
                                      "'%s' cannot be read: %m", kubeconfig->path);
        if (kubeconfig->policy->users == NB_KUBECONFIG_USERS_CURRENT && (st.st_mode & 0007))
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "'%s' has mode %04o; expected no access for others",
                                      kubeconfig->path, st.st_mode & 07777);
        return 0;
}

/* 1: read; 0: there is none. */
static int read_kubeconfig(struct nb_sources *sources, const struct kubeconfig *kubeconfig,
                           struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                           char ret_source[static NB_IDENTITY_SOURCE_MAX + 1],
                           struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX] = "", source[NB_IDENTITY_SOURCE_MAX + 1];
        const char *name;
        int r;

        snprintf(source, sizeof(source), "credential '%s'", kubeconfig->credential);
        r = nb_sources_credential(sources, kubeconfig->credential, NB_KUBECONFIG_MAX, &text, f);
        if (r == -ENOENT && f->code == NB_NONE) {
                if (!kubeconfig->path[0])
                        return 0;
                snprintf(source, sizeof(source), "'%s'", kubeconfig->path);
                r = read_path(sources, kubeconfig, &text, f);
                if (r >= 0)
                        r = nb_path_split(kubeconfig->path, folder, sizeof(folder), &name);
        }
        if (r < 0)
                return r;
        r = nb_kubeconfig_parse(kubeconfig->policy,
                                &(struct nb_kubeconfig_input){
                                        .origin = source,
                                        .text = text.data,
                                        .len = text.len,
                                        .read = read_named,
                                        .userdata = sources,
                                        .folder = folder[0] ? folder : NULL,
                                },
                                ret_cluster, ret_identity, f);
        if (r < 0)
                return r;
        memcpy(ret_source, source, sizeof(source));
        return 1;
}

int nb_inputs_read_document(const struct nb_inputs *inputs, struct nb_cluster *ret_cluster,
                            char ret_source[static NB_IDENTITY_SOURCE_MAX + 1],
                            struct nb_failure *f) {
        const char *path = inputs->settings->discovery_file;
        const struct kubeconfig document = { NB_CREDENTIAL_CLUSTER_INFO, path[0] == '/' ? path : "",
                                             &nb_kubeconfig_discovery_file };

        return read_kubeconfig(inputs->sources, &document, ret_cluster, NULL, ret_source, f);
}

/* --- All of them --- */

int nb_inputs_read(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_inputs *inputs, struct nb_failure *f) {
        static const struct nb_settings_tokens no_tokens;
        const struct nb_settings_tokens *tokens = settings->tokens ? settings->tokens : &no_tokens;
        const struct kubeconfig kubeconfig = { NB_CREDENTIAL_KUBECONFIG,
                                               settings->bootstrap_kubeconfig,
                                               &nb_kubeconfig_bootstrap };
        int r;

        inputs->sources = sources;
        inputs->settings = settings;
        r = read_token(tokens, inputs, f);
        if (r < 0)
                return r;
        r = read_tls_bootstrap(tokens, inputs, f);
        if (r < 0)
                return r;
        r = read_kubeconfig(sources, &kubeconfig, &inputs->kubeconfig, &inputs->kubeconfig_user,
                            inputs->kubeconfig_source, f);
        inputs->has_kubeconfig = r > 0;
        return r < 0 ? r : 0;
}

void nb_inputs_done(struct nb_inputs *inputs) {
        nb_token_done(&inputs->token);
        nb_k3s_token_done(&inputs->k3s);
        nb_identity_done(&inputs->tls_bootstrap);
        nb_cluster_done(&inputs->kubeconfig);
        nb_identity_done(&inputs->kubeconfig_user);
}

int nb_inputs_take_identity(struct nb_inputs *inputs, struct nb_identity *ret_identity) {
        struct nb_identity *const identities[] = { &inputs->kubeconfig_user, &inputs->tls_bootstrap,
                                                   &inputs->k3s.identity };

        for (size_t i = 0; i < N_ELEMENTS(identities); i++)
                if (identities[i]->kind != NB_IDENTITY_NONE) {
                        *ret_identity = TAKE(*identities[i]);
                        return 0;
                }
        if (!inputs->token.value.data)
                return 0;
        return nb_identity_set_token(ret_identity, inputs->token.value.data,
                                     inputs->token.value.len, inputs->token_source);
}

/* The hash in a k3s token identifies the cluster, and a supervisor issues at the endpoints that
 * were verified by it: neither would hold for a cluster found in another way. */
int nb_inputs_verify_alone(const struct nb_inputs *inputs, const char *source,
                           struct nb_failure *f) {
        const struct nb_settings *settings = inputs->settings;

        if (settings->n_endpoints > 0 && !settings->discovery_file[0])
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected discovery.endpoints or a discovery file, found "
                                      "both: discovery.endpoints in %s, and %s",
                                      settings->origin[NB_SETTING_ENDPOINTS], source);
        if (settings->n_endpoints > 0)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected discovery.endpoints or discovery.file, found both: "
                                      "discovery.endpoints in %s, and discovery.file in %s",
                                      settings->origin[NB_SETTING_ENDPOINTS],
                                      settings->origin[NB_SETTING_DISCOVERY_FILE]);
        if (inputs->k3s.has_hash)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected a token with the hash of the cluster's CA or a "
                                      "discovery file, found both: %s, and %s",
                                      inputs->token_source, source);
        if (settings->cluster_type == NB_CLUSTER_TYPE_K3S)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0,
                                      "expected cluster.type: k3s or a discovery file, found both: "
                                      "cluster.type in %s, and %s; a supervisor is found by "
                                      "discovery.endpoints",
                                      settings->origin[NB_SETTING_CLUSTER_TYPE], source);
        return 0;
}

static int refuse_certificate(const struct nb_identity *identity, int r, const char *what,
                              struct nb_failure *f) {
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return nb_failure_set(f, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, r, "%s: %s",
                              identity->source, what);
}

int nb_client_certificate_verify(const struct nb_identity *identity, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_certificates_parse(identity->certificate, identity->certificate_len, true, &chain);
        if (r < 0)
                return refuse_certificate(identity, r,
                                          "client-certificate: expected certificates in PEM, found "
                                          "something else",
                                          f);
        r = nb_key_import(identity->secret.data, identity->secret.len, &key);
        if (r < 0)
                return refuse_certificate(identity, r,
                                          "client-key: expected an unencrypted private key in PEM, "
                                          "found something else",
                                          f);
        r = nb_certificate_verify_key(chain, key);
        if (r < 0)
                return refuse_certificate(identity, r,
                                          "client-key: expected the key of the client certificate, "
                                          "found another one",
                                          f);
        return 0;
}
