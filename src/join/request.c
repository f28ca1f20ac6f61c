/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/attestation.h"
#include "crypto/certificate.h"
#include "join/stages.h"
#include "kube_calls/cluster_calls.h"
#include "kube_calls/csr_calls.h"
#include "os/clock.h"
#include "state_files/state_file.h"
#include "systemd/log.h"

/* --- The pending key --- */

/* 1: loaded; 0: there is no usable one. */
static int read_key(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r;

        r = nb_file_read_secret(join->state_fd, NB_PENDING_KEY_FILE, NB_PENDING_KEY_MAX, &pem,
                                NULL);
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                r = nb_key_import(pem.data, pem.len, &key);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || !nb_key_is_p256(key)) {
                nb_log(LOG_WARNING, NB_KEY_DROPPED,
                       "'" NB_PENDING_KEY_FILE
                       "' in the state directory is damaged; creating a new key");
                return 0;
        }
        join->key = TAKE(key);
        return 1;
}

int nb_pending_key_prepare(struct nb_join *join, struct nb_failure *f) {
        int r;

        if (join->key)
                return 0;
        r = read_key(join, f);
        if (r != 0)
                return r < 0 ? r : 0;
        r = nb_key_generate(&join->key);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the node's key cannot be created");
        join->is_key_new = true;
        return 0;
}

int nb_pending_key_keep(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        int r = nb_pending_key_prepare(join, f);

        if (r < 0 || !join->is_key_new)
                return r;
        r = nb_key_export(join->key, &pem);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the node's key cannot be written as PEM");
        join->is_key_unused = true;
        r = nb_file_write(join->state_fd, NB_PENDING_KEY_FILE, 0600, pem.data, pem.len);
        if (r < 0)
                return nb_failure_set(f, NB_STATE_UNWRITABLE, r,
                                      "'" NB_PENDING_KEY_FILE "' in the state directory: %m");
        join->is_key_new = false;
        return 0;
}

void nb_pending_key_drop(struct nb_join *join) {
        nb_key_free(TAKE(join->key));
        nb_buffer_done(&join->request);
        join->is_key_new = join->is_key_unused = false;
        (void)nb_file_remove(join->state_fd, NB_PENDING_KEY_FILE);
}

/* --- The issued certificate --- */

static void warn_of_clock(const struct nb_join *join, const struct nb_certificates *chain) {
        char not_before[NB_RFC3339_SIZE], now[NB_RFC3339_SIZE];
        time_t clock = time(NULL);

        if (nb_certificate_not_before(chain, 0) <= clock)
                return;
        nb_time_format(nb_certificate_not_before(chain, 0), not_before);
        nb_time_format(clock, now);
        nb_log(LOG_WARNING, NB_NOT_YET_VALID,
               "the certificate of node '%s' is valid from %s, and this machine's clock is at %s",
               join->node_name, not_before, now);
}

static int verify_issued(const struct nb_join *join, const char *pem, size_t len,
                         struct nb_buffer *ret_chain, struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *chain = NULL;
        int r;

        r = nb_certificates_parse(pem, len, false, &chain);
        if (r < 0)
                return nb_failure_set(
                        f, NB_CERTIFICATE_UNUSABLE, r,
                        "expected a chain of certificates in PEM for node '%s', found %s",
                        join->node_name, nb_certificates_reason(r));
        r = nb_certificate_verify_node(chain, join->key, join->node_name, time(NULL), f);
        for (size_t i = 0; r >= 0 && i < nb_certificates_count(chain); i++)
                nb_certificate_export(chain, i, ret_chain);
        if (ret_chain->error < 0)
                r = nb_failure_set_memory(f);
        if (r >= 0)
                warn_of_clock(join, chain);
        return r;
}

int nb_join_take_issued(struct nb_join *join, const char *pem, size_t len, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer chain = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        int r;

        r = nb_join_map_clock_skew(join, verify_issued(join, pem, len, &chain, f), f);
        if (r < 0)
                return r;
        nb_buffer_done(&join->certificate);
        join->certificate = TAKE(chain);
        return 0;
}

