/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/macro.h"
#include "base/text.h"
#include "install/accept.h"
#include "install/discard_token.h"
#include "install/give.h"
#include "install/install.h"
#include "install/refresh_install.h"
#include "install/repair.h"
#include "install/state_directory.h"
#include "install/write.h"
#include "node_state/context.h"
#include "node_state/present.h"
#include "os/clock.h"
#include "prover/prover.h"
#include "state_files/handoff.h"
#include "systemd/log.h"

#define HOST_NAME_WAIT_MS 30000 /* kubelet waits, too */
#define HOST_NAME_POLL_MS 200
/* For kubelet's configuration at a later start than that of the join: kubelet waits at each boot,
 * and may need none. */
#define CONFIG_TIMEOUT_MS 10000

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

void nb_install_done(struct nb_install *install) {
        nb_context_done(&install->own);
        nb_context_done(&install->settled);
        nb_node_done(&install->node);
}

/*
 * While this machine has a valid certificate, metadata is accepted only for the same cluster, and
 * for the node name of this machine's own settings or of the certificate. The child that read the
 * metadata may be hostile; without this check, it could move this machine to another cluster.
 */
static int verify_same(struct nb_install *install, const struct nb_handoff *handoff,
                       struct nb_failure *f) {
        const struct nb_context *own = &install->own, *settled = install->context;
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
        bool is_same;
        int r;

        if (settled == own || !nb_node_state_has_fallback(install->node.inspection.state))
                return 0;
        r = nb_context_read_record(own, &record);
        if (r < 0)
                return nb_failure_set_memory(f);
        is_same = r > 0 && !strcmp(settled->node_name, own->node_name) &&
                  nb_cluster_identity_is_recorded(&settled->identity, &record) &&
                  (settled->identity.n_pins > 0 ||
                   !strcmp(handoff->provenance.endpoint, record.provenance.endpoint));
        if (is_same)
                return 0;
        return nb_failure_set(
                f, NB_HANDOFF_UNTRUSTED, EKEYREJECTED,
                "'" NB_HANDOFF_FILE
                "' is for node '%s' of a cluster that metadata names; expected node "
                "'%s' of the cluster of the last join, while its certificate is still valid",
                settled->node_name, own->node_name);
}

/* Returns 1 after installing, or 0 if there is no handoff. */
static int accept_and_write(struct nb_install *install, struct nb_failure *f) {
        const struct nb_state *state = &install->state;
        _cleanup_(nb_accepted_done) struct nb_accepted accepted = { 0 };
        struct nb_context *context = install->context;
        char server[NB_URL_MAX];
        int r;

        if (!nb_state_has(state, NB_HANDOFF_FILE))
                return 0;
        if (context != &install->own) {
                r = nb_context_choose_name(context, install->own.fixed_name, f);
                if (r < 0)
                        return r;
        }
        if (!context->node_name[0])
                return nb_failure_set(f, NB_HOST_NAME_UNSET, 0,
                                      "the host name is '%s', which is only a default",
                                      context->host_name);
        context->now = install->own.now;
        r = nb_accept(context, state, &accepted, f);
        if (r < 0)
                return r;
        r = verify_same(install, &accepted.handoff, f);
        if (r < 0)
                return r;
        log_names(&accepted);
        nb_log_field(NB_FIELD_NODE, "%s", context->node_name);
        r = nb_write(context, &accepted, f);
        if (r < 0)
                return r;
        nb_state_discard(state);
        nb_url_format(&accepted.handoff.cluster.server, server);
        nb_log(LOG_INFO, NB_INSTALLED,
               "node '%s' has joined the cluster at %s; its certificate is valid until %s",
               context->node_name, server, accepted.not_after);
        nb_log_status("Joined the cluster at %s; the certificate is valid until %s", server,
                      accepted.not_after);
        nb_discard_token(context);
        install->is_installed = true;
        return 1;
}

static int inspect_node(struct nb_install *install, struct nb_failure *f) {
        int r;

        nb_node_done(&install->node);
        r = nb_node_inspect(&install->own, &install->node, f);
        if (r >= 0)
                nb_log_field(NB_FIELD_NODE, "%s", install->own.node_name);
        return r;
}

/* Repairs what would require a join, if this is possible without the network. Returns 1 after a
 * change. */
