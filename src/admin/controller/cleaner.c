/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/controller/controller.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

/* Deletes the Secrets of expired tokens, as tokencleaner of kube-controller-manager does, but not
 * while the controller decides on a request of the token: the request was made in time. */

#define SWEEP_MS 1000 /* only the records are looked at */

/* A clock that is before the build time of this program is wrong: a token that seems expired may
 * still be in use. */
static bool is_clock_usable(struct nb_cleaner *cleaner, time_t now) {
        bool is_usable = now >= nb_build_time();

        if (!is_usable && !cleaner->is_clock_reported)
                nb_log(LOG_WARNING, NB_NONE,
                       "the clock is wrong; no tokens are deleted until it is set");
        cleaner->is_clock_reported = !is_usable;
        return is_usable;
}

static bool is_awaited(const struct nb_records *requests, const struct nb_token_record *token) {
        for (size_t i = 0; i < requests->n && token->id[0]; i++) {
                const struct nb_request_record *request = (struct nb_request_record *)
                                                                  requests->records[i];

                if (request->state == NB_CSR_STATE_PENDING &&
                    strcmp(token->id, request->token_id) == 0)
                        return true;
        }
        return false;
}

const struct nb_token_record *nb_expired_choose(const struct nb_records *tokens,
                                                const struct nb_records *requests, time_t now,
                                                uint64_t now_ms) {
        const struct nb_token_record *found = NULL;

        for (size_t i = 0; i < tokens->n; i++) {
                const struct nb_token_record *token = (struct nb_token_record *)tokens->records[i];

                if (nb_bootstrap_token_is_expired(token->expires, now) && now_ms >= token->due_ms &&
                    (!found || token->due_ms < found->due_ms) && !is_awaited(requests, token))
                        found = token;
        }
        return found;
}

static bool choose_secret(struct nb_controller *controller) {
        struct nb_cleaner *cleaner = &controller->cleaner;
        const time_t now = time(NULL);
        const struct nb_token_record *found = nb_expired_choose(
                &controller->tokens, &controller->requests[NB_NODE_REQUEST_CLIENT], now,
                nb_now_ms());

        if (!found || !is_clock_usable(cleaner, now))
                return false;
        snprintf(cleaner->name, sizeof(cleaner->name), "%s", found->name);
        return true;
}

/* Reads the Secret again, since somebody may have changed its expiration. 1: deleted. */
static int delete_expired(struct nb_controller *controller, const char *name,
                          struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = { 0 };
        int r = nb_facts_read_token_secret(&controller->admin, name, &token, f);

        if (r <= 0 || token.is_being_deleted ||
            !nb_bootstrap_token_is_expired(token.expires, time(NULL)))
                return r < 0 ? r : 0;
        return nb_secret_delete(&controller->admin, name, token.uid, token.resource_version, f);
}

/* After a failure another Secret is next, at once unless it would fail as well: a webhook or a
 * finalizer may prevent this deletion for ever. Only the first failure is reported. */
static int clean(void *userdata, struct nb_work *work, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct nb_cleaner *cleaner = &controller->cleaner;
        struct nb_token_record *token;
        bool is_outage;
        int r;

        /* The watch may report the deletion before its answer arrives, so the name is kept. */
        if (!cleaner->name[0] && !choose_secret(controller)) {
                nb_controller_queue(controller, work, SWEEP_MS);
                return 0;
        }
        r = delete_expired(controller, cleaner->name, f);
        if (r < 0 && f->code == NB_NONE)
                return r;
        if (r > 0)
                nb_log(LOG_INFO, NB_NONE, "deleted the expired Secret %s", cleaner->name);
        token = (struct nb_token_record *)nb_records_find(&controller->tokens, cleaner->name);
        cleaner->name[0] = '\0';
        is_outage = r < 0 && nb_controller_is_outage(f);
        if (token) {
                token->due_ms = nb_now_ms() + nb_backoff_ms(token->attempt, NB_WORK_RETRY_FIRST_MS,
                                                            NB_WORK_RETRY_CAP_MS, nb_random());
                if (token->attempt++ > 0)
                        nb_failure_clear(f);
        }
        if (is_outage)
                return r;
        if (f->code != NB_NONE)
                nb_log_failure(LOG_WARNING, f);
        nb_controller_queue(controller, work, 0);
        return 0;
}

static void begin_cleaner(struct nb_controller *controller) {
        controller->cleaner.work = (struct nb_work){ .run = clean, .userdata = controller };
        nb_controller_queue(controller, &controller->cleaner.work, 0);
}

const struct nb_part nb_part_cleaner = {
        .name = "cleaner",
        .is_default = true,
        .begin = begin_cleaner,
};
