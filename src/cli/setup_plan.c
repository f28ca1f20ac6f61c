/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/load.h"
#include "cli/setup_internal.h"
#include "kube/token.h"
#include "method/documents.h"

#define PATH_SIZE 4096

/* The settings of this machine or image before and after. The files are read once, and kept in
 * memory with the new ones in their place. */
struct comparison {
        struct nb_sources sources;
        char directory[PATH_SIZE], path[PATH_SIZE + 64]; /* of the settings, of our document */
        struct nb_settings old, new;
        bool is_second; /* setup was run before: what it does not set again is a change, too */
};

/* --- Settings --- */

static int put_document(struct comparison *comparison, const char *data, size_t len,
                        struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;

        if (nb_secret_init(&text, len) < 0 || nb_secret_append(&text, data, len) < 0 ||
            nb_sources_put_file(&comparison->sources, comparison->path, 0644, &text) < 0)
                return nb_failure_set_memory(f);
        return 0;
}

int nb_setup_compare(const struct nb_settings *old, const struct nb_settings *new,
                     enum nb_setting key, struct nb_buffer *before, struct nb_buffer *after) {
        int r = nb_setting_format(old, key, before);

        if (r >= 0)
                r = nb_setting_format(new, key, after);
        return r < 0 ? r : strcmp(before->data, after->data) != 0;
}

static int print_change(const struct comparison *comparison, enum nb_setting key,
                        unsigned *n_changes, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer before = NB_BUFFER_INIT(NB_SETUP_VALUE_MAX),
                                                   after = NB_BUFFER_INIT(NB_SETUP_VALUE_MAX);
        bool was_set = nb_setting_is_set(&comparison->old, key),
             is_set = nb_setting_is_set(&comparison->new, key);
        int r = nb_setup_compare(&comparison->old, &comparison->new, key, &before, &after);

        if (r < 0)
                return nb_failure_set_memory(f);
        if (r == 0 || (!was_set && !comparison->is_second))
                return 0;
        printf("%s: %s -> %s\n", nb_setting_key(key), was_set ? before.data : "(not set)",
               is_set ? after.data : "(not set)");
        (*n_changes)++;
        return 0;
}

/* A value on the command line must take effect. */
static int verify_effect(const struct nb_setup *setup, const struct nb_settings *new,
                         enum nb_setting key, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer wanted = NB_BUFFER_INIT(NB_SETUP_VALUE_MAX),
                                                   found = NB_BUFFER_INIT(NB_SETUP_VALUE_MAX);
        int r;

        if (!nb_setting_is_set(&setup->settings, key))
                return 0;
        r = nb_setup_compare(&setup->settings, new, key, &wanted, &found);
        if (r < 0)
                return nb_failure_set_memory(f);
        return r == 0 ? 0
                      : nb_failure_set(f, NB_USAGE, 0,
                                       "%s on the command line is overridden by %s, which takes "
                                       "precedence",
                                       nb_setting_key(key), new->origin[key]);
}

