/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/encoding.h"
#include "case.h"
#include "os/clock.h"
#include "recorded.h"
#include "tpm/tpm.h"

#define MESSAGE "hello"
#define ANSWER_MAX 5000
#define ANSWERS_MAX 24
#define OUTPUT_MAX 1024
#define LONG_MS 60000

#define DIGEST "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define BYTES_40 "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
#define TIMES_10(text) text text text text text text text text text text
#define BYTES_4000 TIMES_10(TIMES_10(BYTES_40))
/* To ReadPublic, with a public area of 30 bytes. */
#define PUBLIC_OF(area) "80010000002a00000000001e" area
#define UNUSABLE \
        "the key in the TPM is unusable; expected one that was created in this TPM, cannot leave " \
        "it, and signs with SHA-256, by ECDSA with P-256 or by RSASSA"
#define WITH_CODE(code) "80010000000a00000" code
#define AGAIN WITH_CODE("922")
#define TESTING WITH_CODE("90a")

struct row {
        const char *name;
        const char *answers[ANSWERS_MAX]; /* the connection ends after them */
        const char *commands, *spki, *signature;
        const char *detail; /* NULL: success */
        uint32_t key;
        bool is_temporary;
        bool is_silent;   /* after the answers, instead */
        bool is_in_parts; /* each answer */
        bool is_interrupted;
        bool is_cut; /* each command */
        int write_error;
        uint64_t answer_ms; /* what the TPM takes for each answer */
};

