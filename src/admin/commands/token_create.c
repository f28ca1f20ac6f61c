/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "admin/client/automatic_approval.h"
#include "admin/commands/admin_commands.h"
#include "admin/commands/handout.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "crypto/certificate.h"
#include "settings/types.h"
#include "systemd/log.h"

#define NODES_MAX ((size_t)1024 * 1024)
#define TTL_MAX_MS ((uint64_t)100 * 365 * 24 * 3600 * 1000)

struct creation {
        struct nb_admin admin;
        const char *text; /* of the token */
        const char *node, *nodes_path, *ttl, *print, *count_text;
        bool is_enrolled, is_forced, is_dry_run, is_unsigned;
        size_t count;           /* of tokens */
        struct nb_secret nodes; /* their names, one in each line; empty without --nodes */
        bool is_restricted;     /* a bound or an enrolled token */
        bool is_alone;          /* print the token without what a machine needs to know */
        const struct nb_handout_form *form;
        struct nb_bootstrap_token token;
        struct nb_handout handout;
};

static void creation_done(struct creation *creation) {
        nb_admin_done(&creation->admin);
        nb_bootstrap_token_done(&creation->token);
        nb_secret_done(&creation->nodes);
}

/* --- The command line --- */

/* A random token if `text` is NULL. */
static int set_text(struct nb_bootstrap_token *token, const char *text, struct nb_failure *f) {
        char flaw[NB_TOKEN_FLAW_SIZE];
        size_t len;

        if (!text) {
                int r = nb_bootstrap_token_generate(token);

                return r < 0 ? nb_failure_set(f, NB_INTERNAL, r, "cannot generate a token: %m") : 0;
        }
        len = strlen(text);
        if (len != NB_TOKEN_LEN || nb_token_verify(text, len) < 0) {
                nb_token_find_flaw(text, len, flaw);
                return nb_failure_set(f, NB_USAGE, EINVAL,
                                      "expected a token, 6 and 16 characters of a-z and 0-9 with a "
                                      "dot between them%s%s",
                                      flaw[0] ? "; " : "", flaw);
        }
        memcpy(token->id, text, NB_TOKEN_ID_LEN);
        memcpy(token->secret, text + NB_TOKEN_ID_LEN + 1, NB_TOKEN_SECRET_LEN);
        return 0;
}

/* A MachineDeployment names its machines when it creates them. A token has the form of a DNS name.
 */
static int verify_cluster(const struct creation *creation, bool is_secret, struct nb_failure *f) {
        const char *name = creation->handout.cluster;
        size_t len = name ? strlen(name) : 0;

        if (is_secret != !!name)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--print=" NB_HANDOUT_SECRET
                                      "' and '--cluster' require each other");
        if (is_secret && creation->is_restricted)
                return nb_failure_set(
                        f, NB_USAGE, 0,
                        "'--print=" NB_HANDOUT_SECRET "' requires an unbound token: "
                        "many machines read the Secret; a bound token is for one "
                        "node, an enrolled token only for machines that are enrolled");
        if (name && (len > NB_DNS_LABEL_MAX || nb_token_verify(name, len) >= 0 ||
                     !nb_dns_name_is_valid(name, len, NB_DNS_LABEL_MAX)))
                return nb_admin_refuse_word("'--cluster' to be the name of a Cluster, at most 63 "
                                            "characters in lower case",
                                            name, f);
        return 0;
}

/* Reads the names, and replaces the end of each line by a NUL. */
static int read_nodes(struct creation *creation, struct nb_failure *f) {
        int r = nb_admin_read_file(creation->nodes_path, NODES_MAX, &creation->nodes, f);
        char *next = r < 0 ? NULL : creation->nodes.data, *name;
        unsigned line = 0;

        creation->count = 0;
        while (r >= 0 && (name = strsep(&next, "\n"))) {
                line++;
                if (!name[0])
                        continue;
                creation->count++;
                r = nb_admin_verify_node(name, f);
                if (r < 0)
                        nb_failure_add(f, "; '%s', line %u", nb_text_shown(creation->nodes_path),
                                       line);
        }
        return r >= 0 && creation->count == 0
                       ? nb_failure_set(f, NB_USAGE, 0, "'--nodes' names no node")
                       : r;
}

/* The next name after `name`; the first one if it is NULL. */
static const char *next_node(const struct creation *creation, const char *name) {
        name = name ? name + strlen(name) + 1 : creation->nodes.data;
        while (!name[0])
                name++;
        return name;
}

