/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "state_files/handoff.h"

#include "allocation.h"
#include "case.h"
#include "folder.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define PIN "sha256:" HASH

/* A member is taken out or replaced by naming it: OTHER("csr", "\"csr\":5"). */
struct note_case {
        const char *name;
        const char *key;         /* the member that `replacement` stands for */
        const char *replacement; /* "": the member is missing */
        enum nb_code code;       /* NB_NONE: accepted */
        const char *detail;
};

struct member {
        const char *key;
        const char *text;
};

static const struct member handoff_members[] = {
        { "version", "\"version\":1" },
        { "certificate", "\"certificate\":\"LEAF\\n\"" },
        { "ca", "\"ca\":\"CA\\n\"" },
        { "server", "\"server\":\"https://10.0.0.10:6443/p\"" },
        { "tlsServerName", "\"tlsServerName\":\"\"" },
        { "proxyURL", "\"proxyURL\":\"\"" },
        { "csr", "\"csr\":\"node-csr-vS3w2j1-x0uJhiJ7OrMm65gBmtx3-H7vw0wsXcQkbJA\"" },
        { "endpoint", "\"endpoint\":\"10.0.0.10:6443\"" },
        { "tokenID", "\"tokenID\":\"abc123\"" },
        { "tokenSource", "\"tokenSource\":\"credential node-bootstrap.token\"" },
};

static const struct member record_members[] = {
        { "version", "\"version\":1" },
        { "node", "\"node\":\"worker-1\"" },
        { "kubeconfig", "\"kubeconfig\":\"/etc/kubernetes/kubelet.conf\"" },
        { "server", "\"server\":\"https://10.0.0.10:6443\"" },
        { "endpoint", "\"endpoint\":\"10.0.0.10:6443\"" },
        { "caCertHashes", "\"caCertHashes\":[]" },
        { "fileHashes", "\"fileHashes\":[\"" PIN "\"]" },
        { "csr", "\"csr\":\"node-csr-x\"" },
        { "tokenID", "\"tokenID\":\"abc123\"" },
        { "tokenSource", "\"tokenSource\":\"credential node-bootstrap.token\"" },
        { "joinedAt", "\"joinedAt\":\"2026-01-02T15:04:05Z\"" },
        { "certificate",
          "\"certificate\":\"/var/lib/kubelet/pki/kubelet-client-2026-01-02-15-04-05.pem\"" },
};

static void compose(const struct note_case *c, const struct member *members, size_t n_members,
                    struct nb_buffer *ret) {
        const char *separator = "{";

        for (size_t i = 0; i < n_members; i++) {
                const char *text = strcmp(members[i].key, c->key) == 0 ? c->replacement
                                                                       : members[i].text;

                if (!text[0])
                        continue;
                nb_buffer_printf(ret, "%s%s", separator, text);
                separator = ",";
        }
        if (!c->key[0] && c->replacement[0])
                nb_buffer_printf(ret, ",%s", c->replacement);
        nb_buffer_append_string(ret, "}");
}

static void assert_outcome(const struct note_case *c, int r, const struct nb_failure *f) {
        assert_string_equal(f->detail, c->detail);
        assert_int_equal(f->code, c->code);
        assert_int_equal(r < 0, c->code != NB_NONE);
}

#define UNTRUSTED NB_HANDOFF_UNTRUSTED
#define MALFORMED NB_HANDOFF_MALFORMED
#define J "joined.json: "

