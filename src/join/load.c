/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "join/load.h"
#include "join/retry.h"
#include "join_method/settings_documents.h"
#include "os/clock.h"
#include "os/sources.h"
#include "systemd/log.h"

/* --- This machine --- */

int nb_load_node_name(const struct nb_settings *settings, const char *by_default,
                      char ret_name[static NB_NODE_NAME_MAX + 1], struct nb_failure *f) {
        const char *chosen = settings->node_name[0] ? settings->node_name : by_default;
        char host[HOST_NAME_MAX + 1];
        bool is_override_needed;
        int r;

        r = nb_sources_host_name(host, f);
        if (r < 0)
                return r;
        if (!chosen[0] && !nb_host_name_is_set(-1, host))
                return nb_failure_set(f, NB_HOST_NAME_UNSET, 0,
                                      "the host name is '%s', the default of a machine without a "
                                      "name, and node.name is not set",
                                      host);
        r = nb_node_name_choose(chosen, host, ret_name, &is_override_needed, f);
        if (r < 0)
                return r;
        return nb_settings_verify_name(settings, ret_name,
                                       settings->node_name[0]
                                               ? settings->origin[NB_SETTING_NODE_NAME]
                                               : "the host name or the last join",
                                       f);
}

static void warn_of_addresses(const struct nb_settings *settings) {
        char text[NB_URL_MAX], likely[NB_URL_MAX];

        for (unsigned i = 0; i < settings->n_endpoints; i++) {
                if (!nb_endpoint_lacks_brackets(&settings->endpoints[i], likely))
                        continue;
                nb_endpoint_format(&settings->endpoints[i], text);
                nb_log(LOG_WARNING, NB_NONE,
                       "discovery.endpoints: %s: the address ends like a port; with brackets, it "
                       "may be %s",
                       text, likely);
        }
}

/* Returns how many arguments after the first one of this name have the same name. */
static unsigned count_repeats(const struct nb_settings *settings, unsigned i) {
        const char *argument = settings->extra_args[i];
        size_t len = strcspn(argument, "=") + 1;
        unsigned n = 0;

        for (unsigned j = 0; j < settings->n_extra_args; j++) {
                bool is_same = strncmp(settings->extra_args[j], argument, len) == 0;

                if (is_same && j < i)
                        return 0;
                n += is_same && j > i;
        }
        return n;
}

static void warn_of_repeated_arguments(const struct nb_settings *settings) {
        static const char labels[] = "node-labels=";

        for (unsigned i = 0; i < settings->n_extra_args; i++) {
                const char *argument = settings->extra_args[i];

                if (strncmp(argument, labels, strlen(labels)) == 0 ||
                    count_repeats(settings, i) == 0)
                        continue;
                nb_log(LOG_WARNING, NB_NONE,
                       "kubelet.extraArgs: '%.*s' is there more than once; kubelet adds up maps "
                       "and "
                       "lists, such as node-labels, but uses only the last value of other options",
                       (int)strcspn(argument, "="), argument);
        }
}

int nb_load_settings(struct nb_load *load, struct nb_sources *sources, struct nb_failure *f) {
        load->sources = sources;
        return nb_documents_merge(sources, &load->tokens, &load->settings, f);
}

int nb_load_bootstrap(struct nb_load *load, struct nb_failure *f) {
        int r = nb_bootstrap_load(load->sources, &load->settings, &load->bootstrap, f);

        warn_of_addresses(&load->settings);
        warn_of_repeated_arguments(&load->settings);
        load->settings.tokens = NULL;
        nb_settings_tokens_done(&load->tokens);
        load->is_metadata_wanted = r >= 0 &&
                                   nb_bootstrap_wants_metadata(&load->settings, &load->bootstrap);
        return r;
}

int nb_load_recognise(struct nb_load *load, struct nb_failure *f) {
        enum nb_provider provider = load->settings.metadata_provider;
        int r = nb_machine_read(load->sources, &load->machine, f);

        if (r < 0)
                return r;
        nb_recognise(&load->machine, &load->recognition);
        if (load->is_metadata_wanted)
                load->provider = provider == NB_PROVIDER_AUTO ? load->recognition.provider
                                                              : provider;
        return 0;
}

/* --- Metadata --- */

/* The values that metadata.nodeName and metadata.providerID request. */
static const struct {
        enum nb_setting wish, setting;
        const char *what;
        bool (*is_known)(enum nb_provider provider);
} values[] = {
        { NB_SETTING_METADATA_NODE_NAME, NB_SETTING_NODE_NAME, "node name",
          nb_cloud_has_node_name },
        { NB_SETTING_METADATA_PROVIDER_ID, NB_SETTING_PROVIDER_ID, "provider ID",
          nb_cloud_has_provider_id },
};

