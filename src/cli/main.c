/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/failure.h"
#include "base/log.h"
#include "cli/options.h"

int main(int argc, char **argv) {
        /* Tokens and keys pass through this process: no core dumps, and no debugger of the same
         * user. */
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return nb_failure_info(NB_INTERNAL)->exit_status;
        (void)umask(0022);
        nb_log_init("node-bootstrap");
        return nb_run(argc, argv);
}
