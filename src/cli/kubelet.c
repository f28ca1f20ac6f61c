/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/text.h"
#include "cli/kubelet.h"
#include "cli/kubelet_k3s.h"
#include "codec/yaml.h"
#include "join_method/cluster_identity.h"
#include "kube_objects/kubelet_config.h"
#include "kube_objects/node_name.h"
#include "node_state/present.h"
#include "os/sources.h"
#include "systemd/unit.h"

#define SWAPS "/proc/swaps"
#define SWAPS_MAX 4096

/* kubelet's default since Kubernetes 1.27, and kubeadm's since 1.24; older versions used Docker. */
#define RUNTIME_SOCKET "/run/containerd/containerd.sock"
#define RUNTIME_DEFAULT "unix://" RUNTIME_SOCKET
#define DOCKER "/run/docker.sock"

struct kubelet {
        struct nb_sources *sources;
        const struct nb_unit *unit;
        const struct nb_settings *settings;
        enum nb_code refused;       /* why the settings are refused, which may want more */
        const struct nb_last *last; /* NULL: for setup, which joins before anybody can type a
                                       command */
        struct nb_node node;
        struct nb_buffer arguments; /* of the kubelet that runs, or that would start: the last one
                                       wins */
        char config[PATH_MAX];      /* --config; "" for none */
        struct nb_yaml_node *document; /* that file; NULL: none that can be read here */
        bool is_config_unknown;        /* there is one, which cannot be read here */
        struct nb_kubelet_findings *ret;
};

__attribute__((format(printf, 3, 4))) static struct nb_kubelet_finding *add_finding(
        struct kubelet *kubelet, int state, const char *format, ...) {
        struct nb_kubelet_findings *ret = kubelet->ret;
        struct nb_kubelet_finding *finding;
        va_list arguments;

        /* A value with line ends could make more: the last one is then replaced. */
        if (ret->n < NB_KUBELET_FINDINGS_MAX)
                ret->n++;
        finding = &ret->findings[ret->n - 1];
        *finding = (struct nb_kubelet_finding){ .state = state, .code = NB_KUBELET_UNPREPARED };
        va_start(arguments, format);
        vsnprintf(finding->text, sizeof(finding->text), format, arguments);
        va_end(arguments);
        return finding;
}

/* --- Its arguments --- */

static int read_arguments(struct kubelet *kubelet) {
        const struct nb_settings *settings = kubelet->settings;
        struct nb_buffer *arguments = &kubelet->arguments;

        if (nb_kubelet_read_command_line(kubelet->unit, arguments) >= 0)
                return arguments->error;
        nb_kubelet_read_arguments(kubelet->sources, kubelet->unit, arguments);
        for (unsigned i = 0; i < settings->n_extra_args; i++)
                nb_buffer_printf(arguments, "--%s\n", settings->extra_args[i]);
        if (settings->cri_socket[0])
                nb_buffer_printf(arguments, NB_KUBELET_ENDPOINT "=%s\n", settings->cri_socket);
        if (arguments->error != -E2BIG)
                return arguments->error;
        kubelet->is_config_unknown = true;
        add_finding(kubelet, NB_KUBELET_DOUBT,
                    "kubelet's arguments and EnvironmentFile= are longer than %zu KiB; only the "
                    "first ones are checked",
                    NB_KUBELET_ARGUMENTS_MAX / 1024);
        return 0;
}

/* --- Unit and binary --- */

/* Whether something starts kubelet at boot. The gate does not: either kubelet starts it, or a start
 * of the service by hand does. */
static bool is_wanted(const struct nb_unit *unit) {
        const char *by = NULL;

        while ((by = nb_unit_next(unit, NB_UNIT_WANTED_BY, by)))
                if (strcmp(by, NB_GATE_UNIT) != 0)
                        return true;
        return nb_unit_next(unit, NB_UNIT_REQUIRED_BY, NULL);
}

#define LEFT_AT_BOOT \
        NB_KUBELET_UNIT " is disabled, so it does not start at the next boot: `systemctl " \
                        "enable " NB_KUBELET_UNIT "`"

