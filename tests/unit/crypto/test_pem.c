/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "crypto/pem.h"

#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1
#define BLOCK(label, text) "-----BEGIN " label "-----\n" text "-----END " label "-----\n"

/* --- Finding blocks --- */

struct next_case {
        const char *name;
        const char *text;
        size_t len;
        const char *labels; /* "A|B|" */
        int end;            /* after the last block */
};

static struct next_case nexts[] = {
        { "find: nothing", TEXT(""), "", 0 },
        { "find: text alone", TEXT("a\nb\n"), "", 0 },
        { "find: a block", TEXT(BLOCK("A", "AA\n")), "A|", 0 },
        { "find: two, with text around them",
          TEXT("x\n" BLOCK("A", "AA\n") "y\n" BLOCK("B C", "BB\n") "z"), "A|B C|", 0 },
        { "find: no newline at the end", TEXT("-----BEGIN A-----\nAA\n-----END A-----"), "A|", 0 },
        { "find: an empty block", TEXT(BLOCK("A", "")), "A|", 0 },
        { "find: a line that begins with a blank", TEXT(" " BLOCK("A", "AA\n")), "", 0 },
        { "find: the first is complete", TEXT(BLOCK("A", "AA\n") "-----BEGIN B-----\nBB\n"), "A|",
          -EINVAL },
        { "find: no end", TEXT("-----BEGIN A-----\nAA\n"), "", -EINVAL },
        { "find: the end of another", TEXT("-----BEGIN A-----\nAA\n-----END B-----\n"), "",
          -EINVAL },
        { "find: the end of a longer one", TEXT("-----BEGIN A-----\nAA\n-----END AB-----\n"), "",
          -EINVAL },
        { "find: another begins within it",
          TEXT("-----BEGIN A-----\n-----BEGIN A-----\nAA\n-----END A-----\n"), "", -EINVAL },
        { "find: no label", TEXT("-----BEGIN -----\nAA\n-----END -----\n"), "", -EINVAL },
        { "find: a label without hyphens", TEXT("-----BEGIN A\nAA\n-----END A\n"), "", -EINVAL },
        { "find: a NUL in a block", TEXT("-----BEGIN A-----\nA\0\n-----END A-----\n"), "",
          -EINVAL },
        { "find: a NUL before a block", TEXT("x\0\n" BLOCK("A", "AA\n")), "", -EINVAL },
        { "find: a NUL after a block", TEXT(BLOCK("A", "AA\n") "\0"), "A|", -EINVAL },
};

static void finds_blocks(void **state) {
        const struct next_case *c = *state;
        struct nb_pem_block block;
        char labels[64] = "";
        size_t offset = 0;
        int r;

        while ((r = nb_pem_next(c->text, c->len, &offset, &block)) > 0) {
                char label[16], end[32];

                (void)snprintf(label, sizeof(label), "%.*s", (int)block.label_len, block.label);
                strcat(strcat(labels, label), "|");
                assert_int_equal(strncmp(block.text, "-----BEGIN ", 11), 0);
                (void)snprintf(end, sizeof(end), "-----END %s-----", label);
                assert_ptr_equal(block.text + block.len, c->text + offset);
                assert_memory_equal(c->text + offset - strlen(end), end, strlen(end));
        }
        assert_string_equal(labels, c->labels);
        assert_int_equal(r, c->end);
}

/* --- Labels --- */

struct label_case {
        const char *name, *label;
        bool is_certificate, is_key;
};

static struct label_case labels[] = {
        { "label: a certificate", "CERTIFICATE", true, false },
        { "label: an older name of one", "X509 CERTIFICATE", false, false },
        { "label: a request", "CERTIFICATE REQUEST", false, false },
        { "label: the beginning", "CERT", false, false },
        { "label: a key", "PRIVATE KEY", false, true },
        { "label: a key of a type", "EC PRIVATE KEY", false, true },
        { "label: an end without a blank", "XPRIVATE KEY", false, false },
        { "label: a public key", "PUBLIC KEY", false, false },
        { "label: more than a key", "PRIVATE KEY X", false, false },
        { "label: shorter than a key", "KEY", false, false },
};

