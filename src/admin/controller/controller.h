/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The frame of `node-bootstrap-admin controller`: it watches requests, tokens, cluster-info and
 * Nodes, keeps compact records of them, elects a leader, and runs the queued work of its parts one
 * at a time. Each part is a row of the table in controller_loop.c, and can be switched off.
 *
 * The records are a cache that tells a part when to act. What a part then decides on, it reads
 * again. Only the leader runs work; the others keep their records and queues.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "admin/client/client.h"
#include "admin/client/watch.h"
#include "admin/controller/monitor.h"
#include "admin/controller/queue.h"
#include "admin/controller/records.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "admin/policy/serving_policy.h"
#include "admin/policy/verdict.h"
#include "admin/policy/waits.h"
#include "base/failure.h"
#include "crypto/digest.h"
#include "kube_api/jws.h"
#include "system/options.h"

#define NB_CONTROLLER_PARTS_MAX 4
#define NB_CONTROLLER_WATCHES_MAX 7
#define NB_CONTROLLER_SLOTS_MAX 16 /* work that waits for answers at the same time */

struct nb_controller;

/* A CSR that a part decides on. Only its work, which reads the CSR again, sends requests. */
struct nb_request_record {
        struct nb_record record; /* key: the name */
        struct nb_work work;
        struct nb_controller *controller;
        enum nb_node_request_kind kind;
        enum nb_csr_state state;
        bool has_certificate, has_flaw;
        char token_id[NB_TOKEN_ID_LEN + 1];
        char uid[64];
        char *name, *node;
        time_t created;              /* 0: not known */
        time_t approved;             /* lastUpdateTime of the condition Approved; 0: not approved */
        struct nb_grace grace;       /* after the certificate was issued */
        uint8_t key[NB_SHA256_SIZE]; /* of the request, as nb_pkcs10_facts */
        bool is_gone;                /* the CSR was deleted, but its token may have to be revoked */
        char claimed_uid[64];        /* of the token that is claimed for this CSR; "": none is */
        /* For decision.h. */
        struct nb_reports reports;
        unsigned counted;  /* bits: reasons */
        bool is_waiting;   /* for what it was judged by to change */
        unsigned n_waits;  /* in a row */
        bool is_approving; /* the answer to the approval is awaited */
};

/* A Secret of a bootstrap token (bootstrap_token.h), without its key. */
struct nb_token_record {
        struct nb_record record; /* key: the name */
        char id[NB_TOKEN_ID_LEN + 1];
        char uid[64];
        time_t created, expires;
        bool has_flaw;
        char node[NB_NODE_NAME_MAX + 1];
        struct nb_rate reports;         /* of requests by this token */
        char signature[NB_JWS_LEN + 1]; /* "" if cluster-info has none, or it is not computed */
        bool is_wanted;                 /* in cluster-info */
        uint64_t due_ms;                /* of the next attempt */
        unsigned attempt;               /* to delete it, so far */
        char name[];
};

/* Callbacks may be NULL. They must not send requests: they queue work that does. */
struct nb_part {
        const char *name;                                /* for --parts */
        bool is_default;                                 /* runs without --parts */
        void (*begin)(struct nb_controller *controller); /* after the options are read */
        /* Of a part that decides on requests: whether there is something to do for one. */
        bool (*is_wanted)(const struct nb_controller *controller,
                          const struct nb_node_request *request);
        /* Work of a request. May drop the record, if the result is 0. */
        int (*run_request)(struct nb_request_record *record, struct nb_failure *f);
};

/* What the command line says. Texts are borrowed from argv; NULL: not set. */
struct nb_controller_settings {
        const char *parts;
        const char *listen;
        const char *grace;
        bool is_denying;
        bool is_dry_run; /* only Events, logs and metrics say what would be decided */
};

/* The Lease that makes one of several controllers the leader (lease.h). */
struct nb_lease {
        struct nb_exchange exchange;
        struct nb_election election;
        char version[64]; /* resourceVersion that was read or written last; "": not known */
        char leader[256]; /* another controller, as it was logged; "" for none */
};

