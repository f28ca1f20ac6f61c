/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "format/handoff.h"
#include "stage/internal.h"

static int unwritable(int r, struct nb_failure *f) {
        errno = -r;
        return nb_failure_set(f, NB_STATE_UNWRITABLE, -r, "'%s' in the state directory: %m", NB_PENDING_KEY_FILE);
}

/* 1: there is one that can be used; 0: there is none, or none that can be used. */
static int read_key(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_file_read_secret(join->state_fd, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem, NULL);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = nb_key_import(pem.data, pem.len, &key);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || !nb_key_is_p256(key)) {
                nb_log(LOG_WARNING, NB_KEY_DROPPED, "'%s' in the state directory is damaged; making a new key", NB_PENDING_KEY_FILE);
                return 0;
        }
        join->key = TAKE(key);
        return 1;
}

static int make_key(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_key_generate(&key);
        if (r >= 0)
                r = nb_key_export(key, &pem);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the node's key cannot be made");
        r = nb_file_write(join->state_fd, NB_PENDING_KEY_FILE, 0600, pem.data, pem.len);
        if (r < 0)
                return unwritable(r, f);
        join->key = TAKE(key);
        return 0;
}

int nb_pending_key_take(struct nb_join *join, struct nb_failure *f) {
        int r;

        if (join->key)
                return 0;
        r = read_key(join, f);
        if (r != 0)
                return r < 0 ? r : 0;
        return make_key(join, f);
}

int nb_pending_key_drop(struct nb_join *join, struct nb_failure *f) {
        int r;

        nb_key_free(TAKE(join->key));
        r = nb_file_remove(join->state_fd, NB_PENDING_KEY_FILE);
        return r < 0 ? unwritable(r, f) : 0;
}
