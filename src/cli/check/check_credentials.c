/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/check/check_internal.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/token.h"
#include "os/clock.h"
#include "prover/prover.h"

#define CREDENTIAL_MAX ((size_t)256 * 1024)

int nb_check_mask_token(const char *data, size_t len, char ret[static NB_CHECK_TOKEN_TEXT_SIZE]) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        int r;

        if (nb_k3s_token_looks_like(data, len)) {
                const char *id = k3s.identity.token_id;

                r = nb_k3s_token_parse(data, len, "", &k3s);
                if (r < 0)
                        return r;
                snprintf(ret, NB_CHECK_TOKEN_TEXT_SIZE,
                         "k3s token %s%s" NB_CHECK_HIDDEN ", with%s the hash of a CA", id,
                         id[0] ? "." : "", k3s.has_hash ? "" : "out");
                return 0;
        }
        r = nb_token_verify(data, len);
        if (r < 0)
                return r;
        snprintf(ret, NB_CHECK_TOKEN_TEXT_SIZE, "bootstrap token %.*s." NB_CHECK_HIDDEN,
                 NB_TOKEN_ID_LEN, data);
        return 0;
}

/* --- Their contents, without the secrets --- */

/* nb_bootstrap_load() finds out whether it is valid, and names the failure. */
static void print_plain(struct nb_check *check, unsigned credential, const char *folder,
                        int folder_fd) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        const char *name = nb_credential_names[credential];
        char text[NB_CHECK_TOKEN_TEXT_SIZE];
        bool is_token = credential == NB_CREDENTIAL_TOKEN ||
                        credential == NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN;
        const char *origin;
        struct stat st;
        int r;

        /* systemd follows links in its stores, but delivers none: `join` refuses them. */
        r = check->sources.credentials_directory
                    ? nb_file_read_secret(folder_fd, name, CREDENTIAL_MAX, &data, &st)
                    : nb_sources_read_stored(folder, name, CREDENTIAL_MAX, &data, &st);
        if (r < 0) {
                nb_check_row(check, NB_CHECK_DOUBT, "%s: cannot be read in %s: %s", name, folder,
                             strerror(-r));
                return;
        }
        if (check->part == NB_CHECK_OF_SERVICE) {
                origin = nb_sources_find_stored(name, &data, &st);
                folder = origin ? origin : "delivered by systemd";
        }
        r = is_token ? nb_check_mask_token(data.data, nb_token_trim(data.data, data.len), text) : 0;
        if (r < 0 || !is_token)
                snprintf(text, sizeof(text), "%zu bytes", data.len);
        nb_check_row(check, r < 0 ? NB_CHECK_DOUBT : NB_CHECK_GOOD, "%s: %s (%s)", name, text,
                     folder);
}

/* Returns whether there is one. */
static bool print_credential(struct nb_check *check, unsigned credential) {
        const char *name = nb_credential_names[credential],
                   *const delivered[] = { check->sources.credentials_directory, NULL },
                   *const *folders = delivered[0] ? delivered : check->sources.stores;

        for (; *folders; folders++) {
                _cleanup_(nb_closep) int fd = -1;
                struct stat st;

                /* Not with access(2), which ignores capabilities. */
                if (nb_folder_open(*folders, &fd) >= 0 && fstatat(fd, name, &st, 0) >= 0) {
                        print_plain(check, credential, *folders, fd);
                        return true;
                }
        }
        if (delivered[0] && !NB_CREDENTIALS_ARE_IMPORTED &&
            nb_sources_is_sealed(&check->sources, name)) {
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: encrypted, and not delivered: before version 254, systemd reads "
                             "it only with LoadCredentialEncrypted=%s in a drop-in",
                             name, name);
                return true;
        }
        if (!delivered[0] && nb_sources_is_sealed(&check->sources, name)) {
                check->unknown = "it depends on a credential that only the service receives";
                nb_check_row(check, NB_CHECK_DOUBT, "%s: encrypted; only the service can read it",
                             name);
                return true;
        }
        if (check->shows_all)
                nb_check_row(check, NB_CHECK_NOTE, "%s: not found", name);
        return false;
}

