/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "metadata/metadata_document.h"

#include "case.h"

struct secret_case {
        const char *name;
        const char *yaml;
        int r;             /* 1, 0, or -1 for any failure */
        const char *value; /* or a part of why it failed */
};

static struct secret_case seeds[] = {
        { "nothing", "", 0, "" },
        { "a comment", "# nothing\n", 0, "" },
        { "local-hostname", "instance-id: i1\nlocal-hostname: node-1\n", 1, "node-1" },
        { "hostname", "hostname: node-2\n", 1, "node-2" },
        { "local-hostname is stronger", "hostname: a\nlocal-hostname: b\n", 1, "b" },
        { "JSON, which is YAML", "{\"local-hostname\": \"node-3\"}", 1, "node-3" },
        { "null is nothing", "local-hostname: null\nhostname:\n", 0, "" },
        { "a list", "local-hostname: [a]\n", -1, "local-hostname: expected a name" },
        { "a list instead of a mapping", "node-1\n", -1, "expected a mapping" },
        { "invalid YAML", "local-hostname: [\n", -1, "the metadata" },
};

static void check_secret(const struct secret_case *c, int r, const struct nb_secret *secret,
                         const struct nb_failure *f) {
        if (c->r < 0) {
                assert_true(r < 0);
                assert_int_equal(f->code, NB_METADATA_MALFORMED);
                assert_non_null(strstr(f->detail, c->value));
                assert_null(secret->data);
                return;
        }
        assert_int_equal(r, c->r);
        assert_string_equal(secret->data ? secret->data : "", c->value);
}

static void reads_a_seed_name(void **state) {
        const struct secret_case *c = *state;
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        check_secret(c,
                     nb_metadata_seed_name(c->yaml, strlen(c->yaml), "the metadata", &secret, &f),
                     &secret, &f);
        nb_secret_done(&secret);
}

struct text_case {
        const char *name;
        const char *text;
        int r;
        const char *value;
};

static struct text_case leases[] = {
        { "nothing", "", -1, "" },
        { "systemd-networkd",
          "# This is private "
          "data.\nADDRESS=10.1.1.5\nNETMASK=255.255.255.0\nSERVER_ADDRESS=10.1.1.1\nT1=1\n",
          0, "10.1.1.1" },
        { "no newline at the end", "SERVER_ADDRESS=10.1.1.1", 0, "10.1.1.1" },
        { "dhclient",
          "lease {\n  interface \"eth0\";\n  option dhcp-server-identifier 10.1.1.1;\n}\n", 0,
          "10.1.1.1" },
        { "dhclient: the last address",
          "  option dhcp-server-identifier 10.1.1.1;\n  option dhcp-server-identifier 10.1.1.2;\n",
          0, "10.1.1.2" },
        { "without a semicolon", "  option dhcp-server-identifier 10.1.1.1\n", -1, "" },
        { "another option", "  option routers 10.1.1.1;\n", -1, "" },
        { "another key", "XSERVER_ADDRESS=10.1.1.1\n", -1, "" },
        { "a name", "SERVER_ADDRESS=metadata\n", -1, "" },
        { "a name that begins with an address", "SERVER_ADDRESS=10.1.1.1.evil\n", -1, "" },
        { "an address and a path", "SERVER_ADDRESS=10.1.1.1/x\n", -1, "" },
        { "an address and a port", "SERVER_ADDRESS=10.1.1.1:81\n", -1, "" },
        { "octal", "SERVER_ADDRESS=010.1.1.1\n", -1, "" },
        { "IPv6", "SERVER_ADDRESS=fe80::1\n", -1, "" },
        { "loopback", "SERVER_ADDRESS=127.0.0.1\n", -1, "" },
        { "0.0.0.0", "SERVER_ADDRESS=0.0.0.0\n", -1, "" },
        { "multicast", "SERVER_ADDRESS=224.0.0.1\n", -1, "" },
        { "broadcast", "SERVER_ADDRESS=255.255.255.255\n", -1, "" },
        { "a carriage return", "SERVER_ADDRESS=10.1.1.1\r\n", -1, "" },
};

static void reads_a_lease(void **state) {
        const struct text_case *c = *state;
        char address[NB_LEASE_ADDRESS_SIZE] = "";

        assert_int_equal(nb_metadata_lease_server(c->text, strlen(c->text), address),
                         c->r < 0 ? -ENOENT : 0);
        assert_string_equal(address, c->value);
}

int main(void) {
        CASES(seeds, reads_a_seed_name);
        CASES(leases, reads_a_lease);
        return case_run("format/metadata_document");
}
