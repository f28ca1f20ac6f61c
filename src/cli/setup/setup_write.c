/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/setup/setup_internal.h"
#include "system/log.h"
#include "system/process.h"
#include "system/sources.h"

#define STORE "/etc/credstore"
#define STORE_ENCRYPTED "/etc/credstore.encrypted"
#define HOST_KEY "/var/lib/systemd/credential.secret"
#define DROP_IN_FOLDER "/etc/systemd/system/" NB_SETUP_UNIT ".d"
#define DROP_IN "50-setup.conf"
#define STORED_MAX \
        (2 * NB_SETUP_SECRET_MAX) /* bytes: encrypted, in base64, with header and tag \
                                   */

const char *const nb_setup_secret_names[_NB_SETUP_SECRET_N] = {
        [NB_SETUP_TOKEN] = NB_CREDENTIAL_TOKEN,
        [NB_SETUP_TLS_BOOTSTRAP_TOKEN] = NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN,
        [NB_SETUP_KUBECONFIG] = NB_CREDENTIAL_KUBECONFIG,
        [NB_SETUP_CLUSTER_INFO] = NB_CREDENTIAL_CLUSTER_INFO,
};

/* --- systemd-creds --- */

/*
 * Whether this machine has a key to encrypt with: a TPM that can seal, or the host key of `systemd-
 * creds setup`. Encrypting without a key would create a host key on the same disk, which does not
 * protect against readers of that disk. Only the administrator can decide that.
 */
static bool has_key(void) {
        static const char *const has_tpm[] = { "systemd-creds", "has-tpm2", "--quiet", NULL };
        struct nb_process_result result;

        return nb_process_run(
                       &(struct nb_process){ .argv = has_tpm, .timeout_ms = NB_PROCESS_TIMEOUT_MS },
                       &result) >= 0 &&
               (result.status == 0 || access(HOST_KEY, F_OK) == 0);
}

/* Runs `systemd-creds VERB`. -EKEYREJECTED if it fails. */
static int run_creds(const char *verb, const char *credential, const struct nb_secret *input,
                     struct nb_secret *ret, struct nb_process_result *result) {
        char name[128];
        const char *const argv[] = { "systemd-creds", verb, name, "--newline=no", "-", "-", NULL };
        int r;

        snprintf(name, sizeof(name), "--name=%s", credential);
        if (nb_secret_init(ret, STORED_MAX) < 0)
                return -ENOMEM;
        r = nb_process_run(&(struct nb_process){ .argv = argv,
                                                 .input = input->data,
                                                 .input_len = input->len,
                                                 .output = ret,
                                                 .timeout_ms = NB_PROCESS_TIMEOUT_MS },
                           result);
        if (r >= 0 && (result->status != 0 || ret->len == 0))
                r = -EKEYREJECTED;
        if (r < 0)
                nb_secret_done(ret);
        return r;
}

/* --- Reading --- */

static int read_from(const struct nb_setup *setup, const char *folder, const char *name,
                     struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_folder_open_below(setup->root, folder, &fd);

        if (r >= 0)
                r = nb_file_read_secret(fd, name, STORED_MAX, ret, NULL);
        if (r < 0 && r != -ENOENT)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r, "cannot read '%s/%s': %m",
                                      folder, name);
        return r;
}

int nb_setup_read_stored(const struct nb_setup *setup, const char *name, struct nb_secret *ret,
                         struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT;
        struct nb_process_result result;
        int r;

        r = read_from(setup, STORE, name, ret, f);
        if (r != -ENOENT)
                return r;
        r = read_from(setup, STORE_ENCRYPTED, name, &ciphertext, f);
        if (r < 0)
                return r;
        return setup->root || run_creds("decrypt", name, &ciphertext, ret, &result) < 0
                       ? -EKEYREJECTED
                       : 0;
}

/* --- Writing --- */

