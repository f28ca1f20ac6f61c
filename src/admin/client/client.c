/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/client/client.h"
#include "base/macro.h"
#include "http/http.h"
#include "os/clock.h"
#include "systemd/log.h"

int nb_admin_connect(struct nb_admin *admin, struct nb_failure *f) {
        int r;

        *admin = (struct nb_admin){ .place = admin->place };
        r = nb_http_begin(true, f);
        if (r >= 0)
                r = nb_admin_kubeconfig_read(admin, f);
        if (r >= 0)
                r = nb_api_init(&admin->api, &admin->cluster, &admin->identity, NB_TIME_INFINITE,
                                f);
        if (r < 0) {
                nb_admin_done(admin);
                return r;
        }
        nb_log_field(NB_FIELD_ENDPOINT, "%s", admin->api.name);
        /* Somebody may select another context before the credential is read again. */
        admin->place.context = admin->cluster.context;
        return 0;
}

static bool is_same(const char *one, const char *other) {
        return strcmp(one ? one : "", other ? other : "") == 0;
}

static int renew(struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin renewed = { .place = admin->place };
        int r = nb_admin_connect(&renewed, f);

        if (r < 0)
                return r;
        if (!nb_cluster_has_same_transport(&admin->cluster, &renewed.cluster))
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "%s: the server has changed since this program started; "
                                      "restart it to use the new one",
                                      renewed.origin);
        if (is_same(admin->cluster.ca, renewed.cluster.ca) &&
            is_same(admin->identity.certificate.data, renewed.identity.certificate.data)) {
                nb_secret_done(&admin->api.authorization);
                admin->api.authorization = TAKE(renewed.api.authorization);
        } else {
                if (admin->on_replace)
                        admin->on_replace(admin->userdata);
                renewed.api.deadline_ms = admin->api.deadline_ms;
                nb_api_done(&admin->api);
                admin->api = TAKE(renewed.api);
                admin->api.identity = &admin->identity;
        }
        nb_identity_done(&admin->identity);
        admin->identity = TAKE(renewed.identity);
        nb_cluster_done(&admin->cluster);
        admin->cluster = TAKE(renewed.cluster);
        admin->expires_ms = renewed.expires_ms;
        return 0;
}

int nb_admin_renew_if_expired(struct nb_admin *admin, struct nb_failure *f) {
        return admin->on_replace || nb_now_ms() < admin->expires_ms ? 0 : renew(admin, f);
}

int nb_admin_keep_usable(struct nb_admin *admin, const struct nb_failure *rejected, uint64_t now_ms,
                         struct nb_failure *f) {
        bool is_rejected = rejected && (rejected->code == NB_ADMIN_UNAUTHORIZED ||
                                        rejected->code == NB_ADMIN_UNTRUSTED);
        uint64_t begin_ms = nb_now_ms();
        struct nb_failure failure = { 0 };
        int r;

        if (now_ms < admin->renew_ms || (!is_rejected && now_ms < admin->expires_ms))
                return 0;
        r = renew(admin, &failure);
        /* A plugin that hangs must leave time for other work. */
        admin->renew_ms = now_ms + (nb_now_ms() - begin_ms) + NB_ADMIN_RENEW_MS;
        if (r < 0 && failure.code == NB_NONE)
                return r;
        if (r < 0 && failure.code != admin->renewal)
                nb_log_failure(LOG_WARNING, &failure);
        admin->renewal = failure.code;
        if (failure.code == NB_ADMIN_KUBECONFIG_UNUSABLE)
                rejected = &failure;
        else if (!is_rejected)
                return 0;
        if (admin->unusable_ms == 0)
                admin->unusable_ms = now_ms;
        if (now_ms < admin->unusable_ms + NB_ADMIN_UNUSABLE_MS)
                return 0;
        *f = *rejected;
        nb_failure_add(f, "; the credential has been unusable for %d min",
                       NB_ADMIN_UNUSABLE_MS / 60000);
        return -EKEYREJECTED;
}

void nb_admin_done(struct nb_admin *admin) {
        nb_api_done(&admin->api);
        nb_identity_done(&admin->identity);
        nb_cluster_done(&admin->cluster);
}

time_t nb_admin_time(const struct nb_admin *admin) {
        return admin->date > 0 ? admin->date + (time_t)((nb_now_ms() - admin->date_ms) / 1000) : 0;
}

void nb_admin_count(struct nb_admin *admin, long status) {
        if (status >= 0 && status < NB_ADMIN_STATUS_N)
                admin->n_answers[status]++;
}
