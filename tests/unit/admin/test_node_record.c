/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "admin/policy/node_record.h"
#include "base/encoding.h"
#include "case.h"

#define KEY \
        "-----BEGIN PUBLIC KEY-----\n" \
        "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8EiAPpZbYLqGus/kSQesFkFvtR+1\n" \
        "+2ghDB8vaRJOW5+3jnUusLrmnBn2lDc7Kues5se44t9DyqCJX89bqYjgGQ==\n" \
        "-----END PUBLIC KEY-----\n"
#define KEY_P192 \
        "-----BEGIN PUBLIC KEY-----\n" \
        "MEkwEwYHKoZIzj0CAQYIKoZIzj0DAQEDMgAE71I6uj8BVNpztJCeI7robWTqjesb\n" \
        "NFDQhwMiI6s+3mUdq72hbo4DIIubTbTET7FE\n" \
        "-----END PUBLIC KEY-----\n"

/* One character more than a key may have. */
#define SIXTEEN(text) \
        text text text text text text text text text text text text text text text text
#define KEY_TOO_LONG SIXTEEN(SIXTEEN("-S3cret-of-16---")) "x"

/* What differs from a correct record of the node "a". */
static struct row {
        const char *name;
        const char *failure; /* NULL: it is read */
        const char *node;    /* NULL: "a" */
        const char *type;    /* NULL: the right one */
        const char *key;     /* NULL: KEY */
        const char *addresses, *dns_names, *removed;
        const char *more; /* further data, as JSON */
} rows[] = {
        { "a key alone" },
        { "a key, addresses and names", .addresses = "10.0.0.5,fd00::5",
          .dns_names = "a.example.org" },
        { "a tombstone", .key = "", .removed = "2026-12-01T00:00:00Z" },
        { "addresses after a removal", .key = "", .addresses = "10.0.0.5",
          .removed = "2026-12-01T00:00:00Z" },
        { "nothing that is enrolled",
          "data: expected publicKey, addresses or dnsNames, found nothing", .key = "" },
        { "empty lists", "data: expected publicKey, addresses or dnsNames", .key = "",
          .addresses = "", .dns_names = "" },
        { "the name of another node", "metadata.name: expected 'node-bootstrap-node-b'",
          .node = "b" },
        { "no node", "node: expected the name of a node", .node = "" },
        { "a node in capitals", "node: expected the name of a node", .node = "A" },
        { "another type", "type: expected 'node-bootstrap/enrolled-node'", .type = "Opaque" },
        { "no key", .key = "", .addresses = "10.0.0.5" },
        { "a key that is too weak", "publicKey: expected", .key = KEY_P192 },
        { "two keys", "publicKey: expected", .key = KEY KEY },
        { "a private key", "publicKey: expected",
          .key = "-----BEGIN PRIVATE KEY-----\nS3cret\n-----END PRIVATE KEY-----\n" },
        { "a text that is too long for a key", "data.publicKey: expected base64",
          .key = KEY_TOO_LONG },
        { "an address that is not one",
          "addresses: expected a list of addresses, found '10.0.0.5/24'",
          .addresses = "10.0.0.5/24" },
        { "a name among the addresses", "addresses: expected", .addresses = "10.0.0.5,a.example" },
        { "an empty entry", "addresses: expected", .addresses = "10.0.0.5," },
        { "a name in capitals", "dnsNames: expected", .dns_names = "A.example" },
        { "a pattern", "dnsNames: expected", .dns_names = "*.example" },
        { "a removal that is not complete", "removed: expected a time, found 'removing'",
          .removed = "removing" },
        { "a removal at no time", "removed: expected a time", .removed = "1970-01-01T00:00:00Z" },
        { "an unknown value",
          "data: expected node, removed, publicKey, addresses, dnsNames, found 'address'",
          .more = ",\"address\":\"MTAuMC4wLjU=\"" },
        { "a value that is not base64", "expected base64", .more = ",\"addresses\":\"?\"" },
};

static void put(struct nb_buffer *text, const char *key, const char *value) {
        if (!value)
                return;
        nb_buffer_printf(text, "%s\"%s\":\"", text->data[text->len - 1] == '{' ? "" : ",", key);
        nb_base64_encode(value, strlen(value), text);
        nb_buffer_append_string(text, "\"");
}

static struct nb_node_record record;