static int repair_node(const struct nb_install *install, struct nb_failure *f) {
        const struct nb_context *own = &install->own;
        const struct nb_node *node = &install->node;
        const struct nb_inspection *inspection = &node->inspection;
        int r;

        if (inspection->state == NB_NODE_STATE_WITHOUT_KUBECONFIG) {
                r = nb_repair(own, node, f);
                return r < 0 ? r : 1;
        }
        /* With node.name, the administrator says that this machine is no copy, or replaces the
         * original. */
        if (inspection->state == NB_NODE_STATE_COPIED &&
            !strcmp(own->settings.node_name, inspection->node)) {
                r = nb_node_record_facts(node);
                if (r < 0)
                        return nb_failure_set(f, NB_TARGET_UNWRITABLE, r,
                                              "cannot write '%s/" NB_RECORD_FILE "': %m",
                                              node->paths.certificate_directory);
                nb_log(LOG_NOTICE, NB_NONE,
                       "node.name in %s is '%s', so this machine is that node from now on",
                       own->settings.origin[NB_SETTING_NODE_NAME], inspection->node);
                return 1;
        }
        return 0;
}

/* The host name decides whether this is a copy, and DHCP may set it later in the boot. */
static bool is_host_name_decisive(const struct nb_node *node) {
        return node->inspection.is_maybe_copy && node->inspection.changed[0] &&
               !node->facts.host_name[0];
}

static int await_host_name(struct nb_install *install, struct nb_failure *f) {
        uint64_t deadline_ms = nb_now_ms() + HOST_NAME_WAIT_MS;
        int r = inspect_node(install, f);

        if (r >= 0 && is_host_name_decisive(&install->node))
                nb_log_status("Waiting for the host name, since the %s differs from that of the "
                              "join",
                              install->node.inspection.changed);
        while (r >= 0 && is_host_name_decisive(&install->node) && nb_now_ms() < deadline_ms) {
                (void)poll(NULL, 0, HOST_NAME_POLL_MS);
                r = inspect_node(install, f);
        }
        return r;
}

/* While the clock is wrong, or this may be a copy, the token is kept. */
static void keep_join(const struct nb_install *install) {
        const struct nb_inspection *inspection = &install->node.inspection;

        nb_state_discard(&install->state);
        if (inspection->state == NB_NODE_STATE_USABLE && !inspection->is_maybe_copy)
                nb_discard_token(&install->own);
}

/* The machine has joined, just now or earlier. */
static int begin_config(struct nb_install *install, struct nb_failure *f) {
        enum nb_node_state *state = &install->node.inspection.state;
        int r;

        if (!nb_node_state_is_joined(*state))
                *state = NB_NODE_STATE_USABLE;
        install->started_ms = 0;
        install->timeout_ms = install->is_installed ? NB_FALLBACK_TIMEOUT_MS : CONFIG_TIMEOUT_MS;
        r = install->is_child_run ? nb_config_begin(&install->own, install->timeout_ms, f) : 0;
        return r > 0 ? NB_CHILD_CONFIG : r;
}

