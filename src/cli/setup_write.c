/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/process.h"
#include "base/sources.h"
#include "cli/setup_internal.h"
#include "state/handoff.h"

#define PATH_SIZE 4096
#define STORE "/etc/credstore"
#define STORE_ENCRYPTED "/etc/credstore.encrypted"
#define HOST_KEY "/var/lib/systemd/credential.secret"
#define DROP_IN_FOLDER "/etc/systemd/system/" NB_SETUP_UNIT ".d"
#define DROP_IN "50-setup.conf"
#define CIPHERTEXT_MAX (2 * NB_SETUP_SECRET_MAX) /* in base64, with header and tag */

const char *const nb_setup_secret_names[_NB_SETUP_SECRET_N] = {
        [NB_SETUP_TOKEN] = NB_CREDENTIAL_TOKEN,
        [NB_SETUP_TLS_BOOTSTRAP_TOKEN] = NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN,
        [NB_SETUP_KUBECONFIG] = NB_CREDENTIAL_KUBECONFIG,
        [NB_SETUP_CLUSTER_INFO] = NB_CREDENTIAL_CLUSTER_INFO,
};

static int unwritable(const struct nb_setup *setup, const char *folder, const char *name, int r,
                      struct nb_failure *f) {
        return nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s%s%s': %m",
                              setup->root ? setup->root : "", folder, name[0] ? "/" : "", name);
}

static int open_folder(const struct nb_setup *setup, const char *folder, int *ret_fd) {
        return nb_folder_open_below(setup->root, folder, ret_fd);
}

/* --- systemd-creds --- */

/*
 * A key of this machine: a TPM that can seal, or the host key that `systemd-creds setup` makes.
 * Encrypting would create a host key on the same disk, which protects against nobody who can read
 * the disk: that is for the administrator to decide.
 */
static bool has_key(void) {
        static const char *const has_tpm[] = { "systemd-creds", "has-tpm2", "--quiet", NULL };
        struct nb_process_result result;

        return nb_process_run(has_tpm, NULL, 0, NULL, &result) >= 0 &&
               (result.status == 0 || access(HOST_KEY, F_OK) == 0);
}

/* Runs `systemd-creds VERB`. -EKEYREJECTED if it fails. */
static int run_creds(const char *verb, enum nb_setup_secret secret, const struct nb_secret *input,
                     size_t max, struct nb_secret *ret, char error[static NB_PROCESS_ERROR_SIZE]) {
        char name[128];
        const char *const argv[] = { "systemd-creds", verb, name, "--newline=no", "-", "-", NULL };
        struct nb_process_result result = { 0 };
        int r;

        snprintf(name, sizeof(name), "--name=%s", nb_setup_secret_names[secret]);
        r = nb_secret_init(ret, max);
        if (r < 0)
                return r;
        r = nb_process_run(argv, input->data, input->len, ret, &result);
        strcpy(error, result.error);
        return r < 0 ? r : result.status != 0 || ret->len == 0 ? -EKEYREJECTED : 0;
}

/* --- Reading --- */

static int read_from(const struct nb_setup *setup, const char *folder, enum nb_setup_secret secret,
                     size_t max, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = open_folder(setup, folder, &fd);

        if (r >= 0)
                r = nb_file_read_secret(fd, nb_setup_secret_names[secret], max, ret, NULL);
        if (r < 0 && r != -ENOENT)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "cannot read '%s/%s': %m",
                                      folder, nb_setup_secret_names[secret]);
        return r;
}

int nb_setup_read_stored(const struct nb_setup *setup, enum nb_setup_secret secret,
                         struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT,
                                                   text = NB_SECRET_INIT;
        char error[NB_PROCESS_ERROR_SIZE];
        int r;

        r = read_from(setup, STORE, secret, NB_SETUP_SECRET_MAX, ret, f);
        if (r != -ENOENT)
                return r;
        r = read_from(setup, STORE_ENCRYPTED, secret, CIPHERTEXT_MAX, &ciphertext, f);
        if (r < 0)
                return r;
        if (setup->root ||
            run_creds("decrypt", secret, &ciphertext, NB_SETUP_SECRET_MAX, &text, error) < 0)
                return -EKEYREJECTED;
        *ret = TAKE(text);
        return 0;
}

