/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "admin/client/client.h"
#include "os/clock.h"

#include "allocation.h"
#include "case.h"

#define CLUSTER(name, server) \
        "clusters: [{name: " name ", cluster: {server: \"https://" server \
        ":6443\", certificate-authority-data: UEVN}}]\n"
#define CONTEXT(name, cluster, user) \
        "contexts: [{name: " name ", context: {cluster: " cluster ", user: " user "}}]\n"
#define USER(name, fields) "users: [{name: " name ", user: {" fields "}}]\n"

static char folder[] = "/tmp/nb-test-client-XXXXXX";

static const struct {
        const char *name, *text;
} files[] = {
        { "one", "current-context: one\n" CONTEXT("one", "c", "u") },
        { "two", "current-context: two\n" CLUSTER("c", "two") USER("u", "token: two") },
        { "three", CONTEXT("one", "d", "d") CLUSTER("c", "three") USER("u", "token: three") },
        { "four", CONTEXT("two", "c", "f") USER("f", "tokenFile: token") },
        { "token", "from-file\n" },
        { "five", CLUSTER("c", "two") },
        { "six", "clusters: [{name: c, cluster: {server: \"https://two:6443\", "
                 "certificate-authority-data: UEVNMg==}}]\n" },
        { "seven",
          CONTEXT("two", "c", "g")
                  USER("g", "exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false', "
                            "interactiveMode: Never}") },
        { "eight", "current-context: x\n" CONTEXT("x", "c", "h")
                           USER("h", "client-certificate: leaf, client-key: key") },
        { "leaf", "LEAF" },
        { "key", "KEY" },
        { "exec",
          "current-context: x\n" CONTEXT("x", "c", "e")
                  USER("e", "exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, "
                            "args: ['{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":"
                            "\"ExecCredential\",\"status\":{\"token\":\"from-exec\"}}'], "
                            "interactiveMode: Never, provideClusterInfo: true, env: [{name: A, "
                            "value: b}]}") },
};

/* `names` are files separated by spaces; ".": one that does not exist. */
static void set_kubeconfig(const char *names) {
        char list[1024] = "", words[64];

        snprintf(words, sizeof(words), "%s", names);
        for (char *rest = words, *word; (word = strsep(&rest, " "));)
                snprintf(list + strlen(list), sizeof(list) - strlen(list), ":%s/%s", folder,
                         strcmp(word, ".") == 0 ? "missing" : word);
        assert_int_equal(setenv("KUBECONFIG", list, 1), 0);
}

static struct {
        const char *name;
        const char *files;
        const char *context; /* --context */
        const char *host, *token;
        bool has_expiry;
} merges[] = {
        { "the first file wins", ". one two three", NULL, "two", "two" },
        { "the order counts", "one three two", NULL, "three", "three" },
        { "entries are found in any file", "four two", NULL, "two", "from-file", true },
        { "--context wins", "one two four", "two", "two", "from-file", true },
        { "the first current context wins", "exec one two", NULL, "two", "from-exec" },
};

static void merges_files(void **state) {
        const __typeof__(merges[0]) *row = *state;
        struct nb_admin admin = { .place.context = row->context };
        struct nb_failure f = {};

        set_kubeconfig(row->files);
        assert_int_equal(nb_admin_connect(&admin, &f), 0);
        assert_string_equal(admin.cluster.server.host, row->host);
        assert_string_equal(admin.identity.secret.data, row->token);
        assert_int_equal(admin.expires_ms != NB_TIME_INFINITE, row->has_expiry);
        assert_ptr_equal(admin.api.identity, &admin.identity);
        nb_admin_done(&admin);
}

static void write_file(const char *name, const char *text) {
        char path[256];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", folder, name);
        file = fopen(path, "we");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
}

