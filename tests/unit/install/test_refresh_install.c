/* SPDX-License-Identifier: Apache-2.0 */
#include <utime.h>

#include "install/refresh_install.h"
#include "join_folder.h"
#include "os/clock.h"
#include "state_files/refresh_settings.h"

#define MARK KUBELET "/" NB_REFRESH_MARK
#define STATE "/state"
#define K3S "cacerts"

/* --- The timer --- */

struct mark_case {
        const char *name;
        bool is_supervised;  /* a supervisor has issued the certificate */
        const char *setting; /* refresh.automatic */
        time_t age;          /* of the mark, in seconds; 0: there is none */
        bool is_due;         /* then */
        bool is_wanted;      /* whether there is a mark afterwards */
};

static struct mark_case marks[] = {
        { "no mark", false, NULL, 0, false, false },
        { "no mark, with a supervisor", true, NULL, 0, false, true },
        { "no mark, and the setting", false, "true", 0, false, true },
        { "a mark that is not wanted", false, NULL, 3600, false, false },
        { "a mark, and the setting", false, "true", 3600, false, true },
        { "a mark that is a day old", false, "true", NB_REFRESH_PERIOD_S, true, true },
        { "a mark that is nearly a day old", false, "true", NB_REFRESH_PERIOD_S - 1, false, true },
        { "a mark in the future", false, "true", -3600, true, true },
        { "a mark, with a supervisor", true, NULL, 1, true, true },
        { "a mark, with a supervisor, and the setting", true, "false", 1, true, false },
};

static void put_record(bool is_supervised) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_record record = { .join_method = "token", .certificate = FIRST };

        set_record(&record, "https://10.0.0.1:6443", ca.pem);
        if (is_supervised)
                (void)strcpy(record.join_method, K3S);
        assert_int_equal(nb_state_file_format(&nb_record_file, &record, &text), 0);
        folder_put(&folder, RECORD, text.data);
}

static void set_mark_time(time_t when) {
        char full[PATH_MAX];

        folder_put(&folder, MARK, "");
        (void)snprintf(full, sizeof(full), "%s" MARK, folder.path);
        assert_int_equal(utime(full, &(struct utimbuf){ when, when }), 0);
}

static void set_automatic(const char *value) {
        const struct nb_settings_source source = { .origin = "a test" };
        struct nb_failure f = { 0 };
        char text[128];
        int len = snprintf(text, sizeof(text),
                           "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\nrefresh:\n  "
                           "automatic: %s\n",
                           value);

        assert_int_equal(nb_settings_merge(&context.settings, &source, text, (size_t)len, &f), 0);
}

static void follows_the_mark(void **state) {
        const struct mark_case *c = *state;

        folder_skip_without_lookup();
        folder_make(&folder);
        context.root_fd = folder.fd;
        put_record(c->is_supervised);
        nb_settings_init(&context.settings);
        if (c->setting)
                set_automatic(c->setting);
        nb_refresh_remember(&context);
        expect(MARK, NULL);
        if (c->age != 0)
                set_mark_time(context.now - c->age);
        assert_int_equal(nb_refresh_is_due(&context), c->is_due);
        nb_refresh_set_automatic(&context);
        expect(MARK, c->is_wanted ? "" : NULL);
        /* It counts from the join, or from the last success. */
        if (c->is_wanted && c->age != 0)
                assert_int_equal(nb_refresh_mark_time(folder.fd), context.now - c->age);
        nb_refresh_remember(&context);
        if (c->is_wanted)
                assert_in_range(nb_refresh_mark_time(folder.fd), time(NULL) - 5,
                                time(NULL) + 1); /* time() lags behind */
        nb_settings_init(&context.settings);
        folder_remove(&folder);
}

/* --- What `refresh` has left --- */

struct refresh_case {
        const char *name;
        enum nb_node_state state;
        struct file before[3];
        const char *ca, *server; /* in refreshed.json; NULL: there is none */
        const char *text;        /* as refreshed.json instead */
        const char *certificate; /* in refreshed.json */
        enum nb_code code;
        struct file after[5];
};

static char *both; /* CAs */

#define UNCHANGED \
        { KUBECONFIG, OURS }, { CA, "ca" }, { \
                RECORD, "*" \
        }
