/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The frame of `node-bootstrap-admin controller`: it watches requests, tokens, cluster-info and
 * Nodes, keeps compact records of them, elects a leader, and runs the queued work of its parts one
 * at a time. Each part (parts.h) can be switched off.
 *
 * The records are a cache that tells a part when to act. What a part then decides on, it reads
 * again. Only the leader runs work; the others keep their records and queues.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "admin/client/call_plan.h"
#include "admin/client/client.h"
#include "admin/client/records.h"
#include "admin/client/watch.h"
#include "admin/frame/monitor.h"
#include "admin/frame/queue.h"
#include "admin/policy/request_case.h"
#include "admin/policy/serving_policy.h"
#include "admin/policy/verdict.h"
#include "admin/policy/waits.h"
#include "base/failure.h"
#include "crypto/digest.h"
#include "kube_calls/jws.h"
#include "os/options.h"

#define NB_CONTROLLER_PARTS_MAX 4
#define NB_CONTROLLER_WATCHES_MAX 10 /* with the lists */
#define NB_CONTROLLER_SLOTS_MAX 10   /* work that waits for answers at the same time */
#define NB_CONTROLLER_BUCKETS_N 4096
#define NB_CONTROLLER_PARTIES_N 256

/* Lists that are read when they are needed, one after the other. */
enum nb_controller_list {
        NB_LIST_CLAIMS,
        NB_LIST_NODES, /* of the snapshot for serving certificates */
        NB_LIST_RECORDS,
        _NB_CONTROLLER_LISTS_N,
};

enum { NB_REPORT_EVENT, NB_REPORT_LINE /* of the log */, _NB_REPORTS_N };

struct nb_controller;

/*
 * A CSR that a part decides on. It is known by its UID: another one may have the same name. One
 * that was approved is kept, without work, until it is deleted: it says who has used the token,
 * also after that was revoked.
 */
struct nb_request_record {
        struct nb_record record; /* key: the UID; that of a claim of an earlier run is no UID */
        struct nb_work work;
        struct nb_controller *controller;
        struct nb_request_record *next, **at; /* of the same bucket, the approved ones first */
        enum nb_node_request_kind kind;
        enum nb_csr_state state;
        bool has_certificate;
        char token_id[NB_TOKEN_ID_LEN + 1];
        char *name, *node;
        time_t created;              /* 0: not known */
        time_t approved;             /* lastUpdateTime of the condition Approved; 0: not approved */
        struct nb_grace grace;       /* after the certificate was issued */
        uint8_t key[NB_SHA256_SIZE]; /* of the request, as nb_pkcs10_facts */
        bool is_gone;                /* the CSR was deleted, but its token may have to be revoked */
        bool is_in_bound_group, is_in_enrolled_group;
        bool is_own;          /* this controller approved it */
        bool is_approving;    /* the answer to the approval is awaited */
        bool is_unanswered;   /* there was no answer, or another one: it may have been written */
        bool is_seen_pending; /* so its approval was seen, too */
        bool is_judged;       /* once it was approved: whether its token allows that */
        bool is_over;         /* the record is freed when the work has ended */
        bool is_by_others;    /* somebody else approved it */
        bool is_others;       /* pending, and for somebody else to approve: it is only counted */
        /* Of the token that is claimed for this CSR ("": none is), or is being claimed. */
        char claimed_uid[64], claiming_uid[64];
        /* For decision.h. */
        struct nb_reports reports[_NB_REPORTS_N];
        unsigned counted;   /* bits: reasons */
        bool is_waiting;    /* for what it was judged by to change */
        unsigned waits_for; /* bits: enum nb_fact */
        unsigned n_waits;   /* in a row */
        uint64_t judged_ms;
        unsigned decision; /* that is being written: a reason, and its text */
        char *text;
};

/* A Secret of a bootstrap token (bootstrap_token.h), without its key. */
struct nb_token_record {
        struct nb_record record; /* key: the name */
        char id[NB_TOKEN_ID_LEN + 1];
        char uid[64], version[NB_RESOURCE_VERSION_SIZE];
        time_t created, expires;
        bool has_flaw, is_enrolled, is_being_deleted;
        char node[NB_NODE_NAME_MAX + 1];
        char signature[NB_JWS_LEN + 1]; /* "" if cluster-info has none, or it is not computed */
        bool is_wanted;                 /* in cluster-info */
        uint64_t due_ms;                /* of the next attempt */
        unsigned attempt;               /* to delete it, so far */
};

/* A part of the controller, such as the signer. Callbacks that it does not need are NULL. A
 * callback does not call the API server itself: it queues work, and the steps of that work do. */
