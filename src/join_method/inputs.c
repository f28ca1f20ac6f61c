/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "join_method/inputs.h"
#include "systemd/log.h"

/* A token in ciphertext has some hundred bytes. */
#define TOKEN_FILE_MAX 4096
#define NAMED_FILE_MAX (256 * 1024) /* bytes of a file that a kubeconfig refers to */

/* --- Tokens --- */

/* A token's text, from a credential or from the settings. */
struct token_text {
        struct nb_secret own; /* of a credential */
        const struct nb_secret *text;
        char source[NB_IDENTITY_SOURCE_MAX + 1]; /* "credential 'node-bootstrap.token'" */
        bool is_setting;
};

static void token_text_done(struct token_text *text) {
        nb_secret_done(&text->own);
}

static void trim_token(struct nb_secret *text, const char *name) {
        size_t len = nb_token_trim(text->data, text->len);

        if (text->len - len > 1 || (text->len > len && text->data[len] != '\n'))
                nb_log(LOG_WARNING, NB_NONE,
                       "the credential '%s' ends with more than one newline, or with other white "
                       "space; ignoring it",
                       name);
        text->data[len] = '\0';
        text->len = len;
}

/* Reads the token from the credential or, if there is none, from the settings. 1: found; 0: there
 * is none. */
static int find_token(struct nb_sources *sources, const char *name, const struct nb_secret *setting,
                      const char *origin, struct token_text *ret, struct nb_failure *f) {
        int r;

        ret->text = &ret->own;
        snprintf(ret->source, sizeof(ret->source), "credential '%s'", name);
        r = nb_sources_credential(sources, name, TOKEN_FILE_MAX, &ret->own, f);
        if (r >= 0) {
                trim_token(&ret->own, name);
                return 1;
        }
        if (r != -ENOENT || f->code != NB_NONE)
                return r;
        ret->text = setting;
        ret->is_setting = true;
        NB_TEXT_COPY_LINE(ret->source, origin);
        return setting->data != NULL;
}

/* Until the join method is known, settings and tokens that are meant for k3s decide which remedy a
 * failure has. */
static void choose_remedy(bool is_for_k3s) {
        if (is_for_k3s)
                nb_log_field(NB_FIELD_CLUSTER, "k3s");
}

/* A token in a document was verified with the document. So a setting that is refused is a token
 * beside the user data of a cloud, which nobody can correct on this machine. */
static int refuse_token(const struct token_text *token, int r, struct nb_failure *f) {
        const char *data = token->text->data, *place = token->is_setting ? "token in " : "";
        enum nb_code code = token->is_setting ? NB_METADATA_MALFORMED : NB_TOKEN_MALFORMED;
        size_t len = token->text->len;
        char flaw[NB_TOKEN_FLAW_SIZE];

        choose_remedy(nb_k3s_token_is_meant(data, len));
        if (r == -EBADMSG && !token->is_setting)
                return nb_failure_set(f, NB_TOKEN_ENCRYPTED, r,
                                      "the %s%s (%zu bytes) is still encrypted", place,
                                      token->source, len);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        nb_any_token_find_flaw(data, len, flaw);
        return nb_failure_set(f, code, r, "the %s%s (%zu bytes) %s: %s%s", place, token->source,
                              len,
                              nb_k3s_token_looks_like(data, len)
                                      ? "begins like a k3s token, but is not of the form K10<64 "
                                        "hex digits>::<id>.<secret> or K10<64 hex "
                                        "digits>::<user>:<password>"
                                      : "is not of the form xxxxxx.yyyyyyyyyyyyyyyy with a-z and "
                                        "0-9",
                              flaw, nb_k3s_token_hint(data, len));
}

static int take_bootstrap_token(const struct token_text *token, struct nb_identity *ret) {
        int r = nb_token_verify(token->text->data, token->text->len);

        return r < 0 ? r
                     : nb_identity_set_token(ret, token->text->data, token->text->len,
                                             token->source);
}

