/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/encoding.h"
#include "base/macro.h"
#include "base/text.h"
#include "format/csr.h"
#include "format/json.h"

#define API_VERSION "certificates.k8s.io/v1"
#define KIND "CertificateSigningRequest"
#define CONDITIONS_MAX 64
#define GROUPS_MAX 32
#define PATH_MAX_LEN 64

int nb_csr_format(const char *name, const char *request, size_t request_len, uint32_t expiration_seconds,
                  struct nb_buffer *ret) {
        int r;

        r = nb_buffer_append_string(ret, "{\"apiVersion\":\"" API_VERSION "\",\"kind\":\"" KIND
                                         "\",\"metadata\":{\"name\":");
        if (r >= 0)
                r = nb_json_quote(name, strlen(name), ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, "},\"spec\":{\"request\":\"");
        if (r >= 0)
                r = nb_base64_encode(request, request_len, ret);
        if (r >= 0)
                r = nb_buffer_append_string(ret, "\",\"signerName\":\"" NB_CSR_SIGNER "\"");
        if (r >= 0 && expiration_seconds > 0)
                r = nb_buffer_printf(ret, ",\"expirationSeconds\":%" PRIu32, expiration_seconds);
        if (r >= 0)
                r = nb_buffer_append_string(
                        ret, ",\"usages\":[\"digital signature\",\"key encipherment\",\"client auth\"]}}");
        return r;
}

/* Copies a string that has to be there, not empty, and to fit. */
static int copy_required(const struct nb_json *json, const char *path, char *ret, size_t size, struct nb_failure *f) {
        const char *text;
        size_t len;
        int r;

        r = nb_json_string(json, path, &text, &len, f);
        if (r < 0)
                return r;
        if (r == 0 || len == 0)
                return nb_failure_set(f, json->code, 0, "%s: %s: expected a string, found nothing", json->what, path);
        if (len >= size)
                return nb_failure_set(f, json->code, 0, "%s: %s: expected at most %zu bytes, found %zu", json->what,
                                      path, size - 1, len);
        if (!nb_text_is_printable(text, len))
                return nb_failure_set(f, json->code, 0, "%s: %s: expected printable text, found '%.64s'", json->what,
                                      path, text);
        memcpy(ret, text, len + 1);
        return 0;
}

/* Decodes base64 into a text of its own; NULL when there is nothing at `path`. */
static int decode(const struct nb_json *json, const char *path, char **ret, size_t *ret_len, struct nb_failure *f) {
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
                return nb_failure_set(f, json->code, 0, "%s: %s: expected PEM in base64, found something else",
                                      json->what, path);
        *ret_len = buffer.len;
        *ret = TAKE(buffer.data);
        return 0;
}

/* A condition of this type decides, unless one that wins over it has decided already. */
static enum nb_csr_state state_of(const char *type) {
        if (strcmp(type, "Approved") == 0)
                return NB_CSR_STATE_APPROVED;
        if (strcmp(type, "Denied") == 0)
                return NB_CSR_STATE_DENIED;
        return strcmp(type, "Failed") == 0 ? NB_CSR_STATE_FAILED : NB_CSR_STATE_PENDING;
}

static bool wins(enum nb_csr_state state, enum nb_csr_state over) {
        return state != NB_CSR_STATE_PENDING && (over == NB_CSR_STATE_PENDING || over == NB_CSR_STATE_APPROVED) &&
               state != over;
}

/* "status.conditions[<i>].<member>"; all members of a condition are short, so that it fits. */
static const char *condition_path(size_t i, const char *member, char ret[static PATH_MAX_LEN]) {
        (void)snprintf(ret, PATH_MAX_LEN, "status.conditions[%zu].%s", i, member);
        return ret;
}

