/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"

#include "case.h"

#define TEXT(s) (s), sizeof(s) - 1

struct utf8_case {
        const char *name;
        const char *text;
        size_t len;
        size_t expected;
        uint32_t code_point;
};

static struct utf8_case sequences[] = {
        { "nothing", TEXT(""), 0, 0 },
        { "ASCII", TEXT("a"), 1, 'a' },
        { "NUL", TEXT("\0"), 1, 0 },
        { "the first of two bytes", TEXT("\xc2\x80"), 2, 0x80 },
        { "the last of two bytes", TEXT("\xdf\xbf"), 2, 0x7ff },
        { "the first of three bytes", TEXT("\xe0\xa0\x80"), 3, 0x800 },
        { "the last before the surrogates", TEXT("\xed\x9f\xbf"), 3, 0xd7ff },
        { "the last of three bytes", TEXT("\xef\xbf\xbf"), 3, 0xffff },
        { "the first of four bytes", TEXT("\xf0\x90\x80\x80"), 4, 0x10000 },
        { "the last of all", TEXT("\xf4\x8f\xbf\xbf"), 4, 0x10ffff },
        { "beyond the last", TEXT("\xf4\x90\x80\x80"), 0, 0 },
        { "a surrogate", TEXT("\xed\xa0\x80"), 0, 0 },
        { "a slash in two bytes", TEXT("\xc0\xaf"), 0, 0 },
        { "a slash in three bytes", TEXT("\xe0\x80\xaf"), 0, 0 },
        { "four bytes for what needs three", TEXT("\xf0\x8f\xbf\xbf"), 0, 0 },
        { "a continuation alone", TEXT("\x80"), 0, 0 },
        { "the end is missing", TEXT("\xe2\x82"), 0, 0 },
        { "a beginning in the middle", TEXT("\xe2\xe2\x82"), 0, 0 },
        { "five bytes", TEXT("\xf8\x88\x80\x80\x80"), 0, 0 },
};

static void decodes(void **state) {
        const struct utf8_case *c = *state;
        uint32_t code_point = 0;

        assert_int_equal(nb_utf8_decode(c->text, c->len, &code_point), c->expected);
        assert_int_equal(code_point, c->code_point);
}

struct line_case {
        const char *name;
        const char *text;
        size_t len;
        size_t size;
        const char *expected;
};

static struct line_case lines[] = {
        { "copied as it is", TEXT("Forbidden: n\xc3\xb6"), 32, "Forbidden: n\xc3\xb6" },
        { "cut to the size", TEXT("abcdef"), 4, "abc" },
        { "cut before a character that does not fit", TEXT("ab\xe2\x82\xac"), 5, "ab" },
        { "controls become spaces",
          TEXT("a\nb\x1b[2Jc\x7f"
               "d\xc2\x9b"
               "e"),
          32, "a b [2Jc d e" },
        { "line ends of Unicode become spaces",
          TEXT("a\xe2\x80\xa8"
               "b"),
          32, "a b" },
        { "what is not UTF-8 becomes question marks",
          TEXT("a\xff\xfe"
               "b"),
          32, "a??b" },
        { "a NUL becomes a space", TEXT("a\0b"), 32, "a b" },
        { "nothing", TEXT(""), 32, "" },
        { "room for nothing", TEXT("abc"), 1, "" },
};

static void copies(void **state) {
        const struct line_case *c = *state;
        char line[32];

        memset(line, 'x', sizeof(line));
        nb_text_copy_line(c->text, c->len, line, c->size);
        assert_string_equal(line, c->expected);
}

struct printable_case {
        const char *name;
        const char *text;
        bool expected;
};

static struct printable_case printables[] = {
        { "nothing is printable", "", true },
        { "plain text is printable", "Some text, 100 %", true },
        { "a letter of another alphabet is printable", "\xc3\xbc", true },
        { "a tab is not", "a\tb", false },
        { "a newline is not", "a\n", false },
        { "an escape sequence is not", "\x1b[31m", false },
        { "one of eight bits is not",
          "\xc2\x9b"
          "31m",
          false },
        { "what is not UTF-8 is not", "\xff", false },
        { "a byte order mark is not", "\xef\xbb\xbf", false },
};

static void judges(void **state) {
        const struct printable_case *c = *state;

        assert_int_equal(nb_text_is_printable(c->text, strlen(c->text)), c->expected);
}

#define TEN "0123456789"
#define NINETY_SIX TEN TEN TEN TEN TEN TEN TEN TEN TEN "012345"

struct quote_case {
        const char *name;
        const char *text;
        const char *expected;
};

static struct quote_case quotes[] = {
        { "quoted as it is", "a b", "'a b'" },
        { "nothing is quoted", "", "''" },
        { "of a long line of several words the first",
          "curl -sfL https://get.k3s.io | K3S_URL=https://10.0.0.1:6443 "
          "K3S_TOKEN=d41d8cd98f00b204e9800998ecf8427e sh -s - agent",
          "'curl\u2026' (117 bytes)" },
        { "the longest that is quoted whole", NINETY_SIX, "'" NINETY_SIX "'" },
        { "the middle is left out", NINETY_SIX "  -",
          "'" TEN TEN TEN TEN TEN "012345\u2026789" TEN TEN "012345  -' (99 bytes)" },
        { "cut between characters",
          TEN TEN TEN TEN TEN "01234\u00e9\u00e9\u00e9" TEN TEN TEN "012345678901\u00e9",
          "'" TEN TEN TEN TEN TEN "01234\u2026234567890123456789012345678901\u00e9' (105 bytes)" },
};

static void quotes_text(void **state) {
        const struct quote_case *c = *state;
        char quoted[NB_TEXT_QUOTED_SIZE];

        assert_ptr_equal(nb_text_quote(c->text, strlen(c->text), quoted), quoted);
        assert_string_equal(quoted, c->expected);
}

static void a_text_that_does_not_fit_is_never_written(_unused_ void **state) {
        char array[] = "abcde";
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                (void)close(STDERR_FILENO);
                nb_text_copy(array, 3, "xyz");
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        nb_text_copy(array, 4, "xyz");
        assert_memory_equal(array, "xyz\0e", 6);
}

int main(void) {
        CASE(a_text_that_does_not_fit_is_never_written);
        CASES(sequences, decodes);
        CASES(lines, copies);
        CASES(printables, judges);
        CASES(quotes, quotes_text);
        return case_run("text");
}
