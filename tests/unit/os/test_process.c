/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/clock.h"
#include "os/process.h"

#define LARGE ((size_t)256 * 1024) /* more than a pipe holds */

static int run(const char *script, const void *input, size_t len, struct nb_secret *output,
               struct nb_process_result *result) {
        const char *const argv[] = { "sh", "-c", script, NULL };
        const struct nb_process process = { .argv = argv,
                                            .input = input,
                                            .input_len = len,
                                            .output = output,
                                            .timeout_ms = NB_PROCESS_TIMEOUT_MS };

        return nb_process_run(&process, result);
}

static void tells_status_and_last_line(void **state) {
        struct nb_process_result result;

        assert_int_equal(run("echo first >&2; echo last >&2; exit 3", NULL, 0, NULL, &result), 0);
        assert_int_equal(result.status, 3);
        assert_string_equal(result.error, "last");
        assert_int_equal(run("true", NULL, 0, NULL, &result), 0);
        assert_int_equal(result.status, 0);
        assert_string_equal(result.error, "");
        assert_int_equal(run("kill -KILL $$", NULL, 0, NULL, &result), 0);
        assert_int_equal(result.status, 128 + SIGKILL);
}

static void keeps_the_last_line_of_many(void **state) {
        struct nb_process_result result;

        assert_int_equal(run("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done",
                             NULL, 0, NULL, &result),
                         0);
        assert_string_equal(result.error, "line 1999");
}

/* The memory for error output is limited, and a program that writes more is not stopped. */
static void keeps_no_more_error_output_than_there_is_room_for(void **state) {
        struct nb_process_result result;

        assert_int_equal(run("head -c 100000 /dev/zero | tr '\\0' '\\n' >&2; echo last >&2; exit 3",
                             NULL, 0, NULL, &result),
                         0);
        assert_int_equal(result.status, 3);
        assert_string_equal(result.error, "");
}

static void passes_more_than_a_pipe_holds(void **state) {
        struct nb_secret input = NB_SECRET_INIT, output = NB_SECRET_INIT;
        struct nb_process_result result;

        assert_int_equal(nb_secret_init(&input, LARGE), 0);
        assert_int_equal(nb_secret_init(&output, LARGE), 0);
        memset(input.data, 'x', LARGE);
        input.len = LARGE;
        assert_int_equal(run("cat", input.data, input.len, &output, &result), 0);
        assert_int_equal(output.len, LARGE);
        assert_memory_equal(output.data, input.data, LARGE);
        nb_secret_done(&input);
        nb_secret_done(&output);
}

static void refuses_more_than_there_is_room_for(void **state) {
        struct nb_secret output = NB_SECRET_INIT;
        struct nb_process_result result;

        assert_int_equal(nb_secret_init(&output, 4), 0);
        assert_int_equal(run("printf 1234", NULL, 0, &output, &result), 0);
        assert_string_equal(output.data, "1234");
        output.len = 0;
        assert_int_equal(run("printf 12345; sleep 1000", NULL, 0, &output, &result), -E2BIG);
        nb_secret_done(&output);
}

static void survives_one_that_does_not_read(void **state) {
        static const char text[LARGE];
        struct nb_process_result result;

        assert_int_equal(run("exec <&-; exit 7", text, sizeof(text), NULL, &result), 0);
        assert_int_equal(result.status, 7);
}

static void knows_one_that_is_not_there(void **state) {
        static const char *const argv[] = { "node-bootstrap-has-no-such-program", NULL };
        struct nb_process_result result;

        assert_int_equal(nb_process_run(&(struct nb_process){ .argv = argv }, &result), -ENOENT);
}

