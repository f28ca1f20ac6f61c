/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "join_method/plan.h"

#define TOKEN "abcdef.0123456789abcdef"
#define OTHER "fedcba.fedcba9876543210"

static struct nb_plan make_plan(void) {
        struct nb_plan plan = {
                .state = NB_NODE_STATE_EXPIRED, .name = "a", .started_ms = 7, .metadata_usec = 8
        };

        nb_settings_init(&plan.settings);
        plan.settings.timeout_ms = 9;
        return plan;
}

/* The child gets the tokens beside the settings, which refer to them again. */
static void a_plan_arrives(void **state) {
        struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT, taken = NB_SETTINGS_TOKENS_INIT;
        struct nb_sources sources = { 0 };
        struct nb_plan plan = make_plan();
        static struct nb_plan found;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_secret_copy(&tokens.discovery, TOKEN, strlen(TOKEN)), 0);
        assert_int_equal(nb_secret_copy(&tokens.tls_bootstrap, OTHER, strlen(OTHER)), 0);
        NB_TEXT_COPY(tokens.discovery_origin, "here");
        NB_TEXT_COPY(tokens.tls_bootstrap_origin, "there");
        plan.settings.tokens = &tokens;
        assert_int_equal(nb_plan_put(&sources, &plan, &tokens), 0);
        nb_settings_tokens_done(&tokens);
        assert_int_equal(nb_plan_take(&sources, &found, &taken, &f), 0);
        assert_int_equal(found.state, NB_NODE_STATE_EXPIRED);
        assert_string_equal(found.name, "a");
        assert_int_equal(found.started_ms, 7);
        assert_int_equal(found.metadata_usec, 8);
        assert_int_equal(found.settings.timeout_ms, 9);
        assert_ptr_equal(found.settings.tokens, &taken);
        assert_string_equal(taken.discovery.data, TOKEN);
        assert_string_equal(taken.tls_bootstrap.data, OTHER);
        assert_string_equal(taken.discovery_origin, "here");
        assert_string_equal(taken.tls_bootstrap_origin, "there");
        nb_settings_tokens_done(&taken);
        nb_sources_done(&sources);
}

/* For metadata and for a refresh. */
static void a_plan_without_tokens_has_none(void **state) {
        struct nb_settings_tokens taken = NB_SETTINGS_TOKENS_INIT;
        struct nb_sources sources = { 0 };
        const struct nb_plan plan = make_plan();
        static struct nb_plan found;
        struct nb_failure f = { 0 };

        assert_int_equal(nb_plan_put(&sources, &plan, NULL), 0);
        assert_int_equal(nb_plan_take(&sources, &found, &taken, &f), 0);
        assert_null(taken.discovery.data);
        assert_null(taken.tls_bootstrap.data);
        assert_string_equal(taken.discovery_origin, "");
        nb_sources_done(&sources);
}

/* Somebody has typed the command of a service. */
static void without_install_there_is_no_plan(void **state) {
        struct nb_settings_tokens taken = NB_SETTINGS_TOKENS_INIT;
        struct nb_sources sources = { 0 };
        static struct nb_plan found;
        struct nb_failure f = { 0 };

        assert_true(nb_plan_take(&sources, &found, &taken, &f) < 0);
        assert_int_equal(f.code, NB_USAGE);
}

int main(void) {
        CASE(a_plan_arrives);
        CASE(a_plan_without_tokens_has_none);
        CASE(without_install_there_is_no_plan);
        return case_run("join method plan");
}
