/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>

#include "base/file.h"
#include "base/sources.h"
#include "case.h"
#include "install/give.h"
#include "lookup.h"
#include "pki.h"

#define READER 65533
#define HEADER \
        "apiVersion: v1\nkind: Config\nclusters:\n- name: k\n  cluster:\n    server: " \
        "https://10.0.0.1:6443\n"

static struct folder folder;
static struct pki_cert ca;
static struct nb_context context;
static char config_directory[PATH_MAX], credentials_directory[PATH_MAX];
static struct nb_sources sources;
static int run_fd;

static int set_up(void **state) {
        char path[PATH_MAX];

        folder_make(&folder);
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        folder_locate(&folder, "/run/x", path);
        *strrchr(path, '/') = '\0';
        assert_int_equal(setenv("RUNTIME_DIRECTORY", path, 1), 0);
        run_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(run_fd >= 0);
        folder_locate(&folder, "/credentials/x", credentials_directory);
        *strrchr(credentials_directory, '/') = '\0';
        (void)snprintf(config_directory, sizeof(config_directory), "%s/etc", folder.path);
        sources = (struct nb_sources){ .config_directory = config_directory,
                                       .credentials_directory = credentials_directory,
                                       .runtime_fd = -1 };
        context = (struct nb_context){
                .root_fd = folder.fd, .node_name = "a", .now = PKI_NOW, .sources = &sources
        };
        nb_settings_init(&context.settings);
        return 0;
}

static int tear_down(void **state) {
        (void)close(run_fd);
        pki_done(&ca);
        folder_remove(&folder);
        return 0;
}

static void locate(const char *path, char *ret, size_t size) {
        assert_true(snprintf(ret, size, "%s%s", folder.path, path) < (int)size);
}

static void put(const char *path, const char *text) {
        char full[PATH_MAX];

        folder_put(&folder, path, text);
        locate(path, full, sizeof(full));
        assert_int_equal(chmod(full, 0600), 0);
}

/* The copy of a path outside of --root, or of one below it. */
static void expect_copy_of(const char *path, const char *text) {
        struct nb_buffer found = NB_BUFFER_INIT(1024 * 1024);
        char name[NAME_MAX + 1];
        struct stat st;

        assert_int_equal(nb_given_name(path, name), 0);
        assert_int_equal(nb_file_read(run_fd, name, &found, &st), text ? 0 : -ENOENT);
        if (text) {
                assert_string_equal(found.data ? found.data : "", text);
                assert_int_equal(st.st_mode & 07707, 0600);
                assert_int_equal(st.st_uid, geteuid());
        }
        nb_buffer_done(&found);
}

static void expect_copy(const char *path, const char *text) {
        char full[PATH_MAX];

        locate(path, full, sizeof(full));
        expect_copy_of(full, text);
}

static unsigned count_copies(void) {
        DIR *stream = nb_folder_list(run_fd);
        struct dirent *entry;
        unsigned n = 0;

        assert_non_null(stream);
        while ((entry = readdir(stream)))
                n += entry->d_name[0] != '.' || strlen(entry->d_name) > 2;
        assert_int_equal(closedir(stream), 0);
        return n;
}

static void give(bool is_client_needed) {
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_int_equal(nb_give(&context, false, is_client_needed, &f), 0);
        assert_int_equal(f.code, NB_NONE);
}

static void refuse(int r, const char *words, unsigned n_left) {
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        assert_int_equal(nb_give(&context, false, false, &f), r);
        assert_int_equal(f.code, NB_COPY_UNWRITABLE);
        assert_non_null(strstr(f.detail, words));
        assert_int_equal(count_copies(), n_left);
}

static void nothing_there(void **state) {
        give(true);
        assert_int_equal(count_copies(), 0);
}

static void configuration(void **state) {
        put("/etc/config.yaml", "# one\n");
        put("/etc/config.yaml.d/a.yaml", "# two\n");
        put("/etc/config.yaml.d/a.txt", "# no settings\n");
        put("/credentials/node-bootstrap.config", "# delivered to all three\n");
        give(false);
        expect_copy("/etc/config.yaml", "# one\n");
        expect_copy("/etc/config.yaml.d/a.yaml", "# two\n");
        assert_int_equal(count_copies(), 2);
}

