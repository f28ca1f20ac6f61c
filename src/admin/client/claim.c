/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "base/macro.h"

#define NAME_PREFIX "node-bootstrap-token-"
#define LABEL "node-bootstrap/claim"
#define CSR_ANNOTATION "node-bootstrap/csr"
#define BODY_MAX ((size_t)4 * 1024)

static int format_claim(const struct nb_bootstrap_token *token, const char *csr_name,
                        const char *csr_uid, struct nb_buffer *body) {
        struct nb_json_writer writer = { .buffer = body };
        char name[64];

        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", "coordination.k8s.io/v1");
        nb_json_put_string(&writer, "kind", "Lease");
        nb_json_open(&writer, "metadata", '{');
        snprintf(name, sizeof(name), NAME_PREFIX "%s", token->id);
        nb_json_put_string(&writer, "name", name);
        nb_json_put_string(&writer, "namespace", "kube-system");
        nb_json_open(&writer, "labels", '{');
        nb_json_put_string(&writer, LABEL, "true");
        nb_json_close(&writer);
        nb_json_open(&writer, "annotations", '{');
        nb_json_put_string(&writer, CSR_ANNOTATION, csr_name);
        nb_json_close(&writer);
        nb_json_open(&writer, "ownerReferences", '[');
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", "v1");
        nb_json_put_string(&writer, "kind", "Secret");
        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        nb_json_put_string(&writer, "name", name);
        nb_json_put_string(&writer, "uid", token->uid);
        nb_json_close(&writer);
        nb_json_close(&writer);
        nb_json_close(&writer);
        nb_json_open(&writer, "spec", '{');
        nb_json_put_string(&writer, "holderIdentity", csr_uid);
        return nb_json_finish(&writer);
}

/* Finds the CSR that has the claim. If the claim belongs to an earlier token with the same ID,
 * Kubernetes has not removed it yet: the failure is temporary. */
static int read_holder(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                       const char *csr_uid, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[64];
        const char *holder, *owner;
        int r;

        snprintf(what, sizeof(what), "reading the claim of token %s", token->id);
        snprintf(path, sizeof(path), NB_LEASES_PATH "/" NAME_PREFIX "%s", token->id);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r < 0)
                return r;
        owner = r > 0 ? nb_json_string(&json, "metadata.ownerReferences[0].uid") : NULL;
        holder = r > 0 ? nb_json_string(&json, "spec.holderIdentity") : NULL;
        if (json.r < 0)
                return json.r;
        if (!owner || strcmp(owner, token->uid) != 0)
                return nb_failure_set(f, NB_ADMIN_CONFLICT, 0,
                                      "%s: the claim of an earlier token with this ID is being "
                                      "removed",
                                      what);
        return holder && !strcmp(holder, csr_uid);
}

int nb_claim_make(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const char *csr_name, const char *csr_uid, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[64];
        struct nb_admin_call call = { .method = "POST", .what = what, .path = NB_LEASES_PATH };
        int r;

        snprintf(what, sizeof(what), "claiming token %s", token->id);
        r = format_claim(token, csr_name, csr_uid, &body);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "%s: %m", what);
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(admin, &call, &answer, f);
        if (r < 0)
                return r;
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r,
                                           "%s: the API server does not serve Leases", what);
        return r == 409 ? read_holder(admin, token, csr_uid, f) : 1;
}

struct visit {
        void (*visit)(void *userdata, const struct nb_claim *claim);
        void *userdata;
};

/* Only claims have the label, but any user who may create Leases can set it on another Lease. */
static int visit_lease(void *userdata, struct nb_json *item) {
        const struct visit *visit = userdata;
        const char *name = nb_json_string(item, "metadata.name");
        struct nb_claim claim = { 0 };
        const char *csr = nb_json_string(item, "metadata.annotations." CSR_ANNOTATION);
        const char *holder = nb_json_string(item, "spec.holderIdentity");
        const char *owner = nb_json_string(item, "metadata.ownerReferences[0].uid");

        if (!name || !csr || !holder || !owner ||
            strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 ||
            strlen(name) != strlen(NAME_PREFIX) + NB_TOKEN_ID_LEN ||
            strlen(csr) >= sizeof(claim.csr_name) || strlen(holder) >= sizeof(claim.csr_uid) ||
            strlen(owner) >= sizeof(claim.token_uid))
                return 0;
        strcpy(claim.token_id, name + strlen(NAME_PREFIX));
        strcpy(claim.token_uid, owner);
        strcpy(claim.csr_name, csr);
        strcpy(claim.csr_uid, holder);
        visit->visit(visit->userdata, &claim);
        return 0;
}

int nb_claim_list(struct nb_admin *admin,
                  void (*visit)(void *userdata, const struct nb_claim *claim), void *userdata,
                  struct nb_failure *f) {
        struct visit context = { visit, userdata };

        return nb_admin_list(admin, "listing the claims of tokens",
                             NB_LEASES_PATH "?labelSelector=node-bootstrap%2Fclaim%3Dtrue",
                             visit_lease, &context, NULL, f);
}
