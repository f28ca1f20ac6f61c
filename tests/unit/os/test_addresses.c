/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/macro.h"
#include "os/addresses.h"

static const char table[] = "Main:\n"
                            "  +-- 0.0.0.0/0 3 0 5\n"
                            "     |-- 0.0.0.0\n"
                            "        /0 universe UNICAST\n"
                            "     +-- 127.0.0.0/8 2 0 2\n"
                            "        |-- 127.0.0.1\n"
                            "           /32 host LOCAL\n"
                            "     +-- 10.77.0.0/24 2 0 2\n"
                            "        |-- 10.77.0.0\n"
                            "           /24 link UNICAST\n"
                            "        |-- 10.77.0.11\n"
                            "           /32 host LOCAL\n"
                            "        |-- 10.77.0.255\n"
                            "           /32 link BROADCAST\n"
                            "     |-- 169.254.7.7\n"
                            "        /32 host LOCAL\n"
                            "     |-- 10.96.0.1\n"
                            "        /32 link UNICAST\n"
                            "Local:\n"
                            "        |-- 10.77.0.11\n"
                            "           /32 host LOCAL\n"
                            "        |-- 10.77.0.110\n"
                            "           /32 host LOCAL";

static void finds_ipv4_addresses(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer lines = NB_BUFFER_INIT(NB_ADDRESSES_MAX);

        nb_addresses_parse_v4(table, &lines);
        assert_string_equal(lines.data, "10.77.0.11\n10.77.0.110\n");
        assert_true(nb_addresses_contain(&lines, "10.77.0.11"));
        assert_true(nb_addresses_contain(&lines, "10.77.0.110"));
        assert_false(nb_addresses_contain(&lines, "10.77.0.1"));
        assert_false(nb_addresses_contain(&lines, "0.77.0.110"));
}

static void finds_ipv6_addresses(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer lines = NB_BUFFER_INIT(NB_ADDRESSES_MAX);

        nb_addresses_parse_v6("00000000000000000000000000000001 01 80 10 80       lo\n"
                              "fd000000000000000000000000000002 04 40 00 82     eth0\n"
                              "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n"
                              "fd00\n",
                              &lines);
        assert_string_equal(lines.data, "fd00::2\n");
}

static void reads_no_address_from_other_text(void **state) {
        static const char *const texts[] = {
                "",
                "\n\n",
                "/32 host LOCAL",
                "|-- \n/32 host LOCAL\n",
                "|-- 10.77.0.11.10.77.0.11.10.77.0.11\n/32 host LOCAL\n",
                "|-- node-1\n/32 host LOCAL\n",
                "|-- 10.77.0.11\n/32 host LOCAL and more\n",
        };

        for (size_t i = 0; i < N_ELEMENTS(texts); i++) {
                _cleanup_(nb_buffer_done) struct nb_buffer lines = NB_BUFFER_INIT(NB_ADDRESSES_MAX);

                nb_addresses_parse_v4(texts[i], &lines);
                nb_addresses_parse_v6(texts[i], &lines);
                assert_int_equal(lines.len, 0);
                assert_false(nb_addresses_contain(&lines, ""));
        }
}

static void reads_those_of_this_machine(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer lines = NB_BUFFER_INIT(NB_ADDRESSES_MAX);

        assert_int_equal(nb_addresses_read(&lines), 0);
        assert_false(nb_addresses_contain(&lines, "127.0.0.1"));
}

int main(void) {
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(finds_ipv4_addresses),
                cmocka_unit_test(finds_ipv6_addresses),
                cmocka_unit_test(reads_no_address_from_other_text),
                cmocka_unit_test(reads_those_of_this_machine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
