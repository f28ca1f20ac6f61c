/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "case.h"
#include "cli/setup/setup_internal.h"

#define OURS "/etc/node-bootstrap/config.yaml.d/50-setup.yaml"
#define SITE "/etc/node-bootstrap/config.yaml"
#define PIN_A "'sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'"
#define PIN_B "'sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'"
#define TOKEN "abcdef.0123456789abcdef"

static void merge(struct nb_settings *settings, const char *origin, const char *text) {
        const struct nb_settings_source source = { .origin = origin };
        struct nb_failure f = { 0 };
        char document[2048];
        int len = snprintf(document, sizeof(document),
                           "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n%s\n", text);

        assert_int_equal(nb_settings_merge(settings, &source, document, (size_t)len, &f), 0);
}

/* --- Whether a machine has what is wanted --- */

struct force_row {
        const char *name, *wanted, *found;
        bool is_cluster_same, expected;
};

static struct force_row force_rows[] = {
        { "nothing is wanted", "", "node: {name: a}", false, true },
        { "the same endpoint", "discovery: {endpoints: [a]}", "discovery: {endpoints: [a]}", false,
          true },
        { "one of several endpoints", "discovery: {endpoints: [b]}",
          "discovery: {endpoints: [a, b, c]}", false, true },
        { "another port", "discovery: {endpoints: ['b:1']}", "discovery: {endpoints: [a, b]}", true,
          false },
        { "another endpoint", "discovery: {endpoints: [c]}", "discovery: {endpoints: [a, b]}", true,
          false },
        { "one endpoint more", "discovery: {endpoints: [a, c]}", "discovery: {endpoints: [a]}",
          true, false },
        { "an endpoint where there is none", "discovery: {endpoints: [a]}", "", false, false },
        { "an endpoint of the same cluster where there is none", "discovery: {endpoints: [a]}", "",
          true, true },
        { "one of several pins", "discovery: {caCertHashes: [" PIN_B "]}",
          "discovery: {caCertHashes: [" PIN_A ", " PIN_B "]}", false, true },
        { "another pin", "discovery: {caCertHashes: [" PIN_B "]}",
          "discovery: {caCertHashes: [" PIN_A "]}", true, false },
        { "a pin of the same cluster where there is none", "discovery: {caCertHashes: [" PIN_A "]}",
          "", true, true },
        { "no verification of the same cluster", "discovery: {unsafeSkipCAVerification: true}", "",
          true, true },
        { "no verification, which is refused here", "discovery: {unsafeSkipCAVerification: true}",
          "discovery: {unsafeSkipCAVerification: false}", true, false },
        { "the default", "refresh: {restartKubelet: false}", "", false, true },
        { "a name where there is none", "node: {name: a}", "", true, false },
        { "another name", "node: {name: a}", "node: {name: b}", true, false },
};

static void finds_what_is_in_force(void **state) {
        const struct force_row *row = *state;
        struct nb_settings wanted, found;

        nb_settings_init(&wanted);
        nb_settings_init(&found);
        merge(&wanted, NB_SETUP_ORIGIN, row->wanted);
        merge(&found, OURS, row->found);
        assert_int_equal(nb_setup_is_in_force(&wanted, &found, row->is_cluster_same),
                         row->expected);
}

/* --- Settings that differ --- */

struct setting_row {
        const char *name;
        const char *site, *ours; /* the documents of this machine; `ours` NULL: there is none */
        const char *wanted;
        const char *later; /* a document that takes precedence; NULL: none */
        enum { WAITS, NEVER_JOINED, JOINED } machine;
        bool has_token;
        const char *expected; /* differences, or the failure */
        unsigned n_kept;
};

