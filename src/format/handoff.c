/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/handoff.h"
#include "format/json.h"

#define VERSION 1

/* A string member of a note, for both directions. */
struct member {
        const char *key;
        size_t offset;
        size_t size;
        bool (*is_accepted)(const char *text);
        const char *expected;
        enum nb_code code; /* NB_NONE: that of the document */
};

#define MEMBER(type, key, member, is_accepted, expected, code) \
        { key, offsetof(struct type, member), sizeof(((struct type *)NULL)->member), is_accepted, expected, code }

/* --- What the members take --- */

static bool is_csr_name_or_empty(const char *text) {
        return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:")] == '\0';
}

static bool is_endpoint(const char *text) {
        struct nb_url url;

        return nb_endpoint_parse(text, strlen(text), &url) >= 0;
}

static bool is_url(const char *text) {
        struct nb_url url;

        return nb_url_parse(text, strlen(text), &url) >= 0;
}

static bool is_token_id_or_empty(const char *text) {
        return !text[0] || (strlen(text) == 6 && text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789")] == '\0');
}

static bool is_discovery(const char *text) {
        static const char *const names[] = { "token", "file", "url", "cacerts", "kubeconfig" };

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (strcmp(text, names[i]) == 0)
                        return true;
        return false;
}

static bool is_line(const char *text) {
        return nb_text_is_printable(text, strlen(text));
}

static bool is_filled_line(const char *text) {
        return text[0] && is_line(text);
}

static bool is_tls_server_name(const char *text) {
        return !text[0] || nb_tls_server_name_verify(text) >= 0;
}

static bool is_proxy_url(const char *text) {
        return !text[0] || nb_proxy_url_verify(text) >= 0;
}

static bool is_node_name(const char *text) {
        char name[NB_NODE_NAME_MAX + 1];

        return nb_node_name_parse(text, strlen(text), name) >= 0 && strcmp(text, name) == 0;
}

static bool is_time(const char *text) {
        return strlen(text) >= strlen("2026-01-02T15:04:05Z") && text[strspn(text, "0123456789-:TZ")] == '\0';
}

static bool is_time_or_empty(const char *text) {
        return !text[0] || is_time(text);
}

static bool is_path(const char *text) {
        return text[0] == '/' && is_line(text);
}

#define EXPECTED_NODE "a node name"
#define EXPECTED_CSR "the name of a certificate signing request, or nothing"
#define EXPECTED_ENDPOINT "HOST:PORT"
#define EXPECTED_TOKEN_ID "six characters of a-z and 0-9, or nothing"
#define EXPECTED_LINE "a line of text"

/* --- Reading --- */

static int open_note(const char *text, size_t len, const char *what, enum nb_code code, struct nb_json *ret_json,
                     struct nb_failure *f) {
        if (len > NB_HANDOFF_MAX)
                return nb_failure_set(f, code, 0, "%s: expected at most %d bytes, found %zu", what, NB_HANDOFF_MAX,
                                      len);
        return nb_json_parse(text, len, what, code, ret_json, f);
}

static int check_version(const struct nb_json *json, struct nb_failure *f) {
        int64_t version = 0;
        int r;

        r = nb_json_integer(json, "version", &version, f);
        if (r < 0)
                return r;
        if (version != VERSION)
                return nb_failure_set(f, json->code, 0, "%s: version: expected %d, found %lld", json->what, VERSION,
                                      (long long)version);
        return 0;
}

static int get_text(const struct nb_json *json, const char *key, const char **ret, size_t *ret_len,
                    struct nb_failure *f) {
        int r;

        r = nb_json_string(json, key, ret, ret_len, f);
        if (r < 0)
                return r;
        return r > 0 ? 0
                     : nb_failure_set(f, json->code, 0, "%s: %s: expected a string, found nothing", json->what, key);
}

static int take_member(const struct nb_json *json, const struct member *member, void *ret, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = get_text(json, member->key, &text, &len, f);
        if (r < 0)
                return r;
        if (len >= member->size || !member->is_accepted(text))
                return nb_failure_set(f, member->code != NB_NONE ? member->code : json->code, 0,
                                      "%s: %s: expected %s, found '%.64s'", json->what, member->key, member->expected,
                                      text);
        memcpy((char *)ret + member->offset, text, len + 1);
        return 0;
}

static int take_members(const struct nb_json *json, const struct member *members, size_t n_members, void *ret,
                        struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < n_members && r >= 0; i++)
                r = take_member(json, &members[i], ret, f);
        return r;
}

