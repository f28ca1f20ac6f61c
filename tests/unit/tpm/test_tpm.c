/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/encoding.h"
#include "case.h"
#include "os/clock.h"
#include "tpm/tpm.h"

#define MESSAGE "hello"
#define ANSWER_MAX 5000
#define ANSWERS_MAX 24
#define OUTPUT_MAX 1024
#define LONG_MS 60000

/* Recorded with swtpm 0.7.1, apart from what follows the public area in answers to CreatePrimary
 * and ReadPublic. Each enrolled key depends on the command CREATE. */
#define CREATE \
        "800200000061000001314000000b0000000940000009000000000000040000000000380023000b00" \
        "040472000000100018000b0003001000205839837254caa92f54542aa257fb1a62299bd9235b4cb1" \
        "ce6a4cc372e847d6e40000000000000000"
#define CREATED \
        "80020000006c00000000800000000000012100580023000b00040472000000100018000b00030010" \
        "0020852364a727f3add61e205ffceb6e35439dfed63fcfd226bd0b0d462a1f8eea8a0020f696a696" \
        "3dc8d22dc7aac747bd4b22da198ad52e513376ef83bffe7fc16e0f7b"
#define HASH "8001000000170000017d000568656c6c6f000b4000000b"
#define HASHED \
        "8001000000740000000000202cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362" \
        "938b982480244000000b00409ceabfd21fb281d24d71c4da2fa01cea7450d266f10ac6fbff265f82" \
        "1bc085e9e8b6e43dc2026ef4718bac5c7c6e98c88d76aadbb528ced93f03f4d99c661061"
#define SIGN \
        "8002000000890000015d800000000000000940000009000000000000202cf24dba5fb0a30e26e83b" \
        "2ac5b9e29e1b161e5c1fa7425e73043362938b98240018000b80244000000b00409ceabfd21fb281" \
        "d24d71c4da2fa01cea7450d266f10ac6fbff265f821bc085e9e8b6e43dc2026ef4718bac5c7c6e98" \
        "c88d76aadbb528ced93f03f4d99c661061"
#define SIGNED \
        "80020000005b00000000000000480018000b002073da6e9b177fccfd1ac7d0f328d9e9443d596f12" \
        "66b4f81114a55fbe29f75fff0020f79b36792d75789f8d649ade6b72804c94cbdcd6da83e92a3f22" \
        "a431fcd1f5100000010000"
#define FLUSH "80010000000e0000016580000000"
#define FLUSHED "80010000000a00000000"
#define SPKI \
        "3059301306072a8648ce3d020106082a8648ce3d03010703420004852364a727f3add61e205ffceb" \
        "6e35439dfed63fcfd226bd0b0d462a1f8eea8af696a6963dc8d22dc7aac747bd4b22da198ad52e51" \
        "3376ef83bffe7fc16e0f7b"
#define SIGNATURE \
        "3045022073da6e9b177fccfd1ac7d0f328d9e9443d596f1266b4f81114a55fbe29f75fff022100f7" \
        "9b36792d75789f8d649ade6b72804c94cbdcd6da83e92a3f22a431fcd1f510"
#define READ_PUBLIC "80010000000e0000017381000003"
#define PUBLIC \
        "8001000000640000000000580023000b00050072000000100018000b0003001000202efa80600bea" \
        "fdcb57f6a16485406b3b838f8b0351a7d2a56ea0d39df092a0c60020579a3d86a98fc9dd9d8ec816" \
        "20fa792e8486cb349448944aa043a4c922d24455"
#define PERSISTENT_SIGN \
        "8002000000890000015d810000030000000940000009000000000000202cf24dba5fb0a30e26e83b" \
        "2ac5b9e29e1b161e5c1fa7425e73043362938b98240018000b80244000000b00409ceabfd21fb281" \
        "d24d71c4da2fa01cea7450d266f10ac6fbff265f821bc085e9e8b6e43dc2026ef4718bac5c7c6e98" \
        "c88d76aadbb528ced93f03f4d99c661061"
