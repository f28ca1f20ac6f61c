/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "kube/kubeconfig.h"
#include "node/present.h"
#include "system/clock.h"

#define PEM_FILE_MAX (256 * 1024)
#define PATH_SIZE 4096

/* Records why the machine is in this state; install has not failed. */
#define CONCLUDE(why, state, ...) \
        ({ \
                (void)nb_failure_set((why), NB_JOINING_AGAIN, __VA_ARGS__); \
                (state); \
        })

/* --- Reading --- */

/* A relative path in a kubeconfig is relative to its folder (clientcmd ResolveLocalPaths). */
static int resolve_path(const struct nb_context *context, const char *path,
                        char ret[static PATH_SIZE]) {
        const char *kubeconfig = context->settings.kubeconfig, *slash = strrchr(kubeconfig, '/');
        int folder_len = path[0] == '/' ? 0 : (int)(slash + 1 - kubeconfig);

        return snprintf(ret, PATH_SIZE, "%.*s%s", folder_len, kubeconfig, path) >= PATH_SIZE
                       ? -ENAMETOOLONG
                       : 0;
}

static int read_file(const struct nb_context *context, const char *file, struct nb_secret *ret) {
        char path[PATH_SIZE];
        int r = resolve_path(context, file, path);

        return r < 0 ? r : nb_path_read(context->root_fd, path, PEM_FILE_MAX, ret);
}

/* Certificate and key are usually in one file. Each may also be embedded, which takes precedence
 * (clientcmd). -ENOMEM. */
static int read_client(const struct nb_context *context, struct nb_kubeconfig_client *client,
                       bool is_key, struct nb_present *present) {
        struct nb_secret *pem = is_key ? &client->key : &client->certificate;
        const char *file = is_key ? client->key_file : client->certificate_file,
                   *origin = pem->data || !file ? context->settings.kubeconfig : file;
        int r = pem->data || !file ? 0 : read_file(context, file, pem);

        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                present->state = r == -EBADF
                                         ? CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, r,
                                                    "'%s' is not a regular file", file)
                                         : CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, r,
                                                    "cannot read '%s', named in the kubeconfig: %m",
                                                    file);
                return 0;
        }
        if (!pem->data)
                r = -ENOENT;
        else if (is_key)
                r = nb_key_import(pem->data, pem->len, &present->key);
        else
                r = nb_certificates_parse(pem->data, pem->len, true, &present->chain);
        if (r < 0 && r != -ENOMEM && !(is_key && r == -ENOTSUP))
                present->state = CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, r,
                                          "'%s' has no valid %s", origin,
                                          is_key ? "private key" : "client certificate");
        return r == -ENOMEM ? r : 0;
}

static int read_ca(const struct nb_context *context, const struct nb_kubeconfig_client *client,
                   struct nb_present *present) {
        const char *file = client->ca_file ? client->ca_file : context->settings.ca_file;
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        int r;

        r = read_file(context, file, &ca);
        if (r < 0)
                return r;
        return nb_certificates_parse(ca.data, ca.len, true, &present->ca);
}

/* A machine that was copied file by file has a file here. kubelet loads it and refuses to renew
 * it. */
static bool is_current_a_file(const struct nb_context *context,
                              const struct nb_kubeconfig_client *client) {
        char path[PATH_SIZE], current[PATH_SIZE];
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        snprintf(current, sizeof(current), "%s/" NB_STORE_CURRENT,
                 context->settings.certificate_directory);
        if (!client->certificate_file ||
            resolve_path(context, client->certificate_file, path) < 0 || strcmp(path, current) != 0)
                return false;
        fd = nb_path_open(context->root_fd, current, O_PATH | O_NOFOLLOW);
        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int read_kubeconfig(const struct nb_context *context, struct nb_present *present,
                           struct nb_kubeconfig_client *ret_client, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = context->settings.kubeconfig;
        int r;

        r = nb_path_read(context->root_fd, path, NB_KUBECONFIG_MAX, &text);
        if (r >= 0)
                return nb_kubeconfig_parse_client(path, text.data, text.len, ret_client, f);
        if (r == -EBADF || r == -EFBIG)
                return nb_failure_set(f, NB_TARGET_NOT_KUBECONFIG, r,
                                      "'%s' is not a regular file of at most %d bytes; expected a "
                                      "kubeconfig or nothing",
                                      path, NB_KUBECONFIG_MAX);
        if (r == -ENOMEM)
                return r;
        present->state = r == -ENOENT ? CONCLUDE(&present->why, NB_NODE_STATE_ABSENT, r,
                                                 "kubeconfig '%s' does not exist", path)
                                      : CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, r,
                                                 "cannot read '%s': %m", path);
        return 0;
}

