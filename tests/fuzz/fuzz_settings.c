/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"
#include "settings/settings.h"

static void check_path(const char *path) {
        FUZZ_CHECK(path[0] == '/' && path[1] != '\0' && fuzz_is_printable(path));
        FUZZ_CHECK(!strstr(path, "//") && !strstr(path, "/./") && !strstr(path, "/../"));
        FUZZ_CHECK(path[strlen(path) - 1] != '/');
}

static void check_settings(const struct nb_settings *settings) {
        char name[NB_NODE_NAME_MAX + 1];

        FUZZ_CHECK(settings->n_endpoints <= NB_SETTINGS_ENDPOINTS_MAX &&
                   settings->n_pins <= NB_SETTINGS_PINS_MAX);
        check_path(settings->kubeconfig);
        check_path(settings->certificate_directory);
        check_path(settings->ca_file);
        FUZZ_CHECK(settings->n_taints <= NB_SETTINGS_TAINTS_MAX &&
                   settings->n_extra_args <= NB_SETTINGS_EXTRA_ARGS_MAX);
        FUZZ_CHECK(settings->timeout_ms > 0);
        FUZZ_CHECK(settings->csr_expiration_seconds == 0 ||
                   settings->csr_expiration_seconds >= NB_CSR_EXPIRATION_MIN);
        if (settings->node_name[0])
                FUZZ_CHECK(nb_node_name_parse(settings->node_name, strlen(settings->node_name),
                                              name) == 0);
}

static const struct nb_settings_source source = { .origin = "fuzzed" },
                                       tolerant = { .origin = "fuzzed", .is_tolerant = true };

void fuzz_one(const char *data, size_t len) {
        struct nb_settings settings, before, again;
        struct nb_failure f = {}, ignored = {};
        int r;

        nb_settings_init(&settings);
        before = settings;
        r = nb_settings_merge(&settings, &source, data, len, &f);
        FUZZ_CHECK_FAILURE(f, r);
        again = before;
        FUZZ_CHECK(nb_settings_merge(&again, &tolerant, data, len, &ignored) >= 0 || r < 0);
        check_settings(&again);
        FUZZ_CHECK(r < 0 || memcmp(&settings, &again, sizeof(settings)) == 0);
        nb_failure_clear(&ignored);
        if (r < 0) {
                FUZZ_CHECK(memcmp(&settings, &before, sizeof(settings)) == 0);
                return;
        }
        check_settings(&settings);
        (void)nb_settings_verify(&settings, &ignored);
        /* Merging the same document again changes nothing. */
        again = settings;
        FUZZ_CHECK(nb_settings_merge(&again, &source, data, len, &f) == 0);
        FUZZ_CHECK(again.n_endpoints == settings.n_endpoints && again.n_pins == settings.n_pins);
        FUZZ_CHECK(again.timeout_ms == settings.timeout_ms &&
                   strcmp(again.kubeconfig, settings.kubeconfig) == 0);
}
