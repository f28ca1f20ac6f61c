/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/client/claim.h"
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

/* Begins to create or change the Lease. */
static void prepare_lease(struct nb_controller *controller, const char *holder) {
        struct nb_lease *lease = &controller->lease;
        struct nb_admin_call *call = &lease->call;
        const bool exists = lease->version[0];
        char now[NB_RFC3339_SIZE], micro[NB_RFC3339_SIZE + 8];

        nb_call_done(call);
        call->method = exists ? "PATCH" : "POST";
        call->timeout_ms = CALL_MS;
        snprintf(call->path, sizeof(call->path), "%s", exists ? PATH : NB_LEASES_PATH);
        snprintf(call->what, sizeof(call->what), WHAT);
        call->body = (struct nb_buffer)NB_BUFFER_INIT(NB_ADMIN_BODY_MAX);
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

static int write_lease(struct nb_controller *controller, const char *holder, struct nb_failure *f) {
        prepare_lease(controller, holder);
        return nb_call_start(&controller->lease.call, &controller->admin, f);
}

static int read_lease(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_admin_call *call = &controller->lease.call;

        nb_call_done(call);
        call->method = "GET";
        call->timeout_ms = CALL_MS;
        snprintf(call->path, sizeof(call->path), PATH);
        snprintf(call->what, sizeof(call->what), WHAT);
        return nb_call_start(call, &controller->admin, f);
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

/* 1: another controller holds it; 0: it is being taken. */
static int observe_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *holder = NULL;
        int r = nb_call_read(&lease->call, &controller->admin, &json, f);

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
                                !holder || !holder[0] || lease->is_own, now_ms)) {
                r = write_lease(controller, controller->identity, f);
                return r < 0 ? r : 0;
        }
        assert(holder); /* a Lease that nobody holds is taken */
        log_standby(lease, holder);
        return 1;
}

/* 1; 0: it is read again. */
static int note_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        struct nb_buffer *body = &lease->call.answer.body;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r = nb_call_status(&lease->call, &controller->admin, f);

        lease->version[0] = '\0';
        /* It may be this controller that was faster, with a call whose answer was lost. */
        if (r >= 300 && lease->election.is_held) {
                r = read_lease(controller, f);
                return r < 0 ? r : 0;
        }
        if (r >= 0 && r < 300) {
                json = nb_admin_parse(body->data, body->len, WHAT, f);
                nb_json_copy(&json, "metadata.resourceVersion", lease->version,
                             sizeof(lease->version));
                r = json.r < 0 ? json.r : r;
        }
        if (r < 0)
                return r;
        nb_election_note(&lease->election, &nb_lease_waits, r < 300, lease->sent_ms, now_ms);
        lease->is_own = r < 300;
        lease->leader[0] = '\0';
        return 1;
}

uint64_t nb_lease_due(const struct nb_controller *controller) {
        const struct nb_lease *lease = &controller->lease;
        const struct nb_election *election = &lease->election;
        const uint64_t end_ms = election->is_held ? election->renewed_ms + nb_lease_waits.held_ms
                                                  : NB_TIME_INFINITE;
        const uint64_t due_ms = lease->call.is_answered ? 0
                                : lease->call.transfer  ? NB_TIME_INFINITE
                                                        : election->due_ms;

        return due_ms < end_ms ? due_ms : end_ms;
}

static int run_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        /* Also if the answer to the renewal is missing. */
        if (lease->election.is_held &&
            !nb_election_is_leader(&lease->election, &nb_lease_waits, now_ms))
                return nb_failure_set(f, NB_ADMIN_UNREACHABLE, 0,
                                      WHAT ": it was not renewed for %llu s, so this controller "
                                           "gives it up",
                                      (unsigned long long)nb_lease_waits.held_ms / 1000);
        if (lease->call.is_answered)
                r = strcmp(lease->call.method, "GET") == 0 ? observe_lease(controller, now_ms, f)
                                                           : note_lease(controller, now_ms, f);
        else {
                r = lease->election.is_held && lease->version[0]
                            ? write_lease(controller, controller->identity, f)
                            : read_lease(controller, f);
                return r < 0 ? r : 0;
        }
        return r;
}

int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        if (now_ms < nb_lease_due(controller))
                return 0;
        /* A dry run changes nothing, so it needs no Lease. */
        if (controller->settings.is_dry_run) {
                nb_election_note(&lease->election, &nb_lease_waits, 1, now_ms, now_ms);
                return 1;
        }
        r = run_lease(controller, now_ms, f);
        if (r == 0)
                return 0;
        nb_call_done(&lease->call);
        if (r < 0) {
                lease->version[0] = '\0';
                nb_election_note(&lease->election, &nb_lease_waits, r, 0, now_ms);
        }
        return r;
}

void nb_lease_release(struct nb_controller *controller) {
        struct nb_lease *lease = &controller->lease;
        struct nb_failure ignored = { 0 };

        nb_call_done(&lease->call);
        if (lease->election.is_held && lease->version[0]) {
                prepare_lease(controller, "");
                (void)nb_call_perform(&lease->call, &controller->admin, &ignored);
        }
        nb_call_done(&lease->call);
        lease->election.is_held = false;
}