/* Reads certificate, key, CA and record, with what the kubeconfig names. */
static int read_named(const struct nb_context *context, struct nb_kubeconfig_client *client,
                      struct nb_present *present) {
        bool is_embedded = client->certificate.data;
        int r;

        r = read_client(context, client, false, present);
        if (r < 0 || present->state != NB_NODE_STATE_USABLE)
                return r;
        r = read_client(context, client, true, present);
        if (r < 0 || present->state != NB_NODE_STATE_USABLE)
                return r;
        /* A CA file that cannot be read does not identify the cluster. */
        r = read_ca(context, client, present);
        if (r == -ENOMEM)
                return r;
        r = nb_context_read_record(context, &present->record);
        if (r < 0)
                return r;
        present->has_record = r > 0;
        present->is_file = !is_embedded && is_current_a_file(context, client);
        return 0;
}

/* A join writes the record before the link. If it was interrupted in between, the link is that of
 * an earlier join, maybe to another cluster than the record names. A renewed certificate is newer
 * than the recorded one. */
static bool is_older_than_record(const struct nb_context *context,
                                 const struct nb_present *present) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_certificates_freep) struct nb_certificates *recorded = NULL;

        return present->has_record && present->chain &&
               read_file(context, present->record.certificate, &pem) >= 0 &&
               nb_certificates_parse(pem.data, pem.len, true, &recorded) >= 0 &&
               nb_certificate_not_before(present->chain, 0) <
                       nb_certificate_not_before(recorded, 0);
}

/* The kubeconfig names no certificate that can be read: looks into kubelet's store, where the join
 * and kubelet's own rotation put it. Keeps state and reason. */
static int read_store(const struct nb_context *context, struct nb_present *present) {
        char current[PATH_SIZE];
        struct nb_kubeconfig_client client = { .certificate = NB_SECRET_INIT,
                                               .key = NB_SECRET_INIT,
                                               .certificate_file = current,
                                               .key_file = current };
        const enum nb_node_state state = present->state;
        const struct nb_failure why = present->why;
        int r;

        nb_present_done(present);
        present->state = NB_NODE_STATE_USABLE;
        snprintf(current, sizeof(current), "%s/" NB_STORE_CURRENT,
                 context->settings.certificate_directory);
        r = read_named(context, &client, present);
        nb_kubeconfig_client_done(&client);
        if (r < 0)
                return r;
        if (present->state != NB_NODE_STATE_USABLE || present->is_file ||
            is_older_than_record(context, present)) {
                nb_certificates_free(present->chain);
                present->chain = NULL;
        }
        present->state = state;
        present->why = why;
        return 0;
}

static int read_all(const struct nb_context *context, struct nb_present *present,
                    struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        bool is_damaged;
        int r;

        r = read_kubeconfig(context, present, &client, f);
        is_damaged = r == -EBADMSG;
        if (is_damaged)
                present->state = CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, 0,
                                          "'%s' is damaged: it is no kubeconfig",
                                          context->settings.kubeconfig);
        else if (r >= 0 && present->state == NB_NODE_STATE_USABLE)
                r = read_named(context, &client, present);
        if ((r < 0 && !is_damaged) || present->state == NB_NODE_STATE_USABLE)
                return r;
        r = read_store(context, present);
        if (r < 0 || !is_damaged)
                return r;
        /* Any other file may have been put there by mistake in the settings. */
        if (!present->has_record ||
            strcmp(present->record.kubeconfig, context->settings.kubeconfig) != 0)
                return -EBADMSG;
        nb_failure_clear(f);
        return 0;
}

