/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "folder.h"
#include "join/load.h"
#include "os/clock.h"
#include "state_files/platform_note.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TOKEN "abcdef.0123456789abcdef"
#define HASH "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ENDPOINTS "discovery: {endpoints: ['a:1'], caCertHashes: ['" HASH "']}\n"
#define WITH_TOKEN "bootstrap: {token: " TOKEN "}\n"
#define AUTO "metadata: {provider: auto}\n"

static struct folder folder;
static struct nb_sources sources;
static struct nb_load load;
static struct nb_failure f;

static void put_kept(const char *path, const char *text) {
        char data[1024];
        const struct nb_secret value = { .data = data, .len = text ? strlen(text) : 0 };

        (void)snprintf(data, sizeof(data), "%s", text ? text : "");
        assert_int_equal(nb_sources_put(&sources, NB_SOURCE_FILE, path, 0644, text ? &value : NULL),
                         0);
}

/* A machine with this label of a volume, and what is on it. Nothing of this machine is read. */
static void put_platform(const char *volume, const char *user_data, const char *meta_data) {
        struct nb_platform platform = { 0 };
        struct nb_buffer note = NB_BUFFER_INIT(NB_PLATFORM_NOTE_MAX);

        NB_TEXT_COPY(platform.volume, volume);
        NB_TEXT_COPY(platform.platform_id, volume[0] ? "" : "metal"); /* wherever this test runs */
        assert_int_equal(nb_state_file_format(&nb_platform_file, &platform, &note), 0);
        put_kept(NB_PLATFORM_NOTE, note.data);
        put_kept(NB_PLATFORM_USER_DATA, user_data);
        put_kept(NB_PLATFORM_META_DATA, meta_data);
        nb_buffer_done(&note);
}

static void begin(const char *settings) {
        char text[1024];

        folder_make(&folder);
        sources = (struct nb_sources){ .config_directory = folder.path };
        load = (struct nb_load)NB_LOAD_INIT;
        f = (struct nb_failure){ 0 };
        (void)snprintf(text, sizeof(text), HEAD "%s", settings);
        folder_put(&folder, "/config.yaml", text);
        assert_int_equal(fchmodat(folder.fd, "config.yaml", 0600, 0), 0);
}

static void end(void) {
        nb_load_done(&load);
        nb_sources_done(&sources);
        folder_remove(&folder);
}

static int load_own(void) {
        int r = nb_load_settings(&load, &sources, &f);

        return r < 0 ? r : nb_load_bootstrap(&load, &f);
}

/* --- What is on the machine --- */

struct own_case {
        const char *name, *settings;
        bool is_metadata_wanted;
        enum nb_code verify; /* of nb_load_verify() */
        const char *detail;
};

static struct own_case owns[] = {
        { "own: a token", ENDPOINTS WITH_TOKEN },
        { "own: no token, which a cloud may have", ENDPOINTS AUTO, true, NB_TOKEN_MISSING,
          "no cloud was recognised, so no metadata was read" },
        { "own: a token, so no cloud is asked", ENDPOINTS WITH_TOKEN AUTO },
        { "own: nothing", "", true, NB_SETTINGS_INCOMPLETE, "discovery.endpoints" },
        { "own: one file for two", ENDPOINTS WITH_TOKEN "kubelet: {kubeconfig: /a, caFile: /a}\n",
          false, NB_SETTINGS_INVALID, "expected different paths" },
};

static void loads_own(void **state) {
        const struct own_case *c = *state;

        begin(c->settings);
        assert_int_equal(load_own(), 0);
        assert_int_equal(load.is_metadata_wanted, c->is_metadata_wanted);
        /* Only the bootstrap has it. */
        assert_null(load.tokens.discovery.data);
        assert_null(load.settings.tokens);
        assert_int_equal(load.bootstrap.identity.kind,
                         strstr(c->settings, TOKEN) ? NB_IDENTITY_TOKEN : NB_IDENTITY_NONE);
        assert_int_equal(nb_load_verify(&load, &f) < 0, c->verify != NB_NONE);
        assert_int_equal(f.code, c->verify);
        if (c->detail && !strstr(f.detail, c->detail))
                fail_msg("'%s' is not in '%s'", c->detail, f.detail);
        end();
}

static void documents_that_are_refused(void **state) {
        begin("no: 1\n");
        assert_true(nb_load_settings(&load, &sources, &f) < 0);
        assert_int_equal(f.code, NB_SETTINGS_INVALID);
        end();
        begin("bootstrap: {kubeconfig: /nowhere/at/all}\n");
        assert_int_equal(nb_load_settings(&load, &sources, &f), 0);
        assert_true(nb_load_bootstrap(&load, &f) < 0);
        assert_int_equal(f.code, NB_BOOTSTRAP_KUBECONFIG_UNREADABLE);
        assert_false(load.is_metadata_wanted);
        end();
}

