/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join/pending.h"
#include "kube_calls/csr_calls.h"

#define MINUTE_MS UINT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define REMIND_LAST_MS (6 * HOUR_MS)
#define TEXT_SIZE 288
#define OPENSHIFT_USER "system:serviceaccount:openshift-machine-config-operator:node-bootstrapper"

uint64_t nb_pending_next_ms(uint64_t waited_ms) {
        static const uint64_t distances[] = { MINUTE_MS, 5 * MINUTE_MS, 15 * MINUTE_MS, HOUR_MS };

        for (size_t i = 0; i < N_ELEMENTS(distances); i++)
                if (waited_ms < distances[i])
                        return distances[i];
        return (waited_ms / REMIND_LAST_MS + 1) * REMIND_LAST_MS;
}

enum nb_pending_reason nb_pending_reason_known(const struct nb_csr *csr) {
        if (csr->is_for_controller)
                return NB_PENDING_CONTROLLER;
        return strcmp(csr->username, OPENSHIFT_USER) == 0 ? NB_PENDING_MACHINE : NB_PENDING_UNASKED;
}

enum nb_pending_reason nb_pending_reason_of(int review) {
        if (review == NB_RIGHT_GRANTED)
                return NB_PENDING_UNAPPROVED;
        return review == NB_RIGHT_DENIED ? NB_PENDING_UNBOUND : NB_PENDING_UNKNOWN;
}

/* The text for each reason. If `after` is set, a name is inserted between `before` and `after`: the
 * Node's for NB_PENDING_MACHINE, otherwise the user's. */
static const struct {
        enum nb_code code;
        const char *name, *before, *after;
} reasons[] = {
        [NB_PENDING_UNASKED] = { NB_CSR_PENDING, "", "", NULL },
        [NB_PENDING_CONTROLLER] = { NB_CSR_PENDING_CONTROLLER, "ControllerUndecided",
                                    "node-bootstrap's controller decides on the requests of ", "" },
        [NB_PENDING_UNKNOWN] = { NB_CSR_PENDING, "",
                                 "the API server does not say whether the CSR will be approved "
                                 "automatically",
                                 NULL },
        [NB_PENDING_UNBOUND] = { NB_CSR_PENDING_UNBOUND, "NodeclientNotBound",
                                 "it will not be approved automatically: ",
                                 " may not create certificatesigningrequests/nodeclient" },
        [NB_PENDING_UNAPPROVED] = { NB_CSR_PENDING_UNAPPROVED, "ApproverSilent", "",
                                    " is allowed automatic approval, but no approver has approved "
                                    "it" },
        [NB_PENDING_MACHINE] = { NB_CSR_PENDING_UNAPPROVED, "MachineMissing",
                                 "OpenShift approves it when there is a Machine whose InternalDNS "
                                 "is ",
                                 " and that has no Node yet (`oc get machines -A`)" },
};

const char *nb_pending_reason_name(enum nb_pending_reason reason) {
        return reasons[reason].name;
}

static void explain_reason(const struct nb_csr *csr, const char *node_name,
                           enum nb_pending_reason reason, char ret[static TEXT_SIZE]) {
        const char *before = reasons[reason].before, *after = reasons[reason].after;
        const char *name = reason == NB_PENDING_MACHINE ? node_name
                           : csr->username[0]           ? csr->username
                                                        : "this user";
        const char *groups = reason == NB_PENDING_UNBOUND ? csr->groups : "";

        if (after)
                snprintf(ret, TEXT_SIZE, "%s'%.80s'%s%.80s%s", before, name,
                         groups[0] ? " of " : "", groups, after);
        else
                nb_text_copy(ret, TEXT_SIZE, before);
}

static int describe_refused(const struct nb_csr *csr, struct nb_failure *f) {
        bool is_denied = csr->state == NB_CSR_STATE_DENIED;
        const char *verb = is_denied ? "was denied" : "failed";
        enum nb_code code = is_denied ? NB_CSR_DENIED : NB_CSR_FAILED;

        if (!csr->reason[0] && !csr->message[0])
                return nb_failure_set(f, code, EACCES, "the CSR '%s' %s; no reason is recorded",
                                      csr->name, verb);
        return nb_failure_set(f, code, EACCES, "the CSR '%s' %s, reason '%s', message '%s'",
                              csr->name, verb, csr->reason, csr->message);
}

int nb_pending_describe(const struct nb_csr *csr, const char *node_name,
                        enum nb_pending_reason reason, struct nb_failure *f) {
        char why[TEXT_SIZE];

        if (csr->state == NB_CSR_STATE_DENIED || csr->state == NB_CSR_STATE_FAILED)
                return describe_refused(csr, f);
        if (csr->state == NB_CSR_STATE_APPROVED)
                return nb_failure_set(f, NB_CSR_NOT_ISSUED, ETIMEDOUT,
                                      "the CSR '%s' is approved, but no certificate was issued yet",
                                      csr->name);
        explain_reason(csr, node_name, reason, why);
        return nb_failure_set(f, reasons[reason].code, ETIMEDOUT,
                              "the CSR '%s' is waiting for approval%s%s", csr->name,
                              why[0] ? ": " : "", why);
}
