/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/wait.h>

#include "join_folder.h"

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
          .before = { { FLAGS, "KUBELET_KUBEADM_ARGS= --hostname-override=a\n" } },
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
        { "a repair with other arguments", REPAIR(USABLE), .arguments = "--a=2 --b",
          .after = { { FLAGS, ARGUMENTS("--a=2 --b") } } },
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
        static const enum nb_join_file all[] = { NB_FILE_CA, NB_FILE_FLAGS, NB_FILE_INSTANCE,
                                                 NB_FILE_KUBECONFIG };
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
        struct nb_join_files *files;

        folder_skip_without_lookup();
        put_before(&(struct files_case){ "", .is_joined = true });
        assert_int_equal(read_previous(&record), 1);
        (void)snprintf(record.arguments, sizeof(record.arguments), "--a=2");
        (void)snprintf(record.runtime_endpoint, sizeof(record.runtime_endpoint), "unix:///t");
        files = nb_join_files_new(&context, NB_PASS_JOIN, &record);
        assert_non_null(files);
        for (size_t i = 0; i < N_ELEMENTS(all); i++) {
                assert_int_equal(nb_join_files_read(files, all[i]), 0);
                assert_true(nb_join_files_is_ours(files, all[i]));
        }
        nb_join_files_freep(&files);
        folder_remove(&folder);
}

/* A reset, and a repair after a crash between the record of a join and its other files, too; but
 * not on a machine that has joined: somebody has put the file back. */
static void knows_older_arguments(void **state) {
        static const struct {
                enum nb_node_state state;
                bool has_node, is_ours;
        } cases_of[] = { { NB_NODE_STATE_USABLE, true, false },
                         { NB_NODE_STATE_WITHOUT_KUBECONFIG, true, true },
                         { NB_NODE_STATE_USABLE, false, true } };
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

        folder_skip_without_lookup();
        put_before(&(struct files_case){ "", .is_joined = true });
        assert_int_equal(read_previous(&record), 1);
        (void)snprintf(record.arguments, sizeof(record.arguments), "--a=2");
        for (size_t i = 0; i < N_ELEMENTS(cases_of); i++) {
                struct nb_node node = { .inspection = { .state = cases_of[i].state } };
                struct nb_join_files *files = nb_join_files_new(&context, NB_PASS_REPAIR, &record);

                assert_non_null(files);
                files->node = cases_of[i].has_node ? &node : NULL;
                assert_int_equal(nb_join_files_read(files, NB_FILE_FLAGS), 0);
                assert_int_equal(nb_join_files_is_ours(files, NB_FILE_FLAGS), cases_of[i].is_ours);
                nb_join_files_freep(&files);
        }
        folder_remove(&folder);
}

/* The record has room for some hashes only, and each new CA adds one. */
static void forgets_no_file_that_is_there(void **state) {
        struct nb_accepted accepted = { 0 };
        struct nb_node node = { .inspection.node = "a" };
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
        struct nb_join_files *files;
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        put_before(&(struct files_case){ "", .is_joined = true });
        assert_int_equal(read_previous(&record), 1);
        /* The oldest ones are those of the join. */
        for (unsigned n = record.n_hashes; n < N_ELEMENTS(record.hashes); n++) {
                memmove(record.hashes[1], record.hashes[0], n * sizeof(record.hashes[0]));
                memset(record.hashes[0], (int)n, sizeof(record.hashes[0]));
        }
        record.n_hashes = N_ELEMENTS(record.hashes);
        for (unsigned i = 0; i < N_ELEMENTS(record.hashes); i++) {
                files = nb_join_files_new(&context, NB_PASS_REFRESH, &record);
                assert_non_null(files);
                files->node = &node;
                files->accepted = &accepted;
                set_record(&files->record, "https://10.0.0.1:6443", i % 2 ? ca.pem : other_ca.pem);
                assert_int_equal(nb_join_files_write(files, &f), 1);
                nb_join_files_freep(&files);
                nb_record_done(&record);
                assert_int_equal(read_previous(&record), 1);
                files = nb_join_files_new(&context, NB_PASS_REFRESH, &record);
                assert_non_null(files);
                assert_int_equal(nb_join_files_read(files, NB_FILE_KUBECONFIG), 0);
                assert_true(nb_join_files_is_ours(files, NB_FILE_KUBECONFIG));
                assert_int_equal(nb_join_files_read(files, NB_FILE_FLAGS), 0);
                assert_true(nb_join_files_is_ours(files, NB_FILE_FLAGS));
                nb_join_files_freep(&files);
        }
        folder_remove(&folder);
}

/* Whether kubelet.crt is the join's, so that a renewal may write the file that it leads to. */
static void knows_its_serving_link(void **state) {
        static const struct {
                struct file file;
                bool is_ours;
        } rows[] = { { { PKI "/kubelet.crt", "kubelet-serving.pem", .is_link = true }, true },
                     { { PKI "/kubelet.crt", "other.pem", .is_link = true }, false },
                     { { PKI "/kubelet.crt", "kubelet-serving.pem" }, false },
                     { { PKI "/kubelet.crt", NULL }, false } };
        static const char target[] = "kubelet-serving.pem";

        folder_skip_without_lookup();
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_record record = { .n_hashes = 1 };
                struct nb_join_files *files;

                put_before(&(struct files_case){ "", .before = { rows[i].file } });
                assert_int_equal(nb_sha256(target, strlen(target), record.hashes[0]), 0);
                files = nb_join_files_new(&context, NB_PASS_REFRESH, &record);
                assert_non_null(files);
                assert_int_equal(nb_join_files_read(files, NB_FILE_SERVING_CERTIFICATE), 0);
                assert_int_equal(nb_join_files_has_serving_link(files), rows[i].is_ours);
                nb_join_files_freep(&files);
                folder_remove(&folder);
        }
}

int main(void) {
        prepare_context();
        CASES(cases, writes);
        CASES(cases, undoes);
        CASES(cases, completes);
        CASE(knows_its_own_files);
        CASE(knows_its_serving_link);
        CASE(knows_older_arguments);
        CASE(forgets_no_file_that_is_there);
        return case_run("install join files");
}
