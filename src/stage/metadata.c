/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "stage/internal.h"
#include "stage/metadata.h"

/* What goes on over all attempts. */
struct wait {
        uint64_t deadline_ms;
        struct nb_retry retry;
        struct nb_failure before; /* of the attempt before */
        time_t since;
};

void nb_metadata_add_limit(uint64_t deadline_ms, uint64_t patience_ms, const char *limit, struct nb_failure *f) {
        if (f->code != NB_NONE && nb_failure_info(f->code)->class == NB_CLASS_WAIT && nb_now_ms() >= deadline_ms)
                nb_report_given_up(patience_ms, limit, f);
}

int nb_metadata_wait(const struct nb_cloud_request *request, uint64_t deadline_ms, struct nb_metadata *ret_metadata, struct nb_failure *f) {
        struct wait wait = { .deadline_ms = deadline_ms };
        struct nb_cloud_request attempt = *request;
        uint64_t patience_ms = nb_now_ms() + NB_CLOUD_PATIENCE_MS;
        int r;

        nb_log_field(NB_FIELD_STAGE, "metadata");
        nb_log_status("Reading the metadata of %s", nb_provider_title(request->provider));
        attempt.until_ms = deadline_ms;
        do {
                attempt.is_patience_over = nb_now_ms() >= patience_ms;
                r = nb_cloud_read(&attempt, ret_metadata, f);
                if (r >= 0 || (r == -ECANCELED && f->code == NB_NONE))
                        break;
                nb_retry_last_word(&wait.before, f);
                wait.before = *f;
                r = nb_pause_before_retry(&wait.retry, &wait.since, wait.deadline_ms, r, f);
        } while (r >= 0);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        nb_log_field(NB_FIELD_STAGE, NULL);
        return r < 0 ? r : 0;
}

bool nb_metadata_is_for_us(const struct nb_metadata *metadata) {
        return metadata->token_source[0] || metadata->user_data.kind != NB_USER_DATA_NOTHING;
}

static void report_near_miss(const struct nb_metadata *metadata) {
        nb_log(LOG_WARNING, NB_METADATA_NEAR_MISS, "%s looks as if it were meant for this program, and is passed over: %s", metadata->user_data_source,
               metadata->user_data.near_miss);
}

static void report_nothing(const struct nb_metadata *metadata) {
        const char *title = nb_provider_title(metadata->provider);

        if (metadata->user_data.near_miss[0])
                report_near_miss(metadata);
        else if (metadata->user_data_source[0])
                nb_log(LOG_NOTICE, NB_METADATA_NOTHING, "the metadata of %s holds nothing for this program: %s is %s", title, metadata->user_data_source,
                       metadata->user_data.what);
        else
                nb_log(LOG_NOTICE, NB_METADATA_NOTHING, "the metadata of %s holds nothing for this program: there is no user data", title);
}

/* The token is from elsewhere. */
static void describe_passed_over(const struct nb_metadata *metadata, char *ret, size_t size) {
        ret[0] = '\0';
        if (metadata->user_data_source[0] && metadata->user_data.kind == NB_USER_DATA_NOTHING)
                (void)snprintf(ret, size, "; %s (%s) is passed over", metadata->user_data_source, metadata->user_data.what);
}

void nb_metadata_report(const struct nb_metadata *metadata) {
        char user_data[sizeof(metadata->user_data_source) + sizeof(metadata->user_data.what) + 4] = "", token[sizeof(metadata->token_source) + 16] = "",
                                                                                               passed_over[sizeof(user_data) + 24];

        nb_log_field(NB_FIELD_STAGE, "metadata");
        describe_passed_over(metadata, passed_over, sizeof(passed_over));
        if (metadata->user_data.kind != NB_USER_DATA_NOTHING)
                (void)snprintf(user_data, sizeof(user_data), "%s (%s)", metadata->user_data_source, metadata->user_data.what);
        if (metadata->token_source[0])
                (void)snprintf(token, sizeof(token), "the token in %s", metadata->token_source);
        if (nb_metadata_is_for_us(metadata))
                nb_log(LOG_INFO, NB_METADATA_READ, "metadata of %s for this program: %s%s%s%s", nb_provider_title(metadata->provider), user_data,
                       user_data[0] && token[0] ? ", and " : "", token, passed_over);
        else
                report_nothing(metadata);
        if (nb_metadata_is_for_us(metadata) && metadata->user_data.near_miss[0])
                report_near_miss(metadata);
        nb_log_field(NB_FIELD_STAGE, NULL);
}
