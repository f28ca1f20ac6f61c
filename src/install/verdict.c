/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/macro.h"
#include "install/anchors.h"
#include "install/present.h"

bool nb_verdict_keeps(enum nb_verdict verdict) {
        return verdict == NB_VERDICT_USABLE || verdict == NB_VERDICT_NOT_YET_VALID;
}

/* The certificate of a chain that ends first. */
static time_t chain_end(const struct nb_certificates *chain) {
        time_t end = nb_certificate_not_after(chain, 0);

        for (size_t i = 1; i < nb_certificates_count(chain); i++)
                if (nb_certificate_not_after(chain, i) < end)
                        end = nb_certificate_not_after(chain, i);
        return end;
}

static bool does_any_pin_fit(const struct nb_anchors *anchors, const struct nb_certificates *ca) {
        uint8_t pin[NB_SHA256_SIZE];

        for (size_t i = 0; i < nb_certificates_count(ca); i++)
                if (nb_certificate_pin(ca, i, pin) >= 0 &&
                    nb_anchors_has((const uint8_t(*)[NB_PIN_SIZE])anchors->pins, anchors->n_pins, pin))
                        return true;
        return false;
}

/* A hash of all of k3s's /cacerts says nothing of a CA file that was made out of pins. */
static bool can_compare(const struct nb_present *present, const struct nb_anchors *anchors) {
        if (!anchors->is_k3s_hash)
                return present->ca;
        return present->has_k3s_hash && nb_anchors_are_of_k3s(&present->record);
}

static bool does_fit(const struct nb_present *present, const struct nb_anchors *anchors) {
        if (anchors->is_k3s_hash)
                return nb_digest_is_equal(present->k3s_hash, anchors->pins[0]);
        return does_any_pin_fit(anchors, present->ca);
}

/*
 * Only somebody who configured other pins than those of the last join, none of which fits what is there, means another
 * cluster. A CA that was rotated, a record that is missing, or a CA file that cannot be read must not take a healthy
 * node down.
 */
static bool is_other_cluster(const struct nb_present *present, const struct nb_anchors *anchors) {
        if (!present->has_record || anchors->n_pins == 0 || nb_anchors_are_recorded(anchors, &present->record))
                return false;
        return can_compare(present, anchors) && !does_fit(present, anchors);
}

static enum nb_verdict judge(const struct nb_present *present, const struct nb_context *context,
                             struct nb_failure *why) {
        char text[NB_SUBJECT_SIZE], at[NB_RFC3339_SIZE], clock[NB_RFC3339_SIZE];

        nb_time_format(context->now, clock);
        if (present->key && nb_certificate_verify_key(present->chain, present->key) < 0) {
                (void)nb_failure_set(why, NB_JOIN_ANEW, 0, "client certificate and key do not belong together");
                return NB_VERDICT_UNREADABLE;
        }
        if (nb_certificate_verify_identity(present->chain, context->node_name) < 0) {
                nb_certificate_subject(present->chain, 0, text);
                (void)nb_failure_set(why, NB_JOIN_ANEW, 0, "the client certificate is for '%.160s'; expected node '%s'",
                                     text, context->node_name);
                return NB_VERDICT_OTHER_NODE;
        }
        if (chain_end(present->chain) < context->now) {
                nb_time_format(chain_end(present->chain), at);
                (void)nb_failure_set(why, NB_JOIN_ANEW, 0,
                                     "the client certificate expired at %s; by the clock of this machine it is %s", at,
                                     clock);
                return NB_VERDICT_EXPIRED;
        }
        if (is_other_cluster(present, &context->anchors)) {
                (void)nb_failure_set(why, NB_JOIN_ANEW, 0,
                                     "%s is another than at the last join (%s), and fits no "
                                     "certificate in the CA file",
                                     context->anchors.name, present->record.joined_at);
                return NB_VERDICT_OTHER_CLUSTER;
        }
        if (present->is_file) {
                (void)nb_failure_set(why, NB_JOIN_ANEW, 0,
                                     "'%s/" NB_STORE_CURRENT "' is a file; expected a link, without which kubelet does not renew "
                                     "the certificate",
                                     context->settings.certificate_directory);
                return NB_VERDICT_NOT_ROTATABLE;
        }
        if (nb_certificate_not_before(present->chain, 0) > context->now) {
                nb_time_format(nb_certificate_not_before(present->chain, 0), at);
                (void)nb_failure_set(
                        why, NB_JOIN_ANEW, 0,
                        "the client certificate is valid from %s on; by the clock of this machine it is %s", at, clock);
                return NB_VERDICT_NOT_YET_VALID;
        }
        nb_time_format(nb_certificate_not_after(present->chain, 0), at);
        (void)nb_failure_set(why, NB_JOIN_ANEW, 0, "the client certificate is for this node and valid until %s", at);
        return NB_VERDICT_USABLE;
}

void nb_present_judge(const struct nb_present *present, const struct nb_context *context,
                      struct nb_inspection *ret_inspection) {
        struct nb_inspection inspection = { .verdict = present->verdict };
        struct nb_failure why = present->why;

        if (present->verdict == NB_VERDICT_USABLE) {
                inspection.verdict = judge(present, context, &why);
                nb_time_format(nb_certificate_not_after(present->chain, 0), inspection.not_after);
        }
        inspection.fallback = inspection.verdict == NB_VERDICT_OTHER_CLUSTER || inspection.verdict == NB_VERDICT_NOT_ROTATABLE;
        memcpy(inspection.node, context->node_name, sizeof(inspection.node));
        memcpy(inspection.detail, why.detail, sizeof(inspection.detail));
        *ret_inspection = inspection;
}