/* For signer.c. Zero: this part does not run. */
struct nb_signer {
        struct nb_work work;
        char *content;      /* data.kubeconfig, which is signed; NULL: not read yet */
        bool is_complete;   /* all tokens were listed since, so their signatures are computed */
        unsigned n_written; /* changes since a token or the content changed */
        bool is_missing_reported, is_full_reported;
};

/* For cleaner.c. */
struct nb_cleaner {
        struct nb_work work;
        char name[NB_TOKEN_SECRET_NAME_MAX + 1]; /* of the Secret that is being deleted; or "" */
        bool is_clock_reported;
};

/* For metrics.c. */
#define NB_METRICS_BUCKETS_N 9
struct nb_metrics {
        struct nb_kind_metrics {
                unsigned long long decisions[_NB_REASON_N];               /* by reason */
                unsigned long long buckets[NB_METRICS_BUCKETS_N], n, sum; /* durations */
        } kinds[_NB_NODE_REQUEST_KIND_N];
        unsigned long long n_approved_by_others;
};

struct nb_controller {
        struct nb_controller_settings settings;
        struct nb_admin admin;
        uint64_t grace_ms; /* between the issue of a certificate and the end of its token */
        struct nb_records requests[_NB_NODE_REQUEST_KIND_N]; /* by kind */
        struct nb_records tokens;
        struct nb_records enrolled; /* nodes, with their keys */
        bool is_proof_required;     /* by the policy, as it was seen last */
        struct nb_queue queue;
        struct nb_call_slot {
                struct nb_work *work; /* that runs, or waits for an answer; NULL: none does */
                struct nb_exchange exchange;
        } slots[NB_CONTROLLER_SLOTS_MAX];
        bool is_blocked;            /* there is no slot for the work whose turn it is */
        bool is_leading;            /* holds the Lease, and all lists are complete */
        struct nb_work claims_work; /* nb_claims_adopt() */
        /* The snapshot for requests for serving certificates, which wait while the next one is
         * read. */
        struct nb_hosts hosts, next_hosts;
        struct nb_work hosts_work;
        struct nb_lease lease;
        struct nb_failure lease_failure;      /* of the last attempt; NB_NONE if it succeeded */
        struct nb_failure credential_failure; /* why the program ends; NB_NONE: it does not */
        char identity[320];                   /* in Leases and Events */
        const struct nb_part *parts[NB_CONTROLLER_PARTS_MAX];
        size_t n_parts;
        struct nb_watch watches[NB_CONTROLLER_WATCHES_MAX];
        size_t n_watches;
        uint64_t resume_ms; /* no work until then, since the API server does not answer */
        struct nb_rate reports[_NB_NODE_REQUEST_KIND_N]; /* Events of all requests of a kind */
        struct nb_metrics metrics;
        struct nb_monitor *monitor; /* NULL without --listen */
        uint64_t report_ms;         /* of the next report */
        bool is_ready;
        struct nb_signer signer;
        struct nb_cleaner cleaner;
};

/* Queues work, which is due after this time. Work that is running is queued when its run has ended,
 * or its on_change() is called. If memory runs out, the work is lost until the next change of its
 * object, and the loss is logged. */
void nb_controller_queue(struct nb_controller *controller, struct nb_work *work, uint64_t after_ms);

/* Runs work that is due, or whose answer is there. -ECANCELED if a stop was requested. */
int nb_controller_run_work(struct nb_controller *controller);

/* Removes work from its queue, flow and slot. */
void nb_controller_drop_work(struct nb_controller *controller, struct nb_work *work);

/* Whether other work would fail as well. */
bool nb_controller_is_outage(const struct nb_failure *f);

/* When nb_controller_run_work() has something to do. */
uint64_t nb_controller_work_due(const struct nb_controller *controller);

/* False if this transfer is not of a slot. */
bool nb_controller_take_answer(struct nb_controller *controller,
                               const struct nb_http_transfer *done);

/* Reads the credential again if that is due, or if it was `rejected` (may be NULL). Negative if the
 * controller must end: a stop was requested, or controller->credential_failure is set. */
int nb_controller_renew_credential(struct nb_controller *controller,
                                   const struct nb_failure *rejected);

/* Finds the record of the token with this ID. */
struct nb_token_record *nb_token_record_find(const struct nb_records *tokens, const char *id);

