/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/policy/node_record.h"
#include "admin/policy/secret_data.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/attestation.h"
#include "kube/object.h"
#include "system/clock.h"

#define NAME_PREFIX "node-bootstrap-node-"
#define NAME_MAX_LEN (NB_NODE_RECORD_NAME_SIZE - 1)
#define LIST_MAX ((size_t)NB_NODE_RECORD_NAMES_MAX * (NB_DNS_NAME_MAX + 1))

#define DATA_NODE "node"
#define DATA_KEY "publicKey"
#define DATA_ADDRESSES "addresses"
#define DATA_NAMES "dnsNames"
#define DATA_REMOVED "removed"

void nb_node_record_name(const char *node, char ret[static NB_NODE_RECORD_NAME_SIZE]) {
        char digits[2 * NB_SHA256_SIZE + 1] = "";
        uint8_t digest[NB_SHA256_SIZE];

        if (strlen(NAME_PREFIX) + strlen(node) > NAME_MAX_LEN) {
                /* Without SHA-256 no TLS connection is possible either. */
                if (nb_sha256(node, strlen(node), digest) >= 0)
                        nb_hex_encode(digest, sizeof(digest), digits);
                node = digits;
        }
        snprintf(ret, NB_NODE_RECORD_NAME_SIZE, NAME_PREFIX "%s", node);
}

/* --- Names --- */

static bool copy_name(const char *text, bool is_address, char ret[static NB_DNS_NAME_MAX + 1]) {
        struct in6_addr bytes;
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;

        if (is_address)
                return inet_pton(family, text, &bytes) == 1 &&
                       inet_ntop(family, &bytes, ret, NB_DNS_NAME_MAX + 1);
        snprintf(ret, NB_DNS_NAME_MAX + 1, "%s", text);
        return nb_dns_name_is_valid(text, strlen(text), NB_DNS_LABEL_MAX);
}

int nb_node_record_add_names(struct nb_node_record *record, const char *list, bool is_address) {
        for (;; list++) {
                char word[NB_DNS_NAME_MAX + 1];
                size_t len = strcspn(list, ",");
                struct nb_enrolled_name *name = &record->names[record->n_names];

                if (record->n_names == NB_NODE_RECORD_NAMES_MAX)
                        return -E2BIG;
                if (len >= sizeof(word))
                        return -EINVAL;
                snprintf(word, sizeof(word), "%.*s", (int)len, list);
                if (!copy_name(word, is_address, name->text))
                        return -EINVAL;
                name->is_address = is_address;
                record->n_names++;
                list += len;
                if (!*list)
                        return 0;
        }
}

void nb_node_record_format_names(const struct nb_node_record *record, bool is_address,
                                 struct nb_buffer *ret) {
        nb_buffer_append_string(ret, "");
        for (unsigned i = 0; i < record->n_names; i++)
                if (record->names[i].is_address == is_address)
                        nb_buffer_printf(ret, "%s%s", ret->len > 0 ? "," : "",
                                         record->names[i].text);
}

/* --- Reading --- */

static void read_names(struct nb_json *json, const char *key, bool is_address,
                       struct nb_node_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(LIST_MAX);
        const char *expected = is_address ? "a list of addresses" : "a list of DNS names";

        nb_secret_data_read(json, key, expected, &value);
        if (json->r >= 0 && value.len > 0 &&
            nb_node_record_add_names(record, value.data, is_address) < 0)
                nb_json_refuse(json, key, expected, value.data);
}

void nb_node_record_read_names(struct nb_json *json, struct nb_node_record *record) {
        read_names(json, DATA_ADDRESSES, true, record);
        json->r = 0;
        read_names(json, DATA_NAMES, false, record);
        json->r = 0;
}

/* The message does not quote the value, which may be a private key by mistake. */
static void read_key(struct nb_json *json, struct nb_node_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer value = NB_BUFFER_INIT(NB_NODE_RECORD_KEY_MAX);
        int r;

        nb_secret_data_read(json, DATA_KEY, "a public key as PEM", &value);
        if (json->r < 0)
                return;
        r = nb_attestation_key_read(value.data, value.len, record->key_id);
        if (r < 0)
                json->r = r == -ENOMEM
                                  ? nb_failure_set_memory(json->f)
                                  : nb_failure_set(json->f, json->code, 0,
                                                   "%s: " DATA_KEY ": expected a public key as PEM",
                                                   json->what);
        else
                memcpy(record->public_key, value.data, value.len + 1);
}

