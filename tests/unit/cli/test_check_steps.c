/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/text.h"
#include "cli/check/check_internal.h"
#include "cloud_script.h"
#include "lookup.h"
#include "os/clock.h"
#include "output.h"
#include "server.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define SECRET "0123456789abcdef"
#define TOKEN "abcdef." SECRET
#define UNSAFE "discovery: {endpoints: ['a:1'], unsafeSkipCAVerification: true}\n"

static struct server server;
static struct pki_cert node;
static struct folder folder;
static char credentials[PATH_MAX];
static struct nb_check check;
static struct nb_failure f;

static void begin(const char *settings) {
        char text[1024];

        folder_make(&folder);
        (void)snprintf(text, sizeof(text), HEAD "%s", settings);
        folder_put(&folder, "/etc/config.yaml", text);
        assert_int_equal(fchmodat(folder.fd, "etc/config.yaml", 0600, 0), 0);
        (void)snprintf(text, sizeof(text), "%s/etc", folder.path);
        (void)snprintf(credentials, sizeof(credentials), "%s/credentials", folder.path);
        folder_put(&folder, "/credentials/x", "");
        check = (struct nb_check){ .client.identity = NB_IDENTITY_INIT,
                                   .load = NB_LOAD_INIT,
                                   .output.json = NB_BUFFER_INIT(NB_CHECK_JSON_MAX),
                                   .output.frames_fd = -1,
                                   .output.step = &nb_check_steps[1],
                                   .sources = { .config_directory = strdup(text),
                                                .credentials_directory = credentials } };
        f = (struct nb_failure){ 0 };
        nb_check_begin_output(&check.output);
}

static void end(void) {
        free((char *)(uintptr_t)check.sources.config_directory);
        nb_join_done(&check.join);
        nb_sources_done(&check.sources);
        nb_machine_units_done(&check.units);
        nb_node_client_done(&check.client);
        nb_load_done(&check.load);
        nb_buffer_done(&check.output.json);
        folder_remove(&folder);
}

static const char *run(nb_check_run *step, enum nb_code code) {
        const char *text;
        int r;

        f = (struct nb_failure){ 0 };
        output_begin();
        r = step(&check, &f);
        text = output_end();
        if (f.code != code)
                fail_msg("%s: %s\n%s", nb_failure_info(f.code)->slug, f.detail, text);
        assert_int_equal(r < 0, code != NB_NONE);
        assert_null(strstr(text, SECRET));
        return text;
}

static void expect(nb_check_run *step, enum nb_code code, const char *row) {
        const char *text = run(step, code);

        if (!strstr(text, row))
                fail_msg("'%s' is not in '%s'", row, text);
}

/* --- Settings and credentials --- */

static void shows_settings(void **state) {
        begin("node: {name: a}\ntimeout: 7s\n");
        expect(nb_check_settings, NB_NONE, "- timeout: 7s (");
        assert_true(check.has_settings);
        end();
        begin("");
        expect(nb_check_settings, NB_NONE, "- no settings in ");
        end();
        begin("no: 1\n");
        (void)run(nb_check_settings, NB_SETTINGS_INVALID);
        assert_false(check.has_settings);
        end();
}

static void shows_credentials_without_their_secrets(void **state) {
        begin(UNSAFE);
        (void)run(nb_check_settings, NB_NONE);
        expect(nb_check_credentials, NB_NONE, "- none\n");
        end();
        begin(UNSAFE);
        folder_put(&folder, "/credentials/node-bootstrap.token", TOKEN);
        assert_int_equal(fchmodat(folder.fd, "credentials/node-bootstrap.token", 0400, 0), 0);
        (void)run(nb_check_settings, NB_NONE);
        expect(nb_check_credentials, NB_NONE,
               "node-bootstrap.token: bootstrap token abcdef.****************");
        assert_int_equal(check.load.bootstrap.identity.kind, NB_IDENTITY_TOKEN);
        end();
        begin(UNSAFE);
        folder_put(&folder, "/credentials/node-bootstrap.token", "abcdef.0123");
        assert_int_equal(fchmodat(folder.fd, "credentials/node-bootstrap.token", 0400, 0), 0);
        (void)run(nb_check_settings, NB_NONE);
        expect(nb_check_credentials, NB_TOKEN_MALFORMED, "node-bootstrap.token: 11 bytes");
        end();
}