/* Reads a bootstrap token or a k3s token. */
static int read_token(const struct nb_settings_tokens *settings, struct nb_inputs *inputs,
                      struct nb_failure *f) {
        _cleanup_(token_text_done) struct token_text token = { .own = NB_SECRET_INIT };
        int r;

        r = find_token(inputs->sources, NB_CREDENTIAL_TOKEN_NAME, &settings->discovery,
                       settings->discovery_origin, &token, f);
        if (r <= 0)
                return r;
        NB_TEXT_COPY(inputs->token_source, token.source);
        inputs->has_k3s_token = nb_k3s_token_looks_like(token.text->data, token.text->len);
        if (inputs->has_k3s_token) {
                r = nb_k3s_token_parse(token.text->data, token.text->len, token.source,
                                       &inputs->k3s);
                if (r >= 0)
                        inputs->identity = TAKE(inputs->k3s.identity);
        } else {
                r = take_bootstrap_token(&token, &inputs->token);
                if (r >= 0)
                        r = take_bootstrap_token(&token, &inputs->identity);
        }
        return r < 0 ? refuse_token(&token, r, f) : 0;
}

static int read_tls_bootstrap(const struct nb_settings_tokens *settings, struct nb_inputs *inputs,
                              struct nb_failure *f) {
        _cleanup_(token_text_done) struct token_text text = { .own = NB_SECRET_INIT };
        int r;

        r = find_token(inputs->sources, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN_NAME,
                       &settings->tls_bootstrap, settings->tls_bootstrap_origin, &text, f);
        if (r <= 0)
                return r;
        r = take_bootstrap_token(&text, &inputs->identity);
        return r < 0 ? refuse_token(&text, r, f) : 0;
}

/* --- Kubeconfigs --- */

static int read_named(void *userdata, const char *path, struct nb_secret *ret) {
        return nb_sources_read_named(userdata, path, NAMED_FILE_MAX, ret, NULL);
}

static int read_path(struct nb_sources *sources, const struct nb_kubeconfig_source *source,
                     struct nb_secret *ret_text, struct nb_failure *f) {
        const struct nb_kubeconfig_policy *policy = source->policy;
        bool is_public = source->is_installed || policy->users != NB_KUBECONFIG_USERS_CURRENT;
        const char *path = source->path;
        struct stat st;
        int r;

        r = nb_sources_read_named(sources, path, NB_KUBECONFIG_MAX, ret_text, &st);
        if (r == -EFBIG)
                return nb_failure_set(f, policy->unacceptable, r, "'%s' is larger than %d bytes",
                                      nb_text_shown(path), NB_KUBECONFIG_MAX);
        if (r < 0)
                return nb_failure_set(f, policy->unreadable, r, "'%s' cannot be read%s: %m",
                                      nb_text_shown(path), r == -ETIMEDOUT ? " within 10 s" : "");
        if (!is_public && (st.st_mode & 0007))
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM,
                                      "'%s' has mode %04o; expected no access for others",
                                      nb_text_shown(path), st.st_mode & 07777);
        return 0;
}

int nb_kubeconfig_load(struct nb_sources *sources, const struct nb_kubeconfig_source *source,
                       struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                       char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX] = "", path[NB_IDENTITY_SOURCE_MAX - 1];
        const char *name;
        int r;

        snprintf(ret_source, NB_IDENTITY_SOURCE_MAX + 1, "credential '%s'", source->credential);
        r = source->is_installed ? -ENOENT
                                 : nb_sources_credential(sources, source->credential,
                                                         NB_KUBECONFIG_MAX, &text, f);
        if (r == -ENOENT && f->code == NB_NONE) {
                if (!source->path[0])
                        return 0;
                NB_TEXT_COPY_LINE(path, source->path);
                snprintf(ret_source, NB_IDENTITY_SOURCE_MAX + 1, "'%s'", path);
                r = read_path(sources, source, &text, f);
                if (r >= 0)
                        r = nb_path_split(source->path, folder, sizeof(folder), &name);
        }
        if (r < 0)
                return r;
        r = nb_kubeconfig_parse(source->policy,
                                &(struct nb_kubeconfig_input){
                                        .origin = ret_source,
                                        .text = text.data,
                                        .len = text.len,
                                        .read = read_named,
                                        .userdata = sources,
                                        .folder = folder[0] ? folder : NULL,
                                },
                                ret_cluster, ret_identity, f);
        return r < 0 ? r : 1;
}

