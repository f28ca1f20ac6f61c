/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "install/answer.h"
#include "os/clock.h"
#include "prover/prover.h"
#include "state_files/found_metadata.h"

void nb_answer_status(void *userdata) {
        struct nb_install *install = userdata;
        struct nb_failure ignored = { 0 };
        char host[HOST_NAME_MAX + 1];

        if (!install->name[0] && nb_sources_host_name(host, &ignored) >= 0 &&
            nb_host_name_is_set(install->own.root_fd, host))
                (void)nb_node_name_parse(host, strlen(host), install->name);
}

int nb_answer_found(void *userdata, int channel) {
        struct nb_install *install = userdata;
        _cleanup_(nb_found_done) struct nb_found found = NB_FOUND_INIT;
        struct nb_failure f = { 0 };
        int r = nb_found_receive(channel, &found);

        if (r == -EBADMSG)
                (void)nb_failure_set(&f, NB_HANDOFF_MALFORMED, r,
                                     "the process that reads metadata has sent an invalid "
                                     "message");
        else if (r == -ENOMEM)
                (void)nb_failure_set_memory(&f);
        else if (r <= 0)
                return 0;
        else if (nb_context_settle(&install->own, &found, &install->settled, &f) >= 0)
                install->context = &install->settled;
        else
                nb_context_done(&install->settled);
        nb_found_answer(channel, &f);
        return install->context == &install->settled;
}

#define PROMPT_CONNECTIONS 2 /* the first one, and one in place of a prover that was killed */
#define CONNECTION_PAUSE_MS 8000

/* Limits what a hostile `join` can have signed. */
static int connect_prover(struct nb_install *install, struct nb_failure *f) {
        const struct nb_context *context = install->context;
        const struct nb_settings *settings = &context->settings;
        struct nb_prover_begin begin = { .build = "" };

        if (install->n_connections == NB_PROVER_CONNECTIONS_MAX)
                return nb_failure_set(f, NB_PROVER_UNAVAILABLE, 0, "the prover has ended %d times",
                                      NB_PROVER_CONNECTIONS_MAX);
        nb_answer_status(install);
        NB_TEXT_COPY(begin.key, settings->proof_key);
        NB_TEXT_COPY(begin.node, settings->node_name[0] ? settings->node_name : install->name);
        NB_TEXT_COPY(begin.token_id, context->bootstrap.identity.token_id);
        return nb_prover_connect(context->root_fd, &begin, f);
}

int nb_answer_proof(void *userdata, int channel) {
        struct nb_install *install = userdata;
        _cleanup_(nb_closep) int fd = -1;
        struct nb_failure f = { 0 };
        const uint64_t now = nb_now_ms();
        char byte;

        /* The driver of a TPM may load late: the connections last about as long as a join
         * retries. */
        if (install->n_connections < NB_PROVER_CONNECTIONS_MAX && now < install->connection_due_ms)
                return 0;
        if (TEMP_FAILURE_RETRY(recv(channel, &byte, 1, MSG_DONTWAIT)) <= 0)
                return 0;
        fd = connect_prover(install, &f);
        install->n_connections += fd >= 0;
        if (install->n_connections >= PROMPT_CONNECTIONS)
                install->connection_due_ms = now + CONNECTION_PAUSE_MS;
        nb_prover_give(channel, fd, &f);
        return 0;
}
