/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Who approves the requests of bootstrap tokens. kube-controller-manager approves a request if its
 * requestor may create certificatesigningrequests/nodeclient, and looks at neither the node's name
 * nor a proof. node-bootstrap's controller looks at both, so its rules are void for a group with
 * that permission.
 */

#include <stdbool.h>

#include "admin/client/client.h"
#include "base/failure.h"

#define NB_LEASE_NAME "node-bootstrap-controller"
#define NB_LEASE_DURATION_SEC 14
#define NB_LEASE_STANDBY_SEC 1 /* between two reads of a standby, which then takes over */

/* Asks with a SubjectAccessReview whether a token with these extra groups, separated by commas, may
 * create a subresource of CertificateSigningRequests; "" for the requests themselves. 1 or 0;
 * failures of nb_admin_perform(), also if the API server could not evaluate it. */
int nb_groups_may_create(struct nb_admin *admin, const char *groups, const char *subresource,
                         struct nb_failure *f);

/* Whether a controller of node-bootstrap has renewed its Lease lately. 1 or 0; failures of
 * nb_admin_perform(). */
int nb_controller_is_running(struct nb_admin *admin, struct nb_failure *f);

/*
 * For a command after which only node-bootstrap's controller is to approve requests of `groups`, a
 * list separated by commas. NB_ADMIN_AUTOMATIC_APPROVAL if kube-controller-manager approves them;
 * failures of nb_admin_perform(), since an unknown answer is no permission. `is_forced` skips this
 * check. Warns if no controller is running.
 */
int nb_automatic_approval_refuse(struct nb_admin *admin, const char *groups, bool is_forced,
                                 struct nb_failure *f);