static int take_condition(const struct nb_json *json, size_t i, struct nb_csr *csr, struct nb_failure *f) {
        char path[PATH_MAX_LEN], type[32], status[32];
        int r;

        r = nb_json_line(json, condition_path(i, "type", path), type, sizeof(type), f);
        if (r < 0)
                return r;
        r = nb_json_line(json, condition_path(i, "status", path), status, sizeof(status), f);
        if (r < 0)
                return r;
        if ((status[0] != '\0' && strcmp(status, "True") != 0) || !wins(state_of(type), csr->state))
                return 0;

        csr->state = state_of(type);
        r = nb_json_line(json, condition_path(i, "reason", path), csr->reason, sizeof(csr->reason), f);
        if (r < 0)
                return r;
        return nb_json_line(json, condition_path(i, "message", path), csr->message, sizeof(csr->message), f);
}

static int take_conditions(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        size_t n = 0;
        int r;

        r = nb_json_array(json, "status.conditions", &n, f);
        if (r < 0)
                return r;
        if (n > CONDITIONS_MAX)
                return nb_failure_set(f, json->code, 0,
                                      "%s: status.conditions: expected at most %d entries, found %zu", json->what,
                                      CONDITIONS_MAX, n);
        for (size_t i = 0; i < n; i++) {
                r = take_condition(json, i, csr, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* For people alone: what does not fit is left out. */
static int take_groups(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        char path[PATH_MAX_LEN], group[sizeof(csr->groups)];
        size_t n = 0, len = 0;
        int r;

        r = nb_json_array(json, "spec.groups", &n, f);
        for (size_t i = 0; r >= 0 && i < n && i < GROUPS_MAX; i++) {
                (void)snprintf(path, sizeof(path), "spec.groups[%zu]", i);
                r = nb_json_line(json, path, group, sizeof(group), f);
                if (r < 0 || strcmp(group, "system:authenticated") == 0 || len + strlen(group) + 3 > sizeof(csr->groups))
                        continue;
                len += (size_t)snprintf(csr->groups + len, sizeof(csr->groups) - len, "%s%s", len > 0 ? ", " : "", group);
        }
        return r;
}

static int take_csr(const struct nb_json *json, struct nb_csr *csr, struct nb_failure *f) {
        int r;

        r = nb_json_expect(json, "kind", KIND, f);
        if (r >= 0)
                r = nb_json_expect(json, "apiVersion", API_VERSION, f);
        if (r >= 0)
                r = copy_required(json, "metadata.name", csr->name, sizeof(csr->name), f);
        if (r >= 0)
                r = copy_required(json, "metadata.uid", csr->uid, sizeof(csr->uid), f);
        if (r >= 0)
                r = copy_required(json, "metadata.resourceVersion", csr->resource_version,
                                  sizeof(csr->resource_version), f);
        if (r >= 0)
                r = copy_required(json, "spec.signerName", csr->signer_name, sizeof(csr->signer_name), f);
        if (r >= 0)
                r = nb_json_line(json, "spec.username", csr->username, sizeof(csr->username), f);
        if (r >= 0)
                r = take_groups(json, csr, f);
        if (r >= 0)
                r = decode(json, "spec.request", &csr->request, &csr->request_len, f);
        if (r >= 0)
                r = decode(json, "status.certificate", &csr->certificate, &csr->certificate_len, f);
        if (r >= 0)
                r = take_conditions(json, csr, f);
        return r;
}

static int parse_json(const char *text, size_t len, const char *what, struct nb_json *ret_json, struct nb_failure *f) {
        if (len > NB_CSR_OBJECT_MAX)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0, "%s: expected at most %d bytes, found %zu", what,
                                      NB_CSR_OBJECT_MAX, len);
        return nb_json_parse(text, len, what, NB_ANSWER_MALFORMED, ret_json, f);
}

int nb_csr_parse(const char *json_text, size_t len, struct nb_csr *ret_csr, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        _cleanup_(nb_csr_done) struct nb_csr csr = {};
        int r;

        r = parse_json(json_text, len, "certificate signing request", &json, f);
        if (r >= 0)
                r = take_csr(&json, &csr, f);
        if (r < 0)
                return r;

        *ret_csr = csr;
        csr = (struct nb_csr){};
        return 0;
}

static int take_status(const struct nb_json *json, struct nb_status *status, struct nb_failure *f) {
        int r;

        r = nb_json_expect(json, "kind", "Status", f);
        if (r >= 0)
                r = nb_json_integer(json, "code", &status->code, f);
        if (r >= 0)
                r = nb_json_line(json, "reason", status->reason, sizeof(status->reason), f);
        if (r >= 0)
                r = nb_json_line(json, "message", status->message, sizeof(status->message), f);
        return r < 0 ? r : 0;
}

static int event_type(const struct nb_json *json, enum nb_csr_event_type *ret_type, struct nb_failure *f) {
        static const char *const names[] = {
                [NB_CSR_EVENT_ADDED] = "ADDED",
                [NB_CSR_EVENT_MODIFIED] = "MODIFIED",
                [NB_CSR_EVENT_DELETED] = "DELETED",
                [NB_CSR_EVENT_BOOKMARK] = "BOOKMARK",
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
        return nb_failure_set(f, json->code, 0,
                              "%s: type: expected ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, found '%.64s'",
                              json->what, name);
}

static int take_event(const struct nb_json *json, struct nb_csr_event *event, struct nb_failure *f) {
        struct nb_json object = { NULL, "object of watch event", json->code };
        int r;

        r = event_type(json, &event->type, f);
        if (r < 0)
                return r;
        r = nb_json_object(json, "object", &object.root, f);
        if (r < 0)
                return r;
        if (r == 0)
                return nb_failure_set(f, json->code, 0, "%s: object: expected an object, found nothing", json->what);

        switch (event->type) {
        case NB_CSR_EVENT_BOOKMARK:
                return copy_required(&object, "metadata.resourceVersion", event->csr.resource_version,
                                     sizeof(event->csr.resource_version), f);
        case NB_CSR_EVENT_ERROR:
                return take_status(&object, &event->status, f);
        case NB_CSR_EVENT_ADDED:
        case NB_CSR_EVENT_MODIFIED:
        case NB_CSR_EVENT_DELETED:
        default:
                return take_csr(&object, &event->csr, f);
        }
}

int nb_csr_event_parse(const char *json_text, size_t len, struct nb_csr_event *ret_event, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        _cleanup_(nb_csr_event_done) struct nb_csr_event event = {};
        int r;

        r = parse_json(json_text, len, "watch event", &json, f);
        if (r >= 0)
                r = take_event(&json, &event, f);
        if (r < 0)
                return r;

        *ret_event = event;
        event = (struct nb_csr_event){};
        return 0;
}

int nb_status_parse(const char *json_text, size_t len, struct nb_status *ret_status) {
        _cleanup_(nb_json_done) struct nb_json json = {};
        struct nb_failure ignored = {};
        struct nb_status status = {};
        int r;

        r = parse_json(json_text, len, "answer", &json, &ignored);
        if (r >= 0)
                r = take_status(&json, &status, &ignored);
        if (r == -ENOMEM)
                return r;
        *ret_status = r < 0 ? (struct nb_status){} : status;
        return 0;
}

/* The name is quoted as Go quotes: a backslash goes with what follows it. */
void nb_status_user(const struct nb_status *status, char *ret, size_t size) {
        static const char before[] = "User \"";
        const char *from = strstr(status->message, before), *to;

        ret[0] = '\0';
        if (!from)
                return;
        from += strlen(before);
        for (to = from; *to && *to != '"'; to++)
                if (*to == '\\' && to[1])
                        to++;
        if (*to == '"')
                nb_text_copy_line(from, (size_t)(to - from), ret, size);
}

void nb_csr_done(struct nb_csr *csr) {
        free(csr->request);
        free(csr->certificate);
        csr->request = NULL;
        csr->certificate = NULL;
        csr->request_len = 0;
        csr->certificate_len = 0;
}

void nb_csr_event_done(struct nb_csr_event *event) {
        nb_csr_done(&event->csr);
}
