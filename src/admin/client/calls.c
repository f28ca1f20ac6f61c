/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/client/exchange_internal.h"
#include "base/macro.h"
#include "kube/object.h"
#include "system/log.h"

static const struct nb_answer_codes codes = {
        .unauthorized = NB_ADMIN_UNAUTHORIZED,
        .forbidden = NB_ADMIN_FORBIDDEN,
        .invalid = NB_ADMIN_REFUSED,
        .anonymous = NB_ADMIN_UNAUTHORIZED,
};

void nb_admin_explain(const struct nb_admin *admin, struct nb_failure *f) {
        if (nb_http_is_unanswered(f->code)) {
                f->code = NB_ADMIN_UNREACHABLE;
                nb_failure_add(f, "; the server is from %s", admin->origin);
        } else if (nb_http_is_untrusted(f->code)) {
                f->code = NB_ADMIN_UNTRUSTED;
                nb_failure_add(f, "; server and CA are from %s", admin->origin);
        }
}

/* With an exchange: -EINPROGRESS until the answer is there. */
static int send_call(struct nb_admin *admin, const struct nb_admin_call *call, bool is_page,
                     const struct nb_call *api_call, struct nb_http_answer *ret_answer,
                     struct nb_failure *f) {
        struct nb_exchange *exchange = admin->exchange;
        const bool is_begun = exchange && exchange->begun;
        struct nb_http_request request = {
                .method = strcmp(call->method, "GET") != 0 ? call->method : NULL,
                .body = call->body,
                .body_len = call->body_len,
                .body_type = strcmp(call->method, "PATCH") == 0 ? "application/merge-patch+json"
                                                                : NULL,
                .timeout_ms = NB_ADMIN_TIMEOUT_MS,
        };
        int r = 0;

        if (exchange)
                r = nb_exchange_find(exchange, call->method, call->path, is_page, ret_answer, f);
        if (r != 0) {
                if (is_begun && !exchange->begun)
                        nb_admin_count(admin, r < 0 ? 0 : ret_answer->status);
                return r;
        }
        r = nb_admin_renew_if_expired(admin, f);
        if (r < 0)
                return r;
        if (!exchange) {
                r = nb_api_perform(&admin->api, api_call, &request, ret_answer, f);
                nb_admin_count(admin, r < 0 ? 0 : ret_answer->status);
                return r;
        }
        r = nb_exchange_begin(exchange, call->method, call->path, &request.body, call->body_len);
        if (r < 0)
                return nb_failure_set_memory(f);
        r = nb_api_start(&admin->api, api_call, &request, &exchange->transfer, f);
        if (r < 0)
                nb_exchange_interrupt(exchange);
        return r < 0 ? r : -EINPROGRESS;
}

static bool is_usable(const struct nb_http_answer *answer) {
        return (answer->status >= 200 && answer->status <= 202) || answer->status == 409 ||
               nb_answer_is_not_found(answer);
}

static int perform(struct nb_admin *admin, const struct nb_admin_call *call, bool is_page,
                   struct nb_http_answer *ret_answer, struct nb_failure *f) {
        char what[256];
        const struct nb_call api_call = { what, call->path, NB_ADMIN_OBJECT_MAX, &codes };
        struct nb_http_answer answer = { 0 };
        int r;

        snprintf(what, sizeof(what), "%s at", call->what);
        r = send_call(admin, call, is_page, &api_call, &answer, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        if (r < 0) {
                nb_admin_explain(admin, f);
                return r;
        }
        /* The token may have been replaced, or revoked before its time. */
        if (answer.status == 401 && admin->is_renewable)
                admin->expires_ms = 0;
        if (is_usable(&answer)) {
                *ret_answer = answer;
                return (int)answer.status;
        }
        r = nb_answer_failure(&admin->api, &api_call, &answer, f);
        nb_http_answer_done(&answer);
        return r;
}

int nb_admin_perform(struct nb_admin *admin, const struct nb_admin_call *call,
                     struct nb_http_answer *ret_answer, struct nb_failure *f) {
        return perform(admin, call, false, ret_answer, f);
}

int nb_admin_get(struct nb_admin *admin, const char *what, const char *path,
                 struct nb_json *ret_json, struct nb_failure *f) {
        const struct nb_admin_call call = { .method = "GET", .what = what, .path = path };
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        struct nb_json json;
        int r;

        r = nb_admin_perform(admin, &call, &answer, f);
        if (r < 0)
                return r;
        if (r == 404)
                return 0;
        json = nb_json_parse(nb_answer_text(&answer), answer.body.len, what, NB_ANSWER_MALFORMED,
                             f);
        if (json.r < 0) {
                nb_json_done(&json);
                return f->code == NB_INTERNAL ? -ENOMEM : -EPROTO;
        }
        *ret_json = json;
        return 1;
}

/*
 * Parses the metadata of a page without its items. Anyone who may create objects can make one with
 * a value that is refused here, such as U+0000, so a page with only this object is passed over. The
 * API server writes the metadata, which only it controls, before the items.
 */
static int parse_metadata(const struct nb_http_answer *answer, const char *what,
                          struct nb_json *ret_json, struct nb_failure *f) {
        static const char items[] = "\"items\":[";
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_ADMIN_PATH_MAX * 4);
        const char *page = nb_answer_text(answer),
                   *at = memmem(page, answer->body.len, items, strlen(items));

        if (!at)
                return f->code == NB_INTERNAL ? -ENOMEM : -EPROTO;
        nb_buffer_append(&text, page, (size_t)(at - page) + strlen(items));
        nb_buffer_append_string(&text, "]}");
        if (text.error < 0)
                return f->code == NB_INTERNAL ? -ENOMEM : -EPROTO;
        nb_log(LOG_WARNING, NB_NONE, "%s; ignoring this object", f->detail);
        nb_failure_clear(f);
        *ret_json = nb_json_parse(text.data, text.len, what, NB_ANSWER_MALFORMED, f);
        return ret_json->r;
}

