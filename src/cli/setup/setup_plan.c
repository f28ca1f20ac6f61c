/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/service.h"
#include "cli/setup/setup_internal.h"
#include "join/load.h"
#include "kube/token.h"
#include "method/settings_documents.h"
#include "system/unit.h"

/* --- Settings --- */

/* setup never writes the credential with settings, which takes precedence over files. On this
 * machine, links in the stores are followed, as systemd does. */
static int put_config(struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret config = NB_SECRET_INIT;
        const char *const *stores = setup->sources.stores;
        struct stat st = { .st_mode = 0400 };
        int r = -ENOENT;

        if (!setup->root)
                nb_sources_find_stores(&setup->sources);
        for (; r == -ENOENT && *stores; stores++) {
                r = nb_sources_read_stored(*stores, NB_CREDENTIAL_CONFIG_NAME, NB_CONFIG_MAX,
                                           &config, &st);
                if (r < 0 && r != -ENOENT)
                        return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                              "cannot read '%s/%s': %m", *stores,
                                              NB_CREDENTIAL_CONFIG_NAME);
        }
        if (r == -ENOENT)
                r = nb_setup_read_stored(setup, NB_CREDENTIAL_CONFIG_NAME, &config, f);
        if (r < 0 && r != -ENOENT && r != -EKEYREJECTED)
                return r;
        return nb_sources_put(&setup->sources, NB_SOURCE_CREDENTIAL, NB_CREDENTIAL_CONFIG_NAME,
                              st.st_mode, r < 0 ? NULL : &config) < 0
                       ? nb_failure_set_memory(f)
                       : 0;
}

/* A damaged document of ours can be replaced. */
int nb_setup_load(struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT;
        struct nb_buffer *document = &setup->document;
        bool is_any_set = false;
        int r;

        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                is_any_set = is_any_set || nb_setting_is_set(&setup->settings, i);
        if (is_any_set) {
                nb_buffer_append_string(document, NB_SETUP_HEADER);
                nb_settings_format(&setup->settings, document);
        }
        if (document->error < 0)
                return nb_failure_set_memory(f);
        snprintf(setup->directory, sizeof(setup->directory), "%s%s", setup->root ? setup->root : "",
                 setup->config_directory);
        snprintf(setup->path, sizeof(setup->path), "%s/config.yaml.d/" NB_SETUP_DOCUMENT,
                 setup->directory);
        nb_sources_init(&setup->sources, setup->directory);
        setup->sources.is_keeping = true;
        setup->is_second = nb_sources_read(&setup->sources, setup->path, NB_CONFIG_MAX, &stored,
                                           NULL) >= 0;
        setup->is_document_new = is_any_set &&
                                 (stored.len != document->len ||
                                  memcmp(stored.data, document->data, stored.len) != 0);
        r = put_config(setup, f);
        if (r < 0)
                return r;
        r = nb_documents_merge(&setup->sources, NULL, NULL, &setup->now, f);
        if (r >= 0 || !setup->is_forced || !is_any_set)
                return r;
        nb_documents_salvage(&setup->sources, &setup->now);
        *f = (struct nb_failure){ 0 };
        return 0;
}

/* Puts the new document into the place of the old one. */
static int put_document(struct nb_setup *setup) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r;

        if (setup->document.len == 0)
                return 0;
        r = nb_secret_copy(&text, setup->document.data, setup->document.len);
        return r < 0 ? r
                     : nb_sources_put(&setup->sources, NB_SOURCE_FILE, setup->path, 0644, &text);
}

bool nb_setup_is_equal(const struct nb_settings *a, const struct nb_settings *b,
                       enum nb_setting key) {
        _cleanup_(nb_buffer_done) struct nb_buffer text_a = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX),
                                                   text_b = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        nb_setting_format(a, key, &text_a);
        nb_setting_format(b, key, &text_b);
        return text_a.error >= 0 && text_b.error >= 0 && !strcmp(text_a.data, text_b.data);
}

/* `before` and `after` without a value are "(not set)". */
static void report_difference(struct nb_setup *setup, const char *what, const char *before,
                              const char *after) {
        before = before ? before : "(not set)";
        after = after ? after : "(not set)";
        printf("%s: %s -> %s\n", what, before, after);
        nb_json_open(&setup->writer, NULL, '{');
        nb_json_put_string(&setup->writer, "what", what);
        nb_json_put_string(&setup->writer, "before", before);
        nb_json_put_string(&setup->writer, "after", after);
        nb_json_close(&setup->writer);
        setup->n_different++;
}

