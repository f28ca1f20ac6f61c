/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/frame/lease.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/object.h"
#include "os/clock.h"
#include "systemd/log.h"

#define CALL_MS 10000 /* later than a leader gives up */
#define PATH NB_LEASES_PATH "/" NB_LEASE_NAME
#define WHAT "electing a leader with the Lease " NB_LEASE_NAME

const struct nb_election_waits nb_lease_waits = { .renew_ms = 5000,
                                                  .standby_ms = NB_LEASE_STANDBY_SEC * 1000,
                                                  .expire_ms = NB_LEASE_DURATION_SEC * 1000,
                                                  .held_ms = 10000 };

static void add_write(struct nb_controller *controller, struct nb_plan *plan, const char *holder) {
        struct nb_lease *lease = &controller->lease;
        const bool exists = lease->version[0];
        struct nb_admin_call *call = nb_plan_write(plan, exists ? "PATCH" : "POST",
                                                   exists ? PATH : NB_LEASES_PATH, WHAT);
        char now[NB_RFC3339_SIZE], micro[NB_RFC3339_SIZE + 8];

        call->timeout_ms = CALL_MS;
        nb_time_format(nb_admin_time(&controller->admin), now);
        snprintf(micro, sizeof(micro), "%.19s.000000Z", now); /* metav1.MicroTime */
        nb_json_format(&call->body,
                       "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{");
        if (exists)
                nb_json_format(&call->body, "'resourceVersion':%s,", lease->version);
        nb_json_format(&call->body,
                       "'name':'" NB_LEASE_NAME "','namespace':'kube-system'},"
                       "'spec':{'holderIdentity':%s,'renewTime':%s,",
                       holder, micro);
        if (!lease->election.is_held) {
                nb_json_format(&call->body, "'acquireTime':%s,", micro);
                nb_buffer_printf(&call->body, "\"leaseTransitions\":%lld,",
                                 lease->transitions + (exists && !lease->is_own));
        }
        nb_buffer_printf(&call->body, "\"leaseDurationSeconds\":%d}}", NB_LEASE_DURATION_SEC);
        lease->sent_ms = nb_now_ms();
}

/* Without this line a standby looks like a controller that hangs. */
static void log_standby(struct nb_lease *lease, const char *holder) {
        char leader[sizeof(lease->leader)];

        NB_TEXT_COPY_LINE(leader, holder);
        if (strcmp(leader, lease->leader) != 0)
                nb_log(LOG_INFO, NB_NONE, "the controller %s is the leader; this one is on standby",
                       leader);
        NB_TEXT_COPY(lease->leader, leader);
}

/* --- Steps --- */

static int begin_election(void *userdata, struct nb_plan *plan) {
        struct nb_controller *controller = userdata;
        const struct nb_lease *lease = &controller->lease;

        if (lease->election.is_held && lease->version[0])
                add_write(controller, plan, controller->identity);
        else
                nb_plan_read(plan, 0, PATH, WHAT)->timeout_ms = CALL_MS;
        return 0;
}

/* The Lease was read, if this controller does not hold it. */
static int judge_lease(void *userdata, struct nb_plan *plan, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct nb_lease *lease = &controller->lease;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *holder = NULL;
        int r;

        if (!plan->reads[0].method)
                return 0;
        r = nb_call_read(&plan->reads[0], &controller->admin, &json, f);
        lease->version[0] = '\0';
        lease->transitions = 0;
        if (r > 0) {
                holder = nb_json_string(&json, "spec.holderIdentity");
                lease->transitions = nb_json_integer(&json, "spec.leaseTransitions");
                nb_json_copy(&json, "metadata.resourceVersion", lease->version,
                             sizeof(lease->version));
                r = json.r;
        }
        if (r < 0)
                return r;
        lease->is_own = holder && strcmp(holder, controller->identity) == 0;
        if (nb_election_observe(&lease->election, &nb_lease_waits, lease->version,
                                !holder || !holder[0] || lease->is_own, lease->now_ms))
                add_write(controller, plan, controller->identity);
        else
                log_standby(lease, holder ? holder : "");
        return 0;
}

