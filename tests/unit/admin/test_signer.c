/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/parts/parts.h"
#include "os/clock.h"

#include "answers.h"

#define NOW 2000
#define TEXT_MAX ((size_t)2 * 1024 * 1024)

/* kubernetes cluster-bootstrap/token/jws/jws_test.go, with an ID that a Secret can have. */
#define CONTENT "payload"
#define SIGNATURE_ABC123 \
        "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiYzEyMyJ9..QSxpUG7Q542CirTI2ECPSZjvBOJURUW5a7XqFpNI958"

static struct nb_token_record *add_token(struct nb_records *tokens, const char *id, time_t created,
                                         time_t expires) {
        struct nb_token_record *token;
        struct nb_buffer signature;
        char name[32];

        snprintf(name, sizeof(name), NB_TOKEN_SECRET_NAME_PREFIX "%s", id);
        token = nb_records_put(tokens, name, sizeof(*token));
        assert_non_null(token);
        signature = (struct nb_buffer)NB_BUFFER_IN(token->signature);
        token->created = created;
        token->expires = expires;
        snprintf(token->id, sizeof(token->id), "%s", id);
        assert_int_equal(nb_jws_sign(id, "tokenSecret", 11, CONTENT, &signature), 0);
        return token;
}

/* Applies to a ConfigMap with this data, and returns the patch. */
static ssize_t plan_change(const struct nb_records *tokens, const char *data,
                           struct nb_buffer *ret_body) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure f = { 0 };

        nb_buffer_printf(&text, "{\"metadata\":{\"resourceVersion\":\"17\"},\"data\":{%s}}", data);
        json = nb_json_parse(text.data, text.len, "cluster-info", NB_ANSWER_MALFORMED, &f);
        assert_int_equal(json.r, 0);
        return nb_signatures_plan(tokens, &json, ret_body);
}

#define BODY(data) "{\"metadata\":{\"resourceVersion\":\"17\"},\"data\":{" data "}}"
#define GOOD "\"jws-kubeconfig-abc123\":\"" SIGNATURE_ABC123 "\""

struct plan_row {
        const char *name, *data, *expected;
        ssize_t n;
        time_t expires;
};

/* With the token abc123 alone. */
static struct plan_row plans[] = {
        { "adds a missing signature", "\"kubeconfig\":\"" CONTENT "\"", BODY(GOOD), 1, 0 },
        { "leaves a correct one alone", "\"kubeconfig\":\"" CONTENT "\"," GOOD, BODY(""), 0, 0 },
        { "replaces a wrong one", "\"jws-kubeconfig-abc123\":\"eyJ..x\"", BODY(GOOD), 1, 0 },
        { "removes that of an expired token", GOOD, BODY("\"jws-kubeconfig-abc123\":null"), 1,
          NOW },
        { "keeps that of a token that expires later", GOOD, BODY(""), 0, NOW + 1 },
        { "removes that of an unknown token", GOOD ",\"jws-kubeconfig-zzzzzz\":\"x\"",
          BODY("\"jws-kubeconfig-zzzzzz\":null"), 1, 0 },
        { "removes a key that is not of a token", GOOD ",\"jws-kubeconfig-\":\"x\"",
          BODY("\"jws-kubeconfig-\":null"), 1, 0 },
        { "leaves other keys alone", GOOD ",\"jws\":\"x\",\"other\":\"y\"", BODY(""), 0, 0 },
        { "removes and adds", "\"jws-kubeconfig-old123\":\"x\"",
          BODY("\"jws-kubeconfig-old123\":null," GOOD), 2, 0 },
};

static void plans_change(void **state) {
        const struct plan_row *row = *state;
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_records_done) struct nb_records tokens = { 0 };

        add_token(&tokens, "abc123", 1, row->expires);
        assert_int_equal(nb_signatures_choose(&tokens, NOW, 10), 0);
        assert_int_equal(plan_change(&tokens, row->data, &body), row->n);
        assert_string_equal(body.data, row->expected);
}