/* Returns whether there is a token. */
static bool print_token(struct nb_check *check, const char *what, const struct nb_secret *token,
                        const char *origin) {
        char text[NB_CHECK_TOKEN_TEXT_SIZE];

        if (!token->data || nb_check_mask_token(token->data, token->len, text) < 0)
                return false;
        nb_check_row(check, NB_CHECK_GOOD, "%s: %s (%s)", what, text, origin);
        return true;
}

int nb_check_credentials(struct nb_check *check, struct nb_failure *f) {
        const char *delivered = check->sources.credentials_directory;
        const struct nb_settings_tokens *tokens = &check->load.tokens;
        const char *unused = nb_prover_find_unused(check->load.settings.proof_key);
        unsigned n = 0;
        int r = nb_prover_verify_place(&check->sources, f);

        if (r < 0)
                return r;
        for (unsigned i = 0; i < _NB_CREDENTIAL_N; i++)
                n += print_credential(check, i);
        n += print_token(check, "token", &tokens->discovery, tokens->discovery_origin);
        n += print_token(check, "token for the request", &tokens->tls_bootstrap,
                         tokens->tls_bootstrap_origin);
        for (size_t i = 0; i < NB_STORES_N && !delivered; i++) {
                const char *folder = nb_stores[i].folder;

                if (nb_store_look(folder) != -EACCES)
                        continue;
                nb_check_row(check, NB_CHECK_DOUBT, "cannot read %s: run as root", folder);
                check->unknown = "run as root";
                n++;
        }
        if (n == 0)
                nb_check_row(check, NB_CHECK_NOTE, "none");
        if (unused && check->has_settings)
                nb_check_row(check, NB_CHECK_DOUBT, NB_PROVER_UNUSED_FORMAT, unused);
        if (!check->has_settings)
                return 0;
        /* Whether they suffice for a join is checked once metadata is known. */
        r = nb_load_bootstrap(&check->load, f);
        if (r >= 0 && n > 0)
                nb_check_row(check, NB_CHECK_GOOD, "valid");
        return r;
}

/* --- The proof --- */

static int try_prover(const struct nb_settings *settings, char ret_id[static NB_PIN_TEXT_SIZE],
                      struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer request = NB_BUFFER_INIT(2 * NB_PKCS10_PEM_MAX);
        struct nb_prover_begin begin = { .node = NB_PROVER_TRIAL_NODE };
        int fd, r = nb_prover_make_trial(&request, f);

        if (r < 0)
                return r;
        NB_TEXT_COPY(begin.key, settings->proof_key);
        fd = nb_prover_connect(-1, &begin, f);
        if (fd < 0)
                return fd;
        r = nb_prover_ask(fd, NB_TIME_INFINITE, &request, f);
        nb_prover_leave(&fd);
        if (r >= 0)
                r = nb_prover_find_key(request.data, NULL, ret_id);
        return r < 0 && f->code == NB_NONE && r != -ECANCELED
                       ? nb_failure_set(f, NB_PROVER_UNAVAILABLE, r,
                                        "the prover has ended without an answer")
                       : r;
}

int nb_check_proof(struct nb_check *check, struct nb_failure *f) {
        char id[NB_PIN_TEXT_SIZE];
        int r;

        if (!check->load.settings.proof_key[0])
                return 0;
        if (check->needs_no_join || check->part != NB_CHECK_OF_SERVICE) {
                nb_check_row(check, check->needs_no_join ? NB_CHECK_NOTE : NB_CHECK_DOUBT,
                             "not tried: %s",
                             check->needs_no_join ? "this machine needs none, since it has joined"
                                                  : "only the service can use the key");
                return 0;
        }
        r = try_prover(&check->load.settings, id, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "the key %s signs (proof.key: %s)", id,
                             check->load.settings.proof_key);
        return r;
}