static bool is_left_at_boot(const struct nb_unit *unit) {
        return !strcmp(unit->state.file, "disabled") && !is_wanted(unit);
}

/* Returns whether systemd has loaded it. */
static bool check_unit(struct kubelet *kubelet) {
        const struct nb_unit_state *state = &kubelet->unit->state;
        bool is_loaded = !strcmp(state->load, "loaded"),
             /* The gate starts it once. */
                is_started = !kubelet->last || nb_unit_is(state, "active") ||
                             nb_unit_is(state, "activating"),
             is_disabled = is_left_at_boot(kubelet->unit);
        const char *finding = NULL;

        if (!strcmp(state->load, "masked"))
                finding = NB_KUBELET_UNIT " is masked: `systemctl unmask " NB_KUBELET_UNIT "`";
        else if (!strcmp(state->load, "not-found"))
                finding = NB_KUBELET_UNIT " does not exist: install kubelet";
        else if (!is_loaded)
                finding = "systemd cannot load " NB_KUBELET_UNIT
                          ": see `systemctl status " NB_KUBELET_UNIT "`";
        else if (is_disabled)
                finding = is_started ? LEFT_AT_BOOT
                                     : NB_KUBELET_UNIT
                                  " is disabled: `systemctl enable --now " NB_KUBELET_UNIT "`";
        add_finding(kubelet,
                    !finding                    ? NB_KUBELET_GOOD
                    : is_disabled && is_started ? NB_KUBELET_DOUBT
                                                : NB_KUBELET_BAD,
                    "%s", finding ? finding : NB_KUBELET_UNIT " is enabled");
        return is_loaded;
}

static void check_binary(struct kubelet *kubelet) {
        const char *path = nb_unit_next(kubelet->unit, NB_UNIT_COMMAND, NULL);
        struct stat st;

        if (!path)
                return;
        if (stat(path, &st) < 0)
                add_finding(kubelet, errno == EACCES ? NB_KUBELET_DOUBT : NB_KUBELET_BAD,
                            "'%s', which " NB_KUBELET_UNIT " runs: %m", path);
        else if (!S_ISREG(st.st_mode) || !(st.st_mode & 0111))
                add_finding(kubelet, NB_KUBELET_BAD,
                            "'%s', which " NB_KUBELET_UNIT " runs, is not executable", path);
        else
                add_finding(kubelet, NB_KUBELET_GOOD, NB_KUBELET_UNIT " runs '%s'", path);
}

/* --- Its configuration --- */

/* The last value of the argument; otherwise the one in the configuration; otherwise "". */
static void find_value(const struct kubelet *kubelet, const char *argument, const char *key,
                       char *ret, size_t size) {
        const struct nb_yaml_node *node = kubelet->document ? nb_yaml_get(kubelet->document, key)
                                                            : NULL;

        if (!nb_kubelet_find_argument(kubelet->arguments.data, argument, ret, size))
                snprintf(ret, size, "%s", node && node->type == NB_YAML_SCALAR ? node->value : "");
}

/* If a supervisor has issued, or will issue, its certificate. */
static void check_k3s(struct kubelet *kubelet) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_ARGUMENTS_MAX);
        const struct nb_present *present = &kubelet->node.present;
        char client_ca[NB_CLIENT_CA_PATH_MAX], *rest;

        if (present->has_record ? !nb_record_is_by_supervisor(&present->record)
                                : kubelet->settings->cluster_type != NB_CLUSTER_TYPE_K3S)
                return;
        nb_settings_client_ca(kubelet->settings, client_ca);
        nb_kubelet_contradict_k3s(kubelet->document, kubelet->arguments.data, client_ca, &text);
        for (char *line = text.data ? strtok_r(text.data, "\n", &rest) : NULL; line;
             line = strtok_r(NULL, "\n", &rest))
                add_finding(kubelet, NB_KUBELET_DOUBT, "'%s': %s", kubelet->config, line)
                        ->is_contradiction = true;
}

