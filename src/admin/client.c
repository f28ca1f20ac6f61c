/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"

static const struct nb_kubeconfig_policy policy = {
        .unacceptable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .unreadable = NB_ADMIN_KUBECONFIG_UNUSABLE,
        .users = NB_KUBECONFIG_USERS_CURRENT,
};

static int read_file(_unused_ void *userdata, const char *path, struct nb_secret *ret) {
        return nb_path_read(-1, path, NB_KUBECONFIG_MAX, ret);
}

int nb_admin_connect(const struct nb_admin_place *place, struct nb_admin *ret_admin,
                     struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = place->kubeconfig ? place->kubeconfig : getenv("KUBECONFIG");
        char folder[PATH_MAX];
        const char *name;
        int r;

        *ret_admin = (struct nb_admin){ .identity = NB_IDENTITY_INIT,
                                        .place = *place,
                                        .expires_ms = NB_TIME_INFINITE };
        if (!path)
                path = "/etc/kubernetes/admin.conf";
        snprintf(ret_admin->origin, sizeof(ret_admin->origin), "%s", path);
        r = nb_path_read(-1, path, NB_KUBECONFIG_MAX, &text);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r, "cannot read '%s': %m",
                                      path);
        nb_path_split(path, folder, sizeof(folder), &name);
        r = nb_kubeconfig_parse(&policy,
                                &(const struct nb_kubeconfig_input){ .origin = path,
                                                                     .text = text.data,
                                                                     .len = text.len,
                                                                     .read = read_file,
                                                                     .folder = folder },
                                &ret_admin->cluster, &ret_admin->identity, f);
        if (r < 0)
                return r;
        return nb_api_init(&ret_admin->api, &ret_admin->cluster, &ret_admin->identity,
                           NB_TIME_INFINITE, f);
}

int nb_admin_renew(struct nb_admin *admin, struct nb_failure *f) {
        struct nb_admin renewed;
        int r = nb_admin_connect(&admin->place, &renewed, f);

        nb_admin_done(&renewed);
        return r;
}

void nb_admin_done(struct nb_admin *admin) {
        nb_api_done(&admin->api);
        nb_identity_done(&admin->identity);
        nb_cluster_done(&admin->cluster);
}
