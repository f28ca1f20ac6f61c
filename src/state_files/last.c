/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/secret.h"
#include "state_files/last.h"

void nb_last_read(int root_fd, const struct nb_unit_state *service, struct nb_last *ret_last) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };

        *ret_last = (struct nb_last){ 0 };
        if (nb_path_read(root_fd, NB_LAST_FOLDER "/" NB_LAST_NAME, NB_HANDOFF_MAX, &text) >= 0 &&
            nb_state_file_parse(&nb_last_file, text.data, text.len, ret_last, &ignored) >= 0 &&
            service->active[0] && strcmp(service->invocation, ret_last->invocation) != 0)
                *ret_last = (struct nb_last){ 0 };
}

bool nb_last_is(const struct nb_last *last, const char *state) {
        return !strcmp(last->state, state);
}

void nb_last_adopt_fields(const struct nb_last *last) {
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                nb_log_field((enum nb_field)i, "%s", last->fields[i]);
}