/* --- Whether a join can begin --- */

static void says_whether_a_join_can_begin(void **state) {
        begin(UNSAFE "node: {name: a}\n");
        (void)run(nb_check_settings, NB_NONE);
        (void)run(nb_check_credentials, NB_NONE);
        expect(nb_check_metadata, NB_NONE, "- not queried");
        check.is_root = true;
        expect(nb_check_join, NB_TOKEN_MISSING, "node name: a (");
        check.unknown = "of a test";
        expect(nb_check_join, NB_NONE, "cannot determine whether a join can start: of a test");
        assert_true(check.is_undecided);
        check.needs_no_join = check.is_joined = true;
        NB_TEXT_COPY(check.valid_until, "2027");
        expect(nb_check_join, NB_NONE, "no token required: kubelet's certificate is valid until");
        end();
        begin(UNSAFE "node: {name: a}\nbootstrap: {token: " TOKEN "}\n");
        (void)run(nb_check_settings, NB_NONE);
        (void)run(nb_check_credentials, NB_NONE);
        expect(nb_check_metadata, NB_NONE, "not queried: the identity is from ");
        expect(nb_check_join, NB_NONE, "a join can start");
        assert_false(check.is_undecided);
        end();
}

/* --- The cluster --- */

#define CSRS "/apis/certificates.k8s.io/v1/certificatesigningrequests"
#define REVIEW "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews "
#define ANSWER(allowed) \
        "{\"kind\":\"SelfSubjectAccessReview\",\"apiVersion\":\"authorization.k8s.io/v1\"," \
        "\"status\":{\"allowed\":" allowed "}}"
#define NODE_OBJECT(name, ready) \
        "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"" name \
        "\"},\"status\":{" \
        "\"conditions\":[{\"type\":\"Ready\",\"status\":\"" ready "\"}]}}"

/* A cluster that a kubeconfig names, with a token. */
static void begin_cluster(struct server_answer *answers) {
        const struct nb_cluster cluster = server_cluster(&server);

        server_reset(&server, answers);
        begin("node: {name: a}\ndiscovery: {file: /nowhere}\n");
        check.has_settings = true;
        check.load.bootstrap.method = NB_METHOD_DOCUMENT;
        check.load.bootstrap.origin = cluster;
        check.load.bootstrap.origin.ca = strdup(cluster.ca);
        check.load.bootstrap.identity.kind = NB_IDENTITY_TOKEN;
        NB_TEXT_COPY(check.load.bootstrap.identity.source, "here");
        assert_int_equal(
                nb_secret_copy(&check.load.bootstrap.identity.secret, TOKEN, strlen(TOKEN)), 0);
        nb_settings_init(&check.load.settings);
        NB_TEXT_COPY(check.node_name, "a");
}

static void finds_the_cluster(void **state) {
        struct server_answer answers[] = { { "GET /version ", 200, "{}" },
                                           { REVIEW, 201, ANSWER("true") },
                                           { REVIEW, 201, ANSWER("false") },
                                           { REVIEW, 403 },
                                           { REVIEW, 401 },
                                           { 0 } };

        begin_cluster(answers);
        expect(nb_check_discover, NB_NONE, "the kubeconfig is verified");
        assert_true(check.is_verified);
        expect(nb_check_api_server, NB_NONE, "answers with a certificate of the CA");
        expect(nb_check_identity, NB_NONE, "may create certificate signing requests");
        expect(nb_check_identity, NB_CSR_FORBIDDEN, "accepted by the API server (here)");
        expect(nb_check_identity, NB_NONE, "cannot determine whether it may create");
        (void)run(nb_check_identity, NB_TOKEN_REJECTED);
        end();
        /* Nobody listens. */
        begin_cluster(answers);
        assert_int_equal(
                nb_url_parse("https://127.0.0.1:1", 19, &check.load.bootstrap.origin.server), 0);
        (void)run(nb_check_discover, NB_ENDPOINT_REFUSED);
        assert_false(check.is_verified);
        end();
}

