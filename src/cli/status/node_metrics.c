/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "cli/status/node_metrics.h"
#include "cli/status/renewal.h"
#include "cli/status/timeline.h"
#include "os/clock.h"

#define PREFIX "node_bootstrap_"

static void put_head(struct nb_buffer *text, const char *name, const char *help) {
        nb_buffer_printf(text, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s gauge\n", name, help,
                         name);
}

static void put_value(struct nb_buffer *text, const char *name, const char *help, bool is_known,
                      int64_t value) {
        if (!is_known)
                return;
        put_head(text, name, help);
        nb_buffer_printf(text, PREFIX "%s %" PRId64 "\n", name, value);
}

static void put_time(struct nb_buffer *text, const char *name, const char *help, time_t when) {
        put_value(text, name, help, when > 0, when);
}

static void put_code(struct nb_buffer *text, const char *name, const char *help, enum nb_code code,
                     time_t value) {
        put_head(text, name, help);
        nb_buffer_printf(text, PREFIX "%s{code=\"%s\"} %" PRId64 "\n", name,
                         nb_failure_info(code)->slug, (int64_t)value);
}

static void put_seconds(struct nb_buffer *text, uint64_t usec) {
        nb_buffer_printf(text, "%" PRIu64 ".%06" PRIu64 "\n", usec / 1000000, usec % 1000000);
}

static void put_durations(struct nb_buffer *text, const struct nb_record *record) {
        put_head(text, "join_duration_seconds", "How long the last join took.");
        nb_buffer_append_string(text, PREFIX "join_duration_seconds ");
        put_seconds(text, nb_timeline_usec(record));
        put_head(text, "join_stage_duration_seconds", "How long each stage of that join took.");
        for (unsigned i = 0; i < _NB_STAGE_N; i++) {
                if (record->provenance.usec[i] == 0)
                        continue;
                nb_buffer_printf(text, PREFIX "join_stage_duration_seconds{stage=\"%s\"} ",
                                 nb_stage_names[i]);
                put_seconds(text, record->provenance.usec[i]);
        }
}

static void put_join(struct nb_buffer *text, const struct nb_machine_state *state) {
        const struct nb_last *last = &state->last;
        enum nb_code code = nb_failure_find(last->code);

        if (nb_last_is(last, NB_LAST_JOINING) && code != NB_NONE)
                put_code(text, "join_waiting_since_timestamp_seconds",
                         "Since when the join has been waiting, and for what.", code,
                         nb_time_parse(last->since));
        else if (nb_last_is(last, NB_LAST_FAILED) && code != NB_NONE)
                put_code(text, "join_last_failure", "The failure that ended the last join.", code,
                         1);
        else if (nb_timeline_usec(&state->node.present.record) > 0)
                put_durations(text, &state->node.present.record);
}

void nb_node_metrics_format(const struct nb_machine_state *state, struct nb_buffer *text) {
        const struct nb_present *present = &state->node.present;
        const struct nb_record *record = &present->record;
        const struct nb_renewal renewal = nb_renewal_judge(state);
        bool is_known = state->kind != NB_MACHINE_HIDDEN;

        put_head(text, "info", "The version of node-bootstrap, and how this machine has joined.");
        nb_buffer_printf(text, PREFIX "info{version=\"" NB_VERSION "\",join_method=\"%s\"} 1\n",
                         record->join_method);
        put_value(text, "joined", "Whether kubelet has a certificate that it can use.", is_known,
                  nb_inspection_is_kept(&state->node.inspection));
        put_value(text, "renamed",
                  "Whether the host name has changed since this machine joined under it.", is_known,
                  state->node.inspection.is_renamed);
        put_value(text, "kubelet_running",
                  "Whether kubelet is running, was not just restarted, and is not about to exit.",
                  is_known && state->kubelet.active[0],
                  nb_unit_is(&state->kubelet, "active") &&
                          state->kind != NB_MACHINE_KUBELET_CRASHING &&
                          state->kind != NB_MACHINE_KUBELET_UNPREPARED);
        put_time(text, "joined_timestamp_seconds", "When this machine joined.",
                 nb_time_parse(record->joined_at));
        put_join(text, state);
        if (state->obstacle.code != NB_NONE)
                put_code(text, "service_failure",
                         "Why systemd cannot start node-bootstrap.service or its gate.",
                         state->obstacle.code, 1);
        if (present->chain) {
                put_time(text, "certificate_not_before_timestamp_seconds",
                         "When kubelet's certificate begins to be valid.",
                         nb_certificate_not_before(present->chain, 0));
                put_time(text, "certificate_expiration_timestamp_seconds",
                         "When kubelet's certificate expires.",
                         nb_certificate_not_after(present->chain, 0));
        }
        put_time(text, "certificate_renewal_timestamp_seconds",
                 "When the renewal of kubelet's certificate begins.", renewal.from);
        put_time(text, "certificate_renewal_overdue_since_timestamp_seconds",
                 "Since when the renewal of kubelet's certificate is overdue.",
                 renewal.overdue_since);
        if (renewal.code != NB_NONE)
                put_code(text, "certificate_renewal_failure",
                         "Why the last renewal of kubelet's certificate failed.", renewal.code, 1);
        if (present->ca)
                put_time(text, "ca_expiration_timestamp_seconds",
                         "When the first of the CAs in kubelet's CA file expires.",
                         nb_certificates_first_end(present->ca));
        put_time(text, "refresh_success_timestamp_seconds", "When the last refresh succeeded.",
                 state->refreshed);
        put_time(text, "report_timestamp_seconds", "When these metrics were written.",
                 state->node.now);
}