static int load_settings(const struct nb_setup *setup, struct nb_setup_plan *plan,
                         struct comparison *comparison, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        struct nb_sources *sources = &comparison->sources;
        struct nb_buffer *document = plan->document;
        struct nb_failure why = { 0 };
        bool is_any_set = false;
        int r;

        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                is_any_set = is_any_set || nb_setting_is_set(&setup->settings, (enum nb_setting)i);
        snprintf(comparison->directory, sizeof(comparison->directory), "%s%s",
                 setup->root ? setup->root : "", setup->config_directory);
        snprintf(comparison->path, sizeof(comparison->path), "%s/config.yaml.d/" NB_SETUP_DOCUMENT,
                 comparison->directory);
        nb_sources_init(sources, comparison->directory);
        sources->is_keeping = true;
        comparison->is_second = nb_sources_read(sources, comparison->path, NB_CONFIG_MAX, &stored,
                                                NULL) >= 0;
        r = nb_documents_merge(sources, NULL, NULL, &comparison->old, &why);
        /* A damaged document of ours can be replaced. */
        if (r < 0 && setup->is_forced && is_any_set) {
                r = put_document(comparison, "", 0, f);
                if (r < 0)
                        return r;
                why = (struct nb_failure){ 0 };
                r = nb_documents_merge(sources, NULL, NULL, &comparison->old, &why);
        }
        if (r < 0) {
                *f = why;
                return r;
        }
        if (is_any_set) {
                if (nb_buffer_append_string(
                            document, "# Written by `node-bootstrap setup`, which replaces it.\n") <
                            0 ||
                    nb_settings_format(&setup->settings, document) < 0)
                        return nb_failure_set_memory(f);
                plan->is_document_new = stored.len != document->len ||
                                        memcmp(stored.data, document->data, stored.len) != 0;
                r = put_document(comparison, document->data, document->len, f);
                if (r < 0)
                        return r;
        }
        return nb_documents_merge(sources, NULL, NULL, &comparison->new, f);
}

static int plan_document(const struct nb_setup *setup, struct nb_setup_plan *plan,
                         struct comparison *comparison, struct nb_failure *f) {
        int r = load_settings(setup, plan, comparison, f);

        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                r = verify_effect(setup, &comparison->new, (enum nb_setting)i, f);
        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                r = print_change(comparison, (enum nb_setting)i, &plan->n_changes, f);
        return r < 0 ? r : nb_settings_verify(&comparison->new, f);
}

/* --- Credentials --- */

/* The ID of a token, or what else it is. */
static void describe_secret(const struct nb_secret *value, enum nb_setup_secret secret,
                            char ret[static 64]) {
        _cleanup_(nb_token_done) struct nb_token token = { .value = NB_SECRET_INIT };

        if (!value->data)
                strcpy(ret, "none");
        else if (secret != NB_SETUP_TOKEN && secret != NB_SETUP_TLS_BOOTSTRAP_TOKEN)
                strcpy(ret, "another document");
        else if (nb_token_parse(value->data, nb_token_trim(value->data, value->len), &token) >= 0)
                snprintf(ret, 64, "token %s", token.id);
        else
                strcpy(ret, "a token of another form");
}

static bool is_same(const struct nb_secret *stored, const struct nb_secret *new) {
        size_t len = nb_token_trim(stored->data, stored->len);

        return len == nb_token_trim(new->data, new->len) && !memcmp(stored->data, new->data, len);
}

/* With a new credential, the others are removed: an old one could take precedence, or conflict with
 * the new one. */
static int plan_secret(const struct nb_setup *setup, struct nb_setup_plan *plan,
                       enum nb_setup_secret secret, bool is_any_new, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        const struct nb_secret *new = &setup->secrets[secret];
        char before[64] = "one that cannot be decrypted here", after[64];
        int r;

        r = nb_setup_read_stored(setup, secret, &stored, f);
        if (r < 0 && r != -ENOENT && r != -EKEYREJECTED)
                return r;
        if (r == -ENOENT ? !new->data : new->data ? r >= 0 && is_same(&stored, new) : !is_any_new)
                return 0;
        plan->steps[secret] = new->data ? NB_SETUP_WRITE : NB_SETUP_REMOVE;
        plan->n_steps++;
        if (r == -ENOENT)
                return 0;
        if (r >= 0)
                describe_secret(&stored, secret, before);
        describe_secret(new, secret, after);
        printf("credential %s: %s -> %s%s\n", nb_setup_secret_names[secret], before, after,
               !strcmp(before, after) && !strncmp(before, "token ", 6) ? ", with another secret"
                                                                       : "");
        plan->n_changes++;
        return 0;
}

