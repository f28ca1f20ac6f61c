/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads the files that an earlier join, or kubeadm, left on this machine, and classifies whether
 * they are usable. The classification depends on its arguments only.
 *
 * The rule is kubelet's own (isClientConfigStillValid): a kubeconfig with client certificate and
 * key, and no certificate of the chain past NotAfter. In addition the certificate must be for this
 * node, not for a cluster that was replaced in the settings, and in a form that kubelet can renew.
 */

#include <stdbool.h>

#include "base/failure.h"
#include "crypto/certificate.h"
#include "crypto/key.h"
#include "files/handoff.h"
#include "files/record.h"
#include "node/context.h"

struct nb_present {
        enum nb_node_state state; /* NB_NODE_STATE_USABLE if everything could be read */
        struct nb_failure why;    /* its detail: the reason for any other state */
        /* With another state: of kubelet's certificate store, or NULL. */
        struct nb_certificates *chain;
        struct nb_key *key; /* NULL with a chain: the key has a type that only kubelet supports */
        bool is_file; /* the kubeconfig names kubelet-client-current.pem, and it is not a link */
        struct nb_certificates *ca; /* NULL if the CA file cannot be read */
        bool has_record;
        struct nb_record record; /* of our last join */
};

/* Fails with NB_TARGET_NOT_KUBECONFIG if the file at that path is not a kubeconfig; it must not be
 * overwritten. Release `present` with nb_present_done() even after a failure. */
int nb_present_read(const struct nb_context *context, struct nb_present *present,
                    struct nb_failure *f);
void nb_present_done(struct nb_present *present);

void nb_present_classify(const struct nb_present *present, const struct nb_context *context,
                         struct nb_inspection *ret_inspection);

/* Whether nb_restore_kubeconfig() can write the kubeconfig of NB_NODE_STATE_WITHOUT_KUBECONFIG: it
 * needs the record, of a version that records proxy and TLS server name, and the CA file unless the
 * last join used the system's CAs. */
bool nb_present_is_mendable(const struct nb_present *present);

/* No join is needed: usable, or not yet valid. */
bool nb_node_state_is_joined(enum nb_node_state state);

/* Needs no join, or keeps its certificate if joining again fails. */
bool nb_inspection_is_kept(const struct nb_inspection *inspection);

/* The state of this machine, as the service would find it at its next start. */
struct nb_node {
        struct nb_context context;
        struct nb_failure settings; /* why the settings cannot be used; NB_NONE: they can */
        struct nb_present present;
        struct nb_inspection inspection;
};

/*
 * Writes nothing. Kubelet must start even if the settings cannot be read: then this looks at the
 * paths of the settings that are valid, and at those that the last join recorded or the default
 * ones; the node name is taken from the certificate, and whether another cluster is configured is
 * not checked. `are_settings_hidden`: only the service can read some of the settings. If the others
 * lead to no certificate that is kept (nb_inspection_is_kept()), this looks at the recorded or
 * default paths in the same way. Fails as nb_present_read(). Release `node` with nb_node_done()
 * even then.
 */
int nb_node_inspect(int root_fd, struct nb_sources *sources, bool are_settings_hidden,
                    struct nb_node *ret_node, struct nb_failure *f);

/*
 * What is on disk, without settings and credentials: at the paths that the last join recorded, or
 * at the default ones. The node name is that of the certificate. Fails as nb_present_read().
 * Release `node` with nb_node_done() even then.
 */
int nb_node_inspect_disk(int root_fd, struct nb_node *ret_node, struct nb_failure *f);
void nb_node_done(struct nb_node *node);
