/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/macro.h"
#include "bootstrap/bootstrap.h"

#define BUNDLE_MAX (512 * 1024)

/* A bundle and what is asked of it: the arguments of nb_bootstrap_select_ca(). */
struct choice {
        const struct nb_bootstrap *bootstrap;
        const struct nb_settings *settings;
        const char *pem;
        size_t len;
        enum nb_code malformed, mismatch;
        struct nb_buffer *ret_pem;
        struct nb_ca_selection *ret_selection;
};

static int select_pinned(const struct choice *c, const uint8_t (*pins)[NB_PIN_SIZE], unsigned n_pins, struct nb_failure *f) {
        return nb_ca_select(c->pem, c->len, pins, n_pins, c->settings->trust_whole_bundle ? NB_CA_ALL : NB_CA_PINNED, c->malformed, c->mismatch,
                            c->ret_pem, c->ret_selection, f);
}

static int select_unpinned(const struct choice *c, struct nb_failure *f) {
        return nb_ca_select(c->pem, c->len, NULL, 0, NB_CA_ALL_UNPINNED, c->malformed, c->mismatch, c->ret_pem, c->ret_selection, f);
}

static int select_configured(const struct choice *c, struct nb_failure *f) {
        return select_pinned(c, (const uint8_t(*)[NB_PIN_SIZE])c->settings->pins, c->settings->n_pins, f);
}

static int not_permitted(enum nb_code code, const char *what, struct nb_failure *f) {
        return nb_failure_set(f, code, EPERM, "%s, and discovery.unsafeSkipCAVerification is not set: no CA can be trusted", what);
}

static int select_system(const struct choice *c, struct nb_failure *f) {
        if (c->len > 0)
                return nb_failure_set(f, c->mismatch, EKEYREJECTED, "a CA is named, and %s names none: expected the CAs of the system",
                                      c->bootstrap->discovery_source);
        *c->ret_selection = (struct nb_ca_selection){ 0 };
        return 0;
}

static int refuse_system(const struct choice *c, struct nb_failure *f) {
        return nb_failure_set(f, c->mismatch, EKEYREJECTED, "%s names no CA: expected one that discovery.caCertHashes names",
                              c->bootstrap->discovery_source);
}

/* The document's CAs stand for pins; where there are pins besides, for those of its CAs that they name. */
static int select_document(const struct choice *c, struct nb_failure *f) {
        const struct nb_cluster *document = &c->bootstrap->document;
        _cleanup_(nb_buffer_done) struct nb_buffer own = NB_BUFFER_INIT(BUNDLE_MAX);
        const struct nb_settings *s = c->settings;
        struct nb_ca_selection selection;
        int r;

        if (!document->ca && s->n_pins > 0)
                return refuse_system(c, f);
        if (!document->ca)
                return select_system(c, f);
        r = nb_ca_select(document->ca, document->ca_len, (const uint8_t(*)[NB_PIN_SIZE])s->pins, s->n_pins,
                         s->n_pins > 0 ? NB_CA_PINNED : NB_CA_ALL_UNPINNED, NB_DISCOVERY_FILE_UNACCEPTABLE, c->mismatch, &own, &selection, f);
        return r < 0 ? r : select_pinned(c, (const uint8_t(*)[NB_PIN_SIZE])selection.taken, selection.n_taken, f);
}

static int select_url(const struct choice *c, struct nb_failure *f) {
        if (c->settings->n_pins > 0)
                return c->len == 0 ? refuse_system(c, f) : select_configured(c, f);
        return c->len == 0 ? select_system(c, f) : select_unpinned(c, f);
}

static int select_token(const struct choice *c, struct nb_failure *f) {
        if (c->settings->n_pins > 0)
                return select_configured(c, f);
        if (!c->settings->unsafe_skip_ca_verification)
                return not_permitted(NB_SETTINGS_INCOMPLETE, "there is no discovery.caCertHashes", f);
        return select_unpinned(c, f);
}

static int select_cacerts(const struct choice *c, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer ignored = NB_BUFFER_INIT(BUNDLE_MAX);
        const struct nb_settings *s = c->settings;
        int r;

        /* Whoever sets pins as well means that they hold as well. */
        if (s->n_pins > 0) {
                r = nb_ca_select(c->pem, c->len, (const uint8_t(*)[NB_PIN_SIZE])s->pins, s->n_pins, NB_CA_ALL, c->malformed, c->mismatch, &ignored,
                                 NULL, f);
                if (r < 0)
                        return r;
        }
        if (c->bootstrap->has_hash)
                return nb_ca_select_k3s(c->pem, c->len, c->bootstrap->hash, s->trust_whole_bundle ? NB_CA_ALL : NB_CA_PINNED, c->malformed,
                                        c->mismatch, c->ret_pem, c->ret_selection, f);
        if (!s->unsafe_skip_ca_verification)
                return not_permitted(c->mismatch, "the token carries no hash of the CA", f);
        return select_unpinned(c, f);
}

int nb_bootstrap_select_ca(const struct nb_bootstrap *bootstrap, const struct nb_settings *settings, const char *pem, size_t len,
                           enum nb_code code_malformed, enum nb_code code_mismatch, struct nb_buffer *ret_pem,
                           struct nb_ca_selection *ret_selection, struct nb_failure *f) {
        static int (*const rules[_NB_DISCOVERY_N])(const struct choice *c, struct nb_failure *f) = {
                [NB_DISCOVERY_TOKEN] = select_token,
                [NB_DISCOVERY_DOCUMENT] = select_document,
                [NB_DISCOVERY_URL] = select_url,
                [NB_DISCOVERY_CACERTS] = select_cacerts,
        };
        const struct choice c = { bootstrap, settings, pem, len, code_malformed, code_mismatch, ret_pem, ret_selection };

        if (!rules[bootstrap->discovery])
                return not_permitted(NB_SETTINGS_INCOMPLETE, "the settings name no way to discover the cluster", f);
        return rules[bootstrap->discovery](&c, f);
}