/* --- The stages --- */

static int refuse_name(const struct nb_node_object *node, struct nb_failure *f) {
        const struct {
                const char *label, *value;
        } reported[] = {
                { "Ready since", node->ready_since }, { "address", node->address },
                { "kubelet", node->kubelet_version }, { "OS", node->os_image },
                { "system UUID", node->system_uuid },
        };
        const char *lead = "; its kubelet reports:";
        int r;

        r = nb_failure_set(f, NB_NODE_NAME_TAKEN, EEXIST,
                           "the cluster already has a Node '%s'; this machine can join once that "
                           "Node is no longer Ready",
                           node->name);
        for (size_t i = 0; i < N_ELEMENTS(reported); i++) {
                if (!reported[i].value[0])
                        continue;
                nb_failure_add(f, "%s %s '%s'", lead, reported[i].label, reported[i].value);
                lead = ",";
        }
        return r;
}

struct keeping {
        struct nb_join *join;
        struct nb_failure failure;
        int r;
};

static void keep_key(void *userdata) {
        struct keeping *keeping = userdata;

        keeping->r = nb_pending_key_keep(keeping->join, &keeping->failure);
}

/*
 * Two machines with the same name would overwrite each other's Node, and both would have valid
 * certificates. A bootstrap token may read Nodes (ClusterRole kubeadm:get-nodes). An identity that
 * may not read them joins without this check.
 */
int nb_stage_node(struct nb_join *join, struct nb_failure *f) {
        struct keeping keeping = { .join = join };
        const struct nb_http_request more = { .meanwhile = join->is_rehearsal ? NULL : keep_key,
                                              .userdata = &keeping };
        struct nb_node_object node = { 0 };
        int r;

        if (join->settings->allow_existing || join->is_name_own)
                return 0;
        r = nb_node_read(&join->api, join->node_name, &more, &node, f);
        if (keeping.r < 0) {
                *f = keeping.failure;
                return keeping.r;
        }
        if (r < 0)
                return r;
        return node.is_ready ? refuse_name(&node, f) : 0;
}

/*
 * After a 409, the CSR is either from an earlier attempt of this machine, or somebody who saw that
 * request submitted it again after it was deleted: with other usages or as another user it would
 * never be approved, and with another duration the certificate is not the configured one. Returns
 * what differs; NULL: nothing.
 */
static const char *find_difference(const struct nb_join *join, const struct nb_csr *csr) {
        const char *request = csr->request ? csr->request : "";
        int r = nb_pkcs10_verify(request, csr->request_len, join->key, join->node_name);

        if (r < 0)
                return r == -EKEYREJECTED ? "another key"
                       : r == -EPERM      ? "another subject"
                                          : "an invalid request";
        if (!nb_attestation_is_own(&join->request, join->bootstrap->identity.token_id, request,
                                   csr->request_len))
                return "another proof by an enrolled key";
        if (strcmp(csr->signer_name, NB_CSR_SIGNER) != 0)
                return "another signerName";
        if (!csr->has_our_usages)
                return "other usages";
        if (csr->expiration_seconds != join->settings->csr_expiration_seconds)
                return "another expirationSeconds";
        return join->username[0] && strcmp(csr->username, join->username) != 0 ? "another requestor"
                                                                               : NULL;
}

static int replace_found(struct nb_join *join, const struct nb_csr *csr, const char *difference) {
        nb_log(LOG_WARNING, NB_CSR_CONFLICT,
               "the CSR '%s' already exists, with %s (submitted by '%.80s'); submitting one with "
               "a new key",
               join->csr_name, difference, csr->username);
        nb_pending_key_drop(join);
        return NB_REQUEST_AGAIN;
}

/* If there is no further connection, the prover's last failure is the better explanation. It is
 * final. */
static void restore_answer(const struct nb_join *join, struct nb_failure *f) {
        const struct nb_failure refused = *f;

        if (join->proof_failure.code == NB_NONE || f->code != NB_PROVER_UNAVAILABLE ||
            f->is_cut_short)
                return;
        *f = join->proof_failure;
        f->is_temporary = false;
        nb_failure_add(f, "; %s", refused.detail);
}

