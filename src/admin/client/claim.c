/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "base/encoding.h"
#include "base/macro.h"

#define NAME_PREFIX "node-bootstrap-token-"
#define CSR_ANNOTATION "node-bootstrap/csr"
#define BODY_MAX ((size_t)4 * 1024)

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
        char name[64], secret[64], what[64];
        struct nb_admin_call call = { .method = "POST", .what = what, .path = NB_LEASES_PATH };
        int r;

        snprintf(what, sizeof(what), "claiming token %s", token->id);
        snprintf(name, sizeof(name), NAME_PREFIX "%s", token->id);
        snprintf(secret, sizeof(secret), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        nb_json_format(&body,
                       "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease',"
                       "'metadata':{'name':%s,'namespace':'kube-system',"
                       "'labels':{'node-bootstrap/claim':'true'},"
                       "'annotations':{'" CSR_ANNOTATION "':%s},'ownerReferences':[{"
                       "'apiVersion':'v1','kind':'Secret','name':%s,'uid':%s}]},"
                       "'spec':{'holderIdentity':%s}}",
                       name, csr_name, secret, token->uid, key);
        r = nb_admin_send(admin, &call, &body, NULL, f);
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r,
                                           "%s: the API server does not serve Leases", what);
        if (r == 409)
                return nb_claim_look(admin, token, key, ret_other, f);
        return r < 0 ? r : NB_CLAIM_OWN;
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