static struct setting_row setting_rows[] = {
        { "on a fresh machine", "", NULL, "discovery: {endpoints: [a]}", NULL, NEVER_JOINED, true,
          "", 0 },
        { "the same", "", "discovery: {endpoints: [a]}", "discovery: {endpoints: [a]}", NULL, WAITS,
          true, "", 0 },
        { "another endpoint", "", "discovery: {endpoints: [a]}", "discovery: {endpoints: [b]}",
          NULL, WAITS, true, "discovery.endpoints: [\"a:6443\"] -> [\"b:6443\"]\n", 1 },
        { "fewer endpoints", "", "discovery: {endpoints: [a, b]}", "discovery: {endpoints: [b]}",
          NULL, JOINED, false, "discovery.endpoints: [\"a:6443\", \"b:6443\"] -> [\"b:6443\"]\n",
          1 },
        { "a setting more", "", "discovery: {endpoints: [a]}",
          "discovery: {endpoints: [a]}\nnode: {name: x}", NULL, WAITS, true,
          "node.name: (not set) -> \"x\"\n", 1 },
        { "a setting less", "", "discovery: {endpoints: [a]}\nnode: {name: x}",
          "discovery: {endpoints: [a]}", NULL, WAITS, true, "node.name: \"x\" -> (not set)\n", 1 },
        { "in the order of the table", "", "node: {name: x}\ndiscovery: {endpoints: [a]}",
          "node: {name: y}\ndiscovery: {endpoints: [b]}", NULL, WAITS, true,
          "discovery.endpoints: [\"a:6443\"] -> [\"b:6443\"]\nnode.name: \"x\" -> \"y\"\n", 2 },
        { "kubelet's configuration only adds a file", "", "discovery: {endpoints: [a]}",
          "discovery: {endpoints: [a]}\nkubelet: {configFrom: cluster}", NULL, WAITS, true, "", 0 },
        { "but not on a machine that has joined", "", "discovery: {endpoints: [a]}",
          "discovery: {endpoints: [a]}\nkubelet: {configFrom: cluster}", NULL, JOINED, false,
          "kubelet.configFrom: (not set) -> cluster\n", 1 },
        { "a line after a wrong one", "", "discovery: {endpoints: [a]}\nnode: {name: x}",
          "discovery: {endpoints: [b]}", NULL, NEVER_JOINED, true,
          "discovery.endpoints: [\"a:6443\"] -> [\"b:6443\"]\nnode.name: \"x\" -> (not set)\n", 0 },
        { "a line without a token", "", "discovery: {endpoints: [a]}",
          "discovery: {endpoints: [b]}", NULL, NEVER_JOINED, false,
          "discovery.endpoints: [\"a:6443\"] -> [\"b:6443\"]\n", 1 },
        { "no line after one", "", "node: {name: x}", "node: {name: y}", NULL, NEVER_JOINED, true,
          "node.name: \"x\" -> \"y\"\n", 1 },
        { "a value that somebody else wrote", "node: {name: x}", NULL,
          "discovery: {endpoints: [b]}\nnode: {name: y}", NULL, NEVER_JOINED, true,
          "node.name: \"x\" -> \"y\"\n", 1 },
        { "a value that takes precedence", "", NULL, "node: {name: x}", "node: {name: z}", WAITS,
          true, "node.name on the command line is overridden by z.yaml, which takes precedence",
          0 },
};

static void list(const struct nb_setup_plan *plan, char *ret, size_t size) {
        size_t len = 0;

        ret[0] = '\0';
        for (unsigned i = 0; i < plan->n_differences; i++)
                len += (size_t)snprintf(ret + len, size - len, "%s: %s -> %s\n",
                                        plan->differences[i].what, plan->differences[i].before,
                                        plan->differences[i].after);
}

static void compares_settings(void **state) {
        const struct setting_row *row = *state;
        struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        struct nb_setup_found found = { .path = OURS,
                                        .is_joined = row->machine == JOINED,
                                        .has_never_joined = row->machine == NEVER_JOINED };
        struct nb_setup_wanted wanted = { .is_json = false };
        char text_of_token[] = TOKEN;
        const struct nb_secret token = { .data = text_of_token, .len = strlen(TOKEN) };
        struct nb_failure f = { 0 };
        char text[1024];
        int r;

        nb_settings_init(&wanted.settings);
        nb_settings_init(&found.settings);
        nb_settings_init(&plan.settings);
        merge(&wanted.settings, NB_SETUP_ORIGIN, row->wanted);
        merge(&found.settings, SITE, row->site);
        merge(&plan.settings, SITE, row->site);
        if (row->ours) {
                merge(&found.settings, OURS, row->ours);
                assert_int_equal(nb_secret_copy(&found.document, row->ours, strlen(row->ours)), 0);
        }
        merge(&plan.settings, OURS, row->wanted);
        nb_settings_format(&wanted.settings, &plan.document);
        if (row->later)
                merge(&plan.settings, "z.yaml", row->later);
        if (row->has_token)
                plan.secrets[NB_CREDENTIAL_TOKEN] = &token;
        r = nb_setup_compare_settings(&wanted, &found, &plan, &f);
        list(&plan, text, sizeof(text));
        assert_string_equal(r < 0 ? f.detail : text, row->expected);
        assert_int_equal(f.code, r < 0 ? NB_USAGE : NB_NONE);
        assert_int_equal(plan.n_kept, row->n_kept);
        nb_setup_plan_done(&plan);
        nb_secret_done(&found.document);
}

