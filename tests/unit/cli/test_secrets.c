/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each broken form of a token, in each place where people put one: no output and no file of mode
 * 0644 may have four characters of its secret in a row, except for a value that is accepted as what
 * it is, such as the name of a host.
 */

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/text.h"
#include "case.h"
#include "cli/setup/setup_internal.h"
#include "kube_objects/kubeconfig.h"
#include "settings/settings.h"
#include "systemd/log.h"

#define ID_LEN NB_TOKEN_ID_LEN
#define SHOWN_MAX 3 /* characters of the secret in a row */
#define PATH_MIN 12 /* characters of a secret that are not shown as a path */
#define PIN "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static char token[NB_TOKEN_LEN + 1];
static unsigned n_tried, n_refused;

/* Four of these letters in a row are in no word of ours. A path is quoted if at most twelve letters
 * or digits in a row have both once, so another half is made in one of 200 cases. */
static void make_token(void) {
        static const char characters[] = "gjkmpqvwxz0123456789";
        unsigned char random[NB_TOKEN_LEN];
        unsigned n_changes = 0;

        while (n_changes < 2) {
                n_changes = 0;
                assert_int_equal(getrandom(random, sizeof(random), 0), sizeof(random));
                for (size_t i = 0; i < NB_TOKEN_LEN; i++)
                        token[i] = characters[random[i] % (sizeof(characters) - 1)];
                token[ID_LEN] = '.';
                for (size_t i = NB_TOKEN_LEN - PATH_MIN + 1; i < NB_TOKEN_LEN; i++)
                        n_changes += !isdigit((unsigned char)token[i]) !=
                                     !isdigit((unsigned char)token[i - 1]);
        }
}

static void expect_no_secret(const char *where, const char *input, const char *text, size_t len) {
        const char *secret = token + ID_LEN + 1;
        const size_t n = SHOWN_MAX + 1;
        char lower[4096];

        assert_in_range(len, 0, sizeof(lower));
        for (size_t i = 0; i < len; i++)
                lower[i] = (char)tolower((unsigned char)text[i]);
        for (size_t i = 0; i + n <= NB_TOKEN_SECRET_LEN; i++)
                if (memmem(lower, len, secret + i, n))
                        fail_msg("%s: of the token %s in\n%s\nit shows\n%.*s", where, token, input,
                                 (int)len, text);
}

/* --- Forms --- */

typedef void try_form(const char *template, const char *form);

static const char *const separators[] = { " ",      "\n",     " \\\n",  "\t",     "\\",
                                          "\r\n",   "\u00a0", "\u200b", "\ufeff", "\"",
                                          "'",      ",",      "=",      "/",      "\n> ",
                                          "\u00ad", "\u2013", "\u201c", "%",      "; " };
static const char *const dots[] = { ":", "-", "_", "..", ",", "%2E", "\u2024", "" };
static const char *const around[][2] = {
        { "", ":6443" },
        { "https://", "" },
        { "https://u:", "@host" },
        { "", ".example.com" },
        { "<", ">" },
        { "K10::", "" },
        { "K10x::server:", "" },
        { "/run/", ".yaml" },
        { "a=", ":NoSchedule" },
        { "-", "" },
        { "--", "" },
        { "x", "x" },
};

