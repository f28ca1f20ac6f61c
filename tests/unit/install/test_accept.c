/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "install/accept.h"
#include "join_folder.h"

#define STATE "/state"
#define NODE "O=system:nodes,CN=system:node:a"

static struct pki_cert rotated_ca, key, other_key;

/* A certificate for the key in the state directory. */
struct leaf {
        const char *dn;
        const struct pki_cert *issuer;
        const struct pki_cert *key_of; /* NULL: that key */
        const char *purpose;           /* NULL: of a client */
        const char *names;
        int days; /* that it is valid; 0: 10 */
};

struct certificates_case {
        const char *name;
        struct leaf leaf;
        bool is_renewal; /* of a certificate of `ca` that is valid for 5 days */
        bool has_no_csr, has_no_key, is_rsa_key;
        struct leaf serving;          /* without `dn`: none */
        const struct pki_cert *chain; /* the CAs after the leaf; NULL: its issuer */
        enum nb_code code;
};

#define SERVING \
        { \
                "O=system:nodes,CN=system:node:a", &ca, .purpose = PKI_SERVER_AUTH, \
                                                        .names = "dns:a,dns:localhost" \
        }

static struct certificates_case cases[] = {
        { "a certificate for this node", { NODE, &ca } },
        { "one for another node",
          { "O=system:nodes,CN=system:node:b", &ca },
          .code = NB_CERTIFICATE_UNUSABLE },
        { "one for another group",
          { "O=system:masters,CN=system:node:a", &ca },
          .code = NB_CERTIFICATE_UNUSABLE },
        { "one for another key", { NODE, &ca, &other_key }, .code = NB_CERTIFICATE_UNUSABLE },
        { "one of a server",
          { NODE, &ca, .purpose = PKI_SERVER_AUTH },
          .code = NB_CERTIFICATE_UNUSABLE },
        { "one that has expired", { NODE, &ca, .days = -1 }, .code = NB_CERTIFICATE_UNUSABLE },
        { "no request, which the record would count as a supervisor's",
          { NODE, &ca },
          .has_no_csr = true,
          .code = NB_HANDOFF_MALFORMED },
        { "no key beside it", { NODE, &ca }, .has_no_key = true, .code = NB_HANDOFF_MALFORMED },
        { "a key of another type",
          { NODE, &ca },
          .is_rsa_key = true,
          .code = NB_HANDOFF_MALFORMED },
        { "a renewed certificate", { NODE, &ca }, .is_renewal = true, .has_no_csr = true },
        { "a renewed one of another CA",
          { NODE, &other_ca },
          .is_renewal = true,
          .code = NB_HANDOFF_UNTRUSTED },
        { "a renewed one of another CA, with the right one beside it",
          { NODE, &other_ca },
          .is_renewal = true,
          .chain = &ca,
          .code = NB_HANDOFF_UNTRUSTED },
        { "a renewed one, with another certificate of the CA's key",
          { NODE, &ca },
          .is_renewal = true,
          .chain = &rotated_ca },
        { "a renewed one that expires earlier",
          { NODE, &ca, .days = 4 },
          .is_renewal = true,
          .code = NB_HANDOFF_UNTRUSTED },
        { "with a serving certificate", { NODE, &ca }, .serving = SERVING },
        { "with a serving certificate of another CA",
          { NODE, &ca },
          .serving = { NODE, &other_ca, .purpose = PKI_SERVER_AUTH,
                       .names = "dns:a,dns:localhost" },
          .code = NB_CERTIFICATE_UNUSABLE },
        { "with a serving certificate for another name",
          { NODE, &ca },
          .serving = { NODE, &ca, .purpose = PKI_SERVER_AUTH,
                       .names = "dns:a,dns:localhost,dns:b" },
          .code = NB_CERTIFICATE_UNUSABLE },
        { "with a serving certificate for another key",
          { NODE, &ca },
          .serving = { NODE, &ca, &other_key, PKI_SERVER_AUTH, "dns:a,dns:localhost" },
          .code = NB_CERTIFICATE_UNUSABLE },
};

