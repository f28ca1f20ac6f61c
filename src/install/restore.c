/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "install/restore.h"
#include "install/swap.h"
#include "kube/kubeconfig_format.h"
#include "system/log.h"

static int write_kubeconfig(struct nb_swap *file, const struct nb_context *context,
                            const struct nb_record *record, struct nb_failure *f) {
        struct nb_cluster cluster = { .server = record->server };
        char link[NB_SWAP_PATH_SIZE];
        int r;

        memcpy(cluster.tls_server_name, record->tls_server_name, sizeof(record->tls_server_name));
        memcpy(cluster.proxy_url, record->proxy_url, sizeof(record->proxy_url));
        snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT,
                 context->settings.certificate_directory);
        nb_kubeconfig_format(&cluster, record->n_ca_hashes > 0 ? context->settings.ca_file : NULL,
                             link, &file->text);
        if (file->text.error < 0)
                return nb_failure_set_memory(f);
        file->is_wanted = true;
        r = nb_swap_open(file, context->root_fd, f);
        if (r >= 0)
                r = nb_swap_stage(file, 1, f);
        if (r >= 0)
                r = nb_swap_set_aside(file, f);
        if (r >= 0)
                r = nb_swap_publish(file, f);
        if (r < 0) {
                (void)nb_swap_undo(file);
                (void)nb_swap_put_back(file);
        }
        return r;
}

int nb_restore_kubeconfig(const struct nb_context *context, const struct nb_present *present,
                          struct nb_failure *f) {
        struct nb_swap file;
        char server[NB_URL_MAX];
        int r;

        nb_swap_init(&file, context->settings.kubeconfig, "", 0600);
        r = write_kubeconfig(&file, context, &present->record, f);
        if (r >= 0) {
                nb_url_format(&present->record.server, server);
                nb_log(LOG_NOTICE, NB_KUBECONFIG_RESTORED,
                       "'%s' was written again, for the cluster at %s that this machine has "
                       "joined%s%s",
                       file.path, server,
                       file.old_name[0] ? "; the damaged file was renamed to " : "", file.old_name);
        }
        nb_swap_done(&file);
        return r;
}
