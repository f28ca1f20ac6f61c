/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "folder.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TOKEN "abcdef.0123456789abcdef"
#define OTHER "fedcba.fedcba9876543210"

static struct folder folder;
static char path[PATH_MAX];
static struct nb_setup_wanted wanted;
static struct nb_setup_line line;
static struct nb_failure f;

static int set_up(void **state) {
        folder_make(&folder);
        assert_int_equal(fchmod(folder.fd, 0755), 0);
        (void)snprintf(path, sizeof(path), "%s/file", folder.path);
        wanted = (struct nb_setup_wanted){ .config_directory = "/nowhere" };
        nb_settings_init(&wanted.settings);
        line = (struct nb_setup_line){ .wanted = &wanted };
        f = (struct nb_failure){ 0 };
        return 0;
}

static int tear_down(void **state) {
        for (size_t i = 0; i < N_ELEMENTS(line.tokens); i++)
                nb_secret_done(&line.tokens[i].value);
        nb_setup_wanted_done(&wanted);
        folder_remove(&folder);
        return 0;
}

static void put(const char *text, mode_t mode) {
        folder_put(&folder, "/file", text);
        assert_int_equal(fchmodat(folder.fd, "file", mode, 0), 0);
}

/* --- A value --- */

static void values_are_stored(void **state) {
        assert_int_equal(nb_setup_store(&wanted.settings, NB_SETTING_ENDPOINTS, "'--a'",
                                        "10.0.0.1,10.0.0.2:1", &f),
                         0);
        assert_int_equal(wanted.settings.n_endpoints, 2);
        assert_string_equal(wanted.settings.origin[NB_SETTING_ENDPOINTS], NB_SETUP_ORIGIN);
        assert_int_equal(nb_setup_store(&wanted.settings, NB_SETTING_NODE_NAME, "'--n'", "a", &f),
                         0);
        assert_string_equal(wanted.settings.node_name, "a");
        assert_int_equal(nb_setup_store(&wanted.settings, NB_SETTING_NODE_NAME, "'--n'", "A_", &f),
                         -EINVAL);
        assert_int_equal(f.code, NB_USAGE);
        assert_int_equal(strncmp(f.detail, "'--n': expected ", 16), 0);
        nb_failure_clear(&f);
        assert_int_equal(nb_setup_store(&wanted.settings, NB_SETTING_ENDPOINTS, NB_SETUP_API_SERVER,
                                        "fd00::1", &f),
                         -EINVAL);
        assert_non_null(strstr(f.detail, "without brackets"));
}

/* --- A file --- */

struct read_case {
        const char *name, *text; /* NULL: there is none */
        mode_t mode;
        bool is_public; /* others may read it */
        enum nb_code code;
        bool is_exposed;
};

static struct read_case reads[] = {
        { "read: a secret", TOKEN, 0600 },
        { "read: a secret that others can read", TOKEN, 0644, .code = NB_TOKEN_EXPOSED },
        { "read: a file that others may read", TOKEN, 0644, true, .is_exposed = true },
        { "read: a file that others may read, and cannot", TOKEN, 0600, true },
        { "read: nothing", NULL, 0, .code = NB_SETTINGS_UNREADABLE },
        { "read: too much", "0123456789012345678901234567890123456789", 0600,
          .code = NB_SETTINGS_UNREADABLE },
};

