/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "kube/object.h"

#define NAME_PREFIX "node-bootstrap-token-"
#define LABEL "node-bootstrap/claim"
#define CSR_ANNOTATION "node-bootstrap/csr"
#define BODY_MAX ((size_t)4 * 1024)

static int format_claim(const struct nb_bootstrap_token *token, const char *csr_name,
                        const char *key, struct nb_buffer *body) {
        struct nb_json_writer writer = { .buffer = body };
        char name[64];

        snprintf(name, sizeof(name), NAME_PREFIX "%s", token->id);
        nb_object_begin(&writer, "coordination.k8s.io/v1", "Lease", name);
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
        nb_json_put_string(&writer, "holderIdentity", key);
        return nb_json_finish(&writer);
}

/* Text of others is shown only if it has the form of a request's name. */
static void read_claim(struct nb_json *json, struct nb_claim *ret_claim) {
        const char *csr = nb_json_string(json, "metadata.annotations." CSR_ANNOTATION);
        const char *holder = nb_json_string(json, "spec.holderIdentity");
        const char *owner = nb_json_string(json, "metadata.ownerReferences[0].uid");

        *ret_claim = (struct nb_claim){ 0 };
        if (csr && nb_csr_name_is_usable(csr))
                snprintf(ret_claim->csr_name, sizeof(ret_claim->csr_name), "%s", csr);
        if (holder && strlen(holder) < sizeof(ret_claim->key))
                strcpy(ret_claim->key, holder);
        if (owner && strlen(owner) < sizeof(ret_claim->token_uid))
                strcpy(ret_claim->token_uid, owner);
}

void nb_claim_format_key(const struct nb_node_request *request,
                         char ret[static NB_CLAIM_KEY_SIZE]) {
        nb_hex_encode(request->facts.key, sizeof(request->facts.key), ret);
}

int nb_claim_look(struct nb_admin *admin, const struct nb_bootstrap_token *token, const char *key,
                  struct nb_claim *ret_other, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[64];
        int r;

        snprintf(what, sizeof(what), "reading the claim of token %s", token->id);
        snprintf(path, sizeof(path), NB_LEASES_PATH "/" NAME_PREFIX "%s", token->id);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r <= 0)
                return r < 0 ? r : NB_CLAIM_OWN;
        read_claim(&json, ret_other);
        if (json.r < 0)
                return json.r;
        if (strcmp(ret_other->token_uid, token->uid) != 0)
                return NB_CLAIM_FOREIGN;
        return strcmp(ret_other->key, key) == 0 ? NB_CLAIM_OWN : NB_CLAIM_OTHER;
}

int nb_claim_make(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const char *csr_name, const char *key, struct nb_claim *ret_other,
                  struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char what[64];
        struct nb_admin_call call = { .method = "POST", .what = what, .path = NB_LEASES_PATH };
        int r;

        snprintf(what, sizeof(what), "claiming token %s", token->id);
        r = format_claim(token, csr_name, key, &body);
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
        return r == 409 ? nb_claim_look(admin, token, key, ret_other, f) : NB_CLAIM_OWN;
}

struct visit {
        int (*visit)(void *userdata, const struct nb_claim *claim);
        void *userdata;
};

/* Only claims have the label, but any user who may create Leases can set it on another Lease. */
static int visit_lease(void *userdata, struct nb_json *item) {
        const struct visit *visit = userdata;
        const char *name = nb_json_string(item, "metadata.name");
        struct nb_claim claim;

        read_claim(item, &claim);
        if (!name || strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 ||
            strlen(name) != strlen(NAME_PREFIX) + NB_TOKEN_ID_LEN || !claim.csr_name[0] ||
            !claim.token_uid[0])
                return 0;
        strcpy(claim.token_id, name + strlen(NAME_PREFIX));
        return visit->visit(visit->userdata, &claim) < 0 ? nb_failure_set_memory(item->f) : 0;
}

int nb_claim_list(struct nb_admin *admin,
                  int (*visit)(void *userdata, const struct nb_claim *claim), void *userdata,
                  struct nb_failure *f) {
        struct visit context = { visit, userdata };

        return nb_admin_list(admin, "listing the claims of tokens",
                             NB_LEASES_PATH "?labelSelector=node-bootstrap%2Fclaim%3Dtrue",
                             visit_lease, &context, NULL, f);
}
