/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <utime.h>

#include "state_files/refresh_settings.h"

#include "case.h"
#include "folder.h"
#include "lookup.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define AT(endpoint) HEAD "discovery:\n  endpoints: [" endpoint "]\n"
#define MARK NB_KUBELET_DIRECTORY "/" NB_REFRESH_MARK

struct keep_case {
        const char *name;
        const char *before;   /* in the record */
        const char *metadata; /* the cloud that the join took settings from */
        const char *settings;
        int expected;
        const char *after; /* in the record */
};

static struct keep_case cases[] = {
        { "nothing", "", "", HEAD, 1, HEAD },
        { "nothing new", HEAD, "", HEAD, 0, HEAD },
        { "endpoints", "", "", AT("10.0.0.1:6443"), 1, AT("\"10.0.0.1:6443\"") },
        { "what a refresh does not need", "", "",
          HEAD "node: {name: a}\nkubelet: {kubeconfig: /srv/k}\ndiscovery: {trustWholeBundle: "
               "true}\n",
          1, HEAD },
        { "what a refresh needs", "", "",
          HEAD "timeout: 5m\nrefresh: {restartKubelet: true}\nkubelet: {extraArgs: [v=2]}\n", 1,
          HEAD
          "kubelet:\n  extraArgs: [\"v=2\"]\nrefresh:\n  restartKubelet: true\ntimeout: 300s\n" },
        { "endpoints that are gone", AT("\"10.0.0.1:6443\""), "", HEAD, 1, HEAD },
        { "endpoints from metadata", AT("\"10.0.0.1:6443\""), "aws", HEAD, 0,
          AT("\"10.0.0.1:6443\"") },
        { "endpoints from metadata, and other ones", AT("\"10.0.0.1:6443\""), "aws",
          AT("10.0.0.2:6443"), 1, AT("\"10.0.0.2:6443\"") },
        { "a damaged record", "{", "aws", HEAD, 1, HEAD },
};

static void merge(const char *text, struct nb_settings *settings) {
        const struct nb_settings_source source = { .origin = "a test" };
        struct nb_failure f = { 0 };

        nb_settings_init(settings);
        assert_int_equal(nb_settings_merge(settings, &source, text, strlen(text), &f), 0);
}

static void keeps(void **state) {
        const struct keep_case *c = *state;
        struct nb_settings settings, recalled;
        struct nb_record record = { 0 };

        (void)strcpy(record.settings, c->before);
        (void)strcpy(record.metadata, c->metadata);
        merge(c->settings, &settings);
        assert_int_equal(nb_refresh_settings_keep(&settings, &record), c->expected);
        assert_string_equal(record.settings, c->after);
        nb_settings_init(&recalled);
        nb_refresh_settings_recall(&record, &recalled);
        assert_int_equal(recalled.n_endpoints, strstr(c->after, "endpoints") ? 1 : 0);
        assert_int_equal(recalled.restart_kubelet, strstr(c->after, "restart") != NULL);
}

/* A damaged record has no settings. */
static void recalls_nothing_from_damage(void **state) {
        struct nb_record record = { .settings = "{" };
        struct nb_settings settings;

        nb_settings_init(&settings);
        nb_refresh_settings_recall(&record, &settings);
        assert_int_equal(settings.n_endpoints, 0);
}

static void reads_the_time_of_the_mark(void **state) {
        struct folder folder;
        char full[PATH_MAX];

        folder_skip_without_lookup();
        folder_make(&folder);
        assert_int_equal(nb_refresh_mark_time(folder.fd), 0);
        folder_put(&folder, MARK, "");
        (void)snprintf(full, sizeof(full), "%s" MARK, folder.path);
        assert_int_equal(utime(full, &(struct utimbuf){ 1, 1800000000 }), 0);
        assert_int_equal(nb_refresh_mark_time(folder.fd), 1800000000);
        folder_remove(&folder);
}

int main(void) {
        CASES(cases, keeps);
        CASE(recalls_nothing_from_damage);
        CASE(reads_the_time_of_the_mark);
        return case_run("files refresh settings");
}
