/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "bootstrap/credentials.h"
#include "format/handoff.h"

/* Ciphertext of a token is some hundred bytes; what is larger is refused unread. */
#define TOKEN_FILE_MAX 4096
#define NAMED_FILE_MAX (256 * 1024) /* bytes of a file that a kubeconfig refers to */

/* `what`: "credential 'node-bootstrap.token'", or the document that it stands in. */
static int malformed(const char *what, const char *data, size_t len, int r, struct nb_failure *f) {
        char flaw[NB_TOKEN_FLAW_SIZE];

        if (r == -EBADMSG)
                return nb_failure_set(f, NB_TOKEN_ENCRYPTED, -r, "the %s (%zu bytes) is still encrypted", what, len);
        if (r != -EINVAL)
                return nb_failure_set_memory(f);
        nb_any_token_find_flaw(data, len, flaw);
        if (nb_k3s_token_is_meant(data, len))
                return nb_failure_set(f, NB_TOKEN_MALFORMED, -r,
                                      "the %s (%zu bytes) begins as a token of k3s, and is not of the form "
                                      "K10<64 hex digits>::<id>.<secret> or K10<64 hex digits>::<user>:<password>: %s",
                                      what, len, flaw);
        return nb_failure_set(f, NB_TOKEN_MALFORMED, -r, "the %s (%zu bytes) is not of the form xxxxxx.yyyyyyyyyyyyyyyy with a-z and 0-9: %s", what, len,
                              flaw);
}

static int take_token(const struct nb_settings *settings, const char *what, const struct nb_secret *text, struct nb_given_tokens *tokens,
                      struct nb_failure *f) {
        int r;

        if (nb_k3s_token_is_meant(text->data, text->len)) {
                r = nb_k3s_token_parse(text->data, text->len, tokens->source, &tokens->k3s);
                return r < 0 ? malformed(what, text->data, text->len, r, f) : 0;
        }
        r = nb_token_parse(text->data, text->len, &tokens->discovery);
        if (r < 0)
                return malformed(what, text->data, text->len, r, f);
        /* k3s takes a token without the hash, too. */
        if (settings->cluster_type == NB_CLUSTER_TYPE_K3S &&
            nb_identity_set_token(&tokens->k3s.identity, tokens->discovery.value.data, tokens->discovery.value.len, tokens->source) < 0)
                return nb_failure_set_memory(f);
        return 0;
}

static int read_discovery(const struct nb_settings *settings, struct nb_given_tokens *tokens, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const struct nb_settings_tokens *document = settings->tokens;
        char what[NB_IDENTITY_SOURCE_MAX + 16];
        int r;

        r = nb_sources_credential(NB_CREDENTIAL_TOKEN, TOKEN_FILE_MAX, &text, f);
        if (r >= 0) {
                (void)snprintf(tokens->source, sizeof(tokens->source), "credential '" NB_CREDENTIAL_TOKEN "'");
                return take_token(settings, tokens->source, &text, tokens, f);
        }
        if (r != -ENOENT || f->code != NB_NONE)
                return r;
        if (!document || !document->discovery.data)
                return 0;
        (void)snprintf(tokens->source, sizeof(tokens->source), "%s", document->discovery_origin);
        (void)snprintf(what, sizeof(what), "token in %s", tokens->source);
        return take_token(settings, what, &document->discovery, tokens, f);
}

static int read_tls_bootstrap(const struct nb_settings *settings, struct nb_given_tokens *tokens, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };
        const struct nb_settings_tokens *document = settings->tokens;
        const char *source = "credential '" NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN "'";
        const struct nb_secret *given;
        char what[NB_IDENTITY_SOURCE_MAX + 16];
        int r;

        r = nb_sources_credential(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN, TOKEN_FILE_MAX, &text, f);
        if (r < 0 && (r != -ENOENT || f->code != NB_NONE))
                return r;
        if (r < 0 && (!document || !document->tls_bootstrap.data))
                return 0;
        if (r >= 0) {
                (void)snprintf(what, sizeof(what), "%s", source);
                given = &text;
        } else {
                source = document->tls_bootstrap_origin;
                (void)snprintf(what, sizeof(what), "token in %s", source);
                given = &document->tls_bootstrap;
        }
        r = nb_token_parse(given->data, given->len, &token);
        if (r < 0)
                return malformed(what, given->data, given->len, r, f);
        r = nb_identity_set_token(&tokens->tls_bootstrap, token.value.data, token.value.len, source);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_given_tokens_read(const struct nb_settings *settings, struct nb_given_tokens *ret_tokens, struct nb_failure *f) {
        struct nb_given_tokens tokens = {
                .discovery = { .value = NB_SECRET_INIT },
                .k3s = { .identity = NB_IDENTITY_INIT },
                .tls_bootstrap = NB_IDENTITY_INIT,
        };
        int r;

        r = read_discovery(settings, &tokens, f);
        if (r >= 0)
                r = read_tls_bootstrap(settings, &tokens, f);
        if (r < 0) {
                nb_given_tokens_done(&tokens);
                return r;
        }
        *ret_tokens = tokens;
        return 0;
}

void nb_given_tokens_done(struct nb_given_tokens *tokens) {
        nb_token_done(&tokens->discovery);
        nb_k3s_token_done(&tokens->k3s);
        nb_identity_done(&tokens->tls_bootstrap);
}

/* --- Kubeconfigs --- */

/* Where one of them comes from. */
struct kubeconfig {
        const char *credential;
        const char *path; /* of the settings; "" for none */
        enum nb_code unreadable, unacceptable;
        bool wants_user;
};