/* The keys of a note beside those in its table. */
struct keys {
        const struct nb_json *json;
        const struct member *members;
        size_t n_members;
        const char *const *others; /* ends with NULL */
};

static int check_key(void *userdata, const char *key, struct nb_failure *f) {
        const struct keys *keys = userdata;

        for (size_t i = 0; i < keys->n_members; i++)
                if (strcmp(keys->members[i].key, key) == 0)
                        return 0;
        for (const char *const *other = keys->others; *other; other++)
                if (strcmp(*other, key) == 0)
                        return 0;
        return nb_failure_set(f, keys->json->code, 0, "%s: expected no other keys than ours, found '%.64s'",
                              keys->json->what, key);
}

static int check_keys(struct keys *keys, struct nb_failure *f) {
        return nb_json_each_key(keys->json, "", check_key, keys, f);
}

/* --- Writing --- */

static int write_text(struct nb_buffer *ret, const char *key, const char *text) {
        int r;

        r = nb_buffer_printf(ret, ",\n  \"%s\": ", key);
        return r < 0 ? r : nb_json_quote(text, strlen(text), ret);
}

static int write_start(struct nb_buffer *ret) {
        return nb_buffer_printf(ret, "{\n  \"version\": %d", VERSION);
}

static int write_members(struct nb_buffer *ret, const struct member *members, size_t n_members, const void *from) {
        int r = 0;

        for (size_t i = 0; i < n_members && r >= 0; i++)
                r = write_text(ret, members[i].key, (const char *)from + members[i].offset);
        return r;
}

static int write_end(struct nb_buffer *ret) {
        return nb_buffer_append_string(ret, "\n}\n");
}

/* --- joined.json --- */

static const struct member handoff_members[] = {
        MEMBER(nb_handoff, "tlsServerName", tls_server_name, is_tls_server_name, "a host name or nothing",
               NB_HANDOFF_UNTRUSTED),
        MEMBER(nb_handoff, "proxyURL", proxy_url, is_proxy_url,
               "http, https or socks5 with host and port, or nothing", NB_HANDOFF_UNTRUSTED),
        MEMBER(nb_handoff, "csr", csr, is_csr_name_or_empty, EXPECTED_CSR, NB_NONE),
        MEMBER(nb_handoff, "endpoint", endpoint, is_endpoint, EXPECTED_ENDPOINT, NB_NONE),
        MEMBER(nb_handoff, "tokenID", token_id, is_token_id_or_empty, EXPECTED_TOKEN_ID, NB_NONE),
        MEMBER(nb_handoff, "tokenSource", token_source, is_filled_line, EXPECTED_LINE, NB_NONE),
};

int nb_handoff_format(const struct nb_handoff *handoff, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&handoff->server, server);
        r = write_start(ret);
        if (r >= 0)
                r = write_text(ret, "certificate", handoff->certificate);
        if (r >= 0)
                r = write_text(ret, "ca", handoff->ca);
        if (r >= 0)
                r = write_text(ret, "server", server);
        if (r >= 0)
                r = write_members(ret, handoff_members, N_ELEMENTS(handoff_members), handoff);
        return r < 0 ? r : write_end(ret);
}

static int copy_pem(const struct nb_json *json, const char *key, bool may_be_empty, char **ret, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = get_text(json, key, &text, &len, f);
        if (r < 0)
                return r;
        if (len == 0 && !may_be_empty)
                return nb_failure_set(f, json->code, 0, "%s: %s: expected PEM, found an empty string", json->what, key);
        *ret = strndup(text, len);
        return *ret ? 0 : nb_failure_set_memory(f);
}

static int take_server(const struct nb_json *json, struct nb_url *ret, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = get_text(json, "server", &text, &len, f);
        if (r < 0)
                return r;
        if (nb_url_parse(text, len, ret) < 0)
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, 0,
                                      "%s: server: expected https://HOST[:PORT][/PREFIX], found '%.128s'", json->what,
                                      text);
        return 0;
}