int nb_present_read(const struct nb_context *context, struct nb_present *present,
                    struct nb_failure *f) {
        int r;

        *present = (struct nb_present){ .state = NB_NODE_STATE_USABLE };
        r = read_all(context, present, f);
        return r == -ENOMEM ? nb_failure_set_memory(f) : r;
}

void nb_present_done(struct nb_present *present) {
        nb_certificates_free(present->chain);
        nb_certificates_free(present->ca);
        nb_key_free(present->key);
        *present = (struct nb_present){ 0 };
}

/* --- Classifying --- */

bool nb_node_state_is_joined(enum nb_node_state state) {
        return state == NB_NODE_STATE_USABLE || state == NB_NODE_STATE_NOT_YET_VALID;
}

bool nb_present_is_mendable(const struct nb_present *present) {
        const struct nb_record *record = &present->record;

        return present->has_record && record->kubeconfig[0] &&
               (present->ca || record->n_ca_hashes == 0);
}

/* The expiry of the certificate that expires first. */
static time_t find_chain_end(const struct nb_certificates *chain) {
        time_t end = nb_certificate_not_after(chain, 0);

        for (size_t i = 1; i < nb_certificates_count(chain); i++)
                if (nb_certificate_not_after(chain, i) < end)
                        end = nb_certificate_not_after(chain, i);
        return end;
}

/* Whether the CA file can be compared with the configured hashes, and matches none of them. */
static bool does_ca_differ(const struct nb_present *present,
                           const struct nb_cluster_identity *identity) {
        if (!present->ca)
                return false;
        /* A k3s hash is of the whole /cacerts answer, while a CA file that was selected by pins
         * may have only a part of it. */
        if (identity->is_k3s_hash)
                return nb_record_has_k3s_hash(&present->record) &&
                       !nb_ca_has_k3s_hash(present->ca, identity->pins[0]);
        for (size_t i = 0; i < nb_certificates_count(present->ca); i++)
                if (nb_pins_contain(identity->pins, identity->n_pins,
                                    nb_certificate_pin(present->ca, i)))
                        return false;
        return true;
}

/*
 * Another cluster was configured only if the pins differ from those of the last join and match
 * nothing in the CA file. A rotated CA, a missing record or an unreadable CA file must not take a
 * healthy node down.
 */
static bool is_other_cluster(const struct nb_present *present,
                             const struct nb_cluster_identity *identity) {
        return present->has_record && identity->n_pins > 0 &&
               !nb_cluster_identity_is_recorded(identity, &present->record) &&
               does_ca_differ(present, identity);
}

static enum nb_node_state classify_chain(const struct nb_present *present,
                                         const struct nb_context *context, struct nb_failure *why) {
        char text[NB_SUBJECT_SIZE], at[NB_RFC3339_SIZE], clock[NB_RFC3339_SIZE];
        const struct nb_certificates *chain = present->chain;
        time_t end = find_chain_end(chain), begin = nb_certificate_not_before(chain, 0);

        nb_time_format(context->now, clock);
        nb_time_format(begin > context->now ? begin : end, at);
        if (present->key && nb_certificate_verify_key(chain, present->key) < 0)
                return CONCLUDE(why, NB_NODE_STATE_UNREADABLE, 0,
                                "the client certificate does not match its key");
        if (!nb_certificate_is_for_node(chain, context->node_name, false)) {
                nb_certificate_subject(chain, 0, text);
                return CONCLUDE(why, NB_NODE_STATE_OTHER_NODE, 0,
                                "the client certificate is for '%.160s'; expected node '%s'", text,
                                context->node_name);
        }
        if (end < context->now)
                return CONCLUDE(why, NB_NODE_STATE_EXPIRED, 0,
                                "the client certificate expired at %s; this machine's clock says "
                                "%s",
                                at, clock);
        if (is_other_cluster(present, &context->identity))
                return CONCLUDE(why, NB_NODE_STATE_OTHER_CLUSTER, 0,
                                "%s changed since the last join (%s) and matches no certificate in "
                                "the CA file",
                                context->identity.name, present->record.joined_at);
        if (present->is_file)
                return CONCLUDE(why, NB_NODE_STATE_NOT_ROTATABLE, 0,
                                "'%s/" NB_STORE_CURRENT
                                "' is a file; expected a link, which kubelet needs to renew the "
                                "certificate",
                                context->settings.certificate_directory);
        if (begin > context->now)
                return CONCLUDE(why, NB_NODE_STATE_NOT_YET_VALID, 0,
                                "the client certificate is valid from %s; this machine's clock "
                                "says %s",
                                at, clock);
        return CONCLUDE(why, NB_NODE_STATE_USABLE, 0,
                        "the client certificate is for this node and valid until %s", at);
}

