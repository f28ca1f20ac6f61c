/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests of an administrator or the controller: one object, or a list page by page. Commands wait
 * for each answer; the controller does not (call_plan.h). */

#include <stddef.h>

#include "admin/client/client.h"
#include "base/failure.h"
#include "codec/json.h"
#include "http/http.h"

/* etcd's limit for an object is 1.5 MiB, and JSON can make six bytes of one. */
#define NB_ADMIN_OBJECT_MAX ((size_t)10 * 1024 * 1024)
#define NB_ADMIN_BODY_MAX ((size_t)64 * 1024)
#define NB_ADMIN_TIMEOUT_MS \
        65000 /* kube-apiserver ends a request after 60 s, with its webhooks \
               */
/* The name of a request takes up to three bytes for each byte. */
#define NB_ADMIN_PATH_MAX 1024
#define NB_ADMIN_WHAT_MAX 320
#define NB_RESOURCE_VERSION_SIZE 64

#define NB_SECRETS_PATH "/api/v1/namespaces/kube-system/secrets"
#define NB_TOKENS_PATH NB_SECRETS_PATH "?fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken"
#define NB_RECORDS_PATH NB_SECRETS_PATH "?fieldSelector=type%3Dnode-bootstrap%2Fenrolled-node"
#define NB_CSRS_PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define NB_CLUSTER_INFO_PATH "/api/v1/namespaces/kube-public/configmaps/cluster-info"
#define NB_NODES_PATH "/api/v1/nodes"
#define NB_LEASES_PATH "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#define NB_CLAIM_NAME_PREFIX "node-bootstrap-token-"
#define NB_CLAIMS_PATH NB_LEASES_PATH "?labelSelector=node-bootstrap%2Fclaim%3Dtrue"

/* --- One request --- */

/* A request, and its answer when that is there. Zero, but for the first members: not sent. */
struct nb_admin_call {
        const char *method; /* "GET", "POST", "PATCH" (JSON merge patch, RFC 7396), "DELETE" */
        char what[NB_ADMIN_WHAT_MAX]; /* for messages: "creating the Secret bootstrap-token-abcdef"
                                       */
        char path[NB_ADMIN_PATH_MAX]; /* "/api/v1/...", with a query */
        struct nb_buffer body;        /* JSON; empty for none */
        uint32_t timeout_ms;          /* 0: NB_ADMIN_TIMEOUT_MS */
        bool is_page;                 /* 410 is an answer */
        bool is_whole_list;           /* the limit for the answer is NB_ADMIN_LIST_MAX */

        struct nb_http_transfer *transfer; /* NULL: not begun, interrupted, or answered */
        bool is_answered;
        int r;
        struct nb_failure failure; /* if r is negative */
        struct nb_http_answer answer;
};

/* Sets the first members of an empty call, and returns it. The body is the caller's to fill. */
struct nb_admin_call *nb_call_set(struct nb_admin_call *call, const char *method, const char *path,
                                  const char *what);

/* Sends it, and does not wait. Failures of nb_api_start(). */
int nb_call_start(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f);

/* Sends it, and waits for the answer: of a command, which has no other transfers. 0; failures of
 * the credential. */
int nb_call_perform(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f);

/* For a transfer that nb_http_wait() returned as done. False if it is not of this call. */
bool nb_call_take_done(struct nb_admin_call *call, struct nb_admin *admin,
                       const struct nb_http_transfer *done);

/*
 * The outcome of a call that is answered. Returns the status if it is 200, 201, 202, 404 (of the
 * API server itself, not of a proxy) or 409; the caller must handle these. Failures:
 * NB_ADMIN_UNAUTHORIZED, NB_ADMIN_FORBIDDEN (names user, verb and resource, from the API server's
 * Status), NB_ADMIN_REJECTED (400, 422), NB_SERVER_ERROR (429, 5xx), NB_ANSWER_*,
 * NB_ADMIN_UNREACHABLE, NB_ADMIN_UNTRUSTED.
 */
int nb_call_status(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f);

/* The same for a GET, and parses a 200. 1: read; 0: there is no such object. A 409 is
 * NB_ANSWER_MALFORMED. `call` and `f` must outlive *ret_json. */
