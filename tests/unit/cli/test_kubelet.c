/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/text.h"
#include "cli/kubelet.h"
#include "folder.h"

/* In texts, '@' stands for the folder of the files. */
struct kubelet_case {
        const char *name;
        const char *load, *file; /* of the unit; NULL: loaded, enabled */
        const char *active;      /* NULL: inactive */
        const char *command;     /* words; NULL: the binary alone */
        const char *wanted_by;
        const char *config;     /* the file /config */
        const char *cri_socket; /* of the settings */
        mode_t mode;            /* of the binary; 0: 0755 */
        int state;              /* of the finding with this text */
        const char *text;
        const char *health; /* NULL: whatever */
};

#define BINARY "@/kubelet"
#define WITH_CONFIG BINARY " --config=@/config"

static struct kubelet_case cases[] = {
        { "enabled", .state = NB_KUBELET_GOOD, .text = "kubelet.service is enabled",
          .health = "127.0.0.1:10248" },
        { "masked", "masked", .state = NB_KUBELET_BAD, .text = "is masked: `systemctl unmask",
          .health = "" },
        { "not there", "not-found", .state = NB_KUBELET_BAD, .text = "does not exist" },
        { "damaged", "error", .state = NB_KUBELET_BAD, .text = "systemd cannot load" },
        { "disabled", .file = "disabled", .state = NB_KUBELET_BAD,
          .text = "is disabled: `systemctl enable --now" },
        { "disabled, but running", .file = "disabled", .active = "active",
          .state = NB_KUBELET_DOUBT, .text = "does not start at the next boot" },
        { "disabled, and wanted by another unit", .file = "disabled",
          .wanted_by = "multi-user.target", .state = NB_KUBELET_GOOD, .text = "is enabled" },
        { "disabled, and wanted by our gate alone", .file = "disabled", .wanted_by = NB_GATE_UNIT,
          .state = NB_KUBELET_BAD, .text = "is disabled" },
        { "a binary", .state = NB_KUBELET_GOOD, .text = "kubelet.service runs '" BINARY "'" },
        { "no binary", .command = "@/none", .state = NB_KUBELET_BAD,
          .text = "'@/none', which kubelet.service runs: No such file" },
        { "a binary that cannot be executed", .mode = 0644, .state = NB_KUBELET_BAD,
          .text = "is not executable" },
        { "a configuration", .command = WITH_CONFIG, .config = "healthzPort: 7\n",
          .state = NB_KUBELET_GOOD, .text = "kubelet's configuration: '@/config'",
          .health = "127.0.0.1:7" },
        { "a configuration without health", .command = WITH_CONFIG, .config = "healthzPort: 0\n",
          .state = NB_KUBELET_GOOD, .text = "kubelet's configuration: '@/config'", .health = "" },
        { "an argument before the configuration", .command = WITH_CONFIG " --healthz-port=8",
          .config = "healthzPort: 7\nhealthzBindAddress: '::1'\n", .state = NB_KUBELET_GOOD,
          .text = "kubelet's configuration: '@/config'", .health = "[::1]:8" },
        { "no configuration", .command = WITH_CONFIG, .state = NB_KUBELET_BAD,
          .text = "kubelet's configuration '@/config' is missing", .health = "" },
        { "a configuration that is no YAML", .command = WITH_CONFIG, .config = "{",
          .state = NB_KUBELET_DOUBT, .text = "cannot be read here: @/config" },
        { "a configuration that is no mapping", .command = WITH_CONFIG, .config = "[]",
          .state = NB_KUBELET_DOUBT, .text = "kubelet's configuration '@/config' cannot be read" },
        { "a runtime", .cri_socket = "unix://@/socket", .state = NB_KUBELET_GOOD,
          .text = "container runtime: '@/socket'" },
        { "no runtime", .cri_socket = "unix://@/none", .state = NB_KUBELET_BAD,
          .text = "container runtime: socket '@/none': No such file" },
        { "a file where the runtime should be", .cri_socket = "unix://" BINARY,
          .state = NB_KUBELET_BAD, .text = "'" BINARY "' is not a socket" },
        { "a runtime of the configuration", .command = WITH_CONFIG,
          .config = "containerRuntimeEndpoint: unix://@/socket\n", .state = NB_KUBELET_GOOD,
          .text = "container runtime: '@/socket'" },
        { "a runtime that is no socket", .cri_socket = "tcp://a:1", .state = NB_KUBELET_DOUBT,
          .text = "'tcp://a:1' is not a socket that can be checked" },
        { "another name", .command = BINARY " --hostname-override=other.example",
          .state = NB_KUBELET_DOUBT, .text = "--hostname-override is 'other.example', but a join" },
};

