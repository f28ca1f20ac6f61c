/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/cluster_info_command.h"
#include "admin/commands/handout.h"
#include "admin/commands/token_command.h"
#include "base/macro.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "kube_api/cluster_calls.h"
#include "system/log.h"

struct creation {
        struct nb_admin admin;
        struct nb_admin_place place;
        struct nb_token_options options;
        const char *print;
        bool is_forced, is_dry_run;
        bool is_restricted; /* a bound or an enrolled token */
        bool is_alone;      /* print the token without what a machine needs to know */
        const struct nb_handout_form *form;
        struct nb_bootstrap_token token;
        struct nb_cluster cluster; /* from cluster-info */
        struct nb_handout handout;
        char endpoint[NB_URL_MAX];
};

static void creation_done(struct creation *creation) {
        nb_admin_done(&creation->admin);
        nb_cluster_done(&creation->cluster);
        nb_bootstrap_token_done(&creation->token);
}

static int choose_form(struct creation *creation, struct nb_failure *f) {
        const char *name = creation->print;
        char quoted[NB_WORD_QUOTED_SIZE];

        creation->is_restricted = creation->options.node || creation->options.is_enrolled;
        if (!name)
                name = creation->is_restricted ? "setup" : NB_HANDOUT_TOKEN;
        creation->is_alone = !strcmp(name, NB_HANDOUT_TOKEN);
        creation->form = nb_handout_find(name);
        if (!creation->form)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--print' expects " NB_HANDOUT_NAMES "; found %s",
                                      nb_word_quote(name, quoted));
        if (creation->is_restricted && !strcmp(name, "kubeadm"))
                nb_log(LOG_WARNING, NB_NONE,
                       "`kubeadm join` also reads the Node and ConfigMaps of the cluster, which "
                       "this token may not; `node-bootstrap setup` can join with it");
        return 0;
}

/* --- The cluster --- */

static int read_pins(const struct nb_cluster *cluster, struct nb_handout *handout,
                     struct nb_failure *f) {
        _cleanup_(nb_certificates_freep) struct nb_certificates *ca = NULL;
        int r = cluster->ca ? nb_certificates_parse(cluster->ca, cluster->ca_len, false, &ca)
                            : -EINVAL;

        for (size_t i = 0; r >= 0 && i < nb_certificates_count(ca); i++)
                if (handout->n_pins < NB_HANDOUT_PINS_MAX && nb_certificate_is_ca(ca, i))
                        nb_pin_format(nb_certificate_pin(ca, i), handout->pins[handout->n_pins++]);
        if (handout->n_pins > 0)
                return 0;
        return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, r < 0 ? r : EINVAL,
                              "there is no CA certificate of the cluster in cluster-info or the "
                              "kubeconfig, so machines could not verify the API server");
}

/* cluster-info has the address that machines can reach; the kubeconfig may have another one. */
static int prepare_handout(struct creation *creation, struct nb_failure *f) {
        const struct nb_cluster *cluster = &creation->cluster;
        struct nb_cluster_info info = { 0 };
        int r = nb_cluster_info_fetch_verified(&creation->admin.api, &info, f);

        if (r >= 0)
                r = nb_cluster_info_parse_cluster(&info, &creation->cluster, f);
        nb_cluster_info_done(&info);
        if (r < 0 && !nb_cluster_info_is_hidden(f))
                return r;
        if (r < 0) {
                nb_failure_clear(f);
                cluster = &creation->admin.cluster;
                /* With a restricted token, the wait for the signature warns of this. */
                if (!creation->is_restricted)
                        nb_log(LOG_WARNING, NB_NONE,
                               "cluster-info is not published, so machines cannot join yet; run "
                               "`node-bootstrap-admin cluster-info publish`");
        }
        if (nb_host_is_loopback(cluster->server.host))
                nb_log(LOG_WARNING, NB_NONE,
                       "the server '%s' is an address of this machine only; use a kubeconfig that "
                       "names the address of the API server for other machines",
                       cluster->server.host);
        if (cluster->server.path[0])
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "the server of the cluster has the path '%.64s', which a "
                                      "token alone cannot name; create the token without --print, "
                                      "and give the machine a discovery file",
                                      cluster->server.path);
        nb_endpoint_format(&cluster->server, creation->endpoint);
        creation->handout.endpoint = creation->endpoint;
        return read_pins(cluster, &creation->handout, f);
}

/* --- The Secret --- */

