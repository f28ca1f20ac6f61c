/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/controller/controller.h"
#include "admin/policy/token_secret.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

/* Deletes the Secrets of expired tokens, as tokencleaner of kube-controller-manager does. */

/* The clock may be set while a token waits for its expiration. */
#define LOOK_AGAIN_MS ((uint64_t)10 * 60 * 1000)

struct cleaner {
        struct nb_records tokens; /* those that expire */
        bool is_clock_reported;
};

struct expiring_token {
        struct nb_record record; /* key: the name of the Secret */
        struct nb_work work;
        struct nb_controller *controller;
        time_t expires;
        char name[];
};

static void drop_token(void *userdata, struct nb_record *record) {
        struct nb_controller *controller = userdata;
        struct cleaner *cleaner = controller->cleaner;
        struct expiring_token *token = (struct expiring_token *)record;

        nb_queue_remove(&token->work);
        nb_records_remove(&cleaner->tokens, record);
        free(token);
}

/* Queues the work for the moment of the expiration. */
static void await_expiration(struct expiring_token *token) {
        struct timespec now;
        uint64_t wait_ms = 0;

        (void)clock_gettime(CLOCK_REALTIME, &now);
        if (token->expires > now.tv_sec)
                wait_ms = (uint64_t)(token->expires - now.tv_sec) * 1000 -
                          (uint64_t)now.tv_nsec / 1000000;
        if (wait_ms > LOOK_AGAIN_MS)
                wait_ms = LOOK_AGAIN_MS;
        nb_controller_queue(token->controller, &token->work, nb_now_ms() + wait_ms);
}

/* 1: deleted; 0: it does not exist, or was changed; the watch reports a change. */
static int delete_secret(struct nb_admin *admin, const struct nb_token_secret *secret,
                         struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(1024);
        struct nb_json_writer writer = { .buffer = &body };
        char path[NB_ADMIN_PATH_MAX], what[320];
        int r;

        snprintf(path, sizeof(path), "%s/%s", NB_SECRETS_PATH, secret->name);
        snprintf(what, sizeof(what), "deleting the expired Secret %s", secret->name);
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", "v1");
        nb_json_put_string(&writer, "kind", "DeleteOptions");
        nb_json_open(&writer, "preconditions", '{');
        nb_json_put_string(&writer, "uid", secret->uid);
        nb_json_put_string(&writer, "resourceVersion", secret->resource_version);
        r = nb_json_finish(&writer);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot format DeleteOptions: %m");
        r = nb_admin_perform(admin,
                             &(const struct nb_admin_call){ .method = "DELETE",
                                                            .what = what,
                                                            .path = path,
                                                            .body = body.data,
                                                            .body_len = body.len },
                             &answer, f);
        return r < 0 ? r : r >= 200 && r <= 202;
}

/* Reads the Secret again, since somebody may have changed its expiration. 0: it is not expired, or
 * is gone. */
static int read_expired(struct expiring_token *token, struct nb_token_secret *ret_secret,
                        struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char path[NB_ADMIN_PATH_MAX], what[320];
        int r;

        snprintf(path, sizeof(path), "%s/%s", NB_SECRETS_PATH, token->name);
        snprintf(what, sizeof(what), "reading the Secret %s", token->name);
        r = nb_admin_get(&token->controller->admin, what, path, &json, f);
        if (r <= 0)
                return r;
        nb_token_secret_read(&json, ret_secret);
        if (json.r < 0)
                return json.r;
        if (nb_token_secret_is_expired(ret_secret->expires, time(NULL)))
                return 1;
        nb_token_secret_done(ret_secret);
        return 0;
}

/* A clock that is before the build time of this program is wrong: a token that seems expired may
 * still be in use. */
static bool is_clock_usable(struct cleaner *cleaner) {
        if (time(NULL) >= nb_build_time()) {
                cleaner->is_clock_reported = false;
                return true;
        }
        if (!cleaner->is_clock_reported)
                nb_log(LOG_WARNING, NB_NONE,
                       "the clock is wrong; no tokens are deleted until it is set");
        cleaner->is_clock_reported = true;
        return false;
}

static int delete_if_expired(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct expiring_token *token = userdata;
        struct nb_controller *controller = token->controller;
        struct nb_token_secret secret = { 0 };
        int r;

        if (!is_clock_usable(controller->cleaner)) {
                nb_controller_queue(controller, &token->work, nb_now_ms() + LOOK_AGAIN_MS);
                return 0;
        }
        if (!nb_token_secret_is_expired(token->expires, time(NULL))) {
                await_expiration(token);
                return 0;
        }
        r = read_expired(token, &secret, f);
        if (r > 0)
                r = delete_secret(&controller->admin, &secret, f);
        if (r > 0) {
                nb_log(LOG_INFO, NB_NONE, "deleted the expired Secret %s", token->name);
                nb_controller_note(controller, "deleted %s", token->name);
        }
        nb_token_secret_done(&secret);
        if (r < 0)
                return r;
        drop_token(controller, &token->record);
        return 0;
}

static void keep_token(struct nb_controller *controller, const struct nb_token_secret *secret) {
        struct cleaner *cleaner = controller->cleaner;
        struct expiring_token *token = (struct expiring_token *)nb_records_find(&cleaner->tokens,
                                                                                secret->name);
        size_t size = strlen(secret->name) + 1;

        if (!token) {
                token = calloc(1, sizeof(*token) + size);
                if (!token)
                        goto memory;
                memcpy(token->name, secret->name, size);
                token->record.key = token->name;
                token->controller = controller;
                token->work = (struct nb_work){ .run = delete_if_expired, .userdata = token };
                if (nb_records_add(&cleaner->tokens, &token->record) < 0) {
                        free(token);
                        goto memory;
                }
        }
        nb_records_touch(&cleaner->tokens, &token->record);
        token->expires = secret->expires;
        await_expiration(token);
        return;
memory:
        nb_log(LOG_WARNING, NB_INTERNAL, "memory ran out; the Secret %s will not be deleted",
               secret->name);
}

static void on_secret(struct nb_controller *controller, struct nb_json *object,
                      enum nb_change change) {
        struct cleaner *cleaner = controller->cleaner;
        struct nb_token_secret secret = { 0 };
        struct nb_record *record;

        nb_token_secret_read(object, &secret);
        if (object->r < 0)
                return;
        record = nb_records_find(&cleaner->tokens, secret.name);
        if (change != NB_CHANGE_DELETED && secret.expires != 0)
                keep_token(controller, &secret);
        else if (record)
                drop_token(controller, record);
        nb_token_secret_done(&secret);
}

static void on_secrets_listed(struct nb_controller *controller, bool is_complete) {
        struct cleaner *cleaner = controller->cleaner;

        if (is_complete)
                nb_records_sweep(&cleaner->tokens, drop_token, controller);
        else
                nb_records_begin(&cleaner->tokens);
}

static int begin_cleaner(struct nb_controller *controller, struct nb_failure *f) {
        controller->cleaner = calloc(1, sizeof(struct cleaner));
        return controller->cleaner ? 0 : nb_failure_set_memory(f);
}

static void end_cleaner(struct nb_controller *controller) {
        struct cleaner *cleaner = controller->cleaner;

        if (!cleaner)
                return;
        while (cleaner->tokens.n > 0)
                drop_token(controller, cleaner->tokens.records[cleaner->tokens.n - 1]);
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