#define PERSISTENT_SIGNED \
        "80020000005b00000000000000480018000b0020900bc6b954baa6ee302bb2f4c960f3f5b61031c2" \
        "182a959d35acc09d1e80ad740020a555a14cbc383fc6b874014fa9836938cfb29b0098dffa6c3a65" \
        "a46c0fc4e4b40000010000"
#define PERSISTENT_SPKI \
        "3059301306072a8648ce3d020106082a8648ce3d030107034200042efa80600beafdcb57f6a16485" \
        "406b3b838f8b0351a7d2a56ea0d39df092a0c6579a3d86a98fc9dd9d8ec81620fa792e8486cb3494" \
        "48944aa043a4c922d24455"
#define PERSISTENT_SIGNATURE \
        "3046022100900bc6b954baa6ee302bb2f4c960f3f5b61031c2182a959d35acc09d1e80ad74022100" \
        "a555a14cbc383fc6b874014fa9836938cfb29b0098dffa6c3a65a46c0fc4e4b4"
#define NV_READ_PUBLIC "80010000000e0000016901c10001"
#define NV_PUBLIC \
        "80010000003e00000000000e01c10001000b22060006000001180022000bc2fc7bc573fbf0e50496" \
        "9d3e5c1aab3fb6986bef2a52bb79ec8f357a9d031baf"
#define NV_READ "8002000000230000014e4000000101c100010000000940000009000000000001180000"
#define NV_DATA \
        "80020000012d000000000000011a01180001000b00050072000000100014000b0800000000000100" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "000000000000000000000000000000000000010000"
#define NV_CREATE \
        "800200000141000001314000000b0000000940000009000000000000040000000001180001000b00" \
        "050072000000100014000b0800000000000100000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00000000000000000000000000000000000000000000000000000000000000000000000000000000" \
        "00"
#define NV_CREATED \
        "80020000012c0000000080000000000001e101180001000b00050072000000100014000b08000000" \
        "00000100ce4ae20d7d95ea071da6f073ce2fcd2d3efa36c9d4672eb24e9c37872aa8e2ab427bb908" \
        "eb447c2ae4989d6cdeb6c085426d63a925c064aae067144ebdde01455419332544d45e086a15f94c" \
        "2f0c40181a4b3bc35ddad865fb03fda1e9d4c67e0c0f4f3e92d4b4e6c9b6a9fd32f0d3b8c104e5c4" \
        "b4706a4492e19fcc2f34753dc7dd5d3c8c3f92798c2ed848cfde6cdd460d01334aa4fc640948103f" \
        "c79fce20fbf1636822aab9ab2347147aeefbca3244e227995e45d28a9d4d27ba7544129c7ef9ae32" \
        "7cc5a05338c7bf579f072017a0c3160979b3d49e1eb45d76eec462dd38083f0ac30a266494ed88d4" \
        "a139797b07693619bc851fedd2f89353df99c501"
#define RSA_SIGN \
        "8002000000890000015d800000000000000940000009000000000000202cf24dba5fb0a30e26e83b" \
        "2ac5b9e29e1b161e5c1fa7425e73043362938b98240014000b80244000000b00409ceabfd21fb281" \
        "d24d71c4da2fa01cea7450d266f10ac6fbff265f821bc085e9e8b6e43dc2026ef4718bac5c7c6e98" \
        "c88d76aadbb528ced93f03f4d99c661061"
