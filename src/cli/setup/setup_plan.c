/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "join/load.h"
#include "join_method/settings_documents.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/token.h"
#include "node_state/context.h"
#include "systemd/unit.h"

#define HEADER "# Written by `node-bootstrap setup`, which replaces it.\n"
#define DESCRIPTION_SIZE 128

static bool has_new_secret(const struct nb_setup_plan *plan) {
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (plan->secrets[i])
                        return true;
        return false;
}

/* `before` and `after` without a value are "(not set)". */
static int add_difference(struct nb_setup_plan *plan, const char *what, const char *before,
                          const char *after) {
        struct nb_setup_difference *difference = &plan->differences[plan->n_differences++];

        NB_TEXT_COPY(difference->what, what);
        difference->before = strdup(before ? before : "(not set)");
        difference->after = strdup(after ? after : "(not set)");
        return difference->before && difference->after ? 0 : -ENOMEM;
}

/* --- Settings --- */

static bool is_equal(const struct nb_settings *a, const struct nb_settings *b,
                     enum nb_setting key) {
        _cleanup_(nb_buffer_done) struct nb_buffer text_a = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX),
                                                   text_b = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        nb_setting_format(a, key, &text_a);
        nb_setting_format(b, key, &text_b);
        return text_a.error >= 0 && text_b.error >= 0 && !strcmp(text_a.data, text_b.data);
}

/* How a join reaches its cluster, in each join command. */
static bool is_of_cluster(enum nb_setting key) {
        return key == NB_SETTING_ENDPOINTS || key == NB_SETTING_CA_CERT_HASHES ||
               key == NB_SETTING_UNSAFE_SKIP_CA_VERIFICATION;
}

static bool has_endpoint(const struct nb_settings *settings, const struct nb_url *endpoint) {
        for (unsigned i = 0; i < settings->n_endpoints; i++)
                if (nb_url_is_equal(&settings->endpoints[i], endpoint))
                        return true;
        return false;
}

static bool is_key_in_force(const struct nb_settings *wanted, const struct nb_settings *found,
                            enum nb_setting key) {
        if (key == NB_SETTING_ENDPOINTS) {
                for (unsigned i = 0; i < wanted->n_endpoints; i++)
                        if (!has_endpoint(found, &wanted->endpoints[i]))
                                return false;
                return true;
        }
        if (key == NB_SETTING_CA_CERT_HASHES)
                return nb_pins_are_in(wanted->pins, wanted->n_pins, found->pins, found->n_pins);
        return is_equal(wanted, found, key);
}

bool nb_setup_is_in_force(const struct nb_settings *wanted, const struct nb_settings *found,
                          bool is_cluster_same) {
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                if (nb_setting_is_set(wanted, i) &&
                    !(is_cluster_same && is_of_cluster(i) && !nb_setting_is_set(found, i)) &&
                    !is_key_in_force(wanted, found, i))
                        return false;
        return true;
}

/* A machine that has joined keeps its settings if they have what is wanted. Those of --config are
 * all settings, so that one that is missing is a change. */
static int plan_document(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                         struct nb_setup_plan *plan) {
        struct nb_buffer *document = &plan->document;

        if (!wanted->has_settings ||
            (found->is_joined && !wanted->is_forced && !wanted->is_document &&
             plan->cluster != NB_SETUP_CLUSTER_OTHER &&
             nb_setup_is_in_force(&wanted->settings, &found->settings,
                                  plan->cluster == NB_SETUP_CLUSTER_SAME)))
                return 0;
        nb_buffer_append_string(document, HEADER);
        nb_settings_format(&wanted->settings, document);
        if (document->error < 0)
                return document->error;
        plan->is_document_new = found->document.len != document->len ||
                                memcmp(found->document.data, document->data, document->len) != 0;
        return 0;
}

/* A join command replaces the one of an earlier setup on a machine that has never joined. Somebody
 * else wrote the other files. */
static bool is_setting_kept(const struct nb_setup_wanted *wanted,
                            const struct nb_setup_found *found, const struct nb_setup_plan *plan,
                            enum nb_setting key) {
        return !found->has_never_joined || !has_new_secret(plan) ||
               !nb_setting_is_set(&wanted->settings, NB_SETTING_ENDPOINTS) ||
               (nb_setting_is_set(&found->settings, key) &&
                !nb_setting_is_from(&found->settings, key, found->path));
}

