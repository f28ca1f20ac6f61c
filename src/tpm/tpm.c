/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "crypto/raw_key.h"
#include "os/clock.h"
#include "tpm/tpm.h"

#define HEADER 10 /* tag, size, code */
#define SIZE_AT 2
#define DATA_MAX 4096     /* of a command or an answer: TPM_BUFSIZE in drivers/char/tpm */
#define TEMPLATE_MAX 1024 /* each TPM returns that many bytes of an NV index at once */
#define VERSION_MAX 65536 /* the size of a file in sysfs: a page */
/* The kernel has repeated the command already, for 4 s. */
#define REPEATS_MAX 3

#define DEFAULT_EXPONENT 65537

/* Values of part 2, by its types: TPM_CC; TPM_ALG_ID and TPM_ECC_CURVE; TPM_ST; TPM_RH;
 * TPMA_OBJECT. */
enum {
        CREATE_PRIMARY = 0x131,
        NV_READ = 0x14e,
        SIGN = 0x15d,
        FLUSH_CONTEXT = 0x165,
        NV_READ_PUBLIC = 0x169,
        READ_PUBLIC = 0x173,
        HASH = 0x17d,
};
enum { RSA = 0x1, SHA256 = 0xb, NONE = 0x10, RSASSA = 0x14, ECDSA = 0x18, ECC = 0x23, P256 = 0x3 };
enum { NO_SESSIONS = 0x8001, SESSIONS = 0x8002 };
enum { OWNER = 0x40000001, ENDORSEMENT = 0x4000000b };
/* A key that is or was outside the TPM proves nothing. fixedTPM, fixedParent, sensitiveDataOrigin
 * and sign have to be set, decrypt not. */
enum { ATTRIBUTES = 0x60032, ATTRIBUTES_SET = 0x40032 };

/* Each enrolled key of a TPM depends on these bytes (TPMT_PUBLIC). */
static const char default_template[] =
        "\x00\x23\x00\x0b" /* ECC; names by SHA-256 */
        "\x00\x04\x04\x72" /* fixedTPM, fixedParent, sensitiveDataOrigin, userWithAuth, noDA,
                              sign */
        "\x00\x00"         /* no policy */
        "\x00\x10"         /* no symmetric algorithm */
        "\x00\x18\x00\x0b" /* ECDSA with SHA-256 */
        "\x00\x03\x00\x10" /* P-256; no key derivation */
        "\x00\x20"         /* unique.x: SHA-256 of "node-bootstrap attestation" */
        "\x58\x39\x83\x72\x54\xca\xa9\x2f\x54\x54\x2a\xa2\x57\xfb\x1a\x62"
        "\x29\x9b\xd9\x23\x5b\x4c\xb1\xce\x6a\x4c\xc3\x72\xe8\x47\xd6\xe4"
        "\x00\x00"; /* unique.y */

/* A command and its answer. After the first failure, the functions below do nothing. */
struct call {
        int fd;
        uint64_t deadline_ms;
        struct nb_failure *f;
        int error;        /* 0, or the result of nb_failure_set() */
        const char *name; /* of the command */
        uint8_t command[DATA_MAX], answer[DATA_MAX];
        size_t command_len, answer_len;
        size_t at;       /* up to which the answer was read */
        uint32_t handle; /* of the key; 0: none */
        uint32_t scheme; /* of its signatures */
};

/* `r`: of a function that encodes what is in the answer. */
static void check_answer(struct call *c, int r) {
        if (c->error >= 0 && r < 0)
                c->error = nb_failure_set(c->f, NB_TPM_ERROR, r,
                                          "the TPM's answer to %s is malformed", c->name);
}

static void expect(struct call *c, bool is_met) {
        check_answer(c, is_met ? 0 : -EBADMSG);
}

static void refuse(struct call *c, int r, const char *why) {
        if (c->error >= 0 && r < 0)
                c->error = nb_failure_set(c->f, NB_TPM_ERROR, r, "%s", why);
}

/* ENOMEM: the driver has no place for another key. E2BIG and EINVAL concern the command itself;
 * after any other error, opening the device again may help. */
static void fail_io(struct call *c, int r) {
        c->error = nb_failure_set(c->f, NB_TPM_ERROR, r == -ENOMEM ? -EBUSY : r,
                                  "the TPM did not carry out %s: %m", c->name);
        c->f->is_temporary = r != -E2BIG && r != -EINVAL;
}