static void removes_that_of_a_token_that_may_not_sign(void **state _unused_) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_records_done) struct nb_records tokens = { 0 };

        add_token(&tokens, "abc123", 1, 0)->signature[0] = '\0';
        assert_int_equal(nb_signatures_choose(&tokens, NOW, 10), 0);
        assert_int_equal(plan_change(&tokens, GOOD, &body), 1);
        assert_string_equal(body.data, BODY("\"jws-kubeconfig-abc123\":null"));
}

static void prefers_new_tokens(void **state _unused_) {
        _cleanup_(nb_records_done) struct nb_records tokens = { 0 };
        struct nb_token_record *oldest = add_token(&tokens, "oldest", 1, 0),
                               *newest = add_token(&tokens, "newest", 9, 0),
                               *middle = add_token(&tokens, "middle", 5, 0),
                               *expired = add_token(&tokens, "expire", 8, NOW);

        assert_int_equal(nb_signatures_choose(&tokens, NOW, 2), 1);
        assert_false(oldest->is_wanted);
        assert_true(newest->is_wanted);
        assert_true(middle->is_wanted);
        assert_false(expired->is_wanted);
        assert_int_equal(nb_signatures_choose(&tokens, NOW, 3), 0);
        assert_true(oldest->is_wanted);
}

/* Applies changes until nothing is left, as the controller does, and returns their number. */
static unsigned apply_batches(const struct nb_records *tokens, size_t n_expected) {
        _cleanup_(nb_buffer_done) struct nb_buffer data = NB_BUFFER_INIT(TEXT_MAX);
        size_t n_added = 0;

        for (unsigned n_batches = 0;; n_batches++) {
                _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(
                        NB_SIGNATURES_BODY_MAX);
                const char *start;
                ssize_t n = plan_change(tokens, data.data ? data.data : "", &body);

                assert_true(n >= 0);
                if (n == 0) {
                        assert_int_equal(n_added, n_expected);
                        return n_batches;
                }
                n_added += (size_t)n;
                start = strstr(body.data, "\"data\":{") + strlen("\"data\":{");
                if (data.len > 0)
                        nb_buffer_append_string(&data, ",");
                nb_buffer_append(&data, start, strlen(start) - strlen("}}"));
        }
}

static void divides_many(void **state _unused_) {
        _cleanup_(nb_records_done) struct nb_records tokens = { 0 };

        for (unsigned i = 0; i < 2000; i++) {
                char id[NB_TOKEN_ID_LEN + 1];

                snprintf(id, sizeof(id), "%06u", i);
                add_token(&tokens, id, i, 0);
        }
        assert_int_equal(nb_signatures_choose(&tokens, NOW, 2000), 0);
        /* A change holds about 490 signatures. */
        assert_in_range(apply_batches(&tokens, 2000), 4, 6);
}

#define CLUSTER_INFO "/api/v1/namespaces/kube-public/configmaps/cluster-info"

/* Somebody removes each signature at once, as a signer with a wrong clock does. */
static void a_fight_becomes_slower(void **state _unused_) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_work *work;

        assert_non_null(controller);
        nb_part_signer.begin(controller);
        work = &controller->signer.work;
        controller->signer.content = strdup(CONTENT);
        controller->has_all_tokens = true;
        add_token(&controller->tokens, "abc123", 1, 0);
        for (unsigned i = 0; i < 9; i++) {
                struct nb_plan plan = { 0 };
                struct nb_failure f = { 0 };
                const uint64_t delay_ms = i < 6 ? 1000U << i : 60000, before_ms = nb_now_ms();

                nb_signer_wake(controller);
                assert_in_range(work->due_ms, before_ms + delay_ms / 2, nb_now_ms() + delay_ms);
                nb_queue_remove(&controller->queue, work);
                assert_int_equal(work->steps->begin(controller, &plan), 0);
                answer(&plan.reads[0], "GET", CLUSTER_INFO, 200,
                       "{\"metadata\":{\"resourceVersion\":\"17\"},\"data\":{\"kubeconfig\":"
                       "\"" CONTENT "\"}}");
                assert_int_equal(work->steps->judge(controller, &plan, &f), 0);
                assert_int_equal(plan.n_writes, 1);
                answer(&plan.writes[0], "PATCH", CLUSTER_INFO, 200, "{}");
                assert_int_equal(work->steps->written(controller, &plan, &plan.writes[0], 200, &f),
                                 0);
                assert_int_equal(f.code, NB_NONE);
                nb_plan_done(&plan);
        }
        nb_part_signer.on_token(controller, NULL, NULL);
        assert_true(work->due_ms <= nb_now_ms() + 1000);
        nb_part_signer.end(controller);
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        free(controller);
}

