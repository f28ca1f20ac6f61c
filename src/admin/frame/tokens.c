/* SPDX-License-Identifier: Apache-2.0 */

/* The records of the Secrets of tokens. */

#include <stdio.h>
#include <string.h>

#include "admin/frame/controller.h"
#include "base/macro.h"
#include "systemd/log.h"

struct nb_token_record *nb_token_record_find(const struct nb_records *tokens, const char *id) {
        char name[sizeof(NB_TOKEN_SECRET_NAME_PREFIX) + NB_TOKEN_SECRET_NAME_MAX];

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        return nb_records_find(tokens, name);
}

struct nb_token_record *nb_controller_find_token(const struct nb_controller *controller,
                                                 const char *id) {
        struct nb_token_record *record = nb_token_record_find(&controller->tokens, id);

        return record && !record->has_flaw ? record : NULL;
}

/* The part that signs needs the key, of which nothing is kept. */
static void tell_signer(struct nb_controller *controller, struct nb_token_record *record,
                        const struct nb_bootstrap_token *token) {
        if (controller->signing)
                controller->signing->on_token(controller, record, token);
}

static void drop_token(void *userdata, struct nb_record *record) {
        struct nb_controller *controller = userdata;
        const struct nb_token_record *token = (struct nb_token_record *)record;
        struct nb_request_record *next = nb_controller_find_users(controller, token->id);

        /* A leader does so when it has looked for the token. */
        for (struct nb_request_record *request; (request = next);) {
                next = request->next;
                if (!controller->is_leading && request->is_gone && !request->work.slot &&
                    strcmp(request->token_id, token->id) == 0)
                        nb_controller_drop_request(request);
        }
        nb_records_drop(&controller->tokens, record);
        tell_signer(controller, NULL, NULL);
}

static void write_token(struct nb_controller *controller, const struct nb_bootstrap_token *token) {
        struct nb_token_record *record = nb_records_put(&controller->tokens, token->name,
                                                        sizeof(*record));

        if (!record) {
                nb_log(LOG_ERR, NB_NONE, "Secret %s: memory ran out", token->name);
                return;
        }
        record->due_ms = record->attempt = 0;
        record->created = token->created;
        record->expires = token->expires;
        record->has_flaw = token->flaw;
        record->is_enrolled = nb_list_has(token->groups, NB_TOKEN_GROUP_ENROLLED);
        record->is_being_deleted = token->is_being_deleted;
        memcpy(record->id, token->id, sizeof(record->id));
        memcpy(record->uid, token->uid, sizeof(record->uid));
        memcpy(record->version, token->resource_version, sizeof(record->version));
        memcpy(record->node, token->node, sizeof(record->node));
        tell_signer(controller, record, token);
        if (token->flaw)
                nb_log(LOG_DEBUG, NB_NONE, "Secret %s: %s", token->name, token->flaw);
        else
                nb_controller_wake(controller, NB_FACT_TOKEN, token->id, NULL);
}

void nb_tokens_on_object(void *userdata, struct nb_json *object, enum nb_change change) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        struct nb_record *record;

        nb_bootstrap_token_read(object, &token);
        if (object->r < 0)
                return;
        record = nb_records_find(&controller->tokens, token.name);
        if (change != NB_CHANGE_DELETED)
                write_token(controller, &token);
        else if (record)
                drop_token(controller, record);
}

void nb_tokens_on_list(void *userdata, bool is_complete) {
        struct nb_controller *controller = userdata;

        nb_records_list(&controller->tokens, is_complete, drop_token, controller);
        if (!is_complete)
                return;
        controller->has_all_tokens = true;
        tell_signer(controller, NULL, NULL);
}