/* --- Building a command --- */

/* Only what comes from an answer can be too long: a template, a ticket. */
static void put_raw(struct call *c, const void *data, size_t len) {
        expect(c, len <= sizeof(c->command) - c->command_len);
        if (c->error < 0)
                return;
        memcpy(c->command + c->command_len, data, len);
        c->command_len += len;
}

static void put(struct call *c, uint32_t value, size_t size) {
        value = htobe32(value << (8 * (sizeof(value) - size)));
        put_raw(c, &value, size);
}

static void put_bytes(struct call *c, struct nb_number bytes) {
        put(c, (uint32_t)bytes.len, 2);
        put_raw(c, bytes.data, bytes.len);
}

static void begin(struct call *c, const char *name, uint32_t tag, uint32_t code) {
        c->name = name;
        c->command_len = 0;
        put(c, tag, 2);
        put(c, 0, 4);
        put(c, code, 4);
}

static void put_empty_password(struct call *c) {
        static const char session[] = "\x00\x00\x00\x09" /* size */
                                      "\x40\x00\x00\x09" /* TPM_RS_PW */
                                      "\x00\x00"         /* nonce */
                                      "\x00"             /* attributes of the session */
                                      "\x00\x00";        /* password */

        put_raw(c, session, sizeof(session) - 1);
}

/* --- Reading an answer --- */

static struct nb_number get_raw(struct call *c, size_t len) {
        const uint8_t *data = c->answer + c->at;

        expect(c, c->answer_len - c->at >= len);
        if (c->error < 0)
                return (struct nb_number){ data, 0 };
        c->at += len;
        return (struct nb_number){ data, len };
}

static uint32_t get(struct call *c, size_t size) {
        struct nb_number bytes = get_raw(c, size);
        uint32_t value = 0;

        for (size_t i = 0; i < bytes.len; i++)
                value = value << 8 | bytes.data[i];
        return value;
}

static struct nb_number get_bytes(struct call *c) {
        return get_raw(c, get(c, 2));
}

static struct nb_number get_number(struct call *c) {
        struct nb_number number = get_bytes(c);

        expect(c, number.len > 0);
        return number;
}

/* --- Calling the TPM --- */

/* Reads the part of the answer that has arrived, or waits for one. Returns 0 or -errno. */
static int read_some(struct call *c) {
        struct pollfd p = { .fd = c->fd, .events = POLLIN };
        uint64_t now = nb_now_ms(), left = c->deadline_ms > now ? c->deadline_ms - now : 0;
        ssize_t n = TEMP_FAILURE_RETRY(poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left));

        if (n == 0)
                return -ETIMEDOUT;
        if (n > 0)
                n = TEMP_FAILURE_RETRY(
                        read(c->fd, c->answer + c->answer_len, sizeof(c->answer) - c->answer_len));
        if (n <= 0)
                return n < 0 ? -errno : -EIO;
        c->answer_len += (size_t)n;
        return 0;
}

/* Writes the command, and reads the answer, of which each read may return a part. The kernel waits
 * for the TPM in write(). */
static void exchange(struct call *c) {
        const uint32_t command_len = htobe32((uint32_t)c->command_len);
        uint32_t size = 0;
        ssize_t n;
        int r;

        if (c->error < 0)
                return;
        memcpy(c->command + SIZE_AT, &command_len, sizeof(command_len));
        c->answer_len = 0;
        if (nb_now_ms() >= c->deadline_ms)
                r = -ETIMEDOUT;
        else {
                n = TEMP_FAILURE_RETRY(write(c->fd, c->command, c->command_len));
                r = n < 0 ? -errno : n < (ssize_t)c->command_len ? -EIO : 0;
        }
        while (r >= 0 &&
               (c->answer_len < HEADER || (c->answer_len < size && size <= sizeof(c->answer)))) {
                r = read_some(c);
                memcpy(&size, c->answer + SIZE_AT, sizeof(size));
                size = be32toh(size);
        }
        if (r < 0)
                fail_io(c, r);
        expect(c, c->answer_len == size);
}

/* Whether the same command may succeed later: no memory or handle, yielded, canceled, testing, NV
 * memory was written too often, repeat, NV memory cannot be reached. Not the lockout (0x921), which
 * can last hours. */
static bool is_temporary(uint32_t code) {
        static const uint8_t low[] = { 0x02, 0x03, 0x04, 0x06, 0x08, 0x09, 0x0a, 0x20, 0x22, 0x23 };

        return code >> 8 == 0x9 && memchr(low, (int)(code & 0xff), sizeof(low));
}

