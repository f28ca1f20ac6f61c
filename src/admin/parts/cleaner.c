/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/parts/parts.h"
#include "base/macro.h"
#include "os/clock.h"
#include "systemd/log.h"

/* Deletes the Secrets of expired tokens, as tokencleaner of kube-controller-manager does, but not
 * while the controller decides on a request of the token: the request was made in time. */

#define SWEEP_MS 1000 /* only the records are looked at */

static bool is_awaited(const struct nb_controller *controller, const char *token_id) {
        const struct nb_request_record *record = nb_controller_find_users(controller, token_id);

        for (; record && token_id[0]; record = record->next)
                if (record->state == NB_CSR_STATE_PENDING && !record->is_others &&
                    !strcmp(record->token_id, token_id))
                        return true;
        return false;
}

struct nb_token_record *nb_expired_choose(const struct nb_controller *controller, time_t now,
                                          uint64_t now_ms) {
        const struct nb_records *tokens = &controller->tokens;
        struct nb_token_record *found = NULL;

        for (size_t i = 0; i < tokens->n && now != 0; i++) {
                struct nb_token_record *token = tokens->items[i];

                if (nb_bootstrap_token_is_expired(token->expires, now) &&
                    !token->is_being_deleted && now_ms >= token->due_ms &&
                    (!found || token->due_ms < found->due_ms) && !is_awaited(controller, token->id))
                        found = token;
        }
        return found;
}

/* Deletes the Secret as the watch has shown it: somebody may have changed its expiration since. */
static int begin_cleaning(void *userdata, struct nb_plan *plan) {
        struct nb_controller *controller = userdata;
        struct nb_cleaner *cleaner = &controller->cleaner;
        const struct nb_token_record *token = nb_expired_choose(
                controller, nb_controller_time(controller), nb_now_ms());

        if (!token) {
                nb_work_again(&cleaner->work, SWEEP_MS);
                return 1;
        }
        snprintf(cleaner->name, sizeof(cleaner->name), "%s", token->record.key);
        nb_secret_add_deletion(plan, token->record.key, token->uid, token->version);
        return 0;
}

static int judge_cleaning(void *userdata _unused_, struct nb_plan *plan _unused_,
                          struct nb_failure *f _unused_) {
        return 0;
}

/* After a failure another Secret is next, at once unless it would fail as well: a webhook or a
 * finalizer may prevent this deletion for ever. Only the first failure is reported. */
static int note_deletion(void *userdata, struct nb_plan *plan _unused_,
                         const struct nb_admin_call *call _unused_, int r, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct nb_cleaner *cleaner = &controller->cleaner;
        struct nb_token_record *token = nb_records_find(&controller->tokens, cleaner->name);
        const bool is_outage = r < 0 && nb_controller_is_outage(f);

        if (r >= 0 && r < 300)
                nb_log(LOG_INFO, NB_NONE, "deleted the expired Secret %s", cleaner->name);
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
        nb_failure_clear(f);
        nb_work_again(&cleaner->work, 0);
        return 0;
}

static void begin_cleaner(struct nb_controller *controller) {
        static const struct nb_plan_steps steps = { begin_cleaning, judge_cleaning, note_deletion,
                                                    NULL };

        controller->cleaner.work = (struct nb_work){ .steps = &steps, .userdata = controller };
        (void)nb_work_set_flow(&controller->queue, &controller->cleaner.work, "cleaner");
        nb_controller_queue(controller, &controller->cleaner.work, 0);
}

static void end_cleaner(struct nb_controller *controller) {
        nb_controller_drop_work(controller, &controller->cleaner.work);
}

const struct nb_part nb_part_cleaner = {
        .name = "cleaner",
        .is_default = true,
        .begin = begin_cleaner,
        .end = end_cleaner,
};