static int take_handoff(const struct nb_json *json, struct nb_handoff *handoff, struct nb_failure *f) {
        static const char *const others[] = { "version", "certificate", "ca", "server", NULL };
        struct keys keys = { json, handoff_members, N_ELEMENTS(handoff_members), others };
        int r;

        r = check_version(json, f);
        if (r >= 0)
                r = check_keys(&keys, f);
        if (r >= 0)
                r = take_server(json, &handoff->server, f);
        if (r >= 0)
                r = take_members(json, handoff_members, N_ELEMENTS(handoff_members), handoff, f);
        if (r >= 0)
                r = copy_pem(json, "certificate", false, &handoff->certificate, f);
        if (r >= 0)
                r = copy_pem(json, "ca", true, &handoff->ca, f);
        return r;
}

int nb_handoff_parse(const char *text, size_t len, struct nb_handoff *ret_handoff, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        _cleanup_(nb_handoff_done) struct nb_handoff handoff = {};
        int r;

        r = open_note(text, len, NB_HANDOFF_FILE, NB_HANDOFF_MALFORMED, &json, f);
        if (r >= 0)
                r = take_handoff(&json, &handoff, f);
        if (r < 0)
                return r;
        *ret_handoff = handoff;
        handoff = (struct nb_handoff){};
        return 0;
}

void nb_handoff_done(struct nb_handoff *handoff) {
        free(handoff->certificate);
        free(handoff->ca);
        handoff->certificate = NULL;
        handoff->ca = NULL;
}

/* --- refreshed.json --- */

static const struct member refresh_members[] = {
        MEMBER(nb_refresh_note, "tlsServerName", tls_server_name, is_tls_server_name, "a host name or nothing",
               NB_HANDOFF_UNTRUSTED),
        MEMBER(nb_refresh_note, "proxyURL", proxy_url, is_proxy_url,
               "http, https or socks5 with host and port, or nothing", NB_HANDOFF_UNTRUSTED),
};

int nb_refresh_note_format(const struct nb_refresh_note *note, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&note->server, server);
        r = write_start(ret);
        if (r >= 0)
                r = write_text(ret, "ca", note->ca);
        if (r >= 0)
                r = write_text(ret, "server", server);
        if (r >= 0)
                r = write_members(ret, refresh_members, N_ELEMENTS(refresh_members), note);
        return r < 0 ? r : write_end(ret);
}

static int take_refresh_note(const struct nb_json *json, struct nb_refresh_note *note, struct nb_failure *f) {
        static const char *const others[] = { "version", "ca", "server", NULL };
        struct keys keys = { json, refresh_members, N_ELEMENTS(refresh_members), others };
        int r;

        r = check_version(json, f);
        if (r >= 0)
                r = check_keys(&keys, f);
        if (r >= 0)
                r = take_server(json, &note->server, f);
        if (r >= 0)
                r = take_members(json, refresh_members, N_ELEMENTS(refresh_members), note, f);
        return r < 0 ? r : copy_pem(json, "ca", false, &note->ca, f);
}

int nb_refresh_note_parse(const char *text, size_t len, struct nb_refresh_note *ret_note, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_refresh_note note = {};
        int r;

        r = open_note(text, len, NB_REFRESH_FILE, NB_HANDOFF_MALFORMED, &json, f);
        if (r >= 0)
                r = take_refresh_note(&json, &note, f);
        if (r < 0)
                return r;
        *ret_note = note;
        return 0;
}

void nb_refresh_note_done(struct nb_refresh_note *note) {
        free(note->ca);
        note->ca = NULL;
}

/* --- inspect.json --- */

static const char *const verdict_names[_NB_VERDICT_N] = {
        [NB_VERDICT_USABLE] = "usable",
        [NB_VERDICT_NOT_YET_VALID] = "not-yet-valid",
        [NB_VERDICT_ABSENT] = "absent",
        [NB_VERDICT_EXPIRED] = "expired",
        [NB_VERDICT_OTHER_NODE] = "other-node",
        [NB_VERDICT_OTHER_CLUSTER] = "other-cluster",
        [NB_VERDICT_UNREADABLE] = "unreadable",
        [NB_VERDICT_NOT_ROTATABLE] = "not-rotatable",
};

const char *nb_verdict_name(enum nb_verdict verdict) {
        return (unsigned)verdict < _NB_VERDICT_N ? verdict_names[verdict] : "unknown";
}

static const struct member inspection_members[] = {
        MEMBER(nb_inspection, "node", node, is_node_name, EXPECTED_NODE, NB_NONE),
        MEMBER(nb_inspection, "notAfter", not_after, is_time_or_empty, "a time or nothing", NB_NONE),
        MEMBER(nb_inspection, "detail", detail, is_line, EXPECTED_LINE, NB_NONE),
};