/* --- The name --- */

struct name_case {
        const char *name, *settings, *by_default;
        const char *expected; /* NULL: refused */
        enum nb_code code;
};

#define FORTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG FORTY "." FORTY

static struct name_case names[] = {
        { "name: of the settings", "node: {name: a}\n", "b", "a" },
        { "name: of the last join", "", "b", "b" },
        { "name: no machine's", "node: {name: localhost}\n", "", NULL, NB_NODE_NAME_LOCALHOST },
        { "name: too long for a label", "node: {name: " LONG "}\n", "", NULL,
          NB_NODE_NAME_INVALID },
};

static void chooses_name(void **state) {
        const struct name_case *c = *state;
        char name[NB_NODE_NAME_MAX + 1] = "before";

        begin(c->settings);
        assert_int_equal(nb_load_settings(&load, &sources, &f), 0);
        assert_int_equal(nb_load_node_name(&load.settings, c->by_default, name, &f) < 0,
                         c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->expected)
                assert_string_equal(name, c->expected);
        end();
}

/* --- Metadata --- */

static enum nb_code verdicts[4];
static unsigned n_judged;

static int judge(const struct nb_load *judged, struct nb_failure *failure) {
        enum nb_code verdict = verdicts[n_judged++];

        assert_ptr_equal(judged, &load);
        return verdict == NB_NONE ? 0 : nb_failure_set(failure, verdict, ENOENT, "judged");
}

struct metadata_case {
        const char *name, *settings;
        const char *volume, *user_data, *meta_data;
        enum nb_provider provider;
        enum nb_code code;
        bool has_metadata;
        const char *node_name;   /* that results */
        const char *description; /* nb_load_describe() ends like this */
};

static struct metadata_case metadata_cases[] = {
        { "metadata: a document", ENDPOINTS AUTO, "cidata", HEAD WITH_TOKEN "node: {name: n}\n",
          .provider = NB_PROVIDER_NOCLOUD, .has_metadata = true, .node_name = "n",
          .description = "the metadata of NoCloud has none" },
        { "metadata: the machine's own settings come first", ENDPOINTS AUTO "node: {name: own}\n",
          "cidata", HEAD WITH_TOKEN "node: {name: n}\n", .provider = NB_PROVIDER_NOCLOUD,
          .has_metadata = true, .node_name = "own",
          .description = "the metadata of NoCloud has none" },
        { "metadata: a name beside the document",
          ENDPOINTS "metadata: {provider: auto, nodeName: true}\n", "cidata", HEAD WITH_TOKEN,
          "local-hostname: beside\n", NB_PROVIDER_NOCLOUD, .has_metadata = true,
          .node_name = "beside", .description = "the metadata of NoCloud has none" },
        { "metadata: a name that is not there",
          ENDPOINTS "metadata: {provider: auto, nodeName: true}\n", "cidata", HEAD WITH_TOKEN,
          "x: y\n", NB_PROVIDER_NOCLOUD, .code = NB_METADATA_MALFORMED, .has_metadata = true,
          .node_name = "", .description = "the metadata of NoCloud has none" },
        { "metadata: a value that this cloud never has",
          ENDPOINTS "metadata: {provider: auto, providerID: true}\n", "cidata", HEAD WITH_TOKEN,
          .provider = NB_PROVIDER_NOCLOUD, .code = NB_SETTINGS_INVALID, .node_name = "",
          .description = "" },
        { "metadata: something for another program", ENDPOINTS AUTO, "cidata", "#!/bin/sh\n",
          .provider = NB_PROVIDER_NOCLOUD, .node_name = "",
          .description = "the metadata of NoCloud has nothing for node-bootstrap: " },
        { "metadata: no cloud", ENDPOINTS AUTO, "", .provider = NB_PROVIDER_NONE, .node_name = "",
          .description = "no cloud was recognised, so no metadata was read" },
        { "metadata: not wanted", ENDPOINTS WITH_TOKEN AUTO, "cidata", "x",
          .provider = NB_PROVIDER_NONE, .node_name = "", .description = "" },
};