static void document_with_its_ca(void **state) {
        static const char text[] = HEADER "    certificate-authority: pki/ca.crt\n";

        put("/etc/cluster.conf", text);
        put("/etc/pki/ca.crt", ca.pem);
        locate("/etc/cluster.conf", context.settings.discovery_file,
               sizeof(context.settings.discovery_file));
        give(false);
        expect_copy("/etc/cluster.conf", text);
        expect_copy("/etc/pki/ca.crt", ca.pem);
}

static void url_with_its_ca(void **state) {
        strcpy(context.settings.discovery_file, "https://example.org/cluster.conf");
        put("/etc/url.crt", ca.pem);
        locate("/etc/url.crt", context.settings.url_ca_file, sizeof(context.settings.url_ca_file));
        give(false);
        expect_copy("/etc/url.crt", ca.pem);
        assert_int_equal(count_copies(), 1);
}

static void bootstrap_kubeconfig(void **state) {
        put("/etc/bootstrap.conf",
            HEADER "users:\n- name: u\n  user:\n    tokenFile: secret/token\ncurrent-context: c\n"
                   "contexts:\n- name: c\n  context: {cluster: k, user: u}\n");
        put("/etc/secret/token", "abc\n");
        put("/etc/secret/other", "not named\n");
        locate("/etc/bootstrap.conf", context.settings.bootstrap_kubeconfig,
               sizeof(context.settings.bootstrap_kubeconfig));
        give(false);
        expect_copy("/etc/secret/token", "abc\n");
        assert_int_equal(count_copies(), 2);
}

/* `join` says what is wrong with it. */
static void not_a_kubeconfig(void **state) {
        put("/etc/bootstrap.conf", "{[\n");
        locate("/etc/bootstrap.conf", context.settings.bootstrap_kubeconfig,
               sizeof(context.settings.bootstrap_kubeconfig));
        locate("/etc/not there", context.settings.discovery_file,
               sizeof(context.settings.discovery_file));
        give(false);
        expect_copy("/etc/bootstrap.conf", "{[\n");
        assert_int_equal(count_copies(), 1);
}

static void files_that_a_credential_names(void **state) {
        char path[PATH_MAX];
        char *text;

        folder_skip_without_lookup();
        put("/etc/pki/ca.crt", ca.pem);
        locate("/etc/pki/ca.crt", path, sizeof(path));
        text = PKI_JOIN(HEADER "    certificate-authority: ", path, "\n");
        put("/credentials/node-bootstrap.cluster-info", text);
        give(false);
        expect_copy("/etc/pki/ca.crt", ca.pem);
        assert_int_equal(count_copies(), 1);
        free(text);
}

static void client_of_kubelet(void **state) {
        folder_put(&folder, "/var/lib/kubelet/pki/dated.pem", "certificate and key\n");
        folder_link(&folder, "/var/lib/kubelet/pki/kubelet-client-current.pem",
                    "/var/lib/kubelet/pki/dated.pem");
        folder_put(&folder, "/etc/kubernetes/pki/ca.crt", "ca\n");
        give(false);
        assert_int_equal(count_copies(), 0);
        give(true);
        expect_copy_of("/var/lib/kubelet/pki/kubelet-client-current.pem", "certificate and key\n");
        expect_copy_of("/etc/kubernetes/pki/ca.crt", "ca\n");
}

