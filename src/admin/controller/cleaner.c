/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "admin/policy/token_secret.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

/* Deletes the Secrets of expired tokens, as tokencleaner of kube-controller-manager does, but not
 * while the controller decides on a request of the token: the request was made in time. */

#define SWEEP_MS 1000 /* only the records are looked at */

struct cleaner {
        struct nb_records tokens; /* those that expire */
        struct nb_work work;
        char name[NB_TOKEN_SECRET_NAME_MAX + 1]; /* of the Secret that is being deleted */
        bool is_clock_reported;
};

struct expiring_token {
        struct nb_record record; /* key: the name of the Secret */
        time_t expires;
        uint64_t due_ms;  /* of the next attempt, after a failure */
        unsigned attempt; /* failed attempts in a row */
        char name[];
};

static void drop_token(void *userdata, struct nb_record *record) {
        struct cleaner *cleaner = userdata;

        nb_records_remove(&cleaner->tokens, record);
        free(record);
}

/* Reads the Secret again, since somebody may have changed its expiration. 0: it is not expired, or
 * is gone. */
static int read_expired(struct nb_controller *controller, const char *name,
                        struct nb_token_secret *ret_secret, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[320];
        int r;

        snprintf(path, sizeof(path), "%s/%s", NB_SECRETS_PATH, name);
        snprintf(what, sizeof(what), "reading the Secret %s", name);
        r = nb_admin_get(&controller->admin, what, path, &json, f);
        if (r <= 0)
                return r;
        nb_token_secret_read(&json, ret_secret);
        return json.r < 0 ? json.r : nb_token_secret_is_expired(ret_secret->expires, time(NULL));
}

/* A clock that is before the build time of this program is wrong: a token that seems expired may
 * still be in use. */
static bool is_clock_usable(struct cleaner *cleaner) {
        bool is_usable = time(NULL) >= nb_build_time();

        if (!is_usable && !cleaner->is_clock_reported)
                nb_log(LOG_WARNING, NB_NONE,
                       "the clock is wrong; no tokens are deleted until it is set");
        cleaner->is_clock_reported = !is_usable;
        return is_usable;
}

static bool is_awaited(const struct nb_controller *controller, const char *name) {
        const struct nb_records *requests = &controller->requests[NB_NODE_REQUEST_CLIENT];
        const size_t prefix_len = strlen(NB_TOKEN_SECRET_NAME_PREFIX);

        /* The API server accepts any name for a Secret of this type. */
        if (strncmp(name, NB_TOKEN_SECRET_NAME_PREFIX, prefix_len) != 0)
                return false;
        for (size_t i = 0; i < requests->n; i++) {
                const struct nb_request_record *request = (struct nb_request_record *)
                                                                  requests->records[i];

                if (request->state == NB_CSR_STATE_PENDING && request->token_id[0] &&
                    strcmp(name + prefix_len, request->token_id) == 0)
                        return true;
        }
        return false;
}

/* The one that was due first: another one may be impossible to delete. */
static const char *find_expired(const struct nb_controller *controller) {
        struct cleaner *cleaner = controller->cleaner;
        const struct expiring_token *found = NULL;
        time_t now = time(NULL);

        for (size_t i = 0; i < cleaner->tokens.n && is_clock_usable(cleaner); i++) {
                const struct expiring_token *token = (struct expiring_token *)
                                                             cleaner->tokens.records[i];

                if (nb_token_secret_is_expired(token->expires, now) &&
                    nb_now_ms() >= token->due_ms && (!found || token->due_ms < found->due_ms) &&
                    !is_awaited(controller, token->name))
                        found = token;
        }
        return found ? found->name : NULL;
}

/* Another Secret is next, at once unless it would fail as well: a webhook or a finalizer may
 * prevent this deletion for ever. Only the first failure is reported. */
static int try_later(struct nb_controller *controller, int r, struct nb_failure *f) {
        struct cleaner *cleaner = controller->cleaner;
        struct nb_record *record = nb_records_find(&cleaner->tokens, cleaner->name);
        struct expiring_token *token = (struct expiring_token *)record;
        bool is_reported = token && token->attempt > 0;

        cleaner->name[0] = '\0';
        if (token)
                token->due_ms = nb_now_ms() + nb_backoff_ms(token->attempt++,
                                                            NB_WORK_RETRY_FIRST_MS,
                                                            NB_WORK_RETRY_CAP_MS, nb_random());
        if (!token || nb_controller_is_outage(f)) {
                if (is_reported)
                        nb_failure_clear(f);
                return r;
        }
        if (!is_reported)
                nb_log_failure(LOG_WARNING, f);
        nb_controller_queue(controller, &cleaner->work, nb_now_ms());
        return 0;
}

