/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "verb/check_internal.h"

#define CREDENTIAL_MAX ((size_t)256 * 1024)

/* Where systemd takes a credential from by its name, strongest first; encrypted ones where there is no other. */
static const struct {
        const char *folder;
        bool is_sealed;
} places[] = {
        { "/run/credentials/@system", false },
        { "/etc/credstore", false },
        { "/run/credstore", false },
        { "/usr/local/lib/credstore", false },
        { "/usr/lib/credstore", false },
        { "/run/credentials/@encrypted", true },
        { "/etc/credstore.encrypted", true },
        { "/run/credstore.encrypted", true },
        { "/usr/local/lib/credstore.encrypted", true },
        { "/usr/lib/credstore.encrypted", true },
};

static const struct {
        const char *name;
        bool is_token;
} credentials[_NB_CHECK_CREDENTIAL_N] = {
        [NB_CHECK_TOKEN] = { NB_CREDENTIAL_TOKEN, true },
        [NB_CHECK_TLS_BOOTSTRAP_TOKEN] = { NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN, true },
        [NB_CHECK_KUBECONFIG] = { NB_CREDENTIAL_KUBECONFIG, false },
        [NB_CHECK_CLUSTER_INFO] = { NB_CREDENTIAL_CLUSTER_INFO, false },
        [NB_CHECK_CONFIG] = { NB_CREDENTIAL_CONFIG, false },
};

const char *nb_check_credential_name(enum nb_check_credential credential) {
        return credentials[credential].name;
}

/* systemd has delivered them already: to a unit, or to somebody who says where they are. */
static const char *delivered(void) {
        return getenv("CREDENTIALS_DIRECTORY");
}

static bool leads_nowhere(int folder_fd, const char *name) {
        return faccessat(folder_fd, name, F_OK, 0) < 0 && errno == ENOENT;
}

static bool is_there(const char *folder, const char *name) {
        _cleanup_(nb_closep) int fd = -1;

        return nb_folder_open(folder, &fd) >= 0 && !leads_nowhere(fd, name);
}

void nb_check_find_stores(struct nb_check *check) {
        size_t n = 0;

        if (!delivered())
                nb_check_read_unit(&check->unit);
        for (unsigned c = 0; c < _NB_CHECK_CREDENTIAL_N; c++)
                if (check->unit.sources[c][0])
                        check->sealed |= 1U << c;
        for (size_t i = 0; !delivered() && i < N_ELEMENTS(places); i++) {
                if (!places[i].is_sealed && access(places[i].folder, R_OK | X_OK) == 0)
                        check->stores[n++] = places[i].folder;
                for (unsigned c = 0; c < _NB_CHECK_CREDENTIAL_N && places[i].is_sealed; c++)
                        if (is_there(places[i].folder, credentials[c].name))
                                check->sealed |= 1U << c;
        }
        nb_sources_use_stores(check->stores);
}

void nb_check_forget_stores(void) {
        nb_sources_use_stores(NULL);
}

static void print_sealed(const struct nb_check *check, const char *folder, const char *name) {
        nb_check_row(check, NB_CHECK_DOUBT, "%s: encrypted in %s; systemd opens it for the service%s, and it cannot be looked into here", name, folder,
                     NB_CREDENTIALS_ARE_IMPORTED ? "" : " with LoadCredentialEncrypted= in a drop-in");
}

/* What it is, without what it says. Whether it is in order is for nb_bootstrap_load(), which names the failure. */
static void print_plain(const struct nb_check *check, unsigned credential, const char *folder, int fd) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        const char *name = credentials[credential].name;
        char text[NB_CHECK_TOKEN_TEXT_SIZE];
        struct stat st, st_folder;
        int r;

        r = delivered() ? nb_file_read_secret(fd, name, CREDENTIAL_MAX, &data, &st) : nb_sources_read_stored(folder, name, CREDENTIAL_MAX, &data, &st);
        if (r < 0) {
                errno = -r;
                nb_check_row(check, NB_CHECK_DOUBT, "%s: cannot be read in %s: %m", name, folder);
                return;
        }
        if (!credentials[credential].is_token)
                nb_check_row(check, NB_CHECK_GOOD, "%s: %zu bytes (%s)", name, data.len, folder);
        else if (nb_check_mask_token(data.data, data.len, text) >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "%s: %s (%s)", name, text, folder);
        else
                nb_check_row(check, NB_CHECK_DOUBT, "%s: %zu bytes that are no token (%s)", name, data.len, folder);
        if ((st.st_mode & 0004) && fstat(fd, &st_folder) == 0 && (st_folder.st_mode & 0001))
                nb_check_row(check, NB_CHECK_DOUBT, "%s: others can read it in %s: mode %04o; expected 0600", name, folder, st.st_mode & 07777);
}

