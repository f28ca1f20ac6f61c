/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/controller/controller.h"
#include "admin/controller/signatures.h"
#include "base/macro.h"
#include "system/clock.h"
#include "system/log.h"

/*
 * Keeps the signatures of cluster-info, as bootstrapsigner of kube-controller-manager does. The
 * signer waits 0.5 to 1 s before it writes. If bootstrapsigner runs too, it writes in that time,
 * and nothing is left to do. If another party undoes a change again and again, for example because
 * its clock is wrong, the signer waits longer before each attempt.
 */

#define DELAY_MS 1000 /* nb_backoff_ms() reduces it to 500 to 1000 ms */
#define DELAY_MAX_MS 60000
#define UNDONE_REPORTED 3 /* times */

struct signer {
        struct nb_controller *controller;
        struct nb_records signatures;
        struct nb_work work;
        char *content; /* data.kubeconfig, over which the MACs are computed; NULL: not read yet */
        bool is_complete;  /* all signatures are computed over this content */
        bool has_changed;  /* a token or the content, since the last change of cluster-info */
        unsigned n_undone; /* changes in a row that another party has undone */
        bool is_missing_reported;
};

static void queue_signing(struct signer *signer) {
        if (signer->work.heap)
                return;
        nb_controller_queue(
                signer->controller, &signer->work,
                nb_now_ms() + nb_backoff_ms(signer->n_undone, DELAY_MS, DELAY_MAX_MS, nb_random()));
}

static void queue_changed(struct signer *signer) {
        signer->has_changed = true;
        signer->n_undone = 0;
        queue_signing(signer);
}

/* --- The tokens --- */

static void drop_signature(void *userdata, struct nb_record *record) {
        struct signer *signer = userdata;

        nb_records_remove(&signer->signatures, record);
        free(record);
        queue_changed(signer);
}

/* NULL without memory. */
static struct nb_signature *find_or_add(struct signer *signer, const char *id) {
        struct nb_record *record = nb_records_find(&signer->signatures, id);
        struct nb_signature *signature;

        if (record) {
                nb_records_touch(&signer->signatures, record);
                return (struct nb_signature *)record;
        }
        signature = calloc(1, sizeof(*signature));
        if (!signature)
                return NULL;
        snprintf(signature->id, sizeof(signature->id), "%s", id);
        signature->record.key = signature->id;
        if (nb_records_add(&signer->signatures, &signature->record) < 0) {
                free(signature);
                return NULL;
        }
        return signature;
}

/* Without content, sign() lists the Secrets again. */
static int keep_signature(struct signer *signer, const struct nb_token_secret *secret) {
        struct nb_signature *signature = find_or_add(signer, secret->signer_id);

        if (!signature)
                return -ENOMEM;
        signature->created = secret->created;
        signature->expires = secret->expires;
        return signer->content ? nb_signature_compute(signature, secret, signer->content,
                                                      strlen(signer->content))
                               : 0;
}

static void on_secret(struct nb_controller *controller, struct nb_json *object,
                      enum nb_change change) {
        struct signer *signer = controller->signer;
        struct nb_token_secret secret = { 0 };
        struct nb_record *record;
        int r = 0;

        nb_token_secret_read(object, &secret);
        if (object->r < 0)
                return;
        if (change != NB_CHANGE_DELETED && secret.signer_id[0]) {
                r = keep_signature(signer, &secret);
                queue_changed(signer);
        } else {
                const char *id = secret.name + strlen(NB_TOKEN_SECRET_NAME_PREFIX);

                record = strncmp(secret.name, NB_TOKEN_SECRET_NAME_PREFIX,
                                 strlen(NB_TOKEN_SECRET_NAME_PREFIX)) == 0
                                 ? nb_records_find(&signer->signatures, id)
                                 : NULL;
                if (record)
                        drop_signature(signer, record);
        }
        if (r < 0)
                object->r = nb_failure_set(object->f, NB_INTERNAL, r,
                                           "cannot sign cluster-info with the token %s: %m",
                                           secret.signer_id);
        nb_token_secret_done(&secret);
}

static void on_secrets_listed(struct nb_controller *controller, bool is_complete) {
        struct signer *signer = controller->signer;

        if (is_complete)
                nb_records_sweep(&signer->signatures, drop_signature, signer);
        else
                nb_records_begin(&signer->signatures);
}

/* --- cluster-info --- */

static int visit_secret(void *userdata, struct nb_json *item) {
        struct signer *signer = userdata;
        struct nb_token_secret secret = { 0 };
        int r = 0;

        nb_token_secret_read(item, &secret);
        if (item->r < 0)
                return item->r;
        if (secret.signer_id[0])
                r = keep_signature(signer, &secret);
        nb_token_secret_done(&secret);
        return r < 0 ? nb_failure_set(item->f, NB_INTERNAL, r, "cannot sign cluster-info: %m") : 0;
}

/* Computes all signatures for another content. The secrets are needed for that, and are not kept.
 */
static int adopt_content(struct signer *signer, const char *content, struct nb_failure *f) {
        int r;

        if (signer->is_complete && strcmp(signer->content, content) == 0)
                return 0;
        if (!signer->content || strcmp(signer->content, content) != 0) {
                signer->is_complete = false;
                free(signer->content);
                signer->content = strdup(content);
                if (!signer->content)
                        return nb_failure_set_memory(f);
                for (size_t i = 0; i < signer->signatures.n; i++)
                        ((struct nb_signature *)signer->signatures.records[i])->has_mac = false;
        }
        r = nb_admin_list(&signer->controller->admin, "listing the tokens",
                          NB_SECRETS_PATH "?" NB_SECRETS_OF_TOKENS_QUERY, visit_secret, signer,
                          NULL, f);
        if (r < 0)
                return r;
        signer->is_complete = true;
        signer->has_changed = true;
        signer->n_undone = 0;
        return 0;
}

