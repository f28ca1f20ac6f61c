/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/policy/bootstrap_token.h"
#include "admin/policy/node_request.h"
#include "admin/policy/rfc3339.h"
#include "base/macro.h"
#include "systemd/log.h"

#define BODY_MAX ((size_t)16 * 1024)

int nb_groups_may_create(struct nb_admin *admin, const char *groups, const char *subresource,
                         struct nb_failure *f) {
        static const char what[] = "asking for the rights of tokens";
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char error[128];
        int r;

        nb_json_format(&body,
                       "{'apiVersion':'authorization.k8s.io/v1','kind':'SubjectAccessReview',"
                       "'spec':{'user':'" NB_BOOTSTRAP_USER_PREFIX "aaaaaa',"
                       "'resourceAttributes':{'group':'certificates.k8s.io',"
                       "'resource':'certificatesigningrequests','subresource':%s,"
                       "'verb':'create'},'groups':['system:bootstrappers'",
                       subresource);
        for (size_t len; *groups; groups += len + (groups[len] == ',')) {
                len = strcspn(groups, ",");
                nb_buffer_append_string(&body, ",");
                nb_json_quote(groups, len, &body);
        }
        /* The API server gives every bootstrap token this group and the first one. */
        nb_buffer_append_string(&body, ",\"system:authenticated\"]}}");
        r = nb_admin_send(admin, "POST", what, "/apis/authorization.k8s.io/v1/subjectaccessreviews",
                          &body, &json, f);
        if (r >= 300)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, r,
                                           "%s: the API server does not serve it", what);
        if (r < 0)
                return r;
        r = nb_json_boolean(&json, "status.allowed");
        nb_json_line(&json, "status.evaluationError", error, sizeof(error));
        if (r < 0 || (r == 0 && error[0]))
                nb_json_refuse(&json, "status.allowed", "an answer", error[0] ? error : NULL);
        return json.r < 0 ? json.r : r;
}

int nb_controller_is_running(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const char *renewed, *holder;
        time_t when = 0;
        int r = nb_admin_get(admin, "reading the Lease " NB_LEASE_NAME,
                             NB_LEASES_PATH "/" NB_LEASE_NAME, &json, f);

        if (r <= 0)
                return r;
        renewed = nb_json_string(&json, "spec.renewTime");
        holder = nb_json_string(&json, "spec.holderIdentity");
        if (json.r < 0)
                return json.r;
        if (!holder || !holder[0] || !renewed || nb_rfc3339_parse(renewed, &when) < 0)
                return 0;
        /* The clock of an administrator's machine may be wrong; the API server's is at hand. */
        return (admin->date > 0 ? admin->date : time(NULL)) - when <= 2 * NB_LEASE_DURATION_SEC;
}

int nb_automatic_approval_refuse(struct nb_admin *admin, const char *groups, bool is_forced,
                                 struct nb_failure *f) {
        struct nb_failure unknown = { 0 };
        int r = is_forced ? 0 : nb_groups_may_create(admin, groups, "nodeclient", f);

        if (r > 0)
                return nb_failure_set(f, NB_ADMIN_AUTOMATIC_APPROVAL, 0,
                                      "kube-controller-manager approves every request of the "
                                      "groups '%s', for any node: one of them, or "
                                      "system:bootstrappers or system:authenticated, may create "
                                      "certificatesigningrequests/nodeclient",
                                      groups);
        if (r < 0) {
                nb_failure_add(f, "; --force skips this check");
                return r;
        }
        r = nb_controller_is_running(admin, &unknown);
        if (r <= 0)
                nb_log(LOG_WARNING, NB_NONE, "%s",
                       r < 0 ? unknown.detail
                             : "no controller is running, so requests stay pending: start "
                               "node-bootstrap-controller.service, or approve them with "
                               "`node-bootstrap-admin requests approve`");
        return 0;
}
