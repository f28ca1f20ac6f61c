/* SPDX-License-Identifier: Apache-2.0 */
#include "join/endpoints.h"
#include "join/other_server.h"
#include "join_server.h"
#include "kube_calls/cluster_calls.h"

static void discovers_by_token(void **state) {
        static const struct {
                const char *key;
                bool is_other_ca;
                enum nb_code code;
        } rows[] = {
                { "0123456789abcdef", false, NB_NONE },
                { "fedcba9876543210", false, NB_SIGNATURE_INVALID },
                { "0123456789abcdef", true, NB_CA_PIN_MISMATCH },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct pki_cert other = pki_make(
                        &(struct pki_options){ .dn = "CN=ca", .is_ca = true });
                char *info = make_info(rows[i].is_other_ca ? &other : &server.ca, rows[i].key);
                struct server_answer answers[] = { { INFO, 200, info, .is_repeated = true },
                                                   { 0 } };

                begin(NB_METHOD_TOKEN, answers);
                set_token(&bootstrap.token, NB_IDENTITY_TOKEN, TOKEN);
                join.is_rehearsal = true;
                assert_int_equal(nb_stage_discover(&join, &f) < 0, rows[i].code != NB_NONE);
                assert_int_equal(f.code, rows[i].code);
                assert_int_equal(f.is_unverified, rows[i].code == NB_SIGNATURE_INVALID);
                if (rows[i].code == NB_NONE) {
                        assert_string_equal(join.cluster.ca, server.ca.pem);
                        assert_int_equal(join.cluster.server.port, server.port);
                } else
                        assert_null(join.cluster.ca);
                /* It proves itself to nobody. */
                assert_null(strstr(server_log(&server), "Authorization"));
                end();
                free(info);
                pki_done(&other);
        }
}

static void discovers_by_hash(void **state) {
        for (int is_other = 0; is_other < 2; is_other++) {
                struct server_answer answers[] = {
                        { "GET /cacerts ", 200, server.ca.pem, .is_repeated = true }, { 0 }
                };

                begin(NB_METHOD_K3S, answers);
                settings.n_pins = 0;
                bootstrap.has_hash = true;
                assert_int_equal(nb_sha256(server.ca.pem, strlen(server.ca.pem) - (size_t)is_other,
                                           bootstrap.hash),
                                 0);
                join.is_rehearsal = true;
                assert_int_equal(nb_stage_discover(&join, &f) < 0, is_other);
                assert_int_equal(f.code, is_other ? NB_CA_HASH_MISMATCH : NB_NONE);
                if (!is_other)
                        assert_string_equal(join.cluster.ca, server.ca.pem);
                end();
        }
}

static void newer_cluster_info_is_fetched(void **state) {
        char *info = make_info(&server.ca, "x");
        struct server_answer answers[] = { { INFO, 200, info }, { 0 } };
        struct nb_cluster known = server_cluster(&server), newer = { 0 };
        struct nb_cluster_info found = { 0 };

        begin(NB_METHOD_DOCUMENT, answers);
        NB_TEXT_COPY(known.tls_server_name, "127.0.0.1");
        assert_int_equal(nb_cluster_fetch_info(&known, join.deadline_ms, &found, &newer, &f), 0);
        assert_string_equal(newer.ca, server.ca.pem);
        assert_string_equal(newer.tls_server_name, "127.0.0.1"); /* of the same server */
        nb_cluster_info_done(&found);
        nb_cluster_done(&newer);
        assert_true(nb_cluster_fetch_info(&known, join.deadline_ms, &found, &newer, &f) < 0);
        assert_int_equal(f.code, NB_CLUSTER_INFO_MISSING);
        end();
        free(info);
}

/* --- The race of the endpoints --- */

static int verify_text(const struct nb_join *joining, const struct nb_api *api,
                       const struct nb_unverified *first, struct nb_http_answer *second,
                       struct nb_cluster *ret_cluster, struct nb_failure *failure) {
        if (first->answer.status != 200)
                return nb_failure_set(failure, NB_SERVER_ERROR, 0, "no");
        ret_cluster->ca = strdup(server.ca.pem);
        ret_cluster->ca_len = strlen(server.ca.pem);
        assert_int_equal(second != NULL,
                         strcmp(first->answer.body.data, "twice") == 0 && second != NULL);
        return strcmp(first->answer.body.data, "twice") == 0 && !second ? NB_RACE_AGAIN : 0;
}

