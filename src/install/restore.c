/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "install/restore.h"
#include "install/swap.h"
#include "kube/kubeconfig_format.h"
#include "system/log.h"

enum target { LINK, KUBECONFIG, _TARGET_N };

static int prepare_files(struct nb_swap *files, const struct nb_context *context,
                         const struct nb_present *present, struct nb_failure *f) {
        const struct nb_record *record = &present->record;
        struct nb_cluster cluster = { .server = record->server };
        int r = 0;

        memcpy(cluster.tls_server_name, record->tls_server_name, sizeof(record->tls_server_name));
        memcpy(cluster.proxy_url, record->proxy_url, sizeof(record->proxy_url));
        nb_kubeconfig_format(&cluster, record->n_ca_hashes > 0 ? context->settings.ca_file : NULL,
                             files[LINK].path, &files[KUBECONFIG].text);
        nb_buffer_append_string(&files[LINK].text, record->certificate);
        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++)
                r = files[i].text.error < 0 ? nb_failure_set_memory(f)
                                            : nb_swap_open(&files[i], context->root_fd, f);
        if (r < 0)
                return r;
        files[LINK].is_wanted = present->is_link_lost;
        files[KUBECONFIG].is_wanted = nb_swap_differs(&files[KUBECONFIG]);
        return nb_swap_stage(files, _TARGET_N, f);
}

static int write_files(struct nb_swap *files, struct nb_failure *f) {
        int r = 0;

        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++)
                if (files[i].is_wanted && !(i == LINK && nb_swap_is_at(&files[i], S_IFLNK)))
                        r = nb_swap_set_aside(&files[i], f);
        for (unsigned i = 0; i < _TARGET_N && r >= 0; i++)
                r = nb_swap_publish(&files[i], f);
        return r;
}

int nb_restore_kubeconfig(const struct nb_context *context, const struct nb_present *present,
                          struct nb_failure *f) {
        struct nb_swap files[_TARGET_N];
        char server[NB_URL_MAX];
        int r;

        nb_swap_init(&files[LINK], context->settings.certificate_directory, "/" NB_STORE_CURRENT,
                     S_IFLNK);
        nb_swap_init(&files[KUBECONFIG], context->settings.kubeconfig, "", 0600);
        r = prepare_files(files, context, present, f);
        if (r >= 0)
                r = write_files(files, f);
        nb_url_format(&present->record.server, server);
        for (unsigned i = 0; i < _TARGET_N; i++) {
                struct nb_swap *file = &files[i];

                if (r < 0) {
                        (void)nb_swap_undo(file);
                        (void)nb_swap_put_back(file);
                } else if (file->is_wanted) {
                        nb_swap_keep(file);
                        nb_log(LOG_NOTICE, NB_KUBECONFIG_RESTORED,
                               "'%s' was written again, for the cluster at %s that this machine "
                               "has joined%s%s",
                               file->path, server,
                               file->old_name[0] ? "; the damaged file was renamed to " : "",
                               file->old_name);
                }
                nb_swap_done(file);
        }
        return r;
}
