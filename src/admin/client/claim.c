/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"

#define NAME_PREFIX "node-bootstrap-token-"
#define CSR_ANNOTATION "node-bootstrap/csr"
#define BODY_MAX ((size_t)4 * 1024)

/* Text of others is shown only if it has the form of a request's name. */
bool nb_claim_read(struct nb_json *json, struct nb_claim *ret_claim) {
        const char *name = nb_json_string(json, "metadata.name");

        *ret_claim = (struct nb_claim){ 0 };
        nb_json_line(json, "metadata.annotations." CSR_ANNOTATION, ret_claim->csr_name,
                     sizeof(ret_claim->csr_name));
        if (!nb_csr_name_is_usable(ret_claim->csr_name))
                ret_claim->csr_name[0] = '\0';
        nb_json_line(json, "spec.holderIdentity", ret_claim->key, sizeof(ret_claim->key));
        nb_json_line(json, "metadata.ownerReferences[0].uid", ret_claim->token_uid,
                     sizeof(ret_claim->token_uid));
        if (!name || strncmp(name, NAME_PREFIX, strlen(NAME_PREFIX)) != 0 ||
            strlen(name) != strlen(NAME_PREFIX) + NB_TOKEN_ID_LEN)
                return false;
        NB_TEXT_COPY(ret_claim->token_id, name + strlen(NAME_PREFIX));
        return ret_claim->csr_name[0] && ret_claim->token_uid[0];
}

int nb_claim_look(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const uint8_t key[static NB_SHA256_SIZE], struct nb_claim *ret_other,
                  struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[64], holder[sizeof(ret_other->key)];
        int r;

        snprintf(what, sizeof(what), "reading the claim of token %s", token->id);
        snprintf(path, sizeof(path), NB_LEASES_PATH "/" NAME_PREFIX "%s", token->id);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r <= 0)
                return r < 0 ? r : NB_CLAIM_OWN;
        (void)nb_claim_read(&json, ret_other);
        nb_hex_encode(key, NB_SHA256_SIZE, holder);
        if (json.r < 0)
                return json.r;
        if (strcmp(ret_other->token_uid, token->uid) != 0)
                return NB_CLAIM_FOREIGN;
        return strcmp(ret_other->key, holder) == 0 ? NB_CLAIM_OWN : NB_CLAIM_OTHER;
}

int nb_claim_make(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                  const char *csr_name, const uint8_t key[static NB_SHA256_SIZE],
                  struct nb_claim *ret_other, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        char name[64], secret[64], what[64], holder[sizeof(ret_other->key)];
        int r;

        snprintf(what, sizeof(what), "claiming token %s", token->id);
        snprintf(name, sizeof(name), NAME_PREFIX "%s", token->id);
        snprintf(secret, sizeof(secret), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        nb_hex_encode(key, NB_SHA256_SIZE, holder);
        nb_json_format(&body,
                       "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease',"
                       "'metadata':{'name':%s,'namespace':'kube-system',"
                       "'labels':{'node-bootstrap/claim':'true'},"
                       "'annotations':{'" CSR_ANNOTATION "':%s},'ownerReferences':[{"
                       "'apiVersion':'v1','kind':'Secret','name':%s,'uid':%s}]},"
                       "'spec':{'holderIdentity':%s}}",
                       name, csr_name, secret, token->uid, holder);
        r = nb_admin_send(admin, "POST", what, NB_LEASES_PATH, &body, NULL, f);
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r,
                                           "%s: the API server does not serve Leases", what);
        if (r == 409)
                return nb_claim_look(admin, token, key, ret_other, f);
        return r < 0 ? r : NB_CLAIM_OWN;
}
