/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/macro.h"
#include "format/kubeconfig.h"
#include "format/kubelet_env.h"
#include "install/aside.h"
#include "install/discard.h"
#include "install/flags.h"
#include "install/store.h"
#include "install/swap.h"
#include "install/target.h"
#include "install/write.h"
#include "install/written.h"

#define ENV_FILE "node-bootstrap.env"
#define CONFIG_FILE "config.yaml"
#define PATH_SIZE (NB_SETTINGS_PATH_MAX + NB_STORE_NAME_SIZE)

/* A target: its folder, opened, and its name in it. */
struct place {
        int folder_fd;
        const char *name;
};

static void place_done(struct place *place) {
        if (place->folder_fd >= 0)
                (void)close(place->folder_fd);
}

/* In the order in which they are published. */
enum target {
        TARGET_RECORD, /* before what it says of them: after a crash it is by this that the files of the join are known */
        TARGET_CA,
        TARGET_LINK,
        TARGET_ENV,
        TARGET_FLAGS,
        TARGET_CONFIG,
        TARGET_DISCARD,    /* before the kubeconfig, so that no crash comes between; it is looked at when the service has started */
        TARGET_KUBECONFIG, /* makes all before it count */
        _TARGET_N,
};

/* What is set aside, in this order. The kubeconfig first, so that from then on nobody reads the others. */
enum aside {
        ASIDE_KUBECONFIG,
        ASIDE_CA,
        ASIDE_CURRENT,
        _ASIDE_N,
};

/* Everything that is written, made before anything is. */
struct plan {
        const struct nb_context *context;
        const struct nb_accepted *accepted;
        struct place kubeconfig, ca, store, kubelet;
        struct nb_buffer kubeconfig_text, env_text, flags_text;
        struct nb_written written;
        bool is_ca_changed; /* never so where the CAs of the system count */
        bool is_flags_changed;
        bool is_config_wanted;
        char pem_name[NB_STORE_NAME_SIZE]; /* of the dated file; "" before it is there */
        char certificate[PATH_SIZE];       /* its path */
        struct nb_swap swaps[_TARGET_N];
        char paths[_TARGET_N][PATH_SIZE]; /* for messages */
        struct nb_aside asides[_ASIDE_N];
        bool is_kept; /* what was there before is gone */
};

#define PLAN_INIT \
        { \
                .kubeconfig = { -1, NULL }, .ca = { -1, NULL }, .store = { -1, NULL }, .kubelet = { -1, NULL }, \
                .kubeconfig_text = NB_BUFFER_INIT(NB_KUBECONFIG_MAX), .env_text = NB_BUFFER_INIT(NB_FLAGS_MAX), \
                .flags_text = NB_BUFFER_INIT(NB_FLAGS_MAX), .written = NB_WRITTEN_INIT, \
        }

static void plan_done(struct plan *plan) {
        place_done(&plan->kubeconfig);
        place_done(&plan->ca);
        place_done(&plan->store);
        place_done(&plan->kubelet);
        nb_buffer_done(&plan->kubeconfig_text);
        nb_buffer_done(&plan->env_text);
        nb_buffer_done(&plan->flags_text);
        nb_written_done(&plan->written);
}

static int unwritable(const char *path, int r, struct nb_failure *f) {
        errno = -r;
        return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r, "'%s' cannot be written: %m", path);
}

static int place_folder(const struct nb_context *context, const char *path, mode_t mode, struct place *ret,
                        struct nb_failure *f) {
        int r = nb_target_folder(context->root_fd, path, mode, &ret->folder_fd);

        if (r < 0) {
                errno = -r;
                return nb_failure_set(f, NB_TARGET_UNWRITABLE, -r, "the folder '%s' cannot be opened or made: %m",
                                      path);
        }
        return 0;
}

static int place_file(const struct nb_context *context, const char *path, struct place *ret, struct nb_failure *f) {
        char folder[NB_SETTINGS_PATH_MAX];
        int r;

        r = nb_path_split(path, folder, sizeof(folder), &ret->name);
        if (r < 0)
                return unwritable(path, r, f);
        return place_folder(context, folder, 0755, ret, f);
}

/* kubelet's folder first, with kubelet's own mode: the store lies in it as a rule, and would make it with another. */
static int open_places(struct plan *plan, struct nb_failure *f) {
        const struct nb_settings *settings = &plan->context->settings;
        int r;

        r = place_folder(plan->context, NB_KUBELET_DIRECTORY, 0750, &plan->kubelet, f);
        if (r >= 0)
                r = place_folder(plan->context, settings->certificate_directory, 0755, &plan->store, f);
        if (r >= 0)
                r = place_file(plan->context, settings->ca_file, &plan->ca, f);
        if (r >= 0)
                r = place_file(plan->context, settings->kubeconfig, &plan->kubeconfig, f);
        return r;
}

