/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "cloud/cloud_internal.h"
#include "kube/node_name.h"

#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/()-"

#define LINK_LOCAL "169.254.169.254"
#define DMI(field, pattern) \
        { #field, pattern, offsetof(struct nb_dmi, field) }
#define PROVIDER(id, name, title, ...) [NB_PROVIDER_##id] = { __VA_ARGS__ },
const struct nb_cloud_row nb_cloud_rows[_NB_PROVIDER_N] = {
#include "settings/provider.def"
};

bool nb_cloud_has_node_name(enum nb_provider provider) {
        return nb_cloud_rows[provider].node_name;
}

bool nb_cloud_has_provider_id(enum nb_provider provider) {
        return nb_cloud_rows[provider].id_form;
}

const char *nb_cloud_token_place(enum nb_provider provider) {
        return nb_cloud_rows[provider].token_place;
}

/* --- Values --- */

void nb_cloud_trim(const char **text, size_t *len) {
        static const char space[] = " \t\r\n";

        while (*len > 0 && strchr(space, (*text)[*len - 1]))
                (*len)--;
        while (*len > 0 && strchr(space, **text)) {
                (*text)++;
                (*len)--;
        }
}

int nb_cloud_take_token(struct nb_cloud_call *call, const struct nb_secret *token,
                        struct nb_failure *f) {
        struct nb_metadata *metadata = call->metadata;
        const char *text = token->data;
        size_t len = token->len;

        nb_cloud_trim(&text, &len);
        if (len == 0)
                return 0;
        if (nb_secret_init(&metadata->token, len) < 0)
                return nb_failure_set_memory(f);
        (void)nb_secret_append(&metadata->token, text, len);
        snprintf(metadata->token_source, sizeof(metadata->token_source), "%s of %s",
                 call->row->token_place, call->title);
        return 1;
}

int nb_cloud_take_user_data(struct nb_cloud_call *call, const struct nb_secret *data,
                            struct nb_failure *f) {
        struct nb_metadata *metadata = call->metadata;

        snprintf(metadata->user_data_source, sizeof(metadata->user_data_source),
                 "the user data of %s", call->title);
        return nb_user_data_parse(metadata->user_data_source, data->data, data->len,
                                  &metadata->user_data, f);
}

int nb_cloud_take_node_name(struct nb_cloud_call *call, const char *name, struct nb_failure *f) {
        /* AWS returns one name for each domain of the network, that of the machine first. */
        size_t len = strcspn(name, " ");

        if (nb_node_name_parse(name, len, call->metadata->node_name) < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "metadata.nodeName: expected a DNS name, found '%.*s' in "
                                      "the metadata of %s; set node.name",
                                      (int)len, name, call->title);
        return 1;
}

int nb_cloud_take_provider_id(struct nb_cloud_call *call, const char *id, struct nb_failure *f) {
        char *ret = call->metadata->provider_id;
        size_t len = strlen(id), size = sizeof(call->metadata->provider_id);

        if (len >= size || strspn(id, ID_CHARACTERS) != len)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "metadata.providerID: expected at most %zu letters, digits "
                                      "and ._:/()- from %s, found '%.80s'",
                                      size - 1, call->title, id);
        memcpy(ret, id, len + 1);
        return 1;
}

/* --- Generic readers --- */

static int read_token(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret token = NB_SECRET_INIT;
        int r;

        if (!call->row->token)
                return 0;
        r = nb_cloud_get(call, call->row->token, NULL, NB_CLOUD_TOKEN_MAX, &token, f);
        return r > 0 ? nb_cloud_take_token(call, &token, f) : r;
}

int nb_cloud_read_user_data(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get(call, call->row->user_data, NULL, NB_USER_DATA_MAX, &data, f);
        return r > 0 ? nb_cloud_take_user_data(call, &data, f) : r;
}

static int read_node_name(struct nb_cloud_call *call, struct nb_failure *f) {
        char name[NB_CLOUD_VALUE_MAX + 1];
        int r;

        if (!call->row->node_name)
                return 0;
        r = nb_cloud_get_value(call, call->row->node_name, name, f);
        return r > 0 ? nb_cloud_take_node_name(call, name, f) : r;
}