static struct note_case handoffs[] = {
        { "joined: as it should be", "", "", NB_NONE, "" },
        { "joined: with a TLS server name", "tlsServerName", "\"tlsServerName\":\"kubernetes\"",
          NB_NONE, "" },
        { "joined: with a proxy", "proxyURL", "\"proxyURL\":\"http://proxy:3128\"", NB_NONE, "" },
        { "joined: no version", "version", "", MALFORMED, J "version: expected 1, found 0" },
        { "joined: a later version", "version", "\"version\":2", MALFORMED,
          J "version: expected 1, found 2" },
        { "joined: a version that is a string", "version", "\"version\":\"1\"", MALFORMED,
          J "version: expected an integer, found a string" },
        { "joined: a version that is a fraction", "version", "\"version\":1.0", MALFORMED,
          J "version: expected an integer, found a fraction" },
        { "joined: an unknown key", "", "\"users\":[]", MALFORMED, J "unknown key 'users'" },
        { "joined: a key twice", "", "\"csr\":\"x\"", MALFORMED,
          J "expected each key once, found one twice" },
        { "joined: how long a stage took", "", "\"awaitUsec\":5", NB_NONE, "" },
        { "joined: a stage that took less than nothing", "", "\"awaitUsec\":-1", MALFORMED,
          J "awaitUsec: expected 0 to 2^53, found -1" },
        { "joined: a stage that took too much", "", "\"awaitUsec\":9007199254740993", MALFORMED,
          J "awaitUsec: expected 0 to 2^53, found 9007199254740993" },
        { "joined: a stage that took a word", "", "\"awaitUsec\":\"5\"", MALFORMED,
          J "awaitUsec: expected an integer, found a string" },
        { "joined: a stage that does not exist", "", "\"waitUsec\":5", MALFORMED,
          J "unknown key 'waitUsec'" },
        { "joined: no certificate", "certificate", "", MALFORMED,
          J "certificate: expected PEM, found nothing" },
        { "joined: an empty certificate", "certificate", "\"certificate\":\"\"", MALFORMED,
          J "certificate: expected PEM, found ''" },
        { "joined: a certificate that is null", "certificate", "\"certificate\":null", MALFORMED,
          J "certificate: expected PEM, found nothing" },
        { "joined: no CA", "ca", "", MALFORMED, J "ca: expected PEM or '', found nothing" },
        { "joined: a CA that is a list", "ca", "\"ca\":[\"a\"]", MALFORMED,
          J "ca: expected a string, found a list" },
        { "joined: a NUL in the CA", "ca", "\"ca\":\"a\\u0000b\"", MALFORMED,
          J "expected JSON, found at byte 43: \\u0000 in a string" },
        { "joined: no server", "server", "", MALFORMED,
          J "server: expected https://HOST[:PORT][/PREFIX], found nothing" },
        { "joined: a server without TLS", "server", "\"server\":\"http://a\"", UNTRUSTED,
          J "server: expected https://HOST[:PORT][/PREFIX], found 'http://a'" },
        { "joined: a server with a line end", "server", "\"server\":\"https://a\\n  user: b\"",
          UNTRUSTED,
          J "server: expected https://HOST[:PORT][/PREFIX], found 'https://a?  user: b'" },
        { "joined: no TLS server name", "tlsServerName", "", MALFORMED,
          J "tlsServerName: expected a host name or '', found nothing" },
        { "joined: a TLS server name with a quote", "tlsServerName", "\"tlsServerName\":\"a\\\"\"",
          UNTRUSTED, J "tlsServerName: expected a host name or '', found 'a\"'" },
        { "joined: a proxy that runs a command", "proxyURL", "\"proxyURL\":\"exec://sh\"",
          UNTRUSTED,
          J "proxyURL: expected http, https or socks5 with host and port or '', found "
            "'exec://sh'" },
        { "joined: no CSR, where a supervisor signed", "csr", "\"csr\":\"\"", NB_NONE, "" },
        { "joined: no CA, where the system's count", "ca", "\"ca\":\"\"", NB_NONE, "" },
        { "joined: no token ID, where it was no bootstrap token", "tokenID", "\"tokenID\":\"\"",
          NB_NONE, "" },
        { "joined: a token ID of blanks", "tokenID", "\"tokenID\":\"      \"", MALFORMED,
          J "tokenID: expected six characters of a-z and 0-9 or '', found '      '" },
        { "joined: a CSR name with a control character", "csr", "\"csr\":\"a\\u001b[0m\"",
          MALFORMED, J "csr: expected the name of a CSR or '', found 'a?[0m'" },
        { "joined: an endpoint that is a URL", "endpoint", "\"endpoint\":\"https://a\"", MALFORMED,
          J "endpoint: expected HOST:PORT, found 'https://a'" },
        { "joined: a whole token for its ID", "tokenID", "\"tokenID\":\"abc123.x\"", MALFORMED,
          J "tokenID: expected six characters of a-z and 0-9 or '', found 'abc123.x'" },
        { "joined: a token source of two lines", "tokenSource", "\"tokenSource\":\"a\\nb\"",
          MALFORMED, J "tokenSource: expected a line of text, found 'a?b'" },
        { "joined: no token source", "tokenSource", "\"tokenSource\":\"\"", MALFORMED,
          J "tokenSource: expected a line of text, found ''" },
};

