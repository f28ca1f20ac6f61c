/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "kube/k3s_token.h"
#include "kube/kubeconfig.h"
#include "kube/node_name.h"
#include "settings/provider.h"
#include "settings/settings.h"
#include "state/state_file.h"

#define VERSION 1

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

/* --- The forms of text --- */

static bool consists_of(const char *text, const char *characters) {
        return text[strspn(text, characters)] == '\0';
}

static bool is_line(const char *text) {
        return nb_text_is_printable(text, strlen(text));
}

static bool is_word(const char *text) {
        return consists_of(text, LOWER UPPER DIGITS "._-");
}

static bool is_node_name(const char *text) {
        char name[NB_NODE_NAME_MAX + 1];

        return nb_node_name_parse(text, strlen(text), name) >= 0 && !strcmp(text, name);
}

static bool is_server(const char *text) {
        struct nb_url url;

        return nb_url_parse(text, strlen(text), &url) >= 0;
}

static bool is_endpoint(const char *text) {
        struct nb_url url;

        return nb_endpoint_parse(text, strlen(text), &url) >= 0;
}

static bool is_path(const char *text) {
        return text[0] == '/' && is_line(text);
}

static bool is_time(const char *text) {
        return strlen(text) >= strlen("2026-01-02T15:04:05Z") && consists_of(text, DIGITS "-:TZ");
}

static bool is_csr_name(const char *text) {
        return consists_of(text, LOWER UPPER DIGITS "-_.:");
}

static bool is_token_id(const char *text) {
        return strlen(text) == 6 && consists_of(text, LOWER DIGITS);
}

static bool is_provider(const char *text) {
        enum nb_provider provider;

        return nb_provider_parse(text, strlen(text), &provider) >= 0 &&
               provider != NB_PROVIDER_NONE && provider != NB_PROVIDER_AUTO;
}

static bool is_k3s_hash(const char *text) {
        return strlen(text) == 2 * NB_K3S_HASH_SIZE && consists_of(text, DIGITS "abcdef");
}

static bool is_tls_server_name(const char *text) {
        return nb_tls_server_name_verify(text) >= 0;
}

static bool is_proxy_url(const char *text) {
        return nb_proxy_url_verify(text) >= 0;
}

static const struct {
        bool (*is_valid)(const char *text);
        const char *expected;
        enum nb_code code; /* NB_NONE: that of the file */
} text_types[] = {
        [NB_STATE_LINE] = { is_line, "a line of text", NB_NONE },
        [NB_STATE_WORD] = { is_word, "a word", NB_NONE },
        [NB_STATE_NODE_NAME] = { is_node_name, "a node name", NB_NONE },
        [NB_STATE_SERVER] = { is_server, "an https URL", NB_NONE },
        [NB_STATE_ENDPOINT] = { is_endpoint, "HOST:PORT", NB_NONE },
        [NB_STATE_PATH] = { is_path, "an absolute path", NB_NONE },
        [NB_STATE_TIME] = { is_time, "a time", NB_NONE },
        [NB_STATE_CSR_NAME] = { is_csr_name, "the name of a CSR", NB_NONE },
        [NB_STATE_TOKEN_ID] = { is_token_id, "six characters of a-z and 0-9", NB_NONE },
        [NB_STATE_PROVIDER] = { is_provider, "the name of a cloud", NB_NONE },
        [NB_STATE_K3S_HASH] = { is_k3s_hash, "64 hex digits in lower case", NB_NONE },
        [NB_STATE_TLS_SERVER_NAME] = { is_tls_server_name, "a host name", NB_HANDOFF_UNTRUSTED },
        [NB_STATE_PROXY_URL] = { is_proxy_url, "http, https or socks5 with host and port",
                                 NB_HANDOFF_UNTRUSTED },
};

/* --- Writing --- */