/* Returns data.kubeconfig, or NULL if there is nothing to sign. */
static const char *find_content(struct signer *signer, struct nb_json *cluster_info,
                                bool has_cluster_info) {
        const char *content = has_cluster_info ? nb_json_string(cluster_info, "data.kubeconfig")
                                               : NULL;

        if (!content && !signer->is_missing_reported)
                nb_log(LOG_NOTICE, NB_NONE,
                       "the ConfigMap kube-public/cluster-info %s; nothing is signed until it has "
                       "one",
                       has_cluster_info ? "has no kubeconfig" : "does not exist");
        signer->is_missing_reported = !content;
        return content;
}

static void report_left_out(struct nb_controller *controller, size_t n_left_out) {
        if (n_left_out > 0 && controller->n_unsigned == 0)
                nb_log(LOG_WARNING, NB_NONE,
                       "cluster-info has room for %d signatures; the oldest %zu tokens are left "
                       "out, and cannot be used for discovery",
                       NB_SIGNATURES_MAX, n_left_out);
        controller->n_unsigned = n_left_out;
}

static void count_undone(struct signer *signer) {
        if (signer->has_changed)
                return;
        signer->n_undone++;
        if (signer->n_undone == UNDONE_REPORTED)
                nb_log(LOG_WARNING, NB_NONE,
                       "somebody else changes the signatures of cluster-info again and again; "
                       "compare the clocks of this machine and of kube-controller-manager");
}

static int write_signatures(struct signer *signer, const struct nb_buffer *body, ssize_t n_changes,
                            bool is_complete, struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        int r = nb_admin_perform(&signer->controller->admin,
                                 &(const struct nb_admin_call){ .method = "PATCH",
                                                                .what = "signing cluster-info",
                                                                .path = NB_CLUSTER_INFO_PATH,
                                                                .body = body->data,
                                                                .body_len = body->len },
                                 &answer, f);

        if (r < 0)
                return r;
        if (r == 404 || r == 409) {
                queue_signing(signer);
                return 0;
        }
        count_undone(signer);
        nb_log(LOG_INFO, NB_NONE, "changed %zd signatures of cluster-info", n_changes);
        if (is_complete)
                signer->has_changed = false;
        else
                nb_controller_queue(signer->controller, &signer->work, nb_now_ms());
        return 0;
}

static int sign(void *userdata, struct nb_work *work _unused_, struct nb_failure *f) {
        struct signer *signer = userdata;
        _cleanup_(nb_json_done) struct nb_json cluster_info = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(NB_SIGNATURES_BODY_MAX);
        const char *content;
        bool is_complete = true;
        ssize_t n;
        int r;

        r = nb_admin_get(&signer->controller->admin, "reading cluster-info", NB_CLUSTER_INFO_PATH,
                         &cluster_info, f);
        if (r < 0)
                return r;
        content = find_content(signer, &cluster_info, r > 0);
        if (!content)
                return cluster_info.r;
        r = adopt_content(signer, content, f);
        if (r < 0)
                return r;
        n = nb_signatures_choose(&signer->signatures, time(NULL), NB_SIGNATURES_MAX);
        if (n < 0)
                return nb_failure_set_memory(f);
        report_left_out(signer->controller, (size_t)n);
        n = nb_signatures_plan(&signer->signatures, &cluster_info, body.max, &body, &is_complete);
        if (n < 0)
                return nb_failure_set(f, NB_INTERNAL, (int)n, "cannot format the signatures: %m");
        if (n == 0) {
                signer->has_changed = false;
                return 0;
        }
        return write_signatures(signer, &body, n, is_complete, f);
}

/* --- The part --- */

static void sign_again(void *userdata) {
        queue_signing(userdata);
}

static void on_cluster_info(struct nb_controller *controller, struct nb_json *object _unused_) {
        queue_signing(controller->signer);
}

static int begin_signer(struct nb_controller *controller, struct nb_failure *f) {
        struct signer *signer = calloc(1, sizeof(*signer));

        if (!signer)
                return nb_failure_set_memory(f);
        signer->controller = controller;
        signer->has_changed = true;
        signer->work = (struct nb_work){ .run = sign, .on_change = sign_again, .userdata = signer };
        controller->signer = signer;
        return 0;
}

static int on_lead(struct nb_controller *controller, struct nb_failure *f _unused_) {
        queue_signing(controller->signer);
        return 0;
}

static void end_signer(struct nb_controller *controller) {
        struct signer *signer = controller->signer;

        if (!signer)
                return;
        nb_controller_drop_work(controller, &signer->work);
        for (size_t i = 0; i < signer->signatures.n; i++)
                free(signer->signatures.records[i]);
        nb_records_done(&signer->signatures);
        free(signer->content);
        free(signer);
        controller->signer = NULL;
}

const struct nb_part nb_part_signer = {
        .name = "signer",
        .is_default = true,
        .begin = begin_signer,
        .on_secret = on_secret,
        .on_secrets_listed = on_secrets_listed,
        .on_cluster_info = on_cluster_info,
        .on_lead = on_lead,
        .end = end_signer,
};
