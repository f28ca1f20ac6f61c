/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "files/handoff.h"
#include "install/accept.h"
#include "install/discard_token.h"
#include "install/give.h"
#include "install/install.h"
#include "install/mend.h"
#include "install/refresh_install.h"
#include "install/restore.h"
#include "install/state_directory.h"
#include "install/write.h"
#include "node/context.h"
#include "node/present.h"
#include "system/log.h"

static void log_names(const struct nb_accepted *accepted) {
        const struct nb_provenance *from = &accepted->handoff.provenance;
        char pin[NB_PIN_TEXT_SIZE];

        if (accepted->selection.n_taken > 0) {
                nb_pin_format(accepted->selection.taken[0], pin);
                nb_log_field(NB_FIELD_CA_SHA256, "%s", pin);
        }
        nb_log_field(NB_FIELD_CSR, "%s", from->csr);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", from->endpoint);
        nb_log_field(NB_FIELD_TOKEN_ID, "%s", from->token_id);
        nb_log_field(NB_FIELD_TOKEN_SOURCE, "%s", from->token_source);
}

/* The node has joined, so a file that cannot be removed causes a warning, not a failure. */
static void clear_state(const struct nb_state *state) {
        int r = nb_state_clear(state);

        if (r < 0)
                nb_log(LOG_WARNING, NB_NONE, "the state directory could not be emptied: %s",
                       strerror(-r));
}

/*
 * While this machine has a valid certificate, metadata is accepted only for the same node of the
 * same cluster. `join` supplies the metadata and may be hostile; without this check, it could move
 * this machine to another cluster.
 */
static int verify_same(const struct nb_context *context, const struct nb_inspection *inspection,
                       const struct nb_context *joined, const struct nb_handoff *handoff,
                       struct nb_failure *f) {
        struct nb_record record;
        bool is_same;
        int r;

        if (!joined->is_metadata_wanted || inspection->state != NB_NODE_STATE_NOT_ROTATABLE)
                return 0;
        r = nb_context_read_record(context, &record);
        if (r < 0)
                return nb_failure_set_memory(f);
        is_same = r > 0 && !strcmp(joined->node_name, inspection->node) &&
                  nb_cluster_identity_is_recorded(&joined->identity, &record) &&
                  (joined->identity.n_pins > 0 ||
                   !strcmp(handoff->provenance.endpoint, record.provenance.endpoint));
        if (is_same)
                return 0;
        return nb_failure_set(
                f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                "'" NB_HANDOFF_FILE
                "' is for node '%s' of a cluster that metadata names; expected node "
                "'%s' of the cluster of the last join, while its certificate is still valid",
                joined->node_name, inspection->node);
}

/* Returns 1 after installing, or 0 if there is no handoff. */
static int accept_and_write(const struct nb_context *context,
                            const struct nb_inspection *inspection, const struct nb_state *state,
                            struct nb_failure *f) {
        _cleanup_(nb_context_done) struct nb_context joined = { 0 };
        _cleanup_(nb_accepted_done) struct nb_accepted accepted = { 0 };
        _cleanup_(nb_secret_done) struct nb_secret metadata = NB_SECRET_INIT;
        char server[NB_URL_MAX];
        int r = 0;

        if (!nb_state_has(state, NB_HANDOFF_FILE))
                return 0;
        /* If this machine's own settings are enough, `join` must not be able to add any. */
        if (context->is_metadata_wanted)
                r = nb_state_read(state, NB_METADATA_FILE, NB_SETTINGS_TEXT_MAX, &metadata, f);
        if (r < 0 && (r != -ENOENT || f->code != NB_NONE))
                return r;
        r = nb_context_load_joined(context, &metadata, &joined, f);
        if (r < 0)
                return r;
        r = nb_accept(&joined, state, &accepted, f);
        if (r < 0)
                return r;
        r = verify_same(context, inspection, &joined, &accepted.handoff, f);
        if (r < 0)
                return r;
        log_names(&accepted);
        nb_log_field(NB_FIELD_NODE, "%s", joined.node_name);
        r = nb_write(&joined, &accepted, f);
        if (r < 0)
                return r;
        clear_state(state);
        nb_url_format(&accepted.handoff.cluster.server, server);
        nb_log(LOG_INFO, NB_INSTALLED,
               "node '%s' has joined the cluster at %s; its certificate is valid until %s",
               joined.node_name, server, accepted.not_after);
        nb_log_status("Joined the cluster at %s; the certificate is valid until %s", server,
                      accepted.not_after);
        nb_discard_token(&joined);
        return 1;
}

/* With `is_restoring`, also writes a lost kubeconfig. */
static int inspect_node(const struct nb_context *context, bool is_restoring,
                        struct nb_inspection *ret_inspection, struct nb_failure *f) {
        _cleanup_(nb_present_done) struct nb_present present = { 0 };
        int r = nb_present_read(context, &present, f);

        if (r < 0)
                return r;
        nb_present_classify(&present, context, ret_inspection);
        if (!is_restoring || ret_inspection->state != NB_NODE_STATE_WITHOUT_KUBECONFIG ||
            !nb_present_is_mendable(&present))
                return 0;
        r = nb_restore_kubeconfig(context, &present, f);
        return r < 0 ? r : inspect_node(context, false, ret_inspection, f);
}

