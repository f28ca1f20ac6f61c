/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connection.h"

static enum nb_code verify_nothing(const char *pem, size_t len, const char *ca, size_t ca_len,
                                   const char *host, char *ret_reason, size_t size) {
        return NB_TLS_UNTRUSTED;
}

/* A compromised worker repeats its messages. The process of the early connection can read the CAs,
 * but not write them. */
static void early_connection(void **state) {
        static const struct nb_http_reply connected = { .kind = NB_HTTP_CONNECTED },
                                          opened = { .kind = NB_HTTP_OPENED };
        const struct nb_http_trust trust = { .is_ca_later = true,
                                             .verify = verify_nothing,
                                             .tls_server_name = "",
                                             .proxy_url = "" };
        struct nb_http_request request = { .what = "a test", .max_body = 1 };
        struct nb_http_transfer *transfer;
        struct nb_failure f = { 0 };
        struct fixture fixture;
        struct nb_http *early;
        int fd;

        begin(&fixture);
        assert_int_equal(nb_http_new(&trust, &early, &f), 0);
        assert_int_equal(fcntl(early->ca_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
        fixture.transfer->early = early;
        fd = play_worker(fixture.transfer);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(send(fd, &connected, sizeof(connected), 0), sizeof(connected));
                nb_http_transfer_take_reply(fixture.transfer);
                assert_int_equal(send(fd, &opened, sizeof(opened), 0), sizeof(opened));
                nb_http_transfer_take_reply(fixture.transfer);
                assert_false(fixture.transfer->is_done);
        }
        assert_non_null(early->workers);
        assert_null(early->workers->next);
        assert_int_equal(nb_http_set_ca(early, "a CA", 4, &f), 0);
        assert_int_equal(fcntl(early->ca_fd, F_GET_SEALS) & F_SEAL_WRITE, F_SEAL_WRITE);
        request.url = fixture.url;
        assert_int_equal(nb_http_start(early, &request, &transfer, &f), 0);
        assert_ptr_equal(transfer->worker, early->workers);
        assert_null(early->workers->next);
        (void)close(fd);
        nb_http_free(early);
        end(&fixture);
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(early_connection),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