static void try(try_form *run, const char *template, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

static void try(try_form *run, const char *template, const char *format, ...) {
        char form[256];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(form, sizeof(form), format, arguments);
        va_end(arguments);
        n_tried++;
        run(template, form);
}

static void try_whole(try_form *run, const char *template) {
        char changed[NB_TOKEN_LEN + 1];

        try(run, template, "%s", token);
        try(run, template, "%s", token + ID_LEN + 1);
        for (size_t i = 0; i < N_ELEMENTS(dots); i++)
                try(run, template, "%.*s%s%s", ID_LEN, token, dots[i], token + ID_LEN + 1);
        for (size_t i = 0; i < N_ELEMENTS(around); i++) {
                try(run, template, "%s%s%s", around[i][0], token, around[i][1]);
                try(run, template, "%s%s%s", around[i][0], token + ID_LEN + 1, around[i][1]);
        }
        for (size_t i = 0; i < NB_TOKEN_LEN; i++) {
                try(run, template, "%.*s%s", (int)i, token, token + i + 1);
                try(run, template, "%.*s%c%s", (int)i, token, token[i], token + i);
                strcpy(changed, token);
                changed[i] = (char)toupper((unsigned char)changed[i]);
                try(run, template, "%s", changed);
        }
}

static void try_split(try_form *run, const char *template) {
        for (size_t i = 1; i < NB_TOKEN_LEN; i++)
                for (size_t j = 0; j < N_ELEMENTS(separators); j++)
                        try(run, template, "%.*s%s%s", (int)i, token, separators[j], token + i);
}

/* --- The command line of setup --- */

static const char *const lines[] = {
        "kubeadm join 10.0.0.1:6443 --token %s --discovery-token-ca-cert-hash " PIN,
        "kubeadm join --token %s 10.0.0.1:6443 --discovery-token-ca-cert-hash " PIN,
        "kubeadm join 10.0.0.1:6443 --token=%s --discovery-token-ca-cert-hash " PIN,
        "kubeadm join 10.0.0.1:6443 --token%s",
        "kubeadm join 10.0.0.1:6443 --token:%s",
        "kubeadm join 10.0.0.1:6443 --token\u00a0%s",
        "kubeadm join 10.0.0.1:6443 --tokn=%s",
        "kubeadm join 10.0.0.1:6443 -t%s",
        "kubeadm join 10.0.0.1:6443 --%s",
        "kubeadm join 10.0.0.1:6443 %s",
        "kubeadm join 10.0.0.1:6443 --token a --token %s",
        "kubeadm join %s --token a",
        "kubeadm %s --token a",
        "%s kubeadm join 10.0.0.1:6443 %s",
        "sudo %s join",
        "%s 10.0.0.1:6443",
        "10.0.0.1:6443 --tls-bootstrap-token %s x",
        "10.0.0.1:6443 --endpoint %s",
        "10.0.0.1:6443 --endpoint a,%s,a b",
        "10.0.0.1:6443 --node-name %s",
        "10.0.0.1:6443 --node-name=a_%s",
        "10.0.0.1:6443 --cri-socket %s",
        "10.0.0.1:6443 --kubelet-config-from %s",
        "10.0.0.1:6443 --ca-cert-hash %s",
        "10.0.0.1:6443 --ca-cert-hash sha256:%s",
        "10.0.0.1:6443 --discovery-file https://a/%s%%",
        "10.0.0.1:6443 --discovery-token-unsafe-skip-ca-verification=%s",
        "10.0.0.1:6443 --wait-timeout %s",
        "10.0.0.1:6443 --wait %s",
        "10.0.0.1:6443 --no-start=%s",
        "10.0.0.1:6443 --skip-phases %s x",
        "10.0.0.1:6443 --certificate-key %s",
        "10.0.0.1:6443 --control-plane=%s",
        "10.0.0.1:6443 --config-directory= %s",
};

/* Paths are quoted as the values of documents are. */
static const char *const paths[] = {
        "10.0.0.1:6443 --config %s",          "10.0.0.1:6443 --token-file %s",
        "10.0.0.1:6443 --discovery-file %s",  "10.0.0.1:6443 --bootstrap-kubeconfig ./%s",
        "10.0.0.1:6443 --config a --root %s",
};

/* Everybody can read what setup writes from these settings. A host name may go on after the form of
 * a token. */
static void expect_no_token(const struct nb_settings *settings, const char *input) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_SETTINGS_TEXT_MAX);

        nb_settings_format(settings, &text);
        nb_buffer_append(&text, "", 1);
        for (char *p = text.data; *p; p++)
                *p = (char)tolower((unsigned char)*p);
        for (const char *p = text.data; (p = strstr(p, token)); p += NB_TOKEN_LEN)
                if (!isalnum((unsigned char)p[-1]) && !strchr("._-", p[-1]) &&
                    !isalnum((unsigned char)p[NB_TOKEN_LEN]) && !strchr("._-", p[NB_TOKEN_LEN]))
                        fail_msg("the settings from\n%s\nhave the token:\n%s", input, text.data);
}

