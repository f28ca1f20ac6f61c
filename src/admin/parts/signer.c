/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/parts/decision.h"
#include "admin/parts/parts.h"
#include "base/macro.h"
#include "kube_objects/cluster_info.h"
#include "os/clock.h"
#include "systemd/log.h"

/*
 * Keeps the signatures of cluster-info, as bootstrapsigner of kube-controller-manager does. The
 * signer waits 0.5 to 1 s before it writes. If bootstrapsigner runs too, it writes in that
 * time, and nothing is left to do. If another party undoes a change again and again, for example
 * because its clock is wrong, the signer waits longer before each attempt.
 */
#define DELAY_MS 1000 /* nb_backoff_ms() reduces it to 500 to 1000 ms */
#define DELAY_MAX_MS 60000
#define WRITTEN_REPORTED 4 /* times */

#define CHANGE_MAX 512 /* of one key with its value; Kubernetes limits a key to 253 bytes */

void nb_signer_wake(struct nb_controller *controller) {
        struct nb_work *work = &controller->signer.work;
        const uint64_t after_ms = nb_backoff_ms(controller->signer.n_written, DELAY_MS,
                                                DELAY_MAX_MS, nb_random());

        /* The work may wait longer, since its last run failed. */
        if (!nb_work_is_queued(work) || work->due_ms > nb_now_ms() + after_ms)
                nb_controller_queue(controller, work, after_ms);
}

static void sign_again(void *userdata) {
        nb_signer_wake(userdata);
}

/* --- Signatures --- */

/* The newest first. */
static int compare_age(const void *a, const void *b) {
        const struct nb_token_record *first = *(struct nb_token_record *const *)a;
        const struct nb_token_record *second = *(struct nb_token_record *const *)b;

        return (first->created < second->created) - (first->created > second->created);
}

ssize_t nb_signatures_choose(const struct nb_records *tokens, time_t now, size_t max) {
        _cleanup_(nb_freep) struct nb_token_record **wanted = calloc(tokens->n + 1, sizeof(void *));
        size_t n = 0;

        if (!wanted)
                return -ENOMEM;
        for (size_t i = 0; i < tokens->n; i++) {
                struct nb_token_record *token = tokens->items[i];

                token->is_wanted = token->signature[0] &&
                                   !nb_bootstrap_token_is_expired(token->expires, now);
                if (token->is_wanted)
                        wanted[n++] = token;
        }
        qsort(wanted, n, sizeof(void *), compare_age);
        for (size_t i = max; i < n; i++)
                wanted[i]->is_wanted = false;
        return n > max ? (ssize_t)(n - max) : 0;
}

/* Whether something may have been left out. */
static bool is_full(const struct nb_buffer *body) {
        return body->len + CHANGE_MAX > body->max;
}

/* `value` NULL removes the key. Returns whether there is room. */
static bool put_change(struct nb_json_writer *writer, const char *key, const char *value) {
        if (is_full(writer->buffer))
                return false;
        nb_json_put_string(writer, key, value);
        return true;
}

ssize_t nb_signatures_plan(const struct nb_records *tokens, struct nb_json *cluster_info,
                           struct nb_buffer *ret_body) {
        struct nb_json_writer writer = { .buffer = ret_body };
        char version[NB_RESOURCE_VERSION_SIZE] = "";
        ssize_t n = 0;
        int r;

        nb_json_copy(cluster_info, "metadata.resourceVersion", version, sizeof(version));
        nb_json_open(&writer, NULL, '{');
        nb_json_open(&writer, "metadata", '{');
        nb_json_put_string(&writer, "resourceVersion", version);
        nb_json_close(&writer);
        nb_json_open(&writer, "data", '{');
        /* The removals make room for the additions. */
        for (const char *key = NULL; (key = nb_json_next_key(cluster_info, "data", key));) {
                const size_t prefix_len = strlen(NB_SIGNATURE_PREFIX);
                const struct nb_token_record *token;

                if (strncmp(key, NB_SIGNATURE_PREFIX, prefix_len) != 0)
                        continue;
                token = nb_token_record_find(tokens, key + prefix_len);
                if (!token || !token->is_wanted)
                        n += put_change(&writer, key, NULL);
        }
        for (size_t i = 0; i < tokens->n; i++) {
                const struct nb_token_record *token = tokens->items[i];
                const char *found;
                char path[64];

                snprintf(path, sizeof(path), "data." NB_SIGNATURE_PREFIX "%s", token->id);
                found = nb_json_string(cluster_info, path);
                if (token->is_wanted && (!found || strcmp(found, token->signature) != 0))
                        n += put_change(&writer, path + strlen("data."), token->signature);
        }
        r = nb_json_finish(&writer);
        if (r >= 0)
                r = cluster_info->r;
        return r < 0 ? r : n;
}

