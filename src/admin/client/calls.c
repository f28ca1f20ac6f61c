/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/calls.h"
#include "base/macro.h"
#include "kube_objects/object.h"
#include "os/clock.h"
#include "systemd/log.h"

#define OWNERS_MAX 4096 /* bytes of metadata.ownerReferences */

const struct nb_answer_codes nb_admin_codes = {
        .unauthorized = NB_ADMIN_UNAUTHORIZED,
        .forbidden = NB_ADMIN_FORBIDDEN,
        .invalid = NB_ADMIN_REJECTED,
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

/* --- One request --- */

struct nb_admin_call *nb_call_set(struct nb_admin_call *call, const char *method, const char *path,
                                  const char *what) {
        call->method = method;
        call->body = (struct nb_buffer)NB_BUFFER_INIT(NB_ADMIN_BODY_MAX);
        snprintf(call->path, sizeof(call->path), "%s", path);
        snprintf(call->what, sizeof(call->what), "%s", what);
        return call;
}

/* `what` must stay as long as the result. */
static struct nb_call describe_call(const struct nb_admin_call *call, char what[static 384]) {
        snprintf(what, 384, "%s at", call->what);
        return (struct nb_call){ what, call->path,
                                 call->is_whole_list ? NB_ADMIN_LIST_MAX : NB_ADMIN_OBJECT_MAX,
                                 &nb_admin_codes };
}

static void note_answer(struct nb_admin *admin, const struct nb_admin_call *call) {
        nb_admin_count(admin, call->r < 0 ? 0 : call->answer.status);
        if (call->r < 0)
                return;
        admin->date = call->answer.date;
        admin->date_ms = nb_now_ms();
        /* The token may have been replaced, or revoked before its time. */
        if (call->answer.status == 401)
                admin->expires_ms = 0;
}

static int send_call(struct nb_admin_call *call, struct nb_admin *admin, bool waits,
                     struct nb_failure *f) {
        char what[384];
        const struct nb_call api_call = describe_call(call, what);
        const struct nb_http_request request = {
                .method = strcmp(call->method, "GET") != 0 ? call->method : NULL,
                .body = call->body.len > 0 ? call->body.data : NULL,
                .body_len = call->body.len,
                .body_type = strcmp(call->method, "PATCH") == 0 ? "application/merge-patch+json"
                                                                : NULL,
                .timeout_ms = call->timeout_ms > 0 ? call->timeout_ms : NB_ADMIN_TIMEOUT_MS,
        };

        if (call->body.error < 0)
                return nb_failure_set(f, NB_INTERNAL, call->body.error, "%s: %m", call->what);
        if (!waits)
                return nb_api_start(&admin->api, &api_call, &request, &call->transfer, f);
        call->r = nb_api_perform(&admin->api, &api_call, &request, &call->answer, &call->failure);
        call->is_answered = true;
        note_answer(admin, call);
        return 0;
}

int nb_call_start(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f) {
        return send_call(call, admin, false, f);
}

int nb_call_perform(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f) {
        int r = nb_admin_renew_if_expired(admin, f);

        return r < 0 ? r : send_call(call, admin, true, f);
}

bool nb_call_take_done(struct nb_admin_call *call, struct nb_admin *admin,
                       const struct nb_http_transfer *done) {
        if (!call->transfer || call->transfer != done)
                return false;
        call->r = nb_http_finish(TAKE(call->transfer), &call->answer, &call->failure);
        call->is_answered = true;
        note_answer(admin, call);
        return true;
}

int nb_call_status(struct nb_admin_call *call, struct nb_admin *admin, struct nb_failure *f) {
        const struct nb_http_answer *answer = &call->answer;
        char what[384];
        struct nb_call api_call;

        if (call->r < 0) {
                *f = call->failure;
                nb_admin_explain(admin, f);
                return call->r;
        }
        if ((answer->status >= 200 && answer->status <= 202) || answer->status == 409 ||
            (answer->status == 410 && call->is_page) || nb_answer_is_not_found(answer)) {
                admin->unusable_ms = 0;
                return (int)answer->status;
        }
        api_call = describe_call(call, what);
        return nb_answer_failure(&admin->api, &api_call, answer, f);
}

/* The API server does not answer so, but something in front of it may. */
static int refuse_conflict(const char *what, struct nb_failure *f) {
        return nb_failure_set_http(f, NB_ANSWER_MALFORMED, 409,
                                   "%s: expected an object, found status 409", what);
}

int nb_call_read(struct nb_admin_call *call, struct nb_admin *admin, struct nb_json *ret_json,
                 struct nb_failure *f) {
        struct nb_buffer *body = &call->answer.body;
        int r = nb_call_status(call, admin, f);

        if (r == 409)
                return refuse_conflict(call->what, f);
        if (r < 0 || r == 404)
                return r < 0 ? r : 0;
        *ret_json = nb_admin_parse(body->data, body->len, call->what, f);
        return ret_json->r < 0 ? ret_json->r : 1;
}

void nb_call_interrupt(struct nb_admin_call *call) {
        nb_http_cancel(TAKE(call->transfer));
}

void nb_call_done(struct nb_admin_call *call) {
        nb_call_interrupt(call);
        nb_buffer_wipe(&call->body);
        nb_buffer_wipe(&call->answer.body);
        nb_http_answer_done(&call->answer);
        *call = (struct nb_admin_call){ 0 };
}

/* The quote that ends the string which begins here. U+0000 in it is replaced. */
static char *end_string(char *at, const char *end) {
        static const char null[] = "\\u0000";

        while (++at < end && *at != '"') {
                if (*at != '\\')
                        continue;
                if ((size_t)(end - at) >= strlen(null) && memcmp(at, null, strlen(null)) == 0)
                        memcpy(at, "\\ufffd", strlen(null));
                at++; /* the escaped character, which may be a backslash or a quote */
        }
        return at;
}

/* Returns what follows the list or object that begins here; NULL: it has no end. */
static char *end_container(char *at, const char *end) {
        size_t depth = 0;

        do {
                if (*at == '"')
                        at = end_string(at, end);
                else if (*at == '[' || *at == '{')
                        depth++;
                else if (*at == ']' || *at == '}')
                        depth--;
                at++;
        } while (depth > 0 && at < end);
        return depth == 0 ? at : NULL;
}

/* Empties the list that begins here, if it is longer than `max`. */
static void empty_list(char *list, const char *end, size_t max) {
        const char *after = end_container(list, end);

        if (after && (size_t)(after - list) > max)
                memset(list + 1, ' ', (size_t)(after - list) - 2);
}

struct nb_json nb_admin_parse(char *text, size_t len, const char *what, struct nb_failure *f) {
        static const struct {
                const char *start;
                size_t max;
        } lists[] = { { "\"managedFields\":[", 0 }, { "\"ownerReferences\":[", OWNERS_MAX } };
        const char *end = text + len;

        for (char *at = text; at < end; at++) {
                const size_t left = (size_t)(end - at);

                if (*at != '"')
                        continue;
                for (size_t i = 0; i < N_ELEMENTS(lists); i++) {
                        const size_t start_len = strlen(lists[i].start);

                        if (left >= start_len && memcmp(at, lists[i].start, start_len) == 0)
                                empty_list(at + start_len - 1, end, lists[i].max);
                }
                at = end_string(at, end);
        }
        return nb_json_parse(text ? text : "", len, what, NB_ANSWER_MALFORMED, f);
}

int nb_admin_send(struct nb_admin *admin, const char *method, const char *what, const char *path,
                  struct nb_buffer *body, struct nb_json *ret_json, struct nb_failure *f) {
        _cleanup_(nb_call_done) struct nb_admin_call call = { 0 };
        int r;

        nb_call_set(&call, method, path, what);
        if (body)
                call.body = TAKE(*body);
        r = nb_call_perform(&call, admin, f);
        if (r >= 0)
                r = nb_call_status(&call, admin, f);
        if (r >= 0 && r < 300 && ret_json) {
                *ret_json = nb_admin_parse(call.answer.body.data, call.answer.body.len, what, f);
                r = ret_json->r < 0 ? ret_json->r : r;
        }
        return r;
}

int nb_admin_get(struct nb_admin *admin, const char *what, const char *path,
                 struct nb_json *ret_json, struct nb_failure *f) {
        int r = nb_admin_send(admin, "GET", what, path, NULL, ret_json, f);

        return r == 409 ? refuse_conflict(what, f) : r < 0 ? r : r != 404;
}

/* --- Lists --- */

/* Items per page: fewer, while pages are above the limit; 0: all. */
static int page_limit(const struct nb_list *list) {
        return list->is_whole ? 0 : NB_ADMIN_PAGE >> list->n_halved;
}

static void prepare_page(struct nb_list *list) {
        struct nb_admin_call *page = &list->page;

        nb_call_done(page);
        page->method = "GET";
        page->is_page = true;
        page->is_whole_list = list->is_whole;
        snprintf(page->what, sizeof(page->what), "listing %s", list->what);
        /* The continue token is base64url, so it needs no escape in a URL. */
        snprintf(page->path, sizeof(page->path), "%s%climit=%d%s%s", list->path,
                 strchr(list->path, '?') ? '&' : '?', page_limit(list),
                 list->next[0] ? "&continue=" : "", list->next);
}

/* The '[' of the items; NULL: there is none. The API server writes the metadata of the list before
 * them, in which no user chooses any text. */
static char *find_items(const struct nb_buffer *body) {
        static const char key[] = "\"items\":";
        char *at = body->data ? memmem(body->data, body->len, key, strlen(key)) : NULL;

        if (at)
                at += strlen(key) + strspn(at + strlen(key), " ");
        return at && *at == '[' ? at : NULL;
}

/* Parses what is before the items, and in place of them a number. */
static struct nb_json parse_head(struct nb_list *list, char *items, struct nb_failure *f) {
        char *text = list->page.answer.body.data;
        const char first = items[1];
        struct nb_json json;

        items[0] = '0';
        items[1] = '}';
        json = nb_admin_parse(text, (size_t)(items - text) + 2, list->page.what, f);
        items[0] = '[';
        items[1] = first;
        return json;
}

/* Reads the page up to its items. After a 410 it is the API server's answer, which says where a
 * list of the objects as they are now continues, and *ret_items is NULL. */
static int read_head(struct nb_list *list, struct nb_admin *admin, struct nb_json *ret_json,
                     char **ret_items, struct nb_failure *f) {
        struct nb_buffer *body = &list->page.answer.body;
        const char *what = list->page.what;
        int r = nb_call_status(&list->page, admin, f);

        if (r < 0)
                return r;
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the API server does not serve it", what);
        if (r == 409)
                return refuse_conflict(what, f);
        if (r == 410 && list->is_consistent)
                return -ESTALE;
        *ret_items = r == 200 ? find_items(body) : NULL;
        *ret_json = *ret_items ? parse_head(list, *ret_items, f)
                               : nb_admin_parse(body->data, body->len, what, f);
        if (r == 410 && ret_json->r >= 0 && !nb_json_string(ret_json, "metadata.continue"))
                return nb_failure_set_http(f, NB_ADMIN_CONFLICT, 410,
                                           "%s: the list changes faster than it can be read", what);
        if (r == 200 && !*ret_items)
                nb_json_refuse(ret_json, "items", "a list", NULL);
        return ret_json->r;
}

/* Passes over an object that cannot be parsed, which the caller has to know of. */
static void ignore_object(struct nb_list *list, const char *object, size_t len,
                          struct nb_failure *f) {
        static const char key[] = "\"name\":\"";
        const char *name = memmem(object, len, key, strlen(key)), *end = NULL;

        /* The API server writes the name first. */
        if (name) {
                name += strlen(key);
                end = memchr(name, '"', len - (size_t)(name - object));
        }
        if (end)
                nb_failure_add(f, "; its name is '%.*s'",
                               end - name < 256 ? (int)(end - name) : 256, name);
        if (!list->is_ignoring)
                nb_log(LOG_WARNING, NB_NONE, "%s; ignoring this object", f->detail);
        list->is_ignoring = true;
        nb_failure_clear(f);
}

static int visit_item(struct nb_list *list, char *text, size_t len, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json item = nb_admin_parse(text, len, list->page.what, f);
        int r;

        if (item.r < 0 && f->code == NB_ANSWER_MALFORMED) {
                ignore_object(list, text, len, f);
                return 0;
        }
        r = item.r < 0 ? item.r : list->visit(list->userdata, &item);
        return r < 0 ? r : item.r;
}

/* Parses each item alone, so that the limits of JSON apply to one object. Those who may create
 * objects decide how large a page is. */
static int visit_items(struct nb_list *list, char *at, struct nb_failure *f) {
        static const char blanks[] = " \n";
        const struct nb_buffer *body = &list->page.answer.body;
        const char *end = body->data + body->len;
        char *after;

        at++;
        for (at += strspn(at, blanks); *at == '{' && (after = end_container(at, end)); at = after) {
                int r = visit_item(list, at, (size_t)(after - at), f);

                if (r < 0)
                        return r;
                after += *after == ',';
                after += strspn(after, blanks);
        }
        /* The token for the next page must not be behind the items. */
        after = at + (*at == ']');
        after += strspn(after, blanks);
        if (after == at || *after != '}' || after[1 + strspn(after + 1, blanks)])
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "%s: items: expected a list of objects as the last member",
                                      list->page.what);
        return 0;
}

