/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/node_name.h"
#include "kube_objects/token.h"
#include "state_files/handoff.h"
#include "state_files/last.h"
#include "state_files/platform_note.h"
#include "state_files/record.h"

/* --- The forms of text --- */

static int verify_line(const char *text) {
        return nb_text_is_printable(text, strlen(text)) ? 0 : -EINVAL;
}

static int verify_path(const char *text) {
        return text[0] == '/' ? verify_line(text) : -EINVAL;
}

static int verify_node_name(const char *text) {
        char name[NB_NODE_NAME_MAX + 1];

        return nb_node_name_parse(text, strlen(text), name) >= 0 && !strcmp(text, name) ? 0
                                                                                        : -EINVAL;
}

static int verify_endpoint(const char *text) {
        struct nb_url url;

        return nb_endpoint_parse(text, strlen(text), &url);
}

static int verify_settings(const char *text) {
        const struct nb_settings_source source = { .origin = NB_RECORD_FILE };
        struct nb_failure ignored = { 0 };
        struct nb_settings settings;

        nb_settings_init(&settings);
        return nb_settings_merge(&settings, &source, text, strlen(text), &ignored);
}

static int verify_code(const char *text) {
        return nb_failure_find(text) == NB_NONE ? -EINVAL : 0;
}

static int verify_volume(const char *text) {
        return !strcmp(text, "config-2") || !strcmp(text, "cidata") ? 0 : -EINVAL;
}

#define FORM(name, kind, ...) \
        static const struct nb_state_form form_##name = { NB_STATE_##kind, __VA_ARGS__ }
FORM(line, TEXT, "a line of text", verify_line);
FORM(path, TEXT, "an absolute path", verify_path);
FORM(node_name, TEXT, "a node name", verify_node_name);
FORM(endpoint, TEXT, "HOST:PORT", verify_endpoint);
FORM(volume, TEXT, "'config-2' or 'cidata'", verify_volume);
FORM(code, TEXT, "a code of failures.def", verify_code);
FORM(settings, TEXT, "settings", verify_settings);
FORM(word, TEXT, "a word", NULL, NB_LOWER NB_UPPER NB_DIGITS "._-");
FORM(csr_name, TEXT, "the name of a CSR", NULL, NB_LOWER NB_UPPER NB_DIGITS "-_.:");
FORM(time, TEXT, "a time", NULL, NB_DIGITS "-:TZ", sizeof("2026-01-02T15:04:05Z") - 1);
FORM(token_id, TEXT, "six characters of a-z and 0-9", NULL, NB_LOWER NB_DIGITS, NB_TOKEN_ID_LEN);
FORM(sha256, TEXT, "64 hex digits in lower case", NULL, NB_DIGITS "abcdef", 2 * NB_K3S_HASH_SIZE);
FORM(tls_server_name, TEXT, "a host name", nb_tls_server_name_verify, .is_connection = true);
FORM(proxy_url, TEXT, "http, https or socks5 with host and port", nb_proxy_url_verify,
     .is_connection = true);
FORM(url, URL, "https://HOST[:PORT][/PREFIX]", .is_connection = true);
FORM(pem, PEM, "PEM");
FORM(ca, PEM, "PEM", NULL, NB_LOWER NB_UPPER NB_DIGITS "-+/= \n", .len_max = NB_CA_FILE_MAX);
FORM(pins, PINS, NULL);
FORM(boolean, BOOL, NULL);
FORM(number, NUMBER, NULL);

/* --- Fields --- */

#define COUNTED(of, key, form, presence, member, n_offset) \
        { \
                key, &form_##form, NB_STATE_##presence, offsetof(struct of, member), \
                        sizeof(((struct of *)NULL)->member), n_offset \
        }
#define FIELD(of, key, form, presence, member) COUNTED(of, key, form, presence, member, 0)

/* The fields of struct nb_provenance, for the handoff and the record. */
#define PROVENANCE(of, stage) \
        NB_STAGES(stage) \
        FIELD(of, "endpoint", endpoint, REQUIRED, provenance.endpoint), \
                FIELD(of, "csr", csr_name, MAY_BE_EMPTY, provenance.csr), \
                FIELD(of, "tokenID", token_id, MAY_BE_EMPTY, provenance.token_id), \
                FIELD(of, "tokenSource", line, REQUIRED, provenance.token_source)