static struct row rows[] = {
        { .name = "a message is signed by the default key, which is then flushed",
          .answers = { CREATED, HASHED, SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "a message is signed by a persistent key, which stays",
          .key = 0x81000003,
          .answers = { PUBLIC, HASHED, PERSISTENT_SIGNED },
          .commands = READ_PUBLIC HASH PERSISTENT_SIGN,
          .spki = PERSISTENT_SPKI,
          .signature = PERSISTENT_SIGNATURE },
        { .name = "a message is signed by an RSA key of a template",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC, NV_DATA, NV_CREATED, HASHED, RSA_SIGNED, FLUSHED },
          .commands = NV_READ_PUBLIC NV_READ NV_CREATE HASH RSA_SIGN FLUSH,
          .spki = RSA_SPKI,
          .signature = RSA_SIGNATURE },
        { .name = "a command is repeated if the TPM asks for it",
          .answers = { TESTING, AGAIN, CREATED, HASHED, AGAIN, SIGNED, FLUSHED },
          .commands = CREATE CREATE CREATE HASH SIGN SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "a command is repeated 3 times at most",
          .answers = { AGAIN, TESTING, TESTING, AGAIN, CREATED },
          .commands = CREATE CREATE CREATE CREATE,
          .is_temporary = true,
          .detail = "the TPM answered CreatePrimary with 0x922" },
        { .name = "a lockout is a failure with its code",
          .answers = { CREATED, HASHED, WITH_CODE("921") },
          .commands = CREATE HASH SIGN,
          .detail = "the TPM answered Sign with 0x921" },
        { .name = "a warning that is not known is a failure with its code",
          .answers = { WITH_CODE("907") },
          .commands = CREATE,
          .detail = "the TPM answered CreatePrimary with 0x907" },
        { .name = "an error with the number of a warning is a failure",
          .answers = { WITH_CODE("102") },
          .commands = CREATE,
          .detail = "the TPM answered CreatePrimary with 0x102" },
        { .name = "an answer without what was asked for is refused",
          .answers = { CREATED, "80010000000a00000000" },
          .commands = CREATE HASH,
          .detail = "the TPM's answer to Hash is malformed" },
        { .name = "a password of the hierarchy is a failure with its code",
          .answers = { WITH_CODE("9a2") },
          .commands = CREATE,
          .detail = "the TPM answered CreatePrimary with 0x9a2" },
        { .name = "silence ends at the deadline",
          .is_silent = true,
          .is_temporary = true,
          .commands = CREATE,
          .detail = "the TPM did not carry out CreatePrimary: Connection timed out" },
        { .name = "silence after the half of an answer ends at the deadline",
          .answers = { "800200000082000000" },
          .is_silent = true,
          .is_temporary = true,
          .detail = "the TPM did not carry out CreatePrimary: Connection timed out" },
        { .name = "the end of the connection is temporary",
          .is_temporary = true,
          .commands = CREATE,
          .detail = "the TPM did not carry out CreatePrimary: Input/output error" },
        { .name = "an answer that arrives in parts is put together",
          .is_in_parts = true,
          .answers = { CREATED, HASHED, SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "the deadline is checked before each command",
          .answers = { CREATED, HASHED, SIGNED, FLUSHED },
          .answer_ms = LONG_MS,
          .commands = CREATE,
          .is_temporary = true,
          .detail = "the TPM did not carry out Hash: Connection timed out" },
        { .name = "the deadline is checked before a command is repeated",
          .answers = { AGAIN, CREATED, HASHED, SIGNED, FLUSHED },
          .answer_ms = LONG_MS,
          .commands = CREATE,
          .is_temporary = true,
          .detail = "the TPM did not carry out CreatePrimary: Connection timed out" },
        { .name = "interrupted calls are repeated",
          .is_interrupted = true,
          .answers = { CREATED, HASHED, SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "a command that is written in part is temporary",
          .is_cut = true,
          .answers = { CREATED },
          .is_temporary = true,
          .detail = "the TPM did not carry out CreatePrimary: Input/output error" },
        { .name = "a driver that is busy is temporary",
          .write_error = EBUSY,
          .is_temporary = true,
          .detail = "the TPM did not carry out CreatePrimary: Device or resource busy" },
        { .name = "a driver without a place for a key is temporary",
          .write_error = ENOMEM,
          .is_temporary = true,
          .detail = "the TPM did not carry out CreatePrimary: Device or resource busy" },
        { .name = "a command that is too long for the driver is final",
          .write_error = E2BIG,
          .detail = "the TPM did not carry out CreatePrimary: Argument list too long" },
        { .name = "a command that the driver refuses is final",
          .write_error = EINVAL,
          .detail = "the TPM did not carry out CreatePrimary: Invalid argument" },
        { .name = "an answer larger than any is refused, not awaited",
          .answers = { "80020000100100000000" },
          .is_silent = true,
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "an NV index larger than any answer is refused, not awaited",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC, "80020000200000000000000000001ff0" BYTES_4000 },
          .is_silent = true,
          .detail = "the TPM's answer to NV_Read is malformed" },
        { .name = "an answer with more than it says is refused",
          .answers = { "80010000000a00000922ff" },
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "an answer that says it is shorter than its header is refused",
          .answers = { "80010000000900000922" },
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "an answer with another tag is refused",
          .answers = { "80010000000e0000000080000000" },
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "a template that fits no command is refused",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC, "80020000100000000000"
                                  "00000ff20ff0" BYTES_4000 BYTES_40 BYTES_40 },
          .commands = NV_READ_PUBLIC NV_READ,
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "a template of 1024 bytes is read",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC_WITH("0400"), NV_DATA, NV_CREATED, HASHED, RSA_SIGNED, FLUSHED },
          .spki = RSA_SPKI,
          .signature = RSA_SIGNATURE },
        { .name = "a template above 1024 bytes is refused",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC_WITH("0401"), NV_DATA, NV_CREATED, HASHED, RSA_SIGNED, FLUSHED },
          .commands = NV_READ_PUBLIC,
          .detail = "the NV index has more than 1024 bytes; expected the template of a key" },
        { .name = "a length in an answer beyond its end is refused",
          .key = 0x01c10001,
          .answers = { NV_PUBLIC, "800200000012000000000000000401180001" },
          .commands = NV_READ_PUBLIC NV_READ,
          .detail = "the TPM's answer to NV_Read is malformed" },
        { .name = "a ticket that fits no command is refused",
          .answers = { CREATED,
                       "80010000100000000000"
                       "0020" DIGEST BYTES_4000 BYTES_40 "000000000000000000000000",
                       FLUSHED },
          .commands = CREATE HASH,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "a signature of another scheme is refused",
          .answers = { CREATED, HASHED, RSA_SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "a signature without numbers is refused",
          .answers = { CREATED, HASHED,
                       "800200000016000000000000000"
                       "80018000b00000000",
                       FLUSHED },
          .commands = CREATE HASH SIGN,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "numbers with leading zeros are encoded in the shortest form",
          .answers = { CREATED_WITH("00"), HASHED, SIGNED_ZEROS, FLUSHED },
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "a signature by another key is refused",
          .answers = { CREATED, HASHED, PERSISTENT_SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN,
          .detail = "the TPM's signature does not verify" },
        { .name = "a key that was imported is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_WITH("0058", "00060040"), HASHED, PERSISTENT_SIGNED },
          .commands = READ_PUBLIC,
          .detail = UNUSABLE },
        { .name = "a key that was created elsewhere is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_WITH("0058", "00040040"), HASHED, PERSISTENT_SIGNED },
          .commands = READ_PUBLIC,
          .detail = UNUSABLE },
        { .name = "a key that decrypts, too, is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_WITH("0058", "00060472"), HASHED, PERSISTENT_SIGNED },
          .commands = READ_PUBLIC,
          .detail = UNUSABLE },
        { .name = "a public key with another size than it says is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_WITH("0057", "00050072"), HASHED, PERSISTENT_SIGNED },
          .commands = READ_PUBLIC,
          .detail = "the TPM's answer to ReadPublic is malformed" },
        { .name = "a coordinate that is too long is refused",
          .answers = { CREATED_WITH("ff"), HASHED, SIGNED, FLUSHED },
          .commands = CREATE,
          .detail = "the TPM's answer to CreatePrimary is malformed" },
        { .name = "a key for encryption is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0001000b00030072000000060080004300100800000000000004ffffffff") },
          .commands = READ_PUBLIC,
          .detail = UNUSABLE },
        { .name = "a key for HMAC is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0008000b0004047200000005000b0020ffffffffffffffffffffffffffff") },
          .detail = UNUSABLE },
        { .name = "a key for another hash is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0023000b00050072000000100018000c000300100004ffffffff0004ffff") },
          .detail = UNUSABLE },
        { .name = "a key for another scheme is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0001000b00050072000000100016000b0800000000000008ffffffffffff") },
          .detail = UNUSABLE },
        { .name = "a key on another curve is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0023000b00050072000000100018000b000400100004ffffffff0004ffff") },
          .detail = UNUSABLE },
        { .name = "a public key without numbers is refused",
          .key = 0x81000003,
          .answers = { PUBLIC_OF("0023000b00050072000000100018000b0003001000000000000000000000") },
          .detail = "the TPM's answer to ReadPublic is malformed" },
};