/* The same for a token without a flaw. */
struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id);

/* Signs cluster-info soon, if the signer runs. */
void nb_signer_wake(struct nb_controller *controller);

/* The same after a change of the tokens. */
void nb_signer_on_change(struct nb_controller *controller);

/* The same, and computes the signature with a token now, so that its key is not kept. 0, -ENOMEM,
 * -EIO. */
int nb_signer_on_token(struct nb_controller *controller, struct nb_token_record *record,
                       const struct nb_bootstrap_token *token);

/* Returns the expired token to delete now; NULL: none. The token that was due first comes first, so
 * that one that cannot be deleted does not block the others. A token is kept while the controller
 * decides on a request of it. */
const struct nb_token_record *nb_expired_choose(const struct nb_records *tokens,
                                                const struct nb_records *requests, time_t now,
                                                uint64_t now_ms);

/* A joining node reads at most NB_CLUSTER_INFO_MAX bytes of cluster-info. A signature takes 126,
 * and its entries in metadata.managedFields 29 for each of two writers. */
#define NB_SIGNATURES_MAX 5000
/* Bytes of one patch, below the limit of a request body. */
#define NB_SIGNATURES_BODY_MAX ((size_t)60 * 1024)

/* Marks the tokens that cluster-info should have signatures of: of those that are not expired, at
 * most `max`, the newest. Returns how many are left out for lack of room, or -ENOMEM. */
ssize_t nb_signatures_choose(const struct nb_records *tokens, time_t now, size_t max);

/*
 * Appends the JSON merge patch that adds the wanted signatures to `cluster_info` (a ConfigMap), and
 * removes all others. It contains only differences, as many as fit into the buffer. It applies only
 * to this version of the ConfigMap. Returns the number of changes; negative: cluster_info->r,
 * -ENOMEM, -EINVAL.
 */
ssize_t nb_signatures_plan(const struct nb_records *tokens, struct nb_json *cluster_info,
                           struct nb_buffer *ret_body);

/* Whether this part was chosen. */
bool nb_controller_has_part(const struct nb_controller *controller, const struct nb_part *part);

/* In the Event and the condition of a CSR, such as "TokenForAnotherNode". `reason` is an enum
 * nb_reason for a client certificate, and an enum nb_serving_verdict for a serving certificate; 0
 * approves. */
const char *nb_controller_reason(enum nb_node_request_kind kind, unsigned reason);

/* Reads a CSR again, and brings its record up to date. 1: read; 0: there is nothing to do for it,
 * or it is gone (record->is_gone). The caller calls nb_node_request_done() in both cases. */
int nb_controller_read_request(struct nb_request_record *record,
                               struct nb_node_request *ret_request, struct nb_failure *f);

/* After this controller approved the request: its next work is the revocation of the token. Frees
 * the record if it has claimed none. */
void nb_controller_note_approval(struct nb_request_record *record);

/* Adds a record of a request that has none. NULL without memory. */
struct nb_request_record *nb_controller_add_request(struct nb_controller *controller,
                                                    enum nb_node_request_kind kind,
                                                    const char *name, const char *node);

/* Removes and frees a record, with its work. */
void nb_controller_drop_request(struct nb_request_record *record);

/* Judges the waiting requests of a token or a node again; NULL: of any. */
void nb_controller_wake_requests(struct nb_controller *controller, const char *token_id,
                                 const char *node);

/* Work of a new leader: finds the tokens that an earlier one has claimed. */
int nb_claims_adopt(void *userdata, struct nb_work *work, struct nb_failure *f);

/* Reports all tokens again. */
void nb_controller_list_tokens(struct nb_controller *controller);

/* The watches that the parts of this controller need. */
void nb_controller_add_watches(struct nb_controller *controller);

/* Frees all records, and what signer and cleaner have. */
void nb_controller_drop_records(struct nb_controller *controller);

/* The command. Returns the exit status of the program, or is negative with a failure. */
int nb_admin_command_controller(struct nb_options *options, struct nb_failure *f);

extern const struct nb_part nb_part_approve_client, nb_part_approve_serving, nb_part_cleaner,
        nb_part_signer;