struct nb_part {
        const char *name;               /* for --parts */
        bool is_default;                /* runs without --parts */
        enum nb_node_request_kind kind; /* that it decides on; 0: none */
        void (*begin)(struct nb_controller *controller);
        void (*on_leading)(struct nb_controller *controller);
        void (*end)(struct nb_controller *controller);
        /* A token was written, or (NULL) deleted, or all are listed. */
        void (*on_token)(struct nb_controller *controller, struct nb_token_record *record,
                         const struct nb_bootstrap_token *token);
        void (*on_cluster_info)(struct nb_controller *controller);

        /* Of a part that decides on requests: whether there is something to do for one, and the
         * steps of its work (call_plan.h). */
        bool (*is_wanted)(const struct nb_controller *controller,
                          const struct nb_node_request *request);
        int (*begin_request)(struct nb_request_record *record, struct nb_plan *plan);
        int (*judge_request)(struct nb_request_record *record, struct nb_plan *plan,
                             struct nb_failure *f);
        int (*written)(struct nb_request_record *record, struct nb_plan *plan,
                       const struct nb_admin_call *call, int r, struct nb_failure *f);
        /* For a claim that an earlier leader has made. */
        void (*on_claim)(struct nb_controller *controller, struct nb_json *object);
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
        struct nb_plan plan;
        bool is_running;          /* the plan */
        uint64_t now_ms, sent_ms; /* of this run; of the write */
        struct nb_election election;
        char version[64];      /* resourceVersion that was read or written last; "": not known */
        long long transitions; /* as they were read last */
        bool is_own;           /* this controller held it then */
        char leader[256];      /* another controller, as it was logged; "" for none */
};

/* For signer.c. Zero: this part does not run. */
struct nb_signer {
        struct nb_work work;
        char *content;                 /* data.kubeconfig, which is signed; NULL: not read yet */
        unsigned n_written;            /* changes since a token or the content changed */
        ssize_t n_changes, n_left_out; /* of the last plan */
        bool is_missing_reported, is_full_reported;
};

/* For cleaner.c. */
struct nb_cleaner {
        struct nb_work work;
        char name[NB_TOKEN_SECRET_NAME_MAX + 1]; /* of the Secret that is being deleted; or "" */
};

/* For metrics.c. */
#define NB_METRICS_BUCKETS_N 9
struct nb_metrics {
        struct nb_kind_metrics {
                unsigned long long decisions[_NB_REASON_N];               /* by reason */
                unsigned long long buckets[NB_METRICS_BUCKETS_N], n, sum; /* durations */
        } kinds[_NB_NODE_REQUEST_KIND_N];
        unsigned long long n_approved_by_others, n_suppressed; /* n_suppressed: Events */
        unsigned long long n_misused[_NB_REASON_N]; /* approvals that a token does not allow */
};

struct nb_controller {
        struct nb_controller_settings settings;
        struct nb_admin admin;
        uint64_t grace_ms; /* between the issue of a certificate and the end of its token */
        struct nb_records requests[_NB_NODE_REQUEST_KIND_N]; /* by kind */
        struct nb_records tokens;
        bool has_all_tokens;        /* they were listed since this was set to false */
        struct nb_records enrolled; /* nodes, with their keys */
        /* The policy, as it was seen last. */
        bool has_policy, is_policy_reported, is_proof_required;
        struct nb_queue queue;
        struct nb_call_slot {
                struct nb_work *work; /* that runs, or waits for an answer; NULL: none does */
                struct nb_plan plan;
        } slots[NB_CONTROLLER_SLOTS_MAX];
        bool is_blocked; /* no work may have a slot now */
        bool is_leading; /* holds the Lease, all lists are complete, and requests are watched */
        bool is_clock_reported;
        /* The snapshot for requests for serving certificates, which wait while the next one is
         * read. */
        struct nb_hosts hosts, next_hosts;
        /* Requests for client certificates, by the hash of the token's ID. */
        struct nb_request_record *by_token[NB_CONTROLLER_BUCKETS_N];
        struct nb_lease lease;
        struct nb_failure lease_failure;      /* of the last attempt; NB_NONE if it succeeded */
        struct nb_failure credential_failure; /* why the program ends; NB_NONE: it does not */
        char identity[320];                   /* in Leases and Events */
        const struct nb_part *parts[NB_CONTROLLER_PARTS_MAX];
        size_t n_parts;
        const struct nb_part *deciders[_NB_NODE_REQUEST_KIND_N]; /* those of them; NULL: none */
        const struct nb_part *signing;                           /* the same for on_token() */
        struct nb_watch watches[NB_CONTROLLER_WATCHES_MAX];
        size_t n_watches;
        struct nb_watch *lists; /* behind them: enum nb_controller_list */
        uint64_t resume_ms;     /* no work until then, since the API server does not answer */
        /* Limits of Events and of lines of the log: for each reason in all, and for what one party
         * causes (decision.c). */
        struct nb_rate rates[_NB_NODE_REQUEST_KIND_N][_NB_REASON_N][_NB_REPORTS_N];
        struct nb_rate parties[NB_CONTROLLER_PARTIES_N][_NB_REASON_N][_NB_REPORTS_N];
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

/* Called in a step of work: the work runs again after this time. */
void nb_work_again(struct nb_work *work, uint64_t after_ms);

/* Runs work that is due, or whose answer is there. -ECANCELED if a stop was requested. */
int nb_controller_run_work(struct nb_controller *controller);

/* Removes work from its queue, flow and slot. */
void nb_controller_drop_work(struct nb_controller *controller, struct nb_work *work);

/* Whether other work would fail as well. */
bool nb_controller_is_outage(const struct nb_failure *f);

/* When nb_controller_run_work() has something to do, but for an answer. */
uint64_t nb_controller_work_due(const struct nb_controller *controller);

/* False if this transfer is not of a slot. */
bool nb_controller_take_answer(struct nb_controller *controller,
                               const struct nb_http_transfer *done);

/* Whether this controller may write now: it leads, and sent the last renewal of the Lease lately.
 */
bool nb_controller_may_write(const struct nb_controller *controller);

/* The time by which tokens have expired; 0: not known, since the clocks of this machine and the API
 * server differ, so that a token that seems expired may be in use. */
time_t nb_controller_time(struct nb_controller *controller);

/* Reads the credential again if that is due, or if it was `rejected` (may be NULL). Negative if the
 * controller must end: a stop was requested, or controller->credential_failure is set. */
int nb_controller_renew_credential(struct nb_controller *controller,
                                   const struct nb_failure *rejected);

/* Finds the record of the token with this ID. */
struct nb_token_record *nb_token_record_find(const struct nb_records *tokens, const char *id);

/* The same for a token without a flaw. */
struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id);

