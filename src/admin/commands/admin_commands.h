/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The commands of node-bootstrap-admin. Each returns the exit status of the program, or is negative
 * with a failure, which main() logs. options->argv continues after the name of the command. */

#include <stdbool.h>

#include "admin/client/calls.h"
#include "admin/client/client.h"
#include "admin/policy/bootstrap_token.h"
#include "base/buffer.h"
#include "base/failure.h"
#include "base/secret.h"
#include "crypto/certificate.h"
#include "os/options.h"

int nb_enroll_add(struct nb_options *options, struct nb_failure *f);
int nb_enroll_list(struct nb_admin *admin, struct nb_failure *f);
int nb_enroll_remove(struct nb_options *options, struct nb_failure *f);
int nb_enroll_show(struct nb_options *options, struct nb_failure *f);
int nb_publication_publish(struct nb_options *options, struct nb_failure *f);
int nb_publication_show(struct nb_admin *admin, struct nb_failure *f);
int nb_publication_verify(struct nb_admin *admin, struct nb_failure *f);
int nb_requests_approve(struct nb_options *options, struct nb_failure *f);
int nb_requests_deny(struct nb_options *options, struct nb_failure *f);
int nb_requests_list(struct nb_options *options, struct nb_failure *f);
int nb_token_create(struct nb_options *options, struct nb_failure *f);
int nb_token_list(struct nb_admin *admin, struct nb_failure *f);
int nb_token_revoke(struct nb_options *options, struct nb_failure *f);

/* --- What several commands need --- */

/* Reads options and at most `max` other words in any order. Returns the number of these words,
 * which are then at the beginning of options->argv; negative as for nb_options_read(). */
int nb_admin_read_line(struct nb_options *options, const struct nb_option *rows, int max,
                       struct nb_failure *f);

/* NB_USAGE: "expected EXPECTED; found a word of 4 characters". Quotes no word: it may be a part of
 * a token. */
int nb_admin_refuse_word(const char *expected, const char *found, struct nb_failure *f);

/* Reads a file, or standard input for "-". 0 or NB_ADMIN_INPUT_MALFORMED. */
int nb_admin_read_file(const char *path, size_t max, struct nb_secret *ret, struct nb_failure *f);

/* Reads the value of an option, if there is one. 0 or NB_USAGE. */
int nb_admin_read_number(const char *option, const char *text, size_t *ret, struct nb_failure *f);

/* Verifies the name of a node on the command line. Warns of one with which kubelet cannot register
 * a Node. 0 or NB_USAGE. */
int nb_admin_verify_node(const char *name, struct nb_failure *f);

/* nb_admin_send() for a change. A 404 and a 409 are NB_ADMIN_CONFLICT. */
int nb_admin_write(struct nb_admin *admin, const char *method, const char *what, const char *path,
                   struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f);

/* Deletes the Secret of the token whose ID `id` begins with. 1: deleted; 0: there is none. */
int nb_token_delete(struct nb_admin *admin, const char *id, struct nb_failure *f);

/* --- What joining nodes need from the cluster --- */

/*
 * The ConfigMap kube-public/cluster-info, which anybody may read, and the permissions of bootstrap
 * tokens. The objects are those of `kubeadm init phase bootstrap-token` (kubernetes
 * cmd/kubeadm/app/phases/bootstraptoken), with the same names and contents, so that kubeadm and
 * this program do not change each other's objects; and the bindings of the groups of bound and
 * enrolled tokens.
 */

/* Lets NB_TOKEN_GROUP_NODE or NB_TOKEN_GROUP_ENROLLED submit requests, and nothing else, as
 * `publish` does. Says on standard error what was created or changed, or with `is_dry_run` would
 * be. */
int nb_publication_bind(struct nb_admin *admin, const char *group, bool is_dry_run,
                        struct nb_failure *f);

/* Reads cluster-info and the cluster that it names. NB_ADMIN_MISSING, NB_CLUSTER_INFO_UNACCEPTABLE,
 * also if it has no CA, and the failures of nb_admin_get(). The caller frees both also then. */
int nb_publication_read(struct nb_admin *admin, struct nb_json *ret_info,
                        struct nb_cluster *ret_cluster, struct nb_failure *f);

/* Its CA certificates, also if there are no pins. NB_CLUSTER_INFO_UNACCEPTABLE. */
int nb_publication_select_cas(const struct nb_cluster *cluster, struct nb_ca_selection *ret,
                              struct nb_failure *f);

/* The number of signatures in cluster-info. */
size_t nb_publication_count(struct nb_json *info);

/* Whether both have the same CAs, in any order: 1, 0; negative with a failure for `own`. */
int nb_publication_has_ca(const struct nb_cluster *published, const struct nb_cluster *own,
                          struct nb_failure *f);

/* Whether no other machine can reach this host: localhost, 127.0.0.0/8, ::1. */
bool nb_host_is_loopback(const char *host);