static void put_field(struct nb_json_writer *writer, const struct nb_state_field *field,
                      const char *from) {
        const char *member = from + field->offset;
        char text[NB_URL_MAX];

        if (field->type == NB_STATE_BOOL) {
                nb_json_put_boolean(writer, field->key, *(const bool *)member);
                return;
        }
        if (field->type == NB_STATE_PINS) {
                nb_json_open(writer, field->key, '[');
                for (unsigned i = 0; i < *(const unsigned *)(from + field->n_offset); i++) {
                        nb_pin_format((const uint8_t *)member + (size_t)i * NB_PIN_SIZE, text);
                        nb_json_put_string(writer, NULL, text);
                }
                nb_json_close(writer);
                return;
        }
        if (field->type == NB_STATE_PEM)
                member = *(char *const *)member;
        if (field->type == NB_STATE_URL) {
                nb_url_format((const struct nb_url *)member, text);
                member = text;
        }
        nb_json_put_string(writer, field->key, member);
}

int nb_state_file_format(const struct nb_state_file *file, const void *from,
                         struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret, .is_indented = true };

        nb_json_open(&writer, NULL, '{');
        if (!file->is_open)
                nb_json_put_integer(&writer, "version", VERSION);
        for (size_t i = 0; i < file->n_fields; i++) {
                const struct nb_state_field *field = &file->fields[i];

                /* Empty text and a false boolean both begin with a zero byte. */
                if (file->is_open || field->presence != NB_STATE_OPTIONAL ||
                    ((const char *)from)[field->offset])
                        put_field(&writer, field, from);
        }
        return nb_json_finish(&writer);
}

/* --- Reading --- */

struct reader {
        const struct nb_state_file *file;
        const struct nb_json *json;
};

static int verify_key(void *userdata, const char *key, struct nb_failure *f) {
        const struct nb_state_file *file = ((const struct reader *)userdata)->file;

        if (!strcmp(key, "version"))
                return 0;
        for (size_t i = 0; i < file->n_fields; i++)
                if (!strcmp(file->fields[i].key, key))
                        return 0;
        return nb_failure_set(f, file->code, 0, "%s: unknown key '%.64s'", file->name, key);
}

static int verify_version(const struct reader *reader, struct nb_failure *f) {
        int64_t version = 0;
        int r = nb_json_integer(reader->json, "version", &version, f);

        if (r < 0)
                return r;
        if (version == VERSION)
                return 0;
        return nb_failure_set(f, reader->file->code, 0, "%s: version: expected %d, found %lld",
                              reader->file->name, VERSION, (long long)version);
}

static int refuse_text(const struct reader *reader, const struct nb_state_field *field,
                       const char *expected, const char *text, struct nb_failure *f) {
        const char *suffix = field->presence == NB_STATE_REQUIRED ? "" : " or nothing";
        enum nb_code code = NB_NONE;
        char quoted[NB_TEXT_QUOTED_SIZE];

        if (field->type < N_ELEMENTS(text_types))
                code = text_types[field->type].code;
        if (field->type == NB_STATE_URL)
                code = NB_HANDOFF_UNTRUSTED;
        return nb_failure_set(f, code != NB_NONE ? code : reader->file->code, 0,
                              "%s: %s: expected %s%s, found %s", reader->file->name, field->key,
                              expected, suffix, nb_text_quote(text, strlen(text), quoted));
}

static int take_text(const struct reader *reader, const struct nb_state_field *field,
                     const char *text, char *ret, struct nb_failure *f) {
        size_t len = strlen(text);
        bool is_accepted = text[0] ? text_types[field->type].is_valid(text)
                                   : field->presence != NB_STATE_REQUIRED;

        if (len >= field->size || !is_accepted)
                return refuse_text(reader, field, text_types[field->type].expected, text, f);
        memcpy(ret, text, len + 1);
        return 0;
}

static int take_pem(const struct reader *reader, const struct nb_state_field *field,
                    const char *text, char **ret, struct nb_failure *f) {
        if (!text[0] && field->presence == NB_STATE_REQUIRED)
                return refuse_text(reader, field, "PEM", text, f);
        *ret = strdup(text);
        return *ret ? 0 : nb_failure_set_memory(f);
}