static int compare_setting(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                           enum nb_setting key, struct nb_setup_plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer before = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX),
                                                   after = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);
        const struct nb_settings *now = &found->settings, *new = &plan->settings;
        bool was_set = nb_setting_is_set(now, key);

        if (plan->document.len > 0 && nb_setting_is_set(&wanted->settings, key) &&
            !is_equal(&wanted->settings, new, key))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "%s on the command line is overridden by %s, which takes "
                                      "precedence",
                                      nb_setting_key(key), new->origin[key]);
        if (is_equal(now, new, key) ||
            (!was_set &&
             /* This only adds a file, where there is none. */
             (!found->document.data || (key == NB_SETTING_CONFIG_FROM && !found->is_joined))))
                return 0;
        if (was_set)
                nb_setting_format(now, key, &before);
        if (nb_setting_is_set(new, key))
                nb_setting_format(new, key, &after);
        plan->n_kept += is_setting_kept(wanted, found, plan, key);
        return add_difference(plan, nb_setting_key(key), before.data, after.data) < 0
                       ? nb_failure_set_memory(f)
                       : 0;
}

int nb_setup_compare_settings(const struct nb_setup_wanted *wanted,
                              const struct nb_setup_found *found, struct nb_setup_plan *plan,
                              struct nb_failure *f) {
        int r = 0;

        for (unsigned i = 0; i < _NB_SETTING_N && r >= 0; i++)
                r = compare_setting(wanted, found, i, plan, f);
        return r;
}

/* --- Credentials --- */

/* If there is a new credential, the others are removed: an old one could take precedence, or
 * conflict with the new one. Returns what the service will get; NULL: nothing, or it is encrypted.
 */
static const struct nb_secret *find_value(const struct nb_setup_found *found,
                                          const struct nb_setup_plan *plan,
                                          enum nb_credential secret) {
        const struct nb_setup_credential *credential = &found->credentials[secret];

        if (plan->secrets[secret])
                return plan->secrets[secret];
        if (credential->delivered.data)
                return &credential->delivered;
        return has_new_secret(plan) || !credential->stored.data ? NULL : &credential->stored;
}

/* Describes a credential by the ID of its token, or by its kind. */
static void describe_secret(const struct nb_secret *value, enum nb_credential secret,
                            char ret[static DESCRIPTION_SIZE]) {
        if (!value || !value->data)
                nb_text_copy(ret, DESCRIPTION_SIZE, "none");
        else if (secret > NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN)
                nb_text_copy(ret, DESCRIPTION_SIZE, "another document");
        else if (nb_token_verify(value->data, nb_token_trim(value->data, value->len)) >= 0)
                snprintf(ret, DESCRIPTION_SIZE, "token %.*s", NB_TOKEN_ID_LEN, value->data);
        else
                nb_text_copy(ret, DESCRIPTION_SIZE, "a token of another form");
}

static bool is_same(const struct nb_secret *stored, const struct nb_secret *new) {
        size_t len = nb_token_trim(stored->data, stored->len);

        return len == nb_token_trim(new->data, new->len) && !memcmp(stored->data, new->data, len);
}