/* --- Credentials --- */

struct secret_row {
        const char *name;
        const char *stored;
        int r; /* of reading it */
        const char *new;
        bool is_delivered, is_another_new;
        enum nb_setup_step step;
        const char *expected; /* the difference, or the beginning of the failure */
        enum nb_code code;
};

static struct secret_row secret_rows[] = {
        { "none, and no new one", NULL, -ENOENT, NULL, false, false, NB_SETUP_KEEP, "", 0 },
        { "a new one", NULL, -ENOENT, TOKEN, false, false, NB_SETUP_WRITE, "", 0 },
        { "the same", TOKEN, 0, TOKEN, false, false, NB_SETUP_KEEP, "", 0 },
        { "the same with a newline", TOKEN "\r\n", 0, TOKEN, false, false, NB_SETUP_KEEP, "", 0 },
        { "another token", "ghijkl.0123456789abcdef", 0, TOKEN, false, false, NB_SETUP_WRITE,
          "credential node-bootstrap.token: token ghijkl -> token abcdef\n", 0 },
        { "another secret", "abcdef.fedcba9876543210", 0, TOKEN, false, false, NB_SETUP_WRITE,
          "credential node-bootstrap.token: token abcdef -> token abcdef, with another secret\n",
          0 },
        { "no token", "secret", 0, TOKEN, false, false, NB_SETUP_WRITE,
          "credential node-bootstrap.token: a token of another form -> token abcdef\n", 0 },
        { "an encrypted one", NULL, -EKEYREJECTED, TOKEN, false, false, NB_SETUP_WRITE,
          "credential node-bootstrap.token: an encrypted value -> token abcdef\n", 0 },
        { "a damaged one", NULL, -EBADF, TOKEN, false, false, NB_SETUP_WRITE,
          "credential node-bootstrap.token: none -> token abcdef\n", 0 },
        { "no new one", TOKEN, 0, NULL, false, false, NB_SETUP_KEEP, "", 0 },
        { "a new one of another method", TOKEN, 0, NULL, false, true, NB_SETUP_REMOVE,
          "credential node-bootstrap.token: token abcdef -> none\n", 0 },
        { "a damaged one, and no new one", NULL, -EBADF, NULL, false, false, NB_SETUP_KEEP,
          "cannot read '/etc/credstore/node-bootstrap.token': ", NB_SETTINGS_UNREADABLE },
        { "one that cannot be read", NULL, -EIO, TOKEN, false, false, NB_SETUP_KEEP,
          "cannot read '/etc/credstore/node-bootstrap.token': ", NB_SETTINGS_UNREADABLE },
        { "one of the boot", NULL, -ENOENT, TOKEN, true, false, NB_SETUP_KEEP,
          "this machine was booted with a credential node-bootstrap.token, which takes precedence",
          NB_USAGE },
        { "one of the boot, and no new one", NULL, -ENOENT, NULL, true, false, NB_SETUP_KEEP, "",
          0 },
};

