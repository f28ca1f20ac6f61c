/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Handoffs: the files that the network side writes for install (joined.json, refreshed.json). */

#include <stdbool.h>

#include "kube_objects/csr.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/kubeconfig.h"
#include "state_files/record.h"
#include "state_files/state_file.h"

struct nb_handoff {
        char *certificate; /* PEM chain, leaf first; in refreshed.json only if renewed */
        char *serving; /* from a supervisor of k3s: kubelet's serving certificate, for the same key;
                        * otherwise NULL */
        struct nb_cluster cluster; /* `ca` is "" for the CAs of the system */
        struct nb_provenance provenance;
};

void nb_handoff_done(struct nb_handoff *handoff);

/* joined.json and refreshed.json, each a struct nb_handoff. The latter has the cluster that a
 * refresh has found, and the certificates that it has renewed. NB_HANDOFF_MALFORMED; for server,
 * tlsServerName and proxyURL NB_HANDOFF_UNTRUSTED. */
extern const struct nb_state_file nb_handoff_file, nb_refresh_file;

enum nb_node_state {
        NB_NODE_STATE_USABLE,
        NB_NODE_STATE_NOT_YET_VALID, /* the clock is wrong, not the certificate */
        NB_NODE_STATE_ABSENT,
        NB_NODE_STATE_EXPIRED,
        NB_NODE_STATE_COPIED,        /* it belongs to the machine of which this one is a copy */
        NB_NODE_STATE_OTHER_NODE,    /* the settings have another node name */
        NB_NODE_STATE_OTHER_CLUSTER, /* the settings have hashes of another cluster */
        NB_NODE_STATE_UNREADABLE,
        NB_NODE_STATE_WITHOUT_KUBECONFIG, /* the certificate store has a usable certificate */
        NB_NODE_STATE_NOT_ROTATABLE, /* usable until it expires, but kubelet needs a link to rotate
                                        it */
        _NB_NODE_STATE_N,
};

/* If joining again fails, the certificate can still be used. */
bool nb_node_state_has_fallback(enum nb_node_state state);

/* kubelet waits for the join, and its certificate is still valid: a new cluster that does not
 * answer must not keep kubelet down. */
#define NB_FALLBACK_TIMEOUT_MS 60000

struct nb_inspection {
        enum nb_node_state state;
        char node[NB_NODE_NAME_MAX + 1]; /* of the certificate, or of the record; "" for none */
        bool is_copy;       /* of the machine in the record (node_state/machine_facts.h) */
        bool is_maybe_copy; /* if facts that are unknown now differ too */
        bool is_renamed;    /* the node was named after another host name */
        char changed[32]; /* the only fact that differs from the record: "machine ID"; "" for none.
                             If the settings named the node, the host name is ignored. */
        char not_after[32]; /* RFC 3339; "" if unknown */
        char detail[NB_FAILURE_DETAIL_MAX];
};
