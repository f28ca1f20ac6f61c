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

struct control_case {
        const char *name;
        uint32_t first, last; /* all of these are controls, and their neighbours are not */
};

static struct control_case controls[] = {
        { "control: C0", 0, 0x1f },
        { "control: DEL and C1", 0x7f, 0x9f },
        { "control: line separators and directions", 0x2028, 0x202e },
        { "control: isolates", 0x2066, 0x2069 },
        { "control: byte order mark", 0xfeff, 0xfeff },
        { "control: no characters", 0xfffe, 0xffff },
        { "control: no characters of the last plane", 0x10fffe, 0x10ffff },
};

static void knows_controls(void **state) {
        const struct control_case *c = *state;

        for (uint32_t i = c->first; i <= c->last; i++)
                assert_true(nb_code_point_is_control(i));
        if (c->first > 0)
                assert_false(nb_code_point_is_control(c->first - 1));
        assert_false(nb_code_point_is_control(c->last + 1));
}

struct list_case {
        const char *name;
        const char *list, *added, *expected;
};

static struct list_case lists[] = {
        { "list: the first", "", "aa", "aa" },
        { "list: another", "aa", "b", "aa, b" },
        { "list: has it as the first", "aa, b", "aa", "aa, b" },
        { "list: has it as the last", "aa, b", "b", "aa, b" },
        { "list: has a longer one", "aa", "a", "aa, a" },
        { "list: as much as leaves room for more", "aa", "123456", "aa, 123456" },
        { "list: what does not fit", "aa", "1234567", "aa, ..." },
        { "list: ends with dots", "aa, ...", "b", "aa, ..." },
        { "list: controls", "", "a\nb", "a b" },
};

static void adds_to_lists(void **state) {
        const struct list_case *c = *state;
        char list[16];

        NB_TEXT_COPY(list, c->list);
        nb_text_list_add(list, sizeof(list), c->added);
        assert_string_equal(list, c->expected);
}

struct count_case {
        const char *name;
        const char *text;
        size_t expected;
};

static struct count_case counts[] = {
        { "characters: none", "", 0 },
        { "characters: of a byte", "abc", 3 },
        { "characters: of several bytes", "a\u00e9\u20ac\U0001f600", 4 },
};

static void counts_characters(void **state) {
        const struct count_case *c = *state;

        assert_int_equal(nb_text_count(c->text, strlen(c->text)), c->expected);
}

struct distance_case {
        const char *name;
        const char *a, *b;
        unsigned expected;
};

static struct distance_case distances[] = {
        { "distance: none", "endpoints", "endpoints", 0 },
        { "distance: of case", "EndPoints", "endpoints", 0 },
        { "distance: from nothing", "", "abc", 3 },
        { "distance: to nothing", "abc", "", 3 },
        { "distance: one more", "endpoint", "endpoints", 1 },
        { "distance: one less", "endpointts", "endpoints", 1 },
        { "distance: another letter", "endpaints", "endpoints", 1 },
        { "distance: two swapped", "endpionts", "endpoints", 2 },
        { "distance: three", "kitten", "sitting", 3 },
        { "distance: to a beginning", "time", "timeout", 0 },
};

