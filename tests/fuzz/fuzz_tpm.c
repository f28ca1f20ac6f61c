/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/socket.h>

#include "crypto/raw_key.h"
#include "fuzz.h"
#include "tpm/tpm.h"

#define OUTPUT_MAX 1024

#define MESSAGE "hello"

/* The first byte selects the key; then come answers, each with its length in two bytes. */
void fuzz_one(const char *data, size_t len) {
        static const uint32_t keys[] = { NB_TPM_KEY_DEFAULT, 0x81000003, 0x01c10001 };
        struct nb_buffer spki = NB_BUFFER_INIT(OUTPUT_MAX), signature = NB_BUFFER_INIT(OUTPUT_MAX);
        struct nb_tpm tpm = { .deadline_ms = UINT64_MAX };
        const struct nb_number message = { (const uint8_t *)MESSAGE, strlen(MESSAGE) };
        struct nb_failure f = { 0 };
        int fds[2], r;

        if (len < 1)
                return;
        tpm.key = keys[(uint8_t)data[0] % N_ELEMENTS(keys)];
        FUZZ_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
        for (size_t at = 1; len - at >= 2;) {
                size_t size = (size_t)(uint8_t)data[at] << 8 | (uint8_t)data[at + 1];

                at += 2;
                if (size > len - at)
                        size = len - at;
                if (send(fds[1], data + at, size, MSG_NOSIGNAL) < 0)
                        break;
                at += size;
        }
        FUZZ_CHECK(shutdown(fds[1], SHUT_WR) == 0);
        r = nb_tpm_sign_open(fds[0], &tpm, message.data, message.len, &spki, &signature, &f);
        FUZZ_CHECK_FAILURE(f, r);
        FUZZ_CHECK(r == 0 ? nb_raw_signature_verify(&spki, message, &signature) == 0
                          : f.code == NB_TPM_ERROR);
        nb_buffer_done(&spki);
        nb_buffer_done(&signature);
        nb_closep(&fds[0]);
        nb_closep(&fds[1]);
}
