/* SPDX-License-Identifier: Apache-2.0 */

/* Runs the work of the parts. Each piece of work has a slot while it waits for answers, so a call
 * that takes long holds up nothing else. */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "admin/frame/controller.h"
#include "admin/frame/lease.h"
#include "base/macro.h"
#include "os/clock.h"
#include "systemd/log.h"

#define RESUME_MS 1000
#define WORKING_MS 20 /* then events are read */
#define SLOTS_RESERVED 3
#define FLOW_SLOTS_MAX 3
/* Beside one of each slot, so that a decision reads its facts together. With the watches, the Lease
 * and a list, there are at most 24 transfers: each is a process. */
#define TRANSFERS_SHARED 6
#define CLOCK_OFFSET_MAX_SEC 60

int nb_controller_renew_credential(struct nb_controller *controller,
                                   const struct nb_failure *rejected) {
        return nb_admin_keep_usable(&controller->admin, rejected, nb_now_ms(),
                                    &controller->credential_failure);
}

bool nb_controller_may_write(const struct nb_controller *controller) {
        return controller->is_leading &&
               nb_election_is_leader(&controller->lease.election, &nb_lease_waits, nb_now_ms());
}

time_t nb_controller_time(struct nb_controller *controller) {
        const time_t now = nb_admin_time(&controller->admin);
        const long long offset = (long long)(time(NULL) - now);
        const bool is_wrong = now != 0 && llabs(offset) > CLOCK_OFFSET_MAX_SEC;

        if (is_wrong && !controller->is_clock_reported)
                nb_log(LOG_WARNING, NB_NONE,
                       "the clock of this machine differs by %lld s from that of the API server; "
                       "no tokens are deleted until one of them is set",
                       offset);
        controller->is_clock_reported = is_wrong;
        return is_wrong ? 0 : now;
}

/* --- The queue --- */

void nb_controller_queue(struct nb_controller *controller, struct nb_work *work,
                         uint64_t after_ms) {
        if (work->slot)
                work->is_changed = true;
        else if (nb_queue_put(&controller->queue, work, nb_now_ms() + after_ms) < 0)
                nb_log(LOG_ERR, NB_NONE, "memory ran out, so a change was not handled");
}

void nb_work_again(struct nb_work *work, uint64_t after_ms) {
        work->is_again = true;
        work->again_ms = nb_now_ms() + after_ms;
}

void nb_controller_drop_work(struct nb_controller *controller, struct nb_work *work) {
        struct nb_call_slot *slot = work->slot;

        nb_work_done(&controller->queue, work);
        work->slot = NULL;
        if (!slot)
                return;
        slot->work = NULL;
        nb_plan_done(&slot->plan);
}

bool nb_controller_is_outage(const struct nb_failure *f) {
        return f->code == NB_ADMIN_UNREACHABLE || f->code == NB_ADMIN_UNTRUSTED ||
               f->code == NB_ADMIN_UNAUTHORIZED;
}

/* The first failure of work is logged, but not its repetitions. What the API server says of one
 * object, such as when to ask again, is about that object. */
static int handle_failed_work(struct nb_controller *controller, struct nb_work *work,
                              const struct nb_failure *f) {
        uint64_t after_ms = nb_backoff_ms(work->attempt, NB_WORK_RETRY_FIRST_MS,
                                          NB_WORK_RETRY_CAP_MS, nb_random());

        if (f->code != NB_NONE && work->attempt == 0)
                nb_log_failure(LOG_WARNING, f);
        work->attempt++;
        if (nb_controller_is_outage(f))
                controller->resume_ms = nb_now_ms() + RESUME_MS;
        nb_controller_queue(controller, work,
                            after_ms > f->retry_after_ms ? after_ms : f->retry_after_ms);
        return nb_controller_renew_credential(controller, f);
}

/* Each slot has one transfer, and all share the others. */
static unsigned find_room(const struct nb_controller *controller, const struct nb_call_slot *slot) {
        unsigned n_extra = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++) {
                const unsigned n = nb_plan_count(&controller->slots[i].plan);

                n_extra += n > 0 ? n - 1 : 0;
        }
        return (n_extra < TRANSFERS_SHARED ? TRANSFERS_SHARED - n_extra : 0) +
               (nb_plan_count(&slot->plan) == 0);
}