static int plan_secrets(const struct nb_setup *setup, struct nb_setup_plan *plan,
                        struct nb_failure *f) {
        bool is_any_new = false;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                is_any_new = is_any_new || setup->secrets[i].data;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                const char *name = nb_setup_secret_names[(enum nb_setup_secret)i];
                char path[PATH_SIZE];
                int r;

                snprintf(path, sizeof(path), NB_SETUP_DELIVERED "/%s", name);
                if (!setup->root && setup->secrets[i].data && access(path, F_OK) == 0)
                        return nb_failure_set(
                                f, NB_USAGE, 0,
                                "this machine was booted with a credential %s, which "
                                "takes precedence over the one that setup would write",
                                name);
                r = plan_secret(setup, plan, (enum nb_setup_secret)i, is_any_new, f);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* --- Whether `join` can begin with all of it --- */

/* Puts the credential that the service will get into memory; from an earlier boot credential or
 * setup, where there is no new one. */
static int deliver(const struct nb_setup *setup, const struct nb_setup_plan *plan,
                   struct nb_sources *sources, enum nb_setup_secret secret, bool *has_unknown,
                   struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        const struct nb_secret *value = &setup->secrets[secret];
        _cleanup_(nb_closep) int fd = -1;
        int r = -ENOENT;

        if (!value->data) {
                value = &stored;
                if (!setup->root && nb_folder_open(NB_SETUP_DELIVERED, &fd) >= 0)
                        r = nb_file_read_secret(fd, nb_setup_secret_names[secret],
                                                NB_SETUP_SECRET_MAX, &stored, NULL);
                if (r < 0 && plan->steps[secret] == NB_SETUP_KEEP)
                        r = nb_setup_read_stored(setup, secret, &stored, f);
                if (r == -EKEYREJECTED)
                        *has_unknown = true;
                if (r < 0 && r != -EKEYREJECTED && (r != -ENOENT || f->code != NB_NONE))
                        return r;
        }
        r = nb_sources_put(sources, nb_setup_secret_names[secret], value->data ? value : NULL);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

/* Files that an image gets later, and credentials that only the service can read, are not missing.
 */
static bool is_excused(const struct nb_setup *setup, bool has_unknown, enum nb_code code) {
        if (code == NB_TOKEN_MISSING)
                return setup->root || has_unknown;
        return setup->root &&
               (code == NB_DISCOVERY_FILE_UNREADABLE || code == NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
}

static int load_bootstrap(const struct nb_setup *setup, struct nb_sources *sources,
                          struct nb_failure *f) {
        _cleanup_(nb_load_done) struct nb_load load = NB_LOAD_INIT;
        char node_name[NB_NODE_NAME_MAX + 1];
        int r = nb_load_local_verified(&load, sources, f);

        if (r < 0)
                return r;
        r = nb_bootstrap_verify(&load.bootstrap, &load.settings, f);
        /* An image gets its host name later, and metadata can name the node. */
        if (r < 0 || setup->root || load.settings.metadata_node_name || load.is_metadata_wanted)
                return r;
        return nb_load_node_name(&load.settings, node_name, f);
}

static int rehearse(const struct nb_setup *setup, const struct nb_setup_plan *plan,
                    struct nb_sources *sources, struct nb_failure *f) {
        struct nb_failure why = { 0 };
        bool has_unknown = false; /* a credential that only the service can read */
        int r;

        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                r = deliver(setup, plan, sources, (enum nb_setup_secret)i, &has_unknown, f);
                if (r < 0)
                        return r;
        }
        r = load_bootstrap(setup, sources, &why);
        if (r >= 0 || is_excused(setup, has_unknown, why.code))
                return 0;
        *f = why;
        return r;
}

int nb_setup_plan(const struct nb_setup *setup, struct nb_setup_plan *plan, struct nb_failure *f) {
        struct comparison comparison = { .is_second = false };
        int r = plan_document(setup, plan, &comparison, f);

        if (r >= 0)
                r = plan_secrets(setup, plan, f);
        if (r >= 0)
                r = rehearse(setup, plan, &comparison.sources, f);
        nb_sources_done(&comparison.sources);
        return r;
}