/* 1 with the next part of the provider ID appended; 0 if the cloud has none. */
static int append_part(struct nb_cloud_call *call, const char *value, struct nb_buffer *id,
                       struct nb_failure *f) {
        char text[NB_CLOUD_VALUE_MAX + 1];
        const char *slash, *part;
        int r;

        r = nb_cloud_get_value(call, value, text, f);
        if (r <= 0)
                return r;
        slash = strrchr(text, '/');
        part = slash ? slash + 1 : text;
        if (!part[0])
                return nb_failure_set(
                        f, NB_METADATA_MALFORMED, EBADMSG,
                        "metadata.providerID: %s, %s: expected an identifier, found '%.80s'",
                        call->title, value, text);
        return nb_buffer_append_string(id, part) < 0 ? nb_failure_set_memory(f) : 1;
}

static int read_provider_id(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer id = NB_BUFFER_INIT((NB_CLOUD_ID_PARTS + 1) *
                                                                       NB_CLOUD_VALUE_MAX);
        const char *const *part = call->row->id_parts;
        int r = 1;

        if (!call->row->id_form)
                return 0;
        for (const char *form = call->row->id_form; *form && r > 0; form++)
                if (*form == '*')
                        r = append_part(call, *part++, &id, f);
                else if (nb_buffer_append(&id, form, 1) < 0)
                        r = nb_failure_set_memory(f);
        return r > 0 ? nb_cloud_take_provider_id(call, id.data, f) : r;
}

int nb_cloud_read_values(struct nb_cloud_call *call, struct nb_failure *f) {
        const struct nb_cloud_row *row = call->row;
        int r;

        r = (row->read_token ? row->read_token : read_token)(call, f);
        if (r < 0)
                return r;
        r = (row->read_user_data ? row->read_user_data : nb_cloud_read_user_data)(call, f);
        if (r < 0)
                return r;
        if (call->request->wants_node_name) {
                r = (row->read_node_name ? row->read_node_name : read_node_name)(call, f);
                if (r < 0)
                        return r;
        }
        if (!call->request->wants_provider_id)
                return 0;
        return (row->read_provider_id ? row->read_provider_id : read_provider_id)(call, f);
}

/* --- All of it --- */

void nb_metadata_done(struct nb_metadata *metadata) {
        nb_user_data_done(&metadata->user_data);
        nb_secret_done(&metadata->token);
        *metadata = (struct nb_metadata)NB_METADATA_INIT;
}

int nb_metadata_finish(struct nb_metadata *metadata, struct nb_failure *f) {
        if (metadata->user_data.kind != NB_USER_DATA_UNREADABLE)
                return 0;
        if (!metadata->token.data)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "%s: expected text of at most %d KiB, or gzip of it, since "
                                      "there is no token elsewhere; found %s",
                                      metadata->user_data_source, NB_USER_DATA_TEXT_MAX / 1024,
                                      metadata->user_data.what);
        metadata->user_data.kind = NB_USER_DATA_NOTHING;
        return 0;
}

static int read_all(struct nb_cloud_call *call, struct nb_failure *f) {
        int r = call->row->find_address ? call->row->find_address(call, f) : 0;

        if (r < 0)
                return r;
        r = nb_cloud_read_values(call, f);
        return r < 0 ? r : nb_metadata_finish(call->metadata, f);
}

int nb_cloud_read(const struct nb_cloud_request *request, struct nb_metadata *ret_metadata,
                  struct nb_failure *f) {
        _cleanup_(nb_metadata_done) struct nb_metadata metadata = NB_METADATA_INIT;
        _cleanup_(nb_cloud_call_done) struct nb_cloud_call call = { 0 };
        int r;

        assert(request->provider > NB_PROVIDER_AUTO && request->provider < _NB_PROVIDER_N);
        metadata.provider = request->provider;
        snprintf(metadata.user_data.what, sizeof(metadata.user_data.what), "empty");
        r = nb_cloud_call_init(&call, request, &metadata, f);
        if (r < 0)
                return r;
        r = read_all(&call, f);
        if (r < 0) {
                f->is_unverified = call.is_unverified;
                return r;
        }
        metadata.is_unverified = call.is_unverified;
        *ret_metadata = metadata;
        metadata = (struct nb_metadata)NB_METADATA_INIT;
        return 0;
}