static void reads_file(void **state) {
        const struct read_case *c = *state;
        struct nb_secret text = NB_SECRET_INIT;
        bool is_exposed = false;

        (void)set_up(NULL);
        if (c->text)
                put(c->text, c->mode);
        assert_int_equal(nb_setup_read_input(&line, "--x=-", path, 32,
                                             c->is_public ? &is_exposed : NULL, &text, &f) < 0,
                         c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_int_equal(is_exposed, c->is_exposed);
        if (c->code == NB_NONE)
                assert_string_equal(text.data, c->text);
        else
                assert_null(text.data);
        nb_secret_done(&text);
        (void)tear_down(NULL);
}

static void standard_input_is_read_once(void **state) {
        struct nb_secret text = NB_SECRET_INIT;
        int before = dup(STDIN_FILENO), fds[2];

        assert_int_equal(pipe(fds), 0);
        assert_int_equal(write(fds[1], TOKEN, strlen(TOKEN)), strlen(TOKEN));
        (void)close(fds[1]);
        assert_true(dup2(fds[0], STDIN_FILENO) >= 0);
        assert_int_equal(nb_setup_read_input(&line, "--a=-", "-", 64, NULL, &text, &f), 0);
        assert_string_equal(text.data, TOKEN);
        nb_secret_done(&text);
        assert_true(nb_setup_read_input(&line, "--b=-", "-", 64, NULL, &text, &f) < 0);
        assert_string_equal(f.detail, "'--a=-' and '--b=-' cannot both read standard input");
        assert_true(dup2(before, STDIN_FILENO) >= 0);
        (void)close(before);
        (void)close(fds[0]);
}

static void a_terminal_is_read_until_its_end(void **state) {
        struct nb_secret text = NB_SECRET_INIT;
        int before = dup(STDIN_FILENO), fds[2];

        assert_int_equal(nb_secret_init(&text, 64), 0);
        assert_int_equal(pipe(fds), 0);
        assert_true(dup2(fds[0], STDIN_FILENO) >= 0);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(write(fds[1], "a\n", 2), 2);
                assert_int_equal(nb_setup_read_terminal(&text, &f), 0);
                assert_string_equal(text.data, i == 0 ? "a\n" : "a\na\n");
        }
        (void)close(fds[1]);
        assert_int_equal(nb_setup_read_terminal(&text, &f), 0);
        assert_int_equal(text.len, 4);
        assert_true(dup2(before, STDIN_FILENO) >= 0);
        (void)close(before);
        (void)close(fds[0]);
        nb_secret_done(&text);
}

/* --- Everything --- */

static void expect_secret(enum nb_credential secret, const char *text) {
        if (text)
                assert_string_equal(wanted.secrets[secret].data, text);
        else
                assert_null(wanted.secrets[secret].data);
}

static void set_token(enum nb_setup_token_kind kind, const char *option, const char *text) {
        line.tokens[kind].option = option;
        assert_int_equal(nb_secret_copy(&line.tokens[kind].value, text, strlen(text)), 0);
}

static void a_token_file_has_the_token(void **state) {
        put(TOKEN " \n\n", 0600);
        line.values[NB_SETUP_INPUT_TOKEN_FILE] = path;
        assert_int_equal(nb_setup_take_inputs(&line, &f), 0);
        expect_secret(NB_CREDENTIAL_TOKEN, TOKEN);
        expect_secret(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN, NULL);
        assert_int_equal(wanted.wait, NB_SETUP_WAIT_KUBELET);
        assert_int_equal(wanted.watch_ms, 300000);
        assert_false(wanted.has_settings);
}

/* As with kubeadm: a token of its own for discovery, and the common one for the rest. */
static void tokens_have_their_places(void **state) {
        set_token(NB_SETUP_TOKEN_DISCOVERY, "discovery-token", OTHER);
        set_token(NB_SETUP_TOKEN_COMMON, "token", TOKEN);
        line.values[NB_SETUP_INPUT_WAIT] = "none";
        line.values[NB_SETUP_INPUT_TIMEOUT] = "infinity";
        assert_int_equal(nb_setup_take_inputs(&line, &f), 0);
        expect_secret(NB_CREDENTIAL_TOKEN, OTHER);
        expect_secret(NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN, TOKEN);
        assert_int_equal(wanted.wait, NB_SETUP_WAIT_NONE);
        assert_true(wanted.watch_ms == UINT64_MAX);
}