/* Of this machine's settings and those in metadata, the ones that decide this setting. */
static const struct nb_settings *decisive(const struct nb_load *load, enum nb_setting setting) {
        return nb_setting_is_set(&load->settings, setting) ? &load->settings : &load->from_metadata;
}

/* Whether the settings request a value from metadata and no document sets it. */
static bool is_wanted(const struct nb_load *load, enum nb_setting setting) {
        const struct nb_settings *found = &load->from_metadata;

        if (nb_setting_is_set(&load->settings, setting))
                return false;
        return setting == NB_SETTING_NODE_NAME
                       ? !found->node_name[0] &&
                                 decisive(load, NB_SETTING_METADATA_NODE_NAME)->metadata_node_name
                       : !found->provider_id[0] && decisive(load, NB_SETTING_METADATA_PROVIDER_ID)
                                                           ->metadata_provider_id;
}

/* Fails if the settings request a value that this cloud never provides. */
static int verify_wanted(const struct nb_load *load, struct nb_failure *f) {
        for (size_t i = 0; i < N_ELEMENTS(values); i++)
                if (is_wanted(load, values[i].setting) && !values[i].is_known(load->provider))
                        return nb_failure_set(
                                f, NB_SETTINGS_INVALID, 0,
                                "%s: %s: expected false, since the metadata of %s "
                                "never has a %s",
                                decisive(load, values[i].wish)->origin[values[i].wish],
                                nb_setting_key(values[i].wish), nb_provider_titles[load->provider],
                                values[i].what);
        return 0;
}

/* Whether the metadata contains a token or settings for this program. Works also after its secrets
 * were wiped. */
static bool is_for_us(const struct nb_metadata *metadata) {
        return metadata->token_source[0] || metadata->user_data.kind != NB_USER_DATA_NOTHING;
}

/* One attempt to read the metadata and apply it. */
struct attempt {
        struct nb_load *load;
        uint64_t deadline_ms;
        uint64_t patience_ms; /* the initial 404 of some clouds is waited for only once */
        nb_load_judge judge;
};

static int read_metadata(const struct attempt *attempt, struct nb_metadata *ret_metadata,
                         struct nb_failure *f) {
        const struct nb_load *load = attempt->load;
        const struct nb_cloud_request request = {
                .sources = load->sources,
                .provider = load->provider,
                .machine = &load->machine,
                .wants_node_name = is_wanted(load, NB_SETTING_NODE_NAME),
                .wants_provider_id = is_wanted(load, NB_SETTING_PROVIDER_ID),
                .is_patience_over = nb_now_ms() >= attempt->patience_ms,
                .until_ms = attempt->deadline_ms,
        };

        return nb_cloud_read(&request, ret_metadata, f);
}

static int take_documents(struct nb_load *load, struct nb_failure *f) {
        struct nb_metadata *metadata = &load->found;
        const struct nb_settings_source source = { .origin = metadata->user_data_source,
                                                   .key = metadata->user_data.key,
                                                   .is_metadata = true };
        const struct nb_secret *document = &metadata->user_data.document;
        struct nb_settings_tokens *tokens = &load->tokens;
        int r = 0;

        nb_settings_init(&load->from_metadata);
        load->from_metadata.tokens = tokens;
        if (document->data)
                r = nb_settings_merge(&load->from_metadata, &source, document->data, document->len,
                                      f);
        load->from_metadata.tokens = NULL;
        if (r < 0)
                return r;
        /* A token beside the user data replaces all tokens in it. */
        if (metadata->token.data) {
                nb_settings_tokens_done(tokens);
                tokens->discovery = TAKE(metadata->token);
                NB_TEXT_COPY(tokens->discovery_origin, metadata->token_source);
        }
        return 0;
}

/* Takes node name and provider ID from metadata if no document sets them. */
static int take_values(struct nb_load *load, struct nb_failure *f) {
        const char *const texts[] = { load->found.node_name, load->found.provider_id };
        struct nb_settings *settings = &load->from_metadata;

        for (size_t i = 0; i < N_ELEMENTS(values); i++) {
                enum nb_setting setting = values[i].setting, wish = values[i].wish;

                if (!is_wanted(load, setting))
                        continue;
                if (!texts[i][0] ||
                    nb_setting_parse(settings, setting, texts[i], strlen(texts[i])) < 0)
                        return nb_failure_set(f, NB_METADATA_MALFORMED, 0,
                                              "the metadata of %s: expected a %s (%s in %s), found "
                                              "none",
                                              nb_provider_titles[load->provider], values[i].what,
                                              nb_setting_key(wish),
                                              decisive(load, wish)->origin[wish]);
                snprintf(settings->origin[setting], sizeof(settings->origin[0]),
                         "the metadata of %s", nb_provider_titles[load->provider]);
        }
        return 0;
}

