/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "codec/json.h"
#include "kube/csr.h"

#define CONDITIONS_MAX 64
#define GROUPS_MAX 32
#define PATH_SIZE 64

static const struct nb_object_type csr_type = {
        .what = "certificate signing request",
        .kind = "CertificateSigningRequest",
        .api_version = "certificates.k8s.io/v1",
        .max = NB_CSR_OBJECT_MAX,
};

int nb_csr_format(const char *name, const struct nb_csr_request *request, struct nb_buffer *ret) {
        static const char *const usages[] = { "digital signature", "key encipherment",
                                              "client auth" };
        _cleanup_(nb_buffer_done) struct nb_buffer encoded = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        struct nb_json_writer writer = { .buffer = ret };
        int r;

        r = nb_base64_encode(request->pem, request->len, &encoded);
        if (r < 0)
                return r;
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
static int decode_pem(const struct nb_json *json, const char *path, char **ret, size_t *ret_len,
                      struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer buffer = NB_BUFFER_INIT(NB_CSR_OBJECT_MAX);
        const char *text;
        size_t len;
        int r;

        r = nb_json_string(json, path, &text, &len, f);
        if (r < 0)
                return r;
        if (r == 0 || len == 0)
                return 0;
        r = nb_base64_decode(text, len, &buffer);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0 || memchr(buffer.data, '\0', buffer.len))
                return nb_failure_set(f, json->code, 0,
                                      "%s: %s: expected PEM in base64, found something else",
                                      json->what, path);
        *ret_len = buffer.len;
        *ret = TAKE(buffer.data);
        return 0;
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

static int read_condition(const struct nb_json *json, size_t i, struct nb_csr *csr,
                          struct nb_failure *f) {
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
                int r;

                snprintf(path, sizeof(path), "status.conditions[%zu].%s", i, fields[k].key);
                r = nb_json_line(json, path, fields[k].ret, fields[k].size, f);
                if (r < 0)
                        return r;
        }
        state = next_state(csr->state, type);
        if ((status[0] != '\0' && strcmp(status, "True") != 0) || state == csr->state)
                return 0;
        csr->state = state;
        strcpy(csr->reason, reason);
        strcpy(csr->message, message);
        return 0;
}

static int read_conditions(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        size_t n = 0;
        int r;

        r = nb_json_array(json, "status.conditions", &n, f);
        if (r < 0)
                return r;
        if (n > CONDITIONS_MAX)
                return nb_failure_set(
                        f, json->code, 0,
                        "%s: status.conditions: expected at most %d entries, found %zu", json->what,
                        CONDITIONS_MAX, n);
        for (size_t i = 0; i < n; i++) {
                r = read_condition(json, i, csr, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Groups that do not fit are left out: they are for messages only. */
static int read_groups(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        char path[PATH_SIZE], group[sizeof(csr->groups)];
        size_t n = 0, len = 0;
        int r;

        r = nb_json_array(json, "spec.groups", &n, f);
        for (size_t i = 0; r >= 0 && i < n && i < GROUPS_MAX; i++) {
                snprintf(path, sizeof(path), "spec.groups[%zu]", i);
                r = nb_json_line(json, path, group, sizeof(group), f);
                if (r < 0 || strcmp(group, "system:authenticated") == 0 ||
                    len + strlen(group) + 3 > sizeof(csr->groups))
                        continue;
                len += (size_t)snprintf(csr->groups + len, sizeof(csr->groups) - len, "%s%s",
                                        len > 0 ? ", " : "", group);
        }
        return r;
}

static int read_csr(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        const struct {
                const char *path;
                char *ret;
                size_t size;
        } required[] = {
                { "metadata.name", csr->name, sizeof(csr->name) },
                { "metadata.uid", csr->uid, sizeof(csr->uid) },
                { "metadata.resourceVersion", csr->resource_version,
                  sizeof(csr->resource_version) },
                { "spec.signerName", csr->signer_name, sizeof(csr->signer_name) },
        };
        int r;

        for (size_t i = 0; i < N_ELEMENTS(required); i++) {
                r = nb_json_copy(json, required[i].path, required[i].ret, required[i].size, f);
                if (r < 0)
                        return r;
        }
        r = nb_json_line(json, "spec.username", csr->username, sizeof(csr->username), f);
        if (r < 0)
                return r;
        r = read_groups(json, csr, f);
        if (r < 0)
                return r;
        r = decode_pem(json, "spec.request", &csr->request, &csr->request_len, f);
        if (r < 0)
                return r;
        r = decode_pem(json, "status.certificate", &csr->certificate, &csr->certificate_len, f);
        if (r < 0)
                return r;
        return read_conditions(json, csr, f);
}

int nb_csr_parse(const char *text, size_t len, struct nb_csr *ret_csr, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        _cleanup_(nb_csr_done) struct nb_csr csr = { 0 };
        int r;

        r = nb_object_parse(text, len, &csr_type, &json, f);
        if (r >= 0)
                r = read_csr(&json, &csr, f);
        if (r < 0)
                return r;
        *ret_csr = TAKE(csr);
        return 0;
}

/* --- Watch events --- */

static int read_event_type(const struct nb_json *json, enum nb_csr_event_type *ret_type,
                           struct nb_failure *f) {
        static const char *const names[] = {
                [NB_CSR_EVENT_ADDED] = "ADDED",     [NB_CSR_EVENT_MODIFIED] = "MODIFIED",
                [NB_CSR_EVENT_DELETED] = "DELETED", [NB_CSR_EVENT_BOOKMARK] = "BOOKMARK",
                [NB_CSR_EVENT_ERROR] = "ERROR",
        };
        const char *name = "";
        size_t len;
        int r;

        r = nb_json_string(json, "type", &name, &len, f);
        if (r < 0)
                return r;
        for (size_t i = 0; i < N_ELEMENTS(names); i++)
                if (strcmp(name, names[i]) == 0) {
                        *ret_type = (enum nb_csr_event_type)i;
                        return 0;
                }
        return nb_failure_set(
                f, json->code, 0,
                "%s: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, found '%.64s'",
                json->what, name);
}

static int read_event(const struct nb_json *json, struct nb_csr_event *event,
                      struct nb_failure *f) {
        struct nb_json object = { NULL, "object of watch event", json->code };
        int r;

        r = read_event_type(json, &event->type, f);
        if (r < 0)
                return r;
        r = nb_json_object(json, "object", &object.root, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, json->code, 0,
                                      "%s: object: expected an object, found nothing", json->what);
        if (event->type == NB_CSR_EVENT_BOOKMARK)
                return nb_json_copy(&object, "metadata.resourceVersion",
                                    event->csr.resource_version,
                                    sizeof(event->csr.resource_version), f);
        if (event->type == NB_CSR_EVENT_ERROR)
                return nb_status_read(&object, &event->status, f);
        r = nb_object_verify_type(&object, &csr_type, f);
        return r < 0 ? r : read_csr(&object, &event->csr, f);
}

int nb_csr_event_parse(const char *text, size_t len, struct nb_csr_event *ret_event,
                       struct nb_failure *f) {
        static const struct nb_object_type type = { .what = "watch event",
                                                    .max = NB_CSR_OBJECT_MAX };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = { 0 };
        int r;

        r = nb_object_parse(text, len, &type, &json, f);
        if (r >= 0)
                r = read_event(&json, &event, f);
        if (r < 0)
                return r;
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
