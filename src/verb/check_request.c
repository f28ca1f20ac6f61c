/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "format/handoff.h"
#include "kube/csr_calls.h"
#include "kube/node_calls.h"
#include "kube/right_calls.h"
#include "verb/check_internal.h"

/* A supervisor of k3s signs at once, and has no question that could be asked before. */
bool nb_check_has_request(const struct nb_check *check) {
        return nb_check_is_online(check) && check->load.bootstrap.issuer == NB_ISSUER_CSR;
}

static uint64_t until(void) {
        return nb_now_ms() + NB_CHECK_PATIENCE_MS;
}

int nb_check_identity(struct nb_check *check, struct nb_failure *f) {
        const struct nb_identity *identity = &check->load.bootstrap.identity;
        struct nb_check_network *network = check->network;
        int r;

        nb_log_field(NB_FIELD_TOKEN_ID, "%s", identity->token_id);
        nb_log_field(NB_FIELD_TOKEN_SOURCE, "%s", identity->source);
        r = nb_csr_right_read(&network->join.api, until(), f);
        if (r < 0 && (r != -EACCES || f->code != NB_NONE))
                return nb_join_name_identity(identity, nb_join_blame_clock(&network->join, r, f), f);
        network->may_request = r;
        nb_check_row(check, NB_CHECK_GOOD, "identity: the API server takes it (%s)", identity->source);
        return 0;
}

int nb_check_right(struct nb_check *check, struct nb_failure *f) {
        const struct nb_check_network *network = check->network;

        if (network->may_request == 0)
                return nb_failure_set_http(f, NB_CSR_FORBIDDEN, 0, "%s says that this identity may not create certificate signing requests", network->join.api.name);
        if (network->may_request > 0)
                nb_check_row(check, NB_CHECK_GOOD, "right to request: it may create certificate signing requests");
        else
                nb_check_row(check, NB_CHECK_DOUBT, "right to request: not known, since the API server does not let it ask");
        return 0;
}

int nb_check_node_name(struct nb_check *check, struct nb_failure *f) {
        struct nb_join *join = &check->network->join;
        struct nb_node_object node = { 0 };
        long status = 0;
        int r;

        nb_log_field(NB_FIELD_NODE, "%s", check->node_name);
        r = nb_node_read(&join->api, check->node_name, until(), &node, &status, f);
        if (r == -EACCES && f->code == NB_NONE) {
                nb_check_row(check, NB_CHECK_DOUBT, "node name: whether '%s' is free is not known: the API server answers %ld", check->node_name, status);
                return 0;
        }
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (r == 0)
                nb_check_row(check, NB_CHECK_GOOD, "node name: there is no Node '%s'", check->node_name);
        else if (!node.is_ready)
                nb_check_row(check, NB_CHECK_GOOD, "node name: there is a Node '%s', but it is not Ready", check->node_name);
        else if (check->is_joined)
                nb_check_row(check, NB_CHECK_GOOD, "node name: the Node '%s' is Ready, and this machine has joined as it", check->node_name);
        else if (join->settings->allow_existing)
                nb_check_row(check, NB_CHECK_GOOD, "node name: the Node '%s' is Ready already, which node.allowExisting permits", check->node_name);
        else {
                join->deadline_ms = until();
                return nb_stage_node(join, f);
        }
        return 0;
}

/* --- The request that an earlier start has left --- */

/* 1: its name; 0: there is none. -errno. */
static int read_name(const struct nb_check *check, char ret_name[static NB_REQUEST_NAME_SIZE]) {
        const char *folder = getenv("STATE_DIRECTORY");
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        _cleanup_(nb_closep) int fd = -1;
        int r;

        r = nb_folder_open(folder ? folder : NB_CHECK_STATE, &fd);
        if (r >= 0)
                r = nb_file_read_secret(fd, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem, NULL);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = nb_key_import(pem.data, pem.len, &key);
        if (r >= 0)
                r = nb_request_name(key, check->node_name, ret_name);
        return r < 0 ? r : 1;
}

static int print_state(struct nb_check *check, struct nb_failure *f) {
        enum nb_pending_reason reason = NB_PENDING_UNASKED;
        struct nb_join *join = &check->network->join;
        const struct nb_csr *csr = &join->csr;
        int r;

        if (csr->state == NB_CSR_STATE_APPROVED && csr->certificate) {
                nb_check_row(check, NB_CHECK_GOOD, "request: '%s' was approved, and its certificate is issued", csr->name);
                return 0;
        }
        if (csr->state == NB_CSR_STATE_PENDING) {
                r = nb_join_ask_reason(join, until(), &reason);
                if (r < 0)
                        return r;
        }
        return nb_pending_describe(csr, check->node_name, reason, NB_PENDING_NO_TIME, f);
}

int nb_check_request(struct nb_check *check, struct nb_failure *f) {
        struct nb_join *join = &check->network->join;
        char name[NB_REQUEST_NAME_SIZE];
        int r;

        r = read_name(check, name);
        if (r == 0) {
                nb_check_row(check, NB_CHECK_GOOD, "request: none is under way");
                return 0;
        }
        if (r < 0) {
                errno = -r;
                nb_check_row(check, NB_CHECK_DOUBT, "request: whether one is under way is not known: the key in the state directory: %m%s", r == -EACCES ? ": run as root" : "");
                return 0;
        }
        nb_log_field(NB_FIELD_CSR, "%s", name);
        r = nb_csr_read(&join->api, name, until(), &join->csr, f);
        if (r < 0)
                return nb_join_blame_clock(join, r, f);
        if (r > 0)
                return print_state(check, f);
        nb_check_row(check, NB_CHECK_GOOD, "request: '%s' is not there any more, or not yet", name);
        return 0;
}
