/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/note_internal.h"

static bool is_tls_server_name(const char *text) {
        return !text[0] || nb_tls_server_name_verify(text) >= 0;
}

static bool is_proxy_url(const char *text) {
        return !text[0] || nb_proxy_url_verify(text) >= 0;
}

static bool is_hash(const char *text) {
        return strlen(text) == 2 * NB_K3S_HASH_SIZE && text[strspn(text, "0123456789abcdef")] == '\0';
}

static bool is_time_or_empty(const char *text) {
        return !text[0] || nb_note_is_time(text);
}

/* --- joined.json --- */

static const struct nb_note_member handoff_members[] = {
        NB_NOTE_MEMBER(nb_handoff, "tlsServerName", tls_server_name, is_tls_server_name, "a host name or nothing",
                       NB_HANDOFF_UNTRUSTED),
        NB_NOTE_MEMBER(nb_handoff, "proxyURL", proxy_url, is_proxy_url,
                       "http, https or socks5 with host and port, or nothing", NB_HANDOFF_UNTRUSTED),
        NB_NOTE_MEMBER(nb_handoff, "csr", csr, nb_note_is_csr_name_or_empty, NB_NOTE_CSR, NB_NONE),
        NB_NOTE_MEMBER(nb_handoff, "endpoint", endpoint, nb_note_is_endpoint, NB_NOTE_ENDPOINT, NB_NONE),
        NB_NOTE_MEMBER(nb_handoff, "tokenID", token_id, nb_note_is_token_id_or_empty, NB_NOTE_TOKEN_ID, NB_NONE),
        NB_NOTE_MEMBER(nb_handoff, "tokenSource", token_source, nb_note_is_filled_line, NB_NOTE_LINE, NB_NONE),
};

/* Only of a join by metadata. */
static const struct nb_note_member handoff_optional_members[] = {
        NB_NOTE_MEMBER(nb_handoff, "metadata", metadata, nb_note_is_cloud, NB_NOTE_CLOUD, NB_NONE),
        NB_NOTE_MEMBER(nb_handoff, "k3sHash", k3s_hash, is_hash, "64 hex digits in lower case", NB_NONE),
};

int nb_handoff_format(const struct nb_handoff *handoff, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&handoff->server, server);
        r = nb_note_write_start(ret);
        if (r >= 0)
                r = nb_note_write_text(ret, "certificate", handoff->certificate);
        if (r >= 0)
                r = nb_note_write_text(ret, "ca", handoff->ca);
        if (r >= 0)
                r = nb_note_write_text(ret, "server", server);
        if (r >= 0)
                r = nb_note_write_members(ret, handoff_members, N_ELEMENTS(handoff_members), handoff);
        if (r >= 0)
                r = nb_note_write_optional(ret, handoff_optional_members, N_ELEMENTS(handoff_optional_members), handoff);
        return r < 0 ? r : nb_note_write_end(ret);
}

static int copy_pem(const struct nb_json *json, const char *key, bool may_be_empty, char **ret, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_note_get_text(json, key, &text, &len, f);
        if (r < 0)
                return r;
        if (len == 0 && !may_be_empty)
                return nb_failure_set(f, json->code, 0, "%s: %s: expected PEM, found an empty string", json->what, key);
        *ret = strndup(text, len);
        return *ret ? 0 : nb_failure_set_memory(f);
}

static int take_server(const struct nb_json *json, struct nb_url *ret, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        const char *text;
        size_t len;
        int r;

        r = nb_note_get_text(json, "server", &text, &len, f);
        if (r < 0)
                return r;
        if (nb_url_parse(text, len, ret) < 0)
                return nb_failure_set(f, NB_HANDOFF_UNTRUSTED, 0,
                                      "%s: server: expected https://HOST[:PORT][/PREFIX], found %s", json->what,
                                      nb_text_quote(text, len, quoted));
        return 0;
}

