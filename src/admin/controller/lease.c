/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>

#include "admin/client/calls.h"
#include "admin/client/claim.h"
#include "admin/controller/lease.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube/object.h"
#include "system/clock.h"
#include "system/log.h"

#define BODY_MAX ((size_t)4 * 1024)
#define WHAT "electing a leader with the Lease " NB_LEASE_NAME

/* metav1.MicroTime */
static void format_now(char ret[static 64]) {
        struct timeval now;
        struct tm tm;
        size_t n;

        (void)gettimeofday(&now, NULL);
        (void)gmtime_r(&now.tv_sec, &tm);
        n = strftime(ret, 64, "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(ret + n, 64 - n, ".%06ldZ", (long)now.tv_usec);
}

/* Writes a new Lease, or a merge patch of the one that was read. */
static int format_lease(const struct nb_lease *lease, const char *holder, bool is_taken,
                        struct nb_buffer *body) {
        struct nb_json_writer writer = { .buffer = body };
        char now[64];

        format_now(now);
        nb_object_begin(&writer, "coordination.k8s.io/v1", "Lease", NB_LEASE_NAME);
        if (lease->resource_version[0])
                nb_json_put_string(&writer, "resourceVersion", lease->resource_version);
        nb_json_close(&writer);
        nb_json_open(&writer, "spec", '{');
        nb_json_put_string(&writer, "holderIdentity", holder);
        nb_json_put_integer(&writer, "leaseDurationSeconds", NB_LEASE_DURATION_SEC);
        if (is_taken)
                nb_json_put_string(&writer, "acquireTime", now);
        nb_json_put_string(&writer, "renewTime", now);
        return nb_json_finish(&writer);
}

/* Creates or changes the Lease. 1; 0 if somebody else was faster. */
static int write_lease(struct nb_controller *controller, const char *holder, bool is_taken,
                       struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        bool exists = lease->resource_version[0];
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_admin_call call = { .method = exists ? "PATCH" : "POST",
                                      .what = WHAT,
                                      .path = exists ? NB_LEASES_PATH "/" NB_LEASE_NAME
                                                     : NB_LEASES_PATH };
        struct nb_json json;
        int r;

        r = format_lease(lease, holder, is_taken, &body);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, WHAT ": %m");
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(&controller->admin, &call, &answer, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        lease->resource_version[0] = '\0';
        if (r < 0 || r >= 300)
                return r < 0 ? r : 0;
        json = nb_admin_parse(answer.body.data, answer.body.len, WHAT, f);
        nb_json_copy(&json, "metadata.resourceVersion", lease->resource_version,
                     sizeof(lease->resource_version));
        r = json.r;
        nb_json_done(&json);
        return r < 0 ? r : 1;
}

static int take_lease(struct nb_controller *controller, bool is_taken, uint64_t now_ms,
                      struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r = write_lease(controller, controller->identity, is_taken, f);

        if (r < 0)
                return r;
        lease->is_held = r > 0;
        lease->leader[0] = '\0';
        lease->renewed_ms = now_ms;
        lease->due_ms = now_ms + (r > 0 ? NB_LEASE_RENEW_MS : NB_LEASE_STANDBY_MS);
        return 0;
}

/* Whether this controller may take the Lease that was read. */
static bool may_take(struct nb_controller *controller, const char *holder, const char *renewed,
                     uint64_t now_ms) {
        struct nb_lease *lease = &controller->lease;
        char observed[sizeof(lease->observed)];

        if (!holder[0] || !strcmp(holder, controller->identity))
                return true;
        snprintf(observed, sizeof(observed), "%s %s", holder, renewed);
        if (strcmp(observed, lease->observed) != 0) {
                strcpy(lease->observed, observed);
                lease->observed_ms = now_ms;
        }
        return now_ms >= lease->observed_ms + NB_LEASE_DURATION_SEC * 1000;
}

/* Without this line a standby looks like a controller that hangs. */
static void log_leader(struct nb_lease *lease, const char *holder) {
        char leader[sizeof(lease->leader)];

        NB_TEXT_COPY_LINE(leader, holder);
        if (strcmp(leader, lease->leader) == 0)
                return;
        strcpy(lease->leader, leader);
        nb_log(LOG_INFO, NB_NONE, "the controller %s is the leader; this one is on standby",
               leader);
}

static int observe_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *holder, *renewed;
        int r;

        r = nb_admin_get(&controller->admin, WHAT, NB_LEASES_PATH "/" NB_LEASE_NAME, &json, f);
        if (r < 0)
                return r;
        lease->resource_version[0] = '\0';
        if (r == 0)
                return take_lease(controller, true, now_ms, f);
        holder = nb_json_string(&json, "spec.holderIdentity");
        if (!holder)
                holder = "";
        renewed = nb_json_string(&json, "spec.renewTime");
        if (json.r >= 0 && may_take(controller, holder, renewed ? renewed : "", now_ms)) {
                nb_json_copy(&json, "metadata.resourceVersion", lease->resource_version,
                             sizeof(lease->resource_version));
                return json.r < 0 ? json.r : take_lease(controller, true, now_ms, f);
        }
        lease->is_held = false;
        lease->due_ms = now_ms + NB_LEASE_STANDBY_MS;
        if (json.r < 0)
                return json.r;
        log_leader(lease, holder);
        return 1;
}

static int run_lease(struct nb_controller *controller, uint64_t now_ms, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;

        if (!lease->is_running)
                lease->is_renewing = lease->is_held && lease->resource_version[0];
        lease->is_running = true;
        return lease->is_renewing ? take_lease(controller, false, now_ms, f)
                                  : observe_lease(controller, now_ms, f);
}

uint64_t nb_lease_due(const struct nb_controller *controller) {
        const struct nb_lease *lease = &controller->lease;

        if (nb_exchange_is_waiting(&lease->exchange))
                return NB_TIME_INFINITE;
        return lease->is_running ? 0 : lease->due_ms;
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
        r = run_lease(controller, now_ms, f);
        controller->admin.exchange = NULL;
        /* A webhook may delay a renewal for longer than the Lease is held. Then the leader goes on:
         * nobody else is faster, and two leaders do the same as one. */
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return 0;
        nb_exchange_done(&lease->exchange);
        lease->is_running = false;
        if (r < 0) {
                lease->due_ms = now_ms + NB_LEASE_STANDBY_MS;
                if (now_ms >= lease->renewed_ms + NB_LEASE_HELD_MS)
                        lease->is_held = false;
        }
        return r < 0 ? r : 1;
}

int nb_lease_release(struct nb_controller *controller, struct nb_failure *f) {
        struct nb_lease *lease = &controller->lease;
        int r;

        nb_exchange_done(&lease->exchange);
        if (!lease->is_held || !lease->resource_version[0])
                return 0;
        lease->is_held = false;
        r = write_lease(controller, "", false, f);
        return r < 0 ? r : 0;
}