static void compares_secret(void **state) {
        const struct secret_row *row = *state;
        struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        struct nb_setup_found found = { .is_joined = false };
        struct nb_setup_credential *credential = &found.credentials[NB_CREDENTIAL_TOKEN];
        char text_of_new[] = TOKEN;
        const struct nb_secret new = { .data = text_of_new, .len = strlen(TOKEN) };
        struct nb_failure f = { 0 };
        char text[1024];
        int r;

        credential->r = row->r;
        credential->is_delivered = row->is_delivered;
        if (row->stored)
                assert_int_equal(
                        nb_secret_copy(&credential->stored, row->stored, strlen(row->stored)), 0);
        if (row->new)
                plan.secrets[NB_CREDENTIAL_TOKEN] = &new;
        if (row->is_another_new)
                plan.secrets[NB_CREDENTIAL_KUBECONFIG] = &new;
        r = nb_setup_compare_secret(&found, NB_CREDENTIAL_TOKEN, &plan, &f);
        list(&plan, text, sizeof(text));
        assert_int_equal(f.code, row->code);
        if (r < 0)
                assert_memory_equal(f.detail, row->expected, strlen(row->expected));
        else
                assert_string_equal(text, row->expected);
        assert_int_equal(plan.steps[NB_CREDENTIAL_TOKEN], row->step);
        assert_int_equal(plan.is_changed, row->step != NB_SETUP_KEEP);
        nb_setup_plan_done(&plan);
        nb_secret_done(&credential->stored);
}

/* --- The order --- */

#define STORE NB_SETUP_STORE "/node-bootstrap."
#define ENCRYPTED NB_SETUP_STORE_ENCRYPTED "/node-bootstrap."

struct order_row {
        const char *name;
        enum nb_setup_step token, kubeconfig;
        const char *document; /* NULL: it stays; "": it is removed */
        const char *expected;
};

static struct order_row order_rows[] = {
        { "nothing", NB_SETUP_KEEP, NB_SETUP_KEEP, NULL, "" },
        { "only settings", NB_SETUP_KEEP, NB_SETUP_KEEP, "x", "write " OURS "\n" },
        { "only a token", NB_SETUP_WRITE, NB_SETUP_KEEP, NULL,
          "write " STORE "token\nremove " ENCRYPTED "token\n" },
        { "both: the old token goes before the settings change", NB_SETUP_WRITE, NB_SETUP_KEEP, "x",
          "remove " STORE "token\nremove " ENCRYPTED "token\nwrite " OURS "\nwrite " STORE
          "token\n" },
        { "a token instead of a kubeconfig: the old one goes last", NB_SETUP_WRITE, NB_SETUP_REMOVE,
          NULL,
          "write " STORE "token\nremove " ENCRYPTED "token\nremove " STORE
          "kubeconfig\nremove " ENCRYPTED "kubeconfig\n" },
        { "the same with new settings: it goes first", NB_SETUP_WRITE, NB_SETUP_REMOVE, "x",
          "remove " STORE "token\nremove " ENCRYPTED "token\nremove " STORE
          "kubeconfig\nremove " ENCRYPTED "kubeconfig\nwrite " OURS "\nwrite " STORE "token\n" },
        { "everything is removed", NB_SETUP_REMOVE, NB_SETUP_REMOVE, "",
          "remove " STORE "token\nremove " ENCRYPTED "token\nremove " STORE
          "kubeconfig\nremove " ENCRYPTED "kubeconfig\nremove " OURS "\n" },
};

static void orders(void **state) {
        const struct order_row *row = *state;
        const struct nb_setup_wanted wanted = { .config_directory = NB_CONFIG_DIRECTORY };
        struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        char text_of_token[] = TOKEN;
        const struct nb_secret token = { .data = text_of_token, .len = strlen(TOKEN) };
        char text[2048] = "";
        size_t len = 0;

        plan.secrets[NB_CREDENTIAL_TOKEN] = &token;
        plan.steps[NB_CREDENTIAL_TOKEN] = row->token;
        plan.steps[NB_CREDENTIAL_KUBECONFIG] = row->kubeconfig;
        plan.is_document_new = row->document != NULL;
        if (row->document)
                nb_buffer_append_string(&plan.document, row->document);
        nb_setup_order(&wanted, &plan);
        for (unsigned i = 0; i < plan.n_changes; i++) {
                const struct nb_setup_change *change = &plan.changes[i];
                bool is_secret = strcmp(change->folder, NB_SETUP_STORE) == 0;

                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s %s/%s\n",
                                        change->action == NB_SETUP_ACTION_WRITE ? "write"
                                                                                : "remove",
                                        change->folder, change->name);
                if (change->action == NB_SETUP_ACTION_WRITE)
                        assert_int_equal(change->mode, is_secret ? 0600 : 0644);
        }
        assert_string_equal(text, row->expected);
        nb_setup_plan_done(&plan);
}

/* --- The service --- */