/* Sets where the next page begins. -E2BIG without a failure: the token is too long for a URL. */
static int take_token(struct nb_list *list, struct nb_json *json) {
        const char *token = nb_json_string(json, "metadata.continue");

        if (token && strlen(token) >= sizeof(list->next) && !list->is_whole)
                return -E2BIG;
        list->next[0] = '\0';
        if (token && token[0])
                nb_json_copy(json, "metadata.continue", list->next, sizeof(list->next));
        nb_json_line(json, "metadata.resourceVersion", list->version, sizeof(list->version));
        return json->r;
}

/* Visits the page that has arrived, unless it has to be asked for in another way. */
static int take_page(struct nb_list *list, struct nb_admin *admin, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        const struct nb_admin_call *page = &list->page;
        char *items = NULL;
        int r = read_head(list, admin, &json, &items, f);

        if (r < 0 && page->r < 0 && f->code == NB_ANSWER_MALFORMED && list->is_whole)
                nb_failure_add(f, "; it is listed at once, since a name is too long to list page "
                                  "by page: delete the objects with such names");
        /* Anyone who may create objects can make them so large that a page is above the limits, so
         * try with fewer. */
        if (r < 0 && page->r < 0 && f->code == NB_ANSWER_MALFORMED && page_limit(list) > 1) {
                nb_failure_clear(f);
                list->n_halved++;
                return 0;
        }
        if (r < 0)
                return r;
        r = take_token(list, &json);
        list->is_whole |= r == -E2BIG;
        if (r < 0)
                return r == -E2BIG ? 0 : r;
        if (items)
                r = visit_items(list, items, f);
        if (r < 0)
                return r;
        /* Not after each page: one that is above the limits costs the API server much. */
        if (page->answer.body.len < NB_ADMIN_OBJECT_MAX / 4 && list->n_halved > 0)
                list->n_halved--;
        list->is_complete = !list->next[0];
        return 0;
}

int nb_list_run(struct nb_list *list, struct nb_admin *admin, struct nb_failure *f) {
        if (list->page.transfer)
                return 0;
        if (list->page.is_answered) {
                int r = take_page(list, admin, f);

                nb_call_done(&list->page);
                if (r < 0 || list->is_complete)
                        return r < 0 ? r : 1;
        }
        prepare_page(list);
        return nb_call_start(&list->page, admin, f);
}

void nb_list_done(struct nb_list *list) {
        nb_call_done(&list->page);
        *list = (struct nb_list){ 0 };
}

int nb_admin_list(struct nb_admin *admin, const char *what, const char *path, nb_admin_visit *visit,
                  void *userdata, struct nb_failure *f) {
        _cleanup_(nb_list_done) struct nb_list list = {
                .what = what, .path = path, .visit = visit, .userdata = userdata
        };

        while (!list.is_complete) {
                int r;

                prepare_page(&list);
                r = nb_call_perform(&list.page, admin, f);
                if (r >= 0)
                        r = take_page(&list, admin, f);
                if (r < 0)
                        return r;
        }
        return list.is_ignoring;
}