/* In the Event and the condition of a CSR, such as "TokenForAnotherNode". `reason` is an enum
 * nb_reason for a client certificate, and an enum nb_serving_verdict for a serving certificate; 0
 * approves. */
const char *nb_controller_reason(enum nb_node_request_kind kind, unsigned reason);

/* Takes the CSR that the plan has read, and brings its record up to date. 1: read; 0: there is
 * nothing to do for it, or it is gone (record->is_gone). The caller calls nb_node_request_done() in
 * both cases. */
int nb_controller_take_request(struct nb_request_record *record, struct nb_plan *plan,
                               struct nb_node_request *ret_request, struct nb_failure *f);

/* For the watches of requests. */
void nb_requests_on_object(void *userdata, struct nb_json *object, enum nb_change change);
void nb_requests_on_client_list(void *userdata, bool is_complete);
void nb_requests_on_serving_list(void *userdata, bool is_complete);

/* For the watch of tokens. */
void nb_tokens_on_object(void *userdata, struct nb_json *object, enum nb_change change);
void nb_tokens_on_list(void *userdata, bool is_complete);

/* One flow for what follows all decisions: a fleet that was approved has one turn in each round, so
 * it does not delay the next request. */
#define NB_REQUEST_FOLLOW_UPS ""

/* All records of this kind; moves a record to the place that its state gives it among those of its
 * token; queues its work as if it had not failed before. */
struct nb_records *nb_request_siblings(const struct nb_request_record *record);
void nb_request_link(struct nb_request_record *record);
void nb_request_queue(struct nb_request_record *record, uint64_t after_ms);

/* After this controller approved the request. */
void nb_controller_note_approval(struct nb_request_record *record);

/* Adds a record of a request that has none. NULL without memory. */
struct nb_request_record *nb_controller_add_request(struct nb_controller *controller,
                                                    enum nb_node_request_kind kind, const char *uid,
                                                    const char *name, const char *node,
                                                    const char *token_id);

/* A hash of a text, which spreads what belongs to it over a table. */
uint32_t nb_controller_hash(const char *text);

/* The first record of a token, or of one whose hash is the same; approved ones come first. */
struct nb_request_record *nb_controller_find_users(const struct nb_controller *controller,
                                                   const char *token_id);

/* Removes and frees a record, with its work. */
void nb_controller_drop_request(struct nb_request_record *record);

/* Judges requests again that wait for a change of this fact: those of a token or a node; NULL: of
 * any. */
void nb_controller_wake(struct nb_controller *controller, enum nb_fact fact, const char *token_id,
                        const char *node);

/* The watches that the parts of this controller need. */
void nb_controller_add_watches(struct nb_controller *controller);

/* Reports all tokens again. */
void nb_controller_list_tokens(struct nb_controller *controller);

/* Frees all records. */
void nb_controller_drop_records(struct nb_controller *controller);

/* Runs until a stop is requested (0), or the credential cannot be used. Does not return before. */
int nb_controller_run(struct nb_controller *controller, struct nb_failure *f);

void nb_controller_end(struct nb_controller *controller);