static void parses_handoff(void **state) {
        const struct note_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192),
                                                   first = NB_BUFFER_INIT(8192),
                                                   second = NB_BUFFER_INIT(8192);
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = {}, again = {};
        struct nb_failure f = {};
        int r;

        compose(c, handoff_members, N_ELEMENTS(handoff_members), &text);
        r = nb_state_file_parse(&nb_handoff_file, text.data, text.len, &handoff, &f);
        assert_outcome(c, r, &f);
        if (r < 0) {
                assert_null(handoff.certificate);
                return;
        }
        assert_string_equal(handoff.certificate, "LEAF\n");
        assert_string_equal(handoff.cluster.ca, strcmp(c->key, "ca") == 0 ? "" : "CA\n");
        assert_string_equal(handoff.cluster.server.host, "10.0.0.10");
        assert_string_equal(handoff.provenance.token_id,
                            strcmp(c->key, "tokenID") == 0 ? "" : "abc123");
        assert_int_equal(nb_state_file_format(&nb_handoff_file, &handoff, &first), 0);
        assert_int_equal(nb_state_file_parse(&nb_handoff_file, first.data, first.len, &again, &f),
                         0);
        assert_int_equal(nb_state_file_format(&nb_handoff_file, &again, &second), 0);
        assert_string_equal(first.data, second.data);
}

static const struct member refresh_members[] = {
        { "version", "\"version\":1" },
        { "ca", "\"ca\":\"CA\\n\"" },
        { "server", "\"server\":\"https://10.0.0.10:6443/p\"" },
        { "tlsServerName", "\"tlsServerName\":\"kubernetes\"" },
        { "proxyURL", "\"proxyURL\":\"\"" },
};

#define N "refreshed.json: "

static struct note_case refreshes[] = {
        { "refreshed: as it should be", "", "", NB_NONE, "" },
        { "refreshed: by a proxy", "proxyURL", "\"proxyURL\":\"http://proxy:3128\"", NB_NONE, "" },
        { "refreshed: no version", "version", "", MALFORMED, N "version: expected 1, found 0" },
        { "refreshed: no CA", "ca", "", MALFORMED, N "ca: expected PEM, found nothing" },
        { "refreshed: an empty CA, which would be the system's", "ca", "\"ca\":\"\"", MALFORMED,
          N "ca: expected PEM, found ''" },
        { "refreshed: no server", "server", "", MALFORMED,
          N "server: expected https://HOST[:PORT][/PREFIX], found nothing" },
        { "refreshed: a server without TLS", "server", "\"server\":\"http://a\"", UNTRUSTED,
          N "server: expected https://HOST[:PORT][/PREFIX], found 'http://a'" },
        { "refreshed: a proxy that runs a command", "proxyURL", "\"proxyURL\":\"exec://sh\"",
          UNTRUSTED,
          N "proxyURL: expected http, https or socks5 with host and port or '', found "
            "'exec://sh'" },
        { "refreshed: a server name with a line end", "tlsServerName",
          "\"tlsServerName\":\"a\\nb\"", UNTRUSTED,
          N "tlsServerName: expected a host name or '', found 'a?b'" },
        { "refreshed: user entries", "", "\"users\":[]", MALFORMED, N "unknown key 'users'" },
        { "refreshed: certificates", "", "\"certificate\":\"x\",\"serving\":\"y\"", NB_NONE, "" },
        { "refreshed: a key", "", "\"key\":\"x\"", MALFORMED, N "unknown key 'key'" },
};