/* Reads one page of at most `limit` items. */
static int read_page(struct nb_admin *admin, const char *what, const char *path, const char *next,
                     int limit, struct nb_json *ret_json, size_t *ret_size, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        char page[NB_ADMIN_PATH_MAX];
        const struct nb_admin_call call = { .method = "GET", .what = what, .path = page };
        int r;

        /* The continue token is base64url, so it needs no escape in a URL. */
        if (snprintf(page, sizeof(page), "%s%climit=%d%s%s", path, strchr(path, '?') ? '&' : '?',
                     limit, next[0] ? "&continue=" : "", next) >= (int)sizeof(page))
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "%s: the continue token is too long", what);
        r = perform(admin, &call, true, &answer, f);
        if (r < 0)
                return f->http_status == 410 ? -EAGAIN : r;
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the API server does not serve it", what);
        *ret_size = answer.body.len;
        *ret_json = nb_json_parse(nb_answer_text(&answer), answer.body.len, what,
                                  NB_ANSWER_MALFORMED, f);
        if (ret_json->r >= 0 || limit > 1 || f->code != NB_ANSWER_MALFORMED)
                return ret_json->r;
        nb_json_done(ret_json);
        return parse_metadata(&answer, what, ret_json, f);
}

/* Visits the items of one page, and reads where the next one begins ("" after the last one). */
static int visit_page(struct nb_json *json, nb_admin_visit *visit, void *userdata, char *ret_next,
                      size_t next_size, char *ret_version) {
        const char *next = nb_json_string(json, "metadata.continue");
        ssize_t n = nb_json_array(json, "items");

        nb_json_copy(json, "metadata.resourceVersion", ret_version, NB_RESOURCE_VERSION_SIZE);
        if (next && strlen(next) >= next_size)
                nb_json_refuse(json, "metadata.continue", "a shorter text", next);
        snprintf(ret_next, next_size, "%s", next && json->r >= 0 ? next : "");
        for (ssize_t i = 0; i < n && json->r >= 0; i++) {
                char path[32];
                struct nb_json item;
                int r;

                snprintf(path, sizeof(path), "items[%zd]", i);
                item = (struct nb_json){ nb_json_object(json, path), json->what, json->code,
                                         json->f, json->r };
                if (item.r < 0)
                        return item.r;
                r = visit(userdata, &item);
                if (r < 0 || item.r < 0)
                        return r < 0 ? r : item.r;
        }
        return json->r;
}

static int list_pages(struct nb_admin *admin, const char *what, struct nb_exchange_list *list,
                      nb_admin_visit *visit, void *userdata, struct nb_failure *f) {
        if (list->limit == 0)
                list->limit = NB_ADMIN_PAGE;
        do {
                _cleanup_(nb_json_done) struct nb_json json = { 0 };
                size_t size = 0;
                int r = read_page(admin, what, list->path, list->next, list->limit, &json, &size,
                                  f);

                /* Anyone who may create objects can make them so large that a page is above the
                 * limits, so try with fewer. */
                if (r < 0 && f->code == NB_ANSWER_MALFORMED && list->limit > 1) {
                        nb_failure_clear(f);
                        list->limit /= 2;
                        continue;
                }
                if (r >= 0)
                        r = visit_page(&json, visit, userdata, list->next, sizeof(list->next),
                                       list->version);
                if (r < 0)
                        return r;
                /* A page that is above the limits costs the API server most. */
                if (list->next[0] && size < NB_ADMIN_OBJECT_MAX / 4)
                        list->limit = list->limit < NB_ADMIN_PAGE / 2 ? 2 * list->limit
                                                                      : NB_ADMIN_PAGE;
                list->is_complete = !list->next[0];
        } while (!list->is_complete);
        return 0;
}

int nb_admin_list(struct nb_admin *admin, const char *what, const char *path, nb_admin_visit *visit,
                  void *userdata, char *ret_version, struct nb_failure *f) {
        char version[NB_RESOURCE_VERSION_SIZE];
        struct nb_exchange_list alone = { 0 }, *list = &alone;
        struct nb_exchange *exchange = admin->exchange;
        int r;

        ret_version = ret_version ? ret_version : version;
        if (exchange && nb_exchange_find_list(exchange, path, ret_version))
                return 0;
        snprintf(alone.path, sizeof(alone.path), "%s", path);
        if (exchange)
                list = nb_exchange_begin_list(exchange, path);
        if (!list)
                return nb_failure_set_memory(f);
        r = list_pages(admin, what, list, visit, userdata, f);
        if (r == -EINPROGRESS && f->code == NB_NONE)
                return r;
        if (r >= 0)
                memcpy(ret_version, list->version, sizeof(version));
        if (exchange && nb_exchange_end_list(exchange, r >= 0, f) < 0)
                return -ENOMEM;
        return r;
}
