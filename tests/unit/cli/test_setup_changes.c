/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "cli/setup/setup_internal.h"
#include "lookup.h"
#include "output.h"

/* All of this is about an image: --root. */
#define CONFIG "/etc/node-bootstrap"
#define DOCUMENT CONFIG "/config.yaml.d/50-setup.yaml"
#define STORED NB_SETUP_STORE "/node-bootstrap.token"
#define SEALED NB_SETUP_STORE_ENCRYPTED "/node-bootstrap.token"
#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TOKEN "abcdef.0123456789abcdef"

static struct folder folder;
static struct nb_setup_wanted wanted;
static struct nb_setup_plan plan;
static struct nb_secret token;
static struct nb_failure f;

static int set_up(void **state) {
        folder_make(&folder);
        f = (struct nb_failure){ 0 };
        wanted = (struct nb_setup_wanted){ .config_directory = CONFIG, .root = folder.path };
        plan = (struct nb_setup_plan)NB_SETUP_PLAN_INIT;
        return nb_secret_copy(&token, TOKEN, strlen(TOKEN));
}

static int tear_down(void **state) {
        nb_setup_plan_done(&plan);
        nb_secret_done(&token);
        folder_remove(&folder);
        return 0;
}

static void expect_file(const char *path, const char *text, mode_t mode) {
        _cleanup_(nb_secret_done) struct nb_secret found = NB_SECRET_INIT;
        struct stat st;

        assert_int_equal(nb_path_read(folder.fd, path, 4096, &found), text ? 0 : -ENOENT);
        if (!text)
                return;
        assert_string_equal(found.data, text);
        assert_int_equal(fstatat(folder.fd, path + 1, &st, 0), 0);
        assert_int_equal(st.st_mode & 07777, mode);
}

static void plan_all(void) {
        nb_buffer_append_string(&plan.document, HEAD);
        plan.is_document_new = true;
        plan.secrets[NB_CREDENTIAL_TOKEN] = &token;
        plan.steps[NB_CREDENTIAL_TOKEN] = NB_SETUP_WRITE;
        assert_int_equal(nb_setup_plan_files(&wanted, &plan, &f), 0);
}

/* What is not there needs no removal. */
static void an_empty_image(void **state) {
        folder_skip_without_lookup();
        plan_all();
        assert_int_equal(plan.n_changes, 2);
        assert_int_equal(plan.changes[0].action, NB_SETUP_ACTION_WRITE);
        assert_string_equal(plan.changes[0].name, NB_SETUP_DOCUMENT);
        output_begin();
        assert_int_equal(nb_setup_apply(&wanted, &plan, NB_SETUP_ACTION_REMOVE, &f), 0);
        assert_non_null(strstr(output_end(), DOCUMENT "\nwrote    "));
        expect_file(DOCUMENT, HEAD, 0644);
        expect_file(STORED, TOKEN, 0600);
        assert_int_equal(plan.n_done, 2);
}

/* The old token is gone before the settings change, in both of its forms. */
static void what_is_there_is_replaced(void **state) {
        static const struct {
                enum nb_setup_action action;
                const char *folder;
        } expected[] = {
                { NB_SETUP_ACTION_REMOVE, NB_SETUP_STORE },
                { NB_SETUP_ACTION_REMOVE, NB_SETUP_STORE_ENCRYPTED },
                { NB_SETUP_ACTION_WRITE, CONFIG "/config.yaml.d" },
                { NB_SETUP_ACTION_WRITE, NB_SETUP_STORE },
        };

        folder_skip_without_lookup();
        folder_put(&folder, STORED, "old");
        folder_put(&folder, SEALED, "old");
        folder_put(&folder, DOCUMENT, "old");
        plan_all();
        assert_int_equal(plan.n_changes, N_ELEMENTS(expected));
        for (size_t i = 0; i < N_ELEMENTS(expected); i++) {
                assert_int_equal(plan.changes[i].action, expected[i].action);
                assert_string_equal(plan.changes[i].folder, expected[i].folder);
        }
        output_begin();
        assert_int_equal(nb_setup_apply(&wanted, &plan, NB_SETUP_ACTION_REMOVE, &f), 0);
        (void)output_end();
        expect_file(SEALED, NULL, 0);
        expect_file(STORED, TOKEN, 0600);
        expect_file(DOCUMENT, HEAD, 0644);
}

static void a_rehearsal_changes_nothing(void **state) {
        const char *text;

        folder_skip_without_lookup();
        wanted.is_rehearsal = true;
        plan_all();
        output_begin();
        assert_int_equal(nb_setup_apply(&wanted, &plan, NB_SETUP_ACTION_RELOAD, &f), 0);
        text = output_end();
        assert_non_null(strstr(text, "would write    "));
        assert_non_null(strstr(text, DOCUMENT " (mode 0644, owner "));
        assert_null(strstr(text, TOKEN));
        expect_file(DOCUMENT, NULL, 0);
        expect_file(STORED, NULL, 0);
}

static void what_stands_in_the_way_is_named(void **state) {
        folder_skip_without_lookup();
        folder_put(&folder, DOCUMENT "/file", "");
        nb_buffer_append_string(&plan.document, HEAD);
        plan.is_document_new = true;
        assert_true(nb_setup_plan_files(&wanted, &plan, &f) < 0);
        assert_int_equal(f.code, NB_SETUP_UNWRITABLE);
        assert_non_null(strstr(f.detail, DOCUMENT "' is a directory with files in it"));
}

