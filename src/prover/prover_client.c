/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "crypto/attestation.h"
#include "crypto/key.h"
#include "os/descriptors.h"
#include "os/stop.h"
#include "prover/prover.h"

static int fail_prover(int r, const char *what, struct nb_failure *f) {
        return nb_failure_set(f, NB_PROVER_UNAVAILABLE, r, "%s: %m", what);
}

/* By its descriptor, since the path below --root may be too long for an address. */
static int connect_socket(int root_fd) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(nb_closep) int path_fd = nb_path_open(root_fd, NB_PROVER_SOCKET,
                                                        O_PATH | O_NOFOLLOW);
        _cleanup_(nb_closep) int fd = -1;

        if (path_fd < 0)
                return path_fd;
        fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d", path_fd);
        if (TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&address, sizeof(address))) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int nb_prover_connect(int root_fd, struct nb_prover_begin *begin, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = connect_socket(root_fd);

        if (fd < 0)
                return fail_prover(fd, "cannot connect to " NB_PROVER_SOCKET_UNIT, f);
        nb_build_format(begin->build);
        if (TEMP_FAILURE_RETRY(send(fd, begin, sizeof(*begin), MSG_NOSIGNAL)) < 0)
                return fail_prover(errno, "cannot send to " NB_PROVER_SOCKET_UNIT, f);
        return TAKE_FD(fd);
}

void nb_prover_give(int channel, int fd, const struct nb_failure *f) {
        (void)nb_descriptors_send(channel, f, sizeof(*f), &fd, fd < 0 ? 0 : 1, MSG_DONTWAIT);
}

bool nb_prover_has_key(const struct nb_sources *sources) {
        const char *folder = sources->credentials_directory;
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        /* Whatever else is wrong with the directory, nobody has a key from there. */
        return folder && nb_folder_open(folder, &fd) >= 0 &&
               (fstatat(fd, NB_CREDENTIAL_ATTESTATION_KEY_NAME, &st, AT_SYMLINK_NOFOLLOW) >= 0 ||
                errno != ENOENT);
}

int nb_prover_verify_place(const struct nb_sources *sources, struct nb_failure *f) {
        return nb_prover_has_key(sources)
                       ? nb_failure_set(f, NB_ATTESTATION_KEY_MISPLACED, EPERM,
                                        "systemd delivers '" NB_CREDENTIAL_ATTESTATION_KEY_NAME
                                        "' to the service, whose processes use the network")
                       : 0;
}

const char *nb_prover_find_unused(const char *key) {
        const struct nb_store *store = strcmp(key, NB_PROOF_KEY_CREDENTIAL) == 0
                                               ? NULL
                                               : nb_store_find(NB_CREDENTIAL_ATTESTATION_KEY_NAME);

        return store ? store->folder : NULL;
}

/* --- The proof --- */

int nb_prover_make_trial(struct nb_buffer *ret_request, struct nb_failure *f) {
        _cleanup_(nb_key_freep) struct nb_key *key = NULL;
        int r = nb_key_generate(&key);

        if (r >= 0)
                r = nb_pkcs10_create(key, NB_PROVER_TRIAL_NODE, true, ret_request);
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot create a request: %m") : 0;
}

int nb_prover_find_key(const char *proof, struct nb_buffer *ret_key,
                       char ret_id[static NB_PIN_TEXT_SIZE]) {
        _cleanup_(nb_buffer_done) struct nb_buffer key = NB_BUFFER_INIT(NB_ATTESTATION_MAX);
        uint8_t id[NB_SHA256_SIZE];

        if (nb_attestation_find_key(proof, strlen(proof), &key, id) <= 0)
                return -EBADMSG;
        nb_pin_format(id, ret_id);
        if (ret_key)
                nb_buffer_append(ret_key, key.data, key.len);
        return ret_key ? ret_key->error : 0;
}

/* --- In join --- */

/* 0 once there is something to read; -ECANCELED. */
static int await_message(int fd, uint64_t deadline_ms, struct nb_failure *f) {
        struct pollfd polls[] = { { 0 }, { .fd = fd, .events = POLLIN } };
        const uint64_t limit_ms = nb_now_ms() + NB_PROVER_ANSWER_MS;
        const uint64_t end_ms = deadline_ms < limit_ms ? deadline_ms : limit_ms;
        uint64_t now;
        int r = 0;

        while (r >= 0 && !polls[1].revents) {
                now = nb_now_ms();
                if (now >= end_ms) {
                        r = nb_failure_set(f, NB_PROVER_UNAVAILABLE, ETIMEDOUT, "no answer %s",
                                           end_ms == deadline_ms ? "before the deadline"
                                                                 : "within 6 minutes");
                        f->is_cut_short = end_ms == deadline_ms;
                        f->is_temporary = end_ms != deadline_ms;
                        return r;
                }
                r = nb_stop_poll(polls, N_ELEMENTS(polls), end_ms - now);
        }
        return r;
}

int nb_prover_fetch(int channel, uint64_t deadline_ms, struct nb_failure *f) {
        struct nb_failure answer;
        int fd, r;

        if (TEMP_FAILURE_RETRY(send(channel, "", 1, MSG_NOSIGNAL)) < 0)
                return fail_prover(errno, "install does not answer", f);
        r = await_message(channel, deadline_ms, f);
        if (r < 0)
                return r;
        if (nb_descriptors_receive(channel, &answer, sizeof(answer), &fd, 1) != sizeof(answer))
                return fail_prover(ECHILD, "install does not answer", f);
        if (fd >= 0)
                return fd;
        *f = answer;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

int nb_prover_ask(int fd, uint64_t deadline_ms, struct nb_buffer *request, struct nb_failure *f) {
        struct nb_prover_answer answer;
        char build[NB_BUILD_SIZE];
        ssize_t n;
        int r;

        nb_build_format(build);
        if (TEMP_FAILURE_RETRY(send(fd, request->data, request->len, MSG_NOSIGNAL)) < 0)
                return errno == EPIPE || errno == ECONNRESET
                               ? -EPIPE
                               : fail_prover(errno, "cannot ask the prover", f);
        r = await_message(fd, deadline_ms, f);
        if (r < 0)
                return r;
        n = TEMP_FAILURE_RETRY(recv(fd, &answer, sizeof(answer), 0));
        if (n <= 0)
                return -EPIPE;
        if (n != sizeof(answer) || memcmp(answer.build, build, sizeof(build)) != 0)
                return nb_failure_set(f, NB_PROGRAM_REPLACED, 0,
                                      "this program and the prover are not from the same build");
        if (answer.failure.code == NB_NONE) {
                nb_buffer_append_string(request, answer.proof);
                return request->error;
        }
        *f = answer.failure;
        return f->errnum > 0 ? -f->errnum : -EPROTO;
}

void nb_prover_leave(int *fd) {
        if (*fd > 0)
                (void)close(*fd);
        *fd = 0;
}
