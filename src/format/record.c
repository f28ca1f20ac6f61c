/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/note_internal.h"

static bool is_url(const char *text) {
        struct nb_url url;

        return nb_url_parse(text, strlen(text), &url) >= 0;
}

static bool is_discovery(const char *text) {
        static const char *const names[] = { "token", "file", "url", "cacerts", "kubeconfig" };

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (strcmp(text, names[i]) == 0)
                        return true;
        return false;
}

static bool is_path(const char *text) {
        return text[0] == '/' && nb_note_is_line(text);
}

static const struct nb_note_member record_members[] = {
        NB_NOTE_MEMBER(nb_record, "node", node, nb_note_is_node_name, NB_NOTE_NODE, NB_NONE),
        NB_NOTE_MEMBER(nb_record, "server", server, is_url, "an https URL", NB_NONE),
        NB_NOTE_MEMBER(nb_record, "endpoint", endpoint, nb_note_is_endpoint, NB_NOTE_ENDPOINT, NB_NONE),
        NB_NOTE_MEMBER(nb_record, "csr", csr, nb_note_is_csr_name_or_empty, NB_NOTE_CSR, NB_NONE),
        NB_NOTE_MEMBER(nb_record, "tokenID", token_id, nb_note_is_token_id_or_empty, NB_NOTE_TOKEN_ID, NB_NONE),
        NB_NOTE_MEMBER(nb_record, "tokenSource", token_source, nb_note_is_filled_line, NB_NOTE_LINE, NB_NONE),
        NB_NOTE_MEMBER(nb_record, "joinedAt", joined_at, nb_note_is_time, "a time", NB_NONE),
        NB_NOTE_MEMBER(nb_record, "certificate", certificate, is_path, "an absolute path", NB_NONE),
};

/* Not there in what versions before it wrote, or while there is nothing to say; empty then. */
static const struct nb_note_member optional_members[] = {
        NB_NOTE_MEMBER(nb_record, "discovery", discovery, is_discovery, "token, file, url, cacerts or kubeconfig", NB_NONE),
        NB_NOTE_MEMBER(nb_record, "refreshedAt", refreshed_at, nb_note_is_time, "a time", NB_NONE),
        NB_NOTE_MEMBER(nb_record, "metadata", metadata, nb_note_is_cloud, NB_NOTE_CLOUD, NB_NONE),
};
static const struct nb_note_member arguments_member = NB_NOTE_MEMBER(nb_record, "kubeletArguments", arguments, nb_note_is_line, NB_NOTE_LINE, NB_NONE);

static int write_optional_members(struct nb_buffer *ret, const struct nb_record *record) {
        int r = nb_note_write_optional(ret, optional_members, N_ELEMENTS(optional_members), record);

        if (r >= 0 && record->has_arguments)
                r = nb_note_write_members(ret, &arguments_member, 1, record);
        if (r >= 0 && record->is_ca_found)
                r = nb_buffer_append_string(ret, ",\n  \"caFileFound\": true");
        if (r >= 0 && record->is_node_from_metadata)
                r = nb_buffer_append_string(ret, ",\n  \"nodeFromMetadata\": true");
        if (r >= 0 && record->is_discard_from_metadata)
                r = nb_buffer_append_string(ret, ",\n  \"discardFromMetadata\": true");
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

        r = nb_note_write_start(ret);
        if (r >= 0)
                r = nb_note_write_members(ret, record_members, N_ELEMENTS(record_members), record);
        if (r >= 0)
                r = write_optional_members(ret, record);
        if (r >= 0)
                r = write_pins(ret, "caCertHashes", &record->pins, record->n_pins);
        if (r >= 0)
                r = write_pins(ret, "caFileHashes", &record->ca_hashes, record->n_ca_hashes);
        return r < 0 ? r : nb_note_write_end(ret);
}

static int take_pins(const struct nb_json *json, const char *key, pin_list *ret_pins, unsigned *ret_n,
                     struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
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
                r = nb_note_get_text(json, path, &text, &len, f);
                if (r < 0)
                        return r;
                if (nb_pin_parse(text, len, (*ret_pins)[i]) < 0)
                        return nb_failure_set(f, json->code, 0,
                                              "%s: %s: expected sha256: and 64 hex digits, found %s", json->what,
                                              path, nb_text_quote(text, len, quoted));
        }
        *ret_n = (unsigned)n;
        return 0;
}

static int take_optional_members(const struct nb_json *json, struct nb_record *record, struct nb_failure *f) {
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(optional_members) && r >= 0; i++)
                r = nb_note_take_optional(json, &optional_members[i], record, f);
        if (r >= 0)
                r = nb_note_take_optional(json, &arguments_member, record, f);
        record->has_arguments = r > 0;
        if (r >= 0)
                r = nb_json_boolean(json, "caFileFound", &record->is_ca_found, f);
        if (r >= 0)
                r = nb_json_boolean(json, "nodeFromMetadata", &record->is_node_from_metadata, f);
        if (r >= 0)
                r = nb_json_boolean(json, "discardFromMetadata", &record->is_discard_from_metadata, f);
        return r;
}

int nb_record_parse(const char *text, size_t len, struct nb_record *ret_record, struct nb_failure *f) {
        static const char *const others[] = { "version", "discovery", "refreshedAt", "metadata", "kubeletArguments", "caFileFound",
                                              "nodeFromMetadata", "discardFromMetadata", "caCertHashes", "caFileHashes", NULL };
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_note_keys keys = { &json, record_members, N_ELEMENTS(record_members), others };
        struct nb_record record = {};
        int r;

        r = nb_note_open(text, len, NB_RECORD_FILE, NB_INSTALLED_MALFORMED, &json, f);
        if (r >= 0)
                r = nb_note_check_version(&json, f);
        if (r >= 0)
                r = nb_note_check_keys(&keys, f);
        if (r >= 0)
                r = nb_note_take_members(&json, record_members, N_ELEMENTS(record_members), &record, f);
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
