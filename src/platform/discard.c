/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "format/handoff.h"
#include "format/platform.h"
#include "format/provider.h"
#include "format/settings.h"
#include "format/token.h"
#include "format/user_data.h"
#include "platform/discard.h"

#define MARK_MAX 32
#define REMOVED_MAX 512

const struct nb_discard_places nb_discard_places = {
        .kubelet = "/var/lib/kubelet",
        .credstores = { "/etc/credstore", "/run/credstore" },
        .platform = NB_PLATFORM_DIRECTORY,
        .tools = nb_guestinfo_tools,
};

/* --- The mark --- */

static int open_mark_folder(const struct nb_discard_places *places, int *ret_fd, struct nb_failure *f) {
        int r = nb_folder_open(places->kubelet, ret_fd);

        if (r >= 0 || r == -ENOENT)
                return r;
        errno = -r;
        return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, -r, "'%s' cannot be opened: %m", places->kubelet);
}

/* -ENOENT, and nothing set, where there is none. */
static int read_mark(int folder_fd, enum nb_provider *ret_provider, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer mark = NB_BUFFER_INIT(MARK_MAX);
        struct stat st;
        size_t len;
        int r;

        r = nb_file_read(folder_fd, NB_DISCARD_FILE, &mark, &st);
        if (r == -ENOENT)
                return r;
        if (r >= 0 && st.st_uid != geteuid())
                r = -EPERM;
        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, -r, "the mark '" NB_DISCARD_FILE "' cannot be read: %m");
        }
        len = mark.len > 0 && mark.data[mark.len - 1] == '\n' ? mark.len - 1 : mark.len;
        if (len == 0 || nb_provider_parse(mark.data, len, ret_provider) < 0)
                return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, EINVAL, "the mark '" NB_DISCARD_FILE "' names no provider of metadata");
        return 0;
}

/* --- Files --- */

static void note_removed(struct nb_buffer *removed, const char *folder, const char *name) {
        (void)nb_buffer_printf(removed, "%s%s%s%s", removed->len > 0 ? ", " : "", folder, folder[0] ? "/" : "", name);
}

static int not_removed(const char *folder, const char *name, int r, struct nb_failure *f) {
        errno = -r;
        return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, -r, r == -ELOOP || r == -EBADF ? "'%s/%s' is no regular file of its own; it was left" : "'%s/%s' cannot be removed: %m",
                              folder, name);
}

/* Unlinking a link, or one name of several, would leave the plaintext where it is, and say otherwise. */
static int remove_file(int folder_fd, const char *folder, const char *name, struct nb_buffer *removed, struct nb_failure *f) {
        struct stat st;
        int r;

        if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : not_removed(folder, name, -errno, f);
        if (!S_ISREG(st.st_mode) || st.st_nlink > 1)
                return not_removed(folder, name, -EBADF, f);
        r = nb_file_remove(folder_fd, name);
        if (r < 0)
                return not_removed(folder, name, r, f);
        note_removed(removed, folder, name);
        return 0;
}

static int remove_files(const char *folder, const char *const names[], size_t n_names, struct nb_buffer *removed, struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        int result = 0, r;

        r = nb_folder_open(folder, &folder_fd);
        if (r < 0)
                return r == -ENOENT ? 0 : not_removed(folder, "", r, f);
        for (size_t i = 0; i < n_names; i++) {
                r = remove_file(folder_fd, folder, names[i], removed, f);
                result = result < 0 ? result : r;
        }
        return result;
}

static int remove_all_files(const struct nb_discard_places *places, struct nb_buffer *removed, struct nb_failure *f) {
        static const char *const credentials[] = { NB_CREDENTIAL_TOKEN, NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN };
        static const char *const copies[] = { "token", "user-data", "meta-data" };
        int result = 0, r;

        for (size_t i = 0; i < N_ELEMENTS(places->credstores); i++) {
                r = remove_files(places->credstores[i], credentials, N_ELEMENTS(credentials), removed, f);
                result = result < 0 ? result : r;
        }
        r = remove_files(places->platform, copies, N_ELEMENTS(copies), removed, f);
        return result < 0 ? result : r;
}

/* --- VMware --- */

static int clear_value(const struct nb_discard_places *places, const char *key, const char *value, struct nb_buffer *removed, struct nb_failure *f) {
        int r = nb_guestinfo_set(places->tools, key, value, f);

        if (r >= 0)
                note_removed(removed, "", key);
        return r;
}

/* An empty document, in the encoding that the value is said to have: cloud-init, which may read it too, then finds nothing, and no error. */
static int choose_empty(const struct nb_discard_places *places, const char **ret, struct nb_failure *f) {
        static const struct {
                const char *encoding, *empty;
        } forms[] = {
                { "base64", "LS0tCg==" },
                { "b64", "LS0tCg==" },
                { "gzip+base64", "H4sIAAAAAAAC/9PV1eUCAL3OdoMEAAAA" },
                { "gz+b64", "H4sIAAAAAAAC/9PV1eUCAL3OdoMEAAAA" },
        };
        _cleanup_(nb_secret_done) struct nb_secret encoding = NB_SECRET_INIT;
        int r = nb_guestinfo_get(places->tools, NB_GUESTINFO_USER_DATA_ENCODING, &encoding, f);

        if (r < 0)
                return r;
        *ret = "---";
        for (size_t i = 0; i < N_ELEMENTS(forms) && encoding.len > 0; i++)
                if (strcmp(encoding.data, forms[i].encoding) == 0)
                        *ret = forms[i].empty;
        return 0;
}

