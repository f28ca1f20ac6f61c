/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/sources.h"
#include "verb/check_internal.h"
#include "verb/input.h"

bool nb_check_has_user_data(const struct nb_check *check) {
        return check->user_data;
}

bool nb_check_is_here(const struct nb_check *check) {
        return !check->user_data;
}

bool nb_check_has_folder(const struct nb_check *check) {
        return check->config_directory;
}

bool nb_check_is_requesting(const struct nb_check *check) {
        return nb_check_has_request(check) && nb_check_is_here(check);
}

/* A pipe by its name is none: nobody may write to it, and standard input can be one. */
static int read_file(const char *path, struct nb_secret *ret, struct nb_failure *f) {
        int r = nb_sources_read(path, NB_USER_DATA_MAX, ret, NULL);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r == -EBADF)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, -r, "'%s' is no regular file; '--user-data=-' reads standard input", path);
        if (r == -EFBIG)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, -r, "'%s' is larger than %d KiB, which no cloud takes", path, NB_USER_DATA_MAX / 1024);
        errno = -r;
        return r < 0 ? nb_failure_set(f, NB_SETTINGS_UNREADABLE, -r, "'%s' cannot be read: %m", path) : 0;
}

static int judge(const struct nb_check *check, const char *source, struct nb_failure *f) {
        const struct nb_user_data *user_data = &check->load.metadata.user_data;

        if (check->load.has_metadata)
                return 0;
        if (user_data->near_miss[0])
                return nb_failure_set(f, NB_METADATA_NEAR_MISS, 0, "%s holds nothing for this program, and nearly does: %s", source, user_data->near_miss);
        return nb_failure_set(f, NB_METADATA_NOTHING, 0, "%s holds nothing for this program: it is %s", source, user_data->what);
}

static int print(const struct nb_check *check, struct nb_failure *f) {
        const struct nb_load *load = &check->load;
        int r;

        if (!load->is_metadata_wanted) {
                nb_check_row(check, NB_CHECK_DOUBT, "would not be read: %s",
                             load->bootstrap.identity.kind == NB_IDENTITY_NONE ? "metadata.provider is none" : load->bootstrap.identity.source);
                return 0;
        }
        r = nb_check_print_given(check, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_GOOD, "in order");
        return r;
}

int nb_check_user_data(struct nb_check *check, struct nb_failure *f) {
        bool is_stdin = !strcmp(check->user_data, "-");
        const char *source = is_stdin ? "standard input" : check->user_data;
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        int r;

        if (nb_check_has_folder(check) && !check->has_settings) {
                nb_check_row(check, NB_CHECK_NOTE, "not looked at: see above");
                return 0;
        }
        r = is_stdin ? nb_input_read(STDIN_FILENO, source, NB_USER_DATA_MAX, &data, f) : read_file(source, &data, f);
        if (r < 0)
                return r;
        r = nb_load_user_data(&check->load, check->config_directory, source, &data, f);
        if (check->load.metadata.user_data.what[0])
                nb_check_row(check, NB_CHECK_NOTE, "%s: %zu bytes: %s", source, data.len, check->load.metadata.user_data.what);
        if (r >= 0)
                r = judge(check, source, f);
        return r < 0 ? r : print(check, f);
}