/* Reads a Secret into `record`; returns the failure. */
static const char *read_text(const char *text) {
        static struct nb_failure f;
        struct nb_json json;

        record = (struct nb_node_record){ 0 };
        f = (struct nb_failure){ 0 };
        json = nb_json_parse(text, strlen(text), "the Secret", NB_ANSWER_MALFORMED, &f);
        nb_node_record_read(&json, &record);
        assert_int_equal(json.r < 0, f.code != NB_NONE);
        nb_json_done(&json);
        return f.detail;
}

static void record_is_read(void **state) {
        const struct row *row = *state;
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        const char *failure;

        nb_buffer_printf(&text,
                         "{\"metadata\":{\"name\":\"node-bootstrap-node-a\",\"uid\":\"u\","
                         "\"resourceVersion\":\"7\"},\"type\":\"%s\",\"data\":{",
                         row->type ? row->type : NB_NODE_RECORD_TYPE);
        put(&text, "node", row->node ? row->node : "a");
        put(&text, "publicKey", row->key ? row->key : KEY);
        put(&text, "addresses", row->addresses);
        put(&text, "dnsNames", row->dns_names);
        put(&text, "removed", row->removed);
        nb_buffer_printf(&text, "%s}}", row->more ? row->more : "");
        failure = read_text(text.data);
        if (row->failure)
                assert_non_null(strstr(failure, row->failure));
        else
                assert_string_equal(failure, "");
        assert_string_equal(record.node, row->failure ? "" : "a");
        assert_string_equal(record.addresses,
                            row->failure || !row->addresses ? "" : row->addresses);
        assert_null(strstr(failure, "S3cret"));
        nb_buffer_done(&text);
}

/* What is written is what is read, also if the name is too long for a Secret. */
static void record_is_written(_unused_ void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(65536);
        static struct nb_node_record made = { .uid = "u", .resource_version = "7" };
        char name[NB_NODE_RECORD_NAME_SIZE];

        for (size_t i = 0; i < 247; i++)
                made.node[i] = i % 62 == 61 ? '.' : 'a';
        nb_node_record_name(made.node, name);
        assert_int_equal(strlen(name), strlen("node-bootstrap-node-") + 64);
        strcpy(made.public_key, KEY);
        assert_true(nb_node_record_set_names(&made, "10.0.0.5,fd00::5", true));
        assert_true(nb_node_record_set_names(&made, "a.example.org", false));
        assert_int_equal(nb_node_record_format(&made, &text), 0);
        assert_string_equal(read_text(text.data), "");
        assert_string_equal(record.node, made.node);
        assert_string_equal(record.public_key, KEY);
        assert_int_equal(record.removed, 0);
        assert_string_equal(record.addresses, "10.0.0.5,fd00::5");
        assert_string_equal(record.dns_names, "a.example.org");

        nb_buffer_clear(&text);
        strcpy(made.removed_text, "2026-12-01T00:00:00Z");
        assert_int_equal(nb_node_record_format(&made, &text), 0);
        assert_string_equal(read_text(text.data), "");
        assert_int_equal(record.removed, 1796083200);
        assert_string_equal(record.addresses, "10.0.0.5,fd00::5");

        nb_buffer_clear(&text);
        strcpy(made.removed_text, NB_NODE_RECORD_REMOVING);
        assert_int_equal(nb_node_record_format(&made, &text), 0);
        assert_non_null(strstr(read_text(text.data), "removed: expected a time"));
        nb_buffer_done(&text);
}

static void limits_the_names(_unused_ void **state) {
        static struct nb_node_record made;
        static char list[NB_LIST_SIZE + 1];

        for (size_t i = 0; i < NB_LIST_SIZE; i++)
                list[i] = i % 2 == 0 ? 'a' : ',';
        assert_false(nb_node_record_set_names(&made, list, false));
        list[NB_LIST_SIZE - 1] = '\0';
        assert_true(nb_node_record_set_names(&made, list, false));
        assert_false(nb_node_record_set_names(&made, "a", true));
        assert_false(nb_node_record_set_names(&made, "10.0.0.0/8", true));
        assert_false(nb_node_record_set_names(&made, "a,", false));
}

int main(void) {
        CASES(rows, record_is_read);
        CASE(record_is_written);
        CASE(limits_the_names);
        return case_run("node record");
}