static void read_line(int argc, char **argv, const char *input) {
        struct nb_options options = NB_OPTIONS_INIT("test", argc, argv);
        static struct nb_setup_wanted wanted;
        struct nb_failure f = { 0 };
        int r = nb_setup_read(&options, &wanted, &f);

        if (r < 0 && f.code != NB_NONE) {
                n_refused++;
                expect_no_secret("setup", input, f.detail, strlen(f.detail));
        } else
                expect_no_token(&wanted.settings, input);
        nb_setup_wanted_done(&wanted);
}

static void format_input(const char *template, const char *form, char *ret, size_t size) {
        char *hole;

        snprintf(ret, size, "%s", template);
        while ((hole = strstr(ret, "%s"))) {
                char rest[1024];

                snprintf(rest, sizeof(rest), "%s", hole + 2);
                snprintf(hole, size - (size_t)(hole - ret), "\x01%s", rest);
        }
        while ((hole = strchr(ret, '\x01'))) {
                char rest[1024];

                snprintf(rest, sizeof(rest), "%s", hole + 1);
                snprintf(hole, size - (size_t)(hole - ret), "%s%s", form, rest);
        }
}

/* As one argument, which is split like a pasted line, and as a shell splits it. */
static void try_line(const char *template, const char *form) {
        char input[1024], line[1024], *argv[64] = { line, line }, *rest;
        int argc = 1;

        format_input(template, form, input, sizeof(input));
        strcpy(line, input);
        read_line(2, argv, input);
        strcpy(line, input);
        for (char *word = strtok_r(line, " \n\t", &rest); word;
             word = strtok_r(NULL, " \n\t", &rest))
                argv[argc++] = word;
        read_line(argc, argv, input);
}

static void try_paths(try_form *run, const char *template) {
        for (size_t n = PATH_MIN; n < NB_TOKEN_SECRET_LEN; n++)
                try(run, template, "%s", token + NB_TOKEN_LEN - n);
}

static void try_prefixes(try_form *run, const char *template) {
        for (size_t n = 1; n < NB_TOKEN_LEN; n++) {
                try(run, template, "%.*s", (int)n, token);
                try(run, template, "%s", token + NB_TOKEN_LEN - n);
        }
}

static void no_line_shows_it(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(lines); i++) {
                try_whole(try_line, lines[i]);
                try_split(try_line, lines[i]);
                for (size_t n = 1; n <= NB_TOKEN_LEN; n++) {
                        try(try_line, lines[i], "%.*s", (int)n, token);
                        try(try_line, lines[i], "%s", token + NB_TOKEN_LEN - n);
                }
        }
        for (size_t i = 0; i < N_ELEMENTS(paths); i++) {
                try_whole(try_line, paths[i]);
                try_paths(try_line, paths[i]);
        }
}

/* --- Documents --- */

#define OURS "apiVersion: node-bootstrap/v1\nkind: NodeBootstrap\n"
#define JOIN "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"