static void node_password(void **state) {
        struct nb_buffer text = NB_BUFFER_INIT(64), again = NB_BUFFER_INIT(64);
        int fd = -1;
        struct stat st;

        give(false);
        assert_int_equal(faccessat(folder.fd, "etc/rancher", F_OK, 0), -1);
        context.bootstrap.issuer = NB_ISSUER_SUPERVISOR;
        give(false);
        assert_int_equal(nb_path_make_folder(folder.fd, "/etc/rancher/node", 0755, &fd), 0);
        assert_int_equal(nb_file_read(fd, "password", &text, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        assert_int_equal(text.len, 33);
        assert_int_equal(strspn(text.data, "0123456789abcdef"), 32);
        expect_copy_of(NB_NODE_PASSWORD_FILE, text.data);

        give(false);
        assert_int_equal(nb_file_read(fd, "password", &again, NULL), 0);
        assert_string_equal(again.data, text.data);
        nb_buffer_done(&again);
        nb_buffer_done(&text);
        (void)close(fd);
}

static void former_copies_are_replaced(void **state) {
        struct nb_buffer outside = NB_BUFFER_INIT(64);
        char path[PATH_MAX], name[NAME_MAX + 1];

        put("/etc/config.yaml", "# new\n");
        put("/outside", "stays\n");
        locate("/etc/config.yaml", path, sizeof(path));
        assert_int_equal(nb_given_name(path, name), 0);
        assert_int_equal(symlinkat("../outside", run_fd, name), 0);
        assert_int_equal(symlinkat("../outside", run_fd, ".given.tmp"), 0);
        give(false);
        expect_copy("/etc/config.yaml", "# new\n");
        assert_int_equal(nb_file_read(folder.fd, "outside", &outside, NULL), 0);
        assert_string_equal(outside.data, "stays\n");
        assert_int_equal(count_copies(), 1);
        nb_buffer_done(&outside);
}

static void path_too_long(void **state) {
        char path[NB_GIVEN_PATH_MAX + 1] = "/", full[PATH_MAX];

        memset(path + 1, 'x', sizeof(path) - 2);
        put(path, ca.pem);
        locate(path, context.settings.url_ca_file, sizeof(context.settings.url_ca_file));
        refuse(-ENAMETOOLONG, "longer than 200 bytes", 0);
        /* What everybody can read needs no copy. */
        locate(path, full, sizeof(full));
        assert_int_equal(chmod(full, 0644), 0);
        give(false);
        assert_int_equal(count_copies(), 0);
}

static void folder_that_cannot_be_written(void **state) {
        put("/etc/config.yaml", "# one\n");
        assert_int_equal(mkdirat(run_fd, ".given.tmp", 0700), 0);
        refuse(-EISDIR, "/etc/config.yaml' for the network side cannot be made", 1);
}

static void reader_of_another_user(void **state) {
        struct stat st;
        char path[PATH_MAX], name[NAME_MAX + 1];

        if (geteuid() != 0) {
                print_message("a folder of somebody else can be made by root alone\n");
                skip();
        }
        put("/etc/config.yaml", "# one\n");
        assert_int_equal(fchown(run_fd, READER, READER), 0);
        give(false);
        locate("/etc/config.yaml", path, sizeof(path));
        assert_int_equal(nb_given_name(path, name), 0);
        assert_int_equal(fstatat(run_fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        assert_int_equal(st.st_uid, 0);
        /* With a list the bits of the group are its mask. */
        assert_int_equal(st.st_mode & 07777, 0640);
}

int main(void) {
        static const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(nothing_there, set_up, tear_down),
                cmocka_unit_test_setup_teardown(configuration, set_up, tear_down),
                cmocka_unit_test_setup_teardown(document_with_its_ca, set_up, tear_down),
                cmocka_unit_test_setup_teardown(url_with_its_ca, set_up, tear_down),
                cmocka_unit_test_setup_teardown(bootstrap_kubeconfig, set_up, tear_down),
                cmocka_unit_test_setup_teardown(not_a_kubeconfig, set_up, tear_down),
                cmocka_unit_test_setup_teardown(files_that_a_credential_names, set_up, tear_down),
                cmocka_unit_test_setup_teardown(client_of_kubelet, set_up, tear_down),
                cmocka_unit_test_setup_teardown(node_password, set_up, tear_down),
                cmocka_unit_test_setup_teardown(former_copies_are_replaced, set_up, tear_down),
                cmocka_unit_test_setup_teardown(path_too_long, set_up, tear_down),
                cmocka_unit_test_setup_teardown(folder_that_cannot_be_written, set_up, tear_down),
                cmocka_unit_test_setup_teardown(reader_of_another_user, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