/* 1: it is there, in one place or more. */
static int print_credential(const struct nb_check *check, unsigned credential) {
        const char *name = credentials[credential].name, *first = check->unit.sources[credential];

        if (first[0])
                nb_check_row(check, NB_CHECK_DOUBT, "%s: the service gets it by a drop-in, and it is not looked into here: %s", name, first);
        else
                first = NULL;
        for (size_t i = 0; i < N_ELEMENTS(places); i++) {
                const char *folder = delivered() ? delivered() : places[i].folder;
                _cleanup_(nb_closep) int fd = -1;

                if ((delivered() && i > 0) || nb_folder_open(folder, &fd) < 0 || faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                        continue;
                if (!delivered() && leads_nowhere(fd, name)) {
                        nb_check_row(check, NB_CHECK_DOUBT, "%s: a link in %s that leads nowhere; systemd passes it over", name, folder);
                        continue;
                }
                if (first)
                        nb_check_row(check, NB_CHECK_NOTE, "%s: also in %s, where it does not count", name, folder);
                else if (places[i].is_sealed && !delivered())
                        print_sealed(check, folder, name);
                else
                        print_plain(check, credential, folder, fd);
                first = folder;
        }
        if (!first && check->shows_all)
                nb_check_row(check, NB_CHECK_NOTE, "%s: not there", name);
        return first != NULL;
}

static void print_unread(const struct nb_check *check) {
        if (delivered())
                nb_check_print_unread_credentials(check, delivered());
        for (size_t i = 0; !delivered() && i < N_ELEMENTS(places); i++)
                nb_check_print_unread_credentials(check, places[i].folder);
}

static int print_closed(const struct nb_check *check) {
        int n = 0;

        for (size_t i = 0; !delivered() && i < N_ELEMENTS(places); i++)
                if (access(places[i].folder, R_OK | X_OK) < 0 && errno == EACCES) {
                        nb_check_row(check, NB_CHECK_DOUBT, "%s cannot be looked into by this user: run as root", places[i].folder);
                        n++;
                }
        return n;
}

static int print_token(const struct nb_check *check, const char *what, const struct nb_secret *token, const char *origin) {
        char text[NB_CHECK_TOKEN_TEXT_SIZE];

        if (!token->data)
                return 0;
        if (nb_check_mask_token(token->data, token->len, text) < 0)
                return 0;
        nb_check_row(check, NB_CHECK_GOOD, "%s: %s (%s)", what, text, origin);
        return 1;
}

static int print_tokens(const struct nb_check *check, const struct nb_settings_tokens *tokens) {
        return print_token(check, "token", &tokens->discovery, tokens->discovery_origin) +
               print_token(check, "token for the request", &tokens->tls_bootstrap, tokens->tls_bootstrap_origin);
}

bool nb_check_has_sealed_identity(const struct nb_check *check) {
        return check->sealed & (1U << NB_CHECK_TOKEN | 1U << NB_CHECK_TLS_BOOTSTRAP_TOKEN | 1U << NB_CHECK_KUBECONFIG);
}

/* Not whether it is enough: that is for the whole. */
static int verify(struct nb_check *check, struct nb_failure *f) {
        int r = nb_load_local(&check->load, check->config_directory, f);

        if (r < 0 || check->load.why.code == NB_NONE)
                return r;
        *f = check->load.why;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

int nb_check_credentials(struct nb_check *check, struct nb_failure *f) {
        int n = 0, r;

        for (unsigned i = 0; i < _NB_CHECK_CREDENTIAL_N; i++)
                n += print_credential(check, i);
        n += print_tokens(check, &check->tokens);
        n += print_closed(check);
        print_unread(check);
        if (n == 0)
                nb_check_row(check, NB_CHECK_NOTE, "none");
        r = check->has_settings ? verify(check, f) : 0;
        if (r >= 0 && n > 0 && check->has_settings)
                nb_check_row(check, NB_CHECK_GOOD, "in order");
        return r;
}