static const char *find_missing_folder(void) {
        for (size_t i = 0; i < NB_SETTINGS_FOLDERS_N; i++)
                if (access(nb_settings_folders[i], F_OK) < 0)
                        return nb_settings_folders[i];
        return NULL;
}

/* The unit cannot create these folders. A boot does it, with the owners and modes of tmpfiles.d. */
static int make_folders(struct nb_failure *f) {
        static const char *const argv[] = { "systemd-tmpfiles", "--create", "node-bootstrap.conf",
                                            NULL };
        struct nb_process_result result = { .error = "" };
        const char *missing = find_missing_folder();
        int r;

        if (!missing)
                return 0;
        r = nb_process_run(
                &(struct nb_process){ .argv = argv, .timeout_ms = NB_PROCESS_TIMEOUT_MS }, &result);
        missing = find_missing_folder();
        if (!missing)
                return 0;
        return nb_failure_set(f, NB_DIRECTORY_MISSING, r,
                              "systemd-tmpfiles does not create '%s': %s", missing,
                              r < 0 ? strerror(-r) : result.error);
}

struct file {
        const char *folder, *name;
        mode_t mode;
        const void *data; /* of no bytes: the file is removed */
        size_t len;
};

/* Makes the folder accessible to other users only if they may read the file. */
static int put_file(const struct nb_setup *setup, const struct file *file, struct nb_failure *f) {
        const char *root = setup->root ? setup->root : "",
                   *did = file->len > 0 ? "wrote  " : "removed",
                   *would = file->len > 0 ? "would write  " : "would remove ";
        _cleanup_(nb_closep) int fd = -1;
        int r = 0;

        if (file->len == 0) {
                r = nb_folder_open_below(setup->root, file->folder, &fd);
                if (r == -ENOENT ||
                    (r >= 0 && faccessat(fd, file->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0))
                        return 0;
                if (r >= 0 && !setup->is_rehearsal)
                        r = nb_file_remove(fd, file->name);
        } else if (!setup->is_rehearsal) {
                r = nb_folder_make(setup->root, file->folder, file->mode == 0600 ? 0700 : 0755,
                                   &fd);
                if (r >= 0)
                        r = nb_file_write(fd, file->name, file->mode, file->data, file->len);
        }
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_UNWRITABLE, r, "cannot write '%s%s/%s': %m", root,
                                      file->folder, file->name);
        printf("%s  %s%s/%s", setup->is_rehearsal ? would : did, root, file->folder, file->name);
        if (setup->is_rehearsal && file->len > 0)
                printf(" (mode %04o, owner %u)", file->mode, setup->root ? (unsigned)geteuid() : 0);
        printf("\n");
        return 0;
}

static int remove_secret(const struct nb_setup *setup, const char *name, struct nb_failure *f) {
        int r = put_file(setup, &(struct file){ STORE, name }, f);

        return r < 0 ? r : put_file(setup, &(struct file){ STORE_ENCRYPTED, name }, f);
}

/* Which of the plain and the encrypted form takes precedence depends on the version of systemd, so
 * only one of them is left. */
static int write_secret(const struct nb_setup *setup, enum nb_setup_secret secret,
                        bool is_encrypted, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT;
        const struct nb_secret *data = &setup->secrets[secret];
        struct file file = { .name = nb_setup_secret_names[secret], .mode = 0600 },
                    other = { .name = file.name };
        struct nb_process_result result;
        int r = 0;

        if (is_encrypted && !setup->is_rehearsal) {
                r = run_creds("encrypt", file.name, data, &ciphertext, &result);
                if (r < 0 && r != -EKEYREJECTED)
                        return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r,
                                              "cannot run systemd-creds: %m");
                if (r < 0)
                        nb_log(LOG_WARNING, NB_NONE,
                               "systemd-creds cannot encrypt here; the credential %s is stored as "
                               "plain text: %s",
                               file.name, result.error);
                is_encrypted = r >= 0;
                data = is_encrypted ? &ciphertext : data;
        }
        file.folder = is_encrypted ? STORE_ENCRYPTED : STORE;
        file.data = data->data;
        file.len = data->len;
        other.folder = is_encrypted ? STORE : STORE_ENCRYPTED;
        r = put_file(setup, &file, f);
        return r < 0 ? r : put_file(setup, &other, f);
}