int nb_inspection_format(const struct nb_inspection *inspection, struct nb_buffer *ret) {
        int r;

        r = write_start(ret);
        if (r >= 0)
                r = write_text(ret, "verdict", nb_verdict_name(inspection->verdict));
        if (r >= 0)
                r = nb_buffer_printf(ret, ",\n  \"fallback\": %s", inspection->fallback ? "true" : "false");
        if (r >= 0 && inspection->verify_access)
                r = nb_buffer_append_string(ret, ",\n  \"verifyAccess\": true");
        if (r >= 0)
                r = write_members(ret, inspection_members, N_ELEMENTS(inspection_members), inspection);
        return r < 0 ? r : write_end(ret);
}

static int take_verdict(const struct nb_json *json, enum nb_verdict *ret_verdict, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = get_text(json, "verdict", &text, &len, f);
        if (r < 0)
                return r;
        for (size_t i = 0; i < N_ELEMENTS(verdict_names); i++)
                if (strcmp(text, verdict_names[i]) == 0) {
                        *ret_verdict = (enum nb_verdict)i;
                        return 0;
                }
        return nb_failure_set(f, json->code, 0, "%s: verdict: expected a known one, found '%.64s'", json->what, text);
}

static int take_inspection(const struct nb_json *json, struct nb_inspection *inspection, struct nb_failure *f) {
        static const char *const others[] = { "version", "verdict", "fallback", "verifyAccess", NULL };
        struct keys keys = { json, inspection_members, N_ELEMENTS(inspection_members), others };
        int r;

        r = check_version(json, f);
        if (r >= 0)
                r = check_keys(&keys, f);
        if (r >= 0)
                r = take_verdict(json, &inspection->verdict, f);
        if (r >= 0)
                r = nb_json_boolean(json, "fallback", &inspection->fallback, f);
        if (r == 0)
                return nb_failure_set(f, json->code, 0, "%s: fallback: expected a boolean, found nothing", json->what);
        if (r >= 0)
                r = nb_json_boolean(json, "verifyAccess", &inspection->verify_access, f);
        return r < 0 ? r : take_members(json, inspection_members, N_ELEMENTS(inspection_members), inspection, f);
}

int nb_inspection_parse(const char *text, size_t len, struct nb_inspection *ret_inspection, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_inspection inspection = {};
        int r;

        r = open_note(text, len, NB_INSPECTION_FILE, NB_INTERNAL, &json, f);
        if (r >= 0)
                r = take_inspection(&json, &inspection, f);
        if (r < 0)
                return r;
        *ret_inspection = inspection;
        return 0;
}

/* --- node-bootstrap.json --- */

static const struct member record_members[] = {
        MEMBER(nb_record, "node", node, is_node_name, EXPECTED_NODE, NB_NONE),
        MEMBER(nb_record, "server", server, is_url, "an https URL", NB_NONE),
        MEMBER(nb_record, "endpoint", endpoint, is_endpoint, EXPECTED_ENDPOINT, NB_NONE),
        MEMBER(nb_record, "csr", csr, is_csr_name_or_empty, EXPECTED_CSR, NB_NONE),
        MEMBER(nb_record, "tokenID", token_id, is_token_id_or_empty, EXPECTED_TOKEN_ID, NB_NONE),
        MEMBER(nb_record, "tokenSource", token_source, is_filled_line, EXPECTED_LINE, NB_NONE),
        MEMBER(nb_record, "joinedAt", joined_at, is_time, "a time", NB_NONE),
        MEMBER(nb_record, "certificate", certificate, is_path, "an absolute path", NB_NONE),
};

/* Not there in what versions before it wrote, or while there is nothing to say; empty then. */
static const struct member optional_members[] = {
        MEMBER(nb_record, "discovery", discovery, is_discovery, "token, file, url, cacerts or kubeconfig", NB_NONE),
        MEMBER(nb_record, "refreshedAt", refreshed_at, is_time, "a time", NB_NONE),
};
static const struct member arguments_member = MEMBER(nb_record, "kubeletArguments", arguments, is_line, EXPECTED_LINE, NB_NONE);

static int write_optional_members(struct nb_buffer *ret, const struct nb_record *record) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(optional_members) && r >= 0; i++)
                if (((const char *)record)[optional_members[i].offset])
                        r = write_members(ret, &optional_members[i], 1, record);
        if (r >= 0 && record->has_arguments)
                r = write_members(ret, &arguments_member, 1, record);
        if (r >= 0 && record->is_ca_found)
                r = nb_buffer_append_string(ret, ",\n  \"caFileFound\": true");
        return r;
}

