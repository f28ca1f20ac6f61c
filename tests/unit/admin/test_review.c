/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "admin/client/calls.h"
#include "admin/commands/review.h"
#include "os/clock.h"

#include "case.h"

/* The lists that are read, in order: one object each, NULL: none. */
static const char *lists[3];
static size_t n_lists, failing; /* from 1 */

int __wrap_nb_admin_list(struct nb_admin *admin, const char *what, const char *path,
                         nb_admin_visit *visit, void *userdata, struct nb_failure *f);
int __wrap_nb_facts_read_policy(struct nb_admin *admin, struct nb_policy *ret_policy,
                                struct nb_failure *ret_flaw, struct nb_failure *f);

int __wrap_nb_facts_read_policy(struct nb_admin *admin _unused_,
                                struct nb_policy *ret_policy _unused_,
                                struct nb_failure *ret_flaw _unused_,
                                struct nb_failure *f _unused_) {
        return 0;
}

int __wrap_nb_admin_list(struct nb_admin *admin _unused_, const char *what,
                         const char *path _unused_, nb_admin_visit *visit, void *userdata,
                         struct nb_failure *f) {
        const char *text = lists[n_lists++];

        if (n_lists == failing)
                return nb_failure_set(f, NB_SERVER_ERROR, 0, "%s: failed", what);
        if (text) {
                _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(
                        text, strlen(text), what, NB_ANSWER_MALFORMED, f);

                assert_int_equal(visit(userdata, &json), 0);
                assert_int_equal(json.r, 0);
        }
        return 0;
}

static struct {
        const char *name;
        size_t failing;
} snapshots[] = {
        { "a snapshot that is complete is fresh", 0 },
        { "one without the Nodes is not", 1 },
        { "one without the enrolled nodes is not", 2 },
};

static void reads_snapshot(void **state) {
        const __typeof__(snapshots[0]) *row = *state;
        _cleanup_(nb_hosts_done) struct nb_hosts hosts = { 0 };
        struct nb_failure f = { 0 };
        struct nb_admin admin = { 0 };

        memset(lists, 0, sizeof(lists));
        n_lists = 0;
        failing = row->failing;
        assert_int_equal(nb_facts_read_hosts(&admin, &hosts, &f) < 0, failing > 0);
        assert_int_equal(nb_hosts_is_fresh(&hosts, nb_now_ms()), failing == 0);
}

#define TOKEN(metadata) \
        "{\"type\":\"bootstrap.kubernetes.io/token\",\"metadata\":{\"name\":" \
        "\"bootstrap-token-abcdef\",\"uid\":\"u\",\"resourceVersion\":\"1\"," \
        "\"creationTimestamp\":\"2020-01-01T00:00:00Z\"," metadata \
        "\"annotations\":{\"node-bootstrap/node\":\"n1\"}},\"data\":{\"token-id\":\"YWJjZGVm\"," \
        "\"token-secret\":\"MDEyMzQ1Njc4OWFiY2RlZg==\"," \
        "\"usage-bootstrap-authentication\":\"dHJ1ZQ==\"}}"
#define NODE \
        "{\"type\":\"node-bootstrap/enrolled-node\",\"metadata\":{\"name\":" \
        "\"node-bootstrap-node-n1\",\"uid\":\"u\",\"resourceVersion\":\"1\"},\"data\":{\"node\":" \
        "\"bjE=\",\"addresses\":\"MTAuMC4wLjU=\"}}"
#define LEASE(name) \
        "{\"metadata\":{\"name\":\"" name "\",\"labels\":{\"node-bootstrap/claim\":\"true\"}}," \
        "\"spec\":{}}"

/* Anyone who may create Leases chooses their names and labels. */
static struct {
        const char *name, *token, *node, *lease, *verdict;
} known[] = {
        { "a token for this node", TOKEN(""), NULL, NULL, NB_REVIEW_OK },
        { "a token that is being deleted", TOKEN("\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","),
          NULL, NULL, "TokenMissing" },
        { "a Lease of its name does not make it usable",
          TOKEN("\"deletionTimestamp\":\"2026-01-01T00:00:00Z\","), NULL,
          LEASE("bootstrap-token-abcdef"), "TokenMissing" },
        { "a node that is enrolled", TOKEN(""), NODE, NULL, NB_REVIEW_OK },
        { "a Lease of the name of its record does not make it unusable", TOKEN(""), NODE,
          LEASE("node-bootstrap-node-n1"), NB_REVIEW_OK },
        { "a Lease of the name that its record would have is no record", TOKEN(""), NULL,
          LEASE("node-bootstrap-node-n1"), NB_REVIEW_OK },
        { "a Lease of the name of the claim is a claim", TOKEN(""), NULL,
          LEASE("node-bootstrap-token-abcdef"), "TokenClaimForeign" },
};

static void judges_by_what_is_known(void **state) {
        const __typeof__(known[0]) *row = *state;
        static struct nb_known facts;
        static struct nb_review review;
        struct nb_admin admin = { 0 };
        struct nb_failure f = { 0 };

        lists[0] = row->token;
        lists[1] = row->node;
        lists[2] = row->lease;
        n_lists = failing = 0;
        review = (struct nb_review){ .request = { .kind = NB_NODE_REQUEST_CLIENT,
                                                  .created = 2000000000,
                                                  .token_id = "abcdef",
                                                  .node = "n1",
                                                  .username = "system:bootstrap:abcdef" } };
        assert_int_equal(nb_known_read(&admin, &facts, &f), 0);
        nb_review_guess(&facts, &review);
        assert_string_equal(review.verdict, row->verdict);
        nb_known_done(&facts);
}

/* Such a decision would ignore the key and the limits of the node. */
static void a_record_that_is_not_read_is_a_flaw(void **state _unused_) {
        static struct nb_node_record record;
        struct nb_plan plan = { 0 };
        struct nb_admin admin = { 0 };
        struct nb_failure flaw = { 0 }, f = { 0 };

        assert_int_equal(nb_facts_take_record(&plan, &admin, "", &record, &flaw, &f), 0);
        assert_int_equal(flaw.code, NB_NONE);
        assert_int_equal(nb_facts_take_record(&plan, &admin, "n1", &record, &flaw, &f), 0);
        assert_int_equal(flaw.code, NB_ANSWER_MALFORMED);
        assert_int_equal(f.code, NB_NONE);
}

int main(void) {
        CASES(snapshots, reads_snapshot);
        CASES(known, judges_by_what_is_known);
        CASE(a_record_that_is_not_read_is_a_flaw);
        return case_run("review");
}