/* What is created, and how often. */
static int read_counts(struct creation *creation, struct nb_failure *f) {
        int r;

        if (!!creation->node + creation->is_enrolled + !!creation->nodes_path > 1)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "use one of '--node', '--nodes' and '--enrolled': a bound "
                                      "token is for one node, an enrolled one for every enrolled "
                                      "node");
        creation->count = 1;
        if (creation->count_text && (creation->node || creation->nodes_path || creation->text))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--count' is for random tokens that are not bound");
        if (creation->nodes_path && creation->text)
                return nb_failure_set(f, NB_USAGE, 0, "'--nodes' is for random tokens");
        if (creation->nodes_path)
                return read_nodes(creation, f);
        r = nb_admin_read_number("count", creation->count_text, &creation->count, f);
        return r >= 0 && creation->count == 0
                       ? nb_failure_set(f, NB_USAGE, 0, "expected '--count' to be at least 1")
                       : r;
}

/* Without the setting, the requests of the machine stay pending. */
static int verify_proof_key(const struct creation *creation, const char *form,
                            struct nb_failure *f) {
        static const char unwritten[] = "with '--print=%s', set proof.key on the machine before it "
                                        "joins; '--print=cloud-config' can write it";
        const bool is_document = nb_handout_is_document(creation->form);
        /* A machine takes a document as metadata as well, which must not set proof.key. */
        const bool is_written = is_document && strcmp(form, "config") != 0;
        const char *key = creation->handout.proof_key;
        char parsed[NB_SETTINGS_PROOF_KEY_SIZE];

        if (key && !creation->is_enrolled)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--proof-key' requires '--enrolled': it names the key that "
                                      "was enrolled");
        if (key && nb_setting_type_proof_key.parse(key, strlen(key), parsed) < 0)
                return nb_failure_set(f, NB_USAGE, 0, "expected '--proof-key' to be %s",
                                      nb_setting_type_proof_key.expected);
        if (key && !is_written)
                return nb_failure_set(f, NB_USAGE, 0, unwritten, form);
        if (creation->is_enrolled && is_written && !key)
                nb_log(LOG_WARNING, NB_NONE,
                       "a machine with these settings makes requests without a proof, which stay "
                       "pending; --proof-key adds the setting proof.key");
        else if (creation->is_enrolled && !is_written && (is_document || !creation->is_alone))
                nb_log(LOG_WARNING, NB_NONE, unwritten, form);
        return 0;
}

/* As with kubeadm; but the group decides who may approve, so a bound and an enrolled token have no
 * other one than theirs. */
static int describe_token(struct creation *creation, struct nb_failure *f) {
        const char *form = creation->print;
        struct nb_bootstrap_token *token = &creation->token;
        const bool is_bound = creation->node || creation->nodes_path;
        uint64_t ms = is_bound ? NB_TOKEN_TTL_NODE_SEC * 1000 : NB_TOKEN_TTL_DEFAULT_SEC * 1000;
        int r = read_counts(creation, f);

        if (r < 0)
                return r;
        if (creation->ttl && (nb_setting_duration_parse(creation->ttl, true, &ms) < 0 ||
                              ms > TTL_MAX_MS || (ms > 0 && ms < 1000)))
                return nb_admin_refuse_word("'--ttl' to be a duration such as 30m or 24h0m0s, at "
                                            "least 1s, or 0 for a token that never expires",
                                            creation->ttl, f);
        creation->is_restricted = is_bound || creation->is_enrolled;
        if (!form)
                form = creation->is_restricted && !creation->is_unsigned ? "setup"
                                                                         : NB_HANDOUT_TOKEN;
        creation->is_alone = !strcmp(form, NB_HANDOUT_TOKEN);
        creation->form = nb_handout_find(form);
        if (!creation->form)
                return nb_admin_refuse_word("'--print' to be " NB_HANDOUT_NAMES, form, f);
        if (creation->is_unsigned && !creation->is_alone)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--no-signing' requires '--print=" NB_HANDOUT_TOKEN
                                      "': the other forms are for machines without a discovery "
                                      "file, which wait for a signature with the token");
        if (creation->count != 1 && nb_handout_is_document(creation->form))
                return nb_failure_set(f, NB_USAGE, 0, "'--print=%s' is one document, for one token",
                                      form);
        r = verify_cluster(creation, !strcmp(form, NB_HANDOUT_SECRET), f);
        if (r >= 0)
                r = verify_proof_key(creation, form, f);
        if (r < 0)
                return r;
        if (creation->is_restricted && !strcmp(form, "kubeadm"))
                nb_log(LOG_WARNING, NB_NONE,
                       "`kubeadm join` also reads the Node and ConfigMaps of the cluster, which "
                       "this token may not; `node-bootstrap setup` can join with it");
        if (creation->node) {
                r = nb_admin_verify_node(creation->node, f);
                if (r < 0)
                        return r;
                NB_TEXT_COPY(token->node, creation->node);
        }
        token->may_authenticate = true;
        token->may_sign = !creation->is_unsigned;
        token->expires = ms > 0 ? time(NULL) + (time_t)(ms / 1000) : 0;
        NB_TEXT_COPY(token->groups, is_bound                ? NB_TOKEN_GROUP_NODE
                                    : creation->is_enrolled ? NB_TOKEN_GROUP_ENROLLED
                                                            : NB_TOKEN_GROUP_DEFAULT);
        return creation->text ? set_text(token, creation->text, f) : 0;
}