#define FIELDS(of, array) (array), N_ELEMENTS(array), sizeof(struct of)

const char *const nb_stage_names[_NB_STAGE_N] = {
#define NB_STAGE(ID, name) [NB_STAGE_##ID] = (name),
        NB_STAGES(NB_STAGE)
#undef NB_STAGE
};

/* --- joined.json --- */

#define JOINED(...) FIELD(nb_handoff, __VA_ARGS__)

static const struct nb_state_field joined_fields[] = {
        JOINED("certificate", pem, REQUIRED, certificate),
        JOINED("serving", pem, OPTIONAL, serving),
        COUNTED(nb_handoff, "ca", pem, MAY_BE_EMPTY, cluster.ca,
                offsetof(struct nb_handoff, cluster.ca_len)),
        JOINED("server", url, REQUIRED, cluster.server),
        JOINED("tlsServerName", tls_server_name, MAY_BE_EMPTY, cluster.tls_server_name),
        JOINED("proxyURL", proxy_url, MAY_BE_EMPTY, cluster.proxy_url),
#define STAGE(ID, name) JOINED(name "Usec", number, OPTIONAL, provenance.usec[NB_STAGE_##ID]),
        PROVENANCE(nb_handoff, STAGE),
#undef STAGE
};

const struct nb_state_file nb_handoff_file = { NB_HANDOFF_FILE, NB_HANDOFF_MALFORMED,
                                               NB_HANDOFF_UNTRUSTED,
                                               FIELDS(nb_handoff, joined_fields) };

void nb_handoff_done(struct nb_handoff *handoff) {
        free(handoff->certificate);
        free(handoff->serving);
        handoff->certificate = handoff->serving = NULL;
        nb_cluster_done(&handoff->cluster);
}

/* --- refreshed.json --- */

static const struct nb_state_field refreshed_fields[] = {
        COUNTED(nb_handoff, "ca", pem, REQUIRED, cluster.ca,
                offsetof(struct nb_handoff, cluster.ca_len)),
        JOINED("server", url, REQUIRED, cluster.server),
        JOINED("tlsServerName", tls_server_name, MAY_BE_EMPTY, cluster.tls_server_name),
        JOINED("proxyURL", proxy_url, MAY_BE_EMPTY, cluster.proxy_url),
        JOINED("certificate", pem, OPTIONAL, certificate),
        JOINED("serving", pem, OPTIONAL, serving),
};

const struct nb_state_file nb_refresh_file = { NB_REFRESH_FILE, NB_HANDOFF_MALFORMED,
                                               NB_HANDOFF_UNTRUSTED,
                                               FIELDS(nb_handoff, refreshed_fields) };

/* --- platform.json --- */

#define PLATFORM(key, form, member) FIELD(nb_platform, key, form, OPTIONAL, member)

static const struct nb_state_field platform_fields[] = {
        PLATFORM("platformId", word, platform_id),
        PLATFORM("dataSource", word, data_source),
        PLATFORM("volume", volume, volume),
        PLATFORM("hasGuestinfo", boolean, has_guestinfo),
};

const struct nb_state_file nb_platform_file = { "platform.json", NB_METADATA_MALFORMED,
                                                NB_METADATA_MALFORMED,
                                                FIELDS(nb_platform, platform_fields),
                                                .is_open = true };

/* --- last.json --- */

#define LAST(...) FIELD(nb_last, __VA_ARGS__)

static const struct nb_state_field last_fields[] = {
        LAST("invocation", word, OPTIONAL, invocation),
        LAST("state", word, REQUIRED, state),
        LAST("since", time, REQUIRED, since),
        LAST("code", code, OPTIONAL, code),
        LAST("detail", line, OPTIONAL, detail),
        LAST("csr", line, OPTIONAL, fields[NB_FIELD_CSR]),
        LAST("endpoint", line, OPTIONAL, fields[NB_FIELD_ENDPOINT]),
        LAST("node", line, OPTIONAL, fields[NB_FIELD_NODE]),
        LAST("tokenID", line, OPTIONAL, fields[NB_FIELD_TOKEN_ID]),
        LAST("user", line, OPTIONAL, fields[NB_FIELD_USER]),
        LAST("cluster", line, OPTIONAL, fields[NB_FIELD_CLUSTER]),
};

