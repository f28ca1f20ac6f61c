/* SPDX-License-Identifier: Apache-2.0 */
/*
 * platform: reads, before the join and as root, what of this platform the join's sandbox does not
 * let see (collect.h); and takes, after it, the plaintext of the token away (discard.h). Neither
 * knows anything of clusters, and neither opens a connection.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/sources.h"
#include "platform/collect.h"
#include "platform/discard.h"

static void print_help(void) {
        printf("platform [--discard]\n"
               "\n"
               "What node-bootstrap-platform.service runs before the join. Not for use by hand.\n"
               "\n"
               "  --discard          after the join, where token.discard asks for it: remove the "
               "plaintext of the token\n"
               "  --help, --version\n");
}

/* 1: go on; 0: everything is said. */
static int parse_arguments(int argc, char *argv[], bool *ret_is_discard, struct nb_failure *f) {
        enum { DISCARD = 0x100, HELP, VERSION };
        static const struct option options[] = {
                { "discard", no_argument, NULL, DISCARD },
                { "help", no_argument, NULL, HELP },
                { "version", no_argument, NULL, VERSION },
                { 0 },
        };
        bool is_discard = false;
        int c;

        opterr = 0;
        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0)
                switch (c) {
                case DISCARD:
                        is_discard = true;
                        break;
                case HELP:
                        print_help();
                        return 0;
                case VERSION:
                        printf("node-bootstrap " NB_VERSION "\n");
                        return 0;
                default:
                        return nb_failure_set(f, NB_USAGE, EINVAL,
                                              "'%s' is no option of this program",
                                              argv[optind - 1]);
                }
        if (optind < argc)
                return nb_failure_set(f, NB_USAGE, EINVAL, "no argument is expected, found '%s'",
                                      argv[optind]);
        *ret_is_discard = is_discard;
        return 1;
}

static int collect(struct nb_failure *f) {
        _cleanup_(nb_closep) int folder_fd = -1;
        int r = nb_sources_folder("RUNTIME_DIRECTORY", &folder_fd, f);

        return r < 0 ? r : nb_collect(&nb_places, folder_fd, f);
}

static int discard(struct nb_failure *f) {
        _cleanup_(nb_closep) int lock_fd = -1;
        int r = nb_lock_take(NULL, &lock_fd, f);

        return r < 0 ? r : nb_discard(&nb_discard_places, f);
}

int main(int argc, char *argv[]) {
        struct nb_failure f = { 0 };
        bool is_discard = false;
        int r;

        /* The token may pass through this process. */
        (void)prctl(PR_SET_DUMPABLE, 0);
        (void)umask(0077);
        nb_log_init("node-bootstrap-platform");
        r = parse_arguments(argc, argv, &is_discard, &f);
        if (r == 0)
                return EXIT_SUCCESS;
        if (r > 0) {
                nb_log_field(NB_FIELD_STAGE, "%s", is_discard ? "discard" : "platform");
                r = is_discard ? discard(&f) : collect(&f);
        }
        if (r >= 0)
                return EXIT_SUCCESS;
        /* After a join that is complete it is a warning, and no failure of the unit. */
        nb_log_failure(is_discard ? LOG_WARNING : LOG_ERR, &f);
        return nb_failure_info(f.code)->exit_status;
}
