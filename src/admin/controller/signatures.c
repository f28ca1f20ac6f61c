/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/client/calls.h"
#include "admin/controller/signatures.h"
#include "base/macro.h"
#include "crypto/digest.h"

#define KEY_PREFIX "jws-kubeconfig-"
#define INPUT_MAX ((size_t)2 * 1024 * 1024) /* base64 of the largest ConfigMap */
#define SIGNATURE_MAX 256
#define CHANGE_MAX 512 /* of one key with its value; Kubernetes limits a key to 253 bytes */

int nb_signature_compute(struct nb_signature *signature, const struct nb_token_secret *secret,
                         const char *content, size_t len) {
        _cleanup_(nb_buffer_done) struct nb_buffer input = NB_BUFFER_INIT(INPUT_MAX);
        int r;

        nb_jws_format(signature->id, NB_JWS_INPUT, content, len, &input);
        if (input.error < 0)
                return input.error;
        r = nb_hmac_sha256(secret->key.data, secret->key.len, input.data, input.len,
                           signature->mac);
        signature->has_mac = r >= 0;
        return r;
}

static struct nb_signature *signature_at(const struct nb_records *signatures, size_t i) {
        return (struct nb_signature *)signatures->records[i];
}

/* The newest first; of the same age, in the order of their IDs. */
static int compare_age(const void *a, const void *b) {
        const struct nb_signature *first = *(struct nb_signature *const *)a;
        const struct nb_signature *second = *(struct nb_signature *const *)b;

        if (first->created != second->created)
                return first->created > second->created ? -1 : 1;
        return strcmp(first->id, second->id);
}

ssize_t nb_signatures_choose(const struct nb_records *signatures, time_t now, size_t max) {
        _cleanup_(nb_freep) struct nb_signature **chosen = NULL;
        size_t n = 0;

        for (size_t i = 0; i < signatures->n; i++) {
                struct nb_signature *signature = signature_at(signatures, i);

                signature->is_wanted = !nb_token_secret_is_expired(signature->expires, now);
                n += signature->is_wanted;
        }
        if (n <= max)
                return 0;
        chosen = calloc(n, sizeof(struct nb_signature *));
        if (!chosen)
                return -ENOMEM;
        n = 0;
        for (size_t i = 0; i < signatures->n; i++)
                if (signature_at(signatures, i)->is_wanted)
                        chosen[n++] = signature_at(signatures, i);
        qsort(chosen, n, sizeof(struct nb_signature *), compare_age);
        for (size_t i = max; i < n; i++)
                chosen[i]->is_wanted = false;
        return (ssize_t)(n - max);
}

struct plan {
        struct nb_json_writer writer;
        size_t body_max;
        ssize_t n_changes;
        bool is_complete;
};

/* `value` NULL removes the key. */
static void put_change(struct plan *plan, const char *key, const char *value) {
        if (plan->writer.buffer->len + CHANGE_MAX > plan->body_max) {
                plan->is_complete = false;
                return;
        }
        nb_json_put_string(&plan->writer, key, value);
        plan->n_changes++;
}

/* Adds a signature that is missing or wrong. */
static int plan_addition(struct plan *plan, struct nb_json *cluster_info,
                         const struct nb_signature *signature) {
        _cleanup_(nb_buffer_done) struct nb_buffer wanted = NB_BUFFER_INIT(SIGNATURE_MAX);
        char path[64];
        const char *found;

        if (!signature->is_wanted || !signature->has_mac)
                return 0;
        nb_jws_format(signature->id, NB_JWS_SIGNATURE, signature->mac, sizeof(signature->mac),
                      &wanted);
        if (wanted.error < 0)
                return wanted.error;
        snprintf(path, sizeof(path), "data." KEY_PREFIX "%s", signature->id);
        found = nb_json_string(cluster_info, path);
        if (!found || strcmp(found, wanted.data) != 0)
                put_change(plan, path + strlen("data."), wanted.data);
        return 0;
}

static void plan_removals(struct plan *plan, struct nb_json *cluster_info,
                          const struct nb_records *signatures) {
        const size_t prefix_len = strlen(KEY_PREFIX);
        const char *key = NULL;

        while ((key = nb_json_next_key(cluster_info, "data", key))) {
                const struct nb_signature *signature;

                if (strncmp(key, KEY_PREFIX, prefix_len) != 0)
                        continue;
                signature = (struct nb_signature *)nb_records_find(signatures, key + prefix_len);
                if (!signature || !signature->is_wanted)
                        put_change(plan, key, NULL);
        }
}

ssize_t nb_signatures_plan(const struct nb_records *signatures, struct nb_json *cluster_info,
                           size_t body_max, struct nb_buffer *ret_body, bool *ret_is_complete) {
        struct plan plan = { .writer.buffer = ret_body, .body_max = body_max, .is_complete = true };
        char version[NB_RESOURCE_VERSION_SIZE] = "";
        int r = 0;

        nb_json_copy(cluster_info, "metadata.resourceVersion", version, sizeof(version));
        nb_json_open(&plan.writer, NULL, '{');
        nb_json_open(&plan.writer, "metadata", '{');
        nb_json_put_string(&plan.writer, "resourceVersion", version);
        nb_json_close(&plan.writer);
        nb_json_open(&plan.writer, "data", '{');
        /* The removals make room for the additions. */
        plan_removals(&plan, cluster_info, signatures);
        for (size_t i = 0; i < signatures->n && r >= 0; i++)
                r = plan_addition(&plan, cluster_info, signature_at(signatures, i));
        if (r >= 0)
                r = nb_json_finish(&plan.writer);
        if (r < 0 || cluster_info->r < 0)
                return r < 0 ? r : cluster_info->r;
        *ret_is_complete = plan.is_complete;
        return plan.n_changes;
}