/* 0; -EPIPE without a failure if the prover has ended. */
static int ask_prover(struct nb_join *join, struct nb_buffer *request, struct nb_failure *f) {
        int r;

        if (join->prover_fd == 0) {
                r = nb_prover_fetch(join->proof_channel, join->deadline_ms, f);
                if (r < 0) {
                        restore_answer(join, f);
                        return r;
                }
                join->prover_fd = r;
        }
        r = nb_prover_ask(join->prover_fd, join->deadline_ms, request, f);
        /* A late answer must not be taken for the answer to the next request. */
        if ((r == -EPIPE && f->code == NB_NONE) || f->code == NB_PROVER_UNAVAILABLE)
                nb_prover_leave(&join->prover_fd);
        else if (r < 0)
                join->proof_failure = *f;
        return r;
}

/* If the prover has ended, asks a new one, as often as install permits. */
static int add_proof(struct nb_join *join, struct nb_buffer *request, struct nb_failure *f) {
        const size_t len = request->len;
        int r;

        nb_log_status("Waiting for the proof by proof.key (%s)", join->settings->proof_key);
        do
                r = ask_prover(join, request, f);
        while (r == -EPIPE && f->code == NB_NONE);
        if (r >= 0 && nb_prover_find_key(request->data + len, NULL, join->proof_key_id) < 0)
                return nb_failure_set(f, NB_INTERNAL, EBADMSG, "the proof names no key");
        return r;
}

/* The request stays the same for as long as its key: each signature of a TPM takes time, and the
 * request must stay the one that the administrator saw. Only the CSR has a proof, since its
 * approver may require one; a supervisor of k3s signs at once. */
static int make_request(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer request = NB_BUFFER_INIT(2 * NB_PKCS10_PEM_MAX);
        int r;

        if (join->request.len > 0)
                return 0;
        r = nb_pkcs10_create(join->key, join->node_name, true, &request);
        if (r >= 0 && join->proof_channel > 0)
                r = add_proof(join, &request, f);
        if (r < 0)
                return f->code != NB_NONE || r == -ECANCELED
                               ? r
                               : nb_failure_set(f, NB_INTERNAL, r, "the CSR cannot be created");
        join->request = TAKE(request);
        return 0;
}

static int submit_csr(struct nb_join *join, struct nb_failure *f) {
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        const char *difference;
        int r;

        r = make_request(join, f);
        if (r < 0)
                return r;
        join->is_key_unused = false;
        r = nb_csr_submit(&join->api, join->csr_name,
                          &(struct nb_csr_request){ join->request.data, join->request.len,
                                                    join->settings->csr_expiration_seconds },
                          &csr, f);
        if (r < 0)
                return r;
        if (strcmp(csr.name, join->csr_name) != 0)
                return nb_failure_set(
                        f, NB_ANSWER_MALFORMED, EBADMSG,
                        "submitting the CSR to %s: expected the CSR '%s' in the answer, found '%s'",
                        join->api.name, join->csr_name, csr.name);
        join->is_csr_found = r == 1;
        difference = join->is_csr_found ? find_difference(join, &csr) : NULL;
        if (difference)
                return replace_found(join, &csr, difference);
        if (!join->is_csr_found)
                NB_TEXT_COPY(join->username, csr.username);
        nb_log_field(NB_FIELD_USER, "%s", csr.username);
        nb_csr_done(&join->csr);
        join->csr = TAKE(csr);
        return 0;
}

int nb_stage_request(struct nb_join *join, struct nb_failure *f) {
        const char *token_id = join->bootstrap->identity.token_id;
        int r;

        if (!join->username[0] && token_id[0])
                snprintf(join->username, sizeof(join->username), "system:bootstrap:%s", token_id);
        r = nb_pending_key_keep(join, f);
        if (r < 0)
                return r;
        r = nb_pkcs10_csr_name(join->key, join->node_name, join->csr_name);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "the name of the CSR cannot be computed");
        nb_log_field(NB_FIELD_CSR, "%s", join->csr_name);
        return submit_csr(join, f);
}