int nb_setup_compare_secret(const struct nb_setup_found *found, enum nb_credential secret,
                            struct nb_setup_plan *plan, struct nb_failure *f) {
        const struct nb_setup_credential *credential = &found->credentials[secret];
        const struct nb_secret *new = plan->secrets[secret];
        const char *name = nb_credential_names[secret];
        char before[DESCRIPTION_SIZE] = "an encrypted value", after[DESCRIPTION_SIZE], what[64];
        bool has_new = has_new_secret(plan), is_damaged;
        int r = credential->r;

        /* The service did not start with it, and needs none. */
        if (plan->is_token_unneeded && secret <= NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN &&
            found->state.obstacle.code == NB_SERVICE_CREDENTIAL) {
                plan->steps[secret] = NB_SETUP_REMOVE;
                return 0;
        }
        if (new && credential->is_delivered)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "this machine was booted with a credential %s, which "
                                      "takes precedence over the one that setup would write; "
                                      "change it in the hypervisor or container manager, or "
                                      "override it with LoadCredential= in a drop-in; see EXAMPLES "
                                      "in node-bootstrap.service(8)",
                                      name);
        /* The service does not start with a directory, a broken link, a FIFO or a large file. */
        is_damaged = has_new && (r == -EBADF || r == -ELOOP || r == -EFBIG);
        if (r < 0 && r != -ENOENT && r != -EKEYREJECTED && !is_damaged)
                return nb_failure_set(f, NB_SETTINGS_UNREADABLE, r,
                                      "cannot read '" NB_SETUP_STORE "/%s': %m", name);
        if (!has_new && r == -EKEYREJECTED && !credential->delivered.data)
                plan->has_encrypted_secret = true;
        if (r == -ENOENT ? !new : new ? r >= 0 && is_same(&credential->stored, new) : !has_new)
                return 0;
        plan->steps[secret] = new ? NB_SETUP_WRITE : NB_SETUP_REMOVE;
        plan->is_changed = true;
        if (r == -ENOENT)
                return 0;
        if (r != -EKEYREJECTED)
                describe_secret(&credential->stored, secret, before);
        describe_secret(new, secret, after);
        if (!strcmp(before, after) && !strncmp(before, "token ", 6))
                snprintf(after, sizeof(after), "token %.*s, with another secret", NB_TOKEN_ID_LEN,
                         new->data);
        snprintf(what, sizeof(what), "credential %s", name);
        return add_difference(plan, what, before, after) < 0 ? nb_failure_set_memory(f) : 0;
}

/* LoadCredentialEncrypted= also searches the stores of plain text, and fails to decrypt what it
 * finds there. */
static int verify_drop_ins(const struct nb_setup_plan *plan, struct nb_failure *f) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };
        struct nb_failure ignored = { 0 };

        if (!nb_systemd_is_running() || nb_unit_read(NB_SERVICE_UNIT, &unit, &ignored) < 0)
                return 0;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                if (plan->steps[i] == NB_SETUP_WRITE &&
                    nb_unit_has(&unit, NB_UNIT_ENCRYPTED, nb_credential_names[i]))
                        return nb_failure_set(
                                f, NB_USAGE, 0,
                                "a drop-in with LoadCredentialEncrypted=%s accepts no plain text, "
                                "which setup would write: remove the line from the file that "
                                "`systemctl cat " NB_SERVICE_UNIT
                                "` shows, run `systemctl daemon-reload`, and run the same command "
                                "again",
                                nb_credential_names[i]);
        return 0;
}

/* --- The cluster of the last join --- */

/* A hash in a k3s token that differs proves nothing: it covers all CAs together, and the CA file
 * may have only some of them. */
static enum nb_setup_cluster find_cluster(const struct nb_setup_wanted *wanted,
                                          const struct nb_certificates *ca) {
        _cleanup_(nb_k3s_token_done) struct nb_k3s_token k3s = { .identity = NB_IDENTITY_INIT };
        const struct nb_secret *token = &wanted->secrets[NB_CREDENTIAL_TOKEN];
        const struct nb_settings *settings = &wanted->settings;

        if (!ca)
                return NB_SETUP_CLUSTER_UNPROVEN;
        if (settings->n_pins == 0)
                return token->data &&
                                       nb_k3s_token_parse(token->data, token->len, "setup", &k3s) >=
                                               0 &&
                                       k3s.has_hash && nb_ca_has_k3s_hash(ca, k3s.hash)
                               ? NB_SETUP_CLUSTER_SAME
                               : NB_SETUP_CLUSTER_UNPROVEN;
        return nb_ca_has_pin(ca, settings->pins, settings->n_pins) ? NB_SETUP_CLUSTER_SAME
                                                                   : NB_SETUP_CLUSTER_OTHER;
}

