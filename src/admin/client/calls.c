/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/exchange_internal.h"
#include "base/macro.h"
#include "kube/object.h"
#include "system/log.h"

const struct nb_answer_codes nb_admin_codes = {
        .unauthorized = NB_ADMIN_UNAUTHORIZED,
        .forbidden = NB_ADMIN_FORBIDDEN,
        .invalid = NB_ADMIN_REFUSED,
        .anonymous = NB_ADMIN_UNAUTHORIZED,
};

void nb_admin_explain(const struct nb_admin *admin, struct nb_failure *f) {
        if (nb_http_is_unanswered(f->code))
                f->code = NB_ADMIN_UNREACHABLE;
        else if (nb_http_is_untrusted(f->code))
                f->code = NB_ADMIN_UNTRUSTED;
        else
                return;
        nb_failure_add(f, "; server and CA are from %s", admin->origin);
}

/* The outcome of an answered call: 1 and the answer, or the failure of the call. A page is returned
 * once, and then the next page can be started. */
static int take_answer(struct nb_exchange_call *call, bool is_page,
                       struct nb_http_answer *ret_answer, struct nb_failure *f) {
        struct nb_http_answer copy = call->answer;

        if (is_page)
                call->is_answered = false;
        if (call->r < 0) {
                *f = call->failure;
                return call->r;
        }
        if (is_page) {
                *ret_answer = TAKE(call->answer);
                return 1;
        }
        copy.body = (struct nb_buffer)NB_BUFFER_INIT(copy.body.max);
        if (call->answer.body.data)
                nb_buffer_append(&copy.body, call->answer.body.data, call->answer.body.len);
        if (copy.body.error < 0)
                return nb_failure_set_memory(f);
        *ret_answer = copy;
        return 1;
}

/* With an exchange: -EINPROGRESS until the answer is there. */
static int send_call(struct nb_admin *admin, const struct nb_admin_call *call,
                     const struct nb_call *api_call, struct nb_http_answer *ret_answer,
                     struct nb_failure *f) {
        struct nb_exchange_call *own = call->list;
        struct nb_http_request request = {
                .method = strcmp(call->method, "GET") != 0 ? call->method : NULL,
                .body = call->body,
                .body_len = call->body_len,
                .body_type = strcmp(call->method, "PATCH") == 0 ? "application/merge-patch+json"
                                                                : NULL,
                .timeout_ms = NB_ADMIN_TIMEOUT_MS,
        };
        int r;

        if (!admin->exchange) {
                r = nb_admin_renew_if_expired(admin, f);
                if (r < 0)
                        return r;
                r = nb_api_perform(&admin->api, api_call, &request, ret_answer, f);
                nb_admin_count(admin, r < 0 ? 0 : ret_answer->status);
                return r;
        }
        if (!own)
                own = nb_exchange_find(admin->exchange, call->method, call->path, f);
        if (!own)
                return -ENOMEM;
        if (TAKE(own->is_new))
                nb_admin_count(admin, own->r < 0 ? 0 : own->answer.status);
        if (own->is_answered)
                return take_answer(own, call->list, ret_answer, f);
        if (own->transfer)
                return -EINPROGRESS;
        nb_buffer_wipe(&own->body);
        own->body = (struct nb_buffer)NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        if (call->body)
                nb_buffer_append(&own->body, call->body, call->body_len);
        if (own->body.error < 0)
                return nb_failure_set_memory(f);
        request.body = own->body.data;
        r = nb_api_start(&admin->api, api_call, &request, &own->transfer, f);
        admin->exchange->begun = own;
        return r < 0 ? r : -EINPROGRESS;
}

int nb_admin_perform(struct nb_admin *admin, const struct nb_admin_call *call,
                     struct nb_http_answer *ret_answer, struct nb_failure *f) {
        char what[256];
        const struct nb_call api_call = { what, call->path, NB_ADMIN_OBJECT_MAX, &nb_admin_codes };
        struct nb_http_answer answer = { 0 };
        int r;

        snprintf(what, sizeof(what), "%s at", call->what);
        r = send_call(admin, call, &api_call, &answer, f);
        if (r < 0) {
                nb_admin_explain(admin, f);
                return r;
        }
        /* The token may have been replaced, or revoked before its time. */
        if (answer.status == 401)
                admin->expires_ms = 0;
        if ((answer.status >= 200 && answer.status <= 202) || answer.status == 409 ||
            (answer.status == 410 && call->list) || nb_answer_is_not_found(&answer)) {
                admin->unusable_ms = 0;
                admin->date = answer.date;
                *ret_answer = answer;
                return (int)answer.status;
        }
        r = nb_answer_failure(&admin->api, &api_call, &answer, f);
        nb_http_answer_done(&answer);
        return r;
}

struct nb_json nb_admin_parse(char *text, size_t len, const char *what, struct nb_failure *f) {
        static const char null[] = "\\u0000";

        for (size_t i = 0; i + strlen(null) <= len; i++) {
                if (text[i] != '\\')
                        continue;
                if (memcmp(text + i, null, strlen(null)) == 0)
                        memcpy(text + i, "\\ufffd", strlen(null));
                i++; /* the escaped character, which may be a backslash */
        }
        return nb_json_parse(text ? text : "", len, what, NB_ANSWER_MALFORMED, f);
}

int nb_admin_send(struct nb_admin *admin, const char *method, const char *what, const char *path,
                  const struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f) {
        const struct nb_admin_call call = { method, what, path, body ? body->data : NULL,
                                            body ? body->len : 0 };
        struct nb_http_answer answer = { 0 };
        int r;

        if (body && body->error < 0)
                return nb_failure_set(f, NB_INTERNAL, body->error, "%s: %m", what);
        r = nb_admin_perform(admin, &call, &answer, f);
        if (r >= 0 && r < 300 && ret_json) {
                *ret_json = nb_admin_parse(answer.body.data, answer.body.len, what, f);
                r = ret_json->r < 0 ? ret_json->r : r;
        }
        nb_buffer_wipe(&answer.body); /* it may hold the Secret of a token */
        return r;
}