/* While the clock is wrong, the token is kept. */
static int keep_join(const struct nb_context *context, const struct nb_state *state,
                     const struct nb_inspection *inspection) {
        clear_state(state);
        if (inspection->state == NB_NODE_STATE_USABLE)
                nb_discard_token(context);
        return 0;
}

int nb_install_end(const struct nb_context *context, struct nb_inspection *inspection,
                   struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        bool is_usable;
        int r;

        r = inspect_node(context, false, inspection, f);
        if (r < 0)
                return r;
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        is_usable = nb_node_state_is_joined(inspection->state);
        r = is_usable ? nb_config_install(context, &state, f)
                      : accept_and_write(context, inspection, &state, f);
        /* With the same key, another attempt would obtain the same certificate. */
        if (f->code == NB_CERTIFICATE_UNUSABLE)
                clear_state(&state);
        if (r != 0)
                return r < 0 ? r : 0;
        if (is_usable)
                return keep_join(context, &state, inspection);
        if (!inspection->fallback)
                return nb_failure_set(f, NB_HANDOFF_MISSING, ENOENT,
                                      "there is no '" NB_HANDOFF_FILE
                                      "' in the state directory, and %s",
                                      inspection->detail);
        nb_log(LOG_DEBUG, NB_PREVIOUS_KEPT,
               "nothing to install; keeping the existing certificate: %s", inspection->detail);
        return 0;
}

/*
 * Finishes an installation that a crash or a failure interrupted, without using the network: the
 * token may no longer exist, and the kubeconfig may already be renamed.
 */
static int finish_interrupted(const struct nb_context *context,
                              const struct nb_inspection *inspection, const struct nb_state *state,
                              struct nb_failure *f) {
        int r;

        nb_state_sweep(state);
        r = accept_and_write(context, inspection, state, f);
        /* Installing a new handoff would fail in the same way. */
        if (r >= 0 || f->code == NB_TARGET_UNWRITABLE || f->code == NB_DIRECTORY_MISSING ||
            f->code == NB_DISK_FULL || f->code == NB_INTERNAL)
                return r;
        nb_log(LOG_DEBUG, NB_NONE, "the contents of the state directory are unusable: %s",
               f->detail);
        *f = (struct nb_failure){ 0 };
        return 0;
}

static void report_node_name(const struct nb_context *context) {
        if (context->is_name_lowered)
                nb_log(LOG_NOTICE, NB_NODE_NAME_LOWERED,
                       "%s has upper case letters; the node name is '%s'",
                       context->settings.node_name[0] ? "node.name in the settings"
                                                      : "the host name",
                       context->node_name);
}

/* A k3s supervisor accepts a node's client certificate instead of a token, but not if it has
 * expired or belongs to another node or cluster. */
static bool is_client_needed(const struct nb_context *context,
                             const struct nb_inspection *inspection) {
        return context->bootstrap.issuer == NB_ISSUER_SUPERVISOR &&
               (inspection->state == NB_NODE_STATE_ABSENT ||
                inspection->state == NB_NODE_STATE_NOT_ROTATABLE);
}

static void report_joined(const struct nb_inspection *inspection) {
        if (inspection->state == NB_NODE_STATE_NOT_YET_VALID) {
                nb_log(LOG_WARNING, NB_NOT_YET_VALID,
                       "node '%s' has already joined, but this machine's clock is wrong: %s",
                       inspection->node, inspection->detail);
                nb_log_status("Already joined; this machine's clock is wrong");
                return;
        }
        nb_log(LOG_INFO, NB_ALREADY_JOINED,
               "node '%s' has already joined; its certificate is valid until %s", inspection->node,
               inspection->not_after);
        nb_log_status("Already joined; the certificate is valid until %s", inspection->not_after);
}

int nb_install_begin(struct nb_context *context, bool is_child_run,
                     struct nb_inspection *inspection, struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        bool is_joined;
        int r;

        r = inspect_node(context, false, inspection, f);
        if (r < 0)
                return r;
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        if (!nb_node_state_is_joined(inspection->state)) {
                r = finish_interrupted(context, inspection, &state, f);
                if (r < 0)
                        return r;
                r = nb_context_recall(context, f);
                if (r < 0)
                        return r;
                r = inspect_node(context, true, inspection, f);
                if (r < 0)
                        return r;
        }
        is_joined = nb_node_state_is_joined(inspection->state);
        if (!is_joined && inspection->state != NB_NODE_STATE_ABSENT)
                nb_log(LOG_NOTICE, NB_JOINING_AGAIN, "joining again: %s", inspection->detail);
        report_node_name(context);
        if (is_joined) {
                report_joined(inspection);
                nb_mend(context);
                (void)keep_join(context, &state, inspection);
                inspection->timeout_ms = NB_FALLBACK_TIMEOUT_MS;
                return is_child_run ? nb_config_begin(context, f) : 0;
        }
        inspection->timeout_ms = context->settings.timeout_ms;
        if (inspection->fallback && inspection->timeout_ms > NB_FALLBACK_TIMEOUT_MS)
                inspection->timeout_ms = NB_FALLBACK_TIMEOUT_MS;
        r = is_child_run ? nb_give(context, is_client_needed(context, inspection), f) : 0;
        return r < 0 ? r : 1;
}