/* --- The system, by the linker's --wrap --- */

static uint64_t now_ms; /* in place of the time */
static const struct row *current;
static unsigned n_interrupts;
static int open_error; /* 0: none */

int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
int __wrap_poll(struct pollfd *polls, nfds_t n, int timeout_ms);
int __real_poll(struct pollfd *polls, nfds_t n, int timeout_ms);
ssize_t __wrap_read(int fd, void *data, size_t len);
ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
ssize_t __real_write(int fd, const void *data, size_t len);
uint64_t __wrap_nb_now_ms(void);

/* Each second call fails. */
static bool interrupt(void) {
        errno = EINTR;
        return current && current->is_interrupted && n_interrupts++ % 2 == 0;
}

static int open_device(const char *path, int flags) {
        if (interrupt())
                return -1;
        errno = open_error;
        return open_error ? -1 : __real_open(path, flags);
}

int __wrap_open(const char *path, int flags, ...) {
        return open_device(path, flags);
}

int __wrap_open64(const char *path, int flags, ...) {
        return open_device(path, flags);
}

int __wrap_poll(struct pollfd *polls, nfds_t n, int timeout_ms) {
        return interrupt() ? -1 : __real_poll(polls, n, timeout_ms);
}

ssize_t __wrap_read(int fd, void *data, size_t len) {
        if (interrupt())
                return -1;
        if (current)
                now_ms += current->answer_ms;
        return __real_read(fd, data, len);
}

ssize_t __wrap_write(int fd, const void *data, size_t len) {
        if (interrupt())
                return -1;
        if (current && current->write_error) {
                errno = current->write_error;
                return -1;
        }
        return __real_write(fd, data, current && current->is_cut ? len - 1 : len);
}

