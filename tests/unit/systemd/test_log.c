/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <fnmatch.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/datagram.h"
#include "os/terminal.h"
#include "systemd/log.h"

#define STUCK_LINES 2000 /* more than a terminal holds */

static char
        journal[8192]; /* the entries, each field on a line, and an empty line behind each entry */
static unsigned n_entries;

/* Replaces the function of os/datagram.c. */
int nb_datagram_send(const char *address, const struct iovec *fields, unsigned n) {
        size_t len = strlen(journal);

        assert_string_equal(address, NB_JOURNAL_SOCKET);
        n_entries++;
        for (unsigned i = 0; i < n; i++)
                len += (size_t)snprintf(journal + len, sizeof(journal) - len, "%.*s",
                                        (int)fields[i].iov_len, (const char *)fields[i].iov_base);
        (void)snprintf(journal + len, sizeof(journal) - len, "\n");
        if (n_entries > 8)
                journal[0] = '\0';
        return 0;
}

static int saved_stdout, saved_stderr;

static int setup(void **state) {
        journal[0] = '\0';
        n_entries = 0;
        (void)fflush(stdout);
        saved_stdout = dup(STDOUT_FILENO);
        saved_stderr = dup(STDERR_FILENO);
        return unsetenv("JOURNAL_STREAM");
}

static int teardown(void **state) {
        (void)fflush(stdout);
        (void)dup2(saved_stdout, STDOUT_FILENO);
        (void)dup2(saved_stderr, STDERR_FILENO);
        (void)close(saved_stdout);
        (void)close(saved_stderr);
        return 0;
}

static int new_file(void) {
        int fd = memfd_create("stream", MFD_CLOEXEC);

        assert_true(fd >= 0);
        return fd;
}

static void announce(int stream) {
        struct stat st;
        char text[64];

        assert_int_equal(fstat(stream, &st), 0);
        (void)snprintf(text, sizeof(text), "%llu:%llu", (unsigned long long)st.st_dev,
                       (unsigned long long)st.st_ino);
        assert_int_equal(setenv("JOURNAL_STREAM", text, true), 0);
}

static void log_entries(void) {
        const struct nb_failure f = { .code = NB_TOKEN_UNKNOWN,
                                      .http_status = 404,
                                      .detail = "no such token" };

        nb_log_field(NB_FIELD_TOKEN_ID, "abcdef");
        nb_log(LOG_INFO, NB_JOINED, "all is well");
        nb_log(LOG_DEBUG, NB_NONE, "a detail");
        nb_log_failure(LOG_ERR, &f);
        nb_log_field(NB_FIELD_TOKEN_ID, NULL);
}

/* What the program logs with these two, of which `stream` is the journal's; -1: neither. */
static void run(int out, int err, int stream) {
        if (stream >= 0)
                announce(stream);
        assert_true(dup2(out, STDOUT_FILENO) >= 0 && dup2(err, STDERR_FILENO) >= 0);
        nb_log_init("tester");
        log_entries();
}

static void assert_journal(void) {
        assert_int_equal(n_entries, 3);
        assert_non_null(strstr(journal, "MESSAGE=all is well\n"));
        assert_non_null(strstr(journal, "MESSAGE=no such token\n"));
        assert_non_null(strstr(journal, "NODE_BOOTSTRAP_CODE=token-unknown\n"));
        assert_non_null(strstr(journal, "NODE_BOOTSTRAP_HTTP_STATUS=404\n"));
        assert_non_null(strstr(journal, "NODE_BOOTSTRAP_TOKEN_ID=abcdef\n"));
        assert_non_null(strstr(journal, "SYSLOG_IDENTIFIER=tester\n"));
        assert_non_null(strstr(journal, nb_failure_info(NB_TOKEN_UNKNOWN)->message_id));
}

static void assert_lines(int fd) {
        static const char expected[] =
                "tester: all is well\ntester: token-unknown: no such token\n  ";
        char text[4096] = "";
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

        assert_true(n > 0);
        assert_memory_equal(text, expected, strlen(expected));
        assert_non_null(strstr(text, "the ID abcdef with"));
        assert_int_equal(text[n - 1], '\n');
        assert_null(strstr(text, "a detail"));
}

static void assert_empty(int fd) {
        assert_int_equal(lseek(fd, 0, SEEK_END), 0);
}

static void journal_alone_where_stderr_is_its_stream(void **state) {
        int stream = new_file();

        run(stream, stream, stream);
        assert_journal();
        assert_empty(stream);
        (void)close(stream);
}

static void journal_alone_where_stdout_is_another_stream(void **state) {
        int out = new_file(), err = new_file();

        run(out, err, err);
        assert_journal();
        assert_empty(out);
        assert_empty(err);
        (void)close(out);
        (void)close(err);
}