/* A new token keeps the connections; whatever fails keeps the old token, too. */
static void renews_a_token(void **state) {
        struct nb_http *http;
        struct nb_failure f = {};
        struct nb_admin admin = {};

        set_kubeconfig("four two");
        assert_int_equal(nb_admin_connect(&admin, &f), 0);
        http = admin.api.http;
        write_file("token", "renewed");
        assert_int_equal(nb_admin_renew_if_expired(&admin, &f), 0);
        assert_string_equal(admin.identity.secret.data, "from-file");
        admin.expires_ms = 0;
        assert_int_equal(nb_admin_renew_if_expired(&admin, &f), 0);
        assert_string_equal(admin.identity.secret.data, "renewed");
        assert_string_equal(admin.api.authorization.data, "Authorization: Bearer renewed");
        assert_true(admin.expires_ms > nb_now_ms());
        assert_ptr_equal(admin.api.http, http);

        admin.expires_ms = 0;
        write_file("token", "");
        assert_true(nb_admin_renew_if_expired(&admin, &f) < 0);
        nb_failure_clear(&f);
        /* Another cluster under the same name must not receive the token. */
        write_file("token", "for-another-cluster");
        set_kubeconfig("four three");
        assert_true(nb_admin_renew_if_expired(&admin, &f) < 0);
        assert_non_null(strstr(f.detail, "the server has changed since this program started"));
        assert_string_equal(admin.api.authorization.data, "Authorization: Bearer renewed");
        assert_ptr_equal(admin.api.http, http);
        nb_admin_done(&admin);
        write_file("token", "from-file\n");
}

static void count_replacement(void *userdata) {
        (*(int *)userdata)++;
}

/* A certificate in a file is read again every minute, but watches must go on. */
static void keeps_the_connections_of_the_same_certificate(void **state) {
        struct nb_failure f = {};
        struct nb_http *http;
        struct nb_admin admin = {};

        set_kubeconfig("eight five");
        assert_int_equal(nb_admin_connect(&admin, &f), 0);
        assert_int_equal(admin.identity.kind, NB_IDENTITY_CERTIFICATE);
        http = admin.api.http;
        admin.expires_ms = 0;
        assert_int_equal(nb_admin_renew_if_expired(&admin, &f), 0);
        assert_true(admin.expires_ms > nb_now_ms() && admin.expires_ms != NB_TIME_INFINITE);
        assert_ptr_equal(admin.api.http, http);
        write_file("leaf", "OTHER");
        admin.expires_ms = 0;
        assert_int_equal(nb_admin_renew_if_expired(&admin, &f), 0);
        assert_ptr_not_equal(admin.api.http, http);
        nb_admin_done(&admin);
        write_file("leaf", "LEAF");
}

/* A program that runs on must stop its transfers before their connections are freed. */
static void replaces_the_connections_for_another_ca(void **state) {
        struct nb_failure f = {}, rejected = { .code = NB_ADMIN_UNTRUSTED };
        struct nb_admin admin = {};
        int n = 0;

        set_kubeconfig("one five two");
        assert_int_equal(nb_admin_connect(&admin, &f), 0);
        admin.on_replace = count_replacement;
        admin.userdata = &n;
        set_kubeconfig("one six two");
        admin.expires_ms = 0;
        assert_int_equal(nb_admin_renew_if_expired(&admin, &f), 0);
        assert_int_equal(admin.cluster.ca_len, 3);
        assert_int_equal(nb_admin_keep_usable(&admin, &rejected, 1000, &f), 0);
        assert_int_equal(n, 1);
        assert_int_equal(admin.cluster.ca_len, 4);
        assert_ptr_equal(admin.api.identity, &admin.identity);
        assert_int_equal(nb_admin_keep_usable(&admin, &rejected, 1000 + NB_ADMIN_RENEW_MS, &f), 0);
        assert_int_equal(n, 1);
        /* kubelet writes another one into the pod. */
        set_kubeconfig("one five two");
        assert_true(admin.renew_ms >= 1000 + NB_ADMIN_RENEW_MS);
        assert_int_equal(nb_admin_keep_usable(&admin, &rejected, admin.renew_ms - 1, &f), 0);
        assert_int_equal(n, 1);
        assert_int_equal(nb_admin_keep_usable(&admin, &rejected, admin.renew_ms, &f), 0);
        assert_int_equal(n, 2);
        assert_int_equal(admin.cluster.ca_len, 3);
        nb_admin_done(&admin);
}

