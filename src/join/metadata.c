/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "join/metadata.h"
#include "join/report.h"
#include "join/retry.h"

void nb_metadata_add_limit(uint64_t deadline_ms, uint64_t patience_ms, const char *limit,
                           struct nb_failure *f) {
        if (f->code != NB_NONE && nb_failure_class(f) == NB_CLASS_WAIT &&
            nb_now_ms() >= deadline_ms)
                nb_report_given_up(patience_ms, limit, f);
}

struct wait {
        const struct nb_metadata_attempt *attempt;
        uint64_t patience_ms;
        time_t since;
};

static int attempt_read(void *userdata, struct nb_failure *f) {
        const struct wait *wait = userdata;

        return wait->attempt->run(wait->attempt->userdata, nb_now_ms() >= wait->patience_ms, f);
}

static void report_wait(void *userdata, const struct nb_failure *f, bool is_new) {
        struct wait *wait = userdata;

        nb_report_wait(&wait->since, f, is_new);
}

int nb_metadata_wait(const struct nb_metadata_attempt *attempt, uint64_t deadline_ms,
                     struct nb_failure *f) {
        struct wait wait = { attempt, nb_now_ms() + NB_CLOUD_PATIENCE_MS, 0 };
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, deadline_ms },
                                      .attempt = attempt_read,
                                      .report = report_wait,
                                      .userdata = &wait,
                                      .is_rehearsal = attempt->is_rehearsal };
        int r;

        nb_log_field(NB_FIELD_STAGE, "metadata");
        nb_log_status("Reading the metadata of %s", nb_provider_title(attempt->provider));
        r = nb_retry_run(&loop, f);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        nb_log_field(NB_FIELD_STAGE, NULL);
        return r < 0 ? r : 0;
}

bool nb_metadata_is_for_us(const struct nb_metadata *metadata) {
        return metadata->token_source[0] || metadata->user_data.kind != NB_USER_DATA_NOTHING;
}

void nb_metadata_describe_nothing(const struct nb_metadata *metadata, char *ret, size_t size) {
        bool has_data = metadata->user_data_source[0];

        snprintf(ret, size, "the metadata of %s has nothing for node-bootstrap: %s%s%s",
                 nb_provider_title(metadata->provider),
                 has_data ? metadata->user_data_source : "there is no user data",
                 has_data ? " is " : "", has_data ? metadata->user_data.what : "");
}

void nb_metadata_report(const struct nb_metadata *metadata) {
        const char *title = nb_provider_title(metadata->provider),
                   *source = metadata->user_data_source, *token = metadata->token_source;
        char text[NB_FAILURE_DETAIL_MAX];

        nb_log_field(NB_FIELD_STAGE, "metadata");
        if (!nb_metadata_is_for_us(metadata)) {
                nb_metadata_describe_nothing(metadata, text, sizeof(text));
                nb_log(LOG_NOTICE, NB_METADATA_NOTHING, "%s", text);
        } else
                nb_log(LOG_INFO, NB_METADATA_READ, "metadata of %s: %s%s%s%s%s%s", title,
                       token[0] ? "the token is in " : "", token, token[0] && source[0] ? "; " : "",
                       source, source[0] ? " is " : "", source[0] ? metadata->user_data.what : "");
        nb_log_field(NB_FIELD_STAGE, NULL);
}