static int take_handoff(const struct nb_json *json, struct nb_handoff *handoff, struct nb_failure *f) {
        static const char *const others[] = { "version", "certificate", "ca", "server", "metadata", "k3sHash", NULL };
        struct nb_note_keys keys = { json, handoff_members, N_ELEMENTS(handoff_members), others };
        int r;

        r = nb_note_check_version(json, f);
        if (r >= 0)
                r = nb_note_check_keys(&keys, f);
        if (r >= 0)
                r = take_server(json, &handoff->server, f);
        if (r >= 0)
                r = nb_note_take_members(json, handoff_members, N_ELEMENTS(handoff_members), handoff, f);
        for (size_t i = 0; i < N_ELEMENTS(handoff_optional_members) && r >= 0; i++)
                r = nb_note_take_optional(json, &handoff_optional_members[i], handoff, f);
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

        r = nb_note_open(text, len, NB_HANDOFF_FILE, NB_HANDOFF_MALFORMED, &json, f);
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

static const struct nb_note_member refresh_members[] = {
        NB_NOTE_MEMBER(nb_refresh_note, "tlsServerName", tls_server_name, is_tls_server_name, "a host name or nothing",
                       NB_HANDOFF_UNTRUSTED),
        NB_NOTE_MEMBER(nb_refresh_note, "proxyURL", proxy_url, is_proxy_url,
                       "http, https or socks5 with host and port, or nothing", NB_HANDOFF_UNTRUSTED),
};

int nb_refresh_note_format(const struct nb_refresh_note *note, struct nb_buffer *ret) {
        char server[NB_URL_MAX];
        int r;

        nb_url_format(&note->server, server);
        r = nb_note_write_start(ret);
        if (r >= 0)
                r = nb_note_write_text(ret, "ca", note->ca);
        if (r >= 0)
                r = nb_note_write_text(ret, "server", server);
        if (r >= 0)
                r = nb_note_write_members(ret, refresh_members, N_ELEMENTS(refresh_members), note);
        return r < 0 ? r : nb_note_write_end(ret);
}

static int take_refresh_note(const struct nb_json *json, struct nb_refresh_note *note, struct nb_failure *f) {
        static const char *const others[] = { "version", "ca", "server", NULL };
        struct nb_note_keys keys = { json, refresh_members, N_ELEMENTS(refresh_members), others };
        int r;

        r = nb_note_check_version(json, f);
        if (r >= 0)
                r = nb_note_check_keys(&keys, f);
        if (r >= 0)
                r = take_server(json, &note->server, f);
        if (r >= 0)
                r = nb_note_take_members(json, refresh_members, N_ELEMENTS(refresh_members), note, f);
        return r < 0 ? r : copy_pem(json, "ca", false, &note->ca, f);
}

int nb_refresh_note_parse(const char *text, size_t len, struct nb_refresh_note *ret_note, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_refresh_note note = {};
        int r;

        r = nb_note_open(text, len, NB_REFRESH_FILE, NB_HANDOFF_MALFORMED, &json, f);
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

static const struct nb_note_member inspection_members[] = {
        NB_NOTE_MEMBER(nb_inspection, "node", node, nb_note_is_node_name, NB_NOTE_NODE, NB_NONE),
        NB_NOTE_MEMBER(nb_inspection, "notAfter", not_after, is_time_or_empty, "a time or nothing", NB_NONE),
        NB_NOTE_MEMBER(nb_inspection, "detail", detail, nb_note_is_line, NB_NOTE_LINE, NB_NONE),
};

int nb_inspection_format(const struct nb_inspection *inspection, struct nb_buffer *ret) {
        int r;

        r = nb_note_write_start(ret);
        if (r >= 0)
                r = nb_note_write_text(ret, "verdict", nb_verdict_name(inspection->verdict));
        if (r >= 0)
                r = nb_buffer_printf(ret, ",\n  \"fallback\": %s", inspection->fallback ? "true" : "false");
        if (r >= 0 && inspection->verify_access)
                r = nb_buffer_append_string(ret, ",\n  \"verifyAccess\": true");
        if (r >= 0)
                r = nb_note_write_members(ret, inspection_members, N_ELEMENTS(inspection_members), inspection);
        return r < 0 ? r : nb_note_write_end(ret);
}

static int take_verdict(const struct nb_json *json, enum nb_verdict *ret_verdict, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_note_get_text(json, "verdict", &text, &len, f);
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
        struct nb_note_keys keys = { json, inspection_members, N_ELEMENTS(inspection_members), others };
        int r;

        r = nb_note_check_version(json, f);
        if (r >= 0)
                r = nb_note_check_keys(&keys, f);
        if (r >= 0)
                r = take_verdict(json, &inspection->verdict, f);
        if (r >= 0)
                r = nb_json_boolean(json, "fallback", &inspection->fallback, f);
        if (r == 0)
                return nb_failure_set(f, json->code, 0, "%s: fallback: expected a boolean, found nothing", json->what);
        if (r >= 0)
                r = nb_json_boolean(json, "verifyAccess", &inspection->verify_access, f);
        return r < 0 ? r : nb_note_take_members(json, inspection_members, N_ELEMENTS(inspection_members), inspection, f);
}

int nb_inspection_parse(const char *text, size_t len, struct nb_inspection *ret_inspection, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_inspection inspection = {};
        int r;

        r = nb_note_open(text, len, NB_INSPECTION_FILE, NB_INTERNAL, &json, f);
        if (r >= 0)
                r = take_inspection(&json, &inspection, f);
        if (r < 0)
                return r;
        *ret_inspection = inspection;
        return 0;
}