static int read_named(_unused_ void *userdata, const char *path, struct nb_secret *ret) {
        return nb_sources_read(path, NAMED_FILE_MAX, ret, NULL);
}

static int read_path(const struct kubeconfig *kubeconfig, struct nb_secret *ret_text, struct nb_failure *f) {
        struct stat st;
        int r;

        r = nb_sources_read(kubeconfig->path, NB_KUBECONFIG_MAX, ret_text, &st);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EFBIG)
                return nb_failure_set(f, kubeconfig->unacceptable, -r, "'%s' is larger than %d bytes", kubeconfig->path, NB_KUBECONFIG_MAX);
        if (r == -EBADF)
                return nb_failure_set(f, kubeconfig->unreadable, -r, "'%s' is no regular file", kubeconfig->path);
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, kubeconfig->unreadable, -r, "'%s' cannot be read: %m", kubeconfig->path);
        }
        if (kubeconfig->wants_user && (st.st_mode & 0007))
                return nb_failure_set(f, NB_TOKEN_EXPOSED, EPERM, "'%s' has mode %04o; expected no access for others", kubeconfig->path,
                                      st.st_mode & 07777);
        return 0;
}

/* 1: read; 0: there is none. */
static int read_kubeconfig(const struct kubeconfig *kubeconfig, struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                           char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char folder[NB_SETTINGS_PATH_MAX] = "", source[NB_IDENTITY_SOURCE_MAX + 1];
        const char *name;
        int r;

        r = nb_sources_credential(kubeconfig->credential, NB_KUBECONFIG_MAX, &text, f);
        if (r >= 0)
                (void)snprintf(source, sizeof(source), "credential '%s'", kubeconfig->credential);
        else if (r != -ENOENT || f->code != NB_NONE)
                return r;
        else if (!kubeconfig->path[0])
                return 0;
        else {
                (void)snprintf(source, sizeof(source), "'%s'", kubeconfig->path);
                r = read_path(kubeconfig, &text, f);
                if (r >= 0)
                        r = nb_path_split(kubeconfig->path, folder, sizeof(folder), &name);
                if (r < 0)
                        return r;
        }
        r = nb_kubeconfig_parse_given(source, folder[0] ? folder : NULL, text.data, text.len, kubeconfig->wants_user, read_named, NULL,
                                      kubeconfig->unacceptable, ret_cluster, ret_identity, f);
        if (r < 0)
                return r;
        memcpy(ret_source, source, sizeof(source));
        return 1;
}

int nb_given_kubeconfig_read(const struct nb_settings *settings, struct nb_cluster *ret_cluster, struct nb_identity *ret_identity,
                             char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f) {
        const struct kubeconfig kubeconfig = { NB_CREDENTIAL_KUBECONFIG, settings->bootstrap_kubeconfig, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE,
                                               NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE, true };

        return read_kubeconfig(&kubeconfig, ret_cluster, ret_identity, ret_source, f);
}

int nb_given_document_read(const struct nb_settings *settings, struct nb_cluster *ret_cluster,
                           char ret_source[static NB_IDENTITY_SOURCE_MAX + 1], struct nb_failure *f) {
        const struct kubeconfig kubeconfig = { NB_CREDENTIAL_CLUSTER_INFO, settings->discovery_file[0] == '/' ? settings->discovery_file : "",
                                               NB_DISCOVERY_FILE_UNREADABLE, NB_DISCOVERY_FILE_UNACCEPTABLE, false };

        return read_kubeconfig(&kubeconfig, ret_cluster, NULL, ret_source, f);
}

/* --- k3s --- */

static int read_password(struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        size_t len;
        int r;

        r = nb_sources_read(NB_NODE_PASSWORD_FILE, TOKEN_FILE_MAX, &text, NULL);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        /* k3s trims it, too. What stands in it besides is for who sends it to refuse. */
        len = strlen(text.data);
        while (len > 0 && strchr(" \t\r\n", text.data[len - 1]))
                len--;
        if (len < sizeof(bootstrap->node_password)) {
                memcpy(bootstrap->node_password, text.data, len);
                bootstrap->node_password[len] = '\0';
        }
        return 0;
}

/* Without the key that stands in the same file: it stays in the secret. */
static int take_certificates(const struct nb_secret *pem, struct nb_identity *identity) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NAMED_FILE_MAX);
        int r;

        r = nb_certificates_parse(pem->data, pem->len, true, &chain);
        for (size_t i = 0; r >= 0 && i < nb_certificates_count(chain); i++)
                r = nb_certificate_export(chain, i, &text);
        if (r < 0)
                return r;
        identity->certificate = TAKE(text.data);
        identity->certificate_len = text.len;
        return 0;
}

int nb_given_k3s_node_read(const struct nb_settings *settings, struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        struct nb_identity *previous = &bootstrap->previous;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_STORE_CURRENT) + 1];
        int r;

        r = read_password(bootstrap, f);
        if (r < 0)
                return r;
        (void)snprintf(path, sizeof(path), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        r = nb_sources_read(path, NAMED_FILE_MAX, &pem, NULL);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return 0;
        r = take_certificates(&pem, previous);
        if (r < 0)
                return r == -ENOMEM ? nb_failure_set_memory(f) : 0;
        previous->kind = NB_IDENTITY_CERTIFICATE;
        previous->secret = pem;
        pem = (struct nb_secret)NB_SECRET_INIT;
        (void)snprintf(previous->source, sizeof(previous->source), "'%.100s'", path);
        return 0;
}