int nb_call_read(struct nb_admin_call *call, struct nb_admin *admin, struct nb_json *ret_json,
                 struct nb_failure *f);

/* Ends the transfer, since its connection is about to be closed. The call can be started again. */
void nb_call_interrupt(struct nb_admin_call *call);

/* Ends the transfer, and wipes body and answer, which may hold the Secret of a token. */
void nb_call_done(struct nb_admin_call *call);

extern const struct nb_answer_codes nb_admin_codes; /* as above */

/* Gives failures of the connection a code whose remedy speaks of the kubeconfig, not of a machine
 * that joins. Does nothing to other failures. */
void nb_admin_explain(const struct nb_admin *admin, struct nb_failure *f);

/*
 * nb_json_parse() for an object of the API server. Changes `text`: whoever may create or change
 * objects could otherwise keep this program from reading them. U+0000 in a string becomes U+FFFD,
 * metadata.managedFields is emptied, and metadata.ownerReferences too if it is large: these are the
 * only lists that a requestor can fill with any number of objects.
 */
struct nb_json nb_admin_parse(char *text, size_t len, const char *what, struct nb_failure *f);

/* Sends a request and waits for its outcome, as nb_call_status(). Takes `body` (NULL: none); its
 * error is NB_INTERNAL. If the status is 200 to 202 and `ret_json` is not NULL, parses the object,
 * which the caller frees, also after a failure. `what` and `f` must outlive *ret_json. */
int nb_admin_send(struct nb_admin *admin, const char *method, const char *what, const char *path,
                  struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f);

/* The same for a GET, as nb_call_read(). */
int nb_admin_get(struct nb_admin *admin, const char *what, const char *path,
                 struct nb_json *ret_json, struct nb_failure *f);

/* --- Lists --- */

#define NB_ADMIN_PAGE 200 /* items per request */
/* A list that cannot be read page by page. The controller has 256 MiB of memory. */
#define NB_ADMIN_LIST_MAX ((size_t)64 * 1024 * 1024)
/* The continue token is base64url of {"v":"meta.k8s.io/v1","rv":NUMBER,"start":"NAME\u0000"}
 * (apiserver pkg/storage/continue.go): 423 bytes for a name of 253, the limit for most kinds. */
#define NB_ADMIN_TOKEN_SIZE 512

/* Called for each item of a list. `item` is a view that is valid during the call; after it, a
 * failure in item->r ends the list. A negative result ends it, too, with the failure in item->f. */
typedef int nb_admin_visit(void *userdata, struct nb_json *item);

/* What is listed, and how far the list is; without a path, it has not begun. */
struct nb_list {
        const char *what, *path; /* "the tokens"; "/api/v1/...", with or without a query */
        bool is_consistent;
        nb_admin_visit *visit;
        void *userdata;
        struct nb_admin_call page;
        char next[NB_ADMIN_TOKEN_SIZE]; /* the continue token; "" for the first page */
        char version[NB_RESOURCE_VERSION_SIZE];
        unsigned n_halved; /* how often the limit for a page was halved */
        bool is_whole;     /* the rest is one page, since a token does not fit */
        bool is_ignoring /* an object was passed over */, is_complete;
};

/*
 * Lists all objects, NB_ADMIN_PAGE at a time, so that memory does not grow with their number. The
 * name of a CSR, and thus the token for the page after it, has no limit: if it does not fit into a
 * URL, the rest is read at once, up to NB_ADMIN_LIST_MAX. 1: all were visited; 0: the answer to
 * list->page is awaited. If the list takes longer than etcd keeps old versions (410), then unless
 * it must be consistent, the rest are the objects as they are now; otherwise -ESTALE without a
 * failure: begin again. Otherwise failures as above; a 404 is NB_ADMIN_MISSING.
 */
int nb_list_run(struct nb_list *list, struct nb_admin *admin, struct nb_failure *f);

void nb_list_done(struct nb_list *list);

/* The same, and waits; need not be consistent. 0; 1 if an object that is above the limits was
 * passed over, with a warning. */
int nb_admin_list(struct nb_admin *admin, const char *what, const char *path, nb_admin_visit *visit,
                  void *userdata, struct nb_failure *f);
