/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"
#include "fuzz.h"
#include "kube_objects/k3s_token.h"
#include "kube_objects/token.h"
#include "settings/kubelet_env.h"
#include "settings/settings.h"

static void check_token(const struct nb_secret *token, const char *origin) {
        struct nb_k3s_token k3s;

        FUZZ_CHECK((token->data != NULL) == (origin[0] != '\0'));
        if (!token->data)
                return;
        if (nb_k3s_token_looks_like(token->data, token->len)) {
                FUZZ_CHECK(nb_k3s_token_parse(token->data, token->len, "fuzzed", &k3s) == 0);
                nb_k3s_token_done(&k3s);
                return;
        }
        FUZZ_CHECK(nb_token_verify(token->data, token->len) == 0);
}

/* The six characters before `dot` end the name of a section, which the failure puts before any key:
 * "nodeRegistration.". */
static bool is_section(const char *detail, const char *dot) {
        static const char *const names[] = { "nodeRegistration", "discovery",
                                             "bootstrapToken",   "controlPlane",
                                             "localAPIEndpoint", "timeouts" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                size_t len = strlen(names[i]);

                if ((size_t)(dot - detail) >= len && memcmp(dot - len, names[i], len) == 0)
                        return true;
        }
        return false;
}

/* A failure contains no token of the document. */
static void check_no_token(const char *detail, const char *data, size_t len) {
        for (const char *p = detail; strlen(p) >= NB_TOKEN_LEN; p++) {
                char text[NB_TOKEN_LEN + 1];

                if (is_section(detail, p + NB_TOKEN_ID_LEN))
                        continue;
                memcpy(text, p, NB_TOKEN_LEN);
                text[NB_TOKEN_LEN] = '\0';
                FUZZ_CHECK(nb_token_verify(text, NB_TOKEN_LEN) < 0 ||
                           !memmem(data, len, text, NB_TOKEN_LEN));
        }
}

/* It contains no k3s token with its hash either. */
static void check_no_k3s_token(const char *detail, const char *data, size_t len) {
        for (const char *p = strstr(detail, "K10"); p; p = strstr(p + 1, "K10")) {
                size_t n = strspn(p + 3, "0123456789abcdef");

                FUZZ_CHECK(n < 64 || strncmp(p + 3 + n, "::", 2) != 0 ||
                           !memmem(data, len, p, n + 5));
        }
}

/* kubelet and KUBELET_KUBEADM_ARGS accept each. */
static void check_arguments(const struct nb_settings *settings) {
        for (unsigned i = 0; i < settings->n_extra_args; i++) {
                const char *text = settings->extra_args[i], *equal = strchr(text, '=');

                FUZZ_CHECK(equal &&
                           nb_kubelet_argument_is_valid(text, (size_t)(equal - text), equal + 1));
        }
}

static void check_taints(const struct nb_settings *settings) {
        for (unsigned i = 0; i < settings->n_taints; i++) {
                const char *taint = settings->taints[i], *effect = strchr(taint, ':');

                FUZZ_CHECK(effect && effect == strrchr(taint, ':') && effect != taint);
                FUZZ_CHECK(strcmp(effect, ":NoSchedule") == 0 ||
                           strcmp(effect, ":PreferNoSchedule") == 0 ||
                           strcmp(effect, ":NoExecute") == 0);
                /* kubelet would read such a value as two. */
                FUZZ_CHECK(!strpbrk(taint, ", \"'\\$"));
        }
}

/* What is accepted fits kubelet, tokens have their form, and no word of a token is in the failure.
 */
void fuzz_one(const char *data, size_t len) {
        _cleanup_(
                nb_settings_tokens_done) struct nb_settings_tokens tokens = NB_SETTINGS_TOKENS_INIT;
        const struct nb_settings_source source = { .origin = "fuzzed" },
                                        exposed = { .origin = "fuzzed", .is_exposed = true };
        struct nb_settings settings, before;
        struct nb_failure f = {}, g = {};
        int r, r_exposed;

        nb_settings_init(&settings);
        settings.tokens = &tokens;
        before = settings;
        r = nb_settings_merge(&settings, &source, data, len, &f);
        FUZZ_CHECK_FAILURE(f, r);
        check_no_token(f.detail, data, len);
        check_no_k3s_token(f.detail, data, len);
        check_token(&tokens.discovery, tokens.discovery_origin);
        check_token(&tokens.tls_bootstrap, tokens.tls_bootstrap_origin);
        if (r < 0) {
                FUZZ_CHECK(memcmp(&settings, &before, sizeof(settings)) == 0);
                return;
        }
        check_arguments(&settings);
        check_taints(&settings);
        FUZZ_CHECK(strlen(settings.ignored) < NB_SETTINGS_IGNORED_SIZE &&
                   fuzz_is_printable(settings.ignored));
        FUZZ_CHECK(!settings.cri_socket[0] || strncmp(settings.cri_socket, "unix:///", 8) == 0);

        /* An exposed document is read alike, except for tokens. */
        r_exposed = nb_settings_merge(&before, &exposed, data, len, &g);
        FUZZ_CHECK((r_exposed < 0) == (tokens.discovery.data || tokens.tls_bootstrap.data));
        FUZZ_CHECK(r_exposed >= 0 || g.code == NB_TOKEN_EXPOSED);
}
