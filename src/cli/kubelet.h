/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Checks whether kubelet can start on this machine, without starting it: its unit and binary,
 * configuration file, node name, container runtime socket, and swap. Used by `check` and `setup`.
 */

#include "os/sources.h"
#include "settings/kubelet_unit.h"
#include "settings/settings.h"
#include "state_files/last.h"
#include "systemd/unit.h"

#define NB_KUBELET_FINDINGS_MAX 16
#define NB_KUBELET_TEXT_SIZE 1024
#define NB_KUBELET_HEALTH_SIZE 64

struct nb_kubelet_finding {
        enum {
                NB_KUBELET_GOOD,
                NB_KUBELET_DOUBT, /* a warning, or cannot be determined */
                NB_KUBELET_BAD,   /* kubelet cannot start */
        } state;
        bool is_contradiction; /* kubelet starts, but its settings do not fit the kind of cluster */
        enum nb_code code;     /* of NB_KUBELET_BAD: it has the remedy */
        char text[NB_KUBELET_TEXT_SIZE];
};

struct nb_kubelet_findings {
        struct nb_kubelet_finding findings[NB_KUBELET_FINDINGS_MAX];
        unsigned n;
        /* Where a kubelet that runs answers GET /healthz: "127.0.0.1:10248"; "": nowhere */
        char health[NB_KUBELET_HEALTH_SIZE];
};

/* `unit` is that of nb_kubelet_show(); `refused` says why the settings may be incomplete, or is
 * NB_NONE; `last` is that of nb_last_read(), or NULL for setup, which starts a join next. 0 or
 * -ENOMEM. */
int nb_kubelet_check(struct nb_sources *sources, const struct nb_unit *unit,
                     const struct nb_settings *settings, enum nb_code refused,
                     const struct nb_last *last, struct nb_kubelet_findings *ret_findings);

/* For setup, which then starts the join: prints why kubelet cannot start, or what contradicts the
 * kind of cluster, as far as this can be seen. */
void nb_kubelet_print_causes(const struct nb_settings *settings);

/* For the end of setup: prints that the next boot does not start kubelet, if it is disabled. */
void nb_kubelet_print_next_boot(void);
