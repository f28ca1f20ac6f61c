/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/text.h"
#include "case.h"
#include "install/accept.h"
#include "install/refresh_install.h"
#include "install/write.h"
#include "kube_objects/kubelet_config.h"
#include "lookup.h"
#include "state_files/handoff.h"
#include "state_files/record.h"

#define HEAD "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
#define LEFT "/state/" NB_KUBELET_CONFIG_FILE
#define FORMATTED \
        "apiVersion: \"kubelet.config.k8s.io/v1beta1\"\nkind: \"KubeletConfiguration\"\nmaxPods: " \
        "9\n"

static struct folder folder;
static struct nb_sources sources;
static struct nb_context context;
static struct nb_state state;
static struct nb_failure f;

static int set_up(void **unused) {
        char path[PATH_MAX];
        struct stat st;

        folder_make(&folder);
        folder_locate(&folder, "/state/x", path);
        *strrchr(path, '/') = '\0';
        assert_int_equal(stat(path, &st), 0);
        state = (struct nb_state){ .fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                                   .owner = st.st_uid,
                                   .group = st.st_gid };
        sources = (struct nb_sources){ .config_directory = "/etc/x", .is_keeping = true };
        context = (struct nb_context){ .root_fd = folder.fd, .sources = &sources };
        nb_settings_init(&context.settings);
        context.settings.is_config_from_cluster = true;
        f = (struct nb_failure){ 0 };
        return 0;
}

static int tear_down(void **unused) {
        nb_state_done(&state);
        nb_sources_done(&sources);
        folder_remove(&folder);
        return 0;
}

static void expect_file(const char *text) {
        _cleanup_(nb_secret_done) struct nb_secret found = NB_SECRET_INIT;

        assert_int_equal(nb_path_read(folder.fd, NB_KUBELET_CONFIG_PATH, 4096, &found),
                         text ? 0 : -ENOENT);
        if (text)
                assert_string_equal(found.data, text);
}

static void install(int r, enum nb_code code) {
        folder_skip_without_lookup();
        assert_int_equal(nb_config_install(&context, &state, &f) < 0, r < 0);
        assert_int_equal(f.code, code);
}

static void wanted_only_if_it_is_missing(void **unused) {
        folder_skip_without_lookup();
        assert_true(nb_config_is_wanted(&context));
        assert_int_equal(nb_config_begin(&context, 1000, &f), 1);
        folder_put(&folder, NB_KUBELET_CONFIG_PATH, "mine");
        assert_true(nb_config_exists(folder.fd));
        assert_false(nb_config_is_wanted(&context));
        assert_int_equal(nb_config_begin(&context, 1000, &f), 0);
}

static void not_wanted(void **unused) {
        context.settings.is_config_from_cluster = false;
        folder_put(&folder, LEFT, HEAD);
        assert_int_equal(nb_config_begin(&context, 1000, &f), 0);
        install(0, NB_NONE);
        expect_file(NULL);
}

static void nothing_was_left(void **unused) {
        install(0, NB_NONE);
        expect_file(NULL);
}

static void written(void **unused) {
        folder_put(&folder, LEFT, HEAD "maxPods: 9\n");
        install(0, NB_NONE);
        expect_file(FORMATTED);
}

static void existing_file_stays(void **unused) {
        folder_put(&folder, LEFT, HEAD);
        folder_put(&folder, NB_KUBELET_CONFIG_PATH, "mine");
        install(0, NB_NONE);
        expect_file("mine");
        assert_true(nb_write_config(&context,
                                    &(struct nb_buffer){ .data = (char[]){ "x" }, .len = 1 },
                                    &f) < 0);
        expect_file("mine");
}

static void what_gives_root_is_refused(void **unused) {
        folder_put(&folder, LEFT, HEAD "volumePluginDir: /x\n");
        install(-1, NB_HANDOFF_UNTRUSTED);
        expect_file(NULL);
}

static void link_is_refused(void **unused) {
        folder_put(&folder, "/secret", HEAD);
        folder_link(&folder, LEFT, "/secret");
        install(-1, NB_HANDOFF_MALFORMED);
        expect_file(NULL);
}

static void system_cas(void **unused) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_KUBELET_CONFIG_MAX);

        folder_put(&folder, LEFT, HEAD);
        assert_int_equal(nb_accept_kubelet_config(&state, NULL, &text, &f), 0);
        assert_null(strstr(text.data, "clientCAFile"));
}

static void record_with_the_systems_cas(void **unused) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        static const char server[] = "https://10.0.0.1:6443";
        struct nb_record record = { 0 };
        char path[PATH_MAX];

        NB_TEXT_COPY(record.node, "n");
        NB_TEXT_COPY(record.provenance.endpoint, "10.0.0.1:6443");
        NB_TEXT_COPY(record.provenance.token_source, "a test");
        NB_TEXT_COPY(record.joined_at, "2026-01-01T00:00:00Z");
        NB_TEXT_COPY(record.certificate, "/pki/client.pem");
        NB_TEXT_COPY(record.kubeconfig, "/etc/kubeconfig");
        assert_int_equal(nb_url_parse(server, strlen(server), &record.server), 0);
        assert_int_equal(nb_state_file_format(&nb_record_file, &record, &text), 0);
        snprintf(path, sizeof(path), "%s/" NB_RECORD_FILE, context.settings.certificate_directory);
        folder_put(&folder, path, text.data);
        folder_put(&folder, LEFT, HEAD "maxPods: 9\n");
        folder_skip_without_lookup();
        assert_int_equal(nb_context_read_record(&context, &record), 1);
        assert_null(record.ca);
        install(0, NB_NONE);
        expect_file(FORMATTED);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
        static const struct CMUnitTest tests[] = {
                TEST(wanted_only_if_it_is_missing),
                TEST(not_wanted),
                TEST(nothing_was_left),
                TEST(written),
                TEST(existing_file_stays),
                TEST(what_gives_root_is_refused),
                TEST(link_is_refused),
                TEST(record_with_the_systems_cas),
                TEST(system_cas),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