/* An existing token is never overwritten. */
static int submit_token(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                        struct nb_failure *f) {
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_buffer_wipe) struct nb_buffer body = NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        struct nb_admin_call call = { .method = "POST",
                                      .what = "creating the Secret of the token",
                                      .path = NB_SECRETS_PATH };
        int r;

        if (nb_bootstrap_token_format(token, &body) < 0)
                return nb_failure_set_memory(f);
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(admin, &call, &answer, f);
        if (answer.body.data)
                explicit_bzero(answer.body.data, answer.body.allocated);
        if (r == 409)
                return nb_failure_set_http(f, NB_ADMIN_EXISTS, 409,
                                           "a token with the ID '%s' already exists", token->id);
        if (r == 404)
                return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                           "%s: the namespace kube-system does not exist",
                                           call.what);
        return r;
}

/* --- Output --- */

static int print_token(struct creation *creation) {
        _cleanup_(nb_buffer_wipe) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOUT_MAX);
        char word[NB_TOKEN_TEXT_SIZE];
        int r;

        nb_token_format(&creation->token, word);
        creation->handout.token = word;
        creation->handout.node = creation->token.node;
        r = nb_handout_format(creation->form, &creation->handout, &text);
        if (r >= 0 && (fputs(text.data, stdout) == EOF || fflush(stdout) != 0))
                r = -EIO;
        explicit_bzero(word, sizeof(word));
        creation->handout.token = NULL;
        return r;
}

/* A token that nobody has received must not stay. */
static int give_up(struct creation *creation, int errnum, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r;

        (void)nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, errnum,
                             "cannot write to standard output: %m");
        if (creation->is_dry_run)
                return -EIO;
        r = nb_token_delete(&creation->admin, creation->token.id, &ignored);
        nb_failure_add(f,
                       r >= 0 ? "; the token %s was deleted"
                              : "; the token %s is in the cluster, and could not be deleted",
                       creation->token.id);
        return -EIO;
}

static int create_token(struct creation *creation, struct nb_failure *f) {
        struct nb_bootstrap_token *token = &creation->token;
        int r = 0;

        if (!creation->is_dry_run || creation->is_restricted || !creation->is_alone)
                r = nb_admin_connect(&creation->place, &creation->admin, f);
        if (r >= 0 && !creation->is_alone)
                r = prepare_handout(creation, f);
        if (r >= 0 && creation->is_restricted)
                r = nb_automatic_approval_refuse(&creation->admin, token->groups,
                                                 creation->is_forced, f);
        if (r >= 0 && creation->is_restricted && !creation->is_dry_run)
                r = nb_publication_bind(&creation->admin, token->groups, f);
        if (r >= 0 && !token->id[0]) {
                r = nb_bootstrap_token_generate(token);
                if (r < 0)
                        return nb_failure_set(f, NB_INTERNAL, r, "cannot generate a token: %m");
        }
        if (r >= 0 && !creation->is_dry_run)
                r = submit_token(&creation->admin, token, f);
        if (r < 0)
                return r;
        if (creation->is_dry_run)
                fprintf(stderr,
                        "would create the Secret kube-system/" NB_TOKEN_SECRET_NAME_PREFIX "%s\n",
                        token->id);
        else if (creation->is_restricted)
                nb_token_await_signature(&creation->admin, token->id);
        r = print_token(creation);
        return r < 0 ? give_up(creation, r, f) : 0;
}

int nb_token_create(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(creation_done) struct creation creation = { 0 };
        struct nb_token_options *wanted = &creation.options;
        const struct nb_option rows[] = {
                { "node", "NAME", "a bound token: for this node and one use",
                  .ret_value = &wanted->node },
                { "enrolled", NULL, "an enrolled token: for every enrolled node, with its proof",
                  .ret_switch = &wanted->is_enrolled },
                { "force", NULL, "a bound or enrolled token even if others approve its requests",
                  .ret_switch = &creation.is_forced },
                { "print", "FORM", "what to print for the machine: " NB_HANDOUT_NAMES,
                  .ret_value = &creation.print },
                { "ttl", "DURATION",
                  "expire after this time, such as 90m; 0: never; default: 24h, bound: 1h",
                  .ret_value = &wanted->ttl },
                { "usages", "LIST", "signing, authentication, or both (default)",
                  .ret_value = &wanted->usages },
                { "groups", "LIST", "groups of the token's user; default: kubeadm's",
                  .ret_value = &wanted->groups },
                { "description", "TEXT", "what the token is for",
                  .ret_value = &wanted->description },
                { "dry-run", NULL, "check everything, but create nothing",
                  .ret_switch = &creation.is_dry_run },
                NB_ADMIN_PLACE_OPTIONS(creation.place),
                { NULL },
        };
        size_t n_words;
        int r;

        r = nb_admin_read_line(options, rows, &wanted->text, 1, &n_words, f);
        if (r >= 0)
                r = choose_form(&creation, f);
        if (r >= 0)
                r = nb_token_describe(wanted, &creation.token, f);
        return r < 0 ? r : create_token(&creation, f);
}
