/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/buffer.h"
#include "format/metadata_document.h"

#include "case.h"

#define KEY "node-bootstrap-token"

struct secret_case {
        const char *name;
        const char *json;
        int r;             /* 1, 0, or -1 for any failure */
        const char *value; /* or a part of why it failed */
};

static struct secret_case tags[] = {
        { "no tag", "[]", 0, "" },
        { "the tag", "[{\"name\":\"a\",\"value\":\"b\"},{\"name\":\"" KEY "\",\"value\":\"abc\"}]", 1, "abc" },
        { "another tag", "[{\"name\":\"" KEY "2\",\"value\":\"abc\"},{\"name\":\"NODE-BOOTSTRAP-TOKEN\",\"value\":\"abc\"}]", 0, "" },
        { "a tag without a name", "[{\"value\":\"abc\"}]", 0, "" },
        { "an empty value", "[{\"name\":\"" KEY "\",\"value\":\"\"}]", 0, "" },
        { "no value", "[{\"name\":\"" KEY "\"}]", 0, "" },
        { "the first of two", "[{\"name\":\"" KEY "\",\"value\":\"1st\"},{\"name\":\"" KEY "\",\"value\":\"2nd\"}]", 1, "1st" },
        { "a number for a value", "[{\"name\":\"" KEY "\",\"value\":1}]", -1, "tags[0].value" },
        { "no list", "{\"name\":\"" KEY "\",\"value\":\"abc\"}", -1, "tags" },
        { "no JSON", "<html>", -1, "the tags" },
        { "nothing", "", -1, "the tags" },
        { "a way out of the list", "[]}{", -1, "the tags" },
};

static struct secret_case items[] = {
        { "no metadata", "{\"uuid\":\"1\"}", 0, "" },
        { "the item", "{\"meta\":{\"" KEY "\":\"abc\",\"a\":\"b\"}}", 1, "abc" },
        { "another item", "{\"meta\":{\"a\":\"b\"},\"" KEY "\":\"abc\"}", 0, "" },
        { "an empty item", "{\"meta\":{\"" KEY "\":\"\"}}", 0, "" },
        { "a list for an item", "{\"meta\":{\"" KEY "\":[]}}", -1, "meta.node-bootstrap-token" },
        { "no object", "[]", -1, "the tags" },
        { "the same item twice", "{\"meta\":{\"" KEY "\":\"a\",\"" KEY "\":\"b\"}}", -1, "the tags" },
};

static void check_secret(const struct secret_case *c, int r, const struct nb_secret *secret, const struct nb_failure *f) {
        if (c->r < 0) {
                assert_true(r < 0);
                assert_int_equal(f->code, NB_METADATA_MALFORMED);
                assert_non_null(strstr(f->detail, c->value));
                assert_null(strstr(f->detail, "abc"));
                assert_null(secret->data);
                return;
        }
        assert_int_equal(r, c->r);
        assert_string_equal(secret->data ? secret->data : "", c->value);
}

static void a_tag(void **state) {
        const struct secret_case *c = *state;
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        check_secret(c, nb_metadata_tag(c->json, strlen(c->json), "the tags", KEY, &secret, &f), &secret, &f);
        nb_secret_done(&secret);
}

static void an_item(void **state) {
        const struct secret_case *c = *state;
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        check_secret(c, nb_metadata_item(c->json, strlen(c->json), "the tags", KEY, &secret, &f), &secret, &f);
        nb_secret_done(&secret);
}

static void too_many_tags(void **state) {
        struct nb_buffer list = NB_BUFFER_INIT(100000);
        struct nb_secret secret = NB_SECRET_INIT;
        struct nb_failure f = { 0 };

        for (size_t i = 0; i < NB_METADATA_TAGS_MAX; i++)
                assert_int_equal(nb_buffer_append_string(&list, i ? ",{\"name\":\"a\"}" : "[{\"name\":\"a\"}"), 0);
        assert_int_equal(nb_buffer_append_string(&list, ",{\"name\":\"" KEY "\",\"value\":\"abc\"}]"), 0);
        assert_int_equal(nb_metadata_tag(list.data, list.len, "the tags", KEY, &secret, &f), -E2BIG);
        assert_non_null(strstr(f.detail, "257 tags"));
        nb_buffer_done(&list);
}