static void a_token_in_a_document_becomes_a_credential(void **state) {
        put(HEAD "bootstrap: {token: " TOKEN "}\nnode: {name: a}\n", 0600);
        line.values[NB_SETUP_INPUT_CONFIG] = path;
        assert_int_equal(nb_setup_take_inputs(&line, &f), 0);
        expect_secret(NB_CREDENTIAL_TOKEN, TOKEN);
        assert_string_equal(wanted.settings.node_name, "a");
        assert_true(wanted.has_settings && wanted.is_document);
        assert_false(wanted.settings.has_discovery_token);
        assert_null(wanted.settings.tokens);
}

struct refused_case {
        const char *name;
        enum nb_setup_input input; /* that has this value; "file": the file */
        const char *value, *text;
        mode_t mode;
        bool has_token, has_name; /* also on the command line */
        enum nb_code code;
        const char *detail;
};

static struct refused_case refused[] = {
        { "refused: a wait", NB_SETUP_INPUT_WAIT, "nodes", .code = NB_USAGE,
          .detail = "expected none, certificate, kubelet or node" },
        { "refused: a timeout", NB_SETUP_INPUT_TIMEOUT, "5", .code = NB_USAGE,
          .detail = "expected infinity, or a duration" },
        { "refused: two tokens", NB_SETUP_INPUT_TOKEN_FILE, "file", TOKEN, 0600, true,
          .code = NB_USAGE, .detail = "'--token' and '--token-file' cannot be combined" },
        { "refused: a token beside that of the document", NB_SETUP_INPUT_CONFIG, "file",
          HEAD "bootstrap: {token: " OTHER "}\n", 0600, true, .code = NB_USAGE,
          .detail = "'--token' cannot be combined with the token in" },
        { "refused: a setting that is also in the document", NB_SETUP_INPUT_CONFIG, "file",
          HEAD "node: {name: a}\n", 0644, false, true, NB_USAGE,
          "node.name is set on the command line and in" },
        { "refused: a token in a document that others can read", NB_SETUP_INPUT_CONFIG, "file",
          HEAD "bootstrap: {token: " OTHER "}\n", 0644, .code = NB_TOKEN_EXPOSED },
        { "refused: a kubeconfig that is none", NB_SETUP_INPUT_KUBECONFIG, "file", "x", 0600,
          .code = NB_BOOTSTRAP_KUBECONFIG_UNACCEPTABLE },
        { "refused: a discovery file that is none", NB_SETUP_INPUT_DISCOVERY_FILE, "file", "x",
          0644, .code = NB_DISCOVERY_FILE_UNACCEPTABLE },
};

static void refuses_inputs(void **state) {
        const struct refused_case *c = *state;

        (void)set_up(NULL);
        if (c->text)
                put(c->text, c->mode);
        line.values[c->input] = strcmp(c->value, "file") == 0 ? path : c->value;
        if (c->has_token)
                set_token(NB_SETUP_TOKEN_COMMON, "token", TOKEN);
        if (c->has_name)
                assert_int_equal(
                        nb_setup_store(&wanted.settings, NB_SETTING_NODE_NAME, "n", "b", &f), 0);
        assert_true(nb_setup_take_inputs(&line, &f) < 0);
        assert_int_equal(f.code, c->code);
        if (c->detail && !strstr(f.detail, c->detail))
                fail_msg("'%s' is not in '%s'", c->detail, f.detail);
        assert_null(strstr(f.detail, "0123456789"));
        (void)tear_down(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(values_are_stored),
                TEST(standard_input_is_read_once),
                TEST(a_terminal_is_read_until_its_end),
                TEST(a_token_file_has_the_token),
                TEST(tokens_have_their_places),
                TEST(a_token_in_a_document_becomes_a_credential),
        };
        int r = cmocka_run_group_tests_name("cli setup inputs", tests, NULL, NULL);

        CASES(reads, reads_file);
        CASES(refused, refuses_inputs);
        return case_run("cli setup files") + r;
}