/* --- The cluster --- */

static int prepare_handout(struct creation *creation, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json info = { 0 };
        _cleanup_(nb_cluster_done) struct nb_cluster cluster = { 0 };
        struct nb_handout *handout = &creation->handout;
        struct nb_ca_selection ca;
        int r = nb_publication_read(&creation->admin, &info, &cluster, f);

        if (r < 0)
                return r;
        if (cluster.server.path[0])
                return nb_failure_set(f, NB_ADMIN_KUBECONFIG_UNUSABLE, 0,
                                      "the server of the cluster has the path '%.64s', which a "
                                      "token alone cannot name; create the token without --print, "
                                      "and give the machine a discovery file",
                                      cluster.server.path);
        nb_endpoint_format(&cluster.server, handout->endpoint);
        r = nb_publication_select_cas(&cluster, &ca, f);
        for (; r >= 0 && handout->n_pins < ca.n_taken && handout->n_pins < NB_HANDOUT_PINS_MAX;
             handout->n_pins++)
                nb_pin_format(ca.taken[handout->n_pins], handout->pins[handout->n_pins]);
        return r;
}

/* The signer keeps the signatures of the newest tokens. That cannot be known without the permission
 * to read cluster-info, which everybody has. */
static void warn_of_signatures(struct creation *creation) {
        _cleanup_(nb_json_done) struct nb_json info = { 0 };
        struct nb_failure ignored = { 0 };
        size_t n = 0;

        if (nb_admin_get(&creation->admin, "reading cluster-info", NB_CLUSTER_INFO_PATH, &info,
                         &ignored) > 0)
                n = nb_publication_count(&info);
        if (n + creation->count > NB_SIGNATURES_MAX)
                nb_log(LOG_WARNING, NB_NONE,
                       "cluster-info has %zu signatures, and room for %d: as many of the oldest "
                       "tokens lose theirs as do not fit, and cannot be used for discovery then; "
                       "revoke tokens that are not used, or create tokens with --no-signing for "
                       "machines with a discovery file",
                       n, NB_SIGNATURES_MAX);
}

/* An existing token is never overwritten. */
static int submit_token(struct nb_admin *admin, const struct nb_bootstrap_token *token,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_wipe) struct nb_buffer body = NB_BUFFER_INIT(NB_ADMIN_OBJECT_MAX);
        int r;

        (void)nb_bootstrap_token_format(token, &body);
        r = nb_admin_write(admin, "POST", "creating the token", NB_SECRETS_PATH, &body, NULL, f);
        if (f->code != NB_ADMIN_CONFLICT)
                return r;
        if (f->http_status == 409) {
                nb_failure_clear(f);
                return nb_failure_set_http(f, NB_ADMIN_EXISTS, 409, "the token %s already exists",
                                           token->id);
        }
        nb_failure_clear(f);
        return nb_failure_set_http(f, NB_ADMIN_MISSING, 404,
                                   "creating the token: the namespace kube-system does not exist");
}

/* --- Output --- */

