/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "format/kubelet_config.h"
#include "kube/kubelet_config_calls.h"
#include "stage/internal.h"

static int write_config(const struct nb_join *join, const struct nb_buffer *text, struct nb_failure *f) {
        int r = nb_file_write(join->state_fd, NB_KUBELET_CONFIG_FILE, 0600, text->data, text->len);

        if (r >= 0)
                return 0;
        errno = -r;
        return nb_failure_set(f, NB_STATE_UNWRITABLE, -r, "'%s' in the state directory: %m", NB_KUBELET_CONFIG_FILE);
}

/* kubeadm's Role names the group of nodes too. */
static int fetch_as_node(const struct nb_join *join, struct nb_buffer *ret_text, char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE], struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret key = NB_SECRET_INIT;
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_identity identity = {
                .kind = NB_IDENTITY_CERTIFICATE,
                .certificate = join->certificate.data,
                .certificate_len = join->certificate.len,
        };
        int r;

        r = nb_key_export(join->key, &key);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the key cannot be written as PEM");
        identity.secret = key;
        r = nb_api_init(&api, &join->cluster, join->ca.data, join->ca.len, &identity, f);
        return r < 0 ? r : nb_kubelet_config_fetch(&api, join->deadline_ms, ret_text, ret_name, f);
}

/* A token may have expired while somebody took their time to approve the request, or be of another group than kubeadm's. */
static int fetch(struct nb_join *join, struct nb_buffer *ret_text, char ret_name[static NB_KUBELET_CONFIG_NAME_SIZE], struct nb_failure *f) {
        int r;

        r = nb_kubelet_config_fetch(&join->api, join->deadline_ms, ret_text, ret_name, f);
        if (r >= 0 || f->code != NB_KUBELET_CONFIG_REFUSED)
                return r;
        nb_log(LOG_DEBUG, NB_NONE, "%s; asking with the node's new certificate", f->detail);
        nb_failure_clear(f);
        return fetch_as_node(join, ret_text, ret_name, f);
}

/* Filtered here so that people are told; the installer does it again, for it does not believe this program. */
int nb_stage_configure(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX), filtered = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char name[NB_KUBELET_CONFIG_NAME_SIZE], origin[NB_KUBELET_CONFIG_NAME_SIZE + 32], dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        int r;

        r = fetch(join, &text, name, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        (void)snprintf(origin, sizeof(origin), "the ConfigMap kube-system/%s", name);
        r = nb_kubelet_config_filter(origin, text.data ? text.data : "", text.len, join->ca.len > 0 ? join->settings->ca_file : NULL,
                                     NB_KUBELET_CONFIG_UNACCEPTABLE, &filtered, dropped, f);
        if (r >= 0)
                r = write_config(join, &filtered, f);
        if (r < 0)
                return r;
        if (dropped[0])
                nb_log(LOG_NOTICE, NB_KUBELET_CONFIG_REDUCED, "%s: not taken over: %s", origin, dropped);
        return 0;
}
