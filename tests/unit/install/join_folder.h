/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A folder with the files of a join, used as a machine's root, and what is in it afterwards. Each
 * test that includes this is a program of its own. */

#include "base/text.h"
#include "case.h"
#include "install/join_files.h"
#include "lookup.h"
#include "pki.h"

#define KUBELET "/var/lib/kubelet"
#define PKI KUBELET "/pki"
#define KUBECONFIG "/etc/kubernetes/kubelet.conf"
#define CA "/etc/kubernetes/pki/ca.crt"
#define LINK PKI "/kubelet-client-current.pem"
#define FLAGS KUBELET "/kubeadm-flags.env"
#define INSTANCE KUBELET "/instance-config.yaml"
#define ENV KUBELET "/node-bootstrap.env"
#define RECORD PKI "/node-bootstrap.json"
#define FIRST PKI "/kubelet-client-2027-01-15-08-00-00.pem" /* PKI_NOW */

#define ARGUMENTS(text) "KUBELET_KUBEADM_ARGS=\"" text "\"\n"
#define SOCKET(path) "containerRuntimeEndpoint: \"unix://" path "\"\n"

static struct folder folder;
static struct pki_cert ca, other_ca;
static struct nb_context context;

static inline void prepare_context(void) {
        (void)setenv("TZ", "UTC", true);
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        other_ca = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        context = (struct nb_context){ .node_name = "a", .now = PKI_NOW };
        nb_settings_init(&context.settings);
}

/* --- Folders --- */

#define TREE_SIZE (256 * 1024)

static char tree[TREE_SIZE];
static char *entries[64];
static size_t n_entries;

static inline int add_to_tree(const char *path, const struct stat *st, int type,
                              struct FTW *where) {
        char text[32 * 1024] = "";
        int fd;

        if (type == FTW_SL)
                (void)!readlink(path, text, sizeof(text) - 1);
        else if (type == FTW_F) {
                fd = open(path, O_RDONLY | O_CLOEXEC);
                (void)!read(fd, text, sizeof(text) - 1);
                (void)close(fd);
        } else
                return 0;
        assert_null(strstr(path, ".tmp"));
        assert_true(n_entries < N_ELEMENTS(entries));
        assert_true(asprintf(&entries[n_entries++], "%s=%s\n", path, text) > 0);
        return 0;
}