uint64_t __wrap_nb_now_ms(void) {
        return now_ms;
}

/* --- The TPM: all answers are there before the first command --- */

static void send_hex(int fd, const char *hex, bool is_in_parts) {
        size_t len = strlen(hex) / 2, first = is_in_parts ? len / 2 < 7 ? len / 2 : 7 : len;
        uint8_t data[ANSWER_MAX];

        assert_true(len <= sizeof(data));
        assert_int_equal(nb_hex_decode(hex, strlen(hex), data, len), 0);
        assert_int_equal(send(fd, data, first, 0), first);
        if (first < len)
                assert_int_equal(send(fd, data + first, len - first, 0), len - first);
}

struct result {
        struct nb_failure f;
        int r;
        char spki[2 * OUTPUT_MAX + 1], signature[2 * OUTPUT_MAX + 1], commands[16384];
};

static void start(int fds[2]) {
        /* Each packet is what one read() returns. */
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
}

static void finish(int fds[2], uint32_t key, uint64_t deadline_ms, struct result *ret) {
        struct nb_buffer spki = NB_BUFFER_INIT(OUTPUT_MAX), signature = NB_BUFFER_INIT(OUTPUT_MAX);
        const struct nb_tpm tpm = { .key = key, .deadline_ms = deadline_ms };
        uint8_t command[ANSWER_MAX];
        ssize_t n;

        *ret = (struct result){ 0 };
        ret->r = nb_tpm_sign_open(fds[0], &tpm, MESSAGE, strlen(MESSAGE), &spki, &signature,
                                  &ret->f);
        nb_hex_encode((const uint8_t *)spki.data, spki.len, ret->spki);
        nb_hex_encode((const uint8_t *)signature.data, signature.len, ret->signature);
        while ((n = recv(fds[1], command, sizeof(command), MSG_DONTWAIT)) > 0)
                nb_hex_encode(command, (size_t)n, ret->commands + strlen(ret->commands));
        nb_buffer_done(&spki);
        nb_buffer_done(&signature);
        nb_closep(&fds[0]);
        nb_closep(&fds[1]);
}

static void check_row(void **state) {
        const struct row *row = *state;
        struct result result;
        int fds[2];

        current = row;
        now_ms = 0;
        n_interrupts = 0;
        start(fds);
        for (size_t i = 0; i < ANSWERS_MAX && row->answers[i]; i++)
                send_hex(fds[1], row->answers[i], row->is_in_parts);
        if (!row->is_silent)
                assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
        finish(fds, row->key, row->is_silent && row->is_temporary ? 1 : LONG_MS, &result);
        current = NULL;
        if (row->detail) {
                assert_true(result.r < 0);
                assert_string_equal(result.f.detail, row->detail);
                assert_int_equal(result.f.code, NB_TPM_ERROR);
                assert_int_equal(nb_failure_class(&result.f),
                                 row->is_temporary ? NB_CLASS_WAIT : NB_CLASS_FATAL);
        } else {
                assert_string_equal(result.f.detail, "");
                assert_int_equal(result.r, 0);
                assert_string_equal(result.spki, row->spki);
                assert_string_equal(result.signature, row->signature);
        }
        if (row->commands)
                assert_string_equal(result.commands, row->commands);
}

/* Each answer of a session, cut at each byte, with the size that it then has. */
static void a_cut_answer_is_refused(void **state) {
        static const char *const answers[] = { NV_PUBLIC, NV_DATA,    NV_CREATED,
                                               HASHED,    RSA_SIGNED, FLUSHED };

        for (size_t i = 0; i < N_ELEMENTS(answers); i++)
                for (size_t len = 1; len < strlen(answers[i]) / 2; len++) {
                        char cut[2 * ANSWER_MAX];
                        struct result result;
                        int fds[2];

                        start(fds);
                        for (size_t j = 0; j < N_ELEMENTS(answers); j++)
                                if (j != i)
                                        send_hex(fds[1], answers[j], false);
                                else {
                                        (void)snprintf(cut, sizeof(cut), "%.4s%08zx%s", answers[i],
                                                       len, answers[i] + 12);
                                        cut[2 * len] = '\0';
                                        send_hex(fds[1], cut, false);
                                }
                        assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
                        finish(fds, 0x01c10001, LONG_MS, &result);
                        if (result.r >= 0) {
                                assert_string_equal(result.spki, RSA_SPKI);
                                assert_string_equal(result.signature, RSA_SIGNATURE);
                        } else
                                assert_int_equal(result.f.code, NB_TPM_ERROR);
                }
}