struct text_case {
        const char *name;
        const char *text;
        int r;
        const char *value;
};

static struct text_case seeds[] = {
        { "nothing", "", 0, "" },
        { "a comment", "# nothing\n", 0, "" },
        { "local-hostname", "instance-id: i1\nlocal-hostname: node-1\n", 1, "node-1" },
        { "hostname", "hostname: node-2\n", 1, "node-2" },
        { "local-hostname is stronger", "hostname: a\nlocal-hostname: b\n", 1, "b" },
        { "JSON, which is YAML", "{\"local-hostname\": \"node-3\"}", 1, "node-3" },
        { "null is nothing", "local-hostname: null\nhostname:\n", 0, "" },
        { "a list", "local-hostname: [a]\n", -1, "local-hostname: expected a name" },
        { "longer than there is room", "local-hostname: abcdefghijklmnop\n", -1, "less than 16 characters" },
        { "no mapping", "node-1\n", -1, "expected a mapping" },
        { "no YAML", "local-hostname: [\n", -1, "" },
};

static void a_seed(void **state) {
        const struct text_case *c = *state;
        struct nb_failure f = { 0 };
        char name[16] = "";
        int r;

        r = nb_metadata_seed_name(c->text, strlen(c->text), "meta-data", name, sizeof(name), &f);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        if (r < 0) {
                assert_int_equal(f.code, NB_METADATA_MALFORMED);
                assert_non_null(strstr(f.detail, "meta-data"));
                assert_non_null(strstr(f.detail, c->value));
        } else
                assert_string_equal(name, c->value);
}

static struct text_case leases[] = {
        { "nothing", "", -1, "" },
        { "networkd's", "# This is private data.\nADDRESS=10.1.1.5\nNETMASK=255.255.255.0\nSERVER_ADDRESS=10.1.1.1\nT1=1\n", 0, "10.1.1.1" },
        { "without a last line break", "SERVER_ADDRESS=10.1.1.1", 0, "10.1.1.1" },
        { "dhclient's", "lease {\n  interface \"eth0\";\n  option dhcp-server-identifier 10.1.1.1;\n}\n", 0, "10.1.1.1" },
        { "the last of dhclient's", "  option dhcp-server-identifier 10.1.1.1;\n  option dhcp-server-identifier 10.1.1.2;\n", 0, "10.1.1.2" },
        { "without a semicolon", "  option dhcp-server-identifier 10.1.1.1\n", -1, "" },
        { "another option", "  option routers 10.1.1.1;\n", -1, "" },
        { "another key", "XSERVER_ADDRESS=10.1.1.1\n", -1, "" },
        { "a name", "SERVER_ADDRESS=metadata\n", -1, "" },
        { "a name that begins with figures", "SERVER_ADDRESS=10.1.1.1.evil\n", -1, "" },
        { "a path behind it", "SERVER_ADDRESS=10.1.1.1/x\n", -1, "" },
        { "a port behind it", "SERVER_ADDRESS=10.1.1.1:81\n", -1, "" },
        { "octal", "SERVER_ADDRESS=010.1.1.1\n", -1, "" },
        { "IPv6", "SERVER_ADDRESS=fe80::1\n", -1, "" },
        { "this machine", "SERVER_ADDRESS=127.0.0.1\n", -1, "" },
        { "nobody", "SERVER_ADDRESS=0.0.0.0\n", -1, "" },
        { "many", "SERVER_ADDRESS=224.0.0.1\n", -1, "" },
        { "everybody", "SERVER_ADDRESS=255.255.255.255\n", -1, "" },
        { "a carriage return", "SERVER_ADDRESS=10.1.1.1\r\n", -1, "" },
};

static void a_lease(void **state) {
        const struct text_case *c = *state;
        char address[NB_LEASE_ADDRESS_SIZE] = "";

        assert_int_equal(nb_metadata_lease_server(c->text, strlen(c->text), address), c->r < 0 ? -ENOENT : 0);
        assert_string_equal(address, c->value);
}

int main(void) {
        CASES(tags, a_tag);
        CASE(too_many_tags);
        CASES(items, an_item);
        CASES(seeds, a_seed);
        CASES(leases, a_lease);
        return case_run("format/metadata_document");
}