static void read_content(struct nb_json *json, struct nb_node_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer removed = NB_BUFFER_INIT(NB_RFC3339_SIZE);

        nb_secret_data_read(json, DATA_REMOVED, "a time", &removed);
        if (json->r < 0)
                return;
        if (removed.len == 0) {
                read_key(json, record);
                read_names(json, DATA_ADDRESSES, true, record);
                read_names(json, DATA_NAMES, false, record);
        } else if (nb_rfc3339_parse(removed.data, &record->removed) < 0 || record->removed <= 0)
                nb_json_refuse(json, DATA_REMOVED, "a time", removed.data);
}

/* An unknown value may be a limit that is misspelled. */
static void refuse_unknown_keys(struct nb_json *json) {
        static const char *const known[] = { DATA_NODE, DATA_KEY, DATA_ADDRESSES, DATA_NAMES,
                                             DATA_REMOVED };

        for (const char *key = NULL; (key = nb_json_next_key(json, "data", key));) {
                size_t i = 0;

                while (i < N_ELEMENTS(known) && strcmp(key, known[i]) != 0)
                        i++;
                if (i == N_ELEMENTS(known))
                        nb_json_refuse(json, "data",
                                       "node, publicKey, addresses, dnsNames and removed only",
                                       key);
        }
}

void nb_node_record_read(struct nb_json *json, struct nb_node_record *ret_record) {
        _cleanup_(nb_buffer_done) struct nb_buffer node = NB_BUFFER_INIT(NB_NODE_NAME_MAX);
        char name[NB_NODE_RECORD_NAME_SIZE];
        struct nb_node_record record = { 0 };

        nb_json_expect(json, "type", NB_NODE_RECORD_TYPE);
        nb_json_copy(json, "metadata.uid", record.uid, sizeof(record.uid));
        nb_json_copy(json, "metadata.resourceVersion", record.resource_version,
                     sizeof(record.resource_version));
        nb_secret_data_read(json, DATA_NODE, "the name of a node", &node);
        if (json->r < 0)
                return;
        if (nb_node_name_parse(node.data, node.len, record.node) < 0 ||
            strcmp(record.node, node.data) != 0) {
                nb_json_refuse(json, DATA_NODE, "the name of a node", node.data);
                return;
        }
        nb_node_record_name(record.node, name);
        nb_json_expect(json, "metadata.name", name);
        refuse_unknown_keys(json);
        read_content(json, &record);
        if (json->r >= 0)
                *ret_record = record;
}

/* --- Formatting --- */

static void put_names(struct nb_json_writer *writer, const char *key, bool is_address,
                      const struct nb_node_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer list = NB_BUFFER_INIT(LIST_MAX);

        nb_node_record_format_names(record, is_address, &list);
        if (list.error < 0)
                writer->buffer->error = list.error;
        else
                nb_secret_data_put(writer, key, list.data);
}

int nb_node_record_format(const struct nb_node_record *record, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret };
        char name[NB_NODE_RECORD_NAME_SIZE], removed[NB_RFC3339_SIZE] = "removing";

        nb_node_record_name(record->node, name);
        if (record->removed != NB_NODE_RECORD_REMOVING)
                nb_time_format(record->removed, removed);
        nb_object_begin(&writer, "v1", "Secret", name);
        if (record->uid[0]) {
                nb_json_put_string(&writer, "uid", record->uid);
                nb_json_put_string(&writer, "resourceVersion", record->resource_version);
        }
        nb_json_close(&writer);
        nb_json_put_string(&writer, "type", NB_NODE_RECORD_TYPE);
        nb_json_open(&writer, "data", '{');
        nb_secret_data_put(&writer, DATA_NODE, record->node);
        if (record->removed != 0)
                nb_secret_data_put(&writer, DATA_REMOVED, removed);
        else {
                nb_secret_data_put(&writer, DATA_KEY, record->public_key);
                put_names(&writer, DATA_ADDRESSES, true, record);
                put_names(&writer, DATA_NAMES, false, record);
        }
        return nb_json_finish(&writer);
}