/* Deletes one Secret. The watch may report this before the answer arrives, so the name is kept. */
static int delete_expired(void *userdata, struct nb_work *work, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct cleaner *cleaner = controller->cleaner;
        const char *name = cleaner->name[0] ? cleaner->name : find_expired(controller);
        _cleanup_(nb_token_secret_done) struct nb_token_secret secret = { 0 };
        struct nb_record *record;
        int r;

        if (!name) {
                nb_controller_queue(controller, work, nb_now_ms() + SWEEP_MS);
                return 0;
        }
        if (name != cleaner->name)
                strcpy(cleaner->name, name);
        r = read_expired(controller, cleaner->name, &secret, f);
        if (r > 0)
                r = nb_secret_delete(&controller->admin, cleaner->name, secret.uid,
                                     secret.resource_version, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        if (r < 0)
                return try_later(controller, r, f);
        if (r > 0)
                nb_log(LOG_INFO, NB_NONE, "deleted the expired Secret %s", cleaner->name);
        record = nb_records_find(&cleaner->tokens, cleaner->name);
        if (record && (r > 0 || secret.expires == 0))
                drop_token(cleaner, record);
        else if (record)
                ((struct expiring_token *)record)->expires = secret.expires;
        cleaner->name[0] = '\0';
        nb_controller_queue(controller, work, nb_now_ms());
        return 0;
}

static void keep_token(struct cleaner *cleaner, const struct nb_token_secret *secret) {
        struct expiring_token *token = (struct expiring_token *)nb_records_find(&cleaner->tokens,
                                                                                secret->name);
        size_t size = strlen(secret->name) + 1;

        if (!token) {
                token = calloc(1, sizeof(*token) + size);
                if (!token)
                        goto memory;
                memcpy(token->name, secret->name, size);
                token->record.key = token->name;
                if (nb_records_add(&cleaner->tokens, &token->record) < 0) {
                        free(token);
                        goto memory;
                }
        }
        nb_records_touch(&cleaner->tokens, &token->record);
        token->expires = secret->expires;
        return;
memory:
        nb_log(LOG_WARNING, NB_INTERNAL, "memory ran out; the Secret %s will not be deleted",
               secret->name);
}

static void on_secret(struct nb_controller *controller, struct nb_json *object,
                      enum nb_change change) {
        struct cleaner *cleaner = controller->cleaner;
        _cleanup_(nb_token_secret_done) struct nb_token_secret secret = { 0 };
        struct nb_record *record;

        nb_token_secret_read(object, &secret);
        if (object->r < 0)
                return;
        record = nb_records_find(&cleaner->tokens, secret.name);
        if (change != NB_CHANGE_DELETED && secret.expires != 0)
                keep_token(cleaner, &secret);
        else if (record)
                drop_token(cleaner, record);
}

static void on_secrets_listed(struct nb_controller *controller, bool is_complete) {
        struct cleaner *cleaner = controller->cleaner;

        if (is_complete)
                nb_records_sweep(&cleaner->tokens, drop_token, cleaner);
        else
                nb_records_begin(&cleaner->tokens);
}

static int begin_cleaner(struct nb_controller *controller, struct nb_failure *f) {
        struct cleaner *cleaner = calloc(1, sizeof(*cleaner));

        if (!cleaner)
                return nb_failure_set_memory(f);
        cleaner->work = (struct nb_work){ .run = delete_expired, .userdata = controller };
        controller->cleaner = cleaner;
        nb_controller_queue(controller, &cleaner->work, nb_now_ms());
        return 0;
}

static void end_cleaner(struct nb_controller *controller) {
        struct cleaner *cleaner = controller->cleaner;

        if (!cleaner)
                return;
        nb_controller_drop_work(controller, &cleaner->work);
        while (cleaner->tokens.n > 0)
                drop_token(cleaner, cleaner->tokens.records[cleaner->tokens.n - 1]);
        nb_records_done(&cleaner->tokens);
        free(cleaner);
        controller->cleaner = NULL;
}

const struct nb_part nb_part_cleaner = {
        .name = "cleaner",
        .is_default = true,
        .begin = begin_cleaner,
        .on_secret = on_secret,
        .on_secrets_listed = on_secrets_listed,
        .end = end_cleaner,
};