/* Sends the command, again if that may help, and expects success. */
static void call(struct call *c) {
        uint32_t tag, code;
        unsigned n = 0;

        do {
                exchange(c);
                c->at = 0;
                tag = get(c, 2);
                (void)get(c, 4); /* size */
                code = get(c, 4);
        } while (is_temporary(code) && n++ < REPEATS_MAX);
        if (code != 0) {
                c->error = nb_failure_set(c->f, NB_TPM_ERROR, EREMOTEIO,
                                          "the TPM answered %s with %#" PRIx32, c->name, code);
                c->f->is_temporary = is_temporary(code);
        }
        /* With another tag, the parameters would be at another place. */
        expect(c, tag == (uint32_t)(c->command[0] << 8 | c->command[1]));
}

/* --- The key --- */

/* Reads a TPM2B_PUBLIC. */
static void get_public(struct call *c, struct nb_buffer *ret_spki) {
        uint32_t size = get(c, 2), type, scheme, exponent = 0;
        size_t start = c->at;
        struct nb_number a, b;
        bool is_usable;

        type = get(c, 2);
        (void)get(c, 2); /* the algorithm of its name */
        is_usable = (get(c, 4) & ATTRIBUTES) == ATTRIBUTES_SET;
        (void)get_bytes(c);             /* policy */
        is_usable &= get(c, 2) == NONE; /* symmetric: a storage key has one */
        c->scheme = type == RSA ? RSASSA : ECDSA;
        scheme = get(c, 2);
        is_usable &= scheme == NONE || (scheme == c->scheme && get(c, 2) == SHA256);
        if (type == RSA) {
                (void)get(c, 2); /* bits */
                exponent = get(c, 4);
        } else
                is_usable &= type == ECC && get(c, 2) == P256 && get(c, 2) == NONE;
        refuse(c, is_usable ? 0 : -EKEYREJECTED,
               "the key in the TPM is unusable; expected one that was created in this TPM, cannot "
               "leave it, and signs with SHA-256, by ECDSA with P-256 or by RSASSA");
        a = get_number(c);
        b = type == RSA ? a : get_number(c);
        expect(c, c->at - start == size);
        if (c->error < 0)
                return;
        check_answer(
                c, type == RSA ? nb_raw_key_rsa(a, exponent ? exponent : DEFAULT_EXPONENT, ret_spki)
                               : nb_raw_key_p256(a, b, ret_spki));
}

/* The template of a key that the platform has put into an NV index. */
static struct nb_number read_template(struct call *c, uint32_t index) {
        uint32_t size;

        begin(c, "NV_ReadPublic", NO_SESSIONS, NV_READ_PUBLIC);
        put(c, index, 4);
        call(c);
        (void)get_raw(c, 2 + 4 + 2 + 4); /* size, index, algorithm of its name, attributes */
        (void)get_bytes(c);              /* policy */
        size = get(c, 2);
        refuse(c, size > TEMPLATE_MAX ? -EFBIG : 0,
               "the NV index has more than 1024 bytes; expected the template of a key");
        begin(c, "NV_Read", SESSIONS, NV_READ);
        put(c, OWNER, 4);
        put(c, index, 4);
        put_empty_password(c);
        put(c, size, 2);
        put(c, 0, 2); /* offset */
        call(c);
        (void)get(c, 4); /* size of the parameters */
        return get_bytes(c);
}

static void create_primary(struct call *c, struct nb_number template) {
        begin(c, "CreatePrimary", SESSIONS, CREATE_PRIMARY);
        put(c, ENDORSEMENT, 4);
        put_empty_password(c);
        put(c, 4, 2); /* the size of the key's password and data, */
        put(c, 0, 4); /* which are empty */
        put_bytes(c, template);
        put(c, 0, 2); /* outside information */
        put(c, 0, 4); /* PCRs */
        call(c);
        c->handle = get(c, 4);
        (void)get(c, 4); /* size of the parameters */
}

static void find_key(struct call *c, uint32_t key) {
        struct nb_number template = { (const uint8_t *)default_template,
                                      sizeof(default_template) - 1 };

        if (key >> 24 == NB_TPM_KEY_PERSISTENT) {
                begin(c, "ReadPublic", NO_SESSIONS, READ_PUBLIC);
                put(c, key, 4);
                call(c);
                c->handle = key;
                return;
        }
        assert(key == NB_TPM_KEY_DEFAULT || key >> 24 == NB_TPM_KEY_NV);
        create_primary(c, key == NB_TPM_KEY_DEFAULT ? template : read_template(c, key));
}

