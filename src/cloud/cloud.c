/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "base/macro.h"
#include "cloud/internal.h"

static const struct nb_cloud_row *row_of(enum nb_provider provider) {
        assert((unsigned)provider < _NB_PROVIDER_N);
        return &nb_cloud_rows[provider];
}

bool nb_cloud_has_node_name(enum nb_provider provider) {
        return row_of(provider)->node_name;
}

bool nb_cloud_has_provider_id(enum nb_provider provider) {
        return row_of(provider)->id_form;
}

const char *nb_cloud_token_place(enum nb_provider provider) {
        return row_of(provider)->token_place;
}

void nb_metadata_done(struct nb_metadata *metadata) {
        nb_user_data_done(&metadata->user_data);
        nb_secret_done(&metadata->token);
        *metadata = (struct nb_metadata)NB_METADATA_INIT;
}

/* With a token from a narrower place, user data that nobody can read is taken for somebody else's; otherwise it may be what is missing. */
int nb_metadata_judge(struct nb_metadata *metadata, struct nb_failure *f) {
        if (metadata->user_data.kind != NB_USER_DATA_UNREADABLE)
                return 0;
        if (!metadata->token.data)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG, "%s: expected text of at most %d KiB, also in gzip, since there is no token elsewhere; found %s",
                                      metadata->user_data_source, NB_USER_DATA_TEXT_MAX / 1024, metadata->user_data.what);
        metadata->user_data.kind = NB_USER_DATA_NOTHING;
        return 0;
}

int nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata, struct nb_failure *f) {
        _cleanup_(nb_metadata_done) struct nb_metadata metadata = NB_METADATA_INIT;
        _cleanup_(nb_cloud_call_done) struct nb_cloud_call call = { 0 };
        const struct nb_cloud_row *row = row_of(request->provider);
        int r = 0;

        assert(request->provider != NB_PROVIDER_NONE && request->provider != NB_PROVIDER_AUTO);
        metadata.provider = request->provider;
        (void)snprintf(metadata.user_data.what, sizeof(metadata.user_data.what), "empty");
        r = nb_cloud_call_init(&call, request, f);
        if (r >= 0 && row->find_address) {
                r = row->find_address(call.found, sizeof(call.found), f);
                call.address = call.found;
        }
        if (r >= 0)
                r = row->read ? row->read(&call, &metadata, f) : nb_cloud_read_row(&call, &metadata, f);
        if (r >= 0)
                r = nb_metadata_judge(&metadata, f);
        if (r < 0)
                return r;
        *ret_metadata = metadata;
        metadata = (struct nb_metadata)NB_METADATA_INIT;
        return 0;
}