/*
 * Before systemd 254 the unit has LoadCredential= for each name, which does not search
 * credstore.encrypted, so a LoadCredentialEncrypted= for the same name replaces it. Since systemd
 * 254, ImportCredential= finds both.
 */
static int write_drop_in(const struct nb_setup *setup, bool can_encrypt, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        struct file file = { DROP_IN_FOLDER, DROP_IN, 0644 };
        _cleanup_(nb_closep) int fd = -1;

        (void)nb_folder_open_below(setup->root, STORE_ENCRYPTED, &fd);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !NB_CREDENTIALS_ARE_IMPORTED; i++) {
                const char *name = nb_setup_secret_names[i];
                bool is_encrypted = fd >= 0 && faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;

                if (setup->is_rehearsal && setup->steps[i] != NB_SETUP_KEEP)
                        is_encrypted = setup->steps[i] == NB_SETUP_WRITE && can_encrypt;
                if (is_encrypted)
                        nb_buffer_printf(
                                &text, "%sLoadCredentialEncrypted=%s:" STORE_ENCRYPTED "/%s\n",
                                text.len > 0 ? "" : NB_SETUP_HEADER "[Service]\n", name, name);
        }
        if (text.error < 0)
                return nb_failure_set_memory(f);
        file.data = text.data;
        file.len = text.len;
        return put_file(setup, &file, f);
}

/*
 * After a crash, the token of one cluster must not be present with the settings of another, which
 * would receive the token. So the old credentials are removed before the settings change, and the
 * new ones are written afterwards. In between, `join` fails because there is no token.
 */
int nb_setup_write(const struct nb_setup *setup, struct nb_failure *f) {
        char folder[NB_SETUP_PATH_SIZE];
        const struct file document = { folder, NB_SETUP_DOCUMENT, 0644, setup->document.data,
                                       setup->document.len };
        _cleanup_(nb_closep) int store_fd = -1;
        bool can_encrypt = false;
        int r = 0;

        r = setup->root || setup->is_rehearsal || setup->is_start_unwanted ? 0 : make_folders(f);
        if (r < 0)
                return r;
        snprintf(folder, sizeof(folder), "%s/config.yaml.d", setup->config_directory);
        if (setup->n_steps > 0 && setup->has_new_secret) {
                /* An image is read on another machine, which does not have this machine's key. */
                can_encrypt = !setup->root && has_key();
                /* Create the folder before anything changes: in an image, a link may be in its
                 * place. */
                r = setup->is_rehearsal ? 0 : nb_folder_make(setup->root, STORE, 0700, &store_fd);
                if (r < 0)
                        return nb_failure_set(f, NB_SETUP_UNWRITABLE, r,
                                              "cannot write '%s" STORE "': %m",
                                              setup->root ? setup->root : "");
        }
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                if (setup->steps[i] == NB_SETUP_KEEP || !setup->is_document_new ||
                    setup->is_rehearsal)
                        continue;
                r = remove_secret(setup, nb_setup_secret_names[i], f);
                if (r < 0)
                        return r;
        }
        r = setup->is_document_new ? put_file(setup, &document, f) : 0;
        if (r < 0 || setup->n_steps == 0)
                return r;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                if (setup->steps[i] != NB_SETUP_WRITE)
                        continue;
                r = write_secret(setup, i, can_encrypt, f);
                if (r < 0)
                        return r;
        }
        /* With the settings unchanged, a credential is removed only once the new one is written. */
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                if (setup->steps[i] != NB_SETUP_REMOVE)
                        continue;
                r = remove_secret(setup, nb_setup_secret_names[i], f);
                if (r < 0)
                        return r;
        }
        return write_drop_in(setup, can_encrypt, f);
}
