/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "os/clock.h"
#include "os/stop.h"

#define LONG_MS 60000

static const int stops[] = { SIGTERM, SIGINT };

/* It lasts: whoever waits next is also told. */
static void ends_each_wait_at_once(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(stops); i++) {
                assert_int_equal(nb_stop_init(), 0);
                assert_int_equal(nb_stop_wait(0), 0);
                assert_int_equal(raise(stops[i]), 0);
                assert_int_equal(nb_stop_wait(LONG_MS), -ECANCELED);
                assert_int_equal(nb_stop_wait(LONG_MS), -ECANCELED);
                nb_stop_forget();
                assert_int_equal(nb_stop_wait(0), 0);
                nb_stop_end();
        }
}

static void waits_for_its_time(void **state) {
        uint64_t begin_ms = nb_now_ms();

        assert_int_equal(nb_stop_init(), 0);
        assert_int_equal(nb_stop_init(), 0);
        assert_int_equal(nb_stop_wait(20), 0);
        assert_true(nb_now_ms() >= begin_ms + 20);
        nb_stop_end();
        nb_stop_end();
}

static void polls_other_descriptors(void **state) {
        struct pollfd polls[2] = { 0 };
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        assert_int_equal(nb_stop_init(), 0);
        polls[1] = (struct pollfd){ .fd = ends[0], .events = POLLIN };
        assert_int_equal(nb_stop_poll(polls, 2, 0), 0);
        assert_int_equal(polls[1].revents, 0);
        assert_int_equal(write(ends[1], "x", 1), 1);
        assert_int_equal(nb_stop_poll(polls, 2, UINT64_MAX), 0);
        assert_int_equal(polls[1].revents, POLLIN);
        assert_int_equal(raise(SIGTERM), 0);
        assert_int_equal(nb_stop_poll(polls, 2, LONG_MS), -ECANCELED);
        nb_stop_forget();
        nb_stop_end();
        (void)close(ends[0]);
        (void)close(ends[1]);
}

/* A stop request that arrived before the end still ends the process. */
static void is_undone(void **state) {
        int status = 0;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
                if (nb_stop_init() < 0 || raise(SIGTERM) != 0)
                        _exit(1);
                nb_stop_end();
                _exit(2);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGTERM);
}

int main(void) {
        CASE(ends_each_wait_at_once);
        CASE(waits_for_its_time);
        CASE(polls_other_descriptors);
        CASE(is_undone);
        return case_run("system stop");
}
