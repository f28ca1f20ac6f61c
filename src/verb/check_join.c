/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <unistd.h>

#include "base/macro.h"
#include "format/handoff.h"
#include "verb/begin.h"
#include "verb/check_internal.h"

static const char *const discoveries[_NB_DISCOVERY_N] = {
        [NB_DISCOVERY_TOKEN] = "cluster-info of discovery.endpoints, proven by token and pins",
        [NB_DISCOVERY_DOCUMENT] = "a kubeconfig on this machine",
        [NB_DISCOVERY_URL] = "a kubeconfig from an https URL",
        [NB_DISCOVERY_CACERTS] = "the CA of a k3s server, proven by the hash in the token",
};

/* What only the service will see cannot be missed here. */
static bool is_excused(const struct nb_check *check, enum nb_code code) {
        if (check->is_platform_hidden)
                return code == NB_TOKEN_MISSING || code == NB_SETTINGS_INCOMPLETE;
        if (code == NB_TOKEN_MISSING)
                return nb_check_has_sealed_identity(check) || (check->sealed & 1U << NB_CHECK_CONFIG);
        return code == NB_SETTINGS_INCOMPLETE && (check->sealed & (1U << NB_CHECK_CLUSTER_INFO | 1U << NB_CHECK_KUBECONFIG | 1U << NB_CHECK_CONFIG));
}

static int print_node_name(struct nb_check *check, struct nb_failure *f) {
        const struct nb_settings *settings = &check->load.settings;
        char *name = check->node_name;
        int r;

        /* The name of this machine, or of its cloud, is not that of the one that is to be made. */
        if (nb_check_has_user_data(check) && !settings->node_name[0]) {
                (void)snprintf(check->node_name, sizeof(check->node_name), "localhost");
                nb_check_row(check, NB_CHECK_NOTE, "node name: %s", settings->metadata_node_name ? "that of the cloud (metadata.nodeName)" : "the host name of the machine");
                return 0;
        }
        r = nb_load_node_name(settings, check->node_name, f);
        if (r >= 0)
                nb_check_row(check, NB_CHECK_NOTE, "node name: %s (%s)", name, settings->node_name[0] ? settings->origin[NB_SETTING_NODE_NAME] : "the host name");
        return r;
}

static void print_joined(struct nb_check *check) {
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];

        (void)snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, check->load.settings.certificate_directory);
        check->is_joined = access(path, F_OK) == 0;
        if (check->is_joined)
                nb_check_row(check, NB_CHECK_NOTE, "this machine has joined already (node-bootstrap status); all of this counts when it has to join anew");
}

int nb_check_join(struct nb_check *check, struct nb_failure *f) {
        const struct nb_bootstrap *bootstrap = &check->load.bootstrap;
        int r;

        if (nb_check_is_here(check))
                print_joined(check);
        r = print_node_name(check, f);
        if (r < 0)
                return r;
        r = nb_load_verify(&check->load, f);
        if (r >= 0)
                r = nb_begin_verify(bootstrap, &check->load.settings, f);
        if (r < 0 && is_excused(check, f->code)) {
                nb_check_row(check, NB_CHECK_DOUBT, "whether it could begin is decided by %s",
                             check->is_platform_hidden ? "what node-bootstrap-platform.service reads, which is not to be seen here (Metadata)" : "a credential that only the service gets");
                nb_failure_clear(f);
                check->is_undecided = true;
                return 0;
        }
        if (r < 0)
                return r;
        nb_check_row(check, NB_CHECK_NOTE, "the cluster: %s", discoveries[bootstrap->discovery]);
        nb_check_row(check, NB_CHECK_NOTE, "the identity: %s", bootstrap->identity.source);
        nb_check_row(check, NB_CHECK_GOOD, "it could begin");
        return 0;
}