static void parses_refresh(void **state) {
        const struct note_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192),
                                                   first = NB_BUFFER_INIT(8192),
                                                   second = NB_BUFFER_INIT(8192);
        _cleanup_(nb_handoff_done) struct nb_handoff note = {}, again = {};
        struct nb_failure f = {};
        int r;

        compose(c, refresh_members, N_ELEMENTS(refresh_members), &text);
        r = nb_state_file_parse(&nb_refresh_file, text.data, text.len, &note, &f);
        assert_outcome(c, r, &f);
        if (r < 0) {
                assert_null(note.cluster.ca);
                return;
        }
        assert_string_equal(note.cluster.ca, "CA\n");
        assert_string_equal(note.cluster.server.path, "/p");
        assert_string_equal(note.cluster.tls_server_name, "kubernetes");
        assert_int_equal(nb_state_file_format(&nb_refresh_file, &note, &first), 0);
        assert_int_equal(nb_state_file_parse(&nb_refresh_file, first.data, first.len, &again, &f),
                         0);
        assert_int_equal(nb_state_file_format(&nb_refresh_file, &again, &second), 0);
        assert_string_equal(first.data, second.data);
}

#define R "node-bootstrap.json: "

#define DAMAGED NB_INSTALLED_MALFORMED

static struct note_case records[] = {
        { "record: as it should be", "", "", NB_NONE, "" },
        { "record: no token ID", "tokenID", "\"tokenID\":\"\"", NB_NONE, "" },
        { "record: no CSR", "csr", "\"csr\":\"\"", NB_NONE, "" },
        { "record: discovered by token", "", "\"joinMethod\":\"token\"", NB_NONE, "" },
        { "record: discovered by a file", "", "\"joinMethod\":\"file\"", NB_NONE, "" },
        { "record: discovered by a URL", "", "\"joinMethod\":\"url\"", NB_NONE, "" },
        { "record: discovered by /cacerts", "", "\"joinMethod\":\"cacerts\"", NB_NONE, "" },
        { "record: discovered by a kubeconfig", "", "\"joinMethod\":\"kubeconfig\"", NB_NONE, "" },
        { "record: discovered by a method of a later version", "", "\"joinMethod\":\"guess\"",
          NB_NONE, "" },
        { "record: discovered by what is not a word", "", "\"joinMethod\":\"a b\"", DAMAGED,
          R "joinMethod: expected a word or '', found 'a b'" },
        { "record: discovered by a number", "", "\"joinMethod\":1", DAMAGED,
          R "joinMethod: expected a string, found an integer" },
        { "record: refreshed since", "", "\"refreshedAt\":\"2026-02-03T04:05:06Z\"", NB_NONE, "" },
        { "record: an empty optional field", "", "\"kubeletArguments\":\"\"", NB_NONE, "" },
        { "record: refreshed at a number", "", "\"refreshedAt\":1", DAMAGED,
          R "refreshedAt: expected a string, found an integer" },
        { "record: two pins", "caCertHashes", "\"caCertHashes\":[\"" PIN "\",\"" PIN "\"]", NB_NONE,
          "" },
        { "record: no list of pins", "caCertHashes", "", DAMAGED,
          R "caCertHashes: expected a list of at most 32 hashes, each sha256: and 64 hex digits" },
        { "record: a pin that is none", "fileHashes", "\"fileHashes\":[\"" PIN "\",\"x\"]", DAMAGED,
          R "fileHashes: expected a list of at most 32 hashes, each sha256: and 64 hex digits" },
        { "record: a pin that is an integer", "fileHashes", "\"fileHashes\":[1]", DAMAGED,
          R "fileHashes[0]: expected a string, found an integer" },
        { "record: a pin that is null", "fileHashes", "\"fileHashes\":[null]", DAMAGED,
          R "fileHashes: expected a list of at most 32 hashes, each sha256: and 64 hex digits" },
        { "record: a relative path", "certificate", "\"certificate\":\"a.pem\"", DAMAGED,
          R "certificate: expected an absolute path, found 'a.pem'" },
        { "record: no time", "joinedAt", "\"joinedAt\":\"\"", DAMAGED,
          R "joinedAt: expected a time, found ''" },
        { "record: a time of escape sequences", "joinedAt",
          "\"joinedAt\":\"2026-01-02T15:04:05\\u001b\"", DAMAGED,
          R "joinedAt: expected a time, found '2026-01-02T15:04:05?'" },
        { "record: a server without TLS", "server", "\"server\":\"http://a\"", DAMAGED,
          R "server: expected https://HOST[:PORT][/PREFIX], found 'http://a'" },
        { "record: arguments", "", "\"kubeletArguments\":\"--v=2 --hostname-override=a\"", NB_NONE,
          "" },
        { "record: arguments of two lines", "", "\"kubeletArguments\":\"--v=2\\n\"", DAMAGED,
          R "kubeletArguments: expected a line of text or '', found '--v=2?'" },
        { "record: a CA", "", "\"ca\":\"-----BEGIN CERTIFICATE-----\\nMA==\\n\"", NB_NONE, "" },
        { "record: a CA of other characters", "", "\"ca\":\"# a CA\"", DAMAGED,
          R "ca: expected PEM or '', found '# a CA'" },
        { "record: by metadata", "", "\"metadata\":\"aws\"", NB_NONE, "" },
        { "record: by the metadata of a cloud without a row", "", "\"metadata\":\"x\"", NB_NONE,
          "" },
        { "record: by metadata of two words", "", "\"metadata\":\"a b\"", DAMAGED,
          R "metadata: expected a word or '', found 'a b'" },
        { "record: who joined", "",
          "\"hostName\":\"worker-1.example.org\",\"machineID\":\"" HASH "\",\"hardwareID\":\"" HASH
          "\"",
          NB_NONE, "" },
        { "record: a machine ID that is no hash", "",
          "\"machineID\":\"0123456789abcdef0123456789abcdef\"", DAMAGED,
          R "machineID: expected 64 hex digits in lower case or '', found "
            "what may be a token" },
        { "record: a discard from metadata", "", "\"discardFromMetadata\":true", NB_NONE, "" },
        { "record: a discard from somewhere", "", "\"discardFromMetadata\":\"aws\"", DAMAGED,
          R "discardFromMetadata: expected a boolean, found a string" },
        { "record: an unknown key", "", "\"x\":1", DAMAGED, R "unknown key 'x'" },
        { "record: no version", "version", "", DAMAGED, R "version: expected 1, found 0" },
};

