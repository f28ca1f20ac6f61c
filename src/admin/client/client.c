/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/client/client.h"
#include "base/macro.h"
#include "net/http.h"
#include "system/clock.h"

static int read_place(const struct nb_admin_place *place, struct nb_admin_access *ret_access,
                      struct nb_failure *f) {
        int r;

        r = nb_admin_kubeconfig_read(place, ret_access, f);
        if (r == 0)
                r = nb_admin_pod_read(ret_access, f);
        if (r != 0)
                return r < 0 ? r : 0;
        return nb_failure_set(
                f, NB_ADMIN_KUBECONFIG_UNUSABLE, ENOENT,
                "found no kubeconfig: --kubeconfig and $KUBECONFIG are not set, "
                "~/.kube/config and /etc/kubernetes/admin.conf do not exist, and this "
                "is not a pod");
}

int nb_admin_connect(const struct nb_admin_place *place, struct nb_admin *ret_admin,
                     struct nb_failure *f) {
        struct nb_admin_access access = { .identity = NB_IDENTITY_INIT };
        int r;

        *ret_admin = (struct nb_admin){ .identity = NB_IDENTITY_INIT, .place = *place };
        r = nb_http_begin(true, f);
        if (r >= 0)
                r = read_place(place, &access, f);
        if (r < 0)
                return r;
        ret_admin->cluster = access.cluster;
        ret_admin->identity = access.identity;
        memcpy(ret_admin->origin, access.origin, sizeof(access.origin));
        memcpy(ret_admin->context, access.context, sizeof(access.context));
        ret_admin->is_renewable = access.is_renewable;
        ret_admin->expires_ms = access.expires_ms;
        r = nb_api_init(&ret_admin->api, &ret_admin->cluster, &ret_admin->identity,
                        NB_TIME_INFINITE, f);
        if (r < 0)
                nb_admin_done(ret_admin);
        return r;
}

static bool is_same_cluster(const struct nb_cluster *a, const struct nb_cluster *b) {
        return nb_url_is_equal(&a->server, &b->server) && a->ca_len == b->ca_len &&
               (a->ca_len == 0 || memcmp(a->ca, b->ca, a->ca_len) == 0) &&
               strcmp(a->tls_server_name, b->tls_server_name) == 0 &&
               strcmp(a->proxy_url, b->proxy_url) == 0;
}

int nb_admin_renew(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_admin_access_done) struct nb_admin_access renewed = {
                .identity = NB_IDENTITY_INIT
        };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_admin_place place = admin->place;
        int r;

        /* Somebody may have selected another context meanwhile. */
        if (admin->context[0])
                place.context = admin->context;
        r = read_place(&place, &renewed, f);
        if (r >= 0 && !is_same_cluster(&admin->cluster, &renewed.cluster))
                r = nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                   "%s: the cluster has changed since this program started; "
                                   "restart it to use the new one",
                                   renewed.origin);
        if (r >= 0)
                r = nb_api_init(&api, &admin->cluster, &renewed.identity, admin->api.deadline_ms,
                                f);
        if (r < 0)
                return r;

        if (admin->identity.kind != NB_IDENTITY_CERTIFICATE &&
            renewed.identity.kind != NB_IDENTITY_CERTIFICATE) {
                /* Only a header differs, so the connections and their transfers stay. */
                struct nb_secret old = admin->api.authorization;

                admin->api.authorization = api.authorization;
                api.authorization = old;
        } else {
                struct nb_api old = admin->api;

                admin->api = api;
                admin->api.identity = &admin->identity;
                api = old;
        }
        nb_identity_done(&admin->identity);
        admin->identity = TAKE(renewed.identity);
        admin->expires_ms = renewed.expires_ms;
        return 0;
}

int nb_admin_renew_if_expired(struct nb_admin *admin, struct nb_failure *f) {
        if (nb_now_ms() < admin->expires_ms ||
            (admin->identity.kind == NB_IDENTITY_CERTIFICATE && !nb_http_is_idle(admin->api.http)))
                return 0;
        return nb_admin_renew(admin, f);
}

void nb_admin_done(struct nb_admin *admin) {
        nb_api_done(&admin->api);
        nb_identity_done(&admin->identity);
        nb_cluster_done(&admin->cluster);
}

void nb_admin_count(struct nb_admin *admin, long status) {
        if (status >= 0 && status < NB_ADMIN_STATUS_N)
                admin->n_answers[status]++;
}
