/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "admin/policy/address.h"
#include "admin/policy/node_record.h"
#include "admin/policy/rfc3339.h"
#include "admin/policy/secret_data.h"
#include "base/encoding.h"
#include "base/macro.h"
#include "crypto/attestation.h"

#define NAME_PREFIX "node-bootstrap-node-"

static bool is_valid_address(const char *text) {
        struct nb_prefix address;

        return nb_address_parse(text, &address) >= 0;
}

static bool is_node_name(const char *text) {
        char name[NB_NODE_NAME_MAX + 1];

        return nb_node_name_parse(text, strlen(text), name) >= 0 && strcmp(name, text) == 0;
}

static const struct nb_data_field fields[] = {
        { "node", "the name of a node", is_node_name, false,
          NB_DATA_FIELD(struct nb_node_record, node) },
        { "removed", "a time", NULL, false, NB_DATA_FIELD(struct nb_node_record, removed_text) },
        { "publicKey", "a public key as PEM", NULL, false,
          NB_DATA_FIELD(struct nb_node_record, public_key) },
        { "addresses", "a list of addresses", is_valid_address, true,
          NB_DATA_FIELD(struct nb_node_record, addresses) },
        { "dnsNames", "a list of DNS names", nb_host_is_name, true,
          NB_DATA_FIELD(struct nb_node_record, dns_names) },
};

void nb_node_record_name(const char *node, char ret[static NB_NODE_RECORD_NAME_SIZE]) {
        char digits[2 * NB_SHA256_SIZE + 1] = "";
        uint8_t digest[NB_SHA256_SIZE];

        if (strlen(NAME_PREFIX) + strlen(node) > NB_NODE_NAME_MAX) {
                /* Without SHA-256 no TLS connection is possible either. */
                if (nb_sha256(node, strlen(node), digest) >= 0)
                        nb_hex_encode(digest, sizeof(digest), digits);
                node = digits;
        }
        snprintf(ret, NB_NODE_RECORD_NAME_SIZE, NAME_PREFIX "%s", node);
}

bool nb_node_record_set_names(struct nb_node_record *record, const char *list, bool is_address) {
        const struct nb_data_field *field = &fields[is_address ? 3 : 4];

        if (list[0])
                return nb_data_set(field, list, record);
        ((char *)record)[field->offset] = '\0';
        return true;
}

bool nb_node_record_is_enrolled(const struct nb_node_record *record) {
        return record->public_key[0] || record->addresses[0] || record->dns_names[0];
}

void nb_node_record_read(struct nb_json *json, struct nb_node_record *ret_record) {
        char name[NB_NODE_RECORD_NAME_SIZE];
        struct nb_node_record record = { 0 };

        nb_json_expect(json, "type", NB_NODE_RECORD_TYPE);
        nb_json_copy(json, "metadata.uid", record.uid, sizeof(record.uid));
        nb_json_copy(json, "metadata.resourceVersion", record.resource_version,
                     sizeof(record.resource_version));
        nb_data_read(json, fields, N_ELEMENTS(fields), true, &record);
        nb_node_record_name(record.node, name);
        nb_json_expect(json, "metadata.name", name);
        if (json->r < 0)
                return;
        if (record.removed_text[0] &&
            (nb_rfc3339_parse(record.removed_text, &record.removed) < 0 || record.removed <= 0))
                nb_json_refuse(json, "data.removed", "a time", record.removed_text);
        /* Somebody has deleted a key or a list, which were limits. */
        if (!record.removed_text[0] && !nb_node_record_is_enrolled(&record))
                nb_json_refuse(json, "data", "publicKey, addresses or dnsNames", NULL);
        if (record.public_key[0]) {
                int r = nb_attestation_key_read(record.public_key, strlen(record.public_key),
                                                record.key_id);

                /* The message does not quote the key, which may be a private one by mistake. */
                if (r < 0)
                        json->r = nb_failure_set(json->f, json->code, r,
                                                 "%s: data.publicKey: expected a public key as PEM",
                                                 json->what);
        }
        if (json->r >= 0)
                *ret_record = record;
}

int nb_node_record_format(const struct nb_node_record *record, struct nb_buffer *ret) {
        struct nb_json_writer writer = { .buffer = ret };
        char name[NB_NODE_RECORD_NAME_SIZE];

        nb_node_record_name(record->node, name);
        nb_secret_begin(&writer, name);
        if (record->uid[0]) {
                nb_json_put_string(&writer, "uid", record->uid);
                nb_json_put_string(&writer, "resourceVersion", record->resource_version);
        }
        nb_json_close(&writer);
        nb_json_put_string(&writer, "type", NB_NODE_RECORD_TYPE);
        nb_json_open(&writer, "data", '{');
        for (size_t i = 0; i < N_ELEMENTS(fields); i++)
                nb_secret_data_put(&writer, fields[i].key, (const char *)record + fields[i].offset);
        return nb_json_finish(&writer);
}