/* A k3s token has no dot; what follows is how both of its forms go on. */
static bool is_token_in(const char *text) {
        if (nb_token_may_stand_in(text))
                return true;
        for (const char *p = strstr(text, "K10"); p; p = strstr(p + 1, "K10"))
                if (strncmp(p + 3 + strspn(p + 3, "0123456789abcdef"), "::", 2) == 0)
                        return true;
        return false;
}

static int look_for_token(const struct nb_user_data *user_data, bool *ret_has_token) {
        const struct nb_settings_source source = { .origin = NB_GUESTINFO_USER_DATA, .is_metadata = true };
        _cleanup_(nb_freep) struct nb_settings *settings = NULL;
        struct nb_failure ignored = { 0 };
        int r;

        *ret_has_token = user_data->token.len > 0 || user_data->tls_bootstrap_token.len > 0;
        if (*ret_has_token || user_data->document.len == 0)
                return 0;
        settings = malloc(sizeof(*settings));
        if (!settings)
                return -ENOMEM;
        nb_settings_init(settings);
        r = nb_settings_merge(settings, &source, user_data->document.data, user_data->document.len, &ignored);
        if (r == -ENOMEM)
                return r;
        /* One that is ours and has an error in it may hold one all the same. */
        *ret_has_token = r < 0 ? is_token_in(user_data->document.data) : settings->has_discovery_token || settings->has_tls_bootstrap_token;
        return 0;
}

#define LEFT "'" NB_GUESTINFO_USER_DATA "' was left, though it may hold a token: "

/* What cannot be read may be another tool's, and cannot be brought back. */
static int find_token(const struct nb_secret *text, bool *ret_has_token, struct nb_failure *f) {
        struct nb_user_data user_data = NB_USER_DATA_INIT;
        struct nb_failure why = { 0 };
        int r;

        r = nb_user_data_parse(NB_GUESTINFO_USER_DATA, text->data, text->len, &user_data, &why);
        if (r >= 0 && user_data.kind == NB_USER_DATA_UNREADABLE)
                return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, EBADMSG, LEFT "found %s", user_data.what);
        if (r >= 0) {
                r = look_for_token(&user_data, ret_has_token);
                nb_user_data_done(&user_data);
                return r < 0 ? nb_failure_set_memory(f) : 0;
        }
        *ret_has_token = is_token_in(text->data);
        if (*ret_has_token)
                return 0;
        return nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, -r, LEFT "%s", why.detail);
}

/* Settings alone, or another tool's user data, stay. */
static int clear_user_data(const struct nb_discard_places *places, struct nb_buffer *removed, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *empty = NULL;
        bool has_token = false;
        int r;

        r = nb_guestinfo_get(places->tools, NB_GUESTINFO_USER_DATA, &text, f);
        if (r < 0 || text.len == 0)
                return r;
        r = find_token(&text, &has_token, f);
        if (r < 0 || !has_token)
                return r;
        r = choose_empty(places, &empty, f);
        return r < 0 ? r : clear_value(places, NB_GUESTINFO_USER_DATA, empty, removed, f);
}

static int clear_guestinfo(const struct nb_discard_places *places, struct nb_buffer *removed, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        r = nb_guestinfo_get(places->tools, NB_GUESTINFO_TOKEN, &token, f);
        if (r >= 0 && token.len > 0)
                r = clear_value(places, NB_GUESTINFO_TOKEN, "---", removed, f);
        return r < 0 ? r : clear_user_data(places, removed, f);
}

int nb_discard(const struct nb_discard_places *places, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer removed = NB_BUFFER_INIT(REMOVED_MAX);
        _cleanup_(nb_closep) int folder_fd = -1;
        enum nb_provider provider = NB_PROVIDER_NONE;
        struct nb_failure why = { 0 };
        int result, r;

        r = open_mark_folder(places, &folder_fd, f);
        if (r >= 0)
                r = read_mark(folder_fd, &provider, f);
        if (r < 0)
                return r == -ENOENT && f->code == NB_NONE ? 0 : r;
        result = remove_all_files(places, &removed, f);
        if (provider == NB_PROVIDER_VMWARE) {
                r = clear_guestinfo(places, &removed, &why);
                if (r < 0 && result >= 0)
                        result = nb_failure_set(f, NB_TOKEN_NOT_DISCARDED, why.errnum, "%s", why.detail);
        }
        if (removed.len > 0)
                nb_log(LOG_NOTICE, NB_TOKEN_DISCARDED, "this machine has joined; the token's plaintext was removed: %s", removed.data);
        if (result < 0)
                return result;
        r = nb_file_remove(folder_fd, NB_DISCARD_FILE);
        return r < 0 ? not_removed(places->kubelet, NB_DISCARD_FILE, r, f) : 0;
}