struct race_case {
        const char *name;
        struct server_answer answers[4];
        unsigned n_endpoints; /* all at the same server */
        enum nb_code code;
        unsigned n_requests;
};

static struct race_case races[] = {
        { "race: the first endpoint", { { "GET /x ", 200, "once" } }, 1, NB_NONE, 1 },
        { "race: a second copy",
          { { "GET /x ", 200, "twice" }, { "GET /x ", 200, "twice" } },
          1,
          NB_NONE,
          2 },
        { "race: the first one is silent",
          { { "GET /x ", .is_silent = true }, { "GET /x ", 200, "once" } },
          2,
          NB_NONE,
          2 },
        { "race: the first one refuses",
          { { "GET /x ", 500 }, { "GET /x ", 200, "once" } },
          2,
          NB_NONE,
          2 },
        { "race: nobody", { { "GET /x ", 500, .is_repeated = true } }, 2, NB_SERVER_ERROR, 2 },
};

static void races_endpoints(void **state) {
        struct race_case *c = *state;
        static const struct nb_call call = { "a test of", "/x", 1024, NULL };
        const struct nb_race race = { &call, verify_text, NB_ANSWER_MALFORMED, false };
        unsigned n = 0;

        begin(NB_METHOD_TOKEN, c->answers);
        settings.n_endpoints = c->n_endpoints;
        settings.endpoints[1] = settings.endpoints[0];
        join.is_rehearsal = true;
        assert_int_equal(nb_join_race(&join, &race, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        for (const char *at = server_log(&server); (at = strstr(at, "GET /x ")); at++)
                n++;
        assert_int_equal(n, c->n_requests);
        end();
}

static struct other_case {
        const char *name;
        int status;           /* of the other server */
        bool is_present;      /* kubelet's server is the one that answers */
        bool is_untrusted;    /* the machine has another CA */
        unsigned n_endpoints; /* kubelet's own, then the other one */
        int r;
        enum nb_code code;
} others[] = {
        { "kubelet's server answers", 200, true, false, 2, 0, NB_NONE },
        { "kubelet's server answers with an error", 403, true, false, 2, 0, NB_NONE },
        { "another one is listed", 200, false, false, 2, 1, NB_NONE },
        { "another one answers with an error", 403, false, false, 2, 1, NB_NONE },
        { "another one of another CA", 200, false, true, 2, -EPROTO, NB_REFRESH_UNFINISHED },
        { "no other one is listed", 200, false, false, 1, -EPROTO, NB_REFRESH_UNFINISHED },
};

/* The kubelet of a node of k3s has one server. */
static void finds_another_server(void **state) {
        const struct other_case *c = *state;
        struct server_answer answers[] = { { "GET /ping ", c->status, "pong", .is_repeated = true },
                                           { 0 } };
        struct pki_cert stranger = pki_make(&(struct pki_options){ .dn = "CN=x", .is_ca = true });
        struct nb_cluster present = server_cluster(&server), other = { 0 };
        int r;

        begin(NB_METHOD_K3S, answers);
        settings.endpoints[1] = present.server;
        if (!c->is_present)
                present.server.port = 1; /* where nobody listens */
        if (c->is_untrusted)
                present.ca = stranger.pem, present.ca_len = strlen(stranger.pem);
        settings.endpoints[0] = present.server;
        settings.n_endpoints = c->n_endpoints;
        r = nb_find_other_server(&present, &settings, nb_now_ms() + (c->is_present ? 60000 : 1500),
                                 &other, &f);
        assert_int_equal(r < 0 ? -EPROTO : r, c->r);
        assert_int_equal(f.code, c->code);
        if (r > 0) {
                assert_int_equal(other.server.port, server.port);
                assert_string_equal(other.ca, present.ca);
        } else
                assert_null(other.ca);
        assert_null(strstr(server_log(&server), "Authorization"));
        nb_cluster_done(&other);
        end();
        pki_done(&stranger);
}

int main(void) {
        int r;

        if (nb_http_begin(true, &f) < 0)
                return 1;
        server_start(&server, (struct server_answer[]){ { 0 } });
        make_node();
        CASE(discovers_by_token);
        CASE(discovers_by_hash);
        CASE(newer_cluster_info_is_fetched);
        CASES(races, races_endpoints);
        CASES(others, finds_another_server);
        r = case_run("join discover");
        server_stop(&server);
        pki_done(&node);
        nb_http_end();
        return r;
}
