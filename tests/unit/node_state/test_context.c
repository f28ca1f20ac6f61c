/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "folder.h"
#include "node_state/context.h"

#define HEAD "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define TOKEN "abcdef.0123456789abcdef"
#define OTHER "fedcba.fedcba9876543210"
#define FORTY "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG FORTY "." FORTY
#define UNSAFE "discovery: {endpoints: ['a:1'], unsafeSkipCAVerification: true}\n"

/* What install makes of its own settings and of what the child has found, which may be hostile. */
struct settle_case {
        const char *name;
        const char *own, *document; /* NULL: the child has found none */
        const char *token;          /* the child has found this one; NULL: none */
        enum nb_code code;
        const char *node_name; /* that results */
        const char *token_id;
        bool is_discard_from_metadata;
};

static struct settle_case cases[] = {
        { "everything from metadata", "", UNSAFE "node: {name: n}\n", TOKEN, NB_NONE, "n",
          "abcdef" },
        { "own settings come first", "node: {name: own}\n", UNSAFE "node: {name: n}\n", TOKEN,
          NB_NONE, "own", "abcdef" },
        { "a token alone", UNSAFE, NULL, TOKEN, NB_NONE, "", "abcdef" },
        { "no token", UNSAFE, NULL, NULL, NB_TOKEN_MISSING, "", "" },
        { "no endpoints", "", NULL, TOKEN, NB_SETTINGS_INCOMPLETE, "", "abcdef" },
        { "a setting that metadata must not have", UNSAFE, "kubelet: {kubeconfig: /etc/shadow}\n",
          TOKEN, NB_SETTINGS_INVALID, NULL, "" },
        { "a name that is no machine's", "", UNSAFE "node: {name: localhost}\n", TOKEN,
          NB_NODE_NAME_LOCALHOST, NULL, "" },
        { "a name that is too long for a label", "", UNSAFE "node: {name: " LONG "}\n", TOKEN,
          NB_NODE_NAME_INVALID, NULL, "" },
        { "the same on a machine that has another label",
          "node: {name: " LONG "}\nkubelet: {extraArgs: [node-labels=kubernetes.io/hostname=a]}\n",
          UNSAFE, TOKEN, NB_NONE, LONG, "abcdef" },
        { "no document", UNSAFE, "no: 1\n", TOKEN, NB_SETTINGS_INVALID, NULL, "" },
        { "metadata asks that its token is removed", UNSAFE, "token: {discard: true}\n", TOKEN,
          NB_NONE, "", "abcdef", true },
        { "this machine says so itself", UNSAFE "token: {discard: true}\n",
          "token: {discard: true}\n", TOKEN, NB_NONE, "", "abcdef" },
};

static void settles(void **state) {
        const struct settle_case *c = *state;
        struct nb_context own = { 0 }, settled = { 0 };
        struct nb_found found = NB_FOUND_INIT;
        struct nb_sources sources;
        struct nb_failure f = { 0 };
        struct folder folder;
        char text[1024];

        folder_make(&folder);
        sources = (struct nb_sources){ .config_directory = folder.path, .is_keeping = true };
        (void)snprintf(text, sizeof(text), HEAD "%s", c->own);
        folder_put(&folder, "/config.yaml", text);
        assert_int_equal(fchmodat(folder.fd, "config.yaml", 0600, 0), 0);
        assert_int_equal(nb_context_load(&own, folder.fd, &sources, &f), 0);
        /* The documents are not for `join`. */
        (void)snprintf(text, sizeof(text), "%s/config.yaml", folder.path);
        assert_null(nb_sources_find(&sources, NB_SOURCE_FILE, text));
        assert_true(sources.is_keeping);
        own.now = 7;
        found.provider = NB_PROVIDER_AWS;
        if (c->document) {
                (void)snprintf(text, sizeof(text), HEAD "%s", c->document);
                assert_int_equal(nb_secret_copy(&found.document, text, strlen(text)), 0);
        }
        if (c->token)
                assert_int_equal(
                        nb_secret_copy(&found.tokens.discovery, c->token, strlen(c->token)), 0);
        NB_TEXT_COPY(found.tokens.discovery_origin, "a claim");
        assert_int_equal(nb_context_settle(&own, &found, &settled, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        assert_null(found.tokens.discovery.data);
        assert_int_equal(settled.now, 7);
        assert_int_equal(settled.metadata, NB_PROVIDER_AWS);
        if (c->node_name) {
                assert_string_equal(settled.settings.node_name, c->node_name);
                assert_string_equal(settled.bootstrap.identity.token_id, c->token_id);
                assert_int_equal(settled.is_discard_from_metadata, c->is_discard_from_metadata);
                assert_true(settled.is_metadata_wanted);
                /* Not where the child says. */
                if (!strcmp(c->node_name, "n"))
                        assert_string_equal(settled.settings.origin[NB_SETTING_NODE_NAME],
                                            "the metadata of Amazon EC2");
        }
        nb_found_done(&found);
        nb_context_done(&settled);
        nb_context_done(&own);
        nb_sources_done(&sources);
        folder_remove(&folder);
}

/* What is secret, and nothing else, when only `join` needs it. */
static void secrets_are_forgotten(void **state) {
        struct nb_context context = { 0 };

        assert_int_equal(nb_secret_copy(&context.tokens.discovery, TOKEN, strlen(TOKEN)), 0);
        assert_int_equal(nb_secret_copy(&context.bootstrap.identity.secret, TOKEN, 23), 0);
        assert_int_equal(nb_secret_copy(&context.bootstrap.node_password, "pw", 2), 0);
        NB_TEXT_COPY(context.bootstrap.identity.token_id, "abcdef");
        nb_context_forget_secrets(&context);
        assert_null(context.tokens.discovery.data);
        assert_null(context.bootstrap.identity.secret.data);
        assert_null(context.bootstrap.node_password.data);
        assert_string_equal(context.bootstrap.identity.token_id, "abcdef");
        nb_context_done(&context);
}

/* A reset must not report that nothing is left while unread settings may name other files. */
static void unread_settings_may_name_a_join(void **state) {
        struct nb_context context = { 0 };
        struct nb_failure f = { 0 };

        assert_int_equal(nb_context_verify_join(&context, &f), 0);
        assert_int_equal(f.code, NB_NONE);
        (void)nb_failure_set(&context.unread, NB_SETTINGS_UNREADABLE, EIO, "cannot read 'a'");
        assert_int_equal(nb_context_verify_join(&context, &f), -EIO);
        assert_int_equal(f.code, NB_RESET_UNFINISHED);
        assert_non_null(strstr(f.detail, "cannot read 'a'"));
}

int main(void) {
        CASES(cases, settles);
        CASE(secrets_are_forgotten);
        CASE(unread_settings_may_name_a_join);
        return case_run("node state context");
}