/* kubelet's parser accepts more than ours: a file that is refused here may be valid for kubelet. */
static int parse_config(struct kubelet *kubelet, const struct nb_secret *file) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        struct nb_failure why = { 0 };
        int r = nb_yaml_parse(kubelet->config, file->data, file->len, NB_SETTINGS_INVALID, 1, &root,
                              &why);

        if (r == -ENOMEM)
                return r;
        if (r < 0 || !root || root->type != NB_YAML_MAPPING) {
                kubelet->is_config_unknown = true;
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            "kubelet's configuration '%s' cannot be read here%s%s", kubelet->config,
                            why.detail[0] ? ": " : "", why.detail);
                return 0;
        }
        kubelet->document = TAKE(root);
        add_finding(kubelet, NB_KUBELET_GOOD, "kubelet's configuration: '%s'", kubelet->config);
        check_k3s(kubelet);
        return 0;
}

/* If the newest start of the service could not read the file, another one fails in the same way
 * until the cause is removed. */
static bool add_failed_attempt(struct kubelet *kubelet) {
        const struct nb_last *last = kubelet->last;

        if (!last || !last->code[0] || !nb_last_is(last, NB_LAST_KEPT) ||
            (kubelet->refused != NB_NONE && nb_failure_find(last->code) != kubelet->refused))
                return false;
        add_finding(kubelet, NB_KUBELET_BAD, "%s", last->detail)->code = nb_failure_find(
                last->code);
        return true;
}

/* The service writes only this file, and reads it from the cluster at each start without it. */
static void add_missing_config(struct kubelet *kubelet) {
        const struct nb_settings *settings = kubelet->settings;
        bool is_written = !strcmp(kubelet->config, NB_KUBELET_CONFIG_PATH),
             is_wanted = is_written && settings->is_config_from_cluster,
             is_joined = access(settings->kubeconfig, F_OK) == 0, is_late = is_wanted && is_joined;

        if ((is_late || (is_written && is_joined && kubelet->refused != NB_NONE)) &&
            add_failed_attempt(kubelet))
                return;
        add_finding(kubelet, is_wanted && !is_late ? NB_KUBELET_GOOD : NB_KUBELET_BAD,
                    "kubelet's configuration '%s' is missing%s", kubelet->config,
                    is_late     ? ": `systemctl restart node-bootstrap.service` reads it from the "
                                  "cluster (kubelet.configFrom)"
                    : is_wanted ? ", and node-bootstrap.service will read it from the cluster "
                                  "(kubelet.configFrom)"
                    : !is_written ? ""
                    : is_joined || !kubelet->last
                            ? ": write it; or, once this machine has joined, run `node-bootstrap "
                              "setup - --kubelet-config-from=cluster --force --no-start`, paste "
                              "the join command again, and run `systemctl restart "
                              "node-bootstrap.service`, which reads it from the cluster "
                              "(kubelet.configFrom)"
                            : ": write it, or let `node-bootstrap setup - "
                              "--kubelet-config-from=cluster` "
                              "read it from the cluster (kubelet.configFrom)");
}

static int check_config(struct kubelet *kubelet) {
        _cleanup_(nb_secret_done) struct nb_secret file = NB_SECRET_INIT;
        int r;

        if (!nb_kubelet_find_argument(kubelet->arguments.data, "--config", kubelet->config,
                                      sizeof(kubelet->config)))
                return 0;
        r = nb_sources_read(kubelet->sources, kubelet->config, NB_KUBELET_CONFIG_MAX, &file, NULL);
        if (r == -ENOMEM)
                return r;
        if (r >= 0)
                return parse_config(kubelet, &file);
        kubelet->is_config_unknown = true;
        if (r != -ENOENT)
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            "kubelet's configuration '%s' cannot be read here: %s", kubelet->config,
                            strerror(-r));
        else
                add_missing_config(kubelet);
        return 0;
}