static int note_lease(void *userdata, struct nb_plan *plan _unused_,
                      const struct nb_admin_call *call, int r, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct nb_lease *lease = &controller->lease;
        const struct nb_buffer *body = &call->answer.body;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };

        lease->version[0] = '\0';
        /* It may be this controller that was faster, with a call whose answer was lost. */
        if (r >= 300 && lease->election.is_held)
                return -EAGAIN;
        if (r >= 0 && r < 300) {
                json = nb_admin_parse(body->data, body->len, WHAT, f);
                nb_json_copy(&json, "metadata.resourceVersion", lease->version,
                             sizeof(lease->version));
                r = json.r < 0 ? json.r : r;
        }
        if (r < 0)
                return r;
        nb_election_note(&lease->election, &nb_lease_waits, r < 300, lease->sent_ms, lease->now_ms);
        lease->is_own = r < 300;
        lease->leader[0] = '\0';
        return 0;
}

static const struct nb_plan_steps steps = { begin_election, judge_lease, note_lease, NULL };

/* --- Running --- */

uint64_t nb_lease_due(const struct nb_controller *controller) {
        const struct nb_lease *lease = &controller->lease;
        const struct nb_election *election = &lease->election;
        const uint64_t end_ms = election->is_held ? election->renewed_ms + nb_lease_waits.held_ms
                                                  : NB_TIME_INFINITE;
        const uint64_t due_ms = !lease->is_running                ? election->due_ms
                                : nb_plan_count(&lease->plan) > 0 ? NB_TIME_INFINITE
                                                                  : 0;

        return due_ms < end_ms ? due_ms : end_ms;
}

void nb_lease_interrupt(struct nb_controller *controller) {
        nb_plan_done(&controller->lease.plan);
        controller->lease.is_running = false;
}

static int run_plan(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        do {
                if (!lease->is_running)
                        (void)steps.begin(controller, &lease->plan);
                lease->is_running = true;
                r = nb_plan_run(&lease->plan, &controller->admin, &steps, controller, 1, true, f);
                if (r != 0)
                        nb_lease_interrupt(controller);
        } while (r == -EAGAIN && f->code == NB_NONE);
        return r;
}

int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        if (now_ms < nb_lease_due(controller))
                return 0;
        lease->now_ms = now_ms;
        /* A dry run changes nothing, so it needs no Lease. */
        if (controller->settings.is_dry_run) {
                nb_election_note(&lease->election, &nb_lease_waits, 1, now_ms, now_ms);
                return 1;
        }
        /* Also if the answer to the renewal is missing. */
        if (lease->election.is_held &&
            !nb_election_is_leader(&lease->election, &nb_lease_waits, now_ms)) {
                nb_lease_interrupt(controller);
                r = nb_failure_set(f, NB_ADMIN_UNREACHABLE, 0,
                                   WHAT ": it was not renewed for %llu s, so this controller "
                                        "gives it up",
                                   (unsigned long long)nb_lease_waits.held_ms / 1000);
        } else
                r = run_plan(controller, f);
        if (r < 0) {
                lease->version[0] = '\0';
                nb_election_note(&lease->election, &nb_lease_waits, r, 0, now_ms);
        }
        return r;
}

void nb_lease_release(struct nb_controller *controller) {
        struct nb_lease *lease = &controller->lease;
        struct nb_failure ignored = { 0 };

        nb_lease_interrupt(controller);
        if (lease->election.is_held && lease->version[0]) {
                add_write(controller, &lease->plan, "");
                (void)nb_call_perform(&lease->plan.writes[0], &controller->admin, &ignored);
        }
        nb_lease_interrupt(controller);
        lease->election.is_held = false;
}
