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
#include "verb/setup_internal.h"

#define PATH_SIZE 4096
#define STORE "/etc/credstore"
#define STORE_ENCRYPTED "/etc/credstore.encrypted"
#define HOST_KEY "/var/lib/systemd/credential.secret"
#define DROP_IN_FOLDER "/etc/systemd/system/" NB_SETUP_UNIT ".d"
#define DROP_IN "50-setup.conf"
#define CIPHERTEXT_MAX (2 * NB_SETUP_SECRET_MAX) /* in base64, with header and tag */

static const char *const names[_NB_SETUP_SECRET_N] = {
        [NB_SETUP_TOKEN] = "node-bootstrap.token",
        [NB_SETUP_TLS_BOOTSTRAP_TOKEN] = "node-bootstrap.tls-bootstrap-token",
        [NB_SETUP_KUBECONFIG] = "node-bootstrap.kubeconfig",
        [NB_SETUP_CLUSTER_INFO] = "node-bootstrap.cluster-info",
};

const char *nb_setup_secret_name(enum nb_setup_secret secret) {
        return names[secret];
}

static int unwritable(const struct nb_setup *setup, const char *folder, const char *name, int r, struct nb_failure *f) {
        errno = -r;
        return nb_failure_set(f, NB_SETUP_UNWRITABLE, -r, "'%s%s%s%s' cannot be written: %m", setup->root ? setup->root : "", folder, name[0] ? "/" : "", name);
}

static int open_folder(const struct nb_setup *setup, const char *folder, int *ret_fd) {
        return nb_folder_open_below(setup->root, folder, ret_fd);
}

/* --- systemd-creds --- */

static int name_argument(enum nb_setup_secret secret, char ret[static 128]) {
        return snprintf(ret, 128, "--name=%s", names[secret]);
}

/*
 * A key of this machine: a TPM that can seal, or the host key that `systemd-creds setup` makes. Encrypting would make that
 * key as well, but on the same disk, where it protects from nobody who reads the disk: that is not for us to decide.
 */
static bool has_key(void) {
        static const char *const has_tpm[] = { "systemd-creds", "has-tpm2", "--quiet", NULL };
        struct nb_process_result result;

        if (nb_process_run(has_tpm, NULL, 0, NULL, &result) < 0)
                return false;
        return result.status == 0 || access(HOST_KEY, F_OK) == 0;
}

static int encrypt(enum nb_setup_secret secret, const struct nb_secret *value, struct nb_secret *ciphertext) {
        char name[128];
        const char *const argv[] = { "systemd-creds", "encrypt", name, "-", "-", NULL };
        struct nb_process_result result;
        int r;

        (void)name_argument(secret, name);
        r = nb_secret_init(ciphertext, CIPHERTEXT_MAX);
        if (r >= 0)
                r = nb_process_run(argv, value->data, value->len, ciphertext, &result);
        if (r >= 0 && (result.status != 0 || ciphertext->len == 0)) {
                nb_log(LOG_WARNING, NB_NONE, "systemd-creds does not encrypt here, so the credential %s is stored as it is: %s", names[secret], result.error);
                return -EKEYREJECTED;
        }
        return r;
}

static int decrypt(enum nb_setup_secret secret, const struct nb_secret *ciphertext, struct nb_secret *ret) {
        char name[128];
        const char *const argv[] = { "systemd-creds", "decrypt", name, "--newline=no", "-", "-", NULL };
        struct nb_process_result result = { 0 };
        int r;

        (void)name_argument(secret, name);
        r = nb_secret_init(ret, NB_SETUP_SECRET_MAX);
        if (r >= 0)
                r = nb_process_run(argv, ciphertext->data, ciphertext->len, ret, &result);
        return r < 0 || result.status != 0 ? -EKEYREJECTED : 0;
}

/* --- Reading --- */

static int read_from(const struct nb_setup *setup, const char *folder, enum nb_setup_secret secret, size_t max, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        r = open_folder(setup, folder, &fd);
        if (r >= 0)
                r = nb_file_read_secret(fd, names[secret], max, ret, NULL);
        if (r < 0 && r != -ENOENT) {
                errno = -r;
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, -r, "'%s/%s' cannot be read: %m", folder, names[secret]);
        }
        return r;
}