static int make_kubeconfig(struct plan *plan) {
        const struct nb_settings *settings = &plan->context->settings;
        const struct nb_handoff *handoff = &plan->accepted->handoff;
        char link[PATH_SIZE];

        (void)snprintf(link, sizeof(link), "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        return nb_kubeconfig_format(
                &(struct nb_kubeconfig){
                        .server = &handoff->server,
                        .tls_server_name = handoff->tls_server_name,
                        .proxy_url = handoff->proxy_url,
                        .ca_file = plan->accepted->ca.len > 0 ? settings->ca_file : NULL,
                        .client_certificate = link,
                },
                &plan->kubeconfig_text);
}

static int make_flags(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer old = NB_BUFFER_INIT(NB_FLAGS_MAX);
        static const char path[] = NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE;
        const char *text = NULL;
        int r;

        r = nb_file_read(plan->kubelet.folder_fd, NB_FLAGS_FILE, &old, NULL);
        if (r < 0 && r != -ENOENT)
                return unwritable(path, r, f);
        if (r >= 0)
                text = old.data ? old.data : "";
        r = nb_flags_make(plan->context, text, old.len, &plan->flags_text);
        if (r == -EINVAL)
                return nb_failure_set(
                        f, NB_TARGET_UNWRITABLE, EINVAL,
                        "'%s' cannot be edited: expected one line KUBELET_KUBEADM_ARGS=\"...\" as kubeadm writes it, "
                        "to put %s%s into",
                        path, plan->context->is_override_needed ? "--hostname-override=" : "the arguments of the settings",
                        plan->context->is_override_needed ? plan->context->node_name : "");
        if (r < 0)
                return unwritable(path, r, f);
        plan->is_flags_changed = r > 0;
        r = r > 0 ? nb_written_arguments(&plan->written, text, old.len, plan->flags_text.data, plan->flags_text.len) : nb_written_arguments(&plan->written, text, old.len, text, old.len);
        return r < 0 ? nb_failure_set_memory(f) : 0;
}

/* Whatever is there and cannot be read is another one. */
static bool is_ca_changed(const struct plan *plan) {
        _cleanup_(nb_buffer_done) struct nb_buffer old = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_buffer *ca = &plan->accepted->ca;

        if (ca->len == 0)
                return false;
        if (nb_file_read(plan->ca.folder_fd, plan->ca.name, &old, NULL) < 0)
                return true;
        return old.len != ca->len || memcmp(old.data, ca->data, ca->len) != 0;
}

/* One that is there is the operator's, whatever it is; and the service could not replace it. */
static bool is_config_wanted(const struct plan *plan) {
        struct stat st;

        return plan->accepted->kubelet_config.len > 0 &&
               fstatat(plan->kubelet.folder_fd, CONFIG_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static int make_plan(struct plan *plan, struct nb_failure *f) {
        int r;

        r = open_places(plan, f);
        if (r < 0)
                return r;
        r = make_kubeconfig(plan);
        if (r >= 0)
                r = nb_kubelet_env_format(plan->context->node_name, &plan->env_text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "the kubeconfig cannot be made");
        plan->is_ca_changed = is_ca_changed(plan);
        if (nb_written_read(&plan->written, plan->store.folder_fd) < 0)
                return nb_failure_set_memory(f);
        plan->is_config_wanted = is_config_wanted(plan);
        return make_flags(plan, f);
}

static int stage(struct plan *plan, enum target target, const struct place *place, const char *name, mode_t mode,
                 const struct nb_buffer *text, struct nb_failure *f) {
        int r = nb_swap_file(&plan->swaps[target], place->folder_fd, name, mode, text->data, text->len);

        return r < 0 ? unwritable(plan->paths[target], r, f) : 0;
}

/* Whose word it was that metadata had a part in it: only where it is asked at all. */
static const char *name_metadata(const struct plan *plan) {
        return plan->context->is_metadata_wanted ? plan->accepted->handoff.metadata : "";
}

static int stage_record(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        const struct nb_accepted *accepted = plan->accepted;
        const struct nb_anchors *anchors = &plan->context->anchors;
        struct nb_record record = { .n_pins = anchors->n_pins, .n_ca_hashes = accepted->selection.n_taken };
        int r;

        _Static_assert(sizeof(record.ca_hashes) == sizeof(accepted->selection.taken),
                       "as many places for hashes as a bundle has");
        _Static_assert(sizeof(record.pins) == sizeof(anchors->pins), "as many places for pins as there are");
        (void)snprintf(record.discovery, sizeof(record.discovery), "%s", nb_anchors_discovery(&plan->context->bootstrap));
        (void)snprintf(record.node, sizeof(record.node), "%s", plan->context->node_name);
        nb_url_format(&accepted->handoff.server, record.server);
        memcpy(record.endpoint, accepted->handoff.endpoint, sizeof(record.endpoint));
        memcpy(record.pins, anchors->pins, sizeof(record.pins));
        memcpy(record.ca_hashes, accepted->selection.taken, sizeof(record.ca_hashes));
        memcpy(record.csr, accepted->handoff.csr, sizeof(record.csr));
        memcpy(record.token_id, accepted->handoff.token_id, sizeof(record.token_id));
        memcpy(record.token_source, accepted->handoff.token_source, sizeof(record.token_source));
        (void)snprintf(record.metadata, sizeof(record.metadata), "%s", name_metadata(plan));
        record.is_node_from_metadata = plan->context->is_node_from_metadata;
        record.is_discard_from_metadata = plan->context->is_discard_from_metadata;
        nb_time_format(plan->context->now, record.joined_at);
        nb_written_record(&plan->written, accepted->ca.len > 0 && !plan->is_ca_changed, &record);
        (void)snprintf(record.certificate, sizeof(record.certificate), "%s", plan->certificate);
        r = nb_record_format(&record, &text);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, -r, "'%s' cannot be made", plan->paths[TARGET_RECORD]);
        return stage(plan, TARGET_RECORD, &plan->store, NB_RECORD_FILE, 0644, &text, f);
}

static int stage_discard(struct plan *plan, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64);

        if (nb_discard_format(name_metadata(plan), &text) < 0)
                return nb_failure_set_memory(f);
        return stage(plan, TARGET_DISCARD, &plan->kubelet, NB_DISCARD_FILE, 0644, &text, f);
}

