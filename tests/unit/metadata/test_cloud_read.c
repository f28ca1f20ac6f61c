/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "http/http.h"
#include "metadata/cloud_internal.h"
#include "os/clock.h"

#include "case.h"
#include "cloud_script.h"

static struct nb_sources sources;

struct read_case {
        const char *name;
        struct nb_cloud_row row;
        struct exchange exchanges[SCRIPT_MAX];
        bool is_patience_over;
        enum nb_code code;       /* NB_NONE: it works */
        const char *detail;      /* a part of it */
        const char *token;       /* what is read; NULL for none */
        const char *node_name;   /* asked for where it is not NULL */
        const char *provider_id; /* the same */
        enum nb_user_data_kind kind;
};

#define PLAIN .user_data = "/user-data"
#define SESSION \
        .session = "/session", .session_ttl = "X-TTL: 300", .session_header = "X-Session: ", PLAIN
#define NOTHING \
        { "GET /user-data HTTP/1.1", NULL, "404 Not Found", "<html>" }
#define TOKEN "abcdef.0123456789abcdef"

static struct read_case cases[] = {
        { "not found is nothing", { PLAIN }, { NOTHING } },
        { "204 is nothing",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", "Accept: */*", "204 No Content", "" } } },
        { "empty is nothing", { PLAIN }, { { "GET /user-data HTTP/1.1", NULL, OK, "" } } },
        { "a script is not for this program",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, OK, "#!/bin/sh\n" } } },
        { "a document",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, OK,
              "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n" } },
          .kind = NB_USER_DATA_DOCUMENT },
        { "headers of the cloud",
          { PLAIN, .lines = { "Metadata: true" } },
          { { "GET /user-data HTTP/1.1", "\r\nMetadata: true\r\n", "404 Not Found", "" } } },

        { "a token beside the user data",
          { PLAIN, .token = "/token", .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /token HTTP/1.1", NULL, OK, TOKEN "\n" }, NOTHING },
          .token = TOKEN },
        { "white space is no token",
          { PLAIN, .token = "/token", .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /token HTTP/1.1", NULL, OK, " \r\n" }, NOTHING } },
        { "a token in a document",
          { PLAIN, .document = "/tags", .token = "[name=node-bootstrap-token].value",
            .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /tags HTTP/1.1", "Accept: application/json", OK,
              "[{\"value\":\"x\"},7,{\"name\":\"a\",\"value\":\"b\"},"
              "{\"name\":\"node-bootstrap-token\",\"value\":\"" TOKEN "\"},"
              "{\"name\":\"node-bootstrap-token\",\"value\":\"2nd\"}]" },
            NOTHING },
          .token = TOKEN },
        { "a token in a document that is none",
          { PLAIN, .document = "/tags", .token = "[name=node-bootstrap-token].value",
            .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /tags HTTP/1.1", NULL, OK,
              "[{\"name\":\"node-bootstrap-token\",\"value\":[\"" TOKEN "\"]}]" } },
          .code = NB_METADATA_MALFORMED,
          .detail =
                  "the test: /tags: [name=node-bootstrap-token].value: expected a string, found a "
                  "list" },
        { "no token in a document",
          { PLAIN, .document = "/tags", .token = "[name=node-bootstrap-token].value",
            .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /tags HTTP/1.1", NULL, OK,
              "[{\"name\":\"NODE-BOOTSTRAP-TOKEN\",\"value\":\"x\"},{\"name\":1}]" },
            NOTHING } },
        { "no token beside the user data",
          { PLAIN, .token = "/token", .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /token HTTP/1.1", NULL, "404 Not Found", "no" }, NOTHING } },

        { "a session",
          { SESSION },
          { { "PUT /session HTTP/1.1", "\r\nX-TTL: 300\r\n", OK, "s1\n" },
            { "GET /user-data HTTP/1.1", "\r\nX-Session: s1\r\n", "404 Not Found", "" } } },
        { "one session for all",
          { SESSION, .token = "/token", .token_place = "tag 'node-bootstrap-token'" },
          { { "PUT /session HTTP/1.1", NULL, OK, "s1" },
            { "GET /token HTTP/1.1", "\r\nX-Session: s1\r\n", "404 Not Found", "" },
            { "GET /user-data HTTP/1.1", "\r\nX-Session: s1\r\n", "404 Not Found", "" } } },
        { "a session that has expired",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, OK, "s1" },
            { "GET /user-data HTTP/1.1", "\r\nX-Session: s1\r\n", "401 Unauthorized", "" },
            { "PUT /session HTTP/1.1", NULL, OK, "s2" },
            { "GET /user-data HTTP/1.1", "\r\nX-Session: s2\r\n", "404 Not Found", "" } } },
        { "a session that expires twice",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, OK, "s1" },
            { "GET /user-data HTTP/1.1", NULL, "401 Unauthorized", "" },
            { "PUT /session HTTP/1.1", NULL, OK, "s2" },
            { "GET /user-data HTTP/1.1", NULL, "401 Unauthorized", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "/user-data: expected an answer with status 200, found status 401" },
        { "sessions are refused",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, "403 Forbidden", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "PUT http://127.0.0.1" },
        { "no session service",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, "404 Not Found", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "found status 404" },
        { "a session token with a line break",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, OK, "s1\r\nX-Evil: 1" } },
          .code = NB_METADATA_REFUSED,
          .detail = "expected a session token" },
        { "an empty session",
          { SESSION },
          { { "PUT /session HTTP/1.1", NULL, OK, "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "expected a session token" },

        { "403",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, "403 Forbidden", TOKEN } },
          .code = NB_METADATA_REFUSED,
          .detail = "the test: GET http" },
        { "410",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, "410 Gone", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "found status 410" },
        { "429",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, "429 Too Many Requests\r\nRetry-After: 7", "" } },
          .code = NB_METADATA_UNREACHABLE,
          .detail = "found status 429" },
        { "503",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, "503 Service Unavailable", "" } },
          .code = NB_METADATA_UNREACHABLE,
          .detail = "found status 503" },
        { "a redirect",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL,
              "302 Found\r\nLocation: https://10.0.0.1:6443/\x1b[2J", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "found status 302; redirects are not followed: https://10.0.0.1:6443/ [2J" },
        { "an answer that is not HTTP",
          { PLAIN },
          { { "GET /user-data HTTP/1.1", NULL, "OK\r\n", "" } },
          .code = NB_METADATA_REFUSED,
          .detail = "" },

        { "404 may mean not yet",
          { PLAIN, .is_patient = true },
          { NOTHING },
          .code = NB_METADATA_UNREACHABLE,
          .detail = "status 404, which may mean that it is not ready yet" },
        { "410 may mean not yet",
          { PLAIN, .is_patient = true },
          { { "GET /user-data HTTP/1.1", NULL, "410 Gone", "" } },
          .code = NB_METADATA_UNREACHABLE,
          .detail = "status 410" },
        { "404 is final in the end",
          { PLAIN, .is_patient = true },
          { NOTHING },
          .is_patience_over = true },
        { "410 is final in the end",
          { PLAIN, .is_patient = true },
          { { "GET /user-data HTTP/1.1", NULL, "410 Gone", "" } },
          .is_patience_over = true },

        { "a node name",
          { PLAIN, .node_name = "/name" },
          { NOTHING, { "GET /name HTTP/1.1", NULL, OK, "Node-1\n" } },
          .node_name = "node-1" },
        { "the first of several names",
          { PLAIN, .node_name = "/name" },
          { NOTHING, { "GET /name HTTP/1.1", NULL, OK, "a.b c.d" } },
          .node_name = "a.b" },
        { "no node name",
          { PLAIN, .node_name = "/name" },
          { NOTHING, { "GET /name HTTP/1.1", NULL, "404 Not Found", "" } },
          .node_name = "" },
        { "an invalid node name",
          { PLAIN, .node_name = "/name" },
          { NOTHING, { "GET /name HTTP/1.1", NULL, OK, "a_b" } },
          .node_name = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "expected a DNS name, found 'a_b'" },
        { "a node name of two lines",
          { PLAIN, .node_name = "/name" },
          { NOTHING, { "GET /name HTTP/1.1", NULL, OK, "a\nb" } },
          .node_name = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "/name: expected one line" },
        { "a provider ID",
          { PLAIN, .id_form = "aws:///*/*", .id_parts = { "/zone", "/id" } },
          { NOTHING,
            { "GET /zone HTTP/1.1", NULL, OK, "projects/1/zones/z-1" },
            { "GET /id HTTP/1.1", NULL, OK, "i-1" } },
          .provider_id = "aws:///z-1/i-1" },
        { "a provider ID with a missing part",
          { PLAIN, .id_form = "aws:///*/*", .id_parts = { "/zone", "/id" } },
          { NOTHING, { "GET /zone HTTP/1.1", NULL, "404 Not Found", "" } },
          .provider_id = "" },
        { "a provider ID with an argument in it",
          { PLAIN, .id_form = "x://*", .id_parts = { "/id" } },
          { NOTHING, { "GET /id HTTP/1.1", NULL, OK, "i --v=9" } },
          .provider_id = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "found 'x://i --v=9'" },
        { "an empty part of a provider ID",
          { PLAIN, .id_form = "x://*", .id_parts = { "/id" } },
          { NOTHING, { "GET /id HTTP/1.1", NULL, OK, "a/" } },
          .provider_id = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "expected an identifier" },
        { "one document for both",
          { PLAIN, .document = "/doc", .node_name = "label", .id_form = "linode://*",
            .id_parts = { "id" } },
          { NOTHING,
            { "GET /doc HTTP/1.1", "Accept: application/json", OK,
              "{\"id\": 12345678901, \"label\": \"node-1\"}" } },
          .node_name = "node-1",
          .provider_id = "linode://12345678901" },
        { "a missing document",
          { PLAIN, .document = "/doc", .node_name = "label", .id_form = "linode://*",
            .id_parts = { "id" } },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, "404 Not Found", "" } },
          .node_name = "",
          .provider_id = "" },
        { "a missing member",
          { PLAIN, .document = "/doc", .node_name = "a.label" },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, OK, "{}" } },
          .node_name = "" },
        { "a document with a byte order mark",
          { PLAIN, .document = "/doc", .node_name = "label" },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, OK, "\xef\xbb\xbf{\"label\": \"node-1\"}" } },
          .node_name = "node-1" },
        { "a document of a byte order mark",
          { PLAIN, .document = "/doc", .node_name = "label" },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, OK, "\xef\xbb\xbf" } },
          .node_name = "" },
        { "a list where an object has the token",
          { PLAIN, .document = "/doc", .token = "meta.node-bootstrap-token",
            .token_place = "metadata item 'node-bootstrap-token'" },
          { { "GET /doc HTTP/1.1", NULL, OK, "{\"meta\": []}" }, NOTHING } },
        { "an object where a list has the token",
          { PLAIN, .document = "/tags", .token = "[name=node-bootstrap-token].value",
            .token_place = "tag 'node-bootstrap-token'" },
          { { "GET /tags HTTP/1.1", NULL, OK, "{}" }, NOTHING } },
        { "a document with invalid JSON",
          { PLAIN, .document = "/doc", .node_name = "label" },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, OK, "<html>" } },
          .node_name = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "the test: /doc: " },
        { "a member that is a list",
          { PLAIN, .document = "/doc", .node_name = "label" },
          { NOTHING, { "GET /doc HTTP/1.1", NULL, OK, "{\"label\": []}" } },
          .node_name = "",
          .code = NB_METADATA_MALFORMED,
          .detail = "label" },
};

