/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macro.h"
#include "base/text.h"
#include "case.h"
#include "os/stop.h"
#include "state_files/found_metadata.h"

static int pair[2];

static int set_up(void **state) {
        return socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair);
}

static int tear_down(void **state) {
        (void)close(pair[0]);
        return close(pair[1]);
}

static void found_comes_through(void **state) {
        _cleanup_(nb_found_done) struct nb_found sent = NB_FOUND_INIT;
        _cleanup_(nb_found_done) struct nb_found found = NB_FOUND_INIT;

        sent.provider = NB_PROVIDER_AWS;
        assert_int_equal(nb_secret_copy(&sent.document, "text", 4), 0);
        assert_int_equal(nb_secret_copy(&sent.tokens.discovery, "first", 5), 0);
        assert_int_equal(nb_secret_copy(&sent.tokens.tls_bootstrap, "second", 6), 0);
        NB_TEXT_COPY(sent.tokens.discovery_origin, "here\x1b[2J");
        assert_int_equal(nb_found_receive(pair[1], &found), -EAGAIN);
        assert_int_equal(nb_found_send(pair[0], &sent), 0);
        assert_int_equal(nb_found_receive(pair[1], &found), 1);
        assert_int_equal(found.provider, NB_PROVIDER_AWS);
        assert_string_equal(found.document.data, "text");
        assert_string_equal(found.tokens.discovery.data, "first");
        assert_string_equal(found.tokens.tls_bootstrap.data, "second");
        assert_string_equal(found.tokens.discovery_origin, "here [2J");
        assert_int_equal(shutdown(pair[0], SHUT_RDWR), 0);
        assert_int_equal(nb_found_receive(pair[1], &found), 0);
}

static struct message_case {
        const char *name;
        uint32_t provider, document, discovery, tls;
        size_t len; /* of what follows the head */
        int r;
} messages[] = {
        { "nothing found", NB_PROVIDER_NONE, 0, 0, 0, 0, 1 },
        { "a document of the largest size", NB_PROVIDER_AWS, NB_SETTINGS_TEXT_MAX, 0, 0,
          NB_SETTINGS_TEXT_MAX, 1 },
        { "one byte more", NB_PROVIDER_AWS, NB_SETTINGS_TEXT_MAX + 1, 0, 0,
          NB_SETTINGS_TEXT_MAX + 1, -EBADMSG },
        { "a token of the largest size", NB_PROVIDER_AWS, 0, 4096, 0, 4096, 1 },
        { "a token that is larger", NB_PROVIDER_AWS, 0, 4097, 0, 4097, -EBADMSG },
        { "another token that is larger", NB_PROVIDER_AWS, 0, 0, 4097, 4097, -EBADMSG },
        { "no row of clouds.def", _NB_PROVIDER_N, 0, 0, 0, 0, -EBADMSG },
        { "no cloud", NB_PROVIDER_AUTO, 0, 0, 0, 0, -EBADMSG },
        { "less than announced", NB_PROVIDER_AWS, 8, 0, 0, 7, -EBADMSG },
        { "more than announced", NB_PROVIDER_AWS, 8, 0, 0, 9, -EBADMSG },
        { "lengths whose sum overflows", NB_PROVIDER_AWS, UINT32_MAX, 1, 0, 0, -EBADMSG },
};

static void message_is_parsed(void **state) {
        const struct message_case *c = *state;
        static char data[4 * sizeof(uint32_t) + 256 + NB_SETTINGS_TEXT_MAX + 16];
        const uint32_t head[] = { c->provider, c->document, c->discovery, c->tls };
        _cleanup_(nb_found_done) struct nb_found found = NB_FOUND_INIT;

        assert_int_equal(set_up(NULL), 0);
        /* The origins have no NUL. */
        memset(data, 'x', sizeof(data));
        memcpy(data, head, sizeof(head));
        assert_true(send(pair[0], data, sizeof(head) + 256 + c->len, 0) > 0);
        assert_int_equal(nb_found_receive(pair[1], &found), c->r);
        (void)tear_down(NULL);
}

static void head_is_cut(void **state) {
        _cleanup_(nb_found_done) struct nb_found found = NB_FOUND_INIT;

        assert_int_equal(send(pair[0], "abc", 3, 0), 3);
        assert_int_equal(nb_found_receive(pair[1], &found), -EBADMSG);
}

static void answer_comes_back(void **state) {
        struct nb_failure sent = { 0 }, f = { 0 };

        assert_int_equal(nb_stop_init(), 0);
        nb_found_answer(pair[1], &sent);
        assert_int_equal(nb_found_await_answer(pair[0], &f), 0);
        (void)nb_failure_set(&sent, NB_TOKEN_MISSING, ENOENT, "no token");
        nb_found_answer(pair[1], &sent);
        assert_int_equal(nb_found_await_answer(pair[0], &f), -ENOENT);
        assert_int_equal(f.code, NB_TOKEN_MISSING);
        assert_string_equal(f.detail, "no token");
        f = (struct nb_failure){ 0 };
        assert_int_equal(shutdown(pair[1], SHUT_RDWR), 0);
        assert_true(nb_found_await_answer(pair[0], &f) < 0);
        assert_int_equal(f.code, NB_INTERNAL);
        nb_stop_end();
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        static const struct CMUnitTest tests[] = {
                TEST(found_comes_through),
                TEST(head_is_cut),
                TEST(answer_comes_back),
        };

        CASES(messages, message_is_parsed);
        return case_run("found metadata") + cmocka_run_group_tests(tests, NULL, NULL);
}