#define MOVED_TO "https://10.0.0.2:6443"

static struct refresh_case refreshes[] = {
        { "nothing", .after = { UNCHANGED } },
        { "the same CA and server", .ca = "ca", .server = "https://10.0.0.1:6443",
          .after = { UNCHANGED } },
        { "another server", .ca = "ca", .server = MOVED_TO,
          .after = { { KUBECONFIG, MOVED }, { CA, "ca" } } },
        { "one more CA", .ca = "both", .server = "https://10.0.0.1:6443",
          .after = { { KUBECONFIG, OURS }, { CA, "both" }, { CA ".old", NULL } } },
        { "a CA of nobody", .ca = "other", .server = MOVED_TO, .code = NB_HANDOFF_UNTRUSTED,
          .after = { UNCHANGED } },
        { "what is no CA", .ca = "x", .server = MOVED_TO, .code = NB_HANDOFF_MALFORMED,
          .after = { UNCHANGED } },
        { "what is no JSON", .text = "{", .code = NB_HANDOFF_MALFORMED, .after = { UNCHANGED } },
        { "a certificate that kubelet renews itself", .ca = "ca", .server = MOVED_TO,
          .certificate = "ca", .code = NB_HANDOFF_UNTRUSTED, .after = { UNCHANGED } },
        { "a server, for another program", .before = { { KUBECONFIG, "theirs" } }, .ca = "ca",
          .server = MOVED_TO, .code = NB_REFRESH_INAPPLICABLE,
          .after = { { KUBECONFIG, "theirs" }, { CA, "ca" } } },
        { "a server, for a machine that must join", NB_NODE_STATE_EXPIRED, .ca = "ca",
          .server = MOVED_TO, .code = NB_REFRESH_INAPPLICABLE, .after = { UNCHANGED } },
};

static char *ca_of(const char *name) {
        static char none[] = "x";

        return !strcmp(name, "both")    ? both
               : !strcmp(name, "ca")    ? ca.pem
               : !strcmp(name, "other") ? other_ca.pem
                                        : none;
}

static void put_handoff(const struct refresh_case *c) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_handoff handoff = { 0 };

        if (c->text)
                folder_put(&folder, STATE "/" NB_REFRESH_FILE, c->text);
        if (!c->ca)
                return;
        handoff.cluster.ca = ca_of(c->ca);
        handoff.certificate = c->certificate ? ca_of(c->certificate) : NULL;
        assert_int_equal(nb_url_parse(c->server, strlen(c->server), &handoff.cluster.server), 0);
        assert_int_equal(nb_state_file_format(&nb_refresh_file, &handoff, &text), 0);
        folder_put(&folder, STATE "/" NB_REFRESH_FILE, text.data);
}

static void put_joined(const struct file before[3]) {
        struct files_case put = { "", .is_joined = true };
        char path[PATH_MAX];

        memcpy(put.before, before, 3 * sizeof(before[0]));
        put_before(&put);
        folder_put(&folder, STATE "/x", "");
        (void)snprintf(path, sizeof(path), "%s" STATE, folder.path);
        assert_int_equal(setenv("STATE_DIRECTORY", path, true), 0);
}