/* A join command replaces the one of an earlier setup on a machine that has never joined. Somebody
 * else wrote the other files. */
static bool is_kept(const struct nb_setup *setup, enum nb_setting key) {
        return !setup->has_never_joined || !setup->has_new_secret ||
               !nb_setting_is_set(&setup->settings, NB_SETTING_ENDPOINTS) ||
               (nb_setting_is_set(&setup->now, key) &&
                !nb_setting_is_from(&setup->now, key, setup->path));
}

/* A value on the command line must take effect. */
static int plan_setting(struct nb_setup *setup, const struct nb_settings *new, enum nb_setting key,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer before = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX),
                                                   after = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        if (nb_setting_is_set(&setup->settings, key) &&
            !nb_setup_is_equal(&setup->settings, new, key))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "%s on the command line is overridden by %s, which takes "
                                      "precedence",
                                      nb_setting_key(key), new->origin[key]);
        if (nb_setup_is_equal(&setup->now, new, key) ||
            (!nb_setting_is_set(&setup->now, key) &&
             /* This only adds a file, where there is none. */
             (!setup->is_second || key == NB_SETTING_CONFIG_FROM)))
                return 0;
        if (nb_setting_is_set(&setup->now, key))
                nb_setting_format(&setup->now, key, &before);
        if (nb_setting_is_set(new, key))
                nb_setting_format(new, key, &after);
        report_difference(setup, nb_setting_key(key), before.data, after.data);
        setup->n_kept += is_kept(setup, key);
        return 0;
}

/* --- Credentials --- */

/* Describes a credential by the ID of its token, or by its kind. */
static void describe_secret(const struct nb_secret *value, enum nb_credential secret,
                            char ret[static 128]) {
        if (!value->data)
                nb_text_copy(ret, 128, "none");
        else if (secret > NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN)
                nb_text_copy(ret, 128, "another document");
        else if (nb_token_verify(value->data, nb_token_trim(value->data, value->len)) >= 0)
                snprintf(ret, 128, "token %.*s", NB_TOKEN_ID_LEN, value->data);
        else
                nb_text_copy(ret, 128, "a token of another form");
}

static bool is_same(const struct nb_secret *stored, const struct nb_secret *new) {
        size_t len = nb_token_trim(stored->data, stored->len);

        return len == nb_token_trim(new->data, new->len) && !memcmp(stored->data, new->data, len);
}

/* If there is a new credential, the others are removed: an old one could take precedence, or
 * conflict with the new one. Afterwards the sources contain the credentials that the service will
 * get. */
static int plan_secret(struct nb_setup *setup, enum nb_credential secret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret stored = NB_SECRET_INIT,
                                                   delivered = NB_SECRET_INIT;
        const struct nb_secret *new = &setup->secrets[secret], *value = new;
        const char *name = nb_credential_names[secret];
        char before[128] = "an encrypted value", after[128];
        char path[NB_SETUP_PATH_SIZE], what[128];
        bool is_kept, is_damaged;
        int r;

        snprintf(path, sizeof(path), NB_SETUP_DELIVERED "/%s", name);
        if (!setup->root && nb_path_read(-1, path, NB_SETUP_SECRET_MAX, &delivered) != -ENOENT &&
            new->data)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "this machine was booted with a credential %s, which "
                                      "takes precedence over the one that setup would write; "
                                      "change it in the hypervisor or container manager, or "
                                      "override it with LoadCredential= in a drop-in; see EXAMPLES "
                                      "in node-bootstrap.service(8)",
                                      name);
        r = nb_setup_read_stored(setup, name, &stored, f);
        /* The service does not start with a directory, a broken link, a FIFO or a large file. */
        is_damaged = r == -EBADF || r == -ELOOP || r == -EFBIG;
        if (is_damaged && setup->has_new_secret)
                nb_failure_clear(f);
        else if (r < 0 && r != -ENOENT && r != -EKEYREJECTED)
                return r;
        is_kept = r == -ENOENT ? !new->data
                  : new->data  ? r >= 0 && is_same(&stored, new)
                               : !setup->has_new_secret;
        if (!new->data && (delivered.data || is_kept)) {
                value = delivered.data ? &delivered : &stored;
                setup->has_unknown_secret |= !delivered.data && r == -EKEYREJECTED;
        }
        if (nb_sources_put(&setup->sources, NB_SOURCE_CREDENTIAL, name, 0400,
                           value->data ? value : NULL) < 0)
                return nb_failure_set_memory(f);
        if (is_kept)
                return 0;
        setup->steps[secret] = new->data ? NB_SETUP_WRITE : NB_SETUP_REMOVE;
        setup->n_steps++;
        if (r == -ENOENT)
                return 0;
        if (r >= 0 || is_damaged)
                describe_secret(&stored, secret, before);
        describe_secret(new, secret, after);
        if (!strcmp(before, after) && !strncmp(before, "token ", 6))
                snprintf(after, sizeof(after), "%s, with another secret", before);
        snprintf(what, sizeof(what), "credential %s", name);
        report_difference(setup, what, before, after);
        return 0;
}