static void name_paths(struct plan *plan) {
        const struct nb_settings *settings = &plan->context->settings;

        (void)snprintf(plan->paths[TARGET_CA], PATH_SIZE, "%s", settings->ca_file);
        (void)snprintf(plan->paths[TARGET_LINK], PATH_SIZE, "%s/" NB_STORE_CURRENT, settings->certificate_directory);
        (void)snprintf(plan->paths[TARGET_ENV], PATH_SIZE, NB_KUBELET_DIRECTORY "/" ENV_FILE);
        (void)snprintf(plan->paths[TARGET_FLAGS], PATH_SIZE, NB_KUBELET_DIRECTORY "/" NB_FLAGS_FILE);
        (void)snprintf(plan->paths[TARGET_CONFIG], PATH_SIZE, NB_KUBELET_DIRECTORY "/" CONFIG_FILE);
        (void)snprintf(plan->paths[TARGET_DISCARD], PATH_SIZE, NB_KUBELET_DIRECTORY "/" NB_DISCARD_FILE);
        (void)snprintf(plan->paths[TARGET_RECORD], PATH_SIZE, "%s/" NB_RECORD_FILE, settings->certificate_directory);
        (void)snprintf(plan->paths[TARGET_KUBECONFIG], PATH_SIZE, "%s", settings->kubeconfig);
}

static int stage_store(struct plan *plan, struct nb_failure *f) {
        const char *folder = plan->context->settings.certificate_directory;
        char name[NB_STORE_NAME_SIZE];
        int r;

        r = nb_store_create(plan->store.folder_fd, plan->context->now, &plan->accepted->pem, name);
        if (r < 0)
                return unwritable(folder, r, f);
        memcpy(plan->pem_name, name, sizeof(name));
        (void)snprintf(plan->certificate, sizeof(plan->certificate), "%s/%s", folder, name);
        r = nb_store_link(&plan->swaps[TARGET_LINK], plan->store.folder_fd, plan->certificate);
        return r < 0 ? unwritable(plan->paths[TARGET_LINK], r, f) : 0;
}

static int stage_all(struct plan *plan, struct nb_failure *f) {
        int r;

        r = stage_store(plan, f);
        if (r >= 0 && plan->is_ca_changed)
                r = stage(plan, TARGET_CA, &plan->ca, plan->ca.name, 0644, &plan->accepted->ca, f);
        if (r >= 0)
                r = stage(plan, TARGET_ENV, &plan->kubelet, ENV_FILE, 0644, &plan->env_text, f);
        if (r >= 0 && plan->is_flags_changed)
                r = stage(plan, TARGET_FLAGS, &plan->kubelet, NB_FLAGS_FILE, 0644, &plan->flags_text, f);
        if (r >= 0 && plan->is_config_wanted)
                r = stage(plan, TARGET_CONFIG, &plan->kubelet, CONFIG_FILE, 0644, &plan->accepted->kubelet_config, f);
        if (r >= 0 && plan->context->settings.token_discard)
                r = stage_discard(plan, f);
        if (r >= 0)
                r = stage_record(plan, f);
        if (r >= 0)
                r = stage(plan, TARGET_KUBECONFIG, &plan->kubeconfig, plan->kubeconfig.name, 0600,
                          &plan->kubeconfig_text, f);
        return r;
}

