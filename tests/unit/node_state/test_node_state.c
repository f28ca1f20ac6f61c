/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "node_state/present.h"
#include "pki.h"

#define NODE_DN "O=system:nodes,CN=system:node:a"

enum pins {
        NO_PINS,
        PIN_OF_CA, /* of the CA in the CA file */
        PIN_OF_OTHER,
        BOTH_PINS,
};

struct verdict_case {
        const char *name;
        struct pki_options options;
        bool is_foreign_key, is_key_unknown, is_ca_unreadable, is_chain_past;
        bool has_record;
        bool is_file;
        enum pins recorded, configured;
        const char *discovery; /* of the record; NULL: by token */
        /* The hashes are of k3s tokens: PIN_OF_CA is that of the CA file. */
        bool is_hash;
        const char *node_name;     /* in the settings */
        const char *recorded_node; /* NULL: that of the certificate */
        struct nb_facts now;       /* of this machine; without a machine ID: `then` */
        enum nb_node_state state;
        bool is_renamed, is_maybe_copy;
        const char *changed; /* NULL: nothing */
        const char *detail;  /* part of what is said */
};

#define GOOD \
        { .dn = NODE_DN }

static const struct nb_facts then = { "a", "1", "1" };

static struct verdict_case cases[] = {
        { "as kubelet has it", .options = GOOD, .state = NB_NODE_STATE_USABLE,
          .detail = "valid until 2028-01-15T08:00:00Z" },
        { "attributes beside those of a node",
          .options = { .dn = "O=x,O=system:nodes,OU=y,CN=system:node:a" },
          .state = NB_NODE_STATE_USABLE },
        { "signed by another CA than that in the CA file, which k3s does", .options = GOOD,
          .configured = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "a key that only kubelet knows", .options = GOOD, .is_key_unknown = true,
          .state = NB_NODE_STATE_USABLE },
        { "the key of another certificate", .options = GOOD, .is_foreign_key = true,
          .state = NB_NODE_STATE_UNREADABLE, .detail = "does not match its key" },
        { "a name that is no node name", .options = { .dn = "O=system:nodes,CN=system:node:_" },
          .state = NB_NODE_STATE_UNREADABLE },
        { "not in the group of nodes", .options = { .dn = "O=system:masters,CN=system:node:a" },
          .state = NB_NODE_STATE_UNREADABLE, .detail = "expected a node" },
        { "another node name in the settings", .options = GOOD, .node_name = "b",
          .state = NB_NODE_STATE_OTHER_NODE, .detail = "for node 'a', and node.name in" },
        { "a longer name in the settings, which hide that the clock is behind",
          .options = { .dn = NODE_DN, .not_before = PKI_NOW + 1 }, .node_name = "a.b",
          .state = NB_NODE_STATE_OTHER_NODE },
        { "the same node name in the settings", .options = GOOD, .node_name = "a",
          .state = NB_NODE_STATE_USABLE },
        { "a copy", .options = GOOD, .has_record = true, .now = { "b", "2", "1" },
          .state = NB_NODE_STATE_COPIED, .detail = "its host name and machine ID differ" },
        { "a copy, and another node name in the settings: no way back", .options = GOOD,
          .has_record = true, .now = { "a", "2", "2" }, .node_name = "b",
          .state = NB_NODE_STATE_COPIED },
        { "a copy, if a record said so", .options = GOOD, .now = { "b", "2", "2" },
          .state = NB_NODE_STATE_USABLE },
        { "a copy, and expired", .options = { .dn = NODE_DN, .not_after = PKI_NOW - 1 },
          .has_record = true, .now = { "b", "2", "2" }, .state = NB_NODE_STATE_EXPIRED },
        { "another host name", .options = GOOD, .has_record = true, .now = { "b", "1", "1" },
          .state = NB_NODE_STATE_USABLE, .is_renamed = true, .changed = "host name" },
        { "another host name than one that did not name the node", .options = GOOD,
          .has_record = true, .recorded_node = "c", .now = { "b", "1", "1" },
          .state = NB_NODE_STATE_USABLE },
        { "another mainboard", .options = GOOD, .has_record = true, .now = { "a", "1", "2" },
          .state = NB_NODE_STATE_USABLE, .changed = "hardware ID" },
        { "another machine ID, and no host name yet", .options = GOOD, .has_record = true,
          .now = { "", "2", "1" }, .state = NB_NODE_STATE_USABLE, .is_maybe_copy = true,
          .changed = "machine ID" },
        { "ends now", .options = { .dn = NODE_DN, .not_after = PKI_NOW },
          .state = NB_NODE_STATE_USABLE },
        { "ended", .options = { .dn = NODE_DN, .not_after = PKI_NOW - 1 },
          .state = NB_NODE_STATE_EXPIRED, .detail = "2027-01-15T07:59:59Z" },
        { "an intermediate ended, which kubelet looks at", .options = GOOD, .is_chain_past = true,
          .state = NB_NODE_STATE_EXPIRED },
        { "begins in a second", .options = { .dn = NODE_DN, .not_before = PKI_NOW + 1 },
          .state = NB_NODE_STATE_NOT_YET_VALID, .detail = "valid from" },
        { "begins tomorrow", .options = { .dn = NODE_DN, .not_before = PKI_NOW + PKI_DAY },
          .state = NB_NODE_STATE_NOT_YET_VALID },
        { "the pins of the last join", .options = GOOD, .has_record = true, .recorded = PIN_OF_CA,
          .configured = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "the pins of the last join, and the CA was rotated since", .options = GOOD,
          .has_record = true, .recorded = PIN_OF_OTHER, .configured = PIN_OF_OTHER,
          .state = NB_NODE_STATE_USABLE },
        { "another pin than at the last join", .options = GOOD, .has_record = true,
          .recorded = PIN_OF_CA, .configured = PIN_OF_OTHER, .state = NB_NODE_STATE_OTHER_CLUSTER,
          .detail = "2026-01-02T03:04:05Z" },
        { "another pin, nothing was ever joined by us", .options = GOOD, .configured = PIN_OF_OTHER,
          .state = NB_NODE_STATE_USABLE },
        { "another pin, but it fits the CA file", .options = GOOD, .has_record = true,
          .recorded = PIN_OF_OTHER, .configured = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "one more pin, and the old one fits", .options = GOOD, .has_record = true,
          .recorded = PIN_OF_CA, .configured = BOTH_PINS, .state = NB_NODE_STATE_USABLE },
        { "a pin fewer", .options = GOOD, .has_record = true, .recorded = BOTH_PINS,
          .configured = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "another pin, and the CA file cannot be read", .options = GOOD, .has_record = true,
          .recorded = PIN_OF_CA, .configured = PIN_OF_OTHER, .is_ca_unreadable = true,
          .state = NB_NODE_STATE_USABLE },
        { "no pins any longer", .options = GOOD, .has_record = true, .recorded = PIN_OF_CA,
          .configured = NO_PINS, .state = NB_NODE_STATE_USABLE },
        { "pins where there were none, and they do not fit", .options = GOOD, .has_record = true,
          .recorded = NO_PINS, .configured = PIN_OF_OTHER, .state = NB_NODE_STATE_OTHER_CLUSTER },
        { "another hash in a k3s token", .options = GOOD, .has_record = true,
          .discovery = "cacerts", .is_hash = true, .recorded = PIN_OF_CA,
          .configured = PIN_OF_OTHER, .state = NB_NODE_STATE_OTHER_CLUSTER,
          .detail = "the hash in the token changed since" },
        { "the hash of the last join", .options = GOOD, .has_record = true, .discovery = "cacerts",
          .is_hash = true, .recorded = PIN_OF_OTHER, .configured = PIN_OF_OTHER,
          .state = NB_NODE_STATE_USABLE },
        { "another hash, and the CA file cannot be read", .options = GOOD, .has_record = true,
          .discovery = "cacerts", .is_hash = true, .recorded = PIN_OF_CA,
          .configured = PIN_OF_OTHER, .is_ca_unreadable = true, .state = NB_NODE_STATE_USABLE },
        { "another hash, but it is that of the CA file", .options = GOOD, .has_record = true,
          .discovery = "cacerts", .is_hash = true, .recorded = PIN_OF_OTHER,
          .configured = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "the token is gone", .options = GOOD, .has_record = true, .discovery = "cacerts",
          .is_hash = true, .recorded = PIN_OF_CA, .state = NB_NODE_STATE_USABLE },
        { "a hash where there were pins: nothing to compare", .options = GOOD, .has_record = true,
          .is_hash = true, .recorded = PIN_OF_CA, .configured = PIN_OF_OTHER,
          .state = NB_NODE_STATE_USABLE },
        { "pins where there was a hash, and they do not fit", .options = GOOD, .has_record = true,
          .discovery = "cacerts", .recorded = PIN_OF_CA, .configured = PIN_OF_OTHER,
          .state = NB_NODE_STATE_OTHER_CLUSTER },
        { "a file where kubelet wants its link", .options = GOOD, .is_file = true,
          .state = NB_NODE_STATE_NOT_ROTATABLE, .detail = "is a file; expected a link" },
        { "a file, and not yet valid",
          .options = { .dn = NODE_DN, .not_before = PKI_NOW + PKI_DAY }, .is_file = true,
          .state = NB_NODE_STATE_NOT_ROTATABLE },
        { "a file, and expired: no way back",
          .options = { .dn = NODE_DN, .not_after = PKI_NOW - 1 }, .is_file = true,
          .state = NB_NODE_STATE_EXPIRED },
        { "another cluster, and expired: no way back",
          .options = { .dn = NODE_DN, .not_after = PKI_NOW - 1 }, .has_record = true,
          .recorded = PIN_OF_CA, .configured = PIN_OF_OTHER, .state = NB_NODE_STATE_EXPIRED },
};