int nb_install_end(struct nb_install *install, struct nb_failure *f) {
        struct nb_context *own = &install->own;
        const struct nb_inspection *inspection = &install->node.inspection;
        bool is_usable;
        int r;

        own->now = time(NULL);
        r = inspect_node(install, f);
        /* The host name may have changed while the join waited; the join keeps its name. */
        if (r >= 0 && install->name[0])
                r = nb_context_choose_name(own, install->name, f);
        if (r < 0)
                return r;
        is_usable = nb_node_state_is_joined(inspection->state);
        r = is_usable ? nb_config_install(own, &install->state, f) : accept_and_write(install, f);
        /* With the same key, another attempt would obtain the same certificate. */
        if (f->code == NB_CERTIFICATE_UNUSABLE)
                nb_state_discard(&install->state);
        if (r < 0)
                return r;
        if (is_usable) {
                keep_join(install);
                return 0;
        }
        if (r > 0)
                return begin_config(install, f);
        if (!nb_node_state_has_fallback(inspection->state))
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
static int finish_interrupted(struct nb_install *install, struct nb_failure *f) {
        int r;

        nb_state_sweep(&install->state);
        r = accept_and_write(install, f);
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

/* kubelet starts nevertheless, and creates a deleted Node again. */
static void report_overdue(const struct nb_node *node) {
        const struct nb_record *record = &node->present.record;
        enum nb_code code = nb_failure_find(record->renewal_failure);

        if (!node->present.has_record || !record->renewal_failure[0])
                return;
        if (code == NB_NONE)
                code = NB_REFRESH_UNFINISHED;
        nb_log(LOG_WARNING, code,
               "kubelet's certificate could not be renewed: %s; it is valid until %s",
               nb_failure_info(code)->subject, node->inspection.not_after);
}

static void report_joined(struct nb_install *install) {
        const struct nb_context *context = &install->own;
        const struct nb_node *node = &install->node;
        const struct nb_inspection *inspection = &node->inspection;
        struct nb_failure misplaced = { 0 };

        /* A child that reads kubelet's configuration could read the key, too. */
        if (nb_prover_verify_place(context->sources, &misplaced) < 0) {
                nb_log_failure(LOG_WARNING, &misplaced);
                install->is_child_run = false;
        }
        /* Says why this start took so long. */
        if (context->bootstrap_failure.errnum == ETIMEDOUT)
                nb_log_failure(LOG_WARNING, &context->bootstrap_failure);
        if (inspection->changed[0])
                nb_log(LOG_WARNING, NB_NODE_RENAMED, NB_NODE_RENAMED_FORMAT, inspection->changed,
                       inspection->node);
        if (!nb_kubelet_paths_are_equal(&node->paths, &context->wanted_paths))
                nb_log(LOG_WARNING, NB_KUBELET_PATHS_KEPT,
                       "the paths of kubelet's files in the settings differ from those of the "
                       "join; the latter stay in use: %s, %s, %s",
                       node->paths.kubeconfig, node->paths.certificate_directory,
                       node->paths.ca_file);
        report_overdue(node);
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

/* The remedy names the node of the certificate. */
static void report_copy(const struct nb_context *context, const struct nb_inspection *inspection) {
        nb_log_field(NB_FIELD_NODE, "%s", inspection->node);
        nb_log(LOG_WARNING, NB_MACHINE_COPIED, "joining again: %s", inspection->detail);
        nb_log_field(NB_FIELD_NODE, "%s", context->node_name);
}

/* Finishes what was interrupted, and repairs what needs no network. */
static int settle_node(struct nb_install *install, struct nb_failure *f) {
        int r;

        if (nb_node_state_is_joined(install->node.inspection.state))
                return 0;
        r = finish_interrupted(install, f);
        if (r >= 0)
                r = inspect_node(install, f);
        if (r >= 0)
                r = repair_node(install, f);
        return r > 0 ? inspect_node(install, f) : r;
}

static int begin_join(struct nb_install *install, struct nb_failure *f) {
        const struct nb_context *context = install->context;
        const char *unused;
        int r;

        install->timeout_ms = context->settings.timeout_ms;
        if (nb_node_state_has_fallback(install->node.inspection.state) &&
            install->timeout_ms > NB_FALLBACK_TIMEOUT_MS)
                install->timeout_ms = NB_FALLBACK_TIMEOUT_MS;
        if (!install->is_child_run)
                return NB_CHILD_JOIN;
        if (context->is_metadata_wanted && context == &install->own)
                return NB_CHILD_METADATA;
        /* The controller would say only that a proof is missing. */
        unused = context->settings.proof_key[0] ? NULL : nb_prover_find_unused("");
        if (unused)
                nb_log(LOG_WARNING, NB_ATTESTATION_KEY_UNUSED, NB_PROVER_UNUSED_FORMAT, unused);
        r = nb_give(install, f);
        return r < 0 ? r : NB_CHILD_JOIN;
}

int nb_install_begin(struct nb_install *install, struct nb_failure *f) {
        struct nb_context *own = &install->own;
        const struct nb_inspection *inspection = &install->node.inspection;
        bool is_joined;
        int r;

        install->context = own;
        r = await_host_name(install, f);
        if (r >= 0)
                r = settle_node(install, f);
        if (r < 0)
                return r;
        NB_TEXT_COPY(install->name, own->node_name);
        is_joined = nb_node_state_is_joined(inspection->state);
        if (inspection->state == NB_NODE_STATE_COPIED)
                report_copy(own, inspection);
        else if (!is_joined && inspection->state != NB_NODE_STATE_ABSENT)
                nb_log(LOG_NOTICE, NB_JOINING_AGAIN, "joining again: %s", inspection->detail);
        report_node_name(own);
        if (is_joined) {
                report_joined(install);
                keep_join(install);
        }
        /* The gate must find the certificate that is kept, or that is the fallback. */
        r = nb_repair(own, &install->node, f);
        if (r < 0)
                return r;
        return is_joined ? begin_config(install, f) : begin_join(install, f);
}

int nb_install_settled(struct nb_install *install, struct nb_failure *f) {
        /* Only with the metadata can a handoff be verified that an earlier start has left. */
        int r = finish_interrupted(install, f);

        if (r < 0)
                return r;
        return r > 0 ? begin_config(install, f) : begin_join(install, f);
}