/* --- The tokens --- */

/* Computes the signature now, so that the key is not kept. */
static void on_token(struct nb_controller *controller, struct nb_token_record *record,
                     const struct nb_bootstrap_token *token) {
        struct nb_signer *signer = &controller->signer;
        struct nb_buffer signature = { 0 };
        int r = 0;

        signer->n_written = 0;
        if (record) {
                signature = (struct nb_buffer)NB_BUFFER_IN(record->signature);
                record->signature[0] = '\0';
        }
        if (record && token->is_signer && signer->content)
                r = nb_jws_sign(token->id, token->secret, strlen(token->secret), signer->content,
                                &signature);
        if (r < 0) {
                nb_log(LOG_ERR, NB_NONE, "cannot sign cluster-info with the token %s", token->id);
                /* Otherwise a signature by bootstrapsigner would be removed. */
                free(signer->content);
                signer->content = NULL;
        }
        nb_signer_wake(controller);
}

/* --- cluster-info --- */

/* Signatures over another content need the keys of all tokens. Returns whether all are computed. */
static int adopt_content(struct nb_controller *controller, const char *content,
                         struct nb_failure *f) {
        struct nb_signer *signer = &controller->signer;

        if (!content && !signer->is_missing_reported)
                nb_log(LOG_NOTICE, NB_NONE,
                       "the ConfigMap kube-public/cluster-info does not exist or has no "
                       "kubeconfig; nothing is signed until it has one");
        signer->is_missing_reported = !content;
        if (!content)
                return 0;
        if (signer->content && strcmp(signer->content, content) == 0)
                return controller->has_all_tokens;
        free(signer->content);
        signer->content = strdup(content);
        if (!signer->content)
                return nb_failure_set_memory(f);
        controller->has_all_tokens = false;
        nb_controller_list_tokens(controller);
        return 0;
}

static int begin_signing(void *userdata _unused_, struct nb_plan *plan) {
        (void)nb_plan_read(plan, 0, NB_CLUSTER_INFO_PATH, "reading cluster-info");
        return 0;
}

#define LEFT_OUT \
        "cluster-info has room for %d signatures; the oldest %zd tokens are left out, and cannot " \
        "be used for discovery"

/* Reports once, until there is room again. An Event that the API server refuses is not repeated. */
static void report_left_out(struct nb_controller *controller, struct nb_json *cluster_info,
                            struct nb_plan *plan) {
        struct nb_signer *signer = &controller->signer;
        char text[192];

        signer->is_full_reported &= signer->n_left_out > 0;
        if (signer->n_left_out <= 0 || signer->is_full_reported)
                return;
        snprintf(text, sizeof(text), LEFT_OUT, NB_SIGNATURES_MAX, signer->n_left_out);
        nb_event_add(plan, &controller->admin,
                     &(struct nb_event){ .api_version = "v1",
                                         .kind = "ConfigMap",
                                         .namespace = "kube-public",
                                         .name = "cluster-info",
                                         .uid = nb_json_string(cluster_info, "metadata.uid"),
                                         .reason = "SignaturesLeftOut",
                                         .text = text });
}