/* The flags win; the defaults are kubelet's (pkg/kubelet/apis/config/v1beta1/defaults.go). */
static void find_health(struct kubelet *kubelet) {
        const char *arguments = kubelet->arguments.data;
        char address[48], port[16], ignored[2], *end;
        struct in6_addr binary;
        unsigned long number;
        bool is_v6;

        /* Since 1.28, files in a directory may change the port as well. */
        if (!nb_kubelet_find_argument(arguments, "--healthz-port", ignored, sizeof(ignored)) &&
            (kubelet->is_config_unknown ||
             nb_kubelet_find_argument(arguments, "--config-dir", ignored, sizeof(ignored))))
                return;
        find_value(kubelet, "--healthz-port", "healthzPort", port, sizeof(port));
        find_value(kubelet, "--healthz-bind-address", "healthzBindAddress", address,
                   sizeof(address));
        if (!address[0])
                NB_TEXT_COPY(address, "127.0.0.1");
        number = strtoul(port[0] ? port : "10248", &end, 10);
        if (*end)
                return;
        is_v6 = inet_pton(AF_INET6, address, &binary) == 1;
        if (number > 0 && number <= UINT16_MAX &&
            (is_v6 || inet_pton(AF_INET, address, &binary) == 1))
                snprintf(kubelet->ret->health, sizeof(kubelet->ret->health),
                         is_v6 ? "[%s]:%lu" : "%s:%lu", address, number);
}

/* --- Container runtime and swap --- */

static void check_runtime(struct kubelet *kubelet) {
        const char *path, *scheme = "unix://";
        char endpoint[PATH_MAX];
        struct stat st;

        find_value(kubelet, NB_KUBELET_ENDPOINT, NB_KUBELET_ENDPOINT_KEY, endpoint,
                   sizeof(endpoint));
        if (!endpoint[0] && stat(DOCKER, &st) == 0 && stat(RUNTIME_SOCKET, &st) < 0) {
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            "container runtime: only Docker found, which kubelet supports up to "
                            "Kubernetes 1.23");
                return;
        }
        if (!endpoint[0])
                NB_TEXT_COPY(endpoint, RUNTIME_DEFAULT);
        path = strncmp(endpoint, scheme, strlen(scheme)) == 0 ? endpoint + strlen(scheme)
                                                              : endpoint;
        if (path[0] != '/')
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            "container runtime: '%s' is not a socket that can be checked",
                            endpoint);
        else if (stat(path, &st) < 0)
                add_finding(kubelet, errno == EACCES ? NB_KUBELET_DOUBT : NB_KUBELET_BAD,
                            "container runtime: socket '%s': %m: install and start the runtime, or "
                            "name its socket with kubelet.criSocket",
                            path);
        else if (!S_ISSOCK(st.st_mode))
                add_finding(kubelet, NB_KUBELET_BAD, "container runtime: '%s' is not a socket",
                            path);
        else
                add_finding(kubelet, NB_KUBELET_GOOD, "container runtime: '%s'", path);
}

/* The file has a heading and a line for each swap area. nb_sources_read() is not used because it
 * needs the size of a file, which files in /proc do not have. */
static bool is_swap_on(void) {
        char text[SWAPS_MAX];
        FILE *file = fopen(SWAPS, "re");
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

        if (file)
                (void)fclose(file);
        text[n] = '\0';
        return strchr(text + strcspn(text, "\n"), '/');
}

static void check_swap(struct kubelet *kubelet) {
        char value[16];

        if (!is_swap_on())
                return;
        find_value(kubelet, "--fail-swap-on", "failSwapOn", value, sizeof(value));
        if (!strcmp(value, "false"))
                add_finding(kubelet, NB_KUBELET_GOOD,
                            "swap is on, and kubelet accepts it (failSwapOn: false)");
        else if (kubelet->settings->is_config_from_cluster)
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            "swap is on: kubelet starts only if the cluster's configuration has "
                            "failSwapOn: false");
        else
                add_finding(kubelet, NB_KUBELET_BAD,
                            "swap is on, which kubelet refuses: run `swapoff --all` and remove "
                            "swap from /etc/fstab, or set failSwapOn: false in kubelet's "
                            "configuration");
}

/* --- Its name --- */

/* Whether its command takes a variable to which a join adds the name. */
static bool takes_name(const struct nb_unit *unit) {
        for (const char *word = NULL; (word = nb_unit_next(unit, NB_UNIT_COMMAND, word));)
                if (strstr(word, "KUBELET_KUBEADM_ARGS") || strstr(word, "KUBELET_NODE_NAME"))
                        return true;
        return false;
}

