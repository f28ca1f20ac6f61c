/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files that an earlier join, or kubeadm, left on this machine, and classifies whether
 * they are usable. The classification depends on its arguments only.
 *
 * The rule is kubelet's own (isClientConfigStillValid): a kubeconfig with client certificate and
 * key, and no certificate of the chain past NotAfter. In addition the certificate must be for a
 * node, in a form that kubelet can renew, and this machine must not be a copy of the one that
 * joined (node_state/machine_facts.h). The name of the node is fixed at the join.
 */

#include <stdbool.h>
#include <time.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "node_state/context.h"
#include "node_state/machine_facts.h"
#include "settings/kubelet_env.h"
#include "state_files/handoff.h"
#include "state_files/record.h"

struct nb_present {
        enum nb_node_state state; /* NB_NODE_STATE_USABLE if everything could be read */
        struct nb_failure why;    /* its detail: the reason for any other state */
        /* With another state: of kubelet's certificate store, or NULL. */
        struct nb_certificates *chain;
        struct nb_key *key; /* NULL with a chain: the key has a type that only kubelet supports */
        bool is_link_lost;  /* `chain` was read from the path in the record */
        bool is_file; /* the kubeconfig names kubelet-client-current.pem, and it is not a link */
        struct nb_certificates *ca; /* NULL if the CA file cannot be read */
        bool is_ca_lost;            /* so, although a join wrote it and the kubeconfig names it */
        bool has_record;
        struct nb_failure record_why; /* why the record cannot be read; NB_NONE: there is none */
        struct nb_record record;      /* of our last join */
};

/* Reads what the files at `paths` lead to. Fails with NB_TARGET_NOT_KUBECONFIG if the file at that
 * path is not a kubeconfig; it must not be overwritten. Release `present` with nb_present_done()
 * even after a failure. */
int nb_present_read(int root_fd, const struct nb_kubelet_paths *paths, struct nb_present *present,
                    struct nb_failure *f);
void nb_present_done(struct nb_present *present);

/* No join is needed: usable, or not yet valid. */
bool nb_node_state_is_joined(enum nb_node_state state);

/* Needs no join, or keeps its certificate if joining again fails. */
bool nb_inspection_is_kept(const struct nb_inspection *inspection);

/* For node-renamed: what has changed, and the node's name. */
#define NB_NODE_RENAMED_FORMAT \
        "the %s of this machine differs from that of the join: the machine stays node '%s'"

/* What is on the disk of this machine. */
struct nb_node {
        int root_fd; /* borrowed */
        time_t now;
        struct nb_kubelet_paths paths;
        bool is_env_current;   /* node-bootstrap.env is complete, and has these paths */
        struct nb_facts facts; /* of this machine, now */
        struct nb_present present;
        struct nb_inspection inspection;
};

/*
 * Whether the certificate on disk can be used: the same answer for the gate, the service, and every
 * command that shows it. Reads certificate, key, kubeconfig, record, and the facts about this
 * machine, but no settings and no credential, which may be damaged or missing. The paths are those
 * in node-bootstrap.env, or the default ones. Writes nothing. Fails as nb_present_read(). Release
 * `node` with nb_node_done() even then.
 */
int nb_node_inspect_disk(int root_fd, struct nb_node *ret_node, struct nb_failure *f);

/* Sets node->inspection from all other members. Pure. */
void nb_node_classify(struct nb_node *node);

/*
 * Whether the settings require another join although the certificate can be used: they have another
 * node name, or hashes of another cluster. If so, changes node->inspection: the certificate is the
 * fallback. Without a record, the settings are not compared with the cluster.
 */
void nb_node_apply_settings(struct nb_node *node, const struct nb_context *context);

/* The name under which this machine has joined. "" if nothing says that it was this machine: then
 * its host name names the node. */
const char *nb_node_fixed_name(const struct nb_node *node);

/*
 * For the service, with a loaded context: as nb_node_inspect_disk(), but if node-bootstrap.env is
 * missing, or its paths lead to no certificate that is kept, looks at the paths of the settings.
 * Sets paths and node name of `context`, and applies its settings. Also fails as
 * nb_context_choose_name().
 */
int nb_node_inspect(struct nb_context *context, struct nb_node *ret_node, struct nb_failure *f);

/* Records this machine as the one that joined. There must be a record. 0, -errno. */
int nb_node_record_facts(const struct nb_node *node);

/* Records why the renewal of the certificate failed. There must be a record. 0, -errno. */
int nb_node_record_renewal(const struct nb_node *node, enum nb_code code);
void nb_node_done(struct nb_node *node);
