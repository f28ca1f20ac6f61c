/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

/* Writes a new Lease, or a merge patch of the one that was read. */
static int format_lease(const struct nb_lease *lease, const char *holder, struct nb_buffer *body) {
        struct nb_json_writer writer = { .buffer = body };
        char now[NB_RFC3339_SIZE], micro[NB_RFC3339_SIZE + 8];

        nb_time_format(time(NULL), now);
        snprintf(micro, sizeof(micro), "%.19s.000000Z", now); /* metav1.MicroTime */
        nb_object_begin(&writer, "coordination.k8s.io/v1", "Lease", NB_LEASE_NAME);
        if (lease->version[0])
                nb_json_put_string(&writer, "resourceVersion", lease->version);
        nb_json_close(&writer);
        nb_json_open(&writer, "spec", '{');
        nb_json_put_string(&writer, "holderIdentity", holder);
        nb_json_put_integer(&writer, "leaseDurationSeconds", NB_LEASE_DURATION_SEC);
        if (!lease->is_held)
                nb_json_put_string(&writer, "acquireTime", micro);
        nb_json_put_string(&writer, "renewTime", micro);
        return nb_json_finish(&writer);
}

/* Creates or changes the Lease. 1; 0 if somebody else was faster. */
static int write_lease(struct nb_controller *controller, const char *holder, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        const bool exists = lease->version[0];
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_admin_call call = { .method = exists ? "PATCH" : "POST",
                                      .what = WHAT,
                                      .path = exists ? PATH : NB_LEASES_PATH };
        int r;

        r = format_lease(lease, holder, &body);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, WHAT ": %m");
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(&controller->admin, &call, &answer, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        lease->version[0] = '\0';
        if (r < 0 || r >= 300)
                return r < 0 ? r : 0;
        json = nb_admin_parse(answer.body.data, answer.body.len, WHAT, f);
        nb_json_copy(&json, "metadata.resourceVersion", lease->version, sizeof(lease->version));
        return json.r < 0 ? json.r : 1;
}

static int take_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r = write_lease(controller, controller->identity, f);

        if (r < 0)
                return r;
        lease->is_held = r > 0;
        lease->leader[0] = '\0';
        lease->renewed_ms = now_ms;
        lease->due_ms = now_ms + (r > 0 ? NB_LEASE_RENEW_MS : NB_LEASE_STANDBY_MS);
        return 1;
}

/* Without this line a standby looks like a controller that hangs. */
static void log_standby(struct nb_lease *lease, const char *holder) {
        char leader[sizeof(lease->leader)];

        NB_TEXT_COPY_LINE(leader, holder);
        if (strcmp(leader, lease->leader) != 0)
                nb_log(LOG_INFO, NB_NONE, "the controller %s is the leader; this one is on standby",
                       leader);
        strcpy(lease->leader, leader);
}

static int observe_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char version[sizeof(lease->version)] = "";
        const char *holder = NULL;
        int r;

        r = nb_admin_get(&controller->admin, WHAT, PATH, &json, f);
        if (r > 0) {
                holder = nb_json_string(&json, "spec.holderIdentity");
                nb_json_copy(&json, "metadata.resourceVersion", version, sizeof(version));
                r = json.r;
        }
        if (r < 0)
                return r;
        if (strcmp(version, lease->observed) != 0)
                lease->observed_ms = now_ms;
        strcpy(lease->observed, version);
        strcpy(lease->version, version);
        if (!holder || !holder[0] || strcmp(holder, controller->identity) == 0 ||
            now_ms >= lease->observed_ms + NB_LEASE_DURATION_SEC * 1000)
                return take_lease(controller, now_ms, f);
        lease->is_held = false;
        lease->due_ms = now_ms + NB_LEASE_STANDBY_MS;
        log_standby(lease, holder);
        return 1;
}

uint64_t nb_lease_due(const struct nb_controller *controller) {
        const struct nb_lease *lease = &controller->lease;

        return nb_exchange_is_waiting(&lease->exchange) ? NB_TIME_INFINITE : lease->due_ms;
}

int nb_lease_run(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        if (now_ms < nb_lease_due(controller))
                return 0;
        /* A dry run changes nothing, so it needs no Lease. */
        if (controller->settings.is_dry_run) {
                lease->is_held = true;
                lease->due_ms = now_ms + NB_LEASE_RENEW_MS;
                return 1;
        }
        controller->admin.exchange = &lease->exchange;
        nb_exchange_rewind(&lease->exchange);
        r = lease->is_held && lease->version[0] ? take_lease(controller, now_ms, f)
                                                : observe_lease(controller, now_ms, f);
        controller->admin.exchange = NULL;
        /* A webhook may delay a renewal for longer than the Lease is held. Then the leader goes on:
         * nobody else is faster, and two leaders do the same as one. */
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return 0;
        nb_exchange_done(&lease->exchange);
        if (r < 0) {
                lease->due_ms = now_ms + NB_LEASE_STANDBY_MS;
                if (now_ms >= lease->renewed_ms + NB_LEASE_HELD_MS)
                        lease->is_held = false;
        }
        return r;
}

void nb_lease_release(struct nb_controller *controller) {
        struct nb_lease *lease = &controller->lease;
        struct nb_failure ignored = { 0 };

        nb_exchange_done(&lease->exchange);
        if (lease->is_held && lease->version[0])
                (void)write_lease(controller, "", &ignored);
        lease->is_held = false;
}