static void installs(void **state) {
        const struct refresh_case *c = *state;
        struct nb_node node = { .inspection = { .state = c->state, .node = "a" } };
        struct nb_failure f = { 0 };

        folder_skip_without_lookup();
        put_joined(c->before);
        put_handoff(c);
        node.present.has_record = read_previous(&node.present.record) > 0;
        assert_int_equal(nb_refresh_install(&context, &node, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        for (const struct file *file = c->after; file->path; file++)
                expect(file->path,
                       file->text && !strcmp(file->text, "both") ? both : text_of(file->text));
        expect(STATE "/" NB_REFRESH_FILE, NULL);
        nb_node_done(&node);
        folder_remove(&folder);
}

/* --- What `refresh` gets --- */

struct begin_case {
        const char *name;
        struct file before[3];
        enum nb_code code;
        struct file after[5];
};

static char *pem; /* certificate and key */

static struct begin_case begins[] = {
        { "a machine that has joined", .after = { UNCHANGED } },
        { "a lost CA file, which is written again", { { CA, NULL } }, .after = { UNCHANGED } },
        { "no certificate",
          { { FIRST, NULL } },
          NB_REFRESH_INAPPLICABLE,
          { { KUBECONFIG, OURS } } },
        { "a kubeconfig of another program",
          { { KUBECONFIG, CONFIG("https://10.0.0.9:6443") } },
          NB_REFRESH_INAPPLICABLE,
          { { KUBECONFIG, CONFIG("https://10.0.0.9:6443") } } },
};

static void begins_only_where_it_applies(void **state) {
        const struct begin_case *c = *state;
        struct nb_sources sources = { 0 };
        struct nb_node node = { 0 };
        struct nb_failure f = { 0 };
        bool is_renewal = false;

        folder_skip_without_lookup();
        put_joined(c->before);
        if (!c->before[0].path || strcmp(c->before[0].path, FIRST) != 0)
                folder_put(&folder, FIRST, pem);
        context.sources = &sources;
        assert_int_equal(nb_node_inspect_disk(folder.fd, &node, &f), 0);
        assert_int_equal(nb_refresh_begin(&context, &node, &is_renewal, &f),
                         c->code == NB_NONE ? 1 : -EPROTO);
        assert_int_equal(f.code, c->code);
        assert_false(is_renewal);
        for (const struct file *file = c->after; file->path; file++)
                expect(file->path, text_of(file->text));
        nb_node_done(&node);
        nb_sources_done(&sources);
        context.sources = NULL;
        folder_remove(&folder);
}

/* --- Why a renewal has failed --- */

static void put_renewal(bool is_supervised, time_t refreshed_at) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_record_done) struct nb_record record = { 0 };

        put_joined((const struct file[3]){ { NULL } });
        folder_put(&folder, FIRST, pem);
        assert_int_equal(read_previous(&record), 1);
        (void)strcpy(record.join_method, is_supervised ? K3S : "token");
        nb_time_format(refreshed_at, record.refreshed_at);
        assert_int_equal(nb_state_file_format(&nb_record_file, &record, &text), 0);
        folder_put(&folder, RECORD, text.data);
}

/* The certificate is valid for another day. */
static void notes_why_a_renewal_failed(void **state) {
        static const struct {
                bool is_supervised;
                time_t days; /* since the last renewal */
                bool has_begun, is_noted;
        } rows[] = {
                { true, 10, false, true },
                { true, 0, false, false },
                { true, 0, true, true }, /* for an address of this machine */
                { false, 10, true, false },
        };

        folder_skip_without_lookup();
        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                _cleanup_(nb_record_done) struct nb_record first = { 0 }, second = { 0 };

                put_renewal(rows[i].is_supervised, time(NULL) - rows[i].days * PKI_DAY);
                nb_refresh_note_failure(folder.fd, rows[i].has_begun, NB_NODE_DELETED);
                assert_int_equal(read_previous(&first), 1);
                assert_string_equal(first.renewal_failure, rows[i].is_noted ? "node-deleted" : "");
                assert_int_equal(first.renewal_failed_at[0] != '\0', rows[i].is_noted);
                nb_refresh_note_failure(folder.fd, rows[i].has_begun, NB_REFRESH_UNFINISHED);
                assert_int_equal(read_previous(&second), 1);
                assert_string_equal(second.renewal_failure,
                                    rows[i].is_noted ? "refresh-unfinished" : "");
                /* The first time is kept. */
                assert_string_equal(second.renewal_failed_at, first.renewal_failed_at);
                folder_remove(&folder);
        }
}

int main(void) {
        struct pki_cert leaf;

        prepare_context();
        both = PKI_JOIN(ca.pem, other_ca.pem);
        leaf = pki_make(&(struct pki_options){ .dn = "O=system:nodes,CN=system:node:a",
                                               .issuer = &ca,
                                               .purpose = PKI_CLIENT_AUTH,
                                               .not_before = time(NULL) - PKI_DAY,
                                               .not_after = time(NULL) + PKI_DAY });
        pem = PKI_JOIN(leaf.pem, leaf.key_pem);
        pki_done(&leaf);
        CASES(marks, follows_the_mark);
        CASES(refreshes, installs);
        CASES(begins, begins_only_where_it_applies);
        CASE(notes_why_a_renewal_failed);
        return case_run("install refresh");
}
