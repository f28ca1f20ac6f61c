/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/status/renewal.h"
#include "join_method/cluster_identity.h"
#include "os/clock.h"

/* Between which parts of a certificate's validity kubelet renews it (client-go util/certificate,
 * nextRotationDeadline). */
#define ROTATION_FROM 0.7
#define ROTATION_UNTIL 0.9

/* The timer tries once an hour, but the machine may have been off. A renewal may be early, for an
 * address of this machine that has changed. */
static void judge_supervised(const struct nb_record *record, time_t now, struct nb_renewal *found) {
        const char *noted = record->renewal_failure;
        time_t since = found->from, failed_at = nb_time_parse(record->renewal_failed_at);
        enum nb_code code = nb_failure_find(noted);

        if (noted[0] && failed_at > 0 && failed_at < since)
                since = failed_at;
        if (now < since || (!noted[0] && now < since + (found->until - since) / 2))
                return;
        found->overdue_since = since;
        found->code = code;
        snprintf(found->reason, sizeof(found->reason), "%s%s%s",
                 code == NB_NONE ? "see `journalctl --unit=node-bootstrap-refresh`" : noted,
                 code == NB_NONE ? "" : ": ",
                 code == NB_NONE ? "" : nb_failure_info(code)->subject);
}

struct nb_renewal nb_renewal_judge(const struct nb_machine_state *state) {
        const struct nb_present *present = &state->node.present;
        struct nb_renewal found = { 0 };
        time_t now = state->node.now, begin, end;
        bool is_supervised, is_valid;

        if (!present->chain)
                return found;
        begin = nb_certificate_not_before(present->chain, 0);
        end = nb_certificate_not_after(present->chain, 0);
        is_supervised = present->has_record && nb_record_is_by_supervisor(&present->record);
        is_valid = now >= begin && now <= end;
        found.until = is_supervised ? end
                                    : begin + (time_t)((double)(end - begin) * ROTATION_UNTIL);
        found.from = is_supervised ? nb_record_renewal(&present->record, end)
                                   : begin + (time_t)((double)(end - begin) * ROTATION_FROM);
        if (is_valid && is_supervised) {
                judge_supervised(&present->record, now, &found);
        } else if (is_valid && now > found.until) {
                found.overdue_since = found.from;
                snprintf(found.reason, sizeof(found.reason),
                         "kubelet has not done it; see `journalctl --unit=kubelet`");
        }
        return found;
}