static const char *const documents[] = {
        OURS "discovery: {endpoints: [\"%s\"]}",
        OURS "discovery: {endpoints: \"%s\"}",
        OURS "discovery: {endpoints: [\"a b %s\"]}",
        OURS "discovery: {caCertHashes: [\"%s\"]}",
        OURS "discovery: {caCertHashes: [\"sha256:%s\"]}",
        OURS "discovery: {file: \"%s\"}",
        OURS "discovery: {file: \"/etc/%s\"}",
        OURS "discovery: {unsafeSkipCAVerification: \"%s\"}",
        OURS "bootstrap: {token: \"%s\"}",
        OURS "bootstrap: {tokens: \"%s\"}",
        OURS "bootstrap: {token: [\"%s\"]}",
        OURS "node: {name: \"%s\"}",
        OURS "node: {name: \"%s.\"}",
        OURS "node: {taints: [\"%s:NoSchedule\"]}",
        OURS "node: {taints: [\"a=%s:NoSchedule\"]}",
        OURS "node: {taints: [\"%s\"]}",
        OURS "kubelet: {criSocket: \"%s\"}",
        OURS "kubelet: {criSocket: \"unix:///run/%s\"}",
        OURS "kubelet: {extraArgs: [\"%s\"]}",
        OURS "kubelet: {extraArgs: [\"node-labels=a=%s\"]}",
        OURS "kubelet: {providerID: \"x://%s\"}",
        OURS "cluster: {type: \"%s\"}",
        OURS "metadata: {provider: \"%s\"}",
        OURS "timeout: \"%s\"",
        OURS "\"%s\": 1",
        OURS "node: {\"%s\": 1}",
        OURS "\"%s\": 1\n\"%s\": 2",
        "apiVersion: \"%s\"\nkind: NodeBootstrap",
        "apiVersion: node-bootstrap/v1\nkind: \"%s\"",
        "\"%s\"",
        "- \"%s\"",
        JOIN "discovery: {bootstrapToken: {token: \"%s\"}}",
        JOIN "discovery: {bootstrapToken: {apiServerEndpoint: \"%s\"}}",
        JOIN "discovery: {tlsBootstrapToken: \"%s\"}",
        JOIN "discovery: {timeout: \"%s\"}",
        JOIN "nodeRegistration: {name: \"%s\"}",
        JOIN "nodeRegistration: {criSocket: \"%s\"}",
        JOIN "nodeRegistration: {taints: [{key: \"%s\", effect: NoSchedule}]}",
        JOIN "nodeRegistration: {taints: [{key: a, value: \"%s\", effect: NoSchedule}]}",
        JOIN "nodeRegistration: {taints: [{key: a, effect: \"%s\"}]}",
        JOIN "nodeRegistration: {kubeletExtraArgs: [{name: \"%s\", value: a}]}",
        JOIN "nodeRegistration: {kubeletExtraArgs: [{name: a, value: \"%s\"}]}",
        JOIN "nodeRegistration: {kubeletExtraArgs: {\"%s\": a}}",
        JOIN "skipPhases: [\"%s\"]",
        JOIN "\"%s\": 1",
        JOIN "---\nkind: \"%s\"",
        "apiVersion: kubeadm.k8s.io/%s\nkind: JoinConfiguration",
};

static void try_document(const char *template, const char *form) {
        const struct nb_settings_source source = { .origin = "x.yaml" };
        static struct nb_settings settings;
        struct nb_failure f = { 0 };
        char text[1024];

        format_input(template, form, text, sizeof(text));
        nb_settings_init(&settings);
        if (nb_settings_merge(&settings, &source, text, strlen(text), &f) < 0) {
                n_refused++;
                expect_no_secret("the settings", text, f.detail, strlen(f.detail));
        } else
                expect_no_token(&settings, text);
}

#define CONFIG "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: "

static const char *const kubeconfigs[] = {
        "{apiVersion: v1, kind: \"%s\"}",
        "{apiVersion: \"%s\", kind: Config}",
        "{apiVersion: v1, kind: Config, \"%s\": a}",
        "{apiVersion: v1, kind: Config, current-context: \"%s\"}",
        CONFIG "{cluster: a, user: \"%s\"}}]}",
        CONFIG "{cluster: \"%s\", user: a}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"%s\"}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a:6443/%s?\"}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a\", "
               "tls-server-name: \"%s_\"}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a\", "
               "insecure-skip-tls-verify: \"%s\"}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a\", "
               "proxy-url: \"%s\"}}]}",
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a\", "
               "certificate-authority-data: \"%s\"}}]}",
        CONFIG "{cluster: a, user: a}}], clusters: [{name: a, cluster: {server: \"https://a\"}}], "
               "users: [{name: a, user: {\"%s\": a}}]}",
};

