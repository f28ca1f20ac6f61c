/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The prover: the only process that has the key that was enrolled for this machine. It has no
 * network. systemd starts it for each connection to NB_PROVER_SOCKET, which only root can open.
 * The connection (SOCK_SEQPACKET) is its standard input:
 *
 *      install     connects and sends a struct nb_prover_begin, which names the key, and the only
 *                  node and token for which this prover signs. It passes the connection to `join`.
 *      join        sends certificate requests in PEM, each at most NB_PROVER_REQUEST_MAX bytes.
 *      the prover  answers each with a struct nb_prover_answer: the blocks of crypto/attestation.h
 *                  that prove it, or a failure. It writes the text that it signs itself.
 *
 * `join` may be hostile. The prover ends after NB_PROVER_MESSAGES_MAX messages, refused ones
 * included, but not valid requests while the key is busy, or NB_PROVER_PROOFS_MAX signatures;
 * install makes NB_PROVER_CONNECTIONS_MAX connections, all but two after a pause. The prover also
 * ends after a failure of the TPM for which another instance is needed, or that must not be
 * repeated. Each side verifies that the other one is from the same build.
 */

#include "base/failure.h"
#include "crypto/pkcs10.h"
#include "kube_objects/node_name.h"
#include "kube_objects/pin.h"
#include "kube_objects/token.h"
#include "os/clock.h"
#include "os/options.h"
#include "os/sources.h"
#include "prover/proof_key.h"
#include "settings/types.h"

#define NB_PROVER_SOCKET_UNIT "node-bootstrap-prover.socket"
#define NB_PROVER_SOCKET "/run/node-bootstrap-prover.socket"
#define NB_PROVER_MESSAGES_MAX 64
#define NB_PROVER_PROOFS_MAX 16
#define NB_PROVER_CONNECTIONS_MAX 5
#define NB_PROVER_REQUEST_MAX NB_PKCS10_PEM_MAX
/* Of an answer: after this time, a prover that hangs is abandoned. */
#define NB_PROVER_ANSWER_MS (NB_PROOF_KEY_TPM_MS + 60000)

struct nb_prover_begin {
        char build[NB_BUILD_SIZE];
        char key[NB_SETTINGS_PROOF_KEY_SIZE]; /* the setting proof.key */
        char node[NB_NODE_NAME_MAX + 1];
        char token_id[NB_TOKEN_ID_LEN + 1]; /* "": another credential than a bootstrap token */
};

struct nb_prover_answer {
        char build[NB_BUILD_SIZE];
        struct nb_failure failure;
        char proof[NB_PKCS10_PEM_MAX]; /* to be appended to the request; "" with a failure */
};

/* --- In install, and in `check` --- */

/* Connects, and sends `begin` with the build. Does not wait for the prover. Returns a descriptor;
 * NB_PROVER_UNAVAILABLE. `root_fd`: of --root, or -1. */
int nb_prover_connect(int root_fd, struct nb_prover_begin *begin, struct nb_failure *f);

/* Answers `join`, which has asked for a connection, with one (-1: none), or with a failure. */
void nb_prover_give(int channel, int fd, const struct nb_failure *f);

/* Appends a request for which a proof can be tried: its key is thrown away, and no node has its
 * name, NB_PROVER_TRIAL_NODE. 0, NB_INTERNAL. */
#define NB_PROVER_TRIAL_NODE "node-bootstrap-check"
int nb_prover_make_trial(struct nb_buffer *ret_request, struct nb_failure *f);

/* The key in a proof, as `sha256:...`, and, unless NULL, appended as PEM. 0; -EBADMSG if the proof
 * has none. */
int nb_prover_find_key(const char *proof, struct nb_buffer *ret_key,
                       char ret_id[static NB_PIN_TEXT_SIZE]);

/* A key that systemd delivers to the service is readable for every process that uses the network.
 * NB_ATTESTATION_KEY_MISPLACED. */
int nb_prover_verify_place(const struct nb_sources *sources, struct nb_failure *f);

/* Whether systemd delivers the key to this process. */
bool nb_prover_has_key(const struct nb_sources *sources);

/* The store of a key that the setting proof.key (""; unset) does not name; NULL: there is none. */
const char *nb_prover_find_unused(const char *key);
#define NB_PROVER_UNUSED_FORMAT \
        "the key '" NB_CREDENTIAL_ATTESTATION_KEY_NAME \
        "' in %s is not used: proof.key is not '" NB_PROOF_KEY_CREDENTIAL "'"

/* --- In join, and in `check` --- */

#define NB_PROVER_CHANNEL_FD 5 /* of `join`, to install, if proof.key is set */

/* Asks install for a connection, and waits for it. Returns a descriptor; -ECANCELED if a stop was
 * requested; NB_PROVER_UNAVAILABLE, or the failure that install has answered. */
int nb_prover_fetch(int channel, uint64_t deadline_ms, struct nb_failure *f);

/* Sends a request, and appends the proof to it that is answered until the deadline (nb_now_ms()),
 * within NB_PROVER_ANSWER_MS. 0; -EPIPE without a failure if the prover has ended; -ECANCELED;
 * NB_PROGRAM_REPLACED, or the failure in the answer. After NB_PROVER_UNAVAILABLE, which is
 * temporary if there was no answer in time, the connection has to be left. */
int nb_prover_ask(int fd, uint64_t deadline_ms, struct nb_buffer *request, struct nb_failure *f);

/* Ends a connection, if there is one; 0: none. */
void nb_prover_leave(int *fd);

/* --- The command --- */

/* Run by node-bootstrap-prover@.service. */
int nb_command_prover(struct nb_options *options, struct nb_failure *f);
