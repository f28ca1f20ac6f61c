/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/status/renewal.h"
#include "join_method/cluster_identity.h"
#include "os/clock.h"

/* The timer tries once an hour, but the machine may have been off. A renewal may be early, for an
 * address of this machine that has changed. */
static struct nb_overdue judge_supervised(const struct nb_record *record, time_t since, time_t end,
                                          time_t now) {
        const char *noted = record->renewal_failure;
        time_t failed_at = nb_time_parse(record->renewal_failed_at);
        struct nb_overdue found = { .since = since, .code = nb_failure_find(noted) };

        if (noted[0] && failed_at > 0 && failed_at < since)
                found.since = failed_at;
        if (now < found.since || (!noted[0] && now < since + (end - since) / 2))
                return (struct nb_overdue){ 0 };
        snprintf(found.reason, sizeof(found.reason), "%s%s%s",
                 found.code == NB_NONE ? "see `journalctl --unit=node-bootstrap-refresh`" : noted,
                 found.code == NB_NONE ? "" : ": ",
                 found.code == NB_NONE ? "" : nb_failure_info(found.code)->subject);
        return found;
}

struct nb_overdue nb_renewal_judge(const struct nb_machine_state *state) {
        const struct nb_present *present = &state->node.present;
        time_t now = state->node.now, end, from, until;
        struct nb_overdue found = { 0 };

        if (!present->chain)
                return found;
        end = nb_certificate_not_after(present->chain, 0);
        if (now < nb_certificate_not_before(present->chain, 0) || now > end)
                return found;
        from = nb_machine_renewal(state, &until);
        if (present->has_record && nb_record_is_by_supervisor(&present->record))
                return judge_supervised(&present->record, from, end, now);
        if (now <= until)
                return found;
        found.since = from;
        snprintf(found.reason, sizeof(found.reason),
                 "kubelet has not done it; see `journalctl --unit=kubelet`");
        return found;
}