/* --- All inputs --- */

int nb_inputs_read(struct nb_sources *sources, const struct nb_settings *settings,
                   struct nb_inputs *inputs, struct nb_failure *f) {
        static const struct nb_settings_tokens no_tokens;
        const struct nb_settings_tokens *tokens = settings->tokens ? settings->tokens : &no_tokens;
        const struct nb_kubeconfig_source kubeconfig = { NB_CREDENTIAL_KUBECONFIG_NAME,
                                                         settings->bootstrap_kubeconfig,
                                                         &nb_kubeconfig_bootstrap };
        _cleanup_(nb_identity_done) struct nb_identity user = NB_IDENTITY_INIT;
        int r;

        inputs->sources = sources;
        inputs->settings = settings;
        choose_remedy(settings->cluster_type == NB_CLUSTER_TYPE_K3S);
        for (unsigned i = 0; i < settings->n_endpoints; i++)
                choose_remedy(settings->endpoints[i].port == NB_RKE2_SUPERVISOR_PORT);
        r = read_token(tokens, inputs, f);
        if (r < 0)
                return r;
        r = read_tls_bootstrap(tokens, inputs, f);
        if (r < 0)
                return r;
        r = nb_kubeconfig_load(sources, &kubeconfig, &inputs->kubeconfig, &user,
                               inputs->kubeconfig_source, f);
        if (r <= 0)
                return r;
        inputs->has_kubeconfig = true;
        nb_identity_done(&inputs->identity);
        inputs->identity = TAKE(user);
        return 0;
}

void nb_inputs_done(struct nb_inputs *inputs) {
        nb_identity_done(&inputs->token);
        nb_k3s_token_done(&inputs->k3s);
        nb_cluster_done(&inputs->kubeconfig);
        nb_identity_done(&inputs->identity);
}

/* The hash in a k3s token identifies the cluster, and a supervisor issues certificates only at
 * endpoints verified by this hash. Neither is true for a cluster that a discovery file names. */
int nb_inputs_verify_alone(const struct nb_inputs *inputs, const char *source,
                           struct nb_failure *f) {
        const struct nb_settings *settings = inputs->settings;
        const char *other, *place;

        if (settings->n_endpoints > 0) {
                other = "discovery.endpoints";
                place = settings->origin[NB_SETTING_ENDPOINTS];
        } else if (inputs->k3s.has_hash) {
                other = "a token with the hash of the cluster's CA";
                place = inputs->token_source;
        } else if (settings->cluster_type == NB_CLUSTER_TYPE_K3S) {
                other = "cluster.type: k3s with discovery.endpoints";
                place = settings->origin[NB_SETTING_CLUSTER_TYPE];
        } else
                return 0;
        return nb_failure_set(
                f, NB_SETTINGS_INVALID, 0,
                "expected %s or a discovery file, found both: %s in %s, and %s%s%s", other, other,
                place, source, settings->discovery_file[0] ? ", which is discovery.file in " : "",
                settings->discovery_file[0] ? settings->origin[NB_SETTING_DISCOVERY_FILE] : "");
}

int nb_client_certificate_verify(const struct nb_identity *identity, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        const char *what = "client-certificate: expected certificates in PEM, found something else";
        int r;

        r = nb_certificates_parse(identity->certificate.data, identity->certificate.len, true,
                                  &chain);
        if (r >= 0) {
                what = "client-key: expected an unencrypted private key in PEM, found something "
                       "else";
                r = nb_key_import(identity->secret.data, identity->secret.len, &key);
        }
        if (r >= 0) {
                what = "client-key: expected the key of the client certificate, found another one";
                r = nb_certificate_verify_key(chain, key);
        }
        return r < 0 ? nb_failure_set(f, NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, r, "%s: %s",
                                      identity->source, what)
                     : 0;
}