static struct folder folder;

static const char *expand(const char *text, char ret[static 1024]) {
        size_t n = 0;

        for (; *text; text++)
                if (*text == '@')
                        n += (size_t)snprintf(ret + n, 1024 - n, "%s", folder.path);
                else
                        ret[n++] = *text;
        ret[n] = '\0';
        return ret;
}

static void listen_at(const char *name) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder.path,
                             name) < (int)sizeof(address.sun_path));
        assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        (void)close(fd); /* the file stays */
}

static void add_words(struct nb_unit *unit, enum nb_unit_list list, const char *words) {
        char text[1024];

        unit->lists[list] = (struct nb_buffer)NB_BUFFER_INIT(1024);
        (void)expand(words, text);
        for (char *word = strtok(text, " "); word; word = strtok(NULL, " "))
                nb_buffer_append(&unit->lists[list], word, strlen(word) + 1);
}

static void prepare(const struct kubelet_case *c, struct nb_unit *unit,
                    struct nb_settings *settings) {
        char text[1024];

        folder_make(&folder);
        folder_put(&folder, "/kubelet", "");
        assert_int_equal(fchmodat(folder.fd, "kubelet", c->mode ? c->mode : 0755, 0), 0);
        listen_at("socket");
        if (c->config)
                folder_put(&folder, "/config", expand(c->config, text));
        NB_TEXT_COPY(unit->state.load, c->load ? c->load : "loaded");
        NB_TEXT_COPY(unit->state.file, c->file ? c->file : "enabled");
        NB_TEXT_COPY(unit->state.active, c->active ? c->active : "inactive");
        add_words(unit, NB_UNIT_COMMAND, c->command ? c->command : BINARY);
        if (c->wanted_by)
                add_words(unit, NB_UNIT_WANTED_BY, c->wanted_by);
        nb_settings_init(settings);
        NB_TEXT_COPY(settings->node_name, "a-name-of-no-machine");
        if (c->cri_socket)
                NB_TEXT_COPY(settings->cri_socket, expand(c->cri_socket, text));
}

static void checks_kubelet(void **state) {
        const struct kubelet_case *c = *state;
        struct nb_kubelet_findings found;
        struct nb_sources sources = { 0 };
        struct nb_last last = { 0 };
        struct nb_settings settings;
        struct nb_unit unit = { 0 };
        const struct nb_kubelet_finding *finding = NULL;
        char text[1024];

        prepare(c, &unit, &settings);
        assert_int_equal(nb_kubelet_check(&sources, &unit, &settings, NB_NONE, &last, &found), 0);
        (void)expand(c->text, text);
        for (unsigned i = 0; i < found.n && !finding; i++)
                if (strstr(found.findings[i].text, text))
                        finding = &found.findings[i];
        if (!finding) {
                fail_msg("'%s' is not found", text);
                return;
        }
        assert_int_equal(finding->state, c->state);
        if (c->state == NB_KUBELET_BAD)
                assert_int_equal(finding->code, NB_KUBELET_UNPREPARED);
        if (c->health)
                assert_string_equal(found.health, c->health);
        nb_unit_done(&unit);
        folder_remove(&folder);
}

int main(void) {
        CASES(cases, checks_kubelet);
        return case_run("cli kubelet");
}
