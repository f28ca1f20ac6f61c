/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "os/privilege.h"
#include "prover/proof_key.h"
#include "prover/prover.h"
#include "settings/kubelet_unit.h"
#include "systemd/log.h"

#define CONNECTION STDIN_FILENO

struct prover {
        struct nb_prover_begin begin;
        struct nb_sources sources;
        unsigned n_messages, n_proofs;
        bool is_build_same; /* as that of install */
        bool is_shown;      /* the key has been printed */
        enum nb_code logged;
};

/* Nobody can log in at the first boot, so the fingerprint goes to the console. `check` shows it
 * itself. */
static void show_key(struct prover *prover, const char *proof) {
        char id[NB_PIN_TEXT_SIZE];

        if (prover->is_shown || strcmp(prover->begin.node, NB_PROVER_TRIAL_NODE) == 0 ||
            nb_prover_find_key(proof, NULL, id) < 0)
                return;
        fprintf(stderr, "node-bootstrap: the fingerprint of the proof key of node '%s' is %s\n",
                prover->begin.node, id);
        prover->is_shown = true;
}

/* A request that `join` would not make is from an attacker who has taken it over. */
static int prove(struct prover *prover, const char *request, size_t len,
                 struct nb_prover_answer *answer, struct nb_failure *f) {
        const struct nb_prover_begin *begin = &prover->begin;
        _cleanup_(nb_buffer_done) struct nb_buffer pem = NB_BUFFER_INIT(len +
                                                                        sizeof(answer->proof) - 1);
        int r = nb_pkcs10_verify_node(request, len, begin->node);

        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r,
                                      "the prover refuses a request that is not exactly one for "
                                      "node '%s'",
                                      begin->node);
        nb_buffer_append(&pem, request, len);
        r = nb_proof_key_use(begin->key, &prover->sources, begin->token_id, &pem, f);
        if (r < 0)
                return r;
        prover->n_proofs++;
        memcpy(answer->proof, pem.data + len, pem.len - len);
        show_key(prover, answer->proof);
        return 0;
}

/* A TPM counts each use of a key that has a password, and locks itself in the end: `join` must not
 * repeat it. And systemd has decided which devices this instance may open when it started: a driver
 * that has loaded since needs another one. */
static bool needs_new_prover(const struct nb_failure *f) {
        return f->code == NB_TPM_MISSING || (f->code == NB_TPM_ERROR && !f->is_temporary);
}

/* False at the end of the connection. */
static bool serve_request(struct prover *prover) {
        struct nb_prover_answer answer = { 0 };
        char request[NB_PROVER_REQUEST_MAX + 1];
        ssize_t n = TEMP_FAILURE_RETRY(recv(CONNECTION, request, sizeof(request), 0));

        if (n <= 0)
                return false;
        nb_build_format(answer.build);
        /* `join` compares the builds, too. */
        if (prover->is_build_same &&
            prove(prover, request, (size_t)n, &answer, &answer.failure) < 0 &&
            answer.failure.code != prover->logged) {
                prover->logged = answer.failure.code;
                nb_log_failure(LOG_WARNING, &answer.failure);
        }
        /* Else a TPM that is busy for an hour would use up the connections. */
        prover->n_messages += !answer.failure.is_temporary;
        /* Not blocking: a `join` that reads no answer, and has sent its end of the connection over
         * the connection itself, would keep this process forever. */
        return TEMP_FAILURE_RETRY(send(CONNECTION, &answer, sizeof(answer),
                                       MSG_NOSIGNAL | MSG_DONTWAIT)) >= 0 &&
               !needs_new_prover(&answer.failure);
}

static bool is_terminated(const char *text, size_t size) {
        return memchr(text, '\0', size) != NULL;
}

static int receive_begin(struct prover *prover, struct nb_failure *f) {
        struct nb_prover_begin *begin = &prover->begin;
        char build[NB_BUILD_SIZE];
        ssize_t n = TEMP_FAILURE_RETRY(recv(CONNECTION, begin, sizeof(*begin), MSG_TRUNC));

        if (n < 0)
                return nb_failure_set(f, NB_USAGE, errno, "standard input is no connection: %m");
        nb_build_format(build);
        prover->is_build_same = n == sizeof(*begin) && !memcmp(begin->build, build, sizeof(build));
        if (!prover->is_build_same)
                return 0;
        if (!is_terminated(begin->key, sizeof(begin->key)) ||
            !is_terminated(begin->node, sizeof(begin->node)) ||
            !is_terminated(begin->token_id, sizeof(begin->token_id)))
                return nb_failure_set(f, NB_INTERNAL, EBADMSG,
                                      "install has sent an invalid message");
        nb_log_field(NB_FIELD_NODE, "%s", begin->node);
        return 0;
}

int nb_command_prover(struct nb_options *options, struct nb_failure *f) {
        struct prover prover = { .n_messages = 1 }; /* `begin` */
        const struct nb_option rows[] = { { NULL } };
        int r = nb_options_read(options, rows, f);

        if (r < 0)
                return r;
        nb_log_object_unit(NB_SERVICE_UNIT);
        nb_sources_init(&prover.sources, NULL);
        /* It runs as root, to open the TPM. */
        r = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : nb_privilege_forbid_writing();
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "cannot restrict the prover: %m");
        r = receive_begin(&prover, f);
        if (r < 0)
                return r;
        if (strcmp(prover.begin.key, NB_PROOF_KEY_CREDENTIAL) != 0 &&
            nb_prover_has_key(&prover.sources))
                nb_log(LOG_WARNING, NB_ATTESTATION_KEY_UNUSED, NB_PROVER_UNUSED_FORMAT,
                       prover.sources.credentials_directory);
        r = nb_proof_key_prepare(prover.begin.key, &prover.sources, f);
        if (r < 0)
                return r;
        while (prover.n_messages < NB_PROVER_MESSAGES_MAX &&
               prover.n_proofs < NB_PROVER_PROOFS_MAX && serve_request(&prover))
                ;
        nb_sources_done(&prover.sources);
        return 0;
}