/* The API server rejects a kubelet whose name differs from the name in its certificate. */
static void check_name(struct kubelet *kubelet) {
        const struct nb_settings *settings = kubelet->settings;
        char host[HOST_NAME_MAX + 1], expected[NB_NODE_NAME_MAX + 1], name[NB_NODE_NAME_MAX + 1],
                argument[NB_NODE_NAME_MAX + 1];
        struct nb_failure ignored = { 0 };
        const char *chosen = settings->node_name;
        bool is_needed;

        /* Once this machine has joined, its name is fixed. */
        if (!chosen[0])
                chosen = nb_node_fixed_name(&kubelet->node);
        /* The name is known only to the join. */
        if (settings->metadata_node_name && !chosen[0])
                return;
        if (nb_sources_host_name(host, &ignored) < 0 ||
            nb_node_name_choose(chosen, host, expected, &is_needed, &ignored) < 0)
                return;
        if (nb_kubelet_find_argument(kubelet->arguments.data, "--hostname-override", argument,
                                     sizeof(argument))) {
                /* A join writes the name in the record, and a join again writes the new one. */
                if (!strpbrk(argument, "$%") &&
                    (nb_node_name_parse(argument, strlen(argument), name) < 0 ||
                     (strcmp(name, expected) != 0 &&
                      strcmp(name, kubelet->node.present.record.node) != 0)))
                        add_finding(kubelet, NB_KUBELET_DOUBT,
                                    "kubelet's --hostname-override is '%s', but a join requests a "
                                    "certificate for '%s': set node.name to '%s', or remove the "
                                    "argument",
                                    argument, expected, argument);
        } else if (is_needed && kubelet->arguments.len > 0 && !takes_name(kubelet->unit))
                add_finding(kubelet, NB_KUBELET_DOUBT,
                            NB_KUBELET_UNIT " uses the host name '%s', but kubelet's certificate "
                                            "is for '%s': add "
                                            "--hostname-override=${KUBELET_NODE_NAME} to the unit",
                            host, expected);
}

int nb_kubelet_check(struct nb_sources *sources, const struct nb_unit *unit,
                     const struct nb_settings *settings, enum nb_code refused,
                     const struct nb_last *last, struct nb_kubelet_findings *ret_findings) {
        struct kubelet kubelet = { .sources = sources,
                                   .unit = unit,
                                   .settings = settings,
                                   .refused = refused,
                                   .last = last,
                                   .arguments = NB_BUFFER_INIT(NB_KUBELET_ARGUMENTS_MAX),
                                   .ret = ret_findings };
        struct nb_failure ignored = { 0 };
        int r = 0;

        ret_findings->n = 0;
        ret_findings->health[0] = '\0';
        (void)nb_node_inspect_disk(-1, &kubelet.node, &ignored);
        if (check_unit(&kubelet)) {
                check_binary(&kubelet);
                r = read_arguments(&kubelet);
                if (r >= 0)
                        r = check_config(&kubelet);
                find_health(&kubelet);
        }
        if (r >= 0) {
                check_runtime(&kubelet);
                check_swap(&kubelet);
                check_name(&kubelet);
        }
        nb_yaml_freep(&kubelet.document);
        nb_node_done(&kubelet.node);
        nb_buffer_done(&kubelet.arguments);
        return r;
}

void nb_kubelet_print_causes(const struct nb_settings *settings) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };
        struct nb_sources sources = { 0 };
        struct nb_kubelet_findings found;

        if (nb_kubelet_show(&unit) < 0 ||
            nb_kubelet_check(&sources, &unit, settings, NB_NONE, NULL, &found) < 0)
                return;
        for (unsigned i = 0; i < found.n; i++)
                if (found.findings[i].state == NB_KUBELET_BAD || found.findings[i].is_contradiction)
                        printf("kubelet%s: %s\n",
                               found.findings[i].is_contradiction ? "" : " cannot start",
                               found.findings[i].text);
}

void nb_kubelet_print_next_boot(void) {
        _cleanup_(nb_unit_done) struct nb_unit unit = { 0 };

        if (nb_kubelet_show(&unit) >= 0 && is_left_at_boot(&unit))
                printf(LEFT_AT_BOOT "\n");
}