/* A token that nobody has received must not stay. */
static int print_token(struct creation *creation, struct nb_failure *f) {
        const struct nb_bootstrap_token *token = &creation->token;
        struct nb_failure ignored = { 0 };
        char text[NB_TOKEN_LEN + 1];
        int r;

        snprintf(text, sizeof(text), "%s.%.*s", token->id, NB_TOKEN_SECRET_LEN, token->secret);
        creation->handout.token = text;
        creation->handout.node = token->node;
        creation->handout.is_listed = creation->nodes_path != NULL;
        r = nb_handout_print(creation->form, &creation->handout, stdout);
        explicit_bzero(text, sizeof(text));
        creation->handout.token = NULL;
        if (r >= 0)
                return 0;
        r = nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, r, "cannot write to standard output: %m");
        if (!creation->is_dry_run)
                nb_failure_add(f,
                               nb_token_delete(&creation->admin, token->id, &ignored) >= 0
                                       ? "; the token %s was deleted"
                                       : "; the token %s is in the cluster, and could not be "
                                         "deleted",
                               token->id);
        return r;
}

/* Creates and prints one. */
static int create_token(struct creation *creation, struct nb_failure *f) {
        struct nb_bootstrap_token *token = &creation->token;
        int r = creation->text ? 0 : set_text(token, NULL, f);

        if (r >= 0 && !creation->is_dry_run)
                r = submit_token(&creation->admin, token, f);
        if (r < 0)
                return r;
        if (creation->is_dry_run)
                fprintf(stderr,
                        "would create the Secret kube-system/" NB_TOKEN_SECRET_NAME_PREFIX "%s\n",
                        token->id);
        /* A command with a token that never exists must not look as if it could be used. */
        if (creation->is_dry_run && !creation->text)
                memset(token->secret, '*', NB_TOKEN_SECRET_LEN);
        return print_token(creation, f);
}

static int create_tokens(struct creation *creation, struct nb_failure *f) {
        const char *groups = creation->token.groups, *node = NULL;
        int r = 0;

        if (!creation->is_dry_run || creation->is_restricted || !creation->is_alone)
                r = nb_admin_connect(&creation->admin, f);
        if (r >= 0 && !creation->is_alone)
                r = prepare_handout(creation, f);
        if (r >= 0 && creation->is_restricted)
                r = nb_automatic_approval_refuse(&creation->admin, groups, creation->is_forced, f);
        if (r >= 0 && creation->is_restricted)
                r = nb_publication_bind(&creation->admin, groups, creation->is_dry_run, f);
        if (r >= 0 && !creation->is_dry_run && !creation->is_unsigned)
                warn_of_signatures(creation);
        for (size_t i = 0; i < creation->count && r >= 0; i++) {
                if (creation->nodes_path) {
                        node = next_node(creation, node);
                        NB_TEXT_COPY(creation->token.node, node);
                }
                r = create_token(creation, f);
                if (r < 0 && i > 0)
                        nb_failure_add(f, "; created and printed before: %zu", i);
        }
        return r;
}

int nb_token_create(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(creation_done) struct creation creation = { .nodes = NB_SECRET_INIT };
        const struct nb_option rows[] = {
                { "node", "NAME", "a bound token: for this node and one use",
                  .ret_value = &creation.node },
                { "nodes", "FILE", "a bound token for each name in this file; '-': standard input",
                  .ret_value = &creation.nodes_path },
                { "enrolled", NULL, "an enrolled token: for every enrolled node, with its proof",
                  .ret_switch = &creation.is_enrolled },
                { "proof-key", "KEY", "with --enrolled: proof.key of the settings that are printed",
                  .ret_value = &creation.handout.proof_key },
                { "count", "NUMBER", "create this many tokens", .ret_value = &creation.count_text },
                { "no-signing", NULL, "for machines with a discovery file: do not sign with it",
                  .ret_switch = &creation.is_unsigned },
                { "force", NULL, "a bound or enrolled token even if others approve its requests",
                  .ret_switch = &creation.is_forced },
                { "print", "FORM", "what to print for the machine: " NB_HANDOUT_NAMES,
                  .ret_value = &creation.print },
                { "cluster", "NAME", "for the form " NB_HANDOUT_SECRET ": the name of the Cluster",
                  .ret_value = &creation.handout.cluster },
                { "ttl", "DURATION",
                  "expire after this time, such as 90m; 0: never; default: 24h, bound: 1h",
                  .ret_value = &creation.ttl },
                { "dry-run", NULL, "check everything, but create nothing",
                  .ret_switch = &creation.is_dry_run },
                NB_ADMIN_PLACE_OPTIONS(creation.admin.place),
                { NULL },
        };
        int r = nb_admin_read_line(options, rows, 1, f);

        if (r > 0)
                creation.text = options->argv[0];
        if (r >= 0)
                r = describe_token(&creation, f);
        return r < 0 ? r : create_tokens(&creation, f);
}
