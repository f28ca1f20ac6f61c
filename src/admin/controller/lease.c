/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/controller/lease.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube/object.h"
#include "system/clock.h"
#include "system/log.h"

#define BODY_MAX ((size_t)4 * 1024)
#define PATH NB_LEASES_PATH "/" NB_LEASE_NAME
#define WHAT "electing a leader with the Lease " NB_LEASE_NAME

const struct nb_election_waits nb_lease_waits = { .renew_ms = 5000,
                                                  .standby_ms = NB_LEASE_STANDBY_SEC * 1000,
                                                  .expire_ms = NB_LEASE_DURATION_SEC * 1000,
                                                  .held_ms = 10000 };

/* Creates or changes the Lease. 1; 0 if somebody else was faster. */
static int write_lease(struct nb_controller *controller, const char *holder, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        const bool exists = lease->version[0];
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char now[NB_RFC3339_SIZE], micro[NB_RFC3339_SIZE + 8];
        int r;

        nb_time_format(time(NULL), now);
        snprintf(micro, sizeof(micro), "%.19s.000000Z", now); /* metav1.MicroTime */
        nb_json_format(&body, "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{");
        if (exists)
                nb_json_format(&body, "'resourceVersion':%s,", lease->version);
        nb_json_format(&body,
                       "'name':'" NB_LEASE_NAME "','namespace':'kube-system'},"
                       "'spec':{'holderIdentity':%s,'renewTime':%s,",
                       holder, micro);
        if (!lease->election.is_held)
                nb_json_format(&body, "'acquireTime':%s,", micro);
        nb_buffer_printf(&body, "\"leaseDurationSeconds\":%d}}", NB_LEASE_DURATION_SEC);
        r = nb_admin_send(&controller->admin, exists ? "PATCH" : "POST", WHAT,
                          exists ? PATH : NB_LEASES_PATH, &body, &json, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        lease->version[0] = '\0';
        if (r < 0 || r >= 300)
                return r < 0 ? r : 0;
        nb_json_copy(&json, "metadata.resourceVersion", lease->version, sizeof(lease->version));
        return json.r < 0 ? json.r : 1;
}

static int take_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r = write_lease(controller, controller->identity, f);

        if (r < 0)
                return r;
        nb_election_note(&lease->election, &nb_lease_waits, r, now_ms);
        lease->leader[0] = '\0';
        return 1;
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

static int observe_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *holder = NULL;
        int r;

        lease->version[0] = '\0';
        r = nb_admin_get(&controller->admin, WHAT, PATH, &json, f);
        if (r > 0) {
                holder = nb_json_string(&json, "spec.holderIdentity");
                nb_json_copy(&json, "metadata.resourceVersion", lease->version,
                             sizeof(lease->version));
                r = json.r;
        }
        if (r < 0)
                return r;
        if (nb_election_observe(&lease->election, &nb_lease_waits, lease->version,
                                !holder || !holder[0] || strcmp(holder, controller->identity) == 0,
                                now_ms))
                return take_lease(controller, now_ms, f);
        assert(holder); /* a Lease that nobody holds is taken */
        log_standby(lease, holder);
        return 1;
}

uint64_t nb_lease_due(const struct nb_controller *controller) {
        const struct nb_lease *lease = &controller->lease;

        return nb_exchange_is_waiting(&lease->exchange) ? NB_TIME_INFINITE : lease->election.due_ms;
}

int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        if (now_ms < nb_lease_due(controller))
                return 0;
        /* A dry run changes nothing, so it needs no Lease. */
        if (controller->settings.is_dry_run) {
                nb_election_note(&lease->election, &nb_lease_waits, 1, now_ms);
                return 1;
        }
        controller->admin.exchange = &lease->exchange;
        nb_exchange_rewind(&lease->exchange);
        r = lease->election.is_held && lease->version[0] ? take_lease(controller, now_ms, f)
                                                         : observe_lease(controller, now_ms, f);
        controller->admin.exchange = NULL;
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return 0;
        nb_exchange_done(&lease->exchange);
        if (r < 0)
                nb_election_note(&lease->election, &nb_lease_waits, r, now_ms);
        return r;
}

void nb_lease_release(struct nb_controller *controller) {
        struct nb_lease *lease = &controller->lease;
        struct nb_failure ignored = { 0 };

        nb_exchange_done(&lease->exchange);
        if (lease->election.is_held && lease->version[0])
                (void)write_lease(controller, "", &ignored);
        lease->election.is_held = false;
}