/* Somebody else may have made the image. */
static void a_link_in_an_image_is_not_followed(void **state) {
        folder_skip_without_lookup();
        folder_link(&folder, CONFIG, "/tmp");
        nb_buffer_append_string(&plan.document, HEAD);
        plan.is_document_new = true;
        assert_true(nb_setup_plan_files(&wanted, &plan, &f) < 0);
        assert_int_equal(f.code, NB_SETUP_UNWRITABLE);
        assert_int_equal(f.errnum, ELOOP);
}

static void changes_are_told_as_json(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(16384);
        struct nb_json_writer writer = { .buffer = &text };

        nb_json_open(&writer, NULL, '{');
        assert_false(nb_setup_put_changes(&wanted, &plan, &writer));
        nb_json_close(&writer);
        assert_int_equal(nb_json_finish(&writer), 0);
        assert_non_null(strstr(text.data, "\"changes\":[]"));
        nb_buffer_clear(&text);
        writer = (struct nb_json_writer){ .buffer = &text };
        nb_setup_add_change(&plan, &(struct nb_setup_change){ NB_SETUP_ACTION_WRITE, "/a", "b" });
        nb_setup_add_change(&plan, &(struct nb_setup_change){ NB_SETUP_ACTION_ENABLE, NULL, "c",
                                                              .is_already_so = true });
        nb_setup_add_change(&plan, &(struct nb_setup_change){ NB_SETUP_ACTION_START, NULL, "d" });
        nb_setup_add_change(&plan, &(struct nb_setup_change){ NB_SETUP_ACTION_START, NULL, "e" });
        plan.n_done = 3;
        wanted.root = NULL;
        nb_json_open(&writer, NULL, '{');
        assert_true(nb_setup_put_changes(&wanted, &plan, &writer));
        nb_json_close(&writer);
        assert_int_equal(nb_json_finish(&writer), 0);
        assert_non_null(strstr(text.data, "\"changes\":[{\"action\":\"write\",\"path\":\"/a/b\"},"
                                          "{\"action\":\"start\",\"unit\":\"d\"}]"));
        nb_buffer_done(&text);
}

/* --- Found --- */

static void an_image_is_read(void **state) {
        struct nb_setup_found found;

        folder_skip_without_lookup();
        folder_put(&folder, DOCUMENT, HEAD "node: {name: a}\n");
        folder_put(&folder, CONFIG "/config.yaml", HEAD "timeout: 7s\n");
        folder_put(&folder, STORED, TOKEN);
        folder_put(&folder, NB_SETUP_STORE_ENCRYPTED "/node-bootstrap.tls-bootstrap-token", "x");
        assert_int_equal(nb_setup_find(&wanted, &found, &f), 0);
        assert_string_equal(found.document.data, HEAD "node: {name: a}\n");
        assert_string_equal(found.settings.node_name, "a");
        assert_int_equal(found.settings.timeout_ms, 7000);
        assert_int_equal(found.credentials[NB_CREDENTIAL_TOKEN].r, 0);
        assert_string_equal(found.credentials[NB_CREDENTIAL_TOKEN].stored.data, TOKEN);
        assert_int_equal(found.credentials[NB_CREDENTIAL_TLS_BOOTSTRAP_TOKEN].r, -EKEYREJECTED);
        assert_int_equal(found.credentials[NB_CREDENTIAL_KUBECONFIG].r, -ENOENT);
        assert_false(found.credentials[NB_CREDENTIAL_TOKEN].is_delivered);
        assert_false(found.is_joined);
        nb_setup_found_done(&found);
        assert_null(found.document.data);
        assert_null(found.credentials[NB_CREDENTIAL_TOKEN].stored.data);
}

static void a_damaged_document_is_read_by_force_as_far_as_it_can_be(void **state) {
        struct nb_setup_found found;

        folder_skip_without_lookup();
        folder_put(&folder, DOCUMENT, HEAD "node: {name: a}\nno: 1\n");
        assert_true(nb_setup_find(&wanted, &found, &f) < 0);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        nb_setup_found_done(&found);
        nb_failure_clear(&f);
        wanted.is_forced = true;
        assert_int_equal(nb_setup_find(&wanted, &found, &f), 0);
        assert_int_equal(f.code, NB_NONE);
        assert_true(found.are_settings_refused);
        assert_string_equal(found.settings.node_name, "a");
        assert_string_equal(found.document.data, HEAD "node: {name: a}\nno: 1\n");
        nb_setup_found_done(&found);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        const struct CMUnitTest tests[] = {
                TEST(an_empty_image),
                TEST(what_is_there_is_replaced),
                TEST(a_rehearsal_changes_nothing),
                TEST(what_stands_in_the_way_is_named),
                TEST(a_link_in_an_image_is_not_followed),
                TEST(changes_are_told_as_json),
                TEST(an_image_is_read),
                TEST(a_damaged_document_is_read_by_force_as_far_as_it_can_be),
        };

        return cmocka_run_group_tests_name("cli setup write", tests, NULL, NULL);
}
