/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "kube_objects/kubeconfig.h"
#include "node_state/machine_facts.h"
#include "node_state/present.h"
#include "os/clock.h"

#define PEM_FILE_MAX (256 * 1024)
#define PATH_SIZE 4096

/* Records why the machine is in this state; install has not failed. */
#define CONCLUDE(why, state, ...) \
        ({ \
                (void)nb_failure_set((why), NB_JOINING_AGAIN, __VA_ARGS__); \
                (state); \
        })

/* --- Reading --- */

struct place {
        int root_fd;
        const struct nb_kubelet_paths *paths;
};

/* A relative path in a kubeconfig is relative to its folder (clientcmd ResolveLocalPaths). */
static int resolve_path(const struct place *place, const char *path, char ret[static PATH_SIZE]) {
        const char *kubeconfig = place->paths->kubeconfig, *slash = strrchr(kubeconfig, '/');
        int folder_len = path[0] == '/' ? 0 : (int)(slash + 1 - kubeconfig);

        return snprintf(ret, PATH_SIZE, "%.*s%s", folder_len, kubeconfig, path) >= PATH_SIZE
                       ? -ENAMETOOLONG
                       : 0;
}

static int read_file(const struct place *place, const char *file, struct nb_secret *ret) {
        char path[PATH_SIZE];
        int r = resolve_path(place, file, path);

        return r < 0 ? r : nb_path_read(place->root_fd, path, PEM_FILE_MAX, ret);
}

/* Certificate and key are usually in one file. Each may also be embedded, which takes precedence
 * (clientcmd). -ENOMEM. */