int nb_setup_read_stored(const struct nb_setup *setup, enum nb_setup_secret secret, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT, text = NB_SECRET_INIT;
        int r;

        r = read_from(setup, STORE, secret, NB_SETUP_SECRET_MAX, ret, f);
        if (r != -ENOENT)
                return r;
        r = read_from(setup, STORE_ENCRYPTED, secret, CIPHERTEXT_MAX, &ciphertext, f);
        if (r < 0)
                return r;
        if (setup->root)
                return -EKEYREJECTED;
        r = decrypt(secret, &ciphertext, &text);
        if (r < 0)
                return r;
        *ret = text;
        text = (struct nb_secret)NB_SECRET_INIT;
        return 0;
}

/* --- Writing --- */

static int write_file(const struct nb_setup *setup, const char *folder, mode_t folder_mode, const char *name, mode_t mode, const void *data, size_t len,
                      struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r;

        if (setup->is_rehearsal) {
                (void)printf("would write    %s%s/%s (mode %04o, owner %u)\n", setup->root ? setup->root : "", folder, name, mode, setup->root ? (unsigned)geteuid() : 0);
                return 0;
        }
        r = nb_folder_make(setup->root, folder, folder_mode, &fd);
        if (r < 0)
                return unwritable(setup, folder, "", r, f);
        r = nb_file_write(fd, name, mode, data, len);
        if (r < 0)
                return unwritable(setup, folder, name, r, f);
        (void)printf("wrote    %s%s/%s\n", setup->root ? setup->root : "", folder, name);
        return 0;
}

static int remove_file(const struct nb_setup *setup, const char *folder, const char *name, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        int r = open_folder(setup, folder, &fd);

        if (r == -ENOENT)
                return 0;
        if (r < 0 || faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
                return r < 0 ? unwritable(setup, folder, "", r, f) : 0;
        if (setup->is_rehearsal) {
                (void)printf("would remove   %s%s/%s\n", setup->root ? setup->root : "", folder, name);
                return 0;
        }
        r = nb_file_remove(fd, name);
        if (r < 0)
                return unwritable(setup, folder, name, r, f);
        (void)printf("removed  %s%s/%s\n", setup->root ? setup->root : "", folder, name);
        return 0;
}

/* Written in one form, it must not stay in the other: which of the two counts depends on the version of systemd. */
static int write_secret(const struct nb_setup *setup, enum nb_setup_secret secret, bool is_key_there, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret ciphertext = NB_SECRET_INIT;
        const struct nb_secret *value = &setup->secrets[secret];
        bool is_encrypted = false;
        int r = 0;

        if (setup->is_rehearsal) {
                is_encrypted = is_key_there;
        } else if (is_key_there) {
                r = encrypt(secret, value, &ciphertext);
                if (r < 0 && r != -EKEYREJECTED)
                        return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, -r, "systemd-creds cannot be run");
                is_encrypted = r >= 0;
        }
        if (is_encrypted)
                r = write_file(setup, STORE_ENCRYPTED, 0700, names[secret], 0600, ciphertext.data, ciphertext.len, f);
        else
                r = write_file(setup, STORE, 0700, names[secret], 0600, value->data, value->len, f);
        return r < 0 ? r : remove_file(setup, is_encrypted ? STORE : STORE_ENCRYPTED, names[secret], f);
}

#if !NB_CREDENTIALS_ARE_IMPORTED
/* As it is, when all was written; in a rehearsal as it would be. */
static bool is_encrypted_then(const struct nb_setup *setup, const struct nb_setup_plan *plan, unsigned secret, bool is_key_there, int store_fd) {
        if (setup->is_rehearsal && plan->secret_steps[secret] != NB_SETUP_KEEP)
                return plan->secret_steps[secret] == NB_SETUP_WRITE && is_key_there;
        return store_fd >= 0 && faccessat(store_fd, names[secret], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}
#endif

/*
 * Below systemd 254 the unit has LoadCredential= for each name, which does not look into credstore.encrypted; a
 * LoadCredentialEncrypted= for the same name takes its place. From 254 on ImportCredential= serves both.
 */
static int write_drop_in(const struct nb_setup *setup, const struct nb_setup_plan *plan, bool is_key_there, struct nb_failure *f) {
#if NB_CREDENTIALS_ARE_IMPORTED
        return remove_file(setup, DROP_IN_FOLDER, DROP_IN, f);
#else
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(4096);
        _cleanup_(nb_closep) int fd = -1;
        bool is_needed = false;
        int r;

        r = nb_buffer_append_string(&text, "# Written by `node-bootstrap setup`, which replaces it.\n[Service]\n");
        (void)open_folder(setup, STORE_ENCRYPTED, &fd);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++) {
                if (!is_encrypted_then(setup, plan, i, is_key_there, fd))
                        continue;
                is_needed = true;
                r = nb_buffer_printf(&text, "LoadCredentialEncrypted=%s:" STORE_ENCRYPTED "/%s\n", names[i], names[i]);
        }
        if (r < 0)
                return nb_failure_set_memory(f);
        if (!is_needed)
                return remove_file(setup, DROP_IN_FOLDER, DROP_IN, f);
        return write_file(setup, DROP_IN_FOLDER, 0755, DROP_IN, 0644, text.data, text.len, f);
#endif
}

