/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/policy/address.h"
#include "admin/policy/data_fields.h"
#include "case.h"

struct address_case {
        const char *name, *text;
        bool is_valid, is_special;
};

static struct address_case addresses[] = {
        { "address: IPv4", "10.0.0.1", true, false },
        { "address: IPv6", "fd00::1", true, false },
        { "address: unspecified", "0.0.0.0", true, true },
        { "address: unspecified IPv6", "::", true, true },
        { "address: this network", "0.1.2.3", true, true },
        { "address: loopback", "127.0.0.1", true, true },
        { "address: another loopback", "127.255.0.1", true, true },
        { "address: loopback IPv6", "::1", true, true },
        { "address: mapped loopback", "::ffff:127.0.0.1", true, true },
        { "address: mapped, written in hexadecimal", "::ffff:7f00:1", true, true },
        { "address: link-local, the metadata service", "169.254.169.254", true, true },
        { "address: link-local IPv6", "fe80::1", true, true },
        { "address: the end of link-local IPv6", "febf::1", true, true },
        { "address: behind link-local IPv6", "fec0::1", true, false },
        { "address: multicast", "239.1.1.1", true, true },
        { "address: multicast IPv6", "ff02::1", true, true },
        { "address: broadcast", "255.255.255.255", true, true },
        { "address: with a zone", "fe80::1%eth0", false, false },
        { "address: three parts", "10.0.1", false, false },
        { "address: octal", "010.0.0.1", false, false },
        { "address: with a port", "10.0.0.1:443", false, false },
        { "address: a name", "node1", false, false },
        { "address: nothing", "", false, false },
};

static void folds_address(void **state) {
        const struct address_case *c = *state;
        char host[NB_HOST_SIZE];

        assert_int_equal(nb_host_fold(c->text, host) >= 0 && nb_host_is_address(host), c->is_valid);
        if (c->is_valid)
                assert_int_equal(nb_hosts_contain(NB_SPECIAL_PREFIXES, host), c->is_special);
}

static void mapped_is_the_same(void **state _unused_) {
        char a[NB_HOST_SIZE], b[NB_HOST_SIZE];

        assert_int_equal(nb_host_fold("10.0.0.1", a), 0);
        assert_int_equal(nb_host_fold("::ffff:a00:1", b), 0);
        assert_string_equal(a, b);
        assert_int_equal(nb_host_fold("::a00:1", b), 0);
        assert_string_not_equal(a, b);
}

static void finds_a_host(void **state _unused_) {
        static const char list[] = "10.0.0.5,A.example.org";

        assert_true(nb_hosts_contain(list, "::ffff:10.0.0.5"));
        assert_true(nb_hosts_contain(list, "a.example.org"));
        assert_false(nb_hosts_contain(list, "example.org"));
        assert_true(nb_hosts_contain("10.0.0.0/8", "::ffff:10.0.0.5"));
        assert_false(nb_hosts_contain("", "a"));
        assert_true(nb_hosts_contain("10.96.0.0/12", "10.96.0.0/16"));
        assert_false(nb_hosts_contain("10.96.0.0/16", "10.96.0.0/12"));
}

#define INVALID (-1)

struct prefix_case {
        const char *name, *prefixes, *address;
        int expected; /* whether it is contained, or INVALID */
};

static struct prefix_case prefixes[] = {
        { "prefix: within", "10.0.0.0/8", "10.255.0.1", 1 },
        { "prefix: outside", "10.0.0.0/8", "11.0.0.1", 0 },
        { "prefix: bits within a byte", "10.96.0.0/12", "10.111.255.255", 1 },
        { "prefix: bits outside within a byte", "10.96.0.0/12", "10.112.0.0", 0 },
        { "prefix: one address", "10.0.0.5/32", "10.0.0.5", 1 },
        { "prefix: another address", "10.0.0.5/32", "10.0.0.4", 0 },
        { "prefix: all of IPv4", "0.0.0.0/0", "203.0.113.9", 1 },
        { "prefix: all of IPv4 has no IPv6", "0.0.0.0/0", "fd00::1", 0 },
        { "prefix: all of IPv6 has no IPv4", "::/0", "10.0.0.1", 0 },
        { "prefix: all of IPv6", "::/0", "fd00::1", 1 },
        { "prefix: the second one", "10.0.0.0/8,fd00::/8", "fd12::1", 1 },
        { "prefix: a mapped address", "10.0.0.0/8", "::ffff:10.0.0.1", 1 },
        { "prefix: written as mapped", "::ffff:10.0.0.0/104", "10.0.0.1", 1 },
        { "prefix: no length", "10.0.0.0", "10.0.0.1", INVALID },
        { "prefix: an empty length", "10.0.0.0/", "10.0.0.1", INVALID },
        { "prefix: a length with a sign", "10.0.0.0/+8", "10.0.0.1", INVALID },
        { "prefix: a length with a leading zero", "10.0.0.0/08", "10.0.0.1", INVALID },
        { "prefix: too long", "10.0.0.0/33", "10.0.0.1", INVALID },
        { "prefix: too long for IPv6", "fd00::/129", "fd00::1", INVALID },
        { "prefix: an enormous length", "10.0.0.0/4294967304", "10.0.0.1", INVALID },
        { "prefix: bits behind the length", "10.0.0.1/8", "10.0.0.1", INVALID },
        { "prefix: an empty item", "10.0.0.0/8,", "10.0.0.1", INVALID },
        { "prefix: nothing", "", "10.0.0.1", INVALID },
        { "prefix: a space", "10.0.0.0/8, fd00::/8", "10.0.0.1", INVALID },
};

static void contains_address(void **state) {
        const struct prefix_case *c = *state;
        char address[NB_HOST_SIZE], item[NB_ITEM_SIZE];
        const char *list = c->prefixes;
        bool is_valid = true;

        assert_int_equal(nb_host_fold(c->address, address), 0);
        while (nb_list_next(&list, item))
                is_valid &= nb_prefix_is_exact(item);
        assert_int_equal(is_valid ? nb_hosts_contain(c->prefixes, address) : INVALID, c->expected);
}

/* In objects of Kubernetes. */
static void ignores_bits_behind_the_length(void **state _unused_) {
        assert_true(nb_hosts_contain("10.1.2.3/8", "::ffff:10.9.9.9"));
        assert_true(nb_hosts_contain("fd00::1/9", "fd7f::"));
        assert_false(nb_hosts_contain("fd00::1/9", "fd80::"));
}

int main(void) {
        CASES(addresses, folds_address);
        CASE(mapped_is_the_same);
        CASE(finds_a_host);
        CASES(prefixes, contains_address);
        CASE(ignores_bits_behind_the_length);
        return case_run("address");
}
