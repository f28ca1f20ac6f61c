/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the work of the parts. Each piece of work has a slot while it waits for answers, so a call
 * that takes long holds up nothing else. */

#include <errno.h>
#include <time.h>

#include "admin/controller/controller.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

#define RESUME_MS 1000
#define WORKING_MS 20 /* then events are read */
#define SLOTS_RESERVED 4
#define FLOW_SLOTS_MAX 4

void nb_controller_queue(struct nb_controller *controller, struct nb_work *work,
                         uint64_t after_ms) {
        if (work->slot && controller->admin.exchange != &work->slot->exchange)
                work->is_changed = true;
        else if (nb_queue_put(&controller->queue, work, nb_now_ms() + after_ms) < 0)
                nb_log(LOG_ERR, NB_NONE, "memory ran out, so a change was not handled");
}

void nb_controller_drop_work(struct nb_controller *controller, struct nb_work *work) {
        struct nb_call_slot *slot = work->slot;

        nb_work_done(&controller->queue, work);
        work->slot = NULL;
        if (!slot)
                return;
        slot->work = NULL;
        if (controller->admin.exchange != &slot->exchange)
                nb_exchange_done(&slot->exchange);
}

bool nb_controller_is_outage(const struct nb_failure *f) {
        return f->code == NB_ADMIN_UNREACHABLE || f->code == NB_ADMIN_UNTRUSTED ||
               f->code == NB_SERVER_ERROR || f->code == NB_ADMIN_UNAUTHORIZED;
}

/* The first failure of work is logged, but not its repetitions. */
static int handle_failed_work(struct nb_controller *controller, struct nb_work *work,
                              const struct nb_failure *f) {
        if (f->code != NB_NONE && work->attempt == 0)
                nb_log_failure(LOG_WARNING, f);
        if (nb_controller_is_outage(f))
                controller->resume_ms = nb_now_ms() + RESUME_MS + f->retry_after_ms;
        nb_controller_queue(controller, work,
                            nb_backoff_ms(work->attempt++, NB_WORK_RETRY_FIRST_MS,
                                          NB_WORK_RETRY_CAP_MS, nb_random()));
        return nb_controller_renew_credential(controller, f);
}

static int run_slot(struct nb_controller *controller, struct nb_call_slot *slot) {
        struct nb_work *work = slot->work;
        struct nb_failure f = { 0 };
        int r;

        controller->admin.exchange = &slot->exchange;
        nb_exchange_rewind(&slot->exchange);
        r = work->run(work->userdata, work, &f);
        controller->admin.exchange = NULL;
        if (r == -EINPROGRESS && f.code == NB_NONE)
                return 0;
        nb_exchange_done(&slot->exchange);
        if (!TAKE(slot->work)) /* it was dropped */
                return 0;
        work->slot = NULL;
        if (r == -ECANCELED && f.code == NB_NONE)
                return r;
        if (r >= 0)
                work->attempt = 0;
        r = r < 0 ? handle_failed_work(controller, work, &f) : 0;
        if (TAKE(work->is_changed)) {
                if (work->on_change)
                        work->on_change(work->userdata);
                else
                        nb_controller_queue(controller, work, 0);
        }
        return r;
}

/* A flow has few slots, since its calls delay those of others at the API server. The last slots are
 * reserved for flows that have none: otherwise a few parties could fill all slots with calls that
 * take long. */
static struct nb_call_slot *find_free_slot(struct nb_controller *controller,
                                           const struct nb_work *work, bool *ret_is_flow_busy) {
        struct nb_call_slot *found = NULL;
        size_t n_free = 0, n_own = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++) {
                struct nb_call_slot *slot = &controller->slots[i];

                if (!slot->work) {
                        found = slot;
                        n_free++;
                } else
                        n_own += work->flow && slot->work->flow == work->flow;
        }
        *ret_is_flow_busy = n_free > 0 &&
                            (n_own >= FLOW_SLOTS_MAX || (n_own > 0 && n_free <= SLOTS_RESERVED));
        return *ret_is_flow_busy || (work->is_last && n_free <= SLOTS_RESERVED) ? NULL : found;
}

static int run_answered(struct nb_controller *controller) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots) && r >= 0; i++) {
                struct nb_call_slot *slot = &controller->slots[i];

                if (slot->work && !nb_exchange_is_waiting(&slot->exchange))
                        r = run_slot(controller, slot);
        }
        return r;
}

int nb_controller_run_work(struct nb_controller *controller) {
        const uint64_t end_ms = nb_now_ms() + WORKING_MS;
        int r = run_answered(controller);

        nb_queue_release(&controller->queue);
        controller->is_blocked = false;
        while (r >= 0 && controller->is_leading && nb_now_ms() >= controller->resume_ms &&
               nb_now_ms() < end_ms) {
                struct nb_work *work = nb_queue_find(&controller->queue, nb_now_ms());
                bool is_flow_busy = false;
                struct nb_call_slot *slot = work ? find_free_slot(controller, work, &is_flow_busy)
                                                 : NULL;

                if (is_flow_busy && nb_queue_hold(&controller->queue, work) >= 0)
                        continue;
                controller->is_blocked = work && !slot;
                if (!slot)
                        break;
                nb_queue_take(&controller->queue, work);
                slot->work = work;
                work->slot = slot;
                r = run_slot(controller, slot);
        }
        return r;
}

uint64_t nb_controller_work_due(const struct nb_controller *controller) {
        uint64_t due_ms = controller->is_blocked ? nb_queue_next_due(&controller->queue)
                                                 : nb_queue_due(&controller->queue);

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++) {
                const struct nb_call_slot *slot = &controller->slots[i];

                if (slot->work && !nb_exchange_is_waiting(&slot->exchange))
                        return 0;
        }
        if (!controller->is_leading)
                return NB_TIME_INFINITE;
        return due_ms > controller->resume_ms ? due_ms : controller->resume_ms;
}

bool nb_controller_take_answer(struct nb_controller *controller,
                               const struct nb_http_transfer *done) {
        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                if (nb_exchange_take_done(&controller->slots[i].exchange, done))
                        return true;
        return false;
}
