/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/sources.h"
#include "format/settings_text.h"
#include "format/token.h"
#include "verb/setup_internal.h"

#define PATH_SIZE 4096
#define VALUE_MAX 4096 /* bytes of a value in a message */

/* --- All documents, with ours in its place --- */

struct merging {
        struct nb_settings *settings;
        const char *origin;               /* of ours */
        const struct nb_buffer *document; /* ours; NULL: as it is on disk */
        bool is_merged;
};

static int merge_ours(struct merging *merging, struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = merging->origin, .is_exposed = true };

        merging->is_merged = true;
        if (!merging->document || merging->document->len == 0)
                return 0;
        return nb_settings_merge(merging->settings, &source, merging->document->data, merging->document->len, f);
}

/* In the order in which nb_sources_config() comes by them: config.yaml, config.yaml.d by name, the credential. */
static int merge_each(void *userdata, const struct nb_config_document *document, struct nb_failure *f) {
        const struct nb_settings_source source = { .origin = document->origin, .is_exposed = document->is_exposed };
        struct merging *merging = userdata;
        const char *slash = strrchr(merging->origin, '/');
        size_t folder_len = (size_t)(slash - merging->origin) + 1;
        bool is_ours = document->path && !strcmp(document->path, merging->origin);
        int r = 0;

        if (merging->document && !merging->is_merged) {
                /* Those of the folder go by name; config.yaml comes before them, the credential after. */
                bool is_in_folder = document->path && !strncmp(document->path, merging->origin, folder_len);

                if (is_in_folder ? strcmp(document->path, merging->origin) >= 0 : !document->path)
                        r = merge_ours(merging, f);
        }
        if (r < 0 || (merging->document && is_ours))
                return r;
        return nb_settings_merge(merging->settings, &source, document->data, document->len, f);
}

static int load(const struct nb_setup *setup, const struct nb_buffer *document, struct nb_settings_tokens *tokens, struct nb_settings *ret_settings,
                struct nb_failure *f) {
        char directory[PATH_SIZE], origin[PATH_SIZE + 64];
        struct merging merging = { .settings = ret_settings, .origin = origin, .document = document };
        int r;

        (void)snprintf(directory, sizeof(directory), "%s%s", setup->root ? setup->root : "", setup->config_directory);
        (void)snprintf(origin, sizeof(origin), "%s/config.yaml.d/" NB_SETUP_DOCUMENT, directory);
        nb_settings_init(ret_settings);
        ret_settings->tokens = tokens;
        r = nb_sources_config(directory, merge_each, &merging, f);
        return r < 0 || !document || merging.is_merged ? r : merge_ours(&merging, f);
}

/* --- Settings --- */

static bool is_any_set(const struct nb_settings *settings) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(settings, (enum nb_setting)i))
                        return true;
        return false;
}

static int make_document(const struct nb_setup *setup, struct nb_buffer *ret, struct nb_failure *f) {
        int r = nb_buffer_append_string(ret, "# Written by `node-bootstrap setup`, which replaces it.\n");

        if (r >= 0)
                r = nb_settings_format(&setup->settings, ret);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

struct comparison {
        struct nb_settings old, new;
        struct nb_settings_tokens tokens; /* of documents that carry some: they count where no credential does */
        bool is_second;                   /* setup was here before: what it did not set then is a change as well */
};

static int print_change(const struct comparison *comparison, enum nb_setting key, unsigned *n_changes, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer before = NB_BUFFER_INIT(VALUE_MAX), after = NB_BUFFER_INIT(VALUE_MAX);
        bool was_set = nb_setting_is_set(&comparison->old, key), is_set = nb_setting_is_set(&comparison->new, key);

        if (nb_setting_format(&comparison->old, key, &before) < 0 || nb_setting_format(&comparison->new, key, &after) < 0)
                return nb_failure_set_memory(f);
        if (!strcmp(before.data, after.data) || (!was_set && !comparison->is_second))
                return 0;
        (void)printf("%s: %s -> %s\n", nb_setting_key(key), was_set ? before.data : "(not set)", is_set ? after.data : "(not set)");
        (*n_changes)++;
        return 0;
}

/* What was typed has to be what counts. */
static int check_overridden(const struct nb_setup *setup, const struct nb_settings *new, enum nb_setting key, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer wanted = NB_BUFFER_INIT(VALUE_MAX), found = NB_BUFFER_INIT(VALUE_MAX);

        if (!nb_setting_is_set(&setup->settings, key))
                return 0;
        if (nb_setting_format(&setup->settings, key, &wanted) < 0 || nb_setting_format(new, key, &found) < 0)
                return nb_failure_set_memory(f);
        if (!strcmp(wanted.data, found.data))
                return 0;
        return nb_failure_set(f, NB_USAGE, 0, "%s: the command line gives one value, and %s, which is stronger, another", nb_setting_key(key), new->origin[key]);
}

/* The document of an earlier setup: 1; 0 when there is none that can be read. */
static int read_document(const struct nb_setup *setup, struct nb_buffer *ret) {
        char folder[PATH_SIZE];
        _cleanup_(nb_closep) int fd = -1;

        (void)snprintf(folder, sizeof(folder), "%s/config.yaml.d", setup->config_directory);
        return nb_folder_open_below(setup->root, folder, &fd) >= 0 && nb_file_read(fd, NB_SETUP_DOCUMENT, ret, NULL) >= 0;
}

static int plan_document(const struct nb_setup *setup, struct nb_setup_plan *plan, struct comparison *comparison, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer stored = NB_BUFFER_INIT(NB_CONFIG_MAX);
        struct nb_buffer nothing = NB_BUFFER_INIT(1);
        struct nb_failure ignored = { 0 };
        bool is_given = is_any_set(&setup->settings), is_replaced = setup->is_forced && is_given;
        int r;

        comparison->is_second = read_document(setup, &stored);
        /* A document of ours that somebody has damaged can be replaced: the others still have to be good. */
        r = load(setup, NULL, NULL, &comparison->old, is_replaced ? &ignored : f);
        if (r < 0 && is_replaced)
                r = load(setup, &nothing, NULL, &comparison->old, f);
        if (r >= 0 && is_given)
                r = make_document(setup, &plan->document, f);
        if (r >= 0)
                r = load(setup, is_given ? &plan->document : NULL, &comparison->tokens, &comparison->new, f);
        if (r < 0)
                return r;
        if (is_given && (stored.len != plan->document.len || memcmp(stored.data, plan->document.data, stored.len) != 0))
                plan->document_step = NB_SETUP_WRITE;
        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                r = check_overridden(setup, &comparison->new, (enum nb_setting)i, f);
        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                r = print_change(comparison, (enum nb_setting)i, &plan->n_changes, f);
        return r;
}

/* --- Credentials --- */

/* The public half of a token, or what else it is. */
static void describe(const struct nb_secret *value, enum nb_setup_secret secret, char ret[static 64]) {
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };

        if (!value->data)
                (void)strcpy(ret, "none");
        else if (secret != NB_SETUP_TOKEN && secret != NB_SETUP_TLS_BOOTSTRAP_TOKEN)
                (void)strcpy(ret, "another document");
        else if (nb_token_parse(value->data, value->len, &token) >= 0)
                (void)snprintf(ret, 64, "token %s", token.id);
        else
                (void)strcpy(ret, "a token of another form");
}