/* Whether the next start of the service joins with the settings and credentials of the plan. */
static bool does_join(struct nb_setup_found *found) {
        _cleanup_(nb_context_done) struct nb_context context = { 0 };
        struct nb_node node = found->state.node; /* borrows */
        struct nb_failure ignored = { 0 };

        if (!found->is_joined || nb_context_load(&context, -1, &found->sources, &ignored) < 0)
                return true;
        nb_node_apply_settings(&node, &context);
        return nb_node_state_has_fallback(node.inspection.state);
}

/* Documents are settings of a kind, and compared as they are. */
static bool is_token_unneeded(const struct nb_setup_wanted *wanted,
                              const struct nb_setup_found *found,
                              const struct nb_setup_plan *plan) {
        return !wanted->is_forced && found->state.node.present.ca &&
               (plan->cluster == NB_SETUP_CLUSTER_SAME ||
                (plan->cluster == NB_SETUP_CLUSTER_UNPROVEN && !plan->is_document_new)) &&
               plan->secrets[NB_CREDENTIAL_TOKEN] && !plan->secrets[NB_CREDENTIAL_KUBECONFIG] &&
               !plan->secrets[NB_CREDENTIAL_CLUSTER_INFO];
}

/* --- Whether `join` could begin with the result --- */

/* A failure about a missing value is excused if an image may get it later, if only the service can
 * read the credential, if this machine stays joined, since its token may have been discarded and
 * somebody else may have joined it, or if it takes over the name of the machine that it is a copy
 * of. */
static bool is_excused(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                       const struct nb_setup_plan *plan, bool joins, enum nb_code code) {
        const struct nb_inspection *inspection = &found->state.node.inspection;

        if (code == NB_TOKEN_MISSING)
                return wanted->root || plan->has_encrypted_secret ||
                       (!joins && plan->cluster != NB_SETUP_CLUSTER_OTHER) ||
                       (inspection->state == NB_NODE_STATE_COPIED &&
                        !strcmp(inspection->node, plan->settings.node_name));
        if (code == NB_SETTINGS_INCOMPLETE)
                return !joins && !plan->is_changed;
        return wanted->root &&
               (code == NB_DISCOVERY_FILE_UNREADABLE || code == NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
}

static int verify_bootstrap(const struct nb_setup_wanted *wanted,
                            const struct nb_setup_found *found, const struct nb_setup_plan *plan,
                            bool joins, struct nb_load *load, struct nb_failure *f) {
        char node_name[NB_NODE_NAME_MAX + 1];
        int r;

        r = nb_load_bootstrap(load, f);
        if (r >= 0)
                r = nb_bootstrap_verify(&load->bootstrap, &load->settings, f);
        if (r < 0 && is_excused(wanted, found, plan, joins, f->code)) {
                nb_failure_clear(f);
                return 0;
        }
        /* An image gets its host name later, and metadata can name the node. */
        if (r < 0 || wanted->root || load->settings.metadata_node_name || load->is_metadata_wanted)
                return r;
        r = nb_load_node_name(&load->settings, "", node_name, f);
        /* The join waits for it. */
        if (r < 0 && f->code == NB_HOST_NAME_UNSET) {
                nb_failure_clear(f);
                return 0;
        }
        return r;
}

/* --- The whole --- */

/* Gives the sources what the service will get. */
static int put_result(struct nb_setup_found *found, const struct nb_setup_plan *plan) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = 0;

        if (plan->document.len > 0)
                r = nb_secret_copy(&text, plan->document.data, plan->document.len);
        if (r >= 0 && plan->document.len > 0)
                r = nb_sources_put(&found->sources, NB_SOURCE_FILE, found->path, 0644, &text);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N && r >= 0; i++)
                r = nb_sources_put(&found->sources, NB_SOURCE_CREDENTIAL, nb_credential_names[i],
                                   0400, find_value(found, plan, i));
        return r;
}

/* Without --force: a new token replaces one with which this machine waits, or with which it joined,
 * since it is needed again. Other settings only if they are proven to be those of the same cluster,
 * or if this machine has never joined. */