static void reads(void **state) {
        struct read_case *c = *state;
        const struct nb_machine machine = { .platform = { .volume = "" } };
        const struct nb_cloud_request request = {
                .sources = &sources,
                .provider = NB_PROVIDER_HETZNER,
                .machine = &machine,
                .wants_node_name = c->node_name,
                .wants_provider_id = c->provider_id,
                .is_patience_over = c->is_patience_over,
                .until_ms = nb_now_ms() + 30000,
        };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        char address[SCRIPT_ADDRESS_SIZE];
        int r;

        script_start(c->exchanges, address);
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &c->row;
        call.address = address;
        call.address6 = NULL;
        call.title = "the test";
        r = nb_cloud_read_values(&call, &f);
        nb_cloud_call_done(&call);
        script_stop();

        assert_int_equal(r < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_non_null(strstr(f.detail, c->detail ? c->detail : ""));
        assert_null(strstr(f.detail, TOKEN));
        if (c->code == NB_NONE) {
                assert_string_equal(metadata.token.data ? metadata.token.data : "",
                                    c->token ? c->token : "");
                assert_string_equal(metadata.token_source,
                                    c->token ? "tag 'node-bootstrap-token' of the test" : "");
                assert_string_equal(metadata.node_name, c->node_name ? c->node_name : "");
                assert_string_equal(metadata.provider_id, c->provider_id ? c->provider_id : "");
                assert_int_equal(metadata.user_data.kind, c->kind);
        }
        nb_metadata_done(&metadata);
}

/* No server listens at the first address: the second is queried, then and later. */
static void uses_the_second_address(void **state) {
        static struct exchange exchanges[] = { { "GET /token HTTP/1.1", NULL, OK, TOKEN },
                                               NOTHING,
                                               { NULL, NULL, NULL, NULL } };
        static const struct nb_cloud_row row = { PLAIN, .token = "/token",
                                                 .token_place = "tag 'node-bootstrap-token'" };
        const struct nb_cloud_request request = { .sources = &sources,
                                                  .provider = NB_PROVIDER_HETZNER,
                                                  .until_ms = nb_now_ms() + 30000 };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        char address[SCRIPT_ADDRESS_SIZE], other[SCRIPT_ADDRESS_SIZE];

        script_start(NULL, address);
        script_stop();
        script_start(exchanges, other);
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &row;
        call.address = address;
        call.address6 = other;
        assert_true(nb_cloud_read_values(&call, &f) >= 0);
        assert_ptr_equal(call.address, other);
        nb_cloud_call_done(&call);
        script_stop();
        assert_string_equal(metadata.token.data, TOKEN);
        nb_metadata_done(&metadata);
}

static void reports_the_first_address(void **state) {
        static const struct nb_cloud_row row = { PLAIN };
        const struct nb_cloud_request request = { .sources = &sources,
                                                  .provider = NB_PROVIDER_HETZNER,
                                                  .until_ms = nb_now_ms() + 30000 };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        char address[SCRIPT_ADDRESS_SIZE], expected[96];

        script_start(NULL, address);
        script_stop();
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &row;
        call.address = address;
        call.address6 = "[::1]:1";
        assert_true(nb_cloud_read_values(&call, &f) < 0);
        nb_cloud_call_done(&call);
        (void)snprintf(expected, sizeof(expected), "GET http://%s/user-data: Connection refused",
                       address);
        assert_int_equal(f.code, NB_METADATA_UNREACHABLE);
        assert_non_null(strstr(f.detail, expected));
        nb_metadata_done(&metadata);
}

static void passes_on_retry_after(void **state) {
        static struct exchange exchanges[] = { { "GET /user-data HTTP/1.1", NULL,
                                                 "503 Service Unavailable\r\nRetry-After: 7", "" },
                                               { NULL, NULL, NULL, NULL } };
        static const struct nb_cloud_row row = { PLAIN };
        const struct nb_cloud_request request = { .sources = &sources,
                                                  .provider = NB_PROVIDER_HETZNER,
                                                  .until_ms = nb_now_ms() + 30000 };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        char address[SCRIPT_ADDRESS_SIZE];

        script_start(exchanges, address);
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &row;
        call.address = address;
        assert_true(nb_cloud_read_values(&call, &f) < 0);
        nb_cloud_call_done(&call);
        script_stop();
        assert_int_equal(f.retry_after_ms, 7000);
        assert_int_equal(f.http_status, 503);
        nb_metadata_done(&metadata);
}

/* A file of the machine needs no request. */
static void reads_single_values(void **state) {
        static struct exchange exchanges[] = {
                { "GET /a HTTP/1.1", NULL, OK, " v w\r\n" },
                { "GET /b HTTP/1.1", NULL, "404 Not Found", "x" },
                { "GET /c HTTP/1.1", NULL, OK, "a\nb" },
                { "GET /d HTTP/1.1", "Accept: text/x", OK, "a\nb" },
                { NULL, NULL, NULL, NULL },
        };
        static const struct nb_cloud_row row = { PLAIN };
        struct nb_sources here = { 0 };
        const struct nb_cloud_request request = { .sources = &here,
                                                  .provider = NB_PROVIDER_HETZNER,
                                                  .until_ms = nb_now_ms() + 30000 };
        const struct nb_secret file = { .data = (char[]){ "f" }, .len = 1 };
        struct nb_metadata metadata = NB_METADATA_INIT;
        struct nb_secret value = NB_SECRET_INIT;
        struct nb_cloud_call call;
        struct nb_failure f = { 0 };
        char address[SCRIPT_ADDRESS_SIZE];

        script_start(exchanges, address);
        assert_int_equal(nb_cloud_call_init(&call, &request, &metadata, &f), 0);
        call.row = &row;
        call.address = address;
        assert_int_equal(nb_cloud_get_value(&call, "/a", &value, &f), 1);
        assert_string_equal(value.data, "v w");
        nb_secret_done(&value);
        assert_int_equal(nb_cloud_get_value(&call, "/b", &value, &f), 0);
        assert_true(nb_cloud_get_value(&call, "/c", &value, &f) < 0);
        assert_int_equal(f.code, NB_METADATA_MALFORMED);
        nb_failure_clear(&f);
        assert_null(value.data);
        assert_int_equal(nb_cloud_get(&call, "/d", "text/x", 16, &value, &f), 1);
        assert_string_equal(value.data, "a\nb");
        nb_secret_done(&value);
        assert_int_equal(nb_sources_put(&here, NB_SOURCE_FILE, NB_PLATFORM_TOKEN, 0600, &file), 0);
        assert_int_equal(nb_cloud_get(&call, NB_PLATFORM_TOKEN, NULL, 16, &value, &f), 1);
        assert_string_equal(value.data, "f");
        nb_secret_done(&value);
        nb_cloud_call_done(&call);
        script_stop();
        nb_sources_done(&here);
        nb_metadata_done(&metadata);
}

/* Each row is complete: a mistake in a new row is found here and not on a machine of that cloud. */
static void rows_are_complete(void **state) {
        for (size_t i = NB_PROVIDER_AUTO + 1; i < _NB_PROVIDER_N; i++) {
                const struct nb_cloud_row *row = &nb_cloud_rows[i];
                size_t n_parts = 0, n_stars = 0;

                if (!row->user_data || (strncmp(row->user_data, "/run/", 5) != 0 && !row->address))
                        fail_msg("%s: where is its user data?", nb_provider_names[i]);
                if (row->session && (!row->session_ttl || !row->session_header))
                        fail_msg("%s: how is a session asked for?", nb_provider_names[i]);
                if (!row->token != !row->token_place)
                        fail_msg("%s: what is its token in?", nb_provider_names[i]);
                for (const char *form = row->id_form; form && *form; form++)
                        n_stars += *form == '*';
                while (n_parts < NB_CLOUD_ID_PARTS && row->id_parts[n_parts])
                        n_parts++;
                if (n_stars != n_parts)
                        fail_msg("%s: %zu parts of a provider ID, and %zu places for them",
                                 nb_provider_names[i], n_parts, n_stars);
        }
}

int main(void) {
        struct nb_failure f = { 0 };

        if (nb_http_begin(false, &f) < 0)
                return 1;
        CASES(cases, reads);
        CASE(uses_the_second_address);
        CASE(reports_the_first_address);
        CASE(passes_on_retry_after);
        CASE(reads_single_values);
        CASE(rows_are_complete);
        return case_run("metadata/read");
}