struct service_row {
        const char *name;
        const char *active; /* as systemd says */
        bool is_joined, is_kubeconfig_lost, is_flags_file_due, is_changed, is_start_unwanted;
        const char *expected; /* in parentheses: already so */
        enum nb_code obstacle;
};

static struct service_row service_rows[] = {
        { "a stopped service", "inactive", .is_changed = true, .expected = "enable start" },
        { "a failed one, with the same settings", "failed", .expected = "enable start" },
        { "no start is wanted", "inactive", .is_changed = true, .is_start_unwanted = true,
          .expected = "enable" },
        { "one that joins, with the same settings", "activating", .expected = "enable (start)" },
        { "one that joins, with other settings", "activating", .is_changed = true,
          .expected = "enable restart" },
        { "one whose machine must join again", "active", .expected = "enable restart" },
        { "one whose machine has joined", "active", .is_joined = true, .is_changed = true,
          .expected = "enable" },
        { "one whose machine lacks its kubeconfig", "active", .is_joined = true,
          .is_kubeconfig_lost = true, .expected = "enable reload" },
        { "one whose machine gets other arguments", "active", .is_joined = true,
          .is_flags_file_due = true, .expected = "enable reload" },
        { "one that is masked", "inactive", .is_changed = true, .expected = "",
          .obstacle = NB_UNIT_MASKED },
        { "one that does not exist", "inactive", .is_changed = true, .expected = "",
          .obstacle = NB_UNIT_MISSING },
        { "one that has another obstacle, which the changes may remove", "failed",
          .is_changed = true, .expected = "enable start", .obstacle = NB_TOKEN_MISSING },
};

static const char *const action_names[_NB_SETUP_ACTION_N] = {
        "create", "write", "remove", "enable", "start", "restart", "reload",
};

static void list_jobs(const struct service_row *row, char *ret, size_t size) {
        const struct nb_setup_wanted wanted = { .is_start_unwanted = row->is_start_unwanted };
        static struct nb_setup_found found;
        static struct nb_setup_plan plan = NB_SETUP_PLAN_INIT;
        struct nb_failure f = { 0 };
        size_t len = 0;
        int r;

        if (row->obstacle != NB_NONE)
                (void)nb_failure_set(&found.state.obstacle, row->obstacle, 0, "the reason");
        found.is_joined = row->is_joined;
        found.state.kind = row->is_kubeconfig_lost ? NB_MACHINE_WITHOUT_KUBECONFIG
                                                   : NB_MACHINE_JOINED;
        plan.is_flags_file_due = row->is_flags_file_due;
        plan.is_changed = row->is_changed;
        (void)snprintf(plan.service.active, sizeof(plan.service.active), "%s", row->active);
        r = nb_setup_plan_service(&wanted, &found, &plan, &f);
        for (unsigned i = 0; i < plan.n_changes; i++) {
                const struct nb_setup_change *change = &plan.changes[i];

                len += (size_t)snprintf(ret + len, size - len,
                                        change->is_already_so ? "%s(%s)" : "%s%s", i > 0 ? " " : "",
                                        action_names[change->action]);
        }
        /* Nothing is written if systemd cannot start it. */
        if (r < 0 && (f.code != row->obstacle || !strstr(f.detail, "the reason; nothing was ")))
                (void)snprintf(ret + len, size - len, "%s", f.detail);
}

/* Without systemd, as in an image, so that the test says what it would answer. */
static void plans_service(void **state) {
        const struct service_row *row = *state;
        char root[] = "/tmp/nb-setup-XXXXXX", text[256] = "";
        int status;
        pid_t pid;

        assert_non_null(mkdtemp(root));
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if ((geteuid() != 0 && unshare(CLONE_NEWUSER) < 0) || chroot(root) < 0 ||
                    chdir("/") < 0)
                        _exit(2);
                list_jobs(row, text, sizeof(text));
                _exit(strcmp(text, row->expected) != 0 && fprintf(stderr, "%s\n", text) > 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(rmdir(root), 0);
        assert_int_equal(status, 0);
}

int main(void) {
        CASES(force_rows, finds_what_is_in_force);
        CASES(setting_rows, compares_settings);
        CASES(secret_rows, compares_secret);
        CASES(order_rows, orders);
        CASES(service_rows, plans_service);
        return case_run("setup_plan");
}