static bool is_same(const struct nb_secret *stored, const struct nb_secret *given) {
        size_t len = stored->len;

        while (len > 0 && (stored->data[len - 1] == '\n' || stored->data[len - 1] == '\r'))
                len--;
        for (size_t given_len = given->len;; given_len--)
                if (given_len == 0 || (given->data[given_len - 1] != '\n' && given->data[given_len - 1] != '\r'))
                        return len == given_len && !memcmp(stored->data, given->data, len);
}

static void print_secret(enum nb_setup_secret secret, const char *before, const char *after) {
        (void)printf("credential %s: %s -> %s%s\n", nb_setup_secret_name(secret), before, after,
                     !strcmp(before, after) && strncmp(before, "token ", 6) == 0 ? ", with another secret" : "");
}

/* Those that are not given go when another is: two ways in would exclude each other, or the wrong one win. */
static int plan_secret(const struct nb_setup *setup, struct nb_setup_plan *plan, enum nb_setup_secret secret, bool is_any_given, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        const struct nb_secret *given = &setup->secrets[secret];
        char before[64] = "one that cannot be decrypted here", after[64];
        int r;

        r = nb_setup_read_stored(setup, secret, &stored, f);
        if (r < 0 && r != -ENOENT && r != -EKEYREJECTED)
                return r;
        if (r == -ENOENT) {
                plan->secret_steps[secret] = given->data ? NB_SETUP_WRITE : NB_SETUP_KEEP;
                return 0;
        }
        if (r >= 0) {
                if (given->data ? is_same(&stored, given) : !is_any_given)
                        return 0;
                describe(&stored, secret, before);
        } else if (!given->data && !is_any_given) {
                return 0;
        }
        describe(given, secret, after);
        print_secret(secret, before, after);
        plan->secret_steps[secret] = given->data ? NB_SETUP_WRITE : NB_SETUP_REMOVE;
        plan->n_changes++;
        return 0;
}

/* systemd looks there before it looks into /etc/credstore. */
static int check_delivered(const struct nb_setup *setup, enum nb_setup_secret secret, struct nb_failure *f) {
        char path[PATH_SIZE];

        (void)snprintf(path, sizeof(path), NB_SETUP_DELIVERED "/%s", nb_setup_secret_name(secret));
        if (setup->root || !setup->secrets[secret].data || access(path, F_OK) < 0)
                return 0;
        return nb_failure_set(f, NB_USAGE, 0, "this machine was booted with a credential %s, which is stronger than the one that setup would write",
                              nb_setup_secret_name(secret));
}

static int plan_secrets(const struct nb_setup *setup, struct nb_setup_plan *plan, struct nb_failure *f) {
        bool is_any_given = false;
        int r = 0;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                is_any_given = is_any_given || setup->secrets[i].data;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++) {
                r = check_delivered(setup, (enum nb_setup_secret)i, f);
                if (r >= 0)
                        r = plan_secret(setup, plan, (enum nb_setup_secret)i, is_any_given, f);
        }
        return r;
}

static int plan_all(const struct nb_setup *setup, struct nb_setup_plan *plan, struct comparison *comparison, struct nb_failure *f) {
        int r;

        r = plan_document(setup, plan, comparison, f);
        if (r >= 0)
                r = nb_settings_verify(&comparison->new, f);
        if (r >= 0)
                r = plan_secrets(setup, plan, f);
        return r < 0 ? r : nb_setup_rehearse(setup, plan, &comparison->new, f);
}

int nb_setup_plan(const struct nb_setup *setup, struct nb_setup_plan *plan, struct nb_failure *f) {
        struct comparison comparison = { .tokens = NB_SETTINGS_TOKENS_INIT };
        int r = plan_all(setup, plan, &comparison, f);

        nb_settings_tokens_done(&comparison.tokens);
        return r;
}

bool nb_setup_plan_is_empty(const struct nb_setup_plan *plan) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (plan->secret_steps[i] != NB_SETUP_KEEP)
                        return false;
        return plan->document_step == NB_SETUP_KEEP;
}

void nb_setup_plan_done(struct nb_setup_plan *plan) {
        nb_buffer_done(&plan->document);
}
