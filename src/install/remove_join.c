/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/macro.h"
#include "install/join_files.h"
#include "install/remove_join.h"
#include "install/state_directory.h"
#include "join_method/cluster_identity.h"
#include "kube_objects/kubeconfig.h"

#define FOREIGN "used by a kubeconfig that the join did not write"

struct reset {
        struct nb_join_files *files;
        bool is_renewed;    /* by kubelet: the link names another file than the record */
        bool is_taken_over; /* another program has joined this machine since, in the same paths */
};

static int fail_unfinished(const char *path, int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_RESET_UNFINISHED, r, "cannot read or remove '%s': %m", path);
}

static void print_left(const char *path, const char *why) {
        printf("left     %s: %s\n", path, why);
}

static int remove_file(int root_fd, const char *path) {
        _cleanup_(nb_closep) int fd = -1;
        char folder[NB_SWAP_PATH_SIZE];
        const char *name;
        int r;

        r = nb_path_split(path, folder, sizeof(folder), &name);
        if (r < 0)
                return r;
        fd = nb_path_open(root_fd, folder, O_RDONLY | O_DIRECTORY);
        if (fd < 0)
                return fd;
        r = nb_file_remove(fd, name);
        if (r >= 0)
                printf("removed  %s\n", path);
        return r;
}

/* Does not follow a link. */
static bool is_there(int root_fd, const char *path) {
        _cleanup_(nb_closep) int fd = nb_path_open(root_fd, path, O_PATH | O_NOFOLLOW);

        return fd != -ENOENT;
}

/* Removes the file unless there is a reason why it stays. */
static int remove_unless(const struct reset *reset, const char *path, const char *why,
                         struct nb_failure *f) {
        int root_fd = reset->files->context->root_fd, r = 0;

        if (!is_there(root_fd, path))
                return 0;
        if (why)
                print_left(path, why);
        else
                r = remove_file(root_fd, path);
        return r < 0 ? fail_unfinished(path, r, f) : 0;
}

/* Another program that has joined this machine to another cluster uses kubelet's paths as well. */
static bool is_server_ours(const struct reset *reset, const char *server) {
        struct nb_url url;

        return server && nb_url_parse(server, strlen(server), &url) >= 0 &&
               nb_url_is_equal(&url, &reset->files->previous->server);
}

/* Why the kubeconfig stays; NULL if it must be removed. -ENOMEM. */
static int judge_kubeconfig(struct reset *reset, const char **ret_why) {
        const struct nb_secret *text = &reset->files->present[NB_FILE_KUBECONFIG];
        _cleanup_(nb_kubeconfig_client_done) struct nb_kubeconfig_client client =
                NB_KUBECONFIG_CLIENT_INIT;
        struct nb_failure ignored = { 0 };
        int r = text->data
                        ? nb_kubeconfig_parse_client("", text->data, text->len, &client, &ignored)
                        : -EINVAL;

        if (r == -ENOMEM)
                return r;
        if (r < 0)
                *ret_why = "not a kubeconfig";
        else if (client.certificate.data || !client.certificate_file ||
                 strcmp(client.certificate_file, reset->files->files[NB_FILE_LINK].path) != 0)
                *ret_why = "uses another client certificate";
        else if (!is_server_ours(reset, client.server))
                *ret_why = "uses another API server";
        reset->is_taken_over = r >= 0 && *ret_why;
        return 0;
}

/* A path in the record is not removed if it is outside the certificate directory, although only
 * root can write the record. */
static const char *judge_certificate(const struct reset *reset) {
        const char *folder = reset->files->context->settings.certificate_directory,
                   *path = reset->files->previous->certificate;
        size_t len = strlen(folder);

        if (strncmp(path, folder, len) != 0 || path[len] != '/' ||
            fnmatch("kubelet-client-*.pem", path + len + 1, FNM_PATHNAME) != 0)
                return "not a client certificate in the certificate directory";
        return reset->is_taken_over && !reset->is_renewed ? FOREIGN : NULL;
}

static int clear_state(struct nb_failure *f) {
        _cleanup_(nb_state_done) struct nb_state state = { .fd = -1 };
        int r;

        if (!getenv("STATE_DIRECTORY"))
                return 0;
        r = nb_state_open(&state, f);
        if (r < 0)
                return r;
        r = nb_state_clear(&state);
        return r < 0 ? fail_unfinished(getenv("STATE_DIRECTORY"), r, f) : 0;
}

static int remove_row(struct reset *reset, enum nb_join_file i, struct nb_failure *f) {
        const struct nb_join_file_row *row = &nb_join_file_rows[i];
        struct nb_join_files *files = reset->files;
        const char *path = files->files[i].path, *why = NULL;
        int r = 0;

        if (row->is_supervised && !nb_record_is_by_supervisor(files->previous))
                return 0;
        if (!row->is_own)
                r = nb_join_files_read(files, i);
        if (r >= 0 && i == NB_FILE_KUBECONFIG)
                r = judge_kubeconfig(reset, &why);
        else if (!row->is_own && reset->is_taken_over)
                why = FOREIGN;
        else if (!nb_join_files_is_ours(files, i))
                why = "not written by the join";
        if (r < 0)
                return fail_unfinished(path, r, f);
        /* The last step but those that a repeated reset needs: it finds the files by the record,
         * and the record by node-bootstrap.env. */
        if (i == NB_FILE_MARK)
                r = clear_state(f);
        if (r >= 0 && i == NB_FILE_LINK) {
                reset->is_renewed = strcmp(files->present[i].data ? files->present[i].data : "",
                                           files->previous->certificate) != 0;
                r = remove_unless(reset, files->previous->certificate, judge_certificate(reset), f);
        }
        return r < 0 ? r : remove_unless(reset, path, why, f);
}

int nb_remove_join(const struct nb_context *context, const struct nb_record *last,
                   struct nb_failure *f) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = nb_join_files_new(
                context, NB_PASS_REPAIR, last);
        struct reset reset = { .files = files };

        if (!files)
                return nb_failure_set_memory(f);
        if (!last) {
                printf("node-bootstrap has not joined this machine: there is no %s\n",
                       files->files[NB_FILE_RECORD].path);
                if (is_there(context->root_fd, context->settings.kubeconfig))
                        print_left(context->settings.kubeconfig, "not written by node-bootstrap");
                return clear_state(f);
        }
        for (unsigned i = _NB_FILE_N; i-- > 0;) {
                int r = remove_row(&reset, i, f);

                if (r < 0)
                        return r;
        }
        if (reset.is_renewed && !reset.is_taken_over)
                printf("left     the certificate that kubelet has renewed since: it stays valid "
                       "until it expires\n");
        printf("left     kubelet's own files in " NB_KUBELET_DIRECTORY
               " and %s, certificates of earlier "
               "joins, and *.old files that a join renamed\n"
               "left     the Node object in the cluster: `kubectl delete node %s` removes it\n",
               context->settings.certificate_directory, last->node);
        return nb_context_verify_join(context, f);
}