static int read_client(const struct place *place, struct nb_kubeconfig_client *client, bool is_key,
                       struct nb_present *present) {
        struct nb_secret *pem = is_key ? &client->key : &client->certificate;
        const char *file = is_key ? client->key_file : client->certificate_file,
                   *origin = pem->data || !file ? place->paths->kubeconfig : file;
        int r = pem->data || !file ? 0 : read_file(place, file, pem);

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

static int read_ca(const struct place *place, const struct nb_kubeconfig_client *client,
                   struct nb_present *present) {
        const char *file = client->ca_file ? client->ca_file : place->paths->ca_file;
        _cleanup_(nb_secret_done) struct nb_secret ca = NB_SECRET_INIT;
        int r;

        r = read_file(place, file, &ca);
        if (r < 0)
                return r;
        return nb_certificates_parse(ca.data, ca.len, true, &present->ca);
}

/* A machine that was copied file by file has a file here. kubelet loads it and refuses to renew
 * it. */
static bool is_current_a_file(const struct place *place,
                              const struct nb_kubeconfig_client *client) {
        char path[PATH_SIZE], current[PATH_SIZE];
        _cleanup_(nb_closep) int fd = -1;
        struct stat st;

        snprintf(current, sizeof(current), "%s/" NB_STORE_CURRENT,
                 place->paths->certificate_directory);
        if (!client->certificate_file || resolve_path(place, client->certificate_file, path) < 0 ||
            strcmp(path, current) != 0)
                return false;
        fd = nb_path_open(place->root_fd, current, O_PATH | O_NOFOLLOW);
        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static int read_kubeconfig(const struct place *place, struct nb_present *present,
                           struct nb_kubeconfig_client *ret_client, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        const char *path = place->paths->kubeconfig;
        int r;

        r = nb_path_read(place->root_fd, path, NB_KUBECONFIG_MAX, &text);
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

/* Reads certificate, key and CA, with what the kubeconfig names. */
static int read_named(const struct place *place, struct nb_kubeconfig_client *client,
                      struct nb_present *present) {
        bool is_embedded = client->certificate.data;
        int r;

        r = read_client(place, client, false, present);
        if (r < 0 || present->state != NB_NODE_STATE_USABLE)
                return r;
        r = read_client(place, client, true, present);
        if (r < 0 || present->state != NB_NODE_STATE_USABLE)
                return r;
        /* A CA file that cannot be read does not identify the cluster. */
        r = read_ca(place, client, present);
        if (r == -ENOMEM)
                return r;
        /* One that is too large for us is left to kubelet. */
        present->is_ca_lost = (r == -ENOENT || r == -EINVAL) && present->has_record &&
                              present->record.ca && client->ca_file &&
                              !strcmp(client->ca_file, place->paths->ca_file);
        present->is_file = !is_embedded && is_current_a_file(place, client);
        return 0;
}

/* A join writes the record before the link. If it was interrupted in between, the link is that of
 * an earlier join, maybe to another cluster than the record names. A renewed certificate is newer
 * than the recorded one. */
static bool is_older_than_record(const struct place *place, const struct nb_present *present) {
        _cleanup_(nb_secret_done) struct nb_secret pem = NB_SECRET_INIT;
        _cleanup_(nb_certificates_freep) struct nb_certificates *recorded = NULL;

        return present->has_record && present->chain &&
               read_file(place, present->record.certificate, &pem) >= 0 &&
               nb_certificates_parse(pem.data, pem.len, true, &recorded) >= 0 &&
               nb_certificate_not_before(present->chain, 0) <
                       nb_certificate_not_before(recorded, 0);
}

static void drop_files(struct nb_present *present) {
        nb_certificates_free(TAKE(present->chain));
        nb_certificates_free(TAKE(present->ca));
        nb_key_free(TAKE(present->key));
        present->is_file = false;
}

/* The kubeconfig names no certificate that can be read: looks into kubelet's store, where the join
 * and kubelet's own rotation put it. If the link is lost, the record names the file of the join.
 * Keeps state and reason. */
static int read_store(const struct place *place, struct nb_present *present) {
        char current[PATH_SIZE];
        char *const files[] = { current, present->has_record ? present->record.certificate : NULL };
        const enum nb_node_state state = present->state;
        const struct nb_failure why = present->why;
        int r = 0;

        snprintf(current, sizeof(current), "%s/" NB_STORE_CURRENT,
                 place->paths->certificate_directory);
        drop_files(present);
        for (size_t i = 0; i < N_ELEMENTS(files) && r >= 0; i++) {
                struct nb_kubeconfig_client client = { .certificate = NB_SECRET_INIT,
                                                       .key = NB_SECRET_INIT,
                                                       .certificate_file = files[i],
                                                       .key_file = files[i] };

                drop_files(present);
                present->state = NB_NODE_STATE_USABLE;
                present->is_link_lost = i > 0;
                r = read_named(place, &client, present);
                nb_kubeconfig_client_done(&client);
                if (present->state == NB_NODE_STATE_USABLE)
                        break;
        }
        if (present->state != NB_NODE_STATE_USABLE || present->is_file ||
            is_older_than_record(place, present))
                nb_certificates_free(TAKE(present->chain));
        present->state = state;
        present->why = why;
        return r;
}

static int read_all(const struct place *place, struct nb_present *present, struct nb_failure *f) {
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        bool is_damaged;
        int r;

        r = read_kubeconfig(place, present, &client, f);
        is_damaged = r == -EBADMSG;
        if (is_damaged)
                present->state = CONCLUDE(&present->why, NB_NODE_STATE_UNREADABLE, 0,
                                          "'%s' is damaged: it is no kubeconfig",
                                          place->paths->kubeconfig);
        else if (r >= 0 && present->state == NB_NODE_STATE_USABLE)
                r = read_named(place, &client, present);
        if ((r < 0 && !is_damaged) || present->state == NB_NODE_STATE_USABLE)
                return r;
        r = read_store(place, present);
        if (r < 0 || !is_damaged)
                return r;
        /* Any other file may have been put there by mistake in the settings. */
        if (!present->has_record ||
            strcmp(present->record.kubeconfig, place->paths->kubeconfig) != 0)
                return -EBADMSG;
        nb_failure_clear(f);
        return 0;
}

int nb_present_read(int root_fd, const struct nb_kubelet_paths *paths, struct nb_present *present,
                    struct nb_failure *f) {
        int r;

        memset(present, 0, offsetof(struct nb_present, record));
        present->state = NB_NODE_STATE_USABLE;
        r = nb_record_read(root_fd, paths->certificate_directory, &present->record,
                           &present->record_why);
        present->has_record = r > 0;
        if (!present->has_record)
                present->record = (struct nb_record){ .node = "" };
        if (r != -ENOMEM)
                r = read_all(&(struct place){ root_fd, paths }, present, f);
        return r == -ENOMEM ? nb_failure_set_memory(f) : r;
}

/* Does not clear the rest: the record is large. */
void nb_present_done(struct nb_present *present) {
        drop_files(present);
        nb_record_done(&present->record);
}

/* --- Classifying --- */

bool nb_node_state_is_joined(enum nb_node_state state) {
        return state == NB_NODE_STATE_USABLE || state == NB_NODE_STATE_NOT_YET_VALID;
}

bool nb_inspection_is_kept(const struct nb_inspection *inspection) {
        return nb_node_state_is_joined(inspection->state) ||
               nb_node_state_has_fallback(inspection->state);
}

/* The name in the certificate; without one, that in the record. */
static void find_name(const struct nb_node *node, char ret[static NB_NODE_NAME_MAX + 1]) {
        char name[NB_CERTIFICATE_NODE_SIZE] = "";

        ret[0] = '\0';
        if (node->present.chain)
                nb_certificate_node_name(node->present.chain, name);
        if (name[0])
                (void)nb_node_name_parse(name, strlen(name), ret);
        else if (node->present.has_record)
                memcpy(ret, node->present.record.node, sizeof(node->present.record.node));
}

static void compare_facts(const struct nb_node *node, struct nb_inspection *inspection) {
        const struct nb_record *record = &node->present.record;
        struct nb_facts then = record->facts;
        enum nb_likeness likeness = nb_facts_compare(&node->facts, &then);

        if (!node->present.has_record)
                return;
        inspection->is_copy = likeness == NB_LIKENESS_COPY;
        inspection->is_maybe_copy = likeness == NB_LIKENESS_UNKNOWN;
        if (inspection->is_copy)
                return;
        /* A name that the settings chose does not depend on the host name. */
        if (strcmp(record->node, then.host_name) != 0)
                then.host_name[0] = '\0';
        nb_facts_describe(&node->facts, &then, inspection->changed, sizeof(inspection->changed));
        inspection->is_renamed = node->facts.host_name[0] && then.host_name[0] &&
                                 strcmp(node->facts.host_name, then.host_name) != 0;
}

static enum nb_node_state classify_chain(const struct nb_node *node,
                                         const struct nb_inspection *inspection,
                                         struct nb_failure *why) {
        char text[NB_SUBJECT_SIZE], at[NB_RFC3339_SIZE], clock[NB_RFC3339_SIZE];
        const struct nb_certificates *chain = node->present.chain;
        const char *name = inspection->node;
        time_t end = nb_certificates_first_end(chain), begin = nb_certificate_not_before(chain, 0);

        nb_time_format(node->now, clock);
        nb_time_format(begin > node->now ? begin : end, at);
        if (node->present.key && nb_certificate_verify_key(chain, node->present.key) < 0)
                return CONCLUDE(why, NB_NODE_STATE_UNREADABLE, 0,
                                "the client certificate does not match its key");
        if (!name[0] || !nb_certificate_is_for_node(chain, name, false)) {
                nb_certificate_subject(chain, 0, text);
                return CONCLUDE(why, NB_NODE_STATE_UNREADABLE, 0,
                                "the client certificate is for '%.160s'; expected a node "
                                "(O=system:nodes,CN=system:node:NAME)",
                                text);
        }
        if (end < node->now)
                return CONCLUDE(why, NB_NODE_STATE_EXPIRED, 0,
                                "the client certificate expired at %s; this machine's clock says "
                                "%s",
                                at, clock);
        if (inspection->is_copy) {
                nb_facts_describe(&node->facts, &node->present.record.facts, text, sizeof(text));
                return CONCLUDE(why, NB_NODE_STATE_COPIED, 0,
                                "the client certificate is for node '%s', and this machine is a "
                                "copy of the one that joined: its %s differ",
                                name, text);
        }
        if (node->present.is_file)
                return CONCLUDE(why, NB_NODE_STATE_NOT_ROTATABLE, 0,
                                "'%s/" NB_STORE_CURRENT
                                "' is a file; expected a link, which kubelet needs to renew the "
                                "certificate",
                                node->paths.certificate_directory);
        if (begin > node->now)
                return CONCLUDE(why, NB_NODE_STATE_NOT_YET_VALID, 0,
                                "the client certificate is valid from %s; this machine's clock "
                                "says %s",
                                at, clock);
        return CONCLUDE(why, NB_NODE_STATE_USABLE, 0,
                        "the client certificate is for node '%s' and valid until %s", name, at);
}

void nb_node_classify(struct nb_node *node) {
        const struct nb_present *present = &node->present;
        struct nb_inspection inspection = { .state = present->state };
        struct nb_failure why = present->why, judged = { 0 };

        find_name(node, inspection.node);
        compare_facts(node, &inspection);
        if (present->chain) {
                inspection.state = classify_chain(node, &inspection, &judged);
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
        memcpy(inspection.detail, why.detail, sizeof(inspection.detail));
        node->inspection = inspection;
}

/* --- What the settings want --- */

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
        return !nb_ca_has_pin(present->ca, identity->pins, identity->n_pins);
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

void nb_node_apply_settings(struct nb_node *node, const struct nb_context *context) {
        const char *name = context->settings.node_name;
        struct nb_inspection *inspection = &node->inspection;
        struct nb_failure why = { 0 };

        if (!nb_inspection_is_kept(inspection))
                return;
        if (name[0] && strcmp(name, inspection->node) != 0)
                inspection->state = CONCLUDE(
                        &why, NB_NODE_STATE_OTHER_NODE, 0,
                        "the client certificate is for node '%s', and node.name in %s is "
                        "'%s'",
                        inspection->node, context->settings.origin[NB_SETTING_NODE_NAME], name);
        else if (is_other_cluster(&node->present, &context->identity))
                inspection->state = CONCLUDE(
                        &why, NB_NODE_STATE_OTHER_CLUSTER, 0,
                        "%s changed since the last join (%s) and matches no certificate "
                        "in the CA file",
                        context->identity.name, node->present.record.joined_at);
        else
                return;
        memcpy(inspection->detail, why.detail, sizeof(inspection->detail));
}

/* --- The whole --- */

static int inspect(struct nb_node *node, struct nb_failure *f) {
        int r;

        nb_present_done(&node->present);
        r = nb_present_read(node->root_fd, &node->paths, &node->present, f);
        if (r >= 0)
                nb_node_classify(node);
        return r;
}

/* Finds the paths, and the facts about this machine. -ENOMEM; NB_INTERNAL. */
static int begin(int root_fd, struct nb_node *ret_node, struct nb_failure *f) {
        int r;

        ret_node->root_fd = root_fd;
        ret_node->now = time(NULL);
        ret_node->inspection = (struct nb_inspection){ 0 };
        r = nb_kubelet_env_read_paths(root_fd, &ret_node->paths);
        if (r < 0)
                return nb_failure_set_memory(f);
        ret_node->is_env_current = r > 0;
        r = nb_facts_read(root_fd, &ret_node->facts);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot compute SHA-256: %m") : 0;
}

int nb_node_inspect_disk(int root_fd, struct nb_node *ret_node, struct nb_failure *f) {
        int r = begin(root_fd, ret_node, f);

        return r < 0 ? r : inspect(ret_node, f);
}

/* Whether the files are those of a join that lasts. */
static bool has_lasting_join(const struct nb_node *node) {
        return nb_inspection_is_kept(&node->inspection) ||
               node->inspection.state == NB_NODE_STATE_WITHOUT_KUBECONFIG;
}

/* The paths in the settings apply unless there is a lasting join at those in node-bootstrap.env. */
static int inspect_all(const struct nb_context *context, struct nb_node *node,
                       struct nb_failure *f) {
        const struct nb_kubelet_paths *wanted = &context->wanted_paths;
        int r = begin(context->root_fd, node, f);

        if (r < 0)
                return r;
        if (!node->is_env_current)
                node->paths = *wanted;
        r = inspect(node, f);
        if (nb_kubelet_paths_are_equal(&node->paths, wanted) || (r >= 0 && has_lasting_join(node)))
                return r;
        nb_failure_clear(f);
        node->paths = *wanted;
        node->is_env_current = false;
        return inspect(node, f);
}

const char *nb_node_fixed_name(const struct nb_node *node) {
        const struct nb_inspection *inspection = &node->inspection;

        return !inspection->is_copy && (node->present.has_record || has_lasting_join(node))
                       ? inspection->node
                       : "";
}

int nb_node_inspect(struct nb_context *context, struct nb_node *ret_node, struct nb_failure *f) {
        int r = inspect_all(context, ret_node, f);

        if (r < 0)
                return r;
        nb_kubelet_paths_set(&ret_node->paths, &context->settings);
        r = nb_context_choose_name(context, nb_node_fixed_name(ret_node), f);
        if (r < 0)
                return r;
        nb_node_apply_settings(ret_node, context);
        return 0;
}

static int write_record(const struct nb_node *node, const struct nb_record *record) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_closep) int fd = -1;
        int r = nb_state_file_format(&nb_record_file, record, &text);

        if (r < 0)
                return r;
        fd = nb_path_open(node->root_fd, node->paths.certificate_directory, O_RDONLY | O_DIRECTORY);
        return fd < 0 ? fd : nb_file_write(fd, NB_RECORD_FILE, 0644, text.data, text.len);
}

int nb_node_record_facts(const struct nb_node *node) {
        struct nb_record record = node->present.record; /* borrows the CA */

        (void)nb_facts_update(&node->facts, &record.facts);
        return write_record(node, &record);
}

int nb_node_record_renewal(const struct nb_node *node, enum nb_code code) {
        struct nb_record record = node->present.record; /* borrows the CA */

        if (!record.renewal_failure[0])
                nb_time_format(node->now, record.renewal_failed_at);
        NB_TEXT_COPY_LINE(record.renewal_failure, nb_failure_info(code)->slug);
        return write_record(node, &record);
}

void nb_node_done(struct nb_node *node) {
        nb_present_done(&node->present);
}