/* What is blocked here, to be waited for by a descriptor, must not be so in the other program. */
static void gives_it_no_signal_mask_and_no_environment(void **state) {
        struct nb_secret output = NB_SECRET_INIT;
        struct nb_process_result result;
        sigset_t blocked;

        (void)sigemptyset(&blocked);
        (void)sigaddset(&blocked, SIGTERM);
        assert_int_equal(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
        assert_int_equal(setenv("NB_TEST", "1", 1), 0);
        assert_int_equal(nb_secret_init(&output, 4096), 0);
        assert_int_equal(run("grep SigBlk /proc/self/status; echo ${NB_TEST-unset}", NULL, 0,
                             &output, &result),
                         0);
        assert_string_equal(output.data, "SigBlk:\t0000000000000000\nunset\n");
        assert_int_equal(run("kill -PIPE $$", NULL, 0, NULL, &result), 0);
        assert_int_equal(result.status, 128 + SIGPIPE);
        nb_secret_done(&output);
}

/* Whatever it does, it is ended soon after its time limit, with what it has started. */
static void ends_what_takes_too_long(void **state) {
        static const char *const scripts[] = {
                "exec sleep 1000",
                "trap '' TERM; sleep 1000 & wait; sleep 1000",
                "exec >&- 2>&-; sleep 1000",
                "sleep 1000 & exec sleep 1000",
                "while :; do echo; sleep 0.05; done",
                /* In the process group of the test, which gets no signal. */
                "exec perl -e 'setpgrp(0, getpgrp(getppid())); sleep 1000'",
        };

        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
                const char *const argv[] = { "sh", "-c", scripts[i], NULL };
                uint64_t begin_ms = nb_now_ms();
                struct nb_process_result result;

                assert_int_equal(
                        nb_process_run(&(struct nb_process){ .argv = argv, .timeout_ms = 1000 },
                                       &result),
                        0);
                assert_int_equal(result.status, NB_PROCESS_LATE);
                assert_string_equal(result.error, "did not finish within 1 s");
                assert_true(nb_now_ms() - begin_ms < 60000);
        }
}

/* A person may take any time to answer, but the answer is complete when the output ends. */
static void limits_an_interactive_one_from_the_end_of_its_output(void **state) {
        static const char *const argv[] = { "sh", "-c",
                                            "sleep 0.5; echo x; exec >&-; exec sleep 1000", NULL };
        struct nb_secret output = NB_SECRET_INIT;
        struct nb_process_result result;

        assert_int_equal(nb_secret_init(&output, 64), 0);
        assert_int_equal(nb_process_run(&(struct nb_process){ .argv = argv,
                                                              .output = &output,
                                                              .timeout_ms = 200,
                                                              .is_interactive = true },
                                        &result),
                         0);
        assert_int_equal(result.status, NB_PROCESS_LATE);
        assert_string_equal(output.data, "x\n");
        nb_secret_done(&output);
}

/* What it has started may still have its output open. */
static void does_not_wait_for_a_grandchild(void **state) {
        struct nb_secret output = NB_SECRET_INIT;
        struct nb_process_result result;
        int pid;

        assert_int_equal(nb_secret_init(&output, 64), 0);
        assert_int_equal(run("sleep 1000 & echo $!", NULL, 0, &output, &result), 0);
        assert_int_equal(result.status, 0);
        pid = atoi(output.data);
        assert_true(pid > 1);
        assert_int_equal(kill(pid, SIGKILL), 0);
        nb_secret_done(&output);
}

static void knows_the_exit_status_even_if_sigchld_is_ignored(void **state) {
        struct nb_process_result result;

        (void)signal(SIGCHLD, SIG_IGN);
        assert_int_equal(run("exit 3", NULL, 0, NULL, &result), 0);
        assert_int_equal(result.status, 3);
}

