/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What install passes to a child: the settled settings, so that the network side merges none; what
 * it has found on this machine; and in sealed memory, as all sources, the tokens in documents and
 * in metadata.
 */

#include "base/failure.h"
#include "os/sources.h"
#include "settings/settings.h"
#include "state_files/handoff.h"

struct nb_plan {
        enum nb_node_state state;
        char valid_until[32];            /* of the certificate, RFC 3339; "" if unknown */
        char name[NB_NODE_NAME_MAX + 1]; /* of the node, unless settings or metadata have one; "" */
        uint64_t started_ms;             /* nb_now_ms(): from when the timeout counts */
        uint64_t metadata_usec;          /* how long reading metadata took */
        struct nb_settings settings;     /* its timeout is that of the child */
        char discovery_origin[128], tls_bootstrap_origin[128]; /* of the tokens */
};

/* Adds the plan to `sources`. `tokens` may be NULL. 0, -ENOMEM. */
int nb_plan_put(struct nb_sources *sources, const struct nb_plan *plan,
                const struct nb_settings_tokens *tokens);

/* Receives what install passes into `sources`, and takes the plan from there; ret->settings refers
 * to *ret_tokens. NB_USAGE if there is none: somebody has typed a command that only install runs.
 * Failures of nb_sources_receive(); -ENOMEM. */
int nb_plan_take(struct nb_sources *sources, struct nb_plan *ret,
                 struct nb_settings_tokens *ret_tokens, struct nb_failure *f);