static void looks_for_the_node(void **state) {
        struct server_answer answers[] = {
                { "GET /api/v1/nodes/a ", 404 },
                { "GET /api/v1/nodes/a ", 403 },
                { "GET /api/v1/nodes/a ", 200, NODE_OBJECT("a", "False") },
                { "GET /api/v1/nodes/a ", 200, NODE_OBJECT("a", "True") },
                { "GET /api/v1/nodes/a ", 200, NODE_OBJECT("a", "True") },
                { "GET /api/v1/nodes/a ", 200, NODE_OBJECT("a", "True") },
                { 0 }
        };

        begin_cluster(answers);
        (void)run(nb_check_discover, NB_NONE);
        check.join.is_rehearsal = true;
        assert_int_equal(nb_api_init(&check.join.api, &check.join.cluster,
                                     &check.load.bootstrap.identity, NB_TIME_INFINITE, &f),
                         0);
        expect(nb_check_node_name, NB_NONE, "there is no Node 'a'");
        expect(nb_check_node_name, NB_NONE, "cannot determine whether 'a' is free");
        expect(nb_check_node_name, NB_NONE, "there is a Node 'a', but it is not Ready");
        (void)run(nb_check_node_name, NB_NODE_NAME_TAKEN);
        NB_TEXT_COPY(check.fixed_name, "a");
        expect(nb_check_node_name, NB_NONE, "this machine has joined with this name");
        end();
}

static void nothing_is_requested(void **state) {
        struct server_answer answers[] = { { 0 } };

        begin_cluster(answers);
        expect(nb_check_request, NB_NONE, "request: none is pending");
        assert_string_equal(server_log(&server), "");
        end();
}

/* --- A machine that has joined --- */

static void asks_with_the_certificate(void **state) {
        struct server_answer answers[] = {
                { REVIEW, 201, ANSWER("true"), .is_repeated = true },
                { "GET /api/v1/nodes/a ", 200, NODE_OBJECT("a", "True") },
                { "GET /api/v1/nodes/a ", 404 },
                { 0 },
        };

        for (int is_deleted = 0; is_deleted < 2; is_deleted++) {
                begin("");
                if (!is_deleted)
                        server_reset(&server, answers);
                check.client.cluster = server_cluster(&server);
                check.client.cluster.ca = strdup(server.ca.pem);
                check.client.identity.kind = NB_IDENTITY_CERTIFICATE;
                assert_int_equal(nb_secret_copy(&check.client.identity.certificate, node.pem,
                                                strlen(node.pem)),
                                 0);
                assert_int_equal(nb_secret_copy(&check.client.identity.secret, node.key_pem,
                                                strlen(node.key_pem)),
                                 0);
                NB_TEXT_COPY(check.client.node_name, "a");
                if (is_deleted)
                        expect(nb_check_node_access, NB_NODE_DELETED, "accepted by the API server");
                else
                        expect(nb_check_node_access, NB_NONE, "Node 'a': Ready");
                /* The key is not needed any more. */
                assert_null(check.client.identity.secret.data);
                end();
        }
        begin("");
        check.client.not_after = 7;
        expect(nb_check_node_access, NB_NONE, "certificate: expired on 1970-01-01");
        end();
}

static void asks_kubelet(void **state) {
        static const struct exchange exchanges[] = { { "GET /healthz HTTP/1.1", NULL, OK, "ok" },
                                                     { NULL, NULL, NULL, NULL } };
        char address[SCRIPT_ADDRESS_SIZE];

        begin("");
        expect(nb_check_kubelet, NB_NONE, "not checked: systemd does not answer");
        assert_string_equal(check.health, "");
        script_start(exchanges, address);
        NB_TEXT_COPY(check.health, address);
        expect(nb_check_health, NB_NONE, "kubelet: healthy");
        script_stop();
        (void)run(nb_check_health, NB_KUBELET_DOWN);
        /* One that has just been started needs a moment. */
        NB_TEXT_COPY(check.units.kubelet.state.active, "activating");
        check.units.kubelet.state.has_job = true;
        expect(nb_check_health, NB_NONE, "kubelet.service is activating");
        NB_TEXT_COPY(check.units.kubelet.state.active, "failed");
        NB_TEXT_COPY(check.units.kubelet.state.load, "masked");
        check.units.kubelet.state.has_job = false;
        (void)run(nb_check_kubelet, NB_KUBELET_UNPREPARED);
        assert_non_null(strstr(f.detail, "is masked"));
        end();
}