static struct pki_cert make_leaf(const struct leaf *leaf) {
        return pki_make(&(struct pki_options){
                .dn = leaf->dn,
                .issuer = leaf->issuer,
                .key_of = leaf->key_of ? leaf->key_of : &key,
                .purpose = leaf->purpose ? leaf->purpose : PKI_CLIENT_AUTH,
                .names = leaf->names,
                .not_before = PKI_NOW - 2 * PKI_DAY,
                .not_after = PKI_NOW + (leaf->days ? leaf->days : 10) * PKI_DAY });
}

static void put_key(const struct certificates_case *c, struct nb_state *state) {
        struct pki_cert rsa = { 0 };

        folder_make(&folder);
        folder_put(&folder, STATE "/x", "");
        if (c->is_rsa_key)
                rsa = pki_make(&(struct pki_options){ .dn = NODE, .is_rsa = true });
        if (!c->has_no_key)
                folder_put(&folder, STATE "/" NB_PENDING_KEY_FILE,
                           c->is_rsa_key ? rsa.key_pem : key.key_pem);
        if (c->is_rsa_key)
                pki_done(&rsa);
        state->fd = openat(folder.fd, "state", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        state->owner = geteuid();
        state->group = getegid();
}

static struct nb_certificates *parse(const char *pem) {
        struct nb_certificates *chain = NULL;

        assert_int_equal(nb_certificates_parse(pem, strlen(pem), false, &chain), 0);
        return chain;
}

static void accepts_certificates(void **state) {
        const struct certificates_case *c = *state;
        const struct pki_cert *issuer = c->chain ? c->chain : c->leaf.issuer;
        struct pki_cert leaf = make_leaf(&c->leaf), existing, serving = { 0 };
        struct nb_certificates *trusted = NULL;
        struct nb_state folder_state = { 0 };
        struct nb_accepted accepted = { .ca = NB_BUFFER_INIT(NB_HANDOFF_MAX) };
        struct nb_failure f = { 0 };
        char *text, *expected;

        put_key(c, &folder_state);
        existing = make_leaf(&(struct leaf){ NODE, &ca, .days = 5 });
        text = PKI_JOIN(existing.pem, ca.pem);
        if (c->is_renewal)
                trusted = parse(text);
        free(text);
        accepted.handoff.certificate = PKI_JOIN(leaf.pem, issuer->pem);
        if (c->serving.dn) {
                serving = make_leaf(&c->serving);
                accepted.handoff.serving = PKI_JOIN(serving.pem, c->serving.issuer->pem);
        }
        nb_buffer_append_string(&accepted.ca, ca.pem);
        if (!c->has_no_csr)
                NB_TEXT_COPY(accepted.handoff.provenance.csr, "node-csr-x");
        assert_int_equal(nb_accept_certificates(&context, &folder_state, trusted, &accepted, &f) <
                                 0,
                         c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->code == NB_NONE) {
                expected = PKI_JOIN(leaf.pem, ca.pem, key.key_pem);
                assert_string_equal(accepted.pem.data, expected);
                free(expected);
                assert_string_equal(accepted.not_after, "2027-01-25T08:00:00Z");
                assert_string_equal(accepted.client_ca.data, ca.pem);
        } else
                assert_null(accepted.serving.data);
        if (c->code == NB_NONE && c->serving.dn) {
                expected = PKI_JOIN(serving.pem, ca.pem, key.key_pem);
                assert_string_equal(accepted.serving.data, expected);
                free(expected);
        }
        if (c->serving.dn)
                pki_done(&serving);
        pki_done(&existing);
        pki_done(&leaf);
        nb_accepted_done(&accepted);
        nb_certificates_free(trusted);
        (void)close(folder_state.fd);
        folder_remove(&folder);
}

/* What `join` has left, by settings and a token that may have changed since. */
static struct handoff_case {
        const char *name, *endpoint;
        const struct pki_cert *pin; /* of the settings; NULL: none, any CA is trusted */
        bool has_bundle;            /* both CAs; otherwise ca */
        bool has_hash;              /* of these CAs, in a token of k3s */
        bool is_from_metadata;
        enum nb_code code;
} handoffs[] = {
        { "a handoff as it should be", "10.0.0.1:6443" },
        { "the endpoint is not in the settings", "10.0.0.2:6443", .code = NB_HANDOFF_UNTRUSTED },
        { "the port is not in the settings", "10.0.0.1:443", .code = NB_HANDOFF_UNTRUSTED },
        { "what is no endpoint", "x y", .code = NB_HANDOFF_MALFORMED },
        { "the CA is pinned", "10.0.0.1:6443", .pin = &ca },
        { "another CA is pinned", "10.0.0.1:6443", .pin = &other_ca, .code = NB_HANDOFF_UNTRUSTED },
        { "one CA of two is pinned", "10.0.0.1:6443", .pin = &ca, .has_bundle = true,
          .code = NB_HANDOFF_UNTRUSTED },
        { "root's token names both CAs, and the settings one", "10.0.0.1:6443", .pin = &ca,
          .has_bundle = true, .has_hash = true },
        { "a token of the metadata names both", "10.0.0.1:6443", .pin = &ca, .has_bundle = true,
          .has_hash = true, .is_from_metadata = true },
};

static void set_context(const struct handoff_case *c, const char *cas) {
        struct nb_settings *settings = &context.settings;
        struct nb_certificates *pinned = NULL;

        nb_settings_init(settings);
        NB_TEXT_COPY(settings->node_name, "a");
        settings->n_endpoints = 1;
        assert_int_equal(nb_endpoint_parse("10.0.0.1:6443", 13, &settings->endpoints[0]), 0);
        settings->unsafe_skip_ca_verification = !c->pin;
        if (c->pin) {
                pinned = parse(c->pin->pem);
                memcpy(settings->pins[settings->n_pins++], nb_certificate_pin(pinned, 0),
                       NB_PIN_SIZE);
                nb_certificates_free(pinned);
        }
        context.bootstrap = (struct nb_bootstrap){ .method = c->has_hash ? NB_METHOD_K3S
                                                                         : NB_METHOD_TOKEN,
                                                   .has_hash = c->has_hash };
        assert_int_equal(nb_sha256(cas, strlen(cas), context.bootstrap.hash), 0);
        context.is_metadata_wanted = c->is_from_metadata;
}

static void accepts_handoff(void **state) {
        const struct handoff_case *c = *state;
        struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        struct nb_handoff handoff = { .provenance.csr = "node-csr-x",
                                      .provenance.token_source = "a test" };
        struct nb_state folder_state = { 0 };
        struct nb_accepted accepted;
        struct nb_failure f = { 0 };
        struct pki_cert leaf = make_leaf(&(struct leaf){ NODE, &ca });
        char *cas = c->has_bundle ? PKI_JOIN(ca.pem, other_ca.pem) : PKI_JOIN(ca.pem);

        put_key(&(struct certificates_case){ 0 }, &folder_state);
        set_context(c, cas);
        handoff.cluster.ca = cas;
        handoff.certificate = PKI_JOIN(leaf.pem, ca.pem);
        assert_int_equal(nb_url_parse("https://10.0.0.1:6443", 21, &handoff.cluster.server), 0);
        NB_TEXT_COPY(handoff.provenance.endpoint, c->endpoint);
        assert_int_equal(nb_state_file_format(&nb_handoff_file, &handoff, &text), 0);
        folder_put(&folder, STATE "/" NB_HANDOFF_FILE, text.data);
        assert_int_equal(nb_accept(&context, &folder_state, &accepted, &f) < 0, c->code != NB_NONE);
        assert_int_equal(f.code, c->code);
        if (c->code == NB_NONE)
                assert_string_equal(accepted.ca.data,
                                    c->is_from_metadata || !c->has_bundle ? ca.pem : cas);
        nb_accepted_done(&accepted);
        nb_buffer_done(&text);
        free(handoff.certificate);
        free(cas);
        pki_done(&leaf);
        (void)close(folder_state.fd);
        folder_remove(&folder);
}

int main(void) {
        prepare_context();
        rotated_ca = pki_make(&(struct pki_options){
                .dn = "CN=ca", .is_ca = true, .key_of = &ca, .not_after = PKI_NOW + PKI_DAY });
        key = pki_make(&(struct pki_options){ .dn = NODE });
        other_key = pki_make(&(struct pki_options){ .dn = NODE });
        CASES(cases, accepts_certificates);
        CASES(handoffs, accepts_handoff);
        return case_run("install accept");
}
