/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/sources.h"
#include "base/text.h"
#include "bootstrap/documents.h"
#include "format/settings_text.h"
#include "stage/metadata.h"
#include "verb/load.h"

int nb_load_local(struct nb_load *load, const char *config_directory, struct nb_failure *f) {
        int r;

        load->config_directory = config_directory;
        r = nb_load_settings(config_directory, &load->tokens, &load->settings, f);
        if (r < 0)
                return r;
        r = nb_bootstrap_load(&load->settings, &load->bootstrap, &load->why);
        load->settings.tokens = NULL;
        nb_settings_tokens_done(&load->tokens);
        load->is_metadata_wanted = r >= 0 && nb_bootstrap_wants_metadata(&load->settings, &load->bootstrap);
        return 0;
}

int nb_load_recognise(struct nb_load *load, struct nb_failure *f) {
        int r;

        if (!load->is_metadata_wanted)
                return 0;
        r = nb_machine_read(&load->machine, f);
        if (r < 0)
                return r;
        nb_recognise(&load->machine, &load->recognition);
        load->provider = load->settings.metadata_provider == NB_PROVIDER_AUTO ? load->recognition.provider : load->settings.metadata_provider;
        return 0;
}

/* --- Reading metadata --- */

static bool wants_node_name(const struct nb_load *load) {
        return load->settings.metadata_node_name && !load->settings.node_name[0];
}

static bool wants_provider_id(const struct nb_load *load) {
        return load->settings.metadata_provider_id && !load->settings.provider_id[0];
}

static int read_metadata(const struct nb_load *load, uint64_t deadline_ms, struct nb_metadata *ret_metadata, struct nb_failure *f) {
        const struct nb_cloud_request request = {
                .provider = load->provider,
                .machine = &load->machine,
                .wants_node_name = wants_node_name(load),
                .wants_provider_id = wants_provider_id(load),
        };

        return nb_metadata_wait(&request, deadline_ms, ret_metadata, f);
}

/* --- Tokens --- */

static void take_secret(struct nb_secret *ret, struct nb_secret *secret, char (*ret_origin)[128], const char *origin) {
        nb_secret_done(ret);
        *ret = *secret;
        *secret = (struct nb_secret)NB_SECRET_INIT;
        (void)snprintf(*ret_origin, sizeof(*ret_origin), "%s", origin);
}

/* The narrower place stands for all that user data says of tokens; the credentials in user data, for what its document says. */
static void take_tokens(struct nb_load *load) {
        struct nb_settings_tokens *tokens = &load->tokens;
        struct nb_metadata *metadata = &load->metadata;
        struct nb_user_data *user_data = &metadata->user_data;

        if (metadata->token.data) {
                nb_secret_done(&tokens->tls_bootstrap);
                take_secret(&tokens->discovery, &metadata->token, &tokens->discovery_origin, metadata->token_source);
                return;
        }
        if (user_data->token.data)
                take_secret(&tokens->discovery, &user_data->token, &tokens->discovery_origin, metadata->user_data_source);
        if (user_data->tls_bootstrap_token.data)
                take_secret(&tokens->tls_bootstrap, &user_data->tls_bootstrap_token, &tokens->tls_bootstrap_origin, metadata->user_data_source);
}

/* --- Documents --- */

static int take_document(struct nb_load *load, struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = load->metadata.user_data_source, .is_metadata = true };
        const struct nb_secret *document = &load->metadata.user_data.document;
        int r = 0;

        nb_settings_init(&load->from_metadata);
        load->from_metadata.tokens = &load->tokens;
        if (document->data)
                r = nb_settings_merge(&load->from_metadata, &source, document->data, document->len, f);
        load->from_metadata.tokens = NULL;
        return r;
}

/* By the very text that the installer gets, so that both sides mean the same by it. */
static int merge_all(struct nb_load *load, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        struct nb_metadata_document document = { .origin = load->metadata.user_data_source };
        char origin[sizeof(load->settings.origin[0])];

        if (nb_settings_format(&load->from_metadata, &text) < 0)
                return nb_failure_set_memory(f);
        document.data = text.data;
        document.len = text.len;
        if (!document.origin[0]) {
                (void)snprintf(origin, sizeof(origin), "the metadata of %s", nb_provider_title(load->provider));
                document.origin = origin;
        }
        return nb_documents_merge(load->config_directory, &document, &load->tokens, &load->settings, f);
}

/* --- Node name and provider ID --- */

static int missing(const struct nb_load *load, enum nb_setting setting, bool is_told_there, struct nb_failure *f) {
        const char *title = nb_provider_title(load->provider), *what = setting == NB_SETTING_METADATA_NODE_NAME ? "node name" : "provider ID";

        if (!is_told_there)
                return nb_failure_set(f, NB_SETTINGS_INVALID, 0, "%s: %s: expected false, since the metadata of %s tells no %s",
                                      load->settings.origin[setting], nb_setting_key(setting), title, what);
        return nb_failure_set(f, NB_METADATA_MALFORMED, 0, "the metadata of %s: expected a %s (%s in %s), found none", title, what, nb_setting_key(setting),
                              load->settings.origin[setting]);
}