static const char *const kubeconfig_paths[] = {
        CONFIG "{cluster: a}}], clusters: [{name: a, cluster: {server: \"https://a\", "
               "certificate-authority: \"%s\"}}]}",
        CONFIG "{cluster: a, user: a}}], clusters: [{name: a, cluster: {server: \"https://a\"}}], "
               "users: [{name: a, user: {tokenFile: \"%s\"}}]}",
};

static int read_no_file(_unused_ void *userdata, _unused_ const char *path,
                        _unused_ struct nb_secret *ret) {
        return -ENOENT;
}

static void try_kubeconfig(const char *template, const char *form) {
        static const struct nb_kubeconfig_policy *const policies[] = {
                &nb_kubeconfig_discovery_file, &nb_kubeconfig_bootstrap
        };

        for (size_t i = 0; i < N_ELEMENTS(policies); i++) {
                _cleanup_(nb_identity_done) struct nb_identity identity = NB_IDENTITY_INIT;
                _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
                struct nb_failure f = { 0 };
                char text[1024];
                struct nb_kubeconfig_input input = {
                        .origin = "x.yaml", .text = text, .read = read_no_file, .folder = "/etc"
                };

                format_input(template, form, text, sizeof(text));
                input.len = strlen(text);
                if (nb_kubeconfig_parse(policies[i], &input, &cluster, &identity, &f) >= 0)
                        continue;
                n_refused++;
                expect_no_secret("a kubeconfig", text, f.detail, strlen(f.detail));
        }
}

/* Within quotation marks of YAML. */
static void try_inside(try_form *run, const char *template) {
        static const char *const inside[] = { " ", "\\n", "\\t", "\u00a0", "\\\\", "-", "_", ", " };

        try_whole(run, template);
        for (size_t i = 1; i < NB_TOKEN_LEN; i++)
                for (size_t j = 0; j < N_ELEMENTS(inside); j++)
                        try(run, template, "%.*s%s%s", (int)i, token, inside[j], token + i);
        try_prefixes(run, template);
}

static void no_document_shows_it(_unused_ void **state) {
        for (size_t i = 0; i < N_ELEMENTS(documents); i++)
                try_inside(try_document, documents[i]);
        for (size_t i = 0; i < N_ELEMENTS(kubeconfigs); i++)
                try_inside(try_kubeconfig, kubeconfigs[i]);
        for (size_t i = 0; i < N_ELEMENTS(kubeconfig_paths); i++) {
                try_whole(try_kubeconfig, kubeconfig_paths[i]);
                try_paths(try_kubeconfig, kubeconfig_paths[i]);
        }
}

/* --- The output --- */

static void no_output_shows_it(_unused_ void **state) {
        int output = memfd_create("output", MFD_CLOEXEC), kept[] = { dup(1), dup(2) };
        char text[4096];
        ssize_t n;

        nb_log_init("node-bootstrap");
        assert_true(output >= 0 && dup2(output, 1) == 1 && dup2(output, 2) == 2);
        for (size_t i = 0; i < N_ELEMENTS(lines); i++)
                try_split(try_line, lines[i]);
        (void)fflush(stdout);
        assert_true(dup2(kept[0], 1) == 1 && dup2(kept[1], 2) == 2);
        /* Blocks overlap, so that nothing at their border is missed. */
        for (off_t at = 0; (n = pread(output, text, sizeof(text), at)) > 0;
             at += n > 32 ? n - 32 : n)
                expect_no_secret("the output", "all lines", text, (size_t)n);
        assert_true(lseek(output, 0, SEEK_END) > 0);
        assert_true(n_refused > n_tried / 2);
        print_message("%u forms, %u refused\n", n_tried, n_refused);
}

int main(void) {
        make_token();
        CASE(no_line_shows_it);
        CASE(no_document_shows_it);
        CASE(no_output_shows_it);
        return case_run("secrets");
}