static void parses_record(void **state) {
        const struct note_case *c = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192),
                                                   first = NB_BUFFER_INIT(8192);
        _cleanup_(nb_record_done) struct nb_record record = {}, again = {};
        struct nb_failure f = {};
        int r;

        compose(c, record_members, N_ELEMENTS(record_members), &text);
        r = nb_state_file_parse(&nb_record_file, text.data, text.len, &record, &f);
        assert_outcome(c, r, &f);
        if (r < 0)
                return;
        assert_string_equal(record.node, "worker-1");
        assert_int_equal(record.n_hashes, 1);
        assert_int_equal(record.join_method[0] != '\0',
                         strstr(c->replacement, "joinMethod") != NULL);
        assert_int_equal(record.refreshed_at[0] != '\0',
                         strstr(c->replacement, "refreshedAt") != NULL);
        assert_int_equal(record.metadata[0] != '\0',
                         strstr(c->replacement, "\"metadata\"") != NULL);
        assert_int_equal(record.facts.hardware_id[0] != '\0',
                         strstr(c->replacement, "hardwareID") != NULL);
        assert_int_equal(record.is_discard_from_metadata,
                         strstr(c->replacement, "discardFromMetadata") != NULL);
        assert_int_equal(nb_state_file_format(&nb_record_file, &record, &first), 0);
        assert_int_equal(nb_state_file_parse(&nb_record_file, first.data, first.len, &again, &f),
                         0);
        assert_int_equal(record.ca != NULL, strstr(c->replacement, "BEGIN") != NULL);
        if (record.ca)
                assert_string_equal(record.ca, again.ca);
        nb_record_done(&record);
        nb_record_done(&again);
        assert_memory_equal(&record, &again, sizeof(again));
}