/* What takes the place of each. */
static const enum target aside_targets[_ASIDE_N] = {
        [ASIDE_KUBECONFIG] = TARGET_KUBECONFIG,
        [ASIDE_CA] = TARGET_CA,
        [ASIDE_CURRENT] = TARGET_LINK,
};

static bool is_aside_wanted(const struct plan *plan, enum aside aside) {
        if (aside == ASIDE_CA)
                return plan->is_ca_changed;
        return aside == ASIDE_KUBECONFIG || nb_store_has_file(plan->store.folder_fd);
}

static int set_aside(struct plan *plan, struct nb_failure *f) {
        const struct place *kubeconfig = &plan->kubeconfig;
        const struct place places[_ASIDE_N] = {
                [ASIDE_KUBECONFIG] = { kubeconfig->folder_fd, kubeconfig->name },
                [ASIDE_CA] = { plan->ca.folder_fd, plan->ca.name },
                [ASIDE_CURRENT] = { plan->store.folder_fd, NB_STORE_CURRENT },
        };

        for (unsigned i = 0; i < _ASIDE_N; i++) {
                int r = 0;

                if (is_aside_wanted(plan, (enum aside)i))
                        r = nb_aside_move(&plan->asides[i], places[i].folder_fd, places[i].name);
                if (r < 0)
                        return unwritable(plan->paths[aside_targets[i]], r, f);
        }
        return 0;
}

static void report_aside(const struct plan *plan) {
        for (unsigned i = 0; i < _ASIDE_N; i++)
                if (plan->asides[i].old_name[0])
                        nb_log(LOG_NOTICE, NB_SET_ASIDE, "'%s' from before was set aside, beside it, as '%s'", plan->paths[aside_targets[i]],
                               plan->asides[i].old_name);
}

static int publish(struct plan *plan, enum target target, struct nb_failure *f) {
        int r = nb_swap_publish(&plan->swaps[target]);

        return r < 0 ? unwritable(plan->paths[target], r, f) : 0;
}

static int publish_all(struct plan *plan, struct nb_failure *f) {
        int r;

        r = set_aside(plan, f);
        for (unsigned i = 0; i < TARGET_KUBECONFIG && r >= 0; i++)
                r = publish(plan, (enum target)i, f);
        if (r < 0)
                return r;
        /* Dropped before the kubeconfig counts: from then on nothing would come by to do it. */
        for (unsigned i = 0; i < TARGET_KUBECONFIG; i++)
                nb_swap_keep(&plan->swaps[i]);
        plan->is_kept = true;
        return publish(plan, TARGET_KUBECONFIG, f);
}

/* The old kubeconfig comes back only to all that it refers to. The file with the key goes when no link names it. */
static void undo(struct plan *plan) {
        bool is_undone = true;

        /* The new kubeconfig may be in place, and only its folder could not be synced. */
        if (plan->is_kept)
                return;
        for (unsigned i = _TARGET_N; i-- > 0;)
                if (nb_swap_undo(&plan->swaps[i]) < 0)
                        is_undone = false;
        if (!is_undone)
                return;
        if (plan->pem_name[0])
                (void)nb_file_remove(plan->store.folder_fd, plan->pem_name);
        for (unsigned i = _ASIDE_N; i-- > 0;)
                if (nb_aside_undo(&plan->asides[i]) < 0)
                        return;
}

/* Each boot is a first one then, and the token has to last for all of them. */
static void warn_of_memory(const struct plan *plan) {
        struct statfs st;

        if (fstatfs(plan->store.folder_fd, &st) < 0 || (st.f_type != TMPFS_MAGIC && st.f_type != RAMFS_MAGIC))
                return;
        nb_log(LOG_WARNING, NB_CERTIFICATE_DIRECTORY_VOLATILE,
               "the folder '%s' is on a %s, in memory: this machine will join anew at each boot, as long as its token counts",
               plan->context->settings.certificate_directory, st.f_type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
}

static int write_plan(struct plan *plan, struct nb_failure *f) {
        int r;

        name_paths(plan);
        r = stage_all(plan, f);
        if (r >= 0)
                r = publish_all(plan, f);
        if (r < 0)
                undo(plan);
        else {
                report_aside(plan);
                warn_of_memory(plan);
        }
        return r;
}

int nb_write(const struct nb_context *context, const struct nb_accepted *accepted, struct nb_failure *f) {
        _cleanup_(plan_done) struct plan plan = PLAN_INIT;
        int r;

        plan.context = context;
        plan.accepted = accepted;
        r = make_plan(&plan, f);
        return r < 0 ? r : write_plan(&plan, f);
}