static void stop_ends_both(void **state) {
        char ready[2];
        int pair[2], status;
        pid_t pid;

        assert_int_equal(pipe(pair), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                const char *const argv[] = { "sh", "-c", "trap '' TERM; echo >&2; sleep 1000",
                                             NULL };
                struct nb_process_result result;
                sigset_t none;

                (void)sigemptyset(&none);
                (void)sigprocmask(SIG_SETMASK, &none, NULL);
                (void)dup2(pair[1], STDERR_FILENO);
                (void)close(pair[0]);
                (void)close(pair[1]);
                (void)nb_process_run(&(struct nb_process){ .argv = argv, .is_error_passed = true },
                                     &result);
                _exit(1);
        }
        (void)close(pair[1]);
        assert_int_equal(read(pair[0], ready, 1), 1);
        assert_int_equal(kill(pid, SIGTERM), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
        /* Both have closed their standard error. */
        assert_int_equal(read(pair[0], ready, 1), 0);
        (void)close(pair[0]);
}

static void store(void *userdata) {
        /* Of the child alone. */
        *(int *)userdata = 1;
}

static void hang(void *userdata) {
        (void)signal(SIGTERM, SIG_IGN);
        for (;;)
                (void)pause();
}

static void end(void *userdata) {
        (void)raise(SIGKILL);
}

/* Whether it returns or is killed: the caller only wants to know that it did not hang. */
static void tries_in_another_process(void **state) {
        uint64_t begin_ms = nb_now_ms();
        int value = 0;

        assert_int_equal(nb_process_try(store, &value, NB_PROCESS_TIMEOUT_MS), 0);
        assert_int_equal(value, 0);
        assert_int_equal(nb_process_try(end, NULL, NB_PROCESS_TIMEOUT_MS), 0);
        assert_int_equal(nb_process_try(hang, NULL, 50), -ETIMEDOUT);
        assert_true(nb_now_ms() - begin_ms < NB_PROCESS_TIMEOUT_MS);
        /* One that SIGKILL ends is soon gone. */
        while (nb_process_count_left() > 0)
                (void)poll(NULL, 0, 1);
        assert_int_equal(waitpid(-1, NULL, 0), -1);
}

/* As many as nb_process_try() leaves itself, each of which uses up a part of TasksMax=. */
static void starts_none_beside_many_of_earlier_runs(void **state) {
        nb_process_note_left(7);
        assert_int_equal(nb_process_try(end, NULL, NB_PROCESS_TIMEOUT_MS), 0);
        nb_process_note_left(8);
        assert_int_equal(nb_process_try(end, NULL, NB_PROCESS_TIMEOUT_MS), -ETIMEDOUT);
        assert_int_equal(nb_process_count_left(), 0);
        nb_process_note_left(0);
        assert_int_equal(nb_process_try(end, NULL, NB_PROCESS_TIMEOUT_MS), 0);
}

static void speak(void *userdata) {
        assert_true(write(STDOUT_FILENO, "x", 1) == 1);
}

/* A reader would wait for a process that hangs. */
static void gives_no_stream_to_another_process(void **state) {
        int pair[2], saved = dup(STDOUT_FILENO), r;
        char text;

        assert_true(saved >= 0 && pipe(pair) == 0);
        assert_true(dup2(pair[1], STDOUT_FILENO) == STDOUT_FILENO);
        r = nb_process_try(speak, NULL, NB_PROCESS_TIMEOUT_MS);
        assert_true(dup2(saved, STDOUT_FILENO) == STDOUT_FILENO);
        (void)close(saved);
        (void)close(pair[1]);
        assert_int_equal(r, 0);
        assert_int_equal(read(pair[0], &text, 1), 0);
        (void)close(pair[0]);
}

static void close_all_and_hang(void *userdata) {
        (void)close_range(0, UINT_MAX, 0);
        hang(userdata);
}

/* One that an attacker has taken over. */
static void does_not_wait_for_one_that_lives_on(void **state) {
        assert_int_equal(nb_process_try(close_all_and_hang, NULL, NB_PROCESS_TIMEOUT_MS), 0);
        assert_int_equal(waitpid(-1, NULL, 0), -1);
}

struct looking {
        int fd;
        bool *is_open; /* shared */
};

static void look(void *userdata) {
        const struct looking *looking = userdata;

        *looking->is_open = fcntl(looking->fd, F_GETFD) >= 0;
}

/* Such as the channel to the service. */
static void gives_no_descriptor_to_another_process(void **state) {
        bool *is_open = mmap(NULL, sizeof(*is_open), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        struct looking looking = { fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 50), is_open };

        assert_true(is_open != MAP_FAILED && looking.fd >= 0);
        *is_open = true;
        assert_int_equal(nb_process_try(look, &looking, NB_PROCESS_TIMEOUT_MS), 0);
        assert_false(*is_open);
        (void)close(looking.fd);
        (void)munmap(is_open, sizeof(*is_open));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(tells_status_and_last_line),
                cmocka_unit_test(tries_in_another_process),
                cmocka_unit_test(starts_none_beside_many_of_earlier_runs),
                cmocka_unit_test(gives_no_stream_to_another_process),
                cmocka_unit_test(gives_no_descriptor_to_another_process),
                cmocka_unit_test(does_not_wait_for_one_that_lives_on),
                cmocka_unit_test(keeps_the_last_line_of_many),
                cmocka_unit_test(keeps_no_more_error_output_than_there_is_room_for),
                cmocka_unit_test(passes_more_than_a_pipe_holds),
                cmocka_unit_test(refuses_more_than_there_is_room_for),
                cmocka_unit_test(survives_one_that_does_not_read),
                cmocka_unit_test(knows_one_that_is_not_there),
                cmocka_unit_test(gives_it_no_signal_mask_and_no_environment),
                cmocka_unit_test(ends_what_takes_too_long),
                cmocka_unit_test(limits_an_interactive_one_from_the_end_of_its_output),
                cmocka_unit_test(does_not_wait_for_a_grandchild),
                cmocka_unit_test(knows_the_exit_status_even_if_sigchld_is_ignored),
                cmocka_unit_test(stop_ends_both),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
