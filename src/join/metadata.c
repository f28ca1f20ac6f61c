/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <time.h>

#include "base/log.h"
#include "join/metadata.h"
#include "join/retry.h"

int nb_metadata_wait(enum nb_provider provider, int (*attempt)(void *, struct nb_failure *),
                     void *userdata, bool is_rehearsal, uint64_t deadline_ms,
                     struct nb_failure *f) {
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, deadline_ms },
                                      .attempt = attempt,
                                      .userdata = userdata,
                                      .waiting_since = &since,
                                      .is_rehearsal = is_rehearsal };
        int r;

        nb_log_field(NB_FIELD_STAGE, "metadata");
        nb_log_status("Reading the metadata of %s", nb_provider_title(provider));
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
