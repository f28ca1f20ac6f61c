/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "stage/internal.h"

#define SUBMIT_AGAIN_FIRST_MS 500
#define SUBMIT_AGAIN_CAP_MS 60000

#define STAGES_MAX 8
#define LOOKING "Looking for the cluster"

struct stage {
        const char *name;
        const char *begun; /* for STATUS=; NULL: it takes no time that is worth it */
        const char *done;  /* for the entry when it is done */
        int (*run)(struct nb_join *join, struct nb_failure *f);
        bool has_retried; /* it tries again by itself: its failure is the last word */
};

/* The ways to discover a cluster. */
static const struct stage discoveries[_NB_DISCOVERY_N] = {
        [NB_DISCOVERY_TOKEN] = { "discover", LOOKING, "the cluster is proven", nb_stage_discover_token, true },
        [NB_DISCOVERY_DOCUMENT] = { "discover", LOOKING, "the cluster is known by its document", nb_stage_discover_document, false },
        [NB_DISCOVERY_URL] = { "discover", LOOKING, "the cluster is known by the document of the URL", nb_stage_discover_url, false },
        [NB_DISCOVERY_CACERTS] = { "discover", LOOKING, "the cluster is proven by the hash in the token", nb_stage_discover_cacerts, true },
};

static int connect_api(struct nb_join *join, struct nb_failure *f);
static const struct stage connect_stage = { "connect", NULL, NULL, connect_api, false };

/* The issuers: each a list of stages, of which the first one makes the request. */
static const struct stage node_stage = { "node", "Looking whether there is a node of this name", NULL, nb_stage_node, false };
static const struct stage csr_stages[] = {
        { "request", "Requesting a certificate", "the certificate signing request is there", nb_stage_request, false },
        { "await", "Waiting for the certificate", "the certificate is issued and good", nb_stage_await, false },
};
static const struct stage supervisor_stages[] = {
        { "request", "Requesting a certificate of the supervisor", "the supervisor has issued the certificate, and it is good", nb_stage_request_supervisor, false },
};
static const struct {
        const struct stage *stages;
        size_t n;
} issuers[_NB_ISSUER_N] = {
        [NB_ISSUER_CSR] = { csr_stages, N_ELEMENTS(csr_stages) },
        [NB_ISSUER_SUPERVISOR] = { supervisor_stages, N_ELEMENTS(supervisor_stages) },
};

static const struct stage configure_stage = { "configure", "Reading kubelet's configuration in the cluster", "kubelet's configuration is there", nb_stage_configure, false };
static const struct stage hand_over_stage = { "hand-over", NULL, "the installer can take over", nb_stage_hand_over, false };

/* The stages of this join, in order. */
struct plan {
        const struct stage *stages[STAGES_MAX];
        size_t n;
        size_t request; /* which of them makes the request */
};

static void add(struct plan *plan, const struct stage *stages, size_t n) {
        assert(plan->n + n <= STAGES_MAX);
        for (size_t i = 0; i < n; i++)
                plan->stages[plan->n++] = &stages[i];
}

static struct plan make_plan(const struct nb_join *join) {
        const struct nb_bootstrap *bootstrap = join->bootstrap;
        struct plan plan = { .n = 0 };

        add(&plan, &discoveries[bootstrap->discovery], 1);
        add(&plan, &connect_stage, 1);
        /* A supervisor has a password for each node name. */
        if (bootstrap->issuer == NB_ISSUER_CSR)
                add(&plan, &node_stage, 1);
        plan.request = plan.n;
        add(&plan, issuers[bootstrap->issuer].stages, issuers[bootstrap->issuer].n);
        if (join->settings->is_config_from_cluster)
                add(&plan, &configure_stage, 1);
        add(&plan, &hand_over_stage, 1);
        return plan;
}

