/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "install/install.h"
#include "join_folder.h"
#include "state_files/handoff.h"

#define STATE "/state"
#define NODE "O=system:nodes,CN=system:node:"

static struct pki_cert node_a, node_b;

enum step { BEGIN, SETTLED, END };

/* What a step of install makes of a machine and of what `join` has left. */
struct step_case {
        const char *name;
        enum step step;
        const struct pki_cert *joined;  /* the machine has this certificate; NULL: none */
        bool is_kubeconfig_lost;        /* which the files of the join replace */
        const struct pki_cert *handoff; /* `join` has left this one; NULL: none */
        const char *text;               /* as joined.json instead */
        const char *settings;           /* more of them */
        int r;                          /* NB_CHILD_*; negative: any failure */
        enum nb_code code;
        enum nb_node_state before;    /* in install->node, after the step */
        const struct pki_cert *after; /* kubelet's certificate, NULL: none */
        bool is_handoff_kept;
        uint64_t timeout_ms; /* of the child that follows */
};

#define HOUR "timeout: 1h\n"
#define HOUR_MS 3600000

static struct step_case cases[] = {
        { "begin: a new machine joins", BEGIN, .settings = HOUR, .r = NB_CHILD_JOIN,
          .before = NB_NODE_STATE_ABSENT, .timeout_ms = HOUR_MS },
        { "begin: a machine that has joined needs no child", BEGIN, &node_a, .r = NB_CHILD_NONE,
          .after = &node_a },
        { "begin: and what an earlier join has left is removed", BEGIN, &node_a, .handoff = &node_a,
          .r = NB_CHILD_NONE, .after = &node_a },
        { "begin: a lost kubeconfig is written again", BEGIN, &node_a, .is_kubeconfig_lost = true,
          .r = NB_CHILD_NONE, .after = &node_a },
        { "begin: an interrupted installation is finished", BEGIN, .handoff = &node_a,
          .r = NB_CHILD_NONE, .after = &node_a },
        { "begin: what is for another node is not installed", BEGIN, .handoff = &node_b,
          .settings = HOUR, .r = NB_CHILD_JOIN, .before = NB_NODE_STATE_ABSENT,
          .is_handoff_kept = true, .timeout_ms = HOUR_MS },
        { "begin: what is damaged is not installed", BEGIN, .text = "{", .settings = HOUR,
          .r = NB_CHILD_JOIN, .before = NB_NODE_STATE_ABSENT, .is_handoff_kept = true,
          .timeout_ms = HOUR_MS },
        { "begin: with a valid certificate of another name, the join must not take long", BEGIN,
          &node_b, .settings = HOUR, .r = NB_CHILD_JOIN, .before = NB_NODE_STATE_OTHER_NODE,
          .after = &node_b, .timeout_ms = NB_FALLBACK_TIMEOUT_MS },
        { "begin: a limit that is shorter stays", BEGIN, &node_b, .settings = "timeout: 7s\n",
          .r = NB_CHILD_JOIN, .before = NB_NODE_STATE_OTHER_NODE, .after = &node_b,
          .timeout_ms = 7000 },
        { "settled: a machine joins", SETTLED, .settings = HOUR, .r = NB_CHILD_JOIN,
          .timeout_ms = HOUR_MS },
        { "settled: what an earlier start has left is installed", SETTLED, .handoff = &node_a,
          .r = NB_CHILD_NONE, .after = &node_a },
        { "end: what join has left is installed", END, .handoff = &node_a, .r = NB_CHILD_NONE,
          .after = &node_a },
        { "end: nothing was left", END, .r = -1, .code = NB_HANDOFF_MISSING,
          .before = NB_NODE_STATE_ABSENT },
        { "end: a certificate for another node", END, .handoff = &node_b, .r = -1,
          .code = NB_CERTIFICATE_UNUSABLE, .before = NB_NODE_STATE_ABSENT },
        { "end: what is damaged", END, .text = "{", .r = -1, .code = NB_HANDOFF_MALFORMED,
          .before = NB_NODE_STATE_ABSENT, .is_handoff_kept = true },
        { "end: somebody else has joined meanwhile", END, &node_a, .handoff = &node_b,
          .r = NB_CHILD_NONE, .after = &node_a },
        { "end: nothing was left, and the certificate of another name is kept", END, &node_b,
          .r = NB_CHILD_NONE, .before = NB_NODE_STATE_OTHER_NODE, .after = &node_b },
};

static struct pki_cert make_node(const char *name) {
        char dn[64];

        (void)snprintf(dn, sizeof(dn), NODE "%s", name);
        return pki_make(&(struct pki_options){ .dn = dn,
                                               .issuer = &ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) - PKI_DAY,
                                               .not_after = time(NULL) + 10 * PKI_DAY });
}

