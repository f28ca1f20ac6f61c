/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>

#include "base/macro.h"
#include "join/report.h"
#include "join/retry.h"
#include "join/stages.h"
#include "os/clock.h"
#include "systemd/log.h"

int nb_stage_discover(struct nb_join *join, struct nb_failure *f) {
        static int (*const discover[_NB_METHOD_N])(struct nb_join * join, struct nb_failure * f) = {
#define NB_METHOD(ID, method, discover) [NB_METHOD_##ID] = nb_discover_##discover,
#include "join_method/methods.def"
#undef NB_METHOD
        };

        return nb_join_map_clock_skew(join, discover[join->bootstrap->method](join, f), f);
}

/* The early connection of discovery is used if it is to the same server. */
static int connect_api(struct nb_join *join, struct nb_failure *f) {
        int r = nb_api_init(&join->api, &join->cluster, &join->bootstrap->identity,
                            join->deadline_ms, f);

        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_ENDPOINT, "%s", join->api.name);
        return 0;
}

/* What a stage requires from the join. */
enum {
        CSR = 1 << 0,
        SUPERVISOR = 1 << 1,
};

static const struct stage {
        enum nb_stage id;
        const char *begun; /* STATUS= while the stage runs; NULL: it takes no time */
        const char *done;  /* journal entry at the end of the stage; NULL: none */
        int (*run)(struct nb_join *join, struct nb_failure *f);
        unsigned needs;
} stages[] = {
        { NB_STAGE_DISCOVER, "Looking for the cluster", "", nb_stage_discover, 0 },
        { NB_STAGE_CONNECT, NULL, NULL, connect_api, 0 },
        { NB_STAGE_NODE, "Checking that no other node has this name", NULL, nb_stage_node, CSR },
        { NB_STAGE_REQUEST, "Requesting a certificate", "CSR submitted", nb_stage_request, CSR },
        { NB_STAGE_AWAIT, "Waiting for the certificate", "certificate issued and verified",
          nb_stage_await, CSR },
        { NB_STAGE_REQUEST, "Requesting a certificate from the supervisor",
          "certificate issued by the supervisor and verified", nb_stage_request_supervisor,
          SUPERVISOR },
        { NB_STAGE_HAND_OVER, NULL, "handoff written for the installer", nb_stage_hand_over, 0 },
};

/* Discovery through discovery.endpoints retries each endpoint separately, so its failure is
 * final. */
static bool is_repeated(const struct nb_join *join, const struct stage *stage) {
        return stage->run != nb_stage_discover || nb_bootstrap_origin(join->bootstrap);
}

static void log_done(const struct stage *stage, uint64_t duration_usec, struct nb_join *join) {
        const char *done = stage->done;

        join->waiting_since = 0;
        nb_report_new_connection(&join->api);
        if (!done)
                return;
        if (stage->run == nb_stage_discover)
                done = nb_method(join->bootstrap->method)->verified;
        nb_log_field(NB_FIELD_DURATION_USEC, "%" PRIu64, duration_usec);
        nb_log(LOG_INFO, NB_STAGE_DONE, "%s: %s (%" PRIu64 " ms)", nb_stage_names[stage->id], done,
               duration_usec / 1000);
        nb_log_field(NB_FIELD_DURATION_USEC, NULL);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
}

struct attempt {
        struct nb_join *join;
        const struct stage *stage;
};

static int attempt_stage(void *userdata, struct nb_failure *f) {
        const struct attempt *attempt = userdata;

        return nb_join_map_clock_skew(attempt->join, attempt->stage->run(attempt->join, f), f);
}

/* During discovery, people look for a wrong address first. */
static void show_begun(const struct nb_join *join, const struct stage *stage) {
        const struct nb_settings *settings = join->settings;
        char endpoint[NB_URL_MAX];

        if (stage->id == NB_STAGE_DISCOVER && settings->n_endpoints > 0) {
                nb_endpoint_format(&settings->endpoints[0], endpoint);
                nb_log_status("%s at %s%s", stage->begun, endpoint,
                              settings->n_endpoints > 1 ? " and others" : "");
        } else if (stage->begun) {
                nb_log_status("%s", stage->begun);
        }
}

/* `before`: what to report if the deadline cuts the first attempt short. */
static int run_stage(struct nb_join *join, const struct stage *stage,
                     const struct nb_failure *before, struct nb_failure *f) {
        struct attempt attempt = { join, stage };
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, join->deadline_ms },
                                      .attempt = attempt_stage,
                                      .userdata = &attempt,
                                      .waiting_since = &join->waiting_since,
                                      .before = *before };
        uint64_t usec = nb_now_usec();
        int r;

        nb_log_field(NB_FIELD_STAGE, "%s", nb_stage_names[stage->id]);
        show_begun(join, stage);
        r = is_repeated(join, stage) ? nb_retry_run(&loop, f) : stage->run(join, f);
        usec = nb_now_usec() - usec;
        join->usec[stage->id] += usec;
        if (r == 0)
                log_done(stage, usec, join);
        return r;
}

static int removed_each_time(const struct nb_join *join, struct nb_failure *f) {
        bool is_for_controller = join->csr.is_for_controller;

        return nb_failure_set(f, is_for_controller ? NB_CSR_PENDING_CONTROLLER : NB_CSR_PENDING,
                              ETIMEDOUT,
                              "the CSR '%s' was deleted or replaced each time before it was "
                              "issued",
                              join->csr_name);
}

static int run_stages(struct nb_join *join, struct nb_failure *f) {
        unsigned has = join->bootstrap->issuer == NB_ISSUER_CSR ? CSR : SUPERVISOR;
        struct nb_failure before = { 0 };
        unsigned n_removed = 0;
        size_t i = 0;

        while (i < N_ELEMENTS(stages)) {
                const struct stage *stage = &stages[i++];
                int r;

                if (stage->needs & ~has)
                        continue;
                r = run_stage(join, stage, &before, f);
                nb_failure_clear(&before);
                if (r < 0)
                        return r;
                if (r != NB_REQUEST_AGAIN)
                        continue;
                (void)removed_each_time(join, &before);
                /* Back off, so that repeated deletion cannot cause a flood of requests. */
                r = nb_retry_wait(NB_RETRY_RESUBMIT, ++n_removed, join->deadline_ms);
                if (r < 0)
                        return r;
                if (r > 0)
                        return removed_each_time(join, f);
                for (i = 0; stages[i].run != nb_stage_request; i++)
                        ;
        }
        return 0;
}

int nb_join_run(struct nb_join *join, struct nb_failure *f) {
        int r;

        r = run_stages(join, f);
        if (r >= 0)
                return 0;
        /* Only a machine that has made a request leaves a key behind. An attempt that fails leaves
         * it for the next one: if the disk is so slow that the API server's answer comes too late
         * while the key is written, it is written once. */
        if (join->is_key_unused)
                nb_pending_key_drop(join);
        nb_report_new_connection(&join->api);
        nb_retry_given_up(join->deadline_ms, join->settings->timeout_ms, "timeout", f);
        return r;
}