static void loads_metadata(void **state) {
        const struct metadata_case *c = *state;
        char text[NB_FAILURE_DETAIL_MAX];

        begin(c->settings);
        put_platform(c->volume, c->user_data, c->meta_data);
        assert_int_equal(load_own(), 0);
        assert_int_equal(nb_load_recognise(&load, &f), 0);
        assert_int_equal(load.provider, c->provider);
        assert_int_equal(nb_load_metadata(&load, NB_TIME_INFINITE, NULL, &f) < 0,
                         c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_int_equal(load.has_metadata, c->has_metadata);
        assert_string_equal(load.settings.node_name, c->node_name);
        nb_load_describe(&load, text, sizeof(text));
        assert_int_equal(strncmp(text, c->description, strlen(c->description)), 0);
        assert_int_equal(text[0] == '\0', c->description[0] == '\0');
        if (c->has_metadata && c->code == NB_NONE)
                assert_string_equal(load.bootstrap.identity.token_id, "abcdef");
        assert_null(load.tokens.discovery.data);
        nb_load_report_metadata(&load);
        end();
}

/* Whoever answers in place of a metadata service must not end the join. */
static void metadata_is_read_until_a_join_can_begin(void **state) {
        begin(ENDPOINTS AUTO);
        put_platform("cidata", HEAD WITH_TOKEN, NULL);
        assert_int_equal(load_own(), 0);
        assert_int_equal(nb_load_recognise(&load, &f), 0);
        n_judged = 0;
        verdicts[0] = NB_METADATA_UNREACHABLE;
        verdicts[1] = NB_NONE;
        assert_int_equal(nb_load_metadata(&load, NB_TIME_INFINITE, judge, &f), 0);
        assert_int_equal(n_judged, 2);
        assert_int_equal(f.code, NB_NONE);
        end();
}

static void a_machine_without_metadata_is_judged(void **state) {
        begin(ENDPOINTS AUTO);
        put_platform("", NULL, NULL);
        assert_int_equal(load_own(), 0);
        assert_int_equal(nb_load_recognise(&load, &f), 0);
        n_judged = 0;
        verdicts[0] = NB_TOKEN_MISSING;
        assert_true(nb_load_metadata(&load, NB_TIME_INFINITE, judge, &f) < 0);
        assert_string_equal(f.detail, "judged; no cloud was recognised, so no metadata was read");
        n_judged = 0;
        verdicts[0] = NB_NONE;
        nb_failure_clear(&f);
        assert_int_equal(nb_load_metadata(&load, NB_TIME_INFINITE, judge, &f), 0);
        end();
}

/* The process that reads metadata has not all settings: those of this machine may give a long name
 * a label of its own. */
static void install_alone_judges(void **state) {
        begin(AUTO "node: {name: " LONG "}\n");
        put_platform("cidata", HEAD WITH_TOKEN "node: {name: n}\n", NULL);
        assert_int_equal(nb_load_settings(&load, &sources, &f), 0);
        load.is_metadata_wanted = true;
        assert_int_equal(nb_load_recognise(&load, &f), 0);
        n_judged = 0;
        verdicts[0] = NB_NONE;
        assert_int_equal(nb_load_metadata(&load, NB_TIME_INFINITE, judge, &f), 0);
        assert_int_equal(n_judged, 1);
        assert_string_equal(load.settings.node_name, LONG);
        assert_string_equal(load.from_metadata.node_name, "n");
        assert_int_equal(load.bootstrap.identity.kind, NB_IDENTITY_NONE);
        end();
}

/* --- User data of a machine that does not exist yet --- */

struct user_data_case {
        const char *name, *settings, *text;
        bool has_metadata;
        enum nb_code code;
        const char *node_name;
};

static struct user_data_case user_data_cases[] = {
        { "user data: a document", ENDPOINTS AUTO, HEAD WITH_TOKEN "node: {name: n}\n", true,
          NB_NONE, "n" },
        { "user data: for a machine that has a token", ENDPOINTS WITH_TOKEN AUTO,
          HEAD "node: {name: n}\n", true, NB_NONE, "" },
        { "user data: a script", ENDPOINTS AUTO, "#!/bin/sh\n", false, NB_NONE, "" },
        { "user data: nothing", ENDPOINTS AUTO, "", false, NB_NONE, "" },
        { "user data: a setting that it may not have", ENDPOINTS AUTO,
          HEAD "kubelet: {caFile: /a}\n", true, NB_SETTINGS_INVALID, "" },
};

static void takes_user_data(void **state) {
        const struct user_data_case *c = *state;
        struct nb_secret data = NB_SECRET_INIT;
        char text[NB_FAILURE_DETAIL_MAX];

        begin(c->settings);
        assert_int_equal(load_own(), 0);
        assert_int_equal(nb_secret_copy(&data, c->text, strlen(c->text)), 0);
        assert_int_equal(nb_load_user_data(&load, "a file", &data, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_int_equal(load.has_metadata, c->has_metadata);
        assert_string_equal(load.settings.node_name, c->node_name);
        nb_load_describe(&load, text, sizeof(text));
        if (load.is_metadata_wanted)
                assert_string_equal(text, "a file has none");
        nb_secret_done(&data);
        end();
}

int main(void) {
        CASES(owns, loads_own);
        CASE(documents_that_are_refused);
        CASES(names, chooses_name);
        CASES(metadata_cases, loads_metadata);
        CASE(metadata_is_read_until_a_join_can_begin);
        CASE(a_machine_without_metadata_is_judged);
        CASE(install_alone_judges);
        CASES(user_data_cases, takes_user_data);
        return case_run("join load");
}