#define RSA_SIGNED \
        "80020000011900000000000001060014000b01003276ef51ae9b4f763c87949c0126d9f09ba2ae9f" \
        "8dbab8df0a42fe33b0ebed8248ba6fd6808676ec53c2384a22b4d165a2ef116bd4c4e12bcb54107a" \
        "d5b4052e57ee34a9954cb022f5d94828aeb5913ef74e6218ee7f7a0c2ca7db7ee1dc02b13b490f33" \
        "0eb9bc3719dbe8b69550db3a94d0a5971305afa673f4834564c40c082f2c8ef6c3be90266b6b3025" \
        "2ac13e49f795a102a15db97f50b3581a54b463c3129e5b7eb418ada4364dac443d601da0245b1513" \
        "67469561deaa37181a5d7b947798bcf6a4cc4c86df4fab4dcd27d2558c16f68fd31894922433d59a" \
        "6f0763ddd76f46b331bd6d1a62977f88fffbbfd674ef1119d6c42f57712f2551237fe4b500000100" \
        "00"
#define RSA_SPKI \
        "30820122300d06092a864886f70d01010105000382010f003082010a0282010100ce4ae20d7d95ea" \
        "071da6f073ce2fcd2d3efa36c9d4672eb24e9c37872aa8e2ab427bb908eb447c2ae4989d6cdeb6c0" \
        "85426d63a925c064aae067144ebdde01455419332544d45e086a15f94c2f0c40181a4b3bc35ddad8" \
        "65fb03fda1e9d4c67e0c0f4f3e92d4b4e6c9b6a9fd32f0d3b8c104e5c4b4706a4492e19fcc2f3475" \
        "3dc7dd5d3c8c3f92798c2ed848cfde6cdd460d01334aa4fc640948103fc79fce20fbf1636822aab9" \
        "ab2347147aeefbca3244e227995e45d28a9d4d27ba7544129c7ef9ae327cc5a05338c7bf579f0720" \
        "17a0c3160979b3d49e1eb45d76eec462dd38083f0ac30a266494ed88d4a139797b07693619bc851f" \
        "edd2f89353df99c5010203010001"
#define RSA_SIGNATURE \
        "3276ef51ae9b4f763c87949c0126d9f09ba2ae9f8dbab8df0a42fe33b0ebed8248ba6fd6808676ec" \
        "53c2384a22b4d165a2ef116bd4c4e12bcb54107ad5b4052e57ee34a9954cb022f5d94828aeb5913e" \
        "f74e6218ee7f7a0c2ca7db7ee1dc02b13b490f330eb9bc3719dbe8b69550db3a94d0a5971305afa6" \
        "73f4834564c40c082f2c8ef6c3be90266b6b30252ac13e49f795a102a15db97f50b3581a54b463c3" \
        "129e5b7eb418ada4364dac443d601da0245b151367469561deaa37181a5d7b947798bcf6a4cc4c86" \
        "df4fab4dcd27d2558c16f68fd31894922433d59a6f0763ddd76f46b331bd6d1a62977f88fffbbfd6" \
        "74ef1119d6c42f57712f2551237fe4b5"
#define DIGEST "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
#define BYTES_40 "00000000000000000000000000000000000000000000000000000000000000000000000000000000"
#define TIMES_10(text) text text text text text text text text text text
#define BYTES_4000 TIMES_10(TIMES_10(BYTES_40))
/* To ReadPublic, with a public area of 30 bytes. */
#define PUBLIC_OF(area) "80010000002a00000000001e" area
#define UNUSABLE \
        "the key in the TPM is unusable; expected one that signs with SHA-256, by ECDSA with " \
        "P-256 or by RSASSA"
#define AGAIN "80010000000a00000922"
#define TESTING "80010000000a0000090a"
#define TIMES_7(answer) answer, answer, answer, answer, answer, answer, answer