static void both_where_stdout_alone_is_its_stream(void **state) {
        int out = new_file(), err = new_file();

        run(out, err, out);
        assert_journal();
        assert_empty(out);
        assert_lines(err);
        (void)close(out);
        (void)close(err);
}

static void stderr_alone_without_a_journal(void **state) {
        int out = new_file(), err = new_file();

        run(out, err, -1);
        assert_int_equal(n_entries, 0);
        assert_empty(out);
        assert_lines(err);
        (void)close(out);
        (void)close(err);
}

/* A shell started by a service has this environment. */
static void stderr_alone_where_neither_is_the_stream(void **state) {
        int out = new_file(), err = new_file(), other = new_file();

        run(out, err, other);
        assert_int_equal(n_entries, 0);
        assert_empty(out);
        assert_lines(err);
        (void)close(out);
        (void)close(err);
        (void)close(other);
}

static void terminal_of_a_person_stays_as_it_is(void **state) {
        int out = new_file(), master, terminal;

        assert_int_equal(openpty(&master, &terminal, NULL, NULL, NULL), 0);
        run(out, terminal, -1);
        assert_int_equal(fcntl(terminal, F_GETFL) & O_NONBLOCK, 0);
        (void)close(out);
        (void)close(master);
        (void)close(terminal);
}

/* Otherwise each line that a join logs would block. */
static void stuck_console_holds_nothing_up(void **state) {
        int stream = new_file(), master, terminal;

        assert_int_equal(openpty(&master, &terminal, NULL, NULL, NULL), 0);
        run(stream, terminal, stream);
        for (unsigned i = 0; i < STUCK_LINES; i++)
                nb_log(LOG_INFO, NB_NONE,
                       "a line that nobody reads: %u, and it is as long as such lines are wont to "
                       "be",
                       i);
        assert_int_equal(n_entries, 3 + STUCK_LINES);
        assert_empty(stream);
        (void)close(stream);
        (void)close(master);
        (void)close(terminal);
}

static void slow_console_gets_every_byte(void **state) {
        static const char text[1024 * 1024];
        size_t seen = 0;
        char bytes[4096];
        int ends[2], status;
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        assert_int_equal(nb_console_init(ends[1]), 0);
        pid = fork();
        if (pid == 0)
                _exit(nb_console_write(ends[1], text, sizeof(text), 10000) != 0);
        (void)close(ends[1]);
        for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;)
                seen += (size_t)n;
        assert_int_equal(seen, sizeof(text));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        (void)close(ends[0]);
}

static void remedy_with(const char *endpoint, char *ret, size_t size) {
        FILE *stream = fmemopen(ret, size, "w");

        assert_non_null(stream);
        nb_log_field(NB_FIELD_ENDPOINT, "%s", endpoint);
        nb_log_print_text(stream,
                          "at @NODE_BOOTSTRAP_ENDPOINT@.\n    cmd "
                          "@NODE_BOOTSTRAP_ENDPOINT@/",
                          0, 0);
        nb_log_field(NB_FIELD_ENDPOINT, NULL);
        assert_int_equal(fclose(stream), 0);
}

/* `status` and `setup` take the values from the journal, where somebody who took `join` over can
 * write. */
static void remedy_is_no_command_of_somebody_else(void **state) {
        static const char *const good[] = { "10.0.0.1:6443", "[fd00::1]:6443",
                                            "kube-api.example.com:443" },
                                 *const bad[] = { "x;id",    "x$(id)",  "x`id`",
                                                  "x|id",    "x&id",    "x >/etc/passwd",
                                                  "x' id '", "x\"id\"", "x#",
                                                  "x\\" };
        char text[1024];

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                remedy_with(good[i], text, sizeof(text));
                assert_non_null(strstr(text, good[i]));
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                remedy_with(bad[i], text, sizeof(text));
                assert_null(strstr(text, bad[i]));
                assert_string_equal(text, "at <ENDPOINT>.\n    cmd <ENDPOINT>/\n");
        }
}

/* `systemctl status` of another unit shows what is logged for it, and a child that must not wait
 * for journald sends it nothing. */
static void entries_are_for_a_unit_until_the_journal_is_forgotten(void **state) {
        int stream = new_file();

        run(stream, stream, stream);
        assert_null(strstr(journal, "OBJECT_SYSTEMD_UNIT="));
        nb_log_object_unit("kubelet.service");
        nb_log(LOG_INFO, NB_NONE, "for kubelet");
        assert_non_null(strstr(journal, "OBJECT_SYSTEMD_UNIT=kubelet.service\n"));
        nb_log_object_unit(NULL);
        assert_empty(stream);
        nb_log_forget_journal();
        log_entries();
        assert_int_equal(n_entries, 4);
        assert_lines(stream);
        (void)close(stream);
}