/* One connection for all that follows; it alone carries the identity. */
static int connect_api(struct nb_join *join, struct nb_failure *f) {
        int r;

        r = nb_api_init(&join->api, &join->cluster, join->ca.data, join->ca.len, &join->bootstrap->identity, f);
        if (r < 0)
                return r;
        /* What fails from here on, fails there. */
        nb_log_field(NB_FIELD_ENDPOINT, "%s", join->api.name);
        return 0;
}

static void begin(const struct stage *stage) {
        nb_log_field(NB_FIELD_STAGE, "%s", stage->name);
        if (stage->begun)
                nb_log_status("%s", stage->begun);
}

static void log_done(const struct stage *stage, uint64_t duration_usec, struct nb_join *join) {
        nb_join_report_done(join);
        nb_report_new_connection(&join->api);
        if (!stage->done)
                return;
        nb_log_field(NB_FIELD_DURATION_USEC, "%" PRIu64, duration_usec);
        nb_log(LOG_INFO, NB_STAGE_DONE, "%s: %s, after %" PRIu64 " ms", stage->name, stage->done, duration_usec / 1000);
        nb_log_field(NB_FIELD_DURATION_USEC, NULL);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
}

static int removed_each_time(const struct nb_join *join, struct nb_failure *f) {
        return nb_failure_set(f, NB_CSR_PENDING, ETIMEDOUT, "the certificate signing request '%s' was removed each time before it was issued",
                              join->csr_name);
}

/* Whoever deletes the request again and again is not answered with a flood. */
static int pause_before_request(struct nb_join *join, unsigned n_times, struct nb_failure *f) {
        uint64_t delay = nb_backoff_ms(n_times, SUBMIT_AGAIN_FIRST_MS, SUBMIT_AGAIN_CAP_MS, nb_random());
        uint64_t now = nb_now_ms(), left = join->deadline_ms > now ? join->deadline_ms - now : 0;
        int r;

        r = nb_stop_wait(delay < left ? delay : left);
        if (r < 0 || delay < left)
                return r;
        return removed_each_time(join, f);
}

static void add_patience(const struct nb_join *join, struct nb_failure *f) {
        enum nb_class class = nb_failure_info(f->code)->class;
        bool is_deadline = nb_now_ms() >= join->deadline_ms;

        if (class != NB_CLASS_CONFIRM && (class != NB_CLASS_WAIT || !is_deadline))
                return;
        if (is_deadline)
                nb_report_given_up(join->settings->timeout_ms, "timeout", f);
        else
                nb_report_given_up(NB_RETRY_CONFIRM_MS, NULL, f);
}

int nb_join_run(struct nb_join *join, struct nb_failure *f) {
        uint64_t begin_usec = nb_now_usec();
        struct nb_retry retry = { 0 };
        struct nb_failure before = { 0 };
        unsigned n_again = 0;
        struct plan plan = make_plan(join);
        size_t i = 0, begun = plan.n;

        while (i < plan.n) {
                const struct stage *stage = plan.stages[i];
                int r;

                if (i != begun)
                        begin(stage);
                begun = i;
                r = stage->run(join, f);
                nb_retry_last_word(&before, f);
                before = *f;
                if (r == 0) {
                        log_done(stage, nb_now_usec() - begin_usec, join);
                        i++;
                        begin_usec = nb_now_usec();
                        retry = (struct nb_retry){ 0 };
                } else if (r == NB_STAGE_REQUEST) {
                        i = plan.request;
                        (void)removed_each_time(join, &before);
                        r = pause_before_request(join, n_again++, f);
                } else if (r != -ECANCELED && !stage->has_retried)
                        r = nb_pause_before_retry(&retry, &join->waiting_since, join->deadline_ms, r, f);
                if (r < 0) {
                        nb_report_new_connection(&join->api);
                        if (f->code != NB_NONE)
                                add_patience(join, f);
                        return r;
                }
        }
        return 0;
}

void nb_join_done(struct nb_join *join) {
        nb_cluster_done(&join->cluster);
        nb_buffer_done(&join->ca);
        nb_api_done(&join->api);
        nb_key_free(TAKE(join->key));
        nb_csr_done(&join->csr);
        nb_buffer_done(&join->certificate);
}