static void the_ca_has_a_limit(void **state) {
        for (size_t len = NB_CA_FILE_MAX; len <= NB_CA_FILE_MAX + 1; len++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
                _cleanup_(nb_record_done) struct nb_record record = {};
                char member[NB_CA_FILE_MAX + 32];
                const struct note_case c = { .key = "", .replacement = member };
                struct nb_failure f = {};
                int r;

                (void)snprintf(member, sizeof(member), "\"ca\":\"%0*d\"", (int)len, 0);
                compose(&c, record_members, N_ELEMENTS(record_members), &text);
                r = nb_state_file_parse(&nb_record_file, text.data, text.len, &record, &f);
                assert_int_equal(r == 0, len <= NB_CA_FILE_MAX);
                assert_int_equal(f.code, r == 0 ? NB_NONE : DAMAGED);
                assert_int_equal(record.ca ? strlen(record.ca) : 0, r == 0 ? len : 0);
        }
}

static void too_many_pins(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer pins = NB_BUFFER_INIT(8192),
                                                   text = NB_BUFFER_INIT(16384);
        struct note_case c = { "", "fileHashes", "", NB_NONE, "" };
        struct nb_record record = {};
        struct nb_failure f = {};

        nb_buffer_append_string(&pins, "\"fileHashes\":[\"" PIN "\"");
        for (unsigned i = 0; i < NB_SETTINGS_PINS_MAX; i++)
                nb_buffer_append_string(&pins, ",\"" PIN "\"");
        nb_buffer_append_string(&pins, "]");
        c.replacement = pins.data;
        compose(&c, record_members, N_ELEMENTS(record_members), &text);
        assert_true(nb_state_file_parse(&nb_record_file, text.data, text.len, &record, &f) < 0);
        assert_string_equal(f.detail, R "fileHashes: expected a list of at most 32 hashes, each "
                                        "sha256: and 64 hex digits");
}

/* The rest of struct nb_handoff lies behind it. */
static void a_member_has_a_limit(void **state) {
        for (size_t len = NB_TOKEN_SOURCE_MAX; len <= NB_TOKEN_SOURCE_MAX + 1; len++) {
                _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192);
                _cleanup_(nb_handoff_done) struct nb_handoff handoff = {};
                char source[NB_TOKEN_SOURCE_MAX + 2] = "", member[sizeof(source) + 32];
                const struct note_case c = { .key = "tokenSource", .replacement = member };
                struct nb_failure f = {};

                memset(source, 'a', len);
                (void)snprintf(member, sizeof(member), "\"tokenSource\":\"%s\"", source);
                compose(&c, handoff_members, N_ELEMENTS(handoff_members), &text);
                assert_int_equal(nb_state_file_parse(&nb_handoff_file, text.data, text.len,
                                                     &handoff, &f) < 0,
                                 len > NB_TOKEN_SOURCE_MAX);
        }
}

