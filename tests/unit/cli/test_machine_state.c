/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/text.h"
#include "cli/machine_state.h"
#include "cli/status/renewal.h"
#include "lookup.h"
#include "pki.h"
#include "systemd/log.h"

#define PKI_FOLDER "/var/lib/kubelet/pki"
#define DATED PKI_FOLDER "/kubelet-client-2026-01-01-00-00-00.pem"
#define CURRENT PKI_FOLDER "/kubelet-client-current.pem"
#define KUBECONFIG "/etc/kubernetes/kubelet.conf"
#define CA_FILE "/etc/kubernetes/pki/ca.crt"
#define SETTINGS \
        "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n" \
        "discovery: {endpoints: ['a:1'], unsafeSkipCAVerification: true}\n"
#define CONFIG \
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n" \
        "contexts: [{name: c, context: {cluster: k, user: u}}]\n" \
        "clusters: [{name: k, cluster: {server: 'https://10.0.0.1:6443', " \
        "certificate-authority: " CA_FILE \
        "}}]\nusers: [{name: u, user: {client-certificate: " CURRENT ", client-key: " CURRENT \
        "}}]\n"

static struct pki_cert ca, valid, expired, future;

/* --- Pure --- */

struct kind_case {
        const char *name;
        enum nb_machine_kind kind;
        enum nb_node_state found;
        bool is_usable;
        int exit_status, exit_ignored; /* with --ignore-kubelet */
        bool is_joining;
};

static struct kind_case kinds[] = {
        { "joined", NB_MACHINE_JOINED, NB_NODE_STATE_USABLE, true, 0, 0, false },
        { "kubelet-stopped", NB_MACHINE_KUBELET_STOPPED, NB_NODE_STATE_USABLE, true, 4, 0, false },
        { "kubelet-crashing", NB_MACHINE_KUBELET_CRASHING, NB_NODE_STATE_USABLE, true, 4, 0,
          false },
        { "kubelet-unknown", NB_MACHINE_KUBELET_UNKNOWN, NB_NODE_STATE_USABLE, true, 5, 0, false },
        { "without-kubeconfig", NB_MACHINE_WITHOUT_KUBECONFIG, NB_NODE_STATE_WITHOUT_KUBECONFIG,
          false, 4, 4, false },
        { "not-yet-valid", NB_MACHINE_NOT_YET_VALID, NB_NODE_STATE_NOT_YET_VALID, false, 2, 2,
          false },
        { "expired", NB_MACHINE_EXPIRED, NB_NODE_STATE_EXPIRED, false, 2, 2, true },
        { "waiting", NB_MACHINE_WAITING, NB_NODE_STATE_EXPIRED, false, 2, 2, true },
        { "waiting", NB_MACHINE_WAITING, NB_NODE_STATE_ABSENT, false, 1, 1, true },
        { "queued", NB_MACHINE_QUEUED, NB_NODE_STATE_USABLE, true, 4, 0, false },
        { "queued", NB_MACHINE_QUEUED, NB_NODE_STATE_ABSENT, false, 1, 1, true },
        { "joined", NB_MACHINE_JOINED, NB_NODE_STATE_OTHER_NODE, true, 0, 0, true },
        { "not-joined", NB_MACHINE_NOT_JOINED, NB_NODE_STATE_ABSENT, false, 1, 1, true },
        { "unknown", NB_MACHINE_HIDDEN, NB_NODE_STATE_UNREADABLE, false, 5, 5, false },
};

static void kinds_have_names_and_exit_statuses(void **state) {
        const struct kind_case *c = *state;
        const struct nb_machine_state machine = { .kind = c->kind,
                                                  .node.inspection.state = c->found,
                                                  .is_certificate_usable = c->is_usable };

        assert_string_equal(nb_machine_kind_name(c->kind), c->name);
        assert_int_equal(nb_machine_exit_status(&machine, false), c->exit_status);
        assert_int_equal(nb_machine_exit_status(&machine, true), c->exit_ignored);
        assert_int_equal(nb_machine_is_joining(&machine), c->is_joining);
}

/* In days after PKI_NOW; `since` 0: not overdue. */
static enum nb_code overdue_since(struct nb_machine_state *machine, double now, int since) {
        struct nb_renewal found;

        machine->node.now = PKI_NOW + (time_t)(now * PKI_DAY);
        found = nb_renewal_judge(machine);
        assert_int_equal(found.overdue_since, since == 0 ? 0 : PKI_NOW + since * PKI_DAY);
        assert_int_equal(found.reason[0] != '\0', since > 0);
        return found.code;
}