/* --- Writing --- */

struct place {
        const char *folder;
        mode_t folder_mode;
        const char *name;
        mode_t mode;
};

static int write_file(const struct nb_setup *setup, const struct place *place, const void *data,
                      size_t len, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        const char *root = setup->root ? setup->root : "";
        int r;

        if (setup->is_rehearsal) {
                printf("would write    %s%s/%s (mode %04o, owner %u)\n", root, place->folder,
                       place->name, place->mode, setup->root ? (unsigned)geteuid() : 0);
                return 0;
        }
        r = nb_folder_make(setup->root, place->folder, place->folder_mode, &fd);
        if (r < 0)
                return unwritable(setup, place->folder, "", r, f);
        r = nb_file_write(fd, place->name, place->mode, data, len);
        if (r < 0)
                return unwritable(setup, place->folder, place->name, r, f);
        printf("wrote    %s%s/%s\n", root, place->folder, place->name);
        return 0;
}

static int remove_file(const struct nb_setup *setup, const char *folder, const char *name,
                       struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = open_folder(setup, folder, &fd);

        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return unwritable(setup, folder, "", r, f);
        if (faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        r = setup->is_rehearsal ? 0 : nb_file_remove(fd, name);
        if (r < 0)
                return unwritable(setup, folder, name, r, f);
        printf("%s%s%s/%s\n", setup->is_rehearsal ? "would remove   " : "removed  ",
               setup->root ? setup->root : "", folder, name);
        return 0;
}

static int remove_secret(const struct nb_setup *setup, enum nb_setup_secret secret,
                         struct nb_failure *f) {
        int r = remove_file(setup, STORE, nb_setup_secret_names[secret], f);

        return r < 0 ? r : remove_file(setup, STORE_ENCRYPTED, nb_setup_secret_names[secret], f);
}

/* Which of the plain and the encrypted form takes precedence depends on the version of systemd, so
 * only one of them is left. */
static int write_secret(const struct nb_setup *setup, enum nb_setup_secret secret,
                        bool is_encrypted, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT;
        const struct nb_secret *data = &setup->secrets[secret];
        struct place place = { STORE, 0700, nb_setup_secret_names[secret], 0600 };
        char error[NB_PROCESS_ERROR_SIZE];
        int r = 0;

        if (is_encrypted && !setup->is_rehearsal) {
                r = run_creds("encrypt", secret, data, CIPHERTEXT_MAX, &ciphertext, error);
                if (r < 0 && r != -EKEYREJECTED)
                        return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r,
                                              "cannot run systemd-creds: %m");
                if (r < 0)
                        nb_log(LOG_WARNING, NB_NONE,
                               "systemd-creds cannot encrypt here; the credential %s is stored as "
                               "plain text: %s",
                               nb_setup_secret_names[secret], error);
                is_encrypted = r >= 0;
                data = is_encrypted ? &ciphertext : data;
        }
        if (is_encrypted)
                place.folder = STORE_ENCRYPTED;
        r = write_file(setup, &place, data->data, data->len, f);
        return r < 0 ? r
                     : remove_file(setup, is_encrypted ? STORE : STORE_ENCRYPTED,
                                   nb_setup_secret_names[secret], f);
}

/*
 * Below systemd 254 the unit has LoadCredential= for each name, which does not look into
 * credstore.encrypted; a LoadCredentialEncrypted= for the same name takes its place. From 254 on
 * ImportCredential= serves both.
 */