/* As after failures of the Event SignaturesLeftOut. */
static void a_token_does_not_wait_for_work_that_has_failed(void **state _unused_) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        struct nb_work *work;
        uint64_t due_ms;

        assert_non_null(controller);
        nb_part_signer.begin(controller);
        work = &controller->signer.work;
        nb_controller_queue(controller, work, 60000);
        nb_part_signer.on_token(controller, NULL, NULL);
        due_ms = work->due_ms;
        assert_true(due_ms <= nb_now_ms() + 1000);
        /* Nor do many tokens delay it. */
        for (unsigned i = 0; i < 100; i++)
                nb_part_signer.on_token(controller, NULL, NULL);
        assert_true(work->due_ms <= due_ms);
        nb_part_signer.end(controller);
        nb_queue_done(&controller->queue);
        free(controller);
}

/* The change before the Event fails, then the Event. */
static void what_is_left_out_is_reported_in_the_end(void **state _unused_) {
        struct nb_controller *controller = calloc(1, sizeof(*controller));
        const struct nb_plan_steps *steps;

        assert_non_null(controller);
        nb_part_signer.begin(controller);
        steps = controller->signer.work.steps;
        controller->signer.content = strdup(CONTENT);
        controller->has_all_tokens = true;
        for (unsigned i = 0; i < NB_SIGNATURES_MAX + 1; i++) {
                char id[NB_TOKEN_ID_LEN + 1];

                snprintf(id, sizeof(id), "%06u", i);
                add_token(&controller->tokens, id, i, 0);
        }
        for (unsigned run = 0; run < 4; run++) {
                const unsigned n_written = run == 0 ? 1 : run < 3 ? 2 : 1;
                struct nb_plan plan = { 0 };
                struct nb_failure f = { 0 };

                assert_int_equal(steps->begin(controller, &plan), 0);
                answer(&plan.reads[0], "GET", CLUSTER_INFO, 200,
                       "{\"metadata\":{\"resourceVersion\":\"17\",\"uid\":\"u\"},\"data\":{"
                       "\"kubeconfig\":\"" CONTENT "\"}}");
                assert_int_equal(steps->judge(controller, &plan, &f), 0);
                assert_int_equal(plan.n_writes, run < 3 ? 2 : 1);
                for (unsigned i = 0; i < n_written; i++) {
                        const bool fails = run < 2 && i == run;

                        f.code = fails ? NB_SERVER_ERROR : NB_NONE;
                        assert_int_equal(steps->written(controller, &plan, &plan.writes[i],
                                                        fails ? -EIO : 201, &f),
                                         fails ? -EIO : 0);
                }
                nb_plan_done(&plan);
        }
        nb_part_signer.end(controller);
        nb_controller_drop_records(controller);
        nb_queue_done(&controller->queue);
        free(controller);
}

int main(void) {
        CASES(plans, plans_change);
        CASE(removes_that_of_a_token_that_may_not_sign);
        CASE(prefers_new_tokens);
        CASE(divides_many);
        CASE(a_fight_becomes_slower);
        CASE(a_token_does_not_wait_for_work_that_has_failed);
        CASE(what_is_left_out_is_reported_in_the_end);
        return case_run("signer");
}