static struct nb_certificates *parse(const char *pem) {
        struct nb_certificates *certificates = NULL;

        assert_int_equal(nb_certificates_parse(pem, strlen(pem), true, &certificates), 0);
        return certificates;
}

static unsigned make_pins(enum pins which, const struct nb_certificates *ca,
                          uint8_t ret[][NB_PIN_SIZE]) {
        unsigned n = 0;

        if (which == PIN_OF_CA || which == BOTH_PINS)
                memcpy(ret[n++], nb_certificate_pin(ca, 0), NB_SHA256_SIZE);
        if (which == PIN_OF_OTHER || which == BOTH_PINS)
                memset(ret[n++], 0x5a, NB_PIN_SIZE);
        return n;
}

static void judged(void **state) {
        const struct verdict_case *c = *state;
        struct pki_cert ca = pki_make(&(struct pki_options){ .dn = "CN=ca", .is_ca = true });
        struct pki_cert past = pki_make(
                &(struct pki_options){ .dn = "CN=past", .is_ca = true, .not_after = PKI_NOW - 1 });
        struct pki_cert leaf = pki_make(&c->options);
        char *chain = PKI_JOIN(leaf.pem, c->is_chain_past ? past.pem : "");
        struct nb_node node = { .root_fd = -1,
                                .now = PKI_NOW,
                                .facts = c->now.machine_id[0] ? c->now : then,
                                .present = { .state = NB_NODE_STATE_USABLE,
                                             .chain = parse(chain),
                                             .ca = parse(ca.pem),
                                             .has_record = c->has_record } };
        struct nb_record *record = &node.present.record;
        struct nb_context context = { .root_fd = -1 };

        if (c->is_foreign_key)
                assert_int_equal(nb_key_generate(&node.present.key), 0);
        else if (!c->is_key_unknown)
                assert_int_equal(
                        nb_key_import(leaf.key_pem, strlen(leaf.key_pem), &node.present.key), 0);
        nb_settings_init(&context.settings);
        strcpy(context.settings.node_name, c->node_name ? c->node_name : "");
        node.present.is_file = c->is_file;
        context.identity.n_pins = make_pins(c->configured, node.present.ca, context.identity.pins);
        context.identity.is_k3s_hash = c->is_hash;
        strcpy(context.identity.name,
               c->is_hash ? "the hash in the token" : "discovery.caCertHashes");
        record->n_pins = make_pins(c->recorded, node.present.ca, record->pins);
        strcpy(record->join_method, c->discovery ? c->discovery : "token");
        strcpy(record->node, c->recorded_node ? c->recorded_node : "a");
        record->facts = then;
        if (c->is_hash && c->configured == PIN_OF_CA)
                assert_int_equal(nb_sha256(ca.pem, strlen(ca.pem), context.identity.pins[0]), 0);
        strcpy(record->joined_at, "2026-01-02T03:04:05Z");
        if (c->is_ca_unreadable) {
                nb_certificates_free(node.present.ca);
                node.present.ca = NULL;
        }

        nb_node_classify(&node);
        nb_node_apply_settings(&node, &context);
        assert_int_equal(node.inspection.state, c->state);
        assert_int_equal(node.inspection.is_renamed, c->is_renamed);
        assert_int_equal(node.inspection.is_maybe_copy, c->is_maybe_copy);
        assert_string_equal(node.inspection.changed, c->changed ? c->changed : "");
        if (c->state != NB_NODE_STATE_UNREADABLE)
                assert_string_equal(node.inspection.node, "a");
        assert_true(strlen(node.inspection.not_after) > 0);
        if (c->detail)
                assert_non_null(strstr(node.inspection.detail, c->detail));

        nb_node_done(&node);
        free(chain);
        pki_done(&leaf);
        pki_done(&past);
        pki_done(&ca);
}