static int take_pins(const struct reader *reader, const struct nb_state_field *field, char *ret,
                     struct nb_failure *f) {
        uint8_t *pins = (uint8_t *)ret + field->offset;
        char path[64], quoted[NB_TEXT_QUOTED_SIZE];
        const char *text;
        size_t n, len;
        int r;

        r = nb_json_array(reader->json, field->key, &n, f);
        if (r < 0)
                return r;
        if (r == 0 || n > NB_SETTINGS_PINS_MAX)
                return nb_failure_set(f, reader->file->code, 0,
                                      "%s: %s: expected a list of at most %d hashes, found %s",
                                      reader->file->name, field->key, NB_SETTINGS_PINS_MAX,
                                      r == 0 ? "nothing" : "more");
        for (size_t i = 0; i < n; i++) {
                snprintf(path, sizeof(path), "%s[%zu]", field->key, i);
                r = nb_json_string(reader->json, path, &text, &len, f);
                if (r < 0)
                        return r;
                if (r == 0 || nb_pin_parse(text, len, pins + i * NB_PIN_SIZE) < 0)
                        return nb_failure_set(
                                f, reader->file->code, 0,
                                "%s: %s: expected sha256: and 64 hex digits, found %s",
                                reader->file->name, path,
                                r == 0 ? "nothing" : nb_text_quote(text, len, quoted));
        }
        *(unsigned *)(ret + field->n_offset) = (unsigned)n;
        return 0;
}

static int take_field(const struct reader *reader, const struct nb_state_field *field, char *ret,
                      struct nb_failure *f) {
        char *member = ret + field->offset;
        const char *text;
        size_t len;
        int r;

        if (field->type == NB_STATE_BOOL)
                return nb_json_boolean(reader->json, field->key, (bool *)member, f);
        if (field->type == NB_STATE_PINS)
                return take_pins(reader, field, ret, f);
        r = nb_json_string(reader->json, field->key, &text, &len, f);
        if (r < 0)
                return r;
        if (r == 0 && field->presence == NB_STATE_OPTIONAL)
                return 0;
        if (r == 0)
                return nb_failure_set(f, reader->file->code, 0,
                                      "%s: %s: expected a string, found nothing",
                                      reader->file->name, field->key);
        if (field->type == NB_STATE_PEM)
                return take_pem(reader, field, text, (char **)member, f);
        if (field->type != NB_STATE_URL)
                return take_text(reader, field, text, member, f);
        if (nb_url_parse(text, len, (struct nb_url *)member) < 0)
                return refuse_text(reader, field, "https://HOST[:PORT][/PREFIX]", text, f);
        return 0;
}

static int take_all(struct reader *reader, void *ret, struct nb_failure *f) {
        const struct nb_state_file *file = reader->file;
        int r;

        if (!file->is_open) {
                r = verify_version(reader, f);
                if (r < 0)
                        return r;
                r = nb_json_each_key(reader->json, "", verify_key, reader, f);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < file->n_fields; i++) {
                r = take_field(reader, &file->fields[i], ret, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

int nb_state_file_parse(const struct nb_state_file *file, const char *text, size_t len, void *ret,
                        struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct reader reader = { file, &json };
        int r;

        if (len > NB_HANDOFF_MAX)
                return nb_failure_set(f, file->code, 0, "%s: expected at most %d bytes, found %zu",
                                      file->name, NB_HANDOFF_MAX, len);
        r = nb_json_parse(text, len, file->name, file->code, &json, f);
        if (r < 0)
                return r;
        r = take_all(&reader, ret, f);
        for (size_t i = 0; r < 0 && i < file->n_fields; i++)
                if (file->fields[i].type == NB_STATE_PEM) {
                        char **pem = (char **)((char *)ret + file->fields[i].offset);

                        free(*pem);
                        *pem = NULL;
                }
        return r < 0 ? r : 0;
}