/* kubelet, from 70 % of the validity; with k3s the refresh, when a third is left since the join. */
static void somebody_renews(void **state) {
        struct nb_machine_state machine = { .kind = NB_MACHINE_JOINED };
        struct nb_present *present = &machine.node.present;
        struct pki_cert cert = pki_make(&(struct pki_options){
                .dn = "CN=a", .not_before = PKI_NOW, .not_after = PKI_NOW + 10 * PKI_DAY });

        assert_int_equal(nb_certificates_parse(cert.pem, strlen(cert.pem), false, &present->chain),
                         0);
        assert_int_equal(nb_renewal_judge(&machine).from, PKI_NOW + 7 * PKI_DAY);
        assert_int_equal(nb_renewal_judge(&machine).until, PKI_NOW + 9 * PKI_DAY);
        overdue_since(&machine, 0, 0);
        overdue_since(&machine, 9, 0);
        overdue_since(&machine, 9.1, 7);
        overdue_since(&machine, 10.1, 0);
        present->has_record = true;
        NB_TEXT_COPY(present->record.join_method, "cacerts");
        NB_TEXT_COPY(present->record.joined_at, "2027-01-16T08:00:00Z");
        assert_int_equal(nb_renewal_judge(&machine).from, PKI_NOW + 7 * PKI_DAY);
        assert_int_equal(nb_renewal_judge(&machine).until, PKI_NOW + 10 * PKI_DAY);
        overdue_since(&machine, 8.4, 0);
        assert_int_equal(overdue_since(&machine, 8.6, 7), NB_NONE);
        NB_TEXT_COPY(present->record.renewal_failure, "node-deleted");
        assert_int_equal(overdue_since(&machine, 7.1, 7), NB_NODE_DELETED);
        NB_TEXT_COPY(present->record.renewal_failed_at, "2027-01-16T08:00:00Z");
        assert_int_equal(overdue_since(&machine, 2, 1), NB_NODE_DELETED);
        NB_TEXT_COPY(present->record.joined_at, "2027-01-19T08:00:00Z");
        assert_int_equal(nb_renewal_judge(&machine).from, PKI_NOW + 8 * PKI_DAY);
        nb_machine_adopt_fields(&machine);
        assert_string_equal(nb_field_value(NB_FIELD_CLUSTER), "k3s");
        nb_log_field(NB_FIELD_CLUSTER, NULL);
        machine.why.code = NB_MACHINE_COPIED;
        NB_TEXT_COPY(machine.node.inspection.node, "n");
        nb_machine_adopt_fields(&machine);
        assert_string_equal(nb_field_value(NB_FIELD_NODE), "n");
        nb_certificates_free(present->chain);
        present->chain = NULL;
        nb_machine_state_done(&machine);
        pki_done(&cert);
}

/* --- A machine, which is a folder --- */

struct machine_case {
        const char *name;
        const struct pki_cert *cert; /* NULL: none */
        bool is_kubeconfig_lost;
        const char *name_wanted; /* node.name in the settings */
        struct nb_unit_state service, kubelet, gate;
        const char *expected; /* "kind code: a part of the sentence" */
};

#define ACTIVE .load = "loaded", .active = "active", .sub = "running"
#define INACTIVE .load = "loaded", .active = "inactive", .sub = "dead"
#define DEAD(status) \
        .load = "loaded", .active = "failed", .sub = "failed", .result = "exit-code", \
        .exit_code = CLD_EXITED, .exit_status = status