/* What install does with what the child has found, for `check`. */
static int settle(struct nb_load *load, struct nb_failure *f) {
        const struct nb_settings own = load->settings;

        nb_settings_settle(load->sources, &own, &load->from_metadata, &load->tokens,
                           &load->settings);
        nb_bootstrap_done(&load->bootstrap);
        return nb_bootstrap_load(load->sources, &load->settings, &load->bootstrap, f);
}

static void forget_secrets(struct nb_load *load) {
        load->settings.tokens = NULL;
        nb_settings_tokens_done(&load->tokens);
        nb_secret_done(&load->found.token);
        nb_secret_done(&load->found.user_data.document);
}

static int take_all(const struct attempt *attempt, struct nb_failure *f) {
        struct nb_load *load = attempt->load;
        bool was_name_read = is_wanted(load, NB_SETTING_NODE_NAME),
             was_id_read = is_wanted(load, NB_SETTING_PROVIDER_ID);
        int r;

        r = take_documents(load, f);
        if (r < 0)
                return r;
        /* The document in the metadata may request values that were not read with it. */
        if (is_wanted(load, NB_SETTING_NODE_NAME) > was_name_read ||
            is_wanted(load, NB_SETTING_PROVIDER_ID) > was_id_read) {
                _cleanup_(nb_metadata_done) struct nb_metadata again = NB_METADATA_INIT;

                r = verify_wanted(load, f);
                if (r < 0)
                        return r;
                r = read_metadata(attempt, &again, f);
                if (r < 0)
                        return r;
                NB_TEXT_COPY(load->found.node_name, again.node_name);
                NB_TEXT_COPY(load->found.provider_id, again.provider_id);
        }
        return take_values(load, f);
}

/* Nothing of a refused answer remains. */
static void begin_again(struct nb_load *load) {
        nb_metadata_done(&load->found);
        load->is_metadata_read = load->has_metadata = false;
        nb_settings_init(&load->from_metadata);
}

/* Adds to a failure about a missing value which places were searched, and where the value can be
 * configured. */
static void add_metadata(const struct nb_load *load, struct nb_failure *f) {
        const char *place = nb_cloud_token_place(load->provider);
        char found[NB_FAILURE_DETAIL_MAX];

        nb_load_describe(load, found, sizeof(found));
        if (found[0])
                nb_failure_add(f, "; %s", found);
        if (load->is_metadata_wanted && load->provider != NB_PROVIDER_NONE)
                nb_failure_add(f, "; the token can be in %s%sthe user data", place ? place : "",
                               place ? " or in " : "");
}

static int ask_judge(const struct nb_load *load, nb_load_judge judge, struct nb_failure *f) {
        int r = judge(load, f);

        if (r < 0 && (f->code == NB_TOKEN_MISSING || f->code == NB_SETTINGS_INCOMPLETE))
                add_metadata(load, f);
        return r;
}

static int apply_metadata(const struct attempt *attempt, struct nb_failure *f) {
        struct nb_load *load = attempt->load;
        int r = 0;

        load->is_metadata_read = true;
        load->has_metadata = is_for_us(&load->found);
        if (load->has_metadata)
                r = take_all(attempt, f);
        if (r >= 0 && attempt->judge)
                r = ask_judge(load, attempt->judge, f);
        else if (r >= 0 && load->has_metadata)
                r = settle(load, f);
        forget_secrets(load);
        return r;
}

static int load_once(void *userdata, struct nb_failure *f) {
        struct attempt *attempt = userdata;
        struct nb_load *load = attempt->load;
        int r;

        begin_again(load);
        r = read_metadata(attempt, &load->found, f);
        if (r < 0)
                return r;
        r = apply_metadata(attempt, f);
        if (r < 0)
                f->is_unverified = f->is_unverified || load->found.is_unverified;
        return r;
}