static void set_origin(const struct nb_load *load, struct nb_settings *settings, enum nb_setting setting) {
        (void)snprintf(settings->origin[setting], sizeof(settings->origin[0]), "the metadata of %s", nb_provider_title(load->provider));
}

static int take_node_name(struct nb_load *load, const char *text, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];
        if (!text[0])
                return missing(load, NB_SETTING_METADATA_NODE_NAME, nb_cloud_has_node_name(load->provider), f);
        if (nb_node_name_parse(text, strlen(text), load->from_metadata.node_name) < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, 0, "the metadata of %s: expected a node name, found %s",
                                      nb_provider_title(load->provider), nb_text_quote(text, strlen(text), quoted));
        set_origin(load, &load->from_metadata, NB_SETTING_NODE_NAME);
        return 0;
}

static int take_provider_id(struct nb_load *load, const char *text, struct nb_failure *f) {
        if (!text[0])
                return missing(load, NB_SETTING_METADATA_PROVIDER_ID, nb_cloud_has_provider_id(load->provider), f);
        (void)snprintf(load->from_metadata.provider_id, sizeof(load->from_metadata.provider_id), "%s", text);
        set_origin(load, &load->from_metadata, NB_SETTING_PROVIDER_ID);
        return 0;
}

/* The document may be the one that asks for them: then they were not read with it. */
static int take_values(struct nb_load *load, uint64_t deadline_ms, bool was_name_read, bool was_id_read, struct nb_failure *f) {
        _cleanup_(nb_metadata_done) struct nb_metadata again = NB_METADATA_INIT;
        bool is_name_wanted = wants_node_name(load), is_id_wanted = wants_provider_id(load);
        const struct nb_metadata *metadata = &load->metadata;
        int r = 0;

        if ((is_name_wanted && !was_name_read) || (is_id_wanted && !was_id_read)) {
                r = read_metadata(load, deadline_ms, &again, f);
                metadata = &again;
        }
        if (r >= 0 && is_name_wanted)
                r = take_node_name(load, metadata->node_name, f);
        if (r >= 0 && is_id_wanted)
                r = take_provider_id(load, metadata->provider_id, f);
        if (r >= 0 && (is_name_wanted || is_id_wanted))
                r = merge_all(load, f);
        if (r >= 0 && is_name_wanted)
                set_origin(load, &load->settings, NB_SETTING_NODE_NAME);
        if (r >= 0 && is_id_wanted)
                set_origin(load, &load->settings, NB_SETTING_PROVIDER_ID);
        return r;
}

static void forget_secrets(struct nb_load *load) {
        struct nb_user_data *user_data = &load->metadata.user_data;

        load->settings.tokens = NULL;
        nb_settings_tokens_done(&load->tokens);
        nb_secret_done(&load->metadata.token);
        nb_secret_done(&user_data->document);
        nb_secret_done(&user_data->token);
        nb_secret_done(&user_data->tls_bootstrap_token);
}

static int take_documents(struct nb_load *load, struct nb_failure *f) {
        int r;

        r = take_document(load, f);
        if (r < 0)
                return r;
        take_tokens(load);
        return merge_all(load, f);
}

static int take_bootstrap(struct nb_load *load, struct nb_failure *f) {
        nb_bootstrap_done(&load->bootstrap);
        return nb_bootstrap_load(&load->settings, &load->bootstrap, f);
}

static int take_all(struct nb_load *load, uint64_t deadline_ms, bool was_name_read, bool was_id_read, struct nb_failure *f) {
        int r;

        r = take_documents(load, f);
        if (r >= 0)
                r = take_values(load, deadline_ms, was_name_read, was_id_read, f);
        return r < 0 ? r : take_bootstrap(load, f);
}

int nb_load_metadata(struct nb_load *load, uint64_t deadline_ms, struct nb_failure *f) {
        bool was_name_read = wants_node_name(load), was_id_read = wants_provider_id(load);
        int r;

        if (load->provider == NB_PROVIDER_NONE)
                return 0;
        r = read_metadata(load, deadline_ms, &load->metadata, f);
        if (r < 0)
                return r;
        load->is_metadata_read = true;
        load->has_metadata = nb_metadata_is_for_us(&load->metadata);
        if (load->has_metadata)
                r = take_all(load, deadline_ms, was_name_read, was_id_read, f);
        forget_secrets(load);
        return r;
}

