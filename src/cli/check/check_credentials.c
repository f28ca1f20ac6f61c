/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "kube/k3s_token.h"
#include "kube/token.h"

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

/* --- Where they are --- */

/* Not with access(2), which ignores capabilities. */
static bool is_dangling(int folder_fd, const char *name) {
        struct stat st;

        return fstatat(folder_fd, name, &st, 0) < 0 && errno == ENOENT;
}

void nb_check_find_stores(struct nb_check *check) {
        if (check->sources.credentials_directory)
                return;
        nb_sources_find_stores(&check->sources);
        for (unsigned c = 0; c < _NB_CREDENTIAL_N; c++) {
                const char *name = nb_credential_names[c];

                if (nb_machine_units_find_drop_in(&check->units, &check->sources, name,
                                                  check->drop_ins[c]) ||
                    nb_sources_is_sealed(&check->sources, name))
                        check->sealed |= 1U << c;
        }
}

/* --- Their contents, without the secrets --- */

/* nb_bootstrap_load() finds out whether it is valid, and names the failure. */
static void print_plain(struct nb_check *check, unsigned credential, const char *folder,
                        int folder_fd) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        const char *name = nb_credential_names[credential];
        char text[NB_CHECK_TOKEN_TEXT_SIZE];
        struct stat st;
        size_t len;
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
        len = nb_token_trim(data.data, data.len);
        if (credential != NB_CREDENTIAL_TOKEN && credential != NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN)
                nb_check_row(check, NB_CHECK_GOOD, "%s: %zu bytes (%s)", name, data.len, folder);
        else if (nb_check_mask_token(data.data, len, text) < 0)
                nb_check_row(check, NB_CHECK_DOUBT, "%s: %zu bytes, not a valid token (%s)", name,
                             data.len, folder);
        else if (data.len - len > 1)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: %s (%s); ignoring extra newlines, or CRLF, at its end", name,
                             text, folder);
        else
                nb_check_row(check, NB_CHECK_GOOD, "%s: %s (%s)", name, text, folder);
}

/* Returns whether the credential is in `folder`. */
static bool print_in_folder(struct nb_check *check, unsigned credential, const char *folder,
                            bool is_sealed, bool is_ignored) {
        const char *name = nb_credential_names[credential];
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        if (nb_folder_open(folder, &fd) < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return false;
        if (!check->sources.credentials_directory && is_dangling(fd, name)) {
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: a dangling symbolic link in %s; systemd %s", name, folder,
                             NB_CREDENTIALS_ARE_IMPORTED ? "does not start the service"
                                                         : "ignores it");
                return false;
        }
        if (is_ignored)
                nb_check_row(check, NB_CHECK_NOTE, "%s: also in %s; ignored", name, folder);
        else if (is_sealed)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "%s: encrypted in %s; systemd decrypts it only for the service%s",
                             name, folder,
                             NB_CREDENTIALS_ARE_IMPORTED
                                     ? ""
                                     : ", with LoadCredentialEncrypted= in a drop-in");
        else
                print_plain(check, credential, folder, fd);
        return true;
}

static bool print_credential(struct nb_check *check, unsigned credential) {
        const char *name = nb_credential_names[credential],
                   *delivered = check->sources.credentials_directory;
        bool is_found = check->drop_ins[credential][0];

        if (is_found)
                nb_check_row(check, NB_CHECK_DOUBT, "%s: set by %s of the service; not read here",
                             name, check->drop_ins[credential]);
        if (delivered)
                is_found = print_in_folder(check, credential, delivered, false, false);
        for (size_t i = 0; i < NB_STORES_N && !delivered; i++)
                is_found |= print_in_folder(check, credential, nb_stores[i].folder,
                                            nb_stores[i].is_sealed, is_found);
        if (!is_found && check->shows_all)
                nb_check_row(check, NB_CHECK_NOTE, "%s: not found", name);
        return is_found;
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
        unsigned n = 0;
        int r;

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
                check->is_store_hidden = true;
                n++;
        }
        if (n == 0)
                nb_check_row(check, NB_CHECK_NOTE, "none");
        if (!check->has_settings)
                return 0;
        /* Whether they suffice for a join is checked once metadata is known. */
        r = nb_load_bootstrap(&check->load, f);
        if (r >= 0 && n > 0)
                nb_check_row(check, NB_CHECK_GOOD, "valid");
        return r;
}