const struct nb_state_file nb_last_file = { NB_LAST_NAME, NB_INSTALLED_MALFORMED,
                                            NB_INSTALLED_MALFORMED, FIELDS(nb_last, last_fields) };

/* --- node-bootstrap.json --- */

#define RECORD(...) FIELD(nb_record, __VA_ARGS__)

static const struct nb_state_field record_fields[] = {
        RECORD("node", node_name, REQUIRED, node),
        RECORD("hostName", line, OPTIONAL, facts.host_name),
        RECORD("machineID", sha256, OPTIONAL, facts.machine_id),
        RECORD("hardwareID", sha256, OPTIONAL, facts.hardware_id),
        RECORD("server", url, REQUIRED, server),
#define STAGE(ID, name) RECORD(name "Usec", number, OPTIONAL, provenance.usec[NB_STAGE_##ID]),
        PROVENANCE(nb_record, STAGE),
#undef STAGE
        RECORD("joinedAt", time, REQUIRED, joined_at),
        RECORD("certificate", path, REQUIRED, certificate),
        RECORD("joinMethod", word, OPTIONAL, join_method),
        RECORD("refreshedAt", time, OPTIONAL, refreshed_at),
        RECORD("renewalFailedAt", time, OPTIONAL, renewal_failed_at),
        /* Neither is checked against the known ones: another version may know others. */
        RECORD("renewalFailure", word, OPTIONAL, renewal_failure),
        RECORD("metadata", word, OPTIONAL, metadata),
        RECORD("kubeletArguments", line, OPTIONAL, arguments),
        RECORD("runtimeEndpoint", line, OPTIONAL, runtime_endpoint),
        RECORD("kubeconfig", path, REQUIRED, kubeconfig),
        RECORD("tlsServerName", tls_server_name, OPTIONAL, tls_server_name),
        RECORD("proxyURL", proxy_url, OPTIONAL, proxy_url),
        RECORD("discardFromMetadata", boolean, OPTIONAL, is_discard_from_metadata),
        COUNTED(nb_record, "caCertHashes", pins, REQUIRED, pins,
                offsetof(struct nb_record, n_pins)),
        COUNTED(nb_record, "fileHashes", pins, REQUIRED, hashes,
                offsetof(struct nb_record, n_hashes)),
        RECORD("ca", ca, OPTIONAL, ca),
        RECORD("settings", settings, OPTIONAL, settings),
};

const struct nb_state_file nb_record_file = { NB_RECORD_FILE, NB_INSTALLED_MALFORMED,
                                              NB_INSTALLED_MALFORMED,
                                              FIELDS(nb_record, record_fields) };

void nb_record_done(struct nb_record *record) {
        free(record->ca);
        record->ca = NULL;
}

int nb_installed_refuse(const char *path, int r, struct nb_failure *f) {
        if (r == -EBADF || r == -ELOOP)
                return nb_failure_set(f, NB_INSTALLED_MALFORMED, r, "'%s' is not a regular file",
                                      path);
        return nb_failure_set(f, NB_INSTALLED_UNREADABLE, r, "cannot read '%s': %m", path);
}

int nb_record_read(int root_fd, const char *certificate_directory, struct nb_record *ret_record,
                   struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        char path[NB_SETTINGS_PATH_MAX + sizeof(NB_RECORD_FILE) + 1];
        struct nb_failure why = { 0 };
        int r;

        snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, certificate_directory);
        r = nb_path_read(root_fd, path, NB_HANDOFF_MAX, &text);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return nb_installed_refuse(path, r, f);
        r = nb_state_file_parse(&nb_record_file, text.data, text.len, ret_record, &why);
        if (r < 0)
                return nb_failure_set(f, why.code, r, "'%s': %s", path, why.detail);
        return 1;
}

/* --- Node states --- */

bool nb_node_state_has_fallback(enum nb_node_state state) {
        return state == NB_NODE_STATE_OTHER_NODE || state == NB_NODE_STATE_OTHER_CLUSTER ||
               state == NB_NODE_STATE_NOT_ROTATABLE;
}
