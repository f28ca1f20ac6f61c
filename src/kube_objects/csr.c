/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/json.h"
#include "kube_objects/csr.h"
#include "kube_objects/token.h"

#define CONDITIONS_MAX 64
#define PATH_SIZE 64

static const char *const usages[] = { "digital signature", "key encipherment", "client auth" };

static const struct nb_object_type csr_type = {
        .what = "certificate signing request",
        .kind = "CertificateSigningRequest",
        .api_version = "certificates.k8s.io/v1",
        .max = NB_CSR_OBJECT_MAX,
};

int nb_csr_format(const char *name, const struct nb_csr_request *request, struct nb_buffer *ret) {
        _cleanup_(nb_buffer_done) struct nb_buffer encoded = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        struct nb_json_writer writer = { .buffer = ret };

        nb_base64_encode(request->pem, request->len, &encoded);
        if (encoded.error < 0)
                return encoded.error;
        nb_json_open(&writer, NULL, '{');
        nb_json_put_string(&writer, "apiVersion", csr_type.api_version);
        nb_json_put_string(&writer, "kind", csr_type.kind);
        nb_json_open(&writer, "metadata", '{');
        nb_json_put_string(&writer, "name", name);
        nb_json_close(&writer);
        nb_json_open(&writer, "spec", '{');
        nb_json_put_string(&writer, "request", encoded.data);
        nb_json_put_string(&writer, "signerName", NB_CSR_SIGNER);
        if (request->expiration_seconds > 0)
                nb_json_put_integer(&writer, "expirationSeconds", request->expiration_seconds);
        nb_json_open(&writer, "usages", '[');
        for (size_t i = 0; i < N_ELEMENTS(usages); i++)
                nb_json_put_string(&writer, NULL, usages[i]);
        return nb_json_finish(&writer);
}

/* Decodes base64 into a string; NULL if there is nothing at `path`. */
static char *decode_pem(struct nb_json *json, const char *path, size_t *ret_len) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text = nb_json_string(json, path);
        int r;

        if (!text || !text[0])
                return NULL;
        r = nb_base64_decode(text, strlen(text), &buffer);
        if (r == -ENOMEM)
                json->r = nb_failure_set_memory(json->f);
        else if (r < 0 || memchr(buffer.data, '\0', buffer.len))
                nb_json_refuse(json, path, "PEM in base64", text);
        *ret_len = buffer.len;
        return TAKE(buffer.data);
}

/* Denied and Failed are final; nothing overrides them. */
static enum nb_csr_state next_state(enum nb_csr_state state, const char *condition) {
        if (state == NB_CSR_STATE_DENIED || state == NB_CSR_STATE_FAILED)
                return state;
        if (strcmp(condition, "Denied") == 0)
                return NB_CSR_STATE_DENIED;
        if (strcmp(condition, "Failed") == 0)
                return NB_CSR_STATE_FAILED;
        return strcmp(condition, "Approved") == 0 ? NB_CSR_STATE_APPROVED : state;
}

static void read_condition(struct nb_json *json, ssize_t i, struct nb_csr *csr) {
        char type[32], status[32], reason[sizeof(csr->reason)], message[sizeof(csr->message)];
        const struct {
                const char *key;
                char *ret;
                size_t size;
        } fields[] = {
                { "type", type, sizeof(type) },
                { "status", status, sizeof(status) },
                { "reason", reason, sizeof(reason) },
                { "message", message, sizeof(message) },
        };
        enum nb_csr_state state;

        for (size_t k = 0; k < N_ELEMENTS(fields); k++) {
                char path[PATH_SIZE];

                snprintf(path, sizeof(path), "status.conditions[%zd].%s", i, fields[k].key);
                nb_json_line(json, path, fields[k].ret, fields[k].size);
        }
        state = next_state(csr->state, type);
        if ((status[0] != '\0' && strcmp(status, "True") != 0) || state == csr->state)
                return;
        csr->state = state;
        NB_TEXT_COPY(csr->reason, reason);
        NB_TEXT_COPY(csr->message, message);
}

static void read_conditions(struct nb_json *json, struct nb_csr *csr) {
        ssize_t n = nb_json_array(json, "status.conditions");

        if (n > CONDITIONS_MAX)
                json->r = nb_failure_set(
                        json->f, json->code, 0,
                        "%s: status.conditions: expected at most %d entries, found %zd", json->what,
                        CONDITIONS_MAX, n);
        for (ssize_t i = 0; i < n && json->r >= 0; i++)
                read_condition(json, i, csr);
}