/* LoadCredentialEncrypted= also searches the stores of plain text, and fails to decrypt what it
 * finds there. */
static int verify_drop_ins(const struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };
        struct nb_failure ignored = { 0 };

        if (setup->root || !nb_systemd_is_running() ||
            nb_unit_read(NB_SETUP_UNIT, &unit, &ignored) < 0)
                return 0;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (setup->steps[i] == NB_SETUP_WRITE &&
                    nb_service_decrypts(&unit, nb_credential_names[i]))
                        return nb_failure_set(
                                f, NB_USAGE, 0,
                                "a drop-in with LoadCredentialEncrypted=%s accepts no plain text, "
                                "which setup would write: remove the line from the file that "
                                "`systemctl cat " NB_SETUP_UNIT
                                "` shows, run `systemctl daemon-reload`, and run the same command "
                                "again",
                                nb_credential_names[i]);
        return 0;
}

/* --- Whether `join` can begin with the result --- */

/* With the copied certificate's name in node.name, the service does not join again. */
static bool is_named_copy(const struct nb_setup *setup, const struct nb_settings *settings) {
        const struct nb_inspection *found = &setup->state.node.inspection;

        return found->state == NB_NODE_STATE_COPIED && !strcmp(found->node, settings->node_name);
}

/* A failure about a missing file or credential is excused if an image may get the file later, if
 * only the service can read the credential, or if this machine has joined and stays as it is: its
 * token may have been discarded. */
static bool is_excused(const struct nb_setup *setup, const struct nb_settings *settings,
                       enum nb_code code) {
        if (code == NB_TOKEN_MISSING)
                return setup->root || setup->has_unknown_secret ||
                       (!setup->is_changed && !nb_machine_is_joining(&setup->state)) ||
                       is_named_copy(setup, settings);
        return setup->root &&
               (code == NB_DISCOVERY_FILE_UNREADABLE || code == NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
}

static int verify_bootstrap(const struct nb_setup *setup, struct nb_load *load,
                            struct nb_failure *f) {
        char node_name[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_load_bootstrap(load, f);
        if (r >= 0)
                r = nb_bootstrap_verify(&load->bootstrap, &load->settings, f);
        if (r < 0 && is_excused(setup, &load->settings, f->code)) {
                nb_failure_clear(f);
                return 0;
        }
        /* An image gets its host name later, and metadata can name the node. */
        if (r < 0 || setup->root || load->settings.metadata_node_name || load->is_metadata_wanted)
                return r;
        r = nb_load_node_name(&load->settings, "", node_name, f);
        /* The join waits for it. */
        if (r < 0 && f->code == NB_HOST_NAME_UNSET) {
                nb_failure_clear(f);
                return 0;
        }
        return r;
}

int nb_setup_plan(struct nb_setup *setup, struct nb_failure *f) {
        _cleanup_(nb_load_done) struct nb_load load = NB_LOAD_INIT;
        int r;

        if (put_document(setup) < 0)
                return nb_failure_set_memory(f);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                setup->has_new_secret = setup->has_new_secret || setup->secrets[i].data;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                r = plan_secret(setup, i, f);
                if (r < 0)
                        return r;
        }
        r = verify_drop_ins(setup, f);
        if (r < 0)
                return r;
        r = nb_load_settings(&load, &setup->sources, f);
        if (r < 0)
                return r;
        for (unsigned i = 0; i < _NB_SETTING_N; i++) {
                r = plan_setting(setup, &load.settings, i, f);
                if (r < 0)
                        return r;
        }
        setup->is_changed = setup->is_document_new || setup->n_steps > 0;
        r = nb_settings_verify(&load.settings, f);
        if (r < 0)
                return r;
        r = verify_bootstrap(setup, &load, f);
        if (r < 0)
                return r;
        setup->now = load.settings;
        return r;
}
