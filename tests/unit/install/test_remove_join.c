/* SPDX-License-Identifier: Apache-2.0 */
#include "install/remove_join.h"
#include "join_folder.h"

#define SECOND PKI "/kubelet-client-2027-06-01-00-00-00.pem"
#define SERVING PKI "/kubelet.crt"

/* --- Cuts --- */

static bool is_cutting;
static unsigned left; /* removals until the cut */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
int __wrap_unlinkat(int fd, const char *path, int flags);
int __real_unlinkat(int fd, const char *path, int flags);

int __wrap_unlinkat(int fd, const char *path, int flags) {
        if (!is_cutting || left-- > 0)
                return __real_unlinkat(fd, path, flags);
        is_cutting = false;
        errno = EIO;
        return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

#define GONE(path) \
        { path, NULL }
#define OWN_GONE GONE(ENV), GONE(RECORD)

static struct files_case cases[] = {
        { "no join", .before = { { KUBECONFIG, "theirs" }, { ENV, NAME } },
          .after = { { KUBECONFIG, "theirs" }, { ENV, NAME } } },
        { "a join", .is_joined = true, .before = { { SERVING, "kubelet's" } },
          .after = { GONE(KUBECONFIG),
                     GONE(CA),
                     GONE(LINK),
                     GONE(FIRST),
                     GONE(FLAGS),
                     GONE(INSTANCE),
                     OWN_GONE,
                     { SERVING, "kubelet's" } } },
        { "a certificate that kubelet has renewed", .is_joined = true,
          .before = { { SECOND, "renewed" }, { LINK, SECOND, true } },
          .after = { GONE(KUBECONFIG),
                     GONE(CA),
                     GONE(LINK),
                     GONE(FIRST),
                     { SECOND, "renewed" },
                     OWN_GONE } },
        { "a file in the place of the kubeconfig", .is_joined = true,
          .before = { { KUBECONFIG, "theirs" } },
          .after = { { KUBECONFIG, "theirs" }, GONE(CA), GONE(LINK), OWN_GONE } },
        { "a kubeconfig of another program", .is_joined = true,
          .before = { { KUBECONFIG, CONFIG("https://10.0.0.9:6443") } },
          .after = { { KUBECONFIG, CONFIG("https://10.0.0.9:6443") },
                     { CA, "ca" },
                     { LINK, "*" },
                     { FIRST, "*" },
                     { FLAGS, "*" },
                     OWN_GONE } },
        { "a CA file, arguments and an endpoint of another program", .is_joined = true,
          .before = { { CA, "other" }, { FLAGS, ARGUMENTS("--v=2") }, { INSTANCE, "theirs" } },
          .after = { GONE(KUBECONFIG),
                     { CA, "other" },
                     GONE(LINK),
                     GONE(FIRST),
                     { FLAGS, ARGUMENTS("--v=2") },
                     { INSTANCE, "theirs" },
                     OWN_GONE } },
        { "files that are gone", .is_joined = true,
          .before = { { KUBECONFIG, NULL }, { CA, NULL }, { LINK, NULL }, { ENV, NULL } },
          .after = { GONE(KUBECONFIG), GONE(FIRST), GONE(FLAGS), OWN_GONE } },
};

static int remove_all(struct nb_failure *f) {
        _cleanup_(nb_record_done) struct nb_record record = { 0 };
        int r = read_previous(&record);

        assert_true(r >= 0);
        return nb_remove_join(&context, r > 0 ? &record : NULL, f);
}

static void removes(void **state) {
        const struct files_case *c = *state;
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        put_before(c);
        assert_int_equal(remove_all(&f), 0);
        expect_after(c);
        folder_remove(&folder);
}

/* Each removal fails in turn; a repeated reset completes the first one. */
static void completes(void **state) {
        const struct files_case *c = *state;
        bool is_cut = true;

        folder_skip_without_lookup();
        for (unsigned i = 0; is_cut; i++) {
                struct nb_failure f = { 0 };
                int r;

                put_before(c);
                left = i;
                is_cutting = true;
                r = remove_all(&f);
                is_cut = !is_cutting;
                is_cutting = false;
                assert_int_equal(f.code, is_cut ? NB_RESET_UNFINISHED : NB_NONE);
                assert_true(is_cut == (r < 0));
                if (is_cut)
                        assert_int_equal(remove_all(&f), 0);
                expect_after(c);
                folder_remove(&folder);
        }
}

/* Somebody who can write the record still removes no other file. */
static void certificate_elsewhere(void **state) {
        static const char *const paths[] = { KUBELET "/config.yaml", PKI "/a/kubelet-client-b.pem",
                                             PKI "/kubelet.key", PKI };

        folder_skip_without_lookup();
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                _cleanup_(nb_record_done) struct nb_record record = { 0 };
                struct nb_failure f = { 0 };
                char full[PATH_MAX];

                put_before(&(struct files_case){ "", .is_joined = true });
                if (strcmp(paths[i], PKI) != 0)
                        folder_put(&folder, paths[i], "x");
                assert_int_equal(read_previous(&record), 1);
                (void)snprintf(record.certificate, sizeof(record.certificate), "%s", paths[i]);
                assert_int_equal(nb_remove_join(&context, &record, &f), 0);
                (void)snprintf(full, sizeof(full), "%s%s", folder.path, paths[i]);
                assert_int_equal(access(full, F_OK), 0);
                expect(KUBECONFIG, NULL);
                folder_remove(&folder);
        }
}

int main(void) {
        prepare_context();
        CASES(cases, removes);
        CASES(cases, completes);
        CASE(certificate_elsewhere);
        return case_run("install remove join");
}