static void knows_labels(void **state) {
        const struct label_case *c = *state;
        const struct nb_pem_block block = { .label = c->label, .label_len = strlen(c->label) };

        assert_int_equal(nb_pem_block_is(&block, NB_PEM_CERTIFICATE), c->is_certificate);
        assert_int_equal(nb_pem_block_is_private_key(&block), c->is_key);
}

/* --- Decoding the one exact form --- */

struct decode_case {
        const char *name;
        const char *text;
        int r;
        const char *data;
        size_t offset; /* after it */
};

#define HEAD "-----BEGIN A-----\n"
#define TAIL "-----END A-----\n"

static struct decode_case decodes[] = {
        { "decode: a line", HEAD "YWJj\n" TAIL, 0, "abc", 39 },
        { "decode: two lines", HEAD "YWJj\nZGVm\n" TAIL, 0, "abcdef", 44 },
        { "decode: no newline at the end", HEAD "YWJj\n-----END A-----", 0, "abc", 38 },
        { "decode: more after it", HEAD "YWJj\n" TAIL "x", 0, "abc", 39 },
        { "decode: nothing", "", -EINVAL, NULL, 0 },
        { "decode: another label", "-----BEGIN B-----\nYWJj\n-----END B-----\n", -EINVAL, NULL, 0 },
        { "decode: text before it", "x\n" HEAD "YWJj\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: no data", HEAD TAIL, -EINVAL, NULL, 0 },
        { "decode: no end", HEAD "YWJj\n", -EINVAL, NULL, 0 },
        { "decode: a cut line", HEAD "YWJj", -EINVAL, NULL, 0 },
        { "decode: the end of another", HEAD "YWJj\n-----END B-----\n", -EINVAL, NULL, 0 },
        { "decode: a hyphen in a line", HEAD "YW-j\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: a hyphen that begins a line", HEAD "YWJj\n-\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: a blank", HEAD "YWJj \n" TAIL, -EINVAL, NULL, 0 },
        { "decode: a carriage return", HEAD "YWJj\r\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: a header", HEAD "Proc-Type: 4\n\nYWJj\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: no base64", HEAD "YWJ\n" TAIL, -EINVAL, NULL, 0 },
        { "decode: more than there is room for", HEAD "YWJjYWJjYWJjYWJj\n" TAIL, -E2BIG, NULL, 0 },
};

static void decodes_block(void **state) {
        const struct decode_case *c = *state;
        struct nb_buffer data = NB_BUFFER_INIT(8);
        size_t offset = 0;

        assert_int_equal(nb_pem_decode(c->text, strlen(c->text), &offset, "A", &data), c->r);
        assert_int_equal(offset, c->offset);
        if (c->data)
                assert_string_equal(data.data, c->data);
        nb_buffer_done(&data);
}

static void decodes_one_after_the_other(void **state) {
        static const char text[] = HEAD "YWJj\n" TAIL HEAD "ZGVm\n" TAIL;
        struct nb_buffer data = NB_BUFFER_INIT(8);
        size_t offset = 0;

        for (int i = 0; i < 2; i++)
                assert_int_equal(nb_pem_decode(text, strlen(text), &offset, "A", &data), 0);
        assert_string_equal(data.data, "abcdef");
        assert_int_equal(offset, strlen(text));
        assert_int_equal(nb_pem_decode(text, strlen(text), &offset, "A", &data), -EINVAL);
        nb_buffer_done(&data);
}

int main(void) {
        CASES(nexts, finds_blocks);
        CASES(labels, knows_labels);
        CASES(decodes, decodes_block);
        CASE(decodes_one_after_the_other);
        return case_run("crypto pem");
}
