/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SelfSubjectAccessReview (authorization.k8s.io/v1): whether whoever asks has a right. Here the one that lets kube-controller-manager approve a
 * request for a node's certificate by itself; it is asked about with the ClusterRole of every user, and grants nothing.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/failure.h"

#define NB_ACCESS_REVIEW_MAX (64 * 1024)

/* The object to submit: verb create, certificatesigningrequests/nodeclient. */
extern const char nb_access_review_nodeclient[];

/* 0, or NB_ANSWER_MALFORMED: also where the server could not find out (evaluationError) and says no for that. */
int nb_access_review_parse(const char *text, size_t len, bool *ret_is_allowed, struct nb_failure *f);
