/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform: runs as root. Before the join it reads the data of the platform that the join's sandbox
 * hides (collect.h); after the join it removes the plaintext of the token (discard.h). It opens no
 * network connection.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/options.h"
#include "base/sources.h"
#include "platform/collect.h"
#include "platform/discard.h"

static const char usage[] =
        "platform [OPTION...]\n\n"
        "Run by node-bootstrap-platform.service before the join. Not for use by hand.\n";

static int collect_sources(struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        int r = nb_sources_folder("RUNTIME_DIRECTORY", &folder_fd, f);

        return r < 0 ? r : nb_collect(&nb_places, folder_fd, f);
}

static int discard_token(struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        int r = nb_lock_take(NULL, &lock_fd, f);

        return r < 0 ? r : nb_discard(NULL, f);
}

int main(int argc, char *argv[]) {
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
        bool is_discard = false;
        const struct nb_option rows[] = {
                { "discard", NULL,
                  "after the join, if token.discard is set: remove the plaintext of the token",
                  .ret_switch = &is_discard },
                { NULL },
        };
        struct nb_failure f = { 0 };
        int r;

        /* The token may pass through this process. */
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)umask(0077);
        nb_log_init("node-bootstrap-platform");
        r = nb_options_read(&options, rows, &f);
        if (r == -ECANCELED)
                return EXIT_SUCCESS;
        if (r >= 0) {
                nb_log_field(NB_FIELD_STAGE, "%s", is_discard ? "discard" : "platform");
                r = is_discard ? discard_token(&f) : collect_sources(&f);
        }
        if (r >= 0)
                return EXIT_SUCCESS;
        /* The join is complete, so a token that was not removed is a warning and does not fail the
         * unit. */
        nb_log_failure(is_discard ? LOG_WARNING : LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