/* --- In a chroot(2), where nothing of this machine is --- */

/* The child prints. */
static void expect_in_child(int (*child)(void), const char *row) {
        char text[16384] = "";
        int fds[2], status;
        size_t len = 0;
        pid_t pid;

        folder_skip_without_lookup();
        if (geteuid() != 0)
                skip();
        assert_int_equal(pipe(fds), 0);
        pid = fork();
        if (pid == 0) {
                if (dup2(fds[1], STDOUT_FILENO) < 0 || chroot(folder.path) < 0 || chdir("/") < 0)
                        _exit(99);
                check.sources.config_directory = "/etc";
                check.sources.credentials_directory = NULL;
                status = child();
                (void)fflush(stdout);
                _exit(status);
        }
        (void)close(fds[1]);
        for (ssize_t n; (n = read(fds[0], text + len, sizeof(text) - 1 - len)) > 0;)
                len += (size_t)n;
        (void)close(fds[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status != 0 || !strstr(text, row))
                fail_msg("status %d; '%s' is not in '%s'", status, row, text);
}

static int look(void) {
        struct nb_machine_state state;

        if (nb_check_has_platform_data() || nb_check_look(&check, &state) < 0)
                return 1;
        nb_machine_state_done(&state);
        if (check.is_joined || check.needs_no_join || check.fixed_name[0])
                return 2;
        if (nb_check_state(&check, &f) < 0)
                return 3;
        return nb_check_rehearse(&check) == 0 ? 0 : 4;
}

static int write_files(void) {
        check.is_root = true;
        check.has_settings = true;
        nb_settings_init(&check.load.settings);
        if (nb_check_files(&check, &f) >= 0 || f.code != NB_DIRECTORY_MISSING)
                return 1;
        f = (struct nb_failure){ 0 };
        if (mkdir("/etc/kubernetes", 0755) < 0 || mkdir("/var", 0755) < 0 ||
            mkdir("/var/lib", 0755) < 0 || mkdir("/var/lib/kubelet", 0755) < 0)
                return 2;
        return nb_check_files(&check, &f) < 0 ? 3 : 0;
}

/* User data is read before the last privilege is dropped, and parsed after it. */
static int read_user_data(void) {
        check.user_data = "/user-data";
        check.has_settings = true;
        if (nb_check_user_data(&check, &f) < 0 || !check.is_dropped)
                return 1;
        return nb_check_drop(&check, &f) == 0 && !strcmp(check.load.settings.node_name, "n") ? 0
                                                                                             : 2;
}

static void looks_at_a_new_machine(void **state) {
        begin("");
        expect_in_child(look, "not joined");
        end();
}

static void files_can_be_written_where_there_is_a_folder(void **state) {
        begin("");
        expect_in_child(write_files, "kubeconfig: '/etc/kubernetes' can be written");
        end();
}

static void user_data_is_checked(void **state) {
        begin("metadata: {provider: auto}\n" UNSAFE);
        folder_put(&folder, "/user-data", HEAD "node: {name: n}\nbootstrap: {token: " TOKEN "}\n");
        expect_in_child(read_user_data, "/user-data: ");
        end();
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        node = pki_make(&(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                               .issuer = &server.ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) - PKI_DAY,
                                               .not_after = time(NULL) + PKI_DAY });
        CASE(shows_settings);
        CASE(shows_credentials_without_their_secrets);
        CASE(says_whether_a_join_can_begin);
        CASE(finds_the_cluster);
        CASE(looks_for_the_node);
        CASE(nothing_is_requested);
        CASE(asks_with_the_certificate);
        CASE(asks_kubelet);
        CASE(looks_at_a_new_machine);
        CASE(files_can_be_written_where_there_is_a_folder);
        CASE(user_data_is_checked);
        r = case_run("cli check steps");
        server_stop(&server);
        pki_done(&node);
        nb_http_end();
        return r;
}