/* A command with output of its own still has the fields. */
static void muted_log_writes_nothing(void **state) {
        int ends[2], status = 0;
        char text[64];
        pid_t pid;

        assert_int_equal(pipe(ends), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                (void)dup2(ends[1], STDERR_FILENO);
                nb_log_mute();
                nb_log_field(NB_FIELD_NODE, "a");
                nb_log(LOG_ERR, NB_NONE, "x");
                nb_log_status_of(NULL, 0, "x");
                _exit(strcmp(nb_field_value(NB_FIELD_NODE), "a") != 0);
        }
        (void)close(ends[1]);
        assert_int_equal(read(ends[0], text, sizeof(text)), 0);
        (void)close(ends[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static void fields_have_names(void **state) {
        assert_string_equal(nb_field_name(NB_FIELD_STAGE), "STAGE");
        assert_string_equal(nb_field_name(NB_FIELD_TLS_USEC), "TLS_USEC");
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                assert_non_null(nb_field_name(i));
}

/* Prose is wrapped, but not within a quoted command; a command never is. */
static void texts_are_wrapped(void **state) {
        static const char text[] = "one two three `four five six` seven\n"
                                   "    command that is longer than a line\nend";
        static const struct {
                size_t indent, columns;
                const char *expected;
        } rows[] = {
                { 0, 0,
                  "one two three `four five six` seven\n    command that is longer than a line\n"
                  "end\n" },
                { 2, 20,
                  "  one two three\n  `four five six`\n  seven\n"
                  "      command that is longer than a line\n  end\n" },
                { 2, 10,
                  "  one two\n  three\n  `four five six`\n  seven\n"
                  "      command that is longer than a line\n  end\n" },
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                char found[512] = "";
                FILE *stream = fmemopen(found, sizeof(found), "w");

                assert_non_null(stream);
                nb_log_print_text(stream, text, rows[i].indent, rows[i].columns);
                assert_int_equal(fclose(stream), 0);
                assert_string_equal(found, rows[i].expected);
        }
}

/* A remedy may differ for the kind of cluster. */
static void remedies_are_printed(void **state) {
        for (unsigned i = NB_NONE + 1; nb_failure_info(i) && nb_failure_info(i)->slug; i++) {
                char text[8192] = "";
                FILE *stream = fmemopen(text, sizeof(text), "w");

                assert_non_null(stream);
                nb_log_print_remedy(stream, i, 0, 0);
                assert_int_equal(fclose(stream), 0);
                assert_null(strstr(text, "@NODE_BOOTSTRAP"));
                if (i == NB_KUBELET_DOWN) {
                        assert_non_null(strstr(text, "systemctl restart kubelet.service"));
                        break;
                }
        }
}

/* The last line of a program that keeps running. */
static void assert_last_line(int fd, const char *pattern) {
        char text[8192] = "", *line;

        assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
        text[strlen(text) - 1] = '\0';
        line = strrchr(text, '\n');
        if (fnmatch(pattern, line ? line + 1 : text, 0) != 0)
                fail_msg("'%s' is not like '%s'", line ? line + 1 : text, pattern);
}

#define TIME "[0-9][0-9][0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"

static void lines_of_a_program_that_keeps_running_have_a_time(void **state) {
        int out = new_file(), err = new_file();

        run(out, err, -1);
        nb_log_stamp();
        nb_log(LOG_WARNING, NB_NONE, "late");
        assert_last_line(err, TIME " warning tester: late");
        nb_log(LOG_CRIT, NB_NONE, "worse");
        assert_last_line(err, TIME " error tester: worse");
        /* The journal has the time. */
        run(out, err, out);
        nb_log_stamp();
        nb_log(LOG_WARNING, NB_NONE, "late");
        assert_last_line(err, "tester: late");
        (void)close(out);
        (void)close(err);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(journal_alone_where_stderr_is_its_stream, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(journal_alone_where_stdout_is_another_stream, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(both_where_stdout_alone_is_its_stream, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(stderr_alone_without_a_journal, setup, teardown),
                cmocka_unit_test_setup_teardown(stderr_alone_where_neither_is_the_stream, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(
                        entries_are_for_a_unit_until_the_journal_is_forgotten, setup, teardown),
                cmocka_unit_test_setup_teardown(terminal_of_a_person_stays_as_it_is, setup,
                                                teardown),
                cmocka_unit_test_setup_teardown(stuck_console_holds_nothing_up, setup, teardown),
                cmocka_unit_test(slow_console_gets_every_byte),
                cmocka_unit_test_setup_teardown(lines_of_a_program_that_keeps_running_have_a_time,
                                                setup, teardown),
                cmocka_unit_test(remedy_is_no_command_of_somebody_else),
                cmocka_unit_test(muted_log_writes_nothing),
                cmocka_unit_test(fields_have_names),
                cmocka_unit_test(texts_are_wrapped),
                cmocka_unit_test(remedies_are_printed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