static void measures_distances(void **state) {
        const struct distance_case *c = *state;
        size_t len = strcmp(c->b, "timeout") == 0 ? 4 : strlen(c->b);

        assert_int_equal(nb_text_measure_distance(c->a, c->b, len), c->expected);
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

struct secret_case {
        const char *name, *text;
        bool is_hidden, is_token;
};

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct secret_case secrets[] = {
        { "secret: a token", "abcdef.0123456789abcdef", true, true },
        { "secret: in capital letters", "ABCDEF.0123456789ABCDEF", true, true },
        { "secret: a token with a port", "abcdef.0123456789abcdef:6443", true, true },
        { "secret: a token as the key of a taint", "abcdef.0123456789abcdef:NoSchedule", true,
          true },
        { "secret: a token as the value of a label", "node-labels=a=abcdef.0123456789abcdef", true,
          true },
        { "secret: a token as a file name", "unix:///run/abcdef.0123456789abcdef", true, true },
        { "secret: a token in a query", "https://x/?t=abcdef.0123456789abcdef&x=y", true, true },
        { "secret: a half", "/etc/0123456789abcdef", true },
        { "secret: a half of capital letters", "GHIJKLMNOPQRSTUV", true },
        { "secret: a half that is cut", "g1h2i3j4k5l6", true },
        { "secret: a token that is cut", "g1h2i3.4k5l", true },
        { "secret: with another dot", "g1h2i3:4k5l6m7", true },
        { "secret: a token that is cut in its second half", "g1h2i3.4k5l6m7n", true, true },
        { "secret: one with a port", "g1h2i3.4k5l6m7n8:6443", true, true },
        { "secret: one as the key of a taint", "g1h2i3.4k5l6m7n8o9p:NoSchedule", true, true },
        { "secret: one as a file", "unix:///run/g1h2i3.4k5l6m7n8o", true, true },
        { "secret: a token that is cut in its first half", "h2i3.4k5l6m7n8o9p0q1r", true, true },
        { "secret: a half, or the name of a host", "lon3k8sworker001", true, false },
        { "secret: a long word, or a half", "mycompanyprivate", true, false },
        { "secret: letters within longer words", "kubeadm.ghijklmnopqrstuvConfiguration", true },
        { "secret: before more hex digits", "abcdef.0123456789" HASH, true },
        { "secret: a password in a URL", "https://u:p@host/", true },
        { "secret: a signature in a URL", "https://host/x?sig=1", true },
        { "secret: a k3s token", "K10" HASH "::server:secret", true, true },
        { "secret: a k3s token in an option", "foo=K10" HASH "::server:secret", true, true },
        { "secret: a k3s token without a hash", "K10::a:b", true, true },
        { "secret: a k3s token with a damaged hash", "a K10-abc::server:secret", true, true },
        { "secret: the end of a k3s token", "bc::node:secret", true, true },
        { "secret: the begin of one", "K10a", true },
        { "no secret: nothing", "", false },
        { "no secret: dots", "...", false },
        { "no secret: a word of several words", "kubeadm.ghijklmnopqrstuConfiguration", false },
        { "no secret: a host of long words", "api.cluster1.mycompanyinternal.com", false },
        { "no secret: a host in a cluster", "node-01.k8s01.mycompanyinternal", false },
        { "no secret: a worker", "worker-1", false },
        { "no secret: the name of an instance", "ip-10-0-0-1.eu-west-1.compute.internal", false },
        { "no secret: a name of Cluster API", "md-0-5d8f9c7b6d-x7k2m", false },
        { "no secret: a host name", "node01.example.com:6443", false },
        { "no secret: an address", "fd00::1", false },
        { "no secret: a file", "/var/lib/kubelet/kubeadm-flags.env", false },
        { "no secret: a short name and a short end", "docker.sock", false },
        { "no secret: an apiVersion", "kubelet.config.k8s.io/v1beta1", false },
        { "no secret: a port", "server:6443", false },
        { "no secret: a digest", "sha256:" HASH, false },
        { "no secret: a UUID", "01234567-89ab-cdef-0123-456789abcdef", false },
        { "no secret: the name of a key", "unsafeSkipCAVerification", false },
        { "no secret: the name of a temporary file", "/tmp/tmpk3x9z2ab", false },
};

static void finds_secrets(void **state) {
        const struct secret_case *c = *state;

        assert_int_equal(nb_text_describe_secret(c->text, strlen(c->text)) != NULL, c->is_hidden);
        assert_int_equal(strcmp(nb_text_shown(c->text), c->text) != 0, c->is_hidden);
        assert_int_equal(nb_text_is_token(c->text), c->is_token);
}

/* Pieces of random text beside what is no such piece. */
static struct quote_case values[] = {
        { "value: nothing", "", "''" },
        { "value: three in a row", "a=b:10.0.yes", "'a=b:10.0.yes'" },
        { "value: four letters", "gjkm", "4 characters" },
        { "value: four digits", "a-1234", "6 characters" },
        { "value: the end of a half", "7xk2pq9w", "8 characters" },
        { "value: a part of one in a list", "a, m7q2", "7 characters" },
        { "value: a word", "worker-1", "8 characters" },
        { "value: not ASCII", "\u00fcber-all", "'\u00fcber-all'" },
        { "value: short, but a token", "g1h2i3.4k5l", "what may be a token" },
        { "value: a word, and a token in a long line", "7xk2pq9w " NINETY_SIX " g1h2i3.4k5l6m7n",
          "what may be a token" },
        { "value: a user", "u:p@h", "5 characters" },
        { "value: a long one of short parts", NINETY_SIX "a b", "99 characters" },
};

static void quotes_values(void **state) {
        const struct quote_case *c = *state;
        char quoted[NB_TEXT_QUOTED_SIZE];

        assert_ptr_equal(nb_text_quote_value(c->text, strlen(c->text), quoted), quoted);
        assert_string_equal(quoted, c->expected);
}

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
        CASES(controls, knows_controls);
        CASES(lists, adds_to_lists);
        CASES(counts, counts_characters);
        CASES(distances, measures_distances);
        CASES(quotes, quotes_text);
        CASES(secrets, finds_secrets);
        CASES(values, quotes_values);
        return case_run("text");
}