static bool is_group_of_controller(const char *group) {
        size_t len = strlen(NB_TOKEN_GROUP_NODE);

        return strcmp(group, NB_TOKEN_GROUP_ENROLLED) == 0 ||
               (strncmp(group, NB_TOKEN_GROUP_NODE, len) == 0 &&
                (group[len] == '\0' || group[len] == ':'));
}

static void read_groups(struct nb_json *json, struct nb_csr *csr) {
        char path[PATH_SIZE], group[sizeof(csr->groups)];
        ssize_t n = nb_json_array(json, "spec.groups");

        for (ssize_t i = 0; i < n && json->r >= 0; i++) {
                snprintf(path, sizeof(path), "spec.groups[%zd]", i);
                nb_json_line(json, path, group, sizeof(group));
                csr->is_for_controller |= is_group_of_controller(group);
                if (strcmp(group, "system:authenticated") != 0)
                        nb_text_list_add(csr->groups, sizeof(csr->groups), group);
        }
}

static bool read_usages(struct nb_json *json) {
        bool is_same = nb_json_array(json, "spec.usages") == N_ELEMENTS(usages);

        for (size_t i = 0; i < N_ELEMENTS(usages) && is_same; i++) {
                char path[PATH_SIZE];
                const char *usage;

                snprintf(path, sizeof(path), "spec.usages[%zu]", i);
                usage = nb_json_string(json, path);
                is_same = usage && strcmp(usage, usages[i]) == 0;
        }
        return is_same;
}

static void read_csr(struct nb_json *json, struct nb_csr *csr) {
        nb_json_copy(json, "metadata.name", csr->name, sizeof(csr->name));
        nb_json_copy(json, "metadata.uid", csr->uid, sizeof(csr->uid));
        nb_json_copy(json, "metadata.resourceVersion", csr->resource_version,
                     sizeof(csr->resource_version));
        nb_json_copy(json, "spec.signerName", csr->signer_name, sizeof(csr->signer_name));
        nb_json_line(json, "spec.username", csr->username, sizeof(csr->username));
        read_groups(json, csr);
        csr->has_our_usages = read_usages(json);
        csr->expiration_seconds = nb_json_integer(json, "spec.expirationSeconds");
        csr->request = decode_pem(json, "spec.request", &csr->request_len);
        csr->certificate = decode_pem(json, "status.certificate", &csr->certificate_len);
        read_conditions(json, csr);
}

int nb_csr_parse(const char *text, size_t len, struct nb_csr *ret_csr, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &csr_type, f);
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };

        read_csr(&json, &csr);
        if (json.r < 0)
                return json.r;
        *ret_csr = TAKE(csr);
        return 0;
}

/* --- Watch events --- */

static enum nb_csr_event_type read_event_type(struct nb_json *json) {
        static const char *const names[] = {
                [NB_CSR_EVENT_ADDED] = "ADDED",     [NB_CSR_EVENT_MODIFIED] = "MODIFIED",
                [NB_CSR_EVENT_DELETED] = "DELETED", [NB_CSR_EVENT_BOOKMARK] = "BOOKMARK",
                [NB_CSR_EVENT_ERROR] = "ERROR",
        };
        const char *name = nb_json_string(json, "type");

        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (name && strcmp(name, names[i]) == 0)
                        return (enum nb_csr_event_type)i;
        nb_json_refuse(json, "type", "ADDED, MODIFIED, DELETED, BOOKMARK or ERROR", name);
        return NB_CSR_EVENT_ERROR;
}

int nb_csr_event_parse(const char *text, size_t len, struct nb_csr_event *ret_event,
                       struct nb_failure *f) {
        static const struct nb_object_type type = { .what = "watch event",
                                                    .max = NB_CSR_OBJECT_MAX };
        _cleanup_(nb_json_done) struct nb_json json = nb_object_parse(text, len, &type, f);
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = { .type = read_event_type(&json) };
        struct nb_json object = { nb_json_object(&json, "object"), "object of watch event",
                                  json.code, f, json.r };

        if (event.type == NB_CSR_EVENT_BOOKMARK)
                nb_json_copy(&object, "metadata.resourceVersion", event.csr.resource_version,
                             sizeof(event.csr.resource_version));
        else if (event.type == NB_CSR_EVENT_ERROR)
                nb_status_read(&object, &event.status);
        else {
                nb_object_verify_type(&object, &csr_type);
                read_csr(&object, &event.csr);
        }
        if (object.r < 0)
                return object.r;
        *ret_event = TAKE(event);
        return 0;
}

void nb_csr_done(struct nb_csr *csr) {
        free(csr->request);
        free(csr->certificate);
        *csr = (struct nb_csr){ 0 };
}

void nb_csr_event_done(struct nb_csr_event *event) {
        nb_csr_done(&event->csr);
}