static int write_secrets(const struct nb_setup *setup, const struct nb_setup_plan *plan, struct nb_failure *f) {
        bool is_changed = false, is_key_there = false;
        int r = 0;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++) {
                if (plan->secret_steps[i] == NB_SETUP_KEEP)
                        continue;
                /* What is written into an image is read elsewhere, where this machine's key is not. */
                if (!is_changed)
                        is_key_there = !setup->root && has_key();
                is_changed = true;
                if (plan->secret_steps[i] == NB_SETUP_WRITE) {
                        r = write_secret(setup, (enum nb_setup_secret)i, is_key_there, f);
                        continue;
                }
                r = remove_file(setup, STORE, names[i], f);
                if (r >= 0)
                        r = remove_file(setup, STORE_ENCRYPTED, names[i], f);
        }
        return r < 0 || !is_changed ? r : write_drop_in(setup, plan, is_key_there, f);
}

static int withdraw_secret(const struct nb_setup *setup, enum nb_setup_secret secret, struct nb_failure *f) {
        int r = remove_file(setup, STORE, names[secret], f);

        return r < 0 ? r : remove_file(setup, STORE_ENCRYPTED, names[secret], f);
}

/* Before anything changes: an image may have a link where the folder is to be. */
static int prepare_store(const struct nb_setup *setup, const struct nb_setup_plan *plan, struct nb_failure *f) {
        bool is_needed = false;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && !setup->is_rehearsal; i++)
                is_needed = is_needed || plan->secret_steps[i] == NB_SETUP_WRITE;
        if (is_needed) {
                _cleanup_(nb_closep) int fd = -1;
                int r = nb_folder_make(setup->root, STORE, 0700, &fd);

                return r < 0 ? unwritable(setup, STORE, "", r, f) : 0;
        }
        return 0;
}

/*
 * A crash in between must not leave the token of one cluster beside the settings of another, which would be shown it. So old
 * credentials go before the settings change, and new ones come after: in between `join` has none, and says so.
 */
int nb_setup_write(const struct nb_setup *setup, const struct nb_setup_plan *plan, struct nb_failure *f) {
        char folder[PATH_SIZE];
        int r = prepare_store(setup, plan, f);

        if (r >= 0 && plan->document_step == NB_SETUP_WRITE) {
                for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++)
                        if (plan->secret_steps[i] != NB_SETUP_KEEP && !setup->is_rehearsal)
                                r = withdraw_secret(setup, (enum nb_setup_secret)i, f);
                (void)snprintf(folder, sizeof(folder), "%s/config.yaml.d", setup->config_directory);
                if (r >= 0)
                        r = write_file(setup, folder, 0755, NB_SETUP_DOCUMENT, 0644, plan->document.data, plan->document.len, f);
        }
        return r < 0 ? r : write_secrets(setup, plan, f);
}

int nb_setup_erase(const struct nb_setup *setup, struct nb_failure *f) {
        char folder[PATH_SIZE];
        int r;

        (void)snprintf(folder, sizeof(folder), "%s/config.yaml.d", setup->config_directory);
        r = remove_file(setup, folder, NB_SETUP_DOCUMENT, f);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++) {
                r = remove_file(setup, STORE, names[i], f);
                if (r >= 0)
                        r = remove_file(setup, STORE_ENCRYPTED, names[i], f);
        }
        return r < 0 ? r : remove_file(setup, DROP_IN_FOLDER, DROP_IN, f);
}