static struct {
        const char *name;
        const char *later; /* files at the second reading */
        enum nb_code rejected;
        bool has_succeeded; /* a request, meanwhile */
        enum nb_code end;
} unusable[] = {
        { "the server rejects what the file has", "four two", NB_ADMIN_UNAUTHORIZED, false,
          NB_ADMIN_UNAUTHORIZED },
        { "the server has the CA of another cluster", "four two", NB_ADMIN_UNTRUSTED, false,
          NB_ADMIN_UNTRUSTED },
        { "the file is gone", ".", NB_ADMIN_UNAUTHORIZED, false, NB_ADMIN_KUBECONFIG_UNUSABLE },
        { "the file is gone, the server is away", ".", NB_NONE, false,
          NB_ADMIN_KUBECONFIG_UNUSABLE },
        { "the file has another server", "four three", NB_NONE, false,
          NB_ADMIN_KUBECONFIG_UNUSABLE },
        { "the file is gone, the credential is usable", ".", NB_NONE, true, NB_NONE },
        { "the server is away", "four two", NB_ADMIN_UNREACHABLE, false, NB_NONE },
        { "the plugin fails", "seven two", NB_NONE, false, NB_NONE },
};

/* After a limit, so that a file may be missing while it is replaced. */
static void ends_with_an_unusable_credential(void **state) {
        const __typeof__(unusable[0]) *row = *state;
        struct nb_failure f = {}, rejected = { .code = row->rejected };
        struct nb_admin admin = {};
        int r = 0;

        set_kubeconfig("four two");
        assert_int_equal(nb_admin_connect(&admin, &f), 0);
        set_kubeconfig(row->later);
        /* Twice the interval, which grows by the time that a renewal takes. */
        for (uint64_t now_ms = 1000; now_ms <= 1000 + NB_ADMIN_UNUSABLE_MS;
             now_ms += 2 * NB_ADMIN_RENEW_MS) {
                assert_int_equal(r, 0);
                admin.expires_ms = 0;
                r = nb_admin_keep_usable(&admin, row->rejected ? &rejected : NULL, now_ms, &f);
                if (row->has_succeeded)
                        admin.unusable_ms = 0;
        }
        assert_int_equal(f.code, row->end);
        assert_int_equal(r < 0, row->end != NB_NONE);
        nb_admin_done(&admin);
}

static int run(const void *names) {
        struct nb_failure f = {};
        struct nb_admin admin = {};
        int r;

        set_kubeconfig(names);
        r = nb_admin_connect(&admin, &f);
        if (r >= 0)
                nb_admin_done(&admin);
        return r;
}

static void memory_runs_out(void **state) {
        allocation_try_all(run, "one two");
        allocation_try_all(run, "exec two");
}

static int set_up(void **state) {
        if (!mkdtemp(folder))
                return -1;
        for (size_t i = 0; i < N_ELEMENTS(files); i++)
                write_file(files[i].name, files[i].text);
        return 0;
}

static int tear_down(void **state) {
        char path[256];

        for (size_t i = 0; i < N_ELEMENTS(files); i++) {
                snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
                (void)unlink(path);
        }
        return rmdir(folder);
}

int main(void) {
        CASES(merges, merges_files);
        CASE(renews_a_token);
        CASE(keeps_the_connections_of_the_same_certificate);
        CASE(replaces_the_connections_for_another_ca);
        CASES(unusable, ends_with_an_unusable_credential);
        CASE(memory_runs_out);
        return _cmocka_run_group_tests("client", case_list, n_cases, set_up, tear_down);
}