static void put_joined(const struct step_case *c) {
        _cleanup_(nb_join_files_freep) struct nb_join_files *files = NULL;
        struct nb_accepted accepted = { 0 };
        struct nb_failure f = { 0 };
        char *pem;

        if (!c->joined)
                return;
        pem = PKI_JOIN(c->joined->pem, ca.pem, c->joined->key_pem);
        files = nb_join_files_new(&context, NB_PASS_JOIN, NULL);
        set_record(&files->record, "https://10.0.0.1:6443", ca.pem);
        NB_TEXT_COPY(files->record.node, c->joined == &node_a ? "a" : "b");
        assert_int_equal(nb_secret_copy(&accepted.pem, pem, strlen(pem)), 0);
        free(pem);
        files->accepted = &accepted;
        assert_int_equal(nb_join_files_write(files, &f), 1);
        nb_secret_done(&accepted.pem);
        if (c->is_kubeconfig_lost)
                assert_int_equal(unlinkat(folder.fd, &KUBECONFIG[1], 0), 0);
}

static void put_handoff(const struct step_case *c) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_handoff handoff = { .cluster.ca = ca.pem,
                                      .provenance.csr = "node-csr-x",
                                      .provenance.endpoint = "10.0.0.1:6443",
                                      .provenance.token_source = "a test" };
        char path[PATH_MAX];

        folder_put(&folder, STATE "/" NB_PENDING_KEY_FILE, c->handoff ? c->handoff->key_pem : "");
        (void)snprintf(path, sizeof(path), "%s" STATE, folder.path);
        assert_int_equal(setenv("STATE_DIRECTORY", path, true), 0);
        if (c->text)
                folder_put(&folder, STATE "/" NB_HANDOFF_FILE, c->text);
        if (!c->handoff)
                return;
        handoff.certificate = c->handoff->pem;
        assert_int_equal(nb_url_parse("https://10.0.0.1:6443", 21, &handoff.cluster.server), 0);
        assert_int_equal(nb_state_file_format(&nb_handoff_file, &handoff, &text), 0);
        folder_put(&folder, STATE "/" NB_HANDOFF_FILE, text.data);
}

static void put_settings(const struct step_case *c, struct nb_sources *ret_sources,
                         char path[static PATH_MAX]) {
        char text[1024];

        (void)snprintf(text, sizeof(text),
                       "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nnode: {name: a}\n"
                       "discovery: {endpoints: ['10.0.0.1:6443'], unsafeSkipCAVerification: true}\n"
                       "bootstrap: {token: abcdef.0123456789abcdef}\n%s",
                       c->settings ? c->settings : "");
        folder_put(&folder, "/etc/config.yaml", text);
        (void)snprintf(path, PATH_MAX, "%s/etc/config.yaml", folder.path);
        assert_int_equal(chmod(path, 0600), 0);
        (void)snprintf(path, PATH_MAX, "%s/etc", folder.path);
        *ret_sources = (struct nb_sources){ .config_directory = path };
}

/* kubelet finds this certificate by the kubeconfig. */
static void expect_certificate(const struct pki_cert *expected) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;

        assert_int_equal(nb_path_read(folder.fd, LINK, NB_HANDOFF_MAX, &text),
                         expected ? 0 : -ENOENT);
        if (!expected) {
                expect(KUBECONFIG, NULL);
                return;
        }
        expect(KUBECONFIG, OURS);
        assert_int_equal(strncmp(text.data, expected->pem, strlen(expected->pem)), 0);
        assert_non_null(strstr(text.data, expected->key_pem));
}

static int run_step(const struct step_case *c, struct nb_install *install, struct nb_failure *f) {
        return c->step == BEGIN     ? nb_install_begin(install, f)
               : c->step == SETTLED ? nb_install_settled(install, f)
                                    : nb_install_end(install, f);
}

static void takes_step(void **state) {
        const struct step_case *c = *state;
        struct nb_install install = { 0 };
        struct nb_sources sources;
        struct nb_failure f = { 0 };
        char path[PATH_MAX];
        int r;

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        put_joined(c);
        put_handoff(c);
        put_settings(c, &sources, path);
        assert_int_equal(nb_context_load(&install.own, folder.fd, &sources, &f), 0);
        install.context = &install.own;
        if (c->step != BEGIN)
                assert_int_equal(nb_context_choose_name(&install.own, "", &f), 0);
        assert_int_equal(nb_state_open(&install.state, &f), 0);
        r = run_step(c, &install, &f);
        assert_int_equal(f.code, c->code);
        assert_int_equal(r < 0 ? -1 : r, c->r);
        if (r == NB_CHILD_JOIN)
                assert_int_equal(install.timeout_ms, c->timeout_ms);
        if (c->step != SETTLED)
                assert_int_equal(install.node.inspection.state, c->before);
        assert_int_equal(nb_state_has(&install.state, NB_HANDOFF_FILE), c->is_handoff_kept);
        assert_int_equal(install.is_installed, c->after && !c->joined);
        expect_certificate(c->after);
        nb_state_done(&install.state);
        nb_install_done(&install);
        nb_sources_done(&sources);
        folder_remove(&folder);
}

int main(void) {
        prepare_context();
        pki_done(&other_ca); /* not used here */
        context.now = time(NULL);
        node_a = make_node("a");
        node_b = make_node("b");
        CASES(cases, takes_step);
        return case_run("install steps");
}
