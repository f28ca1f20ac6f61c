/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/node_name.h"
#include "metadata/cloud_internal.h"

#define ID_CHARACTERS NB_LOWER NB_UPPER NB_DIGITS "._:/()-"

#define LINK_LOCAL "169.254.169.254"
#define DMI(field, pattern) \
        { #field, pattern, offsetof(struct nb_dmi, field) }
#define PROVIDER(id, name, title, ...) [NB_PROVIDER_##id] = { __VA_ARGS__ },
const struct nb_cloud_row nb_cloud_rows[_NB_PROVIDER_N] = {
#include "metadata/clouds.def"
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

void nb_metadata_done(struct nb_metadata *metadata) {
        nb_user_data_done(&metadata->user_data);
        nb_secret_done(&metadata->token);
        *metadata = (struct nb_metadata)NB_METADATA_INIT;
}

/* --- Values --- */

static int read_token(struct nb_cloud_call *call, struct nb_failure *f) {
        const struct nb_cloud_row *row = call->row;
        struct nb_metadata *metadata = call->metadata;
        int r;

        r = nb_cloud_get_value(call, row->token, &metadata->token, f);
        if (r > 0)
                snprintf(metadata->token_source, sizeof(metadata->token_source), "%s of %s",
                         row->token_place, call->title);
        return r;
}

static int read_user_data(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret data = NB_SECRET_INIT;
        struct nb_metadata *metadata = call->metadata;
        int r;

        r = nb_cloud_get(call, call->row->user_data, NULL, NB_USER_DATA_MAX, &data, f);
        if (r <= 0)
                return r;
        snprintf(metadata->user_data_source, sizeof(metadata->user_data_source),
                 "the user data of %s", call->title);
        return nb_user_data_parse(metadata->user_data_source, data.data, data.len,
                                  &metadata->user_data, f);
}

static int read_node_name(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret name = NB_SECRET_INIT;
        const struct nb_cloud_row *row = call->row;
        char quoted[NB_TEXT_QUOTED_SIZE];
        size_t len;
        int r;

        r = row->read_node_name ? row->read_node_name(call, &name, f)
                                : nb_cloud_get_value(call, row->node_name, &name, f);
        if (r <= 0)
                return r;
        /* AWS returns one name for each domain of the network. The first one is the machine's. */
        len = strcspn(name.data, " ");
        if (nb_node_name_parse(name.data, len, call->metadata->node_name) < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "metadata.nodeName: expected a DNS name, found %s in the "
                                      "metadata of %s; set node.name",
                                      nb_text_quote(name.data, len, quoted), call->title);
        return 1;
}

static int append_part(struct nb_cloud_call *call, const char *value, struct nb_secret *id,
                       struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *slash, *part;
        int r;

        r = nb_cloud_get_value(call, value, &text, f);
        if (r <= 0)
                return r;
        slash = strrchr(text.data, '/');
        part = slash ? slash + 1 : text.data;
        if (call->row->edit_id) {
                call->row->edit_id(text.data);
                part = text.data;
        }
        if (!part[0])
                return nb_failure_set(
                        f, NB_METADATA_MALFORMED, EBADMSG,
                        "metadata.providerID: %s, %s: expected an identifier, found '%.80s'",
                        call->title, value, text.data);
        (void)nb_secret_append(id, part, strlen(part));
        return 1;
}

static int read_provider_id(struct nb_cloud_call *call, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret id = NB_SECRET_INIT;
        const char *const *part = call->row->id_parts;
        size_t size = sizeof(call->metadata->provider_id);
        int r;

        if (nb_secret_init(&id, (NB_CLOUD_ID_PARTS + 1) * NB_CLOUD_VALUE_MAX) < 0)
                return nb_failure_set_memory(f);
        for (const char *form = call->row->id_form; *form; form++) {
                if (*form != '*') {
                        (void)nb_secret_append(&id, form, 1);
                        continue;
                }
                r = append_part(call, *part++, &id, f);
                if (r <= 0)
                        return r;
        }
        if (id.len >= size || strspn(id.data, ID_CHARACTERS) != id.len)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EBADMSG,
                                      "metadata.providerID: expected at most %zu letters, digits "
                                      "and ._:/()- from %s, found '%.80s'",
                                      size - 1, call->title, id.data);
        memcpy(call->metadata->provider_id, id.data, id.len + 1);
        return 1;
}

int nb_cloud_read_values(struct nb_cloud_call *call, struct nb_failure *f) {
        const struct nb_cloud_row *row = call->row;
        const struct {
                bool is_wanted;
                int (*read)(struct nb_cloud_call *call, struct nb_failure *f);
        } steps[] = {
                { row->token_place, read_token },
                { true, read_user_data },
                { call->request->wants_node_name && row->node_name, read_node_name },
                { call->request->wants_provider_id && row->id_form, read_provider_id },
        };

        for (size_t i = 0; i < N_ELEMENTS(steps); i++) {
                int r = steps[i].is_wanted ? steps[i].read(call, f) : 0;

                if (r < 0)
                        return r;
        }
        return 0;
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
        r = nb_cloud_read_values(&call, f);
        if (r < 0) {
                f->is_unverified = call.is_unverified;
                return r;
        }
        metadata.is_unverified = call.is_unverified;
        *ret_metadata = TAKE(metadata);
        return 0;
}