static int take_user_data(struct nb_load *load, const struct nb_secret *data, struct nb_failure *f) {
        struct nb_metadata *metadata = &load->metadata;
        int r;

        r = nb_user_data_parse(metadata->user_data_source, data->data ? data->data : "", data->len, &metadata->user_data, f);
        if (r >= 0)
                r = nb_metadata_judge(metadata, f);
        if (r < 0)
                return r;
        load->is_metadata_read = true;
        load->has_metadata = nb_metadata_is_for_us(metadata);
        if (!load->has_metadata || !load->is_metadata_wanted)
                return 0;
        r = take_documents(load, f);
        return r < 0 ? r : take_bootstrap(load, f);
}

int nb_load_user_data(struct nb_load *load, const char *config_directory, const char *source, const struct nb_secret *data, struct nb_failure *f) {
        int r;

        r = nb_load_local(load, config_directory, f);
        if (r >= 0 && load->why.code != NB_NONE) {
                *f = load->why;
                r = f->errnum > 0 ? -f->errnum : -EPROTO;
        }
        if (r < 0)
                return r;
        (void)snprintf(load->metadata.user_data_source, sizeof(load->metadata.user_data_source), "%s", source);
        r = take_user_data(load, data, f);
        forget_secrets(load);
        return r;
}

/* --- Telling of it --- */

static void describe_found(const struct nb_load *load, char *ret, size_t size) {
        const struct nb_metadata *metadata = &load->metadata;
        const char *title = nb_provider_title(load->provider);

        if (load->provider == NB_PROVIDER_NONE)
                (void)snprintf(ret, size, "%s gives none%s", metadata->user_data_source,
                               load->config_directory ? "" : ", and --config-directory=DIR would add the settings of an image");
        else if (load->has_metadata)
                (void)snprintf(ret, size, "the metadata of %s gives none", title);
        else if (metadata->user_data_source[0])
                (void)snprintf(ret, size, "the metadata of %s holds nothing for this program: %s is %s%s%s", title, metadata->user_data_source,
                               metadata->user_data.what, metadata->user_data.near_miss[0] ? "; " : "", metadata->user_data.near_miss);
        else
                (void)snprintf(ret, size, "the metadata of %s holds nothing for this program", title);
}

void nb_load_describe(const struct nb_load *load, char *ret, size_t size) {
        ret[0] = '\0';
        if (!load->is_metadata_wanted)
                return;
        if (load->is_metadata_read)
                describe_found(load, ret, size);
        else if (load->provider == NB_PROVIDER_NONE)
                (void)snprintf(ret, size, "this machine is not recognised as one in a cloud, so that no metadata was asked for");
}

static void add(struct nb_failure *f, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct nb_failure *f, const char *format, ...) {
        size_t len = strlen(f->detail);
        va_list arguments;

        va_start(arguments, format);
        (void)vsnprintf(f->detail + len, sizeof(f->detail) - len, format, arguments);
        va_end(arguments);
}

/* What was looked at in vain, and where it could be, after what is missing. */
static void add_metadata(const struct nb_load *load, struct nb_failure *f) {
        const char *place = nb_cloud_token_place(load->provider);
        char found[NB_FAILURE_DETAIL_MAX];

        nb_load_describe(load, found, sizeof(found));
        if (found[0])
                add(f, "; %s", found);
        if (load->is_metadata_wanted && load->provider != NB_PROVIDER_NONE)
                add(f, "; a token may stand there in %s%sthe user data", place ? place : "", place ? " or in " : "");
}

/* The node password of k3s is root's to make, before this program reads metadata. */
static int verify_supervisor(const struct nb_load *load, struct nb_failure *f) {
        const struct nb_settings *settings = &load->settings;
        const char *origin = load->from_metadata.origin[NB_SETTING_CLUSTER_TYPE];
        bool is_said_here = settings->cluster_type == NB_CLUSTER_TYPE_K3S && !nb_setting_is_from(settings, NB_SETTING_CLUSTER_TYPE, origin);

        if (!load->has_metadata || load->bootstrap.issuer != NB_ISSUER_SUPERVISOR || load->bootstrap.node_password[0] || is_said_here)
                return 0;
        return nb_failure_set(f, NB_SETTINGS_INCOMPLETE, 0,
                              "cluster.type: expected k3s in the settings on this machine, found it in metadata alone, or only by the token there: the node's "
                              "password '" NB_NODE_PASSWORD_FILE "' is made before metadata is read");
}

int nb_load_verify(const struct nb_load *load, struct nb_failure *f) {
        int r;

        r = nb_settings_verify(&load->settings, f);
        if (r < 0)
                return r;
        r = nb_bootstrap_verify(&load->bootstrap, &load->settings, f);
        if (r < 0 && (f->code == NB_TOKEN_MISSING || f->code == NB_SETTINGS_INCOMPLETE))
                add_metadata(load, f);
        return r < 0 ? r : verify_supervisor(load, f);
}

void nb_load_done(struct nb_load *load) {
        nb_settings_tokens_done(&load->tokens);
        nb_bootstrap_done(&load->bootstrap);
        nb_metadata_done(&load->metadata);
}
