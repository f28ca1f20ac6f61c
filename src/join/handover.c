/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the files for the installer into the state directory: kubelet's configuration, and the
 * handoff. */

#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "files/handoff.h"
#include "join/report.h"
#include "join/stages.h"
#include "kube/kubelet_config.h"
#include "kube_api/cluster_calls.h"
#include "system/log.h"

/* --- kubelet's configuration --- */

/* Filters the configuration to log what is dropped. The installer filters it again, since it does
 * not trust this program. */
int nb_join_fetch_kubelet_config(const struct nb_join *join, const struct nb_identity *node,
                                 struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX),
                                                   filtered = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);
        char name[NB_KUBELET_CONFIG_NAME_SIZE], origin[NB_KUBELET_CONFIG_NAME_SIZE + 32],
                dropped[NB_KUBELET_CONFIG_DROPPED_SIZE];
        const struct nb_kubelet_config_source source = { origin,
                                                         join->cluster.ca ? join->settings->ca_file
                                                                          : NULL,
                                                         NB_KUBELET_CONFIG_UNACCEPTABLE };
        _cleanup_(nb_api_done) struct nb_api api = { 0 };
        struct nb_cluster cluster = nb_join_reachable(join);
        int r;

        r = nb_api_init(&api, &cluster, node, join->deadline_ms, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", api.name);
        r = nb_kubelet_config_fetch(&api, &text, name, f);
        if (r < 0)
                return r;
        nb_report_new_connection(&api);
        snprintf(origin, sizeof(origin), "the ConfigMap kube-system/%s", name);
        r = nb_kubelet_config_filter(&source, text.data ? text.data : "", text.len, &filtered,
                                     dropped, f);
        if (r < 0)
                return r;
        r = nb_state_file_write(join->state_fd, NB_KUBELET_CONFIG_FILE, &filtered, f);
        if (r < 0)
                return r;
        if (dropped[0])
                nb_log(LOG_NOTICE, NB_KUBELET_CONFIG_REDUCED, "%s: ignored: %s", origin, dropped);
        return 0;
}

/* Presents the new certificate, since kubeadm's Role is for all nodes, but only for the tokens of
 * one group. */
int nb_stage_configure(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret key = NB_SECRET_INIT;
        struct nb_identity node = {
                .kind = NB_IDENTITY_CERTIFICATE,
                .certificate = { .data = join->certificate.data, .len = join->certificate.len },
        };
        int r;

        r = nb_key_export(join->key, &key);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the key cannot be written as PEM");
        node.secret = key;
        return nb_join_fetch_kubelet_config(join, &node, f);
}

/* --- The handoff --- */

int nb_stage_hand_over(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_bootstrap *bootstrap = join->bootstrap;
        const struct nb_identity *identity = &bootstrap->identity;
        char none[] = ""; /* the system's CAs */
        struct nb_handoff handoff = {
                .certificate = join->certificate.data,
                .serving = join->serving.data,
                .cluster = join->cluster,
        };
        struct nb_provenance *from = &handoff.provenance;
        int r;

        /* They end while this process waits for the disk. */
        nb_http_dismiss(join->api.http);
        if (!handoff.cluster.ca)
                handoff.cluster.ca = none;
        memcpy(from->usec, join->usec, sizeof(from->usec));
        snprintf(from->csr, sizeof(from->csr), "%s", join->csr_name);
        snprintf(from->endpoint, sizeof(from->endpoint), "%s", join->endpoint);
        snprintf(from->token_id, sizeof(from->token_id), "%s",
                 identity->token_id[0] ? identity->token_id : bootstrap->token.token_id);
        snprintf(from->token_source, sizeof(from->token_source), "%s", identity->source);
        /* The installer cannot read cloud metadata, so the handoff contains what it needs from
         * there. */
        if (join->metadata != NB_PROVIDER_NONE) {
                snprintf(handoff.metadata, sizeof(handoff.metadata), "%s",
                         nb_provider_names[join->metadata]);
                if (bootstrap->has_hash)
                        nb_hex_encode(bootstrap->hash, sizeof(bootstrap->hash), handoff.k3s_hash);
        }
        r = nb_state_file_format(&nb_handoff_file, &handoff, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the handoff cannot be formatted");
        return nb_state_file_write(join->state_fd, NB_HANDOFF_FILE, &text, f);
}
