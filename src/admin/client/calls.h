/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Requests of an administrator or the controller: one object, or a list page by page. */

#include <stddef.h>

#include "admin/client/client.h"
#include "base/failure.h"
#include "codec/json.h"
#include "net/http.h"

/* etcd's limit for an object is 1.5 MiB, and JSON can make six bytes of one. */
#define NB_ADMIN_OBJECT_MAX ((size_t)10 * 1024 * 1024)
#define NB_ADMIN_TIMEOUT_MS \
        65000 /* kube-apiserver ends a request after 60 s, with its webhooks \
               */

#define NB_SECRETS_PATH "/api/v1/namespaces/kube-system/secrets"
#define NB_SECRETS_OF_TOKENS_QUERY "fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken"
#define NB_RECORDS_PATH NB_SECRETS_PATH "?fieldSelector=type%3Dnode-bootstrap%2Fenrolled-node"
#define NB_CSRS_PATH "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define NB_CLUSTER_INFO_PATH "/api/v1/namespaces/kube-public/configmaps/cluster-info"
#define NB_NODES_PATH "/api/v1/nodes"

struct nb_admin_call {
        const char *method; /* "GET", "POST", "PUT", "PATCH" (JSON merge patch, RFC 7396),
                               "DELETE" */
        const char *what;   /* for messages: "creating the Secret bootstrap-token-abcdef" */
        const char *path;   /* "/api/v1/...", with a query; of an object, or of a page
                               of `list`, at most NB_ADMIN_PATH_MAX bytes */
        const char *body;   /* JSON; NULL for none. At most 64 KiB */
        size_t body_len;
        struct nb_exchange_call *list; /* for calls.c: this is a page of it */
};

/*
 * Sends one request. Returns the status if it is 200, 201, 202, 404 (of the API server itself, not
 * of a proxy) or 409; the caller must handle these. Failures: NB_ADMIN_UNAUTHORIZED,
 * NB_ADMIN_FORBIDDEN (names user, verb and resource, from the API server's Status),
 * NB_ADMIN_REFUSED (400, 422), NB_SERVER_ERROR (429, 5xx), NB_ANSWER_*,
 * NB_ADMIN_UNREACHABLE, NB_ADMIN_UNTRUSTED. With admin->exchange also -EINPROGRESS, without a
 * failure (exchange.h).
 */
int nb_admin_perform(struct nb_admin *admin, const struct nb_admin_call *call,
                     struct nb_http_answer *ret_answer, struct nb_failure *f);

extern const struct nb_answer_codes nb_admin_codes; /* as above */

/* Gives failures of the connection a code whose remedy speaks of the kubeconfig, not of a machine
 * that joins. Does nothing to other failures. */
void nb_admin_explain(const struct nb_admin *admin, struct nb_failure *f);

/* nb_json_parse() for an object of the API server. U+0000 in a string becomes U+FFFD: whoever may
 * create or change objects could otherwise keep this program from reading them. Changes `text`. */
struct nb_json nb_admin_parse(char *text, size_t len, const char *what, struct nb_failure *f);

/* nb_admin_perform() for a caller that needs no more than the status and the object in the answer.
 * An error of `body` (NULL: none) is NB_INTERNAL. If the status is 200 to 202 and `ret_json` is not
 * NULL, parses the object, which the caller frees, also after a failure. `what` and `f` must
 * outlive *ret_json. */
int nb_admin_send(struct nb_admin *admin, const char *method, const char *what, const char *path,
                  const struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f);

/* nb_admin_perform() with GET, and parses a 200. 1: read; 0: there is no such object. A 409 is
 * NB_ANSWER_MALFORMED. `f` must
 * outlive *ret_json. */
int nb_admin_get(struct nb_admin *admin, const char *what, const char *path,
                 struct nb_json *ret_json, struct nb_failure *f);

/* Called for each item of a list. `item` is a view that is valid during the call; after it, a
 * failure in item->r ends the list. A negative result ends it, too, with the failure in item->f. */
typedef int nb_admin_visit(void *userdata, struct nb_json *item);

#define NB_ADMIN_PAGE 200 /* items per request, so that a page stays within the limits of JSON */

/*
 * Lists all objects at `path` ("/api/v1/...", with or without a query), NB_ADMIN_PAGE at a time, so
 * that memory does not grow with their number. `ret_version` is the resourceVersion to watch from;
 * may be NULL. If the list takes longer than etcd keeps old versions (410), then without
 * `ret_version` the rest are the objects as they are now; with it, -ESTALE without a failure: begin
 * again. Otherwise failures as above; a 404 is NB_ADMIN_MISSING.
 */
int nb_admin_list(struct nb_admin *admin, const char *what, const char *path, nb_admin_visit *visit,
                  void *userdata, char *ret_version, struct nb_failure *f);