static int add_changes(struct nb_controller *controller, struct nb_json *cluster_info,
                       struct nb_plan *plan, struct nb_failure *f) {
        struct nb_signer *signer = &controller->signer;
        struct nb_buffer body = NB_BUFFER_INIT(NB_SIGNATURES_BODY_MAX);
        ssize_t n = -ENOMEM;

        /* With a clock that is wrong, a token that seems expired may be in use. */
        signer->n_left_out = nb_signatures_choose(
                &controller->tokens, nb_controller_time(controller), NB_SIGNATURES_MAX);
        if (signer->n_left_out >= 0)
                n = nb_signatures_plan(&controller->tokens, cluster_info, &body);
        signer->n_changes = n;
        if (n > 0)
                nb_plan_write(plan, "PATCH", NB_CLUSTER_INFO_PATH, "signing cluster-info")->body =
                        TAKE(body);
        nb_buffer_done(&body);
        if (n >= 0)
                report_left_out(controller, cluster_info, plan);
        return n < 0 ? nb_failure_set(f, NB_INTERNAL, (int)n, "cannot format the signatures: %m")
                     : 0;
}

static int judge_signatures(void *userdata, struct nb_plan *plan, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        _cleanup_(nb_json_done) struct nb_json cluster_info = { 0 };
        int r = nb_call_read(&plan->reads[0], &controller->admin, &cluster_info, f);
        const char *content = r > 0 ? nb_json_string(&cluster_info, "data.kubeconfig") : NULL;

        if (r >= 0)
                r = adopt_content(controller, content, f);
        return r <= 0 ? r : add_changes(controller, &cluster_info, plan, f);
}

static int note_signatures(void *userdata, struct nb_plan *plan _unused_,
                           const struct nb_admin_call *call, int r, struct nb_failure *f) {
        struct nb_controller *controller = userdata;
        struct nb_signer *signer = &controller->signer;

        /* A signer that may not create Events still signs. After another failure, the work is
         * tried again, with what is not written yet. */
        if (r < 0 && f->code != NB_ADMIN_FORBIDDEN && f->code != NB_ADMIN_REJECTED)
                return r;
        if (nb_event_is_written(call, r, f)) {
                nb_log(LOG_WARNING, NB_NONE, LEFT_OUT, NB_SIGNATURES_MAX, signer->n_left_out);
                signer->is_full_reported = true;
                return 0;
        }
        if (r < 0)
                return r;
        if (r == 404 || r == 409) {
                nb_signer_wake(controller);
                return 0;
        }
        nb_log(LOG_INFO, NB_NONE, "changed %zd signatures of cluster-info", signer->n_changes);
        if (is_full(&call->body))
                nb_work_again(&signer->work, 0);
        else if (++signer->n_written == WRITTEN_REPORTED)
                nb_log(LOG_WARNING, NB_NONE,
                       "somebody else changes the signatures of cluster-info again and again; "
                       "compare the clocks of this machine and of kube-controller-manager");
        return 0;
}

/* --- The part --- */

static void begin_signer(struct nb_controller *controller) {
        static const struct nb_plan_steps steps = { begin_signing, judge_signatures,
                                                    note_signatures, NULL };

        controller->signer.work = (struct nb_work){ .steps = &steps,
                                                    .on_change = sign_again,
                                                    .userdata = controller };
        (void)nb_work_set_flow(&controller->queue, &controller->signer.work, "signer");
}

static void end_signer(struct nb_controller *controller) {
        nb_controller_drop_work(controller, &controller->signer.work);
        free(controller->signer.content);
        controller->signer.content = NULL;
        controller->signing = NULL;
}

const struct nb_part nb_part_signer = {
        .name = "signer",
        .is_default = true,
        .begin = begin_signer,
        .on_leading = nb_signer_wake,
        .end = end_signer,
        .on_token = on_token,
        .on_cluster_info = nb_signer_wake,
};
