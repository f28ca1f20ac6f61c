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
        const unsigned identity = 1U << NB_CHECK_TOKEN | 1U << NB_CHECK_TLS_BOOTSTRAP_TOKEN | 1U << NB_CHECK_KUBECONFIG | 1U << NB_CHECK_CONFIG;
        const unsigned cluster = 1U << NB_CHECK_KUBECONFIG | 1U << NB_CHECK_CLUSTER_INFO | 1U << NB_CHECK_CONFIG | 1U << NB_CHECK_TOKEN;

        return (code == NB_TOKEN_MISSING && (check->sealed & identity)) || (code == NB_SETTINGS_INCOMPLETE && (check->sealed & cluster));
}

static int print_node_name(const struct nb_check *check, struct nb_failure *f) {
        char name[NB_NODE_NAME_MAX + 1];
        int r = nb_load_node_name(&check->settings, name, f);

        if (r >= 0)
                nb_check_row(check, NB_CHECK_NOTE, "node name: %s (%s)", name,
                             check->settings.node_name[0] ? check->settings.origin[NB_SETTING_NODE_NAME] : "the host name");
        return r;
}

static void print_joined(const struct nb_check *check) {
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];

        (void)snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, check->settings.certificate_directory);
        if (access(path, F_OK) == 0)
                nb_check_row(check, NB_CHECK_NOTE, "this machine has joined already (node-bootstrap status); all of this counts when it has to join anew");
}

static int verify(const struct nb_check *check, struct nb_bootstrap *bootstrap, struct nb_failure *f) {
        int r = nb_settings_verify(&check->settings, f);

        if (r >= 0)
                r = nb_bootstrap_load(&check->settings, bootstrap, f);
        return r < 0 ? r : nb_begin_verify(bootstrap, &check->settings, f);
}

int nb_check_join(struct nb_check *check, struct nb_failure *f) {
        _cleanup_(nb_bootstrap_done) struct nb_bootstrap bootstrap = {
                .token = { .value = NB_SECRET_INIT }, .identity = NB_IDENTITY_INIT, .previous = NB_IDENTITY_INIT
        };
        int r;

        print_joined(check);
        r = print_node_name(check, f);
        if (r < 0)
                return r;
        r = verify(check, &bootstrap, f);
        if (r < 0 && is_excused(check, f->code)) {
                nb_check_row(check, NB_CHECK_DOUBT, "whether it could begin is decided by an encrypted credential");
                nb_failure_clear(f);
                return 0;
        }
        if (r < 0)
                return r;
        nb_check_row(check, NB_CHECK_NOTE, "the cluster: %s", discoveries[bootstrap.discovery]);
        nb_check_row(check, NB_CHECK_NOTE, "the identity: %s", bootstrap.identity.source);
        nb_check_row(check, NB_CHECK_GOOD, "it could begin");
        return 0;
}
