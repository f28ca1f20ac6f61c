/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The frame of `node-bootstrap-admin controller`: it watches requests, tokens, cluster-info and
 * Nodes, keeps compact records of them, elects a leader, and runs the queued work of its parts one
 * at a time. Each part is a row of the table in controller.c, and can be switched off.
 *
 * The records are a cache that tells a part when to act. What a part then decides on, it reads
 * again. Only the leader runs work; the others keep their records and queues.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "admin/bootstrap_token.h"
#include "admin/client.h"
#include "admin/inventory.h"
#include "admin/node_request.h"
#include "admin/queue.h"
#include "admin/records.h"
#include "admin/watch.h"
#include "base/failure.h"

struct nb_controller;

/* A CSR that a part wants to keep. */
struct nb_request_record {
        struct nb_record record; /* key: the name */
        struct nb_work work;     /* set and queued by the part */
        struct nb_controller *controller;
        enum nb_node_request_kind kind;
        enum nb_csr_state state;
        bool has_certificate;
        bool has_flaw;
        char token_id[NB_TOKEN_ID_LEN + 1];
        char uid[64];
        char resource_version[64];
        char *name, *node;
        /* For the part. */
        unsigned told;      /* bits: reasons that were reported */
        uint64_t issued_ms; /* nb_now_ms() when the certificate was first seen; 0: not yet */
};

/* A Secret with a bootstrap token, without the token's secret. */
struct nb_token_record {
        struct nb_record record; /* key: the ID */
        char id[NB_TOKEN_ID_LEN + 1];
        char uid[64];
        time_t expires; /* 0: never */
        bool is_expiration_malformed, may_sign, may_authenticate;
        char *node;          /* NULL for any */
        struct nb_work work; /* for the cleaner */
};

/* Callbacks may be NULL. They must not send requests: they queue work that does. */
struct nb_part {
        const char *name;               /* for --parts */
        bool is_default;                /* runs without --parts */
        enum nb_node_request_kind kind; /* of the requests that it decides; OTHER for none */
        /* After the options are read. Negative with a failure: the controller ends. */
        int (*begin)(struct nb_controller *controller, struct nb_failure *f);
        /* A request of this kind was listed or written; its record is up to date, and `is_new` if
         * there was none. Returns whether to keep the record. */
        bool (*on_request)(struct nb_controller *controller, struct nb_request_record *record,
                           const struct nb_node_request *request, bool is_new);
        /* The request was deleted. Returns whether to keep the record. */
        bool (*on_request_deleted)(struct nb_controller *controller,
                                   struct nb_request_record *record);
        /* `token` is NULL if the Secret was deleted; `record` exists until the end of the call. */
        void (*on_token)(struct nb_controller *controller, struct nb_token_record *record,
                         const struct nb_bootstrap_token *token);
        /* The same for every Secret of this type, also if nb_bootstrap_token_read() refuses it:
         * signer and cleaner treat them as Kubernetes' own controllers do. They keep records of
         * their own, and on_secrets_listed() is called before the first Secret of a list (false)
         * and after the last one (true). */
        void (*on_secret)(struct nb_controller *controller, struct nb_json *object,
                          enum nb_change change);
        void (*on_secrets_listed)(struct nb_controller *controller, bool is_complete);
        /* `object` is NULL if there is no ConfigMap cluster-info. */
        void (*on_cluster_info)(struct nb_controller *controller, struct nb_json *object);
        /* A Node was created or deleted. NULL: any Node may have been. */
        void (*on_node)(struct nb_controller *controller, const char *name);
        /* All lists are complete and this controller is the leader: at the beginning, and each time
         * that it becomes the leader. */
        int (*on_lead)(struct nb_controller *controller, struct nb_failure *f);
        void (*end)(struct nb_controller *controller);
};

/* What the command line says. Texts are borrowed from argv; NULL: not given. */
struct nb_controller_settings {
        const char *parts;
        const char *inventory;
        const char *metrics;
        const char *grace;
        bool is_attestation_required;
        bool is_denying;
};

struct nb_controller {
        struct nb_controller_settings settings;
        struct nb_admin admin;
        struct nb_inventory inventory;
        uint64_t grace_ms; /* between the issue of a certificate and the end of its token */
        struct nb_records requests, tokens;
        struct nb_queue queue;
        bool is_leader;
        char identity[320]; /* in Leases and Events */
        const struct nb_part *parts[8];
        size_t n_parts;
        void *signer, *cleaner, *approver_serving; /* private to these parts */
};

/* Queues work to be run now. Without memory the work is lost until the next change of its object,
 * and that is logged. */
void nb_controller_queue(struct nb_controller *controller, struct nb_work *work, uint64_t due_ms);

struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id);

/* Reads a CSR again. 1: read, the caller calls nb_node_request_done(); 0: there is no CSR of this
 * name, or it is another one now. */
int nb_controller_read_request(struct nb_controller *controller,
                               const struct nb_request_record *record,
                               struct nb_node_request *ret_request, struct nb_failure *f);

/* Removes and frees a record, with its work. */
void nb_controller_drop_request(struct nb_controller *controller, struct nb_request_record *record);

extern const struct nb_part nb_part_approve_client;
