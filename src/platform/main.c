/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform: runs as root before the join, and reads the data of the platform that the join's
 * sandbox hides (collect.h). It opens no network connection.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/macro.h"
#include "os/options.h"
#include "os/sources.h"
#include "platform/collect.h"
#include "systemd/log.h"

static const char usage[] =
        "platform [OPTION...]\n\n"
        "Run by node-bootstrap-platform.service before the join. Do not run it yourself.\n";

int main(int argc, char *argv[]) {
        struct nb_options options = NB_OPTIONS_INIT(usage, argc, argv);
        const struct nb_option rows[] = { { NULL } };
        _cleanup_(nb_closep) int folder_fd = -1;
        struct nb_failure f = { 0 };
        int r;

        /* The token may pass through this process. */
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)umask(0077);
        nb_log_init("node-bootstrap-platform");
        r = nb_options_read(&options, rows, &f);
        if (r == -ECANCELED)
                return EXIT_SUCCESS;
        nb_log_field(NB_FIELD_STAGE, "platform");
        if (r >= 0)
                r = nb_sources_folder("RUNTIME_DIRECTORY", &folder_fd, &f);
        if (r >= 0)
                r = nb_collect(&nb_places, folder_fd, &f);
        if (r >= 0)
                return EXIT_SUCCESS;
        nb_log_failure(LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
