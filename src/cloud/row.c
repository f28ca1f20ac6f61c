/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "cloud/internal.h"
#include "format/node_name.h"

#define SPACE " \t\r\n"
#define ID_CHARACTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:/()-"

int nb_cloud_take_token(const struct nb_cloud_call *call, const char *text, size_t len, const char *place, struct nb_metadata *metadata,
                        struct nb_failure *f) {
        while (len > 0 && strchr(SPACE, text[len - 1]))
                len--;
        while (len > 0 && strchr(SPACE, text[0])) {
                text++;
                len--;
        }
        if (len == 0)
                return 0;
        if (nb_secret_init(&metadata->token, len) < 0 || nb_secret_append(&metadata->token, text, len) < 0)
                return nb_failure_set_memory(f);
        (void)snprintf(metadata->token_source, sizeof(metadata->token_source), "%s of %s", place, call->title);
        return 1;
}

int nb_cloud_take_user_data(const struct nb_cloud_call *call, const struct nb_secret *data, struct nb_metadata *metadata,
                            struct nb_failure *f) {
        (void)snprintf(metadata->user_data_source, sizeof(metadata->user_data_source), "the user data of %s", call->title);
        return nb_user_data_parse(metadata->user_data_source, data->data, data->len, &metadata->user_data, f);
}

int nb_cloud_take_node_name(const struct nb_cloud_call *call, const char *text, size_t len, struct nb_metadata *metadata,
                            struct nb_failure *f) {
        /* AWS lists as many names as the network has domains, the first of which is the machine's. */
        const char *space = memchr(text, ' ', len);

        if (space)
                len = (size_t)(space - text);
        if (nb_node_name_parse(text, len, metadata->node_name) < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG, "metadata.nodeName: %s names this machine '%.*s', and a node's name is a DNS name: set node.name",
                                      call->title, (int)len, text);
        return 1;
}

int nb_cloud_take_provider_id(const struct nb_cloud_call *call, const char *id, struct nb_metadata *metadata, struct nb_failure *f) {
        size_t len;

        assert(id);
        len = strlen(id);
        if (len >= sizeof(metadata->provider_id) || strspn(id, ID_CHARACTERS) != len)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "metadata.providerID: expected at most %zu letters, digits and ._:/()- of %s, found '%.80s'",
                                      sizeof(metadata->provider_id) - 1, call->title, id);
        memcpy(metadata->provider_id, id, len + 1);
        return 1;
}

int nb_cloud_read_token(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (!call->row->token)
                return 0;
        r = nb_cloud_get(call, call->row->token, NULL, NB_CLOUD_TOKEN_MAX, &text, f);
        return r > 0 ? nb_cloud_take_token(call, text.data, text.len, call->row->token_place, metadata, f) : r;
}

int nb_cloud_read_user_data(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        int r;

        r = nb_cloud_get(call, call->row->user_data, NULL, NB_USER_DATA_MAX, &data, f);
        return r > 0 ? nb_cloud_take_user_data(call, &data, metadata, f) : r;
}

int nb_cloud_read_node_name(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        char name[NB_CLOUD_VALUE_MAX + 1];
        int r;

        if (!call->request->wants_node_name || !call->row->node_name)
                return 0;
        r = nb_cloud_get_value(call, call->row->node_name, name, f);
        return r > 0 ? nb_cloud_take_node_name(call, name, strlen(name), metadata, f) : r;
}

static const char *last_component(const char *text) {
        const char *slash = strrchr(text, '/');

        return slash ? slash + 1 : text;
}

/* 1 with the next part of the identifier appended; 0 when the cloud does not tell it. */
static int append_part(struct nb_cloud_call *call, const char *value, struct nb_buffer *id, struct nb_failure *f) {
        char text[NB_CLOUD_VALUE_MAX + 1];
        const char *part;
        int r;

        r = nb_cloud_get_value(call, value, text, f);
        if (r <= 0)
                return r;
        part = last_component(text);
        if (!part[0])
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG, "metadata.providerID: %s, %s: expected an identifier, found '%.80s'", call->title, value, text);
        return nb_buffer_append_string(id, part) < 0 ? nb_failure_set_memory(f) : 1;
}

int nb_cloud_read_provider_id(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer id = NB_BUFFER_INIT((NB_CLOUD_ID_PARTS + 1) * NB_CLOUD_VALUE_MAX);
        const char *const *part = call->row->id_parts;
        int r = 1;

        if (!call->request->wants_provider_id || !call->row->id_form)
                return 0;
        for (const char *form = call->row->id_form; *form && r > 0; form++)
                if (*form == '*')
                        r = append_part(call, *part++, &id, f);
                else if (nb_buffer_append(&id, form, 1) < 0)
                        r = nb_failure_set_memory(f);
        return r > 0 ? nb_cloud_take_provider_id(call, id.data, metadata, f) : r;
}

int nb_cloud_read_row(struct nb_cloud_call *call, struct nb_metadata *metadata, struct nb_failure *f) {
        static int (*const steps[])(struct nb_cloud_call * call, struct nb_metadata * metadata, struct nb_failure * f) = {
                nb_cloud_read_token,
                nb_cloud_read_user_data,
                nb_cloud_read_node_name,
                nb_cloud_read_provider_id,
        };
        int r = 0;

        for (size_t i = 0; i < N_ELEMENTS(steps) && r >= 0; i++)
                r = steps[i](call, metadata, f);
        return r;
}