static inline int compare_entries(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All files, with their contents. */
static inline const char *read_tree(void) {
        size_t len = 0;

        n_entries = 0;
        assert_int_equal(nftw(folder.path, add_to_tree, 8, FTW_PHYS), 0);
        qsort(entries, n_entries, sizeof(entries[0]), compare_entries);
        for (size_t i = 0; i < n_entries; i++) {
                len += (size_t)snprintf(tree + len, sizeof(tree) - len, "%s", entries[i]);
                assert_true(len < sizeof(tree));
                free(entries[i]);
        }
        return tree;
}

static inline void expect(const char *path, const char *text) {
        char full[PATH_MAX], found[8192] = "";
        int fd;

        (void)snprintf(full, sizeof(full), "%s%s", folder.path, path);
        if (!text) {
                assert_int_equal(faccessat(AT_FDCWD, full, F_OK, AT_SYMLINK_NOFOLLOW), -1);
                return;
        }
        if (readlink(full, found, sizeof(found) - 1) < 0) {
                fd = open(full, O_RDONLY | O_CLOEXEC);
                assert_true(fd >= 0);
                (void)!read(fd, found, sizeof(found) - 1);
                (void)close(fd);
        }
        if (strcmp(text, "*") != 0)
                assert_string_equal(found, text);
}

/* --- Passes --- */

struct file {
        const char *path, *text; /* NULL: there is none; "*": with any contents */
        bool is_link;
};

struct files_case {
        const char *name;
        enum nb_join_pass pass;
        enum nb_node_state state; /* for a repair */
        bool is_joined;           /* starts from the files of a join */
        bool is_link_lost;
        struct file before[6], after[12];
        const char *ca; /* in the record; NULL: that of the join */
        bool is_env_only;
        const char *arguments; /* in the record; NULL: that of the join */
};

static inline const char *text_of(const char *text) {
        return text && !strcmp(text, "ca")      ? ca.pem
               : text && !strcmp(text, "other") ? other_ca.pem
                                                : text;
}

static inline int read_previous(struct nb_record *ret) {
        struct nb_failure f = { 0 };

        return nb_record_read(folder.fd, PKI, ret, &f);
}

static inline void set_record(struct nb_record *record, const char *server, char *pem) {
        (void)snprintf(record->node, sizeof(record->node), "a");
        assert_int_equal(nb_url_parse(server, strlen(server), &record->server), 0);
        (void)snprintf(record->provenance.endpoint, sizeof(record->provenance.endpoint),
                       "10.0.0.1:6443");
        (void)snprintf(record->provenance.token_source, sizeof(record->provenance.token_source),
                       "a test");
        (void)snprintf(record->joined_at, sizeof(record->joined_at), "2027-01-01T00:00:00Z");
        (void)snprintf(record->kubeconfig, sizeof(record->kubeconfig), KUBECONFIG);
        (void)snprintf(record->arguments, sizeof(record->arguments), "--hostname-override=a");
        (void)snprintf(record->runtime_endpoint, sizeof(record->runtime_endpoint), "unix:///s");
        record->ca = pem; /* borrowed */
}

/* As write.c, refresh_install.c and repair.c do. */
static inline int run_pass(const struct files_case *c) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        _cleanup_(nb_record_done) struct nb_record previous = { 0 };
        struct nb_node node = { .inspection = { .state = c->state, .node = "a" },
                                .present = { .is_link_lost = c->is_link_lost } };
        struct nb_accepted accepted = { 0 };
        struct nb_failure f = { 0 };
        int r;

        r = read_previous(&previous);
        files = nb_join_files_new(&context, c->pass, r > 0 ? &previous : NULL);
        assert_non_null(files);
        files->is_env_only = c->is_env_only;
        if (c->pass == NB_PASS_JOIN) {
                assert_int_equal(nb_secret_copy(&accepted.pem, "certificate", 11), 0);
                set_record(&files->record, "https://10.0.0.1:6443", ca.pem);
        } else
                files->node = &node;
        if (c->arguments)
                (void)snprintf(files->record.arguments, sizeof(files->record.arguments), "%s",
                               c->arguments);
        if (c->pass == NB_PASS_REFRESH)
                set_record(&files->record, "https://10.0.0.2:6443", other_ca.pem);
        if (c->pass != NB_PASS_REPAIR)
                files->accepted = &accepted;
        r = nb_join_files_write(files, &f);
        nb_secret_done(&accepted.pem);
        return r;
}

static const struct files_case join = { "", NB_PASS_JOIN };

static inline void put_before(const struct files_case *c) {
        folder_make_in_memory(&folder);
        context.root_fd = folder.fd;
        if (c->is_joined)
                assert_int_equal(run_pass(&join), 1);
        for (const struct file *file = c->before; file->path; file++) {
                char full[PATH_MAX];

                (void)snprintf(full, sizeof(full), "%s%s", folder.path, file->path);
                (void)unlink(full);
                if (file->is_link)
                        folder_link(&folder, file->path, file->text);
                else if (file->text)
                        folder_put(&folder, file->path, text_of(file->text));
        }
}

static inline void expect_after(const struct files_case *c) {
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

        for (const struct file *file = c->after; file->path; file++)
                expect(file->path, text_of(file->text));
        (void)read_tree();
        if (read_previous(&record) > 0)
                assert_string_equal(record.ca, text_of(c->ca ? c->ca : "ca"));
}

#define CONFIG(server) \
        "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n    " \
        "certificate-authority: \"" CA "\"\n    server: \"" server "\"\ncontexts:\n- name: " \
        "default-context\n  context:\n    cluster: default-cluster\n    namespace: default\n    " \
        "user: default-auth\ncurrent-context: default-context\npreferences: {}\nusers:\n- name: " \
        "default-auth\n  user:\n    client-certificate: \"" LINK "\"\n    client-key: \"" LINK \
        "\"\n"
#define OURS CONFIG("https://10.0.0.1:6443")
#define MOVED CONFIG("https://10.0.0.2:6443")
#define NAME "KUBELET_NODE_NAME=a\n"

/* What a join leaves, apart from the kubeconfig and its CA. */
#define REST \
        { LINK, "*" }, { ENV, NAME }, { FLAGS, ARGUMENTS("--hostname-override=a") }, \
                { INSTANCE, SOCKET("/s") }, { \
                RECORD, "*" \
        }
#define ALL { KUBECONFIG, OURS }, { CA, "ca" }, REST