/* The API server does not answer so, but something in front of it may. */
static int refuse_conflict(const char *what, struct nb_failure *f) {
        return nb_failure_set_http(f, NB_ANSWER_MALFORMED, 409,
                                   "%s: expected an object, found status 409", what);
}

int nb_admin_get(struct nb_admin *admin, const char *what, const char *path,
                 struct nb_json *ret_json, struct nb_failure *f) {
        int r = nb_admin_send(admin, "GET", what, path, NULL, ret_json, f);

        return r == 409 ? refuse_conflict(what, f) : r < 0 ? r : r != 404;
}

/* Reads one page. After a 410 it is the API server's answer, which
 * says where a list of the objects as they are now continues. */
static int read_page(struct nb_admin *admin, const char *what, struct nb_exchange_call *list,
                     bool is_consistent, struct nb_json *ret_json, struct nb_failure *f) {
        static const char items[] = "\"items\":[", none[] = "\"x\":null}";
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_buffer *body = &answer.body;
        char *at, page[NB_ADMIN_PATH_MAX + sizeof(list->next) + 32];
        const struct nb_admin_call call = {
                .method = "GET", .what = what, .path = page, .list = list
        };
        int r;

        /* The continue token is base64url, so it needs no escape in a URL. */
        snprintf(page, sizeof(page), "%s%climit=%d%s%s", list->path,
                 strchr(list->path, '?') ? '&' : '?', NB_ADMIN_PAGE >> list->n_halved,
                 list->next[0] ? "&continue=" : "", list->next);
        r = nb_admin_perform(admin, &call, &answer, f);
        if (r < 0)
                return r;
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the API server does not serve it", what);
        if (r == 409)
                return refuse_conflict(what, f);
        if (r == 410 && is_consistent)
                return -ESTALE;
        *ret_json = nb_admin_parse(body->data, body->len, what, f);
        if (r == 410 && ret_json->r >= 0 && !nb_json_string(ret_json, "metadata.continue"))
                return nb_failure_set_http(f, NB_ADMIN_CONFLICT, 410,
                                           "%s: the list changes faster than it can be read", what);
        at = body->data ? memmem(body->data, body->len, items, strlen(items)) : NULL;
        if (r == 200 && ret_json->r >= 0 && nb_json_array(ret_json, "items") < 0)
                nb_json_refuse(ret_json, "items", "a list", NULL);
        /* Not after each page: one that is above the limits costs the API server much. */
        if (ret_json->r >= 0 && body->len < NB_ADMIN_OBJECT_MAX / 4 && list->n_halved > 0)
                list->n_halved--;
        if (ret_json->r >= 0 || (NB_ADMIN_PAGE >> list->n_halved) > 1 || !at ||
            f->code != NB_ANSWER_MALFORMED)
                return ret_json->r;
        /* Anyone who may create objects can make one that is above the limits, so a page with only
         * this object is passed over. The API server writes the metadata, which only it controls,
         * before the items. */
        if (!list->is_ignoring)
                nb_log(LOG_WARNING, NB_NONE, "%s; ignoring this object, and others like it",
                       f->detail);
        list->is_ignoring = true;
        nb_failure_clear(f);
        nb_json_done(ret_json);
        memcpy(at, none, strlen(none));
        *ret_json = nb_admin_parse(body->data, (size_t)(at - body->data) + strlen(none), what, f);
        return ret_json->r;
}

/* Visits the items of one page. */
static int visit_items(struct nb_json *json, nb_admin_visit *visit, void *userdata) {
        ssize_t n = nb_json_array(json, "items");

        for (ssize_t i = 0; i < n; i++) {
                char path[32];
                struct nb_json item = *json;
                int r;

                snprintf(path, sizeof(path), "items[%zd]", i);
                item.root = nb_json_object(json, path);
                r = json->r < 0 ? json->r : visit(userdata, &item);
                if (r < 0 || item.r < 0)
                        return r < 0 ? r : item.r;
        }
        return json->r;
}

int nb_admin_list(struct nb_admin *admin, const char *what, const char *path, nb_admin_visit *visit,
                  void *userdata, char *ret_version, struct nb_failure *f) {
        struct nb_exchange_call alone = { 0 }, *list = &alone;

        snprintf(alone.path, sizeof(alone.path), "%s", path);
        if (admin->exchange)
                list = nb_exchange_find(admin->exchange, "LIST", path, f);
        if (!list)
                return -ENOMEM;
        while (!list->is_complete) {
                _cleanup_(nb_json_done) struct nb_json json = { 0 };
                int r = read_page(admin, what, list, ret_version, &json, f);

                /* Anyone who may create objects can make them so large that a page is above the
                 * limits, so try with fewer. */
                if (r < 0 && f->code == NB_ANSWER_MALFORMED &&
                    (NB_ADMIN_PAGE >> list->n_halved) > 1) {
                        nb_failure_clear(f);
                        list->n_halved++;
                        continue;
                }
                if (r < 0)
                        return r;
                nb_json_line(&json, "metadata.continue", list->next, sizeof(list->next));
                nb_json_line(&json, "metadata.resourceVersion", list->version,
                             sizeof(list->version));
                r = visit_items(&json, visit, userdata);
                if (r < 0)
                        return r;
                list->is_complete = !list->next[0];
        }
        if (ret_version)
                memcpy(ret_version, list->version, sizeof(list->version));
        return 0;
}