static int refuse_conflict(const struct nb_setup_wanted *wanted, const struct nb_setup_found *found,
                           const struct nb_setup_plan *plan, struct nb_failure *f) {
        bool is_one = plan->n_differences == 1,
             is_proven = plan->cluster == NB_SETUP_CLUSTER_SAME &&
                         plan->secrets[NB_CREDENTIAL_TOKEN],
             is_replaceable = !wanted->root && !found->is_joined &&
                              (is_proven || plan->n_kept == 0);

        if (wanted->is_forced)
                return 0;
        if (plan->cluster == NB_SETUP_CLUSTER_OTHER)
                return nb_failure_set(f, NB_SETUP_OTHER_CLUSTER, 0,
                                      "this machine has joined another cluster");
        if (plan->n_differences == 0 || is_replaceable)
                return 0;
        return nb_failure_set(f, NB_SETUP_CONFLICT, 0,
                              "%u setting%s from this machine's; use --force to replace %s",
                              plan->n_differences, is_one ? " differs" : "s differ",
                              is_one ? "it" : "them");
}

static bool is_argument(enum nb_setting key) {
        return key == NB_SETTING_TAINTS || key == NB_SETTING_CRI_SOCKET ||
               key == NB_SETTING_EXTRA_ARGS || key == NB_SETTING_PROVIDER_ID;
}

static void explain(const struct nb_setup_found *found, bool joins, struct nb_setup_plan *plan) {
        const struct nb_present *present = &found->state.node.present;

        /* Values of a refused document were not in force. */
        plan->is_start_due = found->are_settings_refused;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                plan->is_start_due |= plan->steps[i] != NB_SETUP_KEEP;
        for (unsigned i = 0; i < _NB_SETTING_N; i++)
                plan->is_start_due |= (joins || !present->has_record || !is_argument(i)) &&
                                      !is_equal(&found->settings, &plan->settings, i);
        /* Only the service knows the settings in an encrypted credential. */
        if (!joins && present->has_record &&
            !nb_sources_is_sealed(&found->sources, NB_CREDENTIAL_CONFIG_NAME))
                plan->is_flags_file_due = nb_setup_explain(
                        &present->record, found->flags.data ? found->flags.data : "",
                        &plan->settings, &plan->effects);
}

int nb_setup_plan(const struct nb_setup_wanted *wanted, struct nb_setup_found *found,
                  struct nb_setup_plan *plan, struct nb_failure *f) {
        _cleanup_(nb_load_done) struct nb_load load = NB_LOAD_INIT;
        bool joins;
        int r;

        plan->cluster = find_cluster(wanted, found->state.node.present.ca);
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++)
                plan->secrets[i] = wanted->secrets[i].data ? &wanted->secrets[i] : NULL;
        if (plan_document(wanted, found, plan) < 0 || put_result(found, plan) < 0)
                return nb_failure_set_memory(f);
        joins = does_join(found);
        plan->is_token_unneeded = !joins && is_token_unneeded(wanted, found, plan);
        if (plan->is_token_unneeded) {
                memset(plan->secrets, 0, sizeof(plan->secrets));
                if (put_result(found, plan) < 0)
                        return nb_failure_set_memory(f);
        }
        plan->is_changed = plan->is_document_new;
        for (unsigned i = 0; i < _NB_SETUP_SECRET_N; i++) {
                r = nb_setup_compare_secret(found, i, plan, f);
                if (r < 0)
                        return r;
        }
        r = wanted->root ? 0 : verify_drop_ins(plan, f);
        if (r >= 0)
                r = nb_load_settings(&load, &found->sources, f);
        if (r < 0)
                return r;
        plan->settings = load.settings;
        r = nb_setup_compare_settings(wanted, found, plan, f);
        if (r >= 0)
                r = nb_settings_verify(&load.settings, f);
        if (r >= 0)
                r = verify_bootstrap(wanted, found, plan, joins, &load, f);
        if (r < 0)
                return r;
        plan->settings = load.settings;
        if (found->is_joined)
                explain(found, joins, plan);
        return refuse_conflict(wanted, found, plan, f);
}

void nb_setup_plan_done(struct nb_setup_plan *plan) {
        for (unsigned i = 0; i < plan->n_differences; i++) {
                free(plan->differences[i].before);
                free(plan->differences[i].after);
        }
        nb_buffer_done(&plan->document);
        nb_buffer_done(&plan->effects);
}
