/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/client/facts.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"

#define CSR_ANNOTATION "node-bootstrap/csr"

bool nb_claim_read(struct nb_json *json, struct nb_claim *ret_claim) {
        const char *name = nb_json_string(json, "metadata.name");
        const char *csr = nb_json_string(json, "metadata.annotations." CSR_ANNOTATION);

        *ret_claim = (struct nb_claim){ 0 };
        if (csr)
                NB_TEXT_COPY_LINE(ret_claim->csr_name, csr);
        nb_json_line(json, "spec.holderIdentity", ret_claim->key, sizeof(ret_claim->key));
        nb_json_line(json, "metadata.ownerReferences[0].uid", ret_claim->token_uid,
                     sizeof(ret_claim->token_uid));
        if (!name || strncmp(name, NB_CLAIM_NAME_PREFIX, strlen(NB_CLAIM_NAME_PREFIX)) != 0 ||
            strlen(name) != strlen(NB_CLAIM_NAME_PREFIX) + NB_TOKEN_ID_LEN)
                return false;
        NB_TEXT_COPY(ret_claim->token_id, name + strlen(NB_CLAIM_NAME_PREFIX));
        return ret_claim->key[0] && ret_claim->token_uid[0];
}

int nb_claim_take(struct nb_plan *plan, struct nb_admin *admin,
                  const struct nb_bootstrap_token *token, const uint8_t key[static NB_SHA256_SIZE],
                  struct nb_claim *ret_claim, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_call_read(&plan->reads[NB_READ_CLAIM], admin, &json, f);

        if (r <= 0)
                return r < 0 ? r : NB_CLAIM_NONE;
        (void)nb_claim_read(&json, ret_claim);
        return json.r < 0 ? json.r : (int)nb_claim_judge(ret_claim, token, key);
}

enum nb_claim_state nb_claim_judge(const struct nb_claim *claim,
                                   const struct nb_bootstrap_token *token,
                                   const uint8_t key[static NB_SHA256_SIZE]) {
        char holder[sizeof(claim->key)];

        nb_hex_encode(key, NB_SHA256_SIZE, holder);
        return strcmp(claim->token_uid, token->uid) != 0 ? NB_CLAIM_FOREIGN
               : strcmp(claim->key, holder) != 0         ? NB_CLAIM_OTHER
                                                         : NB_CLAIM_OWN;
}

void nb_claim_add(struct nb_plan *plan, const struct nb_bootstrap_token *token,
                  const char *csr_name, const uint8_t key[static NB_SHA256_SIZE]) {
        char name[64], secret[64], what[64], holder[2 * NB_SHA256_SIZE + 1];
        struct nb_admin_call *call;

        snprintf(what, sizeof(what), "claiming token %s", token->id);
        snprintf(name, sizeof(name), NB_CLAIM_NAME_PREFIX "%s", token->id);
        snprintf(secret, sizeof(secret), NB_TOKEN_SECRET_NAME_PREFIX "%s", token->id);
        nb_hex_encode(key, NB_SHA256_SIZE, holder);
        call = nb_plan_write(plan, "POST", NB_LEASES_PATH, what);
        nb_json_format(&call->body,
                       "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease',"
                       "'metadata':{'name':%s,'namespace':'kube-system',"
                       "'labels':{'node-bootstrap/claim':'true'},"
                       "'annotations':{'" CSR_ANNOTATION "':%s},'ownerReferences':[{"
                       "'apiVersion':'v1','kind':'Secret','name':%s,'uid':%s}]},"
                       "'spec':{'holderIdentity':%s}}",
                       name, csr_name, secret, token->uid, holder);
}

int nb_claim_written(const struct nb_admin_call *call, int r, struct nb_failure *f) {
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r,
                                           "%s: the API server does not serve Leases", call->what);
        return r < 300 ? r : 0;
}