static void size_has_a_limit(void **state) {
        struct nb_handoff handoff = {};
        struct nb_failure f = {};

        assert_true(nb_state_file_parse(&nb_handoff_file, "{}", NB_HANDOFF_MAX + 1, &handoff, &f) <
                    0);
        assert_string_equal(f.detail, J "expected at most 524288 bytes, found 524289");
}

static void what_is_not_utf8_is_not_written(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(1024);
        char ca[] = "\xff";
        struct nb_handoff handoff = { .cluster = { .ca = ca } };

        assert_int_equal(nb_state_file_format(&nb_refresh_file, &handoff, &text), -EINVAL);
}

static int run(const void *input) {
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = {};
        struct nb_failure f = {};

        return nb_state_file_parse(&nb_handoff_file, input, strlen(input), &handoff, &f);
}

static int run_refresh(const void *input) {
        _cleanup_(nb_handoff_done) struct nb_handoff note = {};
        struct nb_failure f = {};

        return nb_state_file_parse(&nb_refresh_file, input, strlen(input), &note, &f);
}

static void memory_runs_out(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(8192),
                                                   refresh = NB_BUFFER_INIT(8192);

        compose(&handoffs[0], handoff_members, N_ELEMENTS(handoff_members), &text);
        allocation_try_all(run, text.data);
        compose(&refreshes[0], refresh_members, N_ELEMENTS(refresh_members), &refresh);
        allocation_try_all(run_refresh, refresh.data);
}

/* As a crash may have left them. */
static void files_are_written_and_cleared(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(16);
        struct nb_failure f = { 0 };
        struct folder folder;
        struct stat st;

        folder_make(&folder);
        nb_buffer_append_string(&text, "{}");
        assert_int_equal(nb_state_file_write(folder.fd, "a", &text, &f), 0);
        assert_int_equal(fstatat(folder.fd, "a", &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_mode, S_IFREG | 0600);
        folder_put(&folder, "/.a.tmp", "half");
        assert_int_equal(nb_state_file_clear(folder.fd, "a", &f), 0);
        assert_int_equal(nb_state_file_clear(folder.fd, "a", &f), 0);
        assert_int_equal(faccessat(folder.fd, "a", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(faccessat(folder.fd, ".a.tmp", F_OK, AT_SYMLINK_NOFOLLOW), -1);
        assert_int_equal(f.code, NB_NONE);
        assert_int_equal(mkdirat(folder.fd, "b", 0700), 0);
        assert_true(nb_state_file_write(folder.fd, "b", &text, &f) < 0);
        assert_int_equal(f.code, NB_STATE_UNWRITABLE);
        nb_buffer_done(&text);
        folder_remove(&folder);
}

static void unreadable_file_is_no_malformed_one(void **state) {
        static const struct {
                int r;
                enum nb_code code;
        } rows[] = { { -EACCES, NB_INSTALLED_UNREADABLE },
                     { -EIO, NB_INSTALLED_UNREADABLE },
                     { -EBADF, NB_INSTALLED_MALFORMED },
                     { -ELOOP, NB_INSTALLED_MALFORMED } };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_failure f = { 0 };

                assert_int_equal(nb_installed_refuse("/x", rows[i].r, &f), rows[i].r);
                assert_int_equal(f.code, rows[i].code);
                assert_non_null(strstr(f.detail, "'/x'"));
        }
}

int main(void) {
        CASE(files_are_written_and_cleared);
        CASE(unreadable_file_is_no_malformed_one);
        CASES(handoffs, parses_handoff);
        CASES(refreshes, parses_refresh);
        CASES(records, parses_record);
        CASE(too_many_pins);
        CASE(the_ca_has_a_limit);
        CASE(a_member_has_a_limit);
        CASE(size_has_a_limit);
        CASE(what_is_not_utf8_is_not_written);
        CASE(memory_runs_out);
        return case_run("handoff");
}