/* --- Signing --- */

/* The ticket of Hash certifies that the message does not begin like a statement of the TPM. Without
 * it, a restricted key does not sign. */
static void sign_message(struct call *c, struct nb_number message, const struct nb_buffer *spki,
                         struct nb_buffer *ret_signature) {
        struct nb_number digest, ticket, a, b;

        begin(c, "Hash", NO_SESSIONS, HASH);
        put_bytes(c, message);
        put(c, SHA256, 2);
        put(c, ENDORSEMENT, 4);
        call(c);
        digest = get_bytes(c);
        ticket = get_raw(c, c->answer_len - c->at);
        begin(c, "Sign", SESSIONS, SIGN);
        put(c, c->handle, 4);
        put_empty_password(c);
        put_bytes(c, digest);
        put(c, c->scheme, 2);
        put(c, SHA256, 2);
        put_raw(c, ticket.data, ticket.len);
        call(c);
        (void)get(c, 4); /* size of the parameters */
        expect(c, get(c, 2) == c->scheme && get(c, 2) == SHA256);
        a = get_number(c);
        b = c->scheme == RSASSA ? a : get_number(c);
        if (c->error < 0)
                return;
        if (c->scheme == RSASSA)
                nb_buffer_append(ret_signature, a.data, a.len);
        check_answer(c, c->scheme == RSASSA ? ret_signature->error
                                            : nb_raw_signature_ecdsa(a, b, ret_signature));
        refuse(c, nb_raw_signature_verify(spki, message, ret_signature),
               "the TPM's signature does not verify");
}

int nb_tpm_sign_open(int fd, const struct nb_tpm *tpm, const void *message, size_t len,
                     struct nb_buffer *ret_spki, struct nb_buffer *ret_signature,
                     struct nb_failure *f) {
        struct call c = { .fd = fd, .deadline_ms = tpm->deadline_ms, .f = f };

        assert(len <= NB_TPM_MESSAGE_MAX);
        find_key(&c, tpm->key);
        get_public(&c, ret_spki);
        if (message)
                sign_message(&c, (struct nb_number){ message, len }, ret_spki, ret_signature);
        /* After a failure, the kernel does it when the device is closed. */
        if (tpm->key >> 24 != NB_TPM_KEY_PERSISTENT) {
                begin(&c, "FlushContext", NO_SESSIONS, FLUSH_CONTEXT);
                put(&c, c.handle, 4);
                call(&c);
        }
        return c.error;
}

/* --- The device --- */

static bool is_version_1(const char *version_file) {
        _cleanup_(nb_secret_done) struct nb_secret version = NB_SECRET_INIT;

        return nb_path_read(-1, version_file, VERSION_MAX, &version) >= 0 && version.data[0] == '1';
}

/* EPERM: the driver has loaded since systemd chose the devices of this process. */
static int fail_open(const struct nb_tpm *tpm, int r, struct nb_failure *f) {
        bool is_missing = r == -ENOENT || r == -ENODEV || r == -ENXIO || r == -EPERM;

        if (is_missing && is_version_1(tpm->version_file))
                return nb_failure_set(f, NB_TPM_ERROR, EPROTONOSUPPORT,
                                      "the TPM of this machine is a TPM 1.2; expected a TPM 2.0");
        r = nb_failure_set(f, is_missing ? NB_TPM_MISSING : NB_TPM_ERROR, r,
                           "'%s' cannot be opened: %m", tpm->device);
        f->is_temporary = r == -EBUSY || r == -EIO || r == -ETIME;
        return r;
}

int nb_tpm_sign(const struct nb_tpm *tpm, const void *message, size_t len,
                struct nb_buffer *ret_spki, struct nb_buffer *ret_signature, struct nb_failure *f) {
        /* Without O_NONBLOCK: with it, kernels before 5.19 do not report that a command failed. */
        _cleanup_(nb_closep) int fd = TEMP_FAILURE_RETRY(
                open(tpm->device, O_RDWR | O_CLOEXEC | O_NOCTTY));

        return fd < 0 ? fail_open(tpm, -errno, f)
                      : nb_tpm_sign_open(fd, tpm, message, len, ret_spki, ret_signature, f);
}