typedef uint8_t pin_list[NB_SETTINGS_PINS_MAX][NB_PIN_SIZE];

static int write_pins(struct nb_buffer *ret, const char *key, const pin_list *pins, unsigned n_pins) {
        char text[NB_PIN_TEXT_SIZE];
        int r;

        r = nb_buffer_printf(ret, ",\n  \"%s\": [", key);
        for (unsigned i = 0; i < n_pins && r >= 0; i++) {
                nb_pin_format((*pins)[i], text);
                r = nb_buffer_printf(ret, "%s\"%s\"", i > 0 ? ", " : "", text);
        }
        return r < 0 ? r : nb_buffer_append_string(ret, "]");
}

int nb_record_format(const struct nb_record *record, struct nb_buffer *ret) {
        int r;

        r = write_start(ret);
        if (r >= 0)
                r = write_members(ret, record_members, N_ELEMENTS(record_members), record);
        if (r >= 0)
                r = write_optional_members(ret, record);
        if (r >= 0)
                r = write_pins(ret, "caCertHashes", &record->pins, record->n_pins);
        if (r >= 0)
                r = write_pins(ret, "caFileHashes", &record->ca_hashes, record->n_ca_hashes);
        return r < 0 ? r : write_end(ret);
}

static int take_pins(const struct nb_json *json, const char *key, pin_list *ret_pins, unsigned *ret_n,
                     struct nb_failure *f) {
        char path[32];
        const char *text;
        size_t n, len;
        int r;

        r = nb_json_array(json, key, &n, f);
        if (r < 0)
                return r;
        if (r == 0 || n > NB_SETTINGS_PINS_MAX)
                return nb_failure_set(f, json->code, 0, "%s: %s: expected a list of at most %d hashes, found %s",
                                      json->what, key, NB_SETTINGS_PINS_MAX, r == 0 ? "nothing" : "more");
        for (size_t i = 0; i < n; i++) {
                (void)snprintf(path, sizeof(path), "%s[%zu]", key, i);
                r = get_text(json, path, &text, &len, f);
                if (r < 0)
                        return r;
                if (nb_pin_parse(text, len, (*ret_pins)[i]) < 0)
                        return nb_failure_set(f, json->code, 0,
                                              "%s: %s: expected sha256: and 64 hex digits, found '%.64s'", json->what,
                                              path, text);
        }
        *ret_n = (unsigned)n;
        return 0;
}

/* 1: it stands there; 0: it does not. */
static int take_optional(const struct nb_json *json, const struct member *member, struct nb_record *record, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_json_string(json, member->key, &text, &len, f);
        if (r <= 0)
                return r;
        r = take_member(json, member, record, f);
        return r < 0 ? r : 1;
}

static int take_optional_members(const struct nb_json *json, struct nb_record *record, struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(optional_members) && r >= 0; i++)
                r = take_optional(json, &optional_members[i], record, f);
        if (r >= 0)
                r = take_optional(json, &arguments_member, record, f);
        record->has_arguments = r > 0;
        if (r >= 0)
                r = nb_json_boolean(json, "caFileFound", &record->is_ca_found, f);
        return r;
}

int nb_record_parse(const char *text, size_t len, struct nb_record *ret_record, struct nb_failure *f) {
        static const char *const others[] = { "version", "discovery", "refreshedAt", "kubeletArguments", "caFileFound", "caCertHashes", "caFileHashes", NULL };
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct keys keys = { &json, record_members, N_ELEMENTS(record_members), others };
        struct nb_record record = {};
        int r;

        r = open_note(text, len, NB_RECORD_FILE, NB_INSTALLED_MALFORMED, &json, f);
        if (r >= 0)
                r = check_version(&json, f);
        if (r >= 0)
                r = check_keys(&keys, f);
        if (r >= 0)
                r = take_members(&json, record_members, N_ELEMENTS(record_members), &record, f);
        if (r >= 0)
                r = take_optional_members(&json, &record, f);
        if (r >= 0)
                r = take_pins(&json, "caCertHashes", &record.pins, &record.n_pins, f);
        if (r >= 0)
                r = take_pins(&json, "caFileHashes", &record.ca_hashes, &record.n_ca_hashes, f);
        if (r < 0)
                return r;
        *ret_record = record;
        return 0;
}