struct row {
        const char *name;
        const char *answers[ANSWERS_MAX]; /* the connection ends after them */
        const char *commands, *spki, *signature;
        const char *detail; /* NULL: success */
        uint32_t key;
        bool is_startup;
        bool is_silent;   /* after the answers, instead; with is_startup, the deadline is now */
        bool is_in_parts; /* each answer */
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
        { .name = "a command is repeated 20 times at most",
          .answers = { TIMES_7(AGAIN), TIMES_7(TESTING), TIMES_7(AGAIN) },
          .is_startup = true,
          .detail = "the TPM did not carry out CreatePrimary: Device or resource busy" },
        { .name = "a key is flushed if the TPM fails",
          .answers = { CREATED, HASHED, "80010000000a00000921", FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .detail = "the TPM answered Sign with 0x921" },
        { .name = "a key is flushed if an answer is malformed",
          .answers = { CREATED, "80010000000a00000000", FLUSHED },
          .commands = CREATE HASH FLUSH,
          .detail = "the TPM's answer to Hash is malformed" },
        { .name = "a flush that fails is no failure",
          .answers = { CREATED, HASHED, SIGNED, "80010000000a000001c4" },
          .commands = CREATE HASH SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
        { .name = "a password of the hierarchy is a failure with its code",
          .answers = { "80010000000a000009a2" },
          .commands = CREATE,
          .detail = "the TPM answered CreatePrimary with 0x9a2" },
        { .name = "silence ends at the deadline",
          .is_silent = true,
          .is_startup = true,
          .commands = CREATE,
          .detail = "the TPM did not carry out CreatePrimary: Connection timed out" },
        { .name = "silence after the half of an answer ends at the deadline",
          .answers = { "800200000082000000" },
          .is_silent = true,
          .is_startup = true,
          .detail = "the TPM did not carry out CreatePrimary: Connection timed out" },
        { .name = "the end of the connection is temporary",
          .is_startup = true,
          .commands = CREATE,
          .detail = "the TPM did not carry out CreatePrimary: Input/output error" },
        { .name = "an answer that arrives in parts is put together",
          .is_in_parts = true,
          .answers = { CREATED, HASHED, SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .spki = SPKI,
          .signature = SIGNATURE },
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
          .commands = CREATE HASH FLUSH,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "a signature of another scheme is refused",
          .answers = { CREATED, HASHED, RSA_SIGNED, FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "a signature without numbers is refused",
          .answers = { CREATED, HASHED,
                       "800200000016000000000000000"
                       "80018000b00000000",
                       FLUSHED },
          .commands = CREATE HASH SIGN FLUSH,
          .detail = "the TPM's answer to Sign is malformed" },
        { .name = "a signature with leading zeros is encoded in the shortest form",
          .answers = { CREATED, HASHED,
                       "80020000001b000000000000000d"
                       "0018000b"
                       "00030000ff"
                       "00020001",
                       FLUSHED },
          .spki = SPKI,
          .signature = "3007020200ff020101" },
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

        start(fds);
        for (size_t i = 0; i < ANSWERS_MAX && row->answers[i]; i++)
                send_hex(fds[1], row->answers[i], row->is_in_parts);
        if (!row->is_silent)
                assert_int_equal(shutdown(fds[1], SHUT_WR), 0);
        finish(fds, row->key, row->is_silent && row->is_startup ? 0 : nb_now_ms() + LONG_MS,
               &result);
        if (row->detail) {
                assert_true(result.r < 0);
                assert_string_equal(result.f.detail, row->detail);
                assert_int_equal(result.f.code, NB_TPM_ERROR);
                assert_int_equal(result.f.is_startup, row->is_startup);
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
                        finish(fds, 0x01c10001, nb_now_ms() + LONG_MS, &result);
                        if (result.r >= 0)
                                assert_string_equal(result.spki, RSA_SPKI);
                        else {
                                assert_int_equal(result.f.code, NB_TPM_ERROR);
                        }
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

static void another_failure_to_open_is_final(void **state) {
        check_open("/dev", "/dev/node-bootstrap-missing", NB_TPM_ERROR, NB_CLASS_FATAL);
        check_open("/dev/null/tpm", "/dev/node-bootstrap-missing", NB_TPM_ERROR, NB_CLASS_FATAL);
}

int main(void) {
        CASES(rows, check_row);
        CASE(a_cut_answer_is_refused);
        CASE(a_missing_device_may_appear);
        CASE(another_failure_to_open_is_final);
        return case_run("tpm");
}