static void a_warning_that_may_end_is_temporary(void **state) {
        static const char *const codes[] = { "902", "903", "904", "906", "908",
                                             "909", "90a", "920", "922", "923" };

        for (size_t i = 0; i < N_ELEMENTS(codes); i++) {
                char answer[32], detail[64];
                struct row row = { .commands = CREATE CREATE CREATE CREATE,
                                   .is_temporary = true,
                                   .detail = detail };
                void *this = &row;

                (void)snprintf(answer, sizeof(answer), WITH_CODE("%s"), codes[i]);
                (void)snprintf(detail, sizeof(detail), "the TPM answered CreatePrimary with 0x%s",
                               codes[i]);
                for (size_t j = 0; j < 4; j++)
                        row.answers[j] = answer;
                check_row(&this);
        }
}

/* --- The device --- */

static void check_open(const char *device, const char *version, enum nb_code code,
                       enum nb_class class) {
        struct nb_buffer spki = NB_BUFFER_INIT(OUTPUT_MAX);
        const struct nb_tpm tpm = { .device = device, .version_file = version };
        struct nb_failure f = { 0 };

        assert_true(nb_tpm_sign(&tpm, NULL, 0, &spki, NULL, &f) < 0);
        assert_int_equal(f.code, code);
        assert_int_equal(nb_failure_class(&f), class);
        nb_buffer_done(&spki);
}

static void a_missing_device_may_appear(void **state) {
        check_open("/dev/node-bootstrap-missing", "/dev/node-bootstrap-missing", NB_TPM_MISSING,
                   NB_CLASS_CONFIRM);
}

static void an_interrupted_open_is_repeated(void **state) {
        current = &(const struct row){ .is_interrupted = true };
        n_interrupts = 0;
        a_missing_device_may_appear(NULL);
        assert_true(n_interrupts > 1);
        current = NULL;
}

/* The device cgroup of a process that started before the driver. */
static void a_device_that_is_not_permitted_is_late(void **state) {
        open_error = EPERM;
        check_open("/dev/null", "/dev/node-bootstrap-missing", NB_TPM_MISSING, NB_CLASS_CONFIRM);
        open_error = 0;
}

/* With pages of 64 KiB, its file in sysfs has that size. */
static void a_tpm_1_2_is_final(void **state) {
        char path[] = "/tmp/node-bootstrap-test-XXXXXX";
        int fd = mkstemp(path);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "1\n", 2), 2);
        assert_int_equal(ftruncate(fd, 65536), 0);
        check_open("/dev/node-bootstrap-missing", path, NB_TPM_ERROR, NB_CLASS_FATAL);
        (void)close(fd);
        assert_int_equal(unlink(path), 0);
}

static void another_failure_to_open_is_final(void **state) {
        check_open("/dev", "/dev/node-bootstrap-missing", NB_TPM_ERROR, NB_CLASS_FATAL);
        check_open("/dev/null/tpm", "/dev/node-bootstrap-missing", NB_TPM_ERROR, NB_CLASS_FATAL);
        open_error = EACCES;
        check_open("/dev/null", "/dev/node-bootstrap-missing", NB_TPM_ERROR, NB_CLASS_FATAL);
        open_error = 0;
}

int main(void) {
        CASES(rows, check_row);
        CASE(a_cut_answer_is_refused);
        CASE(a_warning_that_may_end_is_temporary);
        CASE(a_missing_device_may_appear);
        CASE(an_interrupted_open_is_repeated);
        CASE(a_device_that_is_not_permitted_is_late);
        CASE(a_tpm_1_2_is_final);
        CASE(another_failure_to_open_is_final);
        return case_run("tpm");
}