/* The work has ended: r is positive if it was done. It may be freed. */
static int end_work(struct nb_controller *controller, struct nb_call_slot *slot, int r,
                    const struct nb_failure *f) {
        struct nb_work *work = TAKE(slot->work);
        const uint64_t now_ms = nb_now_ms();
        int ended = 0;

        nb_plan_done(&slot->plan);
        work->slot = NULL;
        if (r == -ECANCELED && f->code == NB_NONE)
                return r;
        if (r > 0) {
                work->attempt = 0;
                if (work->is_again)
                        nb_controller_queue(controller, work,
                                            work->again_ms > now_ms ? work->again_ms - now_ms : 0);
        } else if (r == -EPERM && f->code == NB_NONE) /* until this controller leads again */
                nb_controller_queue(controller, work, 0);
        else
                ended = handle_failed_work(controller, work, f);
        if (TAKE(work->is_changed)) {
                if (work->on_change)
                        work->on_change(work->userdata);
                else
                        nb_controller_queue(controller, work, 0);
        }
        if (r > 0 && work->steps->finish)
                work->steps->finish(work->userdata);
        return ended;
}

static int run_slot(struct nb_controller *controller, struct nb_call_slot *slot) {
        struct nb_work *work = slot->work;
        struct nb_failure f = { 0 };
        int r = nb_plan_run(&slot->plan, &controller->admin, work->steps, work->userdata,
                            find_room(controller, slot), nb_controller_may_write(controller), &f);

        return r == 0 ? 0 : end_work(controller, slot, r, &f);
}

static int begin_work(struct nb_controller *controller, struct nb_call_slot *slot,
                      struct nb_work *work) {
        slot->work = work;
        work->slot = slot;
        work->is_changed = work->is_again = false;
        return work->steps->begin(work->userdata, &slot->plan) == 0
                       ? run_slot(controller, slot)
                       : end_work(controller, slot, 1, &(struct nb_failure){ 0 });
}

/* A flow has few slots, since its calls delay those of others at the API server. The last slots are
 * reserved for flows that have none: otherwise a few parties could fill all slots with calls that
 * take long. */
static bool may_run(void *userdata, const struct nb_work *work) {
        const struct nb_controller *controller = userdata;
        size_t n_free = 0, n_own = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++) {
                const struct nb_work *other = controller->slots[i].work;

                n_free += !other;
                n_own += other && other->flow == work->flow;
        }
        return n_own < FLOW_SLOTS_MAX && (n_own == 0 || n_free > SLOTS_RESERVED);
}

static struct nb_call_slot *find_free_slot(struct nb_controller *controller, bool *ret_has_many) {
        struct nb_call_slot *found = NULL;
        size_t n_free = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                if (!controller->slots[i].work) {
                        found = &controller->slots[i];
                        n_free++;
                }
        *ret_has_many = n_free > SLOTS_RESERVED;
        return found;
}

static int run_answered(struct nb_controller *controller) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(controller->slots) && r >= 0; i++) {
                struct nb_call_slot *slot = &controller->slots[i];

                if (slot->work)
                        r = run_slot(controller, slot);
        }
        return r;
}

int nb_controller_run_work(struct nb_controller *controller) {
        const uint64_t end_ms = nb_now_ms() + WORKING_MS;
        int r = run_answered(controller);

        controller->is_blocked = false;
        while (r >= 0 && controller->is_leading && nb_now_ms() >= controller->resume_ms &&
               nb_now_ms() < end_ms) {
                bool has_many;
                struct nb_call_slot *slot = find_free_slot(controller, &has_many);
                /* Without a slot, too: work that is due must not wake the loop. */
                struct nb_work *work = nb_queue_take(&controller->queue, nb_now_ms(), has_many,
                                                     slot ? may_run : NULL, controller);

                controller->is_blocked = !slot || !work;
                if (controller->is_blocked)
                        break;
                r = begin_work(controller, slot, work);
        }
        return r;
}

uint64_t nb_controller_work_due(const struct nb_controller *controller) {
        const uint64_t due_ms = controller->is_blocked || controller->queue.n_ready == 0
                                        ? nb_queue_due(&controller->queue)
                                        : 0;

        if (!controller->is_leading)
                return NB_TIME_INFINITE;
        return due_ms > controller->resume_ms ? due_ms : controller->resume_ms;
}

bool nb_controller_take_answer(struct nb_controller *controller,
                               const struct nb_http_transfer *done) {
        for (size_t i = 0; i < N_ELEMENTS(controller->slots); i++)
                if (nb_plan_take_done(&controller->slots[i].plan, &controller->admin, done))
                        return true;
        return false;
}
