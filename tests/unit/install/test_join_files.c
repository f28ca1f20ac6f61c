/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

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
#define FIRST PKI "/kubelet-client-2027-01-01-00-00-00.pem" /* PKI_NOW */

#define ARGUMENTS(text) "KUBELET_KUBEADM_ARGS=\"" text "\"\n"
#define SOCKET(path) "containerRuntimeEndpoint: \"unix://" path "\"\n"

static struct folder folder;
static struct pki_cert ca, other_ca;
static struct nb_context context;

/* --- Cuts --- */

enum cut { CUT_NONE, CUT_FAIL, CUT_EXIT };

static enum cut cut;
static unsigned left; /* renames until the cut */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __wrap_renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags);
int __real_renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags);

int __wrap_renameat2(int old_fd, const char *old, int new_fd, const char *new, unsigned flags) {
        if (cut == CUT_NONE || left-- > 0)
                return __real_renameat2(old_fd, old, new_fd, new, flags);
        if (cut == CUT_EXIT)
                _exit(EXIT_SUCCESS);
        cut = CUT_NONE;
        errno = EIO;
        return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* --- Folders --- */

#define TREE_SIZE (256 * 1024)

static char tree[TREE_SIZE];
static char *entries[64];
static size_t n_entries;

static int add_to_tree(const char *path, const struct stat *st, int type, struct FTW *where) {
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

static int compare_entries(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All files, with their contents. */
static const char *read_tree(void) {
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

static void expect(const char *path, const char *text) {
        char full[PATH_MAX], found[8192] = "";
        int fd;

        (void)snprintf(full, sizeof(full), "%s%s", folder.path, path);
        if (!text) {
                assert_int_equal(access(full, F_OK), -1);
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

static const char *text_of(const char *text) {
        return text && !strcmp(text, "ca")      ? ca.pem
               : text && !strcmp(text, "other") ? other_ca.pem
                                                : text;
}

static int read_previous(struct nb_record *ret) {
        struct nb_failure f = { 0 };

        return nb_record_read(folder.fd, PKI, ret, &f);
}

static void set_record(struct nb_record *record, const char *server, const char *pem) {
        (void)snprintf(record->node, sizeof(record->node), "a");
        assert_int_equal(nb_url_parse(server, strlen(server), &record->server), 0);
        (void)snprintf(record->provenance.endpoint, sizeof(record->provenance.endpoint),
                       "10.0.0.1:6443");
        (void)snprintf(record->provenance.token_source, sizeof(record->provenance.token_source),
                       "a test");
        (void)snprintf(record->joined_at, sizeof(record->joined_at), "2027-01-01T00:00:00Z");
        (void)snprintf(record->kubeconfig, sizeof(record->kubeconfig), KUBECONFIG);
        (void)snprintf(record->arguments, sizeof(record->arguments), "--a=1");
        (void)snprintf(record->runtime_endpoint, sizeof(record->runtime_endpoint), "unix:///s");
        (void)snprintf(record->ca, sizeof(record->ca), "%s", pem);
}

/* As write.c, refresh_install.c and repair.c do. */
static int run_pass(const struct files_case *c) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        _cleanup_(nb_freep) struct nb_record *previous = calloc(1, sizeof(*previous));
        struct nb_node node = { .inspection = { .state = c->state, .node = "a" },
                                .present = { .is_link_lost = c->is_link_lost } };
        struct nb_accepted accepted = { 0 };
        struct nb_failure f = { 0 };
        int r;

        assert_non_null(previous);
        r = read_previous(previous);
        files = nb_join_files_new(&context, c->pass, r > 0 ? previous : NULL);
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

static void put_before(const struct files_case *c) {
        folder_make(&folder);
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

static void expect_after(const struct files_case *c) {
        _cleanup_(nb_freep) struct nb_record *record = calloc(1, sizeof(*record));

        for (const struct file *file = c->after; file->path; file++)
                expect(file->path, text_of(file->text));
        (void)read_tree();
        assert_non_null(record);
        if (read_previous(record) > 0)
                assert_string_equal(record->ca, text_of(c->ca ? c->ca : "ca"));
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
        { LINK, "*" }, { ENV, NAME }, { FLAGS, ARGUMENTS("--a=1") }, { INSTANCE, SOCKET("/s") }, { \
                RECORD, "*" \
        }
#define ALL { KUBECONFIG, OURS }, { CA, "ca" }, REST
#define UNPARSED "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
#define REPAIR(state) NB_PASS_REPAIR, NB_NODE_STATE_##state, .is_joined = true

static struct files_case cases[] = {
        { "a join on an empty machine", NB_PASS_JOIN, .after = { ALL } },
        { "a join after another program", NB_PASS_JOIN,
          .before = { { KUBECONFIG, "theirs" },
                      { CA, "other" },
                      { LINK, "a file" },
                      { FLAGS, ARGUMENTS("--v=2") },
                      { INSTANCE, "theirs" } },
          .after = { { KUBECONFIG, OURS },
                     { KUBECONFIG ".old", "theirs" },
                     { CA, "ca" },
                     { CA ".old", "other" },
                     { LINK, "*" },
                     { LINK ".old", "a file" },
                     { FLAGS, ARGUMENTS("--v=2") },
                     { INSTANCE, "theirs" },
                     { RECORD, "*" } } },
        { "a join after a join", NB_PASS_JOIN, .is_joined = true,
          .after = { ALL, { KUBECONFIG ".old", OURS }, { CA ".old", NULL } } },
        { "a join with other arguments, after kubeadm has written the file", NB_PASS_JOIN,
          .is_joined = true, .arguments = "--a=2 --b",
          .before = { { FLAGS, "KUBELET_KUBEADM_ARGS= --a=1\n" } },
          .after = { { FLAGS, ARGUMENTS("--a=2 --b") } } },
        { "a join with an empty file of each kind", NB_PASS_JOIN,
          .before = { { CA, "" }, { FLAGS, "" }, { INSTANCE, "" }, { ENV, "" } },
          .after = { ALL } },
        { "a refresh", NB_PASS_REFRESH, .is_joined = true,
          .after = { { KUBECONFIG, MOVED },
                     { CA, "other" },
                     { KUBECONFIG ".old", NULL },
                     { CA ".old", NULL },
                     REST },
          .ca = "other" },
        { "a repair with nothing to do", REPAIR(USABLE), .after = { ALL } },
        { "a repair of a kubeconfig", REPAIR(WITHOUT_KUBECONFIG),
          .before = { { KUBECONFIG, NULL } }, .after = { ALL } },
        { "a repair of a damaged kubeconfig", REPAIR(WITHOUT_KUBECONFIG),
          .before = { { KUBECONFIG, "x" } }, .after = { ALL, { KUBECONFIG ".old", "x" } } },
        { "a repair of the CA file", REPAIR(USABLE), .before = { { CA, NULL } }, .after = { ALL } },
        { "a repair of an empty CA file", REPAIR(USABLE), .before = { { CA, "" } },
          .after = { ALL } },
        { "a repair of a damaged CA file", REPAIR(USABLE), .before = { { CA, "x" } },
          .after = { ALL, { CA ".old", "x" } } },
        { "a repair beside a CA file that cannot be parsed", REPAIR(USABLE),
          .before = { { CA, UNPARSED } },
          .after = { { KUBECONFIG, OURS }, { CA, UNPARSED }, REST } },
        { "a repair of kubeconfig and CA file", REPAIR(WITHOUT_KUBECONFIG),
          .before = { { CA, NULL }, { KUBECONFIG, NULL } }, .after = { ALL } },
        { "a repair with another CA", REPAIR(USABLE), .before = { { CA, "other" } },
          .after = { { KUBECONFIG, OURS }, { CA, "other" }, REST }, .ca = "other" },
        { "a repair with the kubeconfig and CA file of another program", REPAIR(USABLE),
          .before = { { CA, "other" }, { KUBECONFIG, "theirs" } },
          .after = { { KUBECONFIG, "theirs" }, { CA, "other" }, REST } },
        { "a repair without the CA file of another program", REPAIR(USABLE),
          .before = { { CA, NULL }, { KUBECONFIG, "theirs" } },
          .after = { { KUBECONFIG, "theirs" }, { CA, NULL }, REST } },
        { "a repair of the link", REPAIR(WITHOUT_KUBECONFIG), .is_link_lost = true,
          .before = { { LINK, NULL } }, .after = { ALL } },
        { "a repair of a link that leads nowhere", REPAIR(WITHOUT_KUBECONFIG), .is_link_lost = true,
          .before = { { LINK, "nowhere", true } }, .after = { ALL, { LINK ".old", NULL } } },
        { "a repair of a file in the place of the link", REPAIR(WITHOUT_KUBECONFIG),
          .is_link_lost = true, .before = { { LINK, "x" } },
          .after = { ALL, { LINK ".old", "x" } } },
        { "a repair of kubelet's arguments, endpoint and name", REPAIR(USABLE),
          .before = { { FLAGS, NULL }, { INSTANCE, NULL }, { ENV, NULL } }, .after = { ALL } },
        { "a repair of empty files", REPAIR(USABLE),
          .before = { { FLAGS, ARGUMENTS("") }, { INSTANCE, "" }, { ENV, "" } }, .after = { ALL } },
        { "a repair with the arguments and endpoint of another program", REPAIR(USABLE),
          .before = { { FLAGS, ARGUMENTS("--v=2") }, { INSTANCE, "theirs" }, { ENV, "damaged" } },
          .after = { { FLAGS, ARGUMENTS("--v=2") }, { INSTANCE, "theirs" }, { ENV, NAME } } },
        { "a repair with nothing but a name", NB_PASS_REPAIR, NB_NODE_STATE_USABLE,
          .is_env_only = true, .after = { { ENV, NAME }, { KUBECONFIG, NULL }, { RECORD, NULL } } },
};

static void writes(void **state) {
        const struct files_case *c = *state;

        folder_skip_without_lookup();
        put_before(c);
        assert_true(run_pass(c) >= 0);
        expect_after(c);
        folder_remove(&folder);
}

/* Each rename fails in turn: nothing has changed. */
static void undoes(void **state) {
        const struct files_case *c = *state;
        int r = -EIO;

        folder_skip_without_lookup();
        for (unsigned i = 0; r < 0; i++) {
                char *before;

                put_before(c);
                before = strdup(read_tree());
                assert_non_null(before);
                left = i;
                cut = CUT_FAIL;
                r = run_pass(c);
                if (cut != CUT_NONE)
                        assert_true(r >= 0);
                else if (r < 0)
                        assert_string_equal(read_tree(), before);
                cut = CUT_NONE;
                free(before);
                folder_remove(&folder);
        }
}

/* The process ends before each rename in turn: the next pass writes the rest, and what was ours is
 * not taken for somebody else's. */
static void completes(void **state) {
        const struct files_case *c = *state;
        bool is_cut = true;

        folder_skip_without_lookup();
        for (unsigned i = 0; is_cut; i++) {
                int status;
                pid_t pid;

                put_before(c);
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        left = i;
                        cut = CUT_EXIT;
                        (void)run_pass(c);
                        _exit(EXIT_FAILURE);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                is_cut = WEXITSTATUS(status) == EXIT_SUCCESS;
                assert_true(run_pass(c) >= 0);
                expect_after(c);
                folder_remove(&folder);
        }
}

/* Between the record of a join and its other files, a file of the join before is still ours. */
static void knows_its_own_files(void **state) {
        static const enum nb_join_file ours[] = { NB_FILE_CA, NB_FILE_FLAGS, NB_FILE_INSTANCE,
                                                  NB_FILE_KUBECONFIG };
        struct nb_join_files *files;
        struct nb_record *record;

        folder_skip_without_lookup();
        record = calloc(1, sizeof(*record));
        assert_non_null(record);
        put_before(&(struct files_case){ "", .is_joined = true });
        assert_int_equal(read_previous(record), 1);
        (void)snprintf(record->arguments, sizeof(record->arguments), "--a=2");
        (void)snprintf(record->runtime_endpoint, sizeof(record->runtime_endpoint), "unix:///t");
        files = nb_join_files_new(&context, NB_PASS_REPAIR, record);
        assert_non_null(files);
        for (size_t i = 0; i < N_ELEMENTS(ours); i++) {
                assert_int_equal(nb_join_files_read(files, ours[i]), 0);
                assert_true(nb_join_files_is_ours(files, ours[i]));
        }
        nb_join_files_freep(&files);
        free(record);
        folder_remove(&folder);
}

/* The record has room for some hashes only, and each new CA adds one. */
static void forgets_no_file_that_is_there(void **state) {
        struct nb_accepted accepted = { 0 };
        struct nb_node node = { .inspection.node = "a" };
        struct nb_join_files *files;
        struct nb_record *record;
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        record = calloc(1, sizeof(*record));
        assert_non_null(record);
        put_before(&(struct files_case){ "", .is_joined = true });
        assert_int_equal(read_previous(record), 1);
        /* The oldest ones are those of the join. */
        for (unsigned n = record->n_hashes; n < N_ELEMENTS(record->hashes); n++) {
                memmove(record->hashes[1], record->hashes[0], n * sizeof(record->hashes[0]));
                memset(record->hashes[0], (int)n, sizeof(record->hashes[0]));
        }
        record->n_hashes = N_ELEMENTS(record->hashes);
        for (unsigned i = 0; i < N_ELEMENTS(record->hashes); i++) {
                files = nb_join_files_new(&context, NB_PASS_REFRESH, record);
                assert_non_null(files);
                files->node = &node;
                files->accepted = &accepted;
                set_record(&files->record, "https://10.0.0.1:6443", i % 2 ? ca.pem : other_ca.pem);
                assert_int_equal(nb_join_files_write(files, &f), 1);
                nb_join_files_freep(&files);
                assert_int_equal(read_previous(record), 1);
                files = nb_join_files_new(&context, NB_PASS_REFRESH, record);
                assert_non_null(files);
                assert_int_equal(nb_join_files_read(files, NB_FILE_KUBECONFIG), 0);
                assert_true(nb_join_files_is_ours(files, NB_FILE_KUBECONFIG));
                assert_int_equal(nb_join_files_read(files, NB_FILE_FLAGS), 0);
                assert_true(nb_join_files_is_ours(files, NB_FILE_FLAGS));
                nb_join_files_freep(&files);
        }
        free(record);
        folder_remove(&folder);
}

int main(void) {
        (void)setenv("TZ", "UTC", true);
        ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        other_ca = pki_make(&(struct pki_options){ .dn = "CN=other", .is_ca = true });
        context = (struct nb_context){ .node_name = "a", .now = PKI_NOW };
        nb_settings_init(&context.settings);
        CASES(cases, writes);
        CASES(cases, undoes);
        CASES(cases, completes);
        CASE(knows_its_own_files);
        CASE(forgets_no_file_that_is_there);
        return case_run("install join files");
}