static struct machine_case machines[] = {
        { "machine: never joined", .expected = "not-joined none: not joined: " },
        { "machine: a join is under way",
          .service = { .load = "loaded", .active = "activating", .status = "Looking" },
          .expected = "waiting none: : Looking" },
        { "machine: the service has failed", .service = { DEAD(69), .status = "No token" },
          .expected = "failed none: No token" },
        { "machine: the service cannot start", .service = { DEAD(243) }, .gate = { ACTIVE },
          .expected = "failed service-credential: (243/CREDENTIALS)" },
        { "machine: the service is queued", .service = { INACTIVE, .has_job = true },
          .expected = "queued none: is queued behind another unit" },
        { "machine: joined, and kubelet is not asked for", &valid,
          .expected = "kubelet-unknown none: systemd does not answer" },
        { "machine: kubelet is stopped", &valid, .service = { ACTIVE }, .kubelet = { INACTIVE },
          .gate = { INACTIVE }, .expected = "kubelet-unprepared kubelet-unprepared: cannot start" },
        { "machine: kubelet is running", &valid, .service = { ACTIVE }, .kubelet = { ACTIVE },
          .expected = "joined none: and kubelet is running" },
        { "machine: expired", &expired, .service = { INACTIVE },
          .expected = "expired join-needed: not joined: " },
        { "machine: expired, and a join is under way", &expired,
          .service = { .load = "loaded", .active = "activating", .status = "Looking" },
          .expected = "waiting none: the client certificate expired at " },
        { "machine: the clock is wrong", &future, .service = { INACTIVE },
          .expected = "not-yet-valid not-yet-valid: clock is wrong" },
        { "machine: no kubeconfig, and no record", &valid, .is_kubeconfig_lost = true,
          .service = { INACTIVE }, .expected = "unusable join-needed: not joined: " },
        { "machine: another name is wanted", &valid, .name_wanted = "b",
          .expected = "kubelet-unknown none: joins again at its next start" },
        { "machine: masked", .service = { .load = "masked", .active = "inactive" },
          .expected = "failed unit-masked: node-bootstrap.service is masked" },
};

static void put_machine(const struct machine_case *c, struct folder *folder) {
        char text[512], *pem;

        folder_make(folder);
        (void)snprintf(text, sizeof(text), SETTINGS "%s%s%s", c->name_wanted ? "node: {name: " : "",
                       c->name_wanted ? c->name_wanted : "", c->name_wanted ? "}\n" : "");
        folder_put(folder, "/settings/config.yaml", text);
        if (!c->cert)
                return;
        pem = PKI_JOIN(c->cert->pem, c->cert->key_pem);
        folder_put(folder, DATED, pem);
        folder_link(folder, CURRENT, DATED);
        folder_put(folder, CA_FILE, ca.pem);
        if (!c->is_kubeconfig_lost)
                folder_put(folder, KUBECONFIG, CONFIG);
        free(pem);
}

/* In a chroot(2), so that nothing of this machine is read. */
static void judge_in(const struct machine_case *c, const struct folder *folder, int fd) {
        struct nb_sources sources = { .config_directory = "/settings" };
        struct nb_machine_units units = { .service.state = c->service,
                                          .kubelet.state = c->kubelet,
                                          .gate = c->gate };
        struct nb_machine_state state;

        if (chroot(folder->path) < 0 || chdir("/") < 0)
                _exit(77);
        if (nb_machine_judge(&sources, &units, &state) < 0)
                _exit(1);
        nb_machine_apply_settings(&state, &sources);
        (void)dprintf(fd, "%s %s: %s", nb_machine_kind_name(state.kind),
                      nb_failure_info(state.why.code)->slug, state.why.detail);
        nb_machine_state_done(&state);
        nb_machine_units_done(&units);
        /* Without systemd, as here, nothing is known about units. */
        nb_machine_units_read(&units);
        if (units.service.state.active[0] || units.kubelet.state.load[0] ||
            nb_machine_look(&sources, false, &state) < 0 || state.service.active[0])
                _exit(2);
        nb_machine_state_done(&state);
        _exit(sources.credentials_directory || sources.stores[0] ? 3 : 0);
}

static void judges_machine(void **state) {
        const struct machine_case *c = *state;
        char text[1024] = "", head[128];
        const char *part = strstr(c->expected, ": ") + 2;
        struct folder folder;
        int fds[2], status;
        pid_t pid;

        folder_skip_without_lookup();
        if (geteuid() != 0)
                skip();
        put_machine(c, &folder);
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0)
                judge_in(c, &folder, fds[1]);
        (void)close(fds[1]);
        (void)!read(fds[0], text, sizeof(text) - 1);
        (void)close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        (void)snprintf(head, sizeof(head), "%.*s", (int)(part - c->expected), c->expected);
        if (strncmp(text, head, strlen(head)) != 0 || !strstr(text, part))
                fail_msg("expected '%s', found '%s'", c->expected, text);
        folder_remove(&folder);
}

static struct pki_cert make_node(time_t begin, time_t end) {
        return pki_make(&(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                               .issuer = &ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) + begin,
                                               .not_after = time(NULL) + end });
}

int main(void) {
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        valid = make_node(-PKI_DAY, PKI_DAY);
        expired = make_node(-2 * PKI_DAY, -PKI_DAY);
        future = make_node(PKI_DAY, 2 * PKI_DAY);
        CASES(kinds, kinds_have_names_and_exit_statuses);
        CASE(somebody_renews);
        CASES(machines, judges_machine);
        return case_run("cli machine state");
}
