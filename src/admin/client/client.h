/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The connection of an administrator, or of the controller, to the API server of a cluster, with a
 * kubeconfig that is found as kubectl finds it: --kubeconfig; $KUBECONFIG (a list of files
 * separated by colons, of which each entry is taken from the first file that has it);
 * ~/.kube/config; /etc/kubernetes/admin.conf; the ServiceAccount of the pod that this program runs
 * in. If --kubeconfig is used, the file must exist.
 *
 * Credentials: client certificate, token, tokenFile, and `exec`, which is run as kubectl runs it
 * (client-go plugin/pkg/client/auth/exec). insecure-skip-tls-verify is refused.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/failure.h"
#include "kube_calls/api.h"
#include "kube_objects/identity.h"
#include "kube_objects/kubeconfig.h"

#define NB_ADMIN_STATUS_N 600

struct nb_admin_place {
        const char *kubeconfig; /* --kubeconfig; NULL: as above */
        const char *context;    /* --context; NULL: the current one */
};

/* The rows of options that all commands that contact the cluster have. */
#define NB_ADMIN_PLACE_OPTIONS(place) \
        { "kubeconfig", "FILE", "use this kubeconfig", .ret_value = &(place).kubeconfig }, { \
                "context", "NAME", "use this context of the kubeconfig", \
                        .ret_value = &(place).context \
        }

/* Must not be moved after nb_admin_connect(), since `api` points into it. */
struct nb_admin {
        struct nb_cluster cluster;
        struct nb_identity identity;
        struct nb_api api;
        struct nb_admin_place place;
        char origin[PATH_MAX]; /* of the cluster and the user, for messages */
        bool is_file_missing;  /* of those that the kubeconfig names */
        uint64_t expires_ms; /* nb_now_ms() to read the credential again; NB_TIME_INFINITE: never */
        time_t date;         /* of the last answer, by the clock of the API server; 0: unknown */
        uint64_t date_ms;    /* nb_now_ms() when it arrived */
        unsigned long long n_answers[NB_ADMIN_STATUS_N]; /* by status; [0]: without an answer */
        /* Called before `api` is replaced: cancels all transfers. If it is set, requests do not
         * renew the credential; the program calls nb_admin_keep_usable(). */
        void (*on_replace)(void *userdata);
        void *userdata;
        uint64_t renew_ms;    /* the credential is not read again until then */
        uint64_t unusable_ms; /* since when the credential has been unusable; 0: it is usable */
        enum nb_code renewal; /* the failure of the last attempt to read the credential again */
};

/* For admin->place; sets all other members. Does not contact the server.
 * NB_ADMIN_KUBECONFIG_UNUSABLE, NB_ADMIN_EXEC_FAILED, NB_INTERNAL; -ECANCELED without a failure if
 * a stop was requested while `exec` ran. */
int nb_admin_connect(struct nb_admin *admin, struct nb_failure *f);

/* For nb_admin_connect(): finds and reads the kubeconfigs of admin->place. */
int nb_admin_kubeconfig_read(struct nb_admin *admin, struct nb_failure *f);

/* Reads the credential of the same context again if it has expired, or may have: a file that it is
 * in is read again every minute. A new bearer token does not affect transfers. With another CA or
 * client certificate, `api` is replaced. Failures as above, also if the kubeconfig names another
 * server by now; after a failure the old connection stays. */
int nb_admin_renew_if_expired(struct nb_admin *admin, struct nb_failure *f);

#define NB_ADMIN_RENEW_MS 5000 /* several requests are rejected at the same time */
/* kubelet writes a new CA or token into a pod up to two minutes later (its sync period and its
 * cache), and a file that somebody replaces may be missing for a moment. */
#define NB_ADMIN_UNUSABLE_MS 300000

/*
 * The same for a program that keeps running, and also if `rejected` is NB_ADMIN_UNAUTHORIZED or
 * NB_ADMIN_UNTRUSTED (NULL: no request failed). Failures to read the credential are logged, and
 * tried again; meanwhile the old credential is used. -ECANCELED as above; -EKEYREJECTED with the
 * reason if the credential has been unusable for NB_ADMIN_UNUSABLE_MS: a restart may find another
 * kubeconfig.
 */
int nb_admin_keep_usable(struct nb_admin *admin, const struct nb_failure *rejected, uint64_t now_ms,
                         struct nb_failure *f);

void nb_admin_done(struct nb_admin *admin);

void nb_admin_count(struct nb_admin *admin, long status);

/* The time by the clock of the API server: the Date of the last answer, and what has passed since.
 * What is deleted because it has expired must not depend on the clock of this machine. 0: unknown.
 */
time_t nb_admin_time(const struct nb_admin *admin);
