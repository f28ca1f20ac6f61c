/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "admin/policy/address.h"

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

static void parses_address(void **state) {
        const struct address_case *c = *state;
        struct nb_address address;

        assert_int_equal(nb_address_parse(c->text, &address), c->is_valid ? 0 : -EINVAL);
        if (c->is_valid)
                assert_int_equal(nb_address_is_special(&address), c->is_special);
}

static void mapped_is_the_same(void **state _unused_) {
        struct nb_address a, b;

        assert_int_equal(nb_address_parse("10.0.0.1", &a), 0);
        assert_int_equal(nb_address_parse("::ffff:a00:1", &b), 0);
        assert_true(nb_address_is_equal(&a, &b));
        assert_int_equal(nb_address_parse("::a00:1", &b), 0);
        assert_false(nb_address_is_equal(&a, &b));
}

struct prefix_case {
        const char *name, *prefixes, *address;
        int expected; /* whether it is contained, or the error */
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
        { "prefix: no length", "10.0.0.0", "10.0.0.1", -EINVAL },
        { "prefix: an empty length", "10.0.0.0/", "10.0.0.1", -EINVAL },
        { "prefix: a length with a sign", "10.0.0.0/+8", "10.0.0.1", -EINVAL },
        { "prefix: a length with a leading zero", "10.0.0.0/08", "10.0.0.1", -EINVAL },
        { "prefix: too long", "10.0.0.0/33", "10.0.0.1", -EINVAL },
        { "prefix: too long for IPv6", "fd00::/129", "fd00::1", -EINVAL },
        { "prefix: an enormous length", "10.0.0.0/4294967304", "10.0.0.1", -EINVAL },
        { "prefix: bits behind the length", "10.0.0.1/8", "10.0.0.1", -EINVAL },
        { "prefix: an empty item", "10.0.0.0/8,", "10.0.0.1", -EINVAL },
        { "prefix: nothing", "", "10.0.0.1", -EINVAL },
        { "prefix: a space", "10.0.0.0/8, fd00::/8", "10.0.0.1", -EINVAL },
        { "prefix: one too many",
          "1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,"
          "1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,"
          "1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,"
          "1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,1.0.0.0/8,"
          "1.0.0.0/8",
          "1.0.0.1", -E2BIG },
};

static void contains_address(void **state) {
        const struct prefix_case *c = *state;
        struct nb_prefixes list;
        struct nb_address address;
        int r = nb_prefixes_parse(c->prefixes, &list);

        assert_int_equal(nb_address_parse(c->address, &address), 0);
        if (r == 0)
                r = nb_prefixes_contain(&list, &address);
        assert_int_equal(r, c->expected);
}

int main(void) {
        CASES(addresses, parses_address);
        CASE(mapped_is_the_same);
        CASES(prefixes, contains_address);
        return case_run("address");
}