static void nothing_to_judge(void **state) {
        struct nb_node node = { .root_fd = -1,
                                .now = PKI_NOW,
                                .present = { .state = NB_NODE_STATE_ABSENT,
                                             .why = { .code = NB_JOINING_AGAIN,
                                                      .detail = "there is none" } } };

        nb_node_classify(&node);
        assert_int_equal(node.inspection.state, NB_NODE_STATE_ABSENT);
        assert_string_equal(node.inspection.node, "");
        assert_string_equal(node.inspection.not_after, "");
        assert_string_equal(node.inspection.detail, "there is none");
}

static void verdicts_that_keep(void **state) {
        for (int value = 0; value < _NB_NODE_STATE_N; value++) {
                enum nb_node_state now = (enum nb_node_state)value;

                assert_int_equal(nb_node_state_is_joined(now),
                                 now == NB_NODE_STATE_USABLE || now == NB_NODE_STATE_NOT_YET_VALID);
                assert_int_equal(nb_node_state_has_fallback(now),
                                 now == NB_NODE_STATE_OTHER_NODE ||
                                         now == NB_NODE_STATE_OTHER_CLUSTER ||
                                         now == NB_NODE_STATE_NOT_ROTATABLE);
        }
}

int main(void) {
        CASES(cases, judged);
        CASE(nothing_to_judge);
        CASE(verdicts_that_keep);
        return case_run("install node state");
}