void nb_present_classify(const struct nb_present *present, const struct nb_context *context,
                         struct nb_inspection *ret_inspection) {
        struct nb_inspection inspection = { .state = present->state };
        struct nb_failure why = present->why, judged = { 0 };

        if (present->chain) {
                inspection.state = classify_chain(present, context, &judged);
                nb_time_format(nb_certificate_not_after(present->chain, 0), inspection.not_after);
        }
        if (present->state == NB_NODE_STATE_USABLE) {
                why = judged;
        } else if (nb_node_state_is_joined(inspection.state)) {
                inspection.state = NB_NODE_STATE_WITHOUT_KUBECONFIG;
                nb_failure_add(&why, ", but there is a certificate for this node, valid until %s",
                               inspection.not_after);
        } else {
                inspection.state = present->state;
                inspection.not_after[0] = '\0';
        }
        inspection.fallback = inspection.state == NB_NODE_STATE_OTHER_CLUSTER ||
                              inspection.state == NB_NODE_STATE_NOT_ROTATABLE;
        memcpy(inspection.node, context->node_name, sizeof(inspection.node));
        memcpy(inspection.detail, why.detail, sizeof(inspection.detail));
        *ret_inspection = inspection;
}

/* --- The whole --- */

bool nb_inspection_is_kept(const struct nb_inspection *inspection) {
        return nb_node_state_is_joined(inspection->state) || inspection->fallback;
}

/* With a context that is loaded or salvaged. */
static int inspect(struct nb_node *node, struct nb_failure *f) {
        struct nb_context *context = &node->context;
        char name[NB_CERTIFICATE_NODE_SIZE];
        int r = nb_present_read(context, &node->present, f);

        if (r < 0)
                return r;
        if (!context->node_name[0] && node->present.chain) {
                nb_certificate_node_name(node->present.chain, name);
                (void)nb_node_name_parse(name, strlen(name), context->node_name);
        }
        nb_present_classify(&node->present, context, &node->inspection);
        return 0;
}

int nb_node_inspect(int root_fd, struct nb_sources *sources, bool are_settings_hidden,
                    struct nb_node *ret_node, struct nb_failure *f) {
        struct nb_failure settings = { 0 };
        bool is_loaded;
        int r;

        *ret_node = (struct nb_node){ 0 };
        is_loaded = nb_context_load(&ret_node->context, root_fd, sources, &settings) >= 0;
        if (is_loaded) {
                r = inspect(ret_node, f);
                if (!are_settings_hidden ||
                    (r >= 0 && nb_inspection_is_kept(&ret_node->inspection)))
                        return r;
        }
        for (unsigned is_by_record = is_loaded;; is_by_record++) {
                nb_node_done(ret_node);
                nb_failure_clear(f);
                ret_node->settings = settings;
                nb_context_salvage(&ret_node->context, root_fd, sources, is_by_record);
                r = inspect(ret_node, f);
                if (is_by_record || (r >= 0 && nb_inspection_is_kept(&ret_node->inspection)))
                        return r;
        }
}

int nb_node_inspect_disk(int root_fd, struct nb_node *ret_node, struct nb_failure *f) {
        *ret_node = (struct nb_node){ 0 };
        nb_context_salvage(&ret_node->context, root_fd, NULL, true);
        return inspect(ret_node, f);
}

void nb_node_done(struct nb_node *node) {
        nb_context_done(&node->context);
        nb_present_done(&node->present);
}