static int write_drop_in(const struct nb_setup *setup, const struct nb_setup_plan *plan,
                         bool can_encrypt, struct nb_failure *f) {
        static const struct place place = { DROP_IN_FOLDER, 0755, DROP_IN, 0644 };
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        _cleanup_(nb_closep) int fd = -1;
        bool is_needed = false;
        int r;

        r = nb_buffer_append_string(
                &text, "# Written by `node-bootstrap setup`, which replaces it.\n[Service]\n");
        (void)open_folder(setup, STORE_ENCRYPTED, &fd);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !NB_CREDENTIALS_ARE_IMPORTED; i++) {
                bool is_encrypted = fd >= 0 && faccessat(fd, nb_setup_secret_names[i], F_OK,
                                                         AT_SYMLINK_NOFOLLOW) == 0;

                if (setup->is_rehearsal && plan->steps[i] != NB_SETUP_KEEP)
                        is_encrypted = plan->steps[i] == NB_SETUP_WRITE && can_encrypt;
                if (!is_encrypted)
                        continue;
                is_needed = true;
                if (r >= 0)
                        r = nb_buffer_printf(&text,
                                             "LoadCredentialEncrypted=%s:" STORE_ENCRYPTED "/%s\n",
                                             nb_setup_secret_names[i], nb_setup_secret_names[i]);
        }
        if (r < 0)
                return nb_failure_set_memory(f);
        return is_needed ? write_file(setup, &place, text.data, text.len, f)
                         : remove_file(setup, DROP_IN_FOLDER, DROP_IN, f);
}

/* Cancels a token removal that an earlier join requested, so that it does not remove the new token.
 */
static void cancel_discard(const struct nb_setup *setup) {
        _cleanup_(nb_closep) int fd = -1;

        if (!setup->is_rehearsal && open_folder(setup, "/var/lib/kubelet", &fd) >= 0)
                (void)nb_file_remove(fd, NB_DISCARD_FILE);
}

static int write_secrets(const struct nb_setup *setup, const struct nb_setup_plan *plan,
                         struct nb_failure *f) {
        bool is_encrypted;
        int r;

        if (plan->n_steps == 0)
                return 0;
        /* An image is read on another machine, which does not have this machine's key. */
        is_encrypted = !setup->root && has_key();
        cancel_discard(setup);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                enum nb_setup_secret secret = (enum nb_setup_secret)i;

                if (plan->steps[i] == NB_SETUP_KEEP)
                        continue;
                r = plan->steps[i] == NB_SETUP_WRITE ? write_secret(setup, secret, is_encrypted, f)
                                                     : remove_secret(setup, secret, f);
                if (r < 0)
                        return r;
        }
        return write_drop_in(setup, plan, is_encrypted, f);
}

static void format_document_folder(const struct nb_setup *setup, char ret[static PATH_SIZE]) {
        snprintf(ret, PATH_SIZE, "%s/config.yaml.d", setup->config_directory);
}

/*
 * After a crash, the token of one cluster must not be beside the settings of another, which would
 * receive it. So the old credentials are removed before the settings change, and the new ones are
 * written after; in between, `join` fails for want of a token.
 */
int nb_setup_write(const struct nb_setup *setup, const struct nb_setup_plan *plan,
                   struct nb_failure *f) {
        char folder[PATH_SIZE];
        const struct place place = { folder, 0755, NB_SETUP_DOCUMENT, 0644 };
        _cleanup_(nb_closep) int store_fd = -1;
        int r = 0;

        /* The folder is made before anything changes: in an image, a link may be in its place. */
        if (plan->n_steps > 0 && !setup->is_rehearsal)
                r = nb_folder_make(setup->root, STORE, 0700, &store_fd);
        if (r < 0)
                return unwritable(setup, STORE, "", r, f);
        if (plan->is_document_new) {
                for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !setup->is_rehearsal; i++) {
                        r = plan->steps[i] == NB_SETUP_KEEP
                                    ? 0
                                    : remove_secret(setup, (enum nb_setup_secret)i, f);
                        if (r < 0)
                                return r;
                }
                format_document_folder(setup, folder);
                r = write_file(setup, &place, plan->document->data, plan->document->len, f);
                if (r < 0)
                        return r;
        }
        return write_secrets(setup, plan, f);
}

int nb_setup_erase(const struct nb_setup *setup, struct nb_failure *f) {
        char folder[PATH_SIZE];
        int r;

        format_document_folder(setup, folder);
        r = remove_file(setup, folder, NB_SETUP_DOCUMENT, f);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++)
                r = remove_secret(setup, (enum nb_setup_secret)i, f);
        return r < 0 ? r : remove_file(setup, DROP_IN_FOLDER, DROP_IN, f);
}
