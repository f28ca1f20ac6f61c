/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/macro.h"
#include "connection.h"
#include "os/clock.h"
#include "os/landlock.h"

/* Without a network: the address is in a network for tests (RFC 5737). */
#define URL "https://192.0.2.1/"

static void begin_launcher(void) {
        struct nb_failure f = { 0 };

        assert_int_equal(nb_http_begin(true, &f), 0);
        assert_int_equal(nb_http_await_launcher(&f), 0);
        /* Neither waits twice. */
        assert_int_equal(nb_http_await_launcher(&f), 0);
        assert_int_equal(nb_http_begin(true, &f), 0);
}

static void expect_no_child(void) {
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
        assert_int_equal(errno, ECHILD);
}

static struct nb_http none = {
        .ca_fd = -1, .ca_later_fd = -1, .certificate_fd = -1, .proxy_ca_fd = -1
};

/* A worker is a child of this process, which ends with its socket. */
static void a_worker_is_started_and_ended(void **state) {
        pid_t pid;
        char byte;
        int fd, status;

        begin_launcher();
        assert_int_equal(nb_http_worker_start(&none, URL, &pid, &fd), 0);
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        status = nb_http_worker_end(pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGKILL);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        (void)close(fd);
        assert_int_equal(nb_http_worker_start(&none, URL, &pid, &fd), 0);
        (void)close(fd);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        nb_http_end();
        expect_no_child();
}

/* Nobody waits for its end, but it is reaped. */
static void a_killed_worker_is_reaped_later(void **state) {
        siginfo_t info = { 0 };
        pid_t pid;
        int fd;

        begin_launcher();
        assert_int_equal(nb_http_worker_start(&none, URL, &pid, &fd), 0);
        nb_http_worker_kill(pid);
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(info.si_status, SIGKILL);
        nb_http_workers_reap();
        assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
        (void)close(fd);
        assert_int_equal(nb_http_worker_start(&none, URL, &pid, &fd), 0);
        nb_http_worker_kill(pid);
        (void)close(fd);
        nb_http_end();
        expect_no_child();
        /* Without a launcher, it waits. */
        pid = fork();
        if (pid == 0)
                for (;;)
                        (void)pause();
        nb_http_worker_kill(pid);
        expect_no_child();
}

/* The worker, and the launcher, which is the only other child. */
static void all_are_dismissed(void **state) {
        struct fixture fixture;
        pid_t pid;

        begin(&fixture);
        pid = fixture.transfer->worker->pid;
        nb_http_dismiss(fixture.http);
        for (int i = 0; i < 2; i++) {
                siginfo_t info = { 0 };

                assert_int_equal(waitid(i == 0 ? P_PID : P_ALL, (id_t)pid, &info,
                                        WEXITED | (i == 0 ? WNOWAIT : 0)),
                                 0);
                assert_int_equal(info.si_code, CLD_KILLED);
                assert_int_equal(info.si_status, SIGKILL);
        }
        end(&fixture);
}

/* Of a worker that the parent no longer waits for. */
static void a_late_transfer_is_over(void **state) {
        struct nb_unverified unverified;
        struct nb_failure f = { 0 };
        struct fixture fixture;

        begin(&fixture);
        nb_http_transfer_fail_late(fixture.transfer);
        assert_true(fixture.transfer->is_done);
        assert_null(fixture.http->workers);
        assert_int_equal(nb_http_finish_unverified(fixture.transfer, &unverified, &f), -ETIMEDOUT);
        assert_string_equal(f.detail, "a test: no connection within 10 s");
        end(&fixture);
}

static size_t read_report(char *ret, size_t size) {
        FILE *file = tmpfile();
        int before = dup(STDERR_FILENO);
        size_t len;

        assert_non_null(file);
        assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
        nb_http_report_landlock();
        (void)fflush(stderr);
        assert_true(dup2(before, STDERR_FILENO) >= 0);
        (void)close(before);
        rewind(file);
        len = fread(ret, 1, size - 1, file);
        ret[len] = '\0';
        (void)fclose(file);
        return len;
}

/* Its absence is reported. */
static void landlock_is_looked_for(void **state) {
        char text[512];

        begin_launcher();
        assert_int_equal(nb_http_has_landlock(), nb_landlock_version() > 0);
        assert_int_equal(read_report(text, sizeof(text)) > 0, !nb_http_has_landlock());
        nb_http_end();
}

/* --- The sandbox --- */

enum check {
        FILES = 1,   /* opens a file */
        SOCKETS = 2, /* creates a socket */
        FORKS = 4,   /* makes a process */
        CREATES = 8, /* creates a file */
};

/* What a process can do in its sandbox. */
static int try_all(void) {
        int fd, result = 0;
        pid_t pid;

        fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
        result |= fd >= 0 ? FILES : 0;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        result |= fd >= 0 ? SOCKETS : 0;
        fd = open("/tmp/node-bootstrap-made-this", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        result |= fd >= 0 ? CREATES : 0;
        pid = fork();
        if (pid == 0)
                _exit(0);
        return result | (pid > 0 ? FORKS : 0);
}

static int run_in_sandbox(int n_steps, bool has_landlock) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
                static struct nb_http_filters filters;
                int r = nb_http_sandbox_prepare(&filters);

                if (r >= 0 && n_steps > 0)
                        r = nb_http_sandbox_begin(&filters, has_landlock);
                if (r >= 0 && n_steps > 1)
                        r = nb_http_sandbox_finish(&filters);
                _exit(r < 0 ? 255 : try_all());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void each_step_takes_more_away(void **state) {
        const bool has_landlock = nb_landlock_version() > 0;

        assert_int_equal(run_in_sandbox(0, false), FILES | SOCKETS | FORKS | CREATES);
        (void)unlink("/tmp/node-bootstrap-made-this");
        assert_int_equal(run_in_sandbox(1, false), FILES | SOCKETS);
        assert_int_equal(run_in_sandbox(2, false), FILES);
        if (!has_landlock) {
                /* It is not left out in silence. */
                assert_int_equal(run_in_sandbox(1, true), 255);
                return;
        }
        assert_int_equal(run_in_sandbox(1, true), SOCKETS);
        assert_int_equal(run_in_sandbox(2, true), 0);
}

static void a_resolver_reads_no_other_file(void **state) {
        struct nb_failure f = { 0 };
        int status;
        pid_t pid;

        assert_int_equal(nb_http_begin(true, &f), 0);
        pid = fork();
        if (pid == 0) {
                struct addrinfo *found = NULL;

                if (nb_http_confine_resolver() < 0 ||
                    getaddrinfo("localhost", NULL, NULL, &found) != 0)
                        _exit(255);
                _exit(try_all());
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), SOCKETS | (nb_http_has_landlock() ? 0 : FILES));
        nb_http_end();
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_worker_is_started_and_ended),
                cmocka_unit_test(a_killed_worker_is_reaped_later),
                cmocka_unit_test(all_are_dismissed),
                cmocka_unit_test(a_late_transfer_is_over),
                cmocka_unit_test(landlock_is_looked_for),
                cmocka_unit_test(each_step_takes_more_away),
                cmocka_unit_test(a_resolver_reads_no_other_file),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
