/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/stop.h"
#include "prover/prover.h"

static uint64_t now_ms;

uint64_t __wrap_nb_now_ms(void);
int __wrap_nb_stop_poll(struct pollfd *polls, nfds_t n, uint64_t ms);

uint64_t __wrap_nb_now_ms(void) {
        return now_ms;
}

/* Nothing to read, until the end. */
int __wrap_nb_stop_poll(struct pollfd *polls, nfds_t n, uint64_t ms) {
        now_ms += ms;
        return 0;
}

/* The prover hangs: asked at `begun_ms`, given up at `end_ms`. */
static void ask_silent_prover(uint64_t begun_ms, uint64_t deadline_ms, uint64_t end_ms,
                              struct nb_failure *f) {
        struct nb_buffer request = NB_BUFFER_INIT(64);
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        nb_buffer_append_string(&request, "request");
        now_ms = begun_ms;
        assert_true(nb_prover_ask(pair[0], deadline_ms, &request, f) < 0);
        assert_int_equal(now_ms, end_ms);
        assert_int_equal(f->code, NB_PROVER_UNAVAILABLE);
        nb_buffer_done(&request);
        assert_int_equal(close(pair[0]), 0);
        assert_int_equal(close(pair[1]), 0);
}

static void a_prover_that_hangs_is_given_up(void **state) {
        struct nb_failure f = { 0 };

        ask_silent_prover(1000, NB_TIME_INFINITE, 1000 + NB_PROVER_ANSWER_MS, &f);
        assert_int_equal(nb_failure_class(&f), NB_CLASS_WAIT);
        assert_false(f.is_cut_short);
}

static void not_after_the_deadline(void **state) {
        struct nb_failure f = { 0 };

        ask_silent_prover(1000, 5000, 5000, &f);
        assert_true(f.is_cut_short);
        assert_false(f.is_temporary);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(a_prover_that_hangs_is_given_up),
                cmocka_unit_test(not_after_the_deadline),
        };

        return cmocka_run_group_tests_name("prover_client", tests, NULL, NULL);
}