int nb_load_metadata(struct nb_load *load, uint64_t deadline_ms, nb_load_judge judge,
                     struct nb_failure *f) {
        struct attempt attempt = { .load = load,
                                   .deadline_ms = deadline_ms,
                                   .patience_ms = nb_now_ms() + NB_CLOUD_PATIENCE_MS,
                                   .judge = judge };
        time_t since = 0;
        struct nb_retry_loop loop = { .retry = { NB_RETRY_STAGE, deadline_ms },
                                      .attempt = load_once,
                                      .userdata = &attempt,
                                      .waiting_since = &since,
                                      .is_rehearsal = !judge };
        int r;

        nb_settings_init(&load->from_metadata);
        if (load->provider == NB_PROVIDER_NONE)
                return judge ? ask_judge(load, judge, f) : 0;
        r = verify_wanted(load, f);
        if (r < 0)
                return r;
        nb_log_field(NB_FIELD_STAGE, "metadata");
        nb_log_status("Reading the metadata of %s", nb_provider_titles[load->provider]);
        r = nb_retry_run(&loop, f);
        nb_log_field(NB_FIELD_ATTEMPT, NULL);
        nb_log_field(NB_FIELD_STAGE, NULL);
        return r;
}

int nb_load_user_data(struct nb_load *load, const char *source, const struct nb_secret *data,
                      struct nb_failure *f) {
        struct nb_metadata *metadata = &load->found;
        int r;

        NB_TEXT_COPY_LINE(metadata->user_data_source, source);
        r = nb_user_data_parse(metadata->user_data_source, data->data ? data->data : "", data->len,
                               &metadata->user_data, f);
        if (r >= 0) {
                load->is_metadata_read = true;
                load->has_metadata = is_for_us(metadata);
                if (load->has_metadata && load->is_metadata_wanted)
                        r = take_documents(load, f);
                if (r >= 0 && load->has_metadata && load->is_metadata_wanted)
                        r = settle(load, f);
        }
        forget_secrets(load);
        return r;
}

/* --- Messages --- */

void nb_load_report_metadata(const struct nb_load *load) {
        const struct nb_metadata *metadata = &load->found;
        const char *source = metadata->user_data_source, *token = metadata->token_source;
        char text[NB_FAILURE_DETAIL_MAX];

        if (!load->is_metadata_read)
                return;
        nb_log_field(NB_FIELD_STAGE, "metadata");
        if (!load->has_metadata) {
                nb_load_describe(load, text, sizeof(text));
                nb_log(LOG_NOTICE, NB_METADATA_NOTHING, "%s", text);
        } else
                nb_log(LOG_INFO, NB_METADATA_READ, "metadata of %s: %s%s%s%s%s%s",
                       nb_provider_titles[metadata->provider], token[0] ? "the token is in " : "",
                       token, token[0] && source[0] ? "; " : "", source, source[0] ? " is " : "",
                       source[0] ? metadata->user_data.what : "");
        nb_log_field(NB_FIELD_STAGE, NULL);
}

void nb_load_describe(const struct nb_load *load, char *ret, size_t size) {
        const struct nb_metadata *metadata = &load->found;
        bool has_data = metadata->user_data_source[0];

        ret[0] = '\0';
        if (!load->is_metadata_wanted)
                return;
        if (load->is_metadata_read && load->provider == NB_PROVIDER_NONE)
                snprintf(ret, size, "%s has none%s", metadata->user_data_source,
                         load->sources->config_directory
                                 ? ""
                                 : ", and --config-directory=DIR would add the settings of "
                                   "an image");
        else if (load->is_metadata_read && load->has_metadata)
                snprintf(ret, size, "the metadata of %s has none",
                         nb_provider_titles[load->provider]);
        else if (load->is_metadata_read)
                snprintf(ret, size, "the metadata of %s has nothing for node-bootstrap: %s%s%s%s",
                         nb_provider_titles[load->provider],
                         has_data ? metadata->user_data_source : "there is no user data",
                         has_data ? " is " : "", has_data ? metadata->user_data.what : "",
                         metadata->user_data.hint ? metadata->user_data.hint : "");
        else if (load->provider == NB_PROVIDER_NONE)
                snprintf(ret, size, "no cloud was recognised, so no metadata was read");
}

int nb_load_verify(const struct nb_load *load, struct nb_failure *f) {
        int r;

        r = nb_settings_verify(&load->settings, f);
        if (r < 0)
                return r;
        r = nb_bootstrap_verify(&load->bootstrap, &load->settings, f);
        if (r < 0 && (f->code == NB_TOKEN_MISSING || f->code == NB_SETTINGS_INCOMPLETE))
                add_metadata(load, f);
        return r;
}

void nb_load_done(struct nb_load *load) {
        nb_settings_tokens_done(&load->tokens);
        nb_bootstrap_done(&load->bootstrap);
        nb_metadata_done(&load->found);
}
