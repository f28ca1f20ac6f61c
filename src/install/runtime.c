/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/yaml.h"
#include "install/runtime.h"
#include "kube_objects/kubelet_config.h"
#include "settings/kubelet_unit.h"
#include "systemd/log.h"
#include "systemd/unit.h"

#define SCHEME "unix://"
#define KEY NB_KUBELET_ENDPOINT_KEY ": \""
/* kubelet's help for --container-runtime, up to 1.23. */
#define DOCKER_HELP "Possible values: 'docker', 'remote'"

/* In the order of kubeadm (cmd/kubeadm/app/constants/constants_unix.go). The first one is also
 * kubelet's default. */
static const char *const sockets[] = { "/run/containerd/containerd.sock", "/run/crio/crio.sock",
                                       "/run/cri-dockerd.sock" };

/* Copies an endpoint, or the path of a socket; "" for anything else, such as a variable. */
static void copy_endpoint(const char *value, char ret[static NB_SETTINGS_PATH_MAX]) {
        const char *scheme = value[0] == '/' ? SCHEME : "";
        const char *path = value + (scheme[0] ? 0 : strlen(SCHEME));
        size_t len = strlen(value);

        ret[0] = '\0';
        if ((!scheme[0] && strncmp(value, SCHEME "/", strlen(SCHEME "/")) != 0) ||
            strpbrk(path, "\"\\$%") || !nb_text_is_printable(value, len) ||
            len + strlen(SCHEME) >= NB_SETTINGS_PATH_MAX)
                return;
        snprintf(ret, NB_SETTINGS_PATH_MAX, "%s%s", scheme, value);
}

static int read_config(const struct nb_context *context, const char *path,
                       char ret[static NB_SETTINGS_PATH_MAX]) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        const struct nb_yaml_node *endpoint;
        struct nb_failure ignored = { 0 };
        int r = nb_path_read(context->root_fd, path, NB_KUBELET_CONFIG_MAX, &text);

        if (r >= 0)
                r = nb_yaml_parse(path, text.data, text.len, NB_SETTINGS_INVALID, 1, &root,
                                  &ignored);
        if (r < 0 || !root || root->type != NB_YAML_MAPPING)
                return r == -ENOMEM ? r : 0;
        endpoint = nb_yaml_get(root, NB_KUBELET_ENDPOINT_KEY);
        if (endpoint && endpoint->type == NB_YAML_SCALAR)
                copy_endpoint(endpoint->value, ret);
        return 0;
}

/* What kubelet's arguments and its configuration file say. */
static int read_kubelet(const struct nb_context *context, const struct nb_unit *unit,
                        char ret[static NB_SETTINGS_PATH_MAX]) {
        _cleanup_(nb_buffer_done) struct nb_buffer arguments = NB_BUFFER_INIT(
                NB_KUBELET_ARGUMENTS_MAX);
        char value[NB_SETTINGS_PATH_MAX], config[NB_SETTINGS_PATH_MAX];
        struct nb_sources sources = { 0 }; /* not `context->sources`, which go to `join` */

        nb_kubelet_read_arguments(&sources, unit, &arguments);
        if (arguments.error == -ENOMEM)
                return -ENOMEM;
        if (nb_kubelet_find_argument(arguments.data, NB_KUBELET_ENDPOINT, value, sizeof(value)))
                copy_endpoint(value, ret);
        if (ret[0])
                return 0;
        if (!nb_kubelet_find_argument(arguments.data, "--config", config, sizeof(config)))
                snprintf(config, sizeof(config), NB_KUBELET_CONFIG_PATH);
        return read_config(context, config, ret);
}

static bool is_socket(const struct nb_context *context, const char *path) {
        _cleanup_(nb_closep) int fd = nb_path_open(context->root_fd, path, O_PATH);
        struct stat st;

        return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode);
}

static void find_socket(const struct nb_context *context, char ret[static NB_SETTINGS_PATH_MAX]) {
        char found[256] = "";
        unsigned n = 0;

        copy_endpoint(sockets[0], ret);
        for (size_t i = 0; i < N_ELEMENTS(sockets); i++) {
                if (!is_socket(context, sockets[i]))
                        continue;
                if (n++ == 0)
                        copy_endpoint(sockets[i], ret);
                nb_text_list_add(found, sizeof(found), sockets[i]);
        }
        if (n > 1)
                nb_log(LOG_WARNING, NB_RUNTIME_AMBIGUOUS,
                       "there are several container runtimes, %s, and kubelet's settings name "
                       "none; '" NB_KUBELET_DIRECTORY "/" NB_INSTANCE_FILE "' names %s",
                       found, ret);
}

/* Not mmap(2): reading a mapped file that is replaced or truncated meanwhile is fatal (SIGBUS). */
static bool has_text(int fd, const char *text) {
        char data[64 * 1024];
        size_t text_len = strlen(text), len = 0;
        ssize_t n;

        while ((n = TEMP_FAILURE_RETRY(read(fd, data + len, sizeof(data) - len))) > 0) {
                len += (size_t)n;
                if (memmem(data, len, text, text_len))
                        return true;
                /* The text may begin at the end of this piece. */
                if (len >= text_len) {
                        memmove(data, data + len - text_len + 1, text_len - 1);
                        len = text_len - 1;
                }
        }
        return false;
}

/* Kubernetes 1.24 removed the code for Docker. kubelet is not run to ask for its version. */
static bool has_docker(const struct nb_context *context, const struct nb_unit *unit) {
        _cleanup_(nb_closep) int fd = -1;
        const char *path = nb_unit_next(unit, NB_UNIT_COMMAND, NULL);
        struct stat st;

        if (path)
                fd = nb_path_open(context->root_fd, path, O_RDONLY | O_NONBLOCK);
        return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && has_text(fd, DOCKER_HELP);
}

int nb_runtime_find_by_unit(const struct nb_context *context, const struct nb_unit *unit,
                            struct nb_runtime *ret_runtime) {
        struct nb_runtime runtime = { 0 };
        int r;

        copy_endpoint(context->settings.cri_socket, runtime.endpoint);
        runtime.is_remote_needed = (runtime.endpoint[0] || ret_runtime->is_remote_needed) &&
                                   has_docker(context, unit);
        if (!runtime.endpoint[0]) {
                r = read_kubelet(context, unit, runtime.endpoint);
                if (r < 0)
                        return r;
        }
        if (!runtime.endpoint[0])
                find_socket(context, runtime.endpoint);
        *ret_runtime = runtime;
        return 0;
}

int nb_runtime_find(const struct nb_context *context, struct nb_runtime *ret_runtime) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };

        /* With --root, the systemd that runs is not that of the machine. */
        if (context->root_fd < 0 && nb_kubelet_show(&unit) == -ENOMEM)
                return -ENOMEM;
        return nb_runtime_find_by_unit(context, &unit, ret_runtime);
}

void nb_instance_format(const char *endpoint, struct nb_buffer *ret) {
        nb_buffer_printf(ret, KEY "%s\"\n", endpoint);
}
