/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/calls.h"
#include "admin/commands/cluster_info_command.h"
#include "admin/commands/handout.h"
#include "admin/commands/token_command.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/certificate.h"
#include "kube/cluster_info.h"
#include "kube_api/cluster_calls.h"
#include "system/log.h"

#define NODES_FILE_MAX ((size_t)4 * 1024 * 1024)
#define NODES_MAX 10000
#define BINDINGS_PATH "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
#define BINDING_NAME "node-bootstrap:kubelet-bootstrap"
#define BINDING_ROLE "system:node-bootstrapper"

struct creation {
        struct nb_admin admin;
        struct nb_admin_place place;
        const char *ttl, *usages, *groups, *description, *config, *node, *nodes, *output_dir,
                *print;
        bool is_join_command_wanted, is_dry_run;
        const char *words[1];
        size_t n_words;
        struct nb_bootstrap_token wanted;   /* what each token is to be */
        const struct nb_handout_form *form; /* NULL: print the token alone */
        struct nb_cluster cluster;          /* from cluster-info */
        bool has_cluster;
        struct nb_handout handout;
        char endpoint[NB_URL_MAX];
};

static void creation_done(struct creation *creation) {
        nb_admin_done(&creation->admin);
        nb_cluster_done(&creation->cluster);
        nb_bootstrap_token_done(&creation->wanted);
}

/* --- The command line --- */

static int add_words(struct creation *creation, const char *list, const char *where,
                     int (*add)(struct nb_bootstrap_token *, const char *, size_t, enum nb_code,
                                const char *, struct nb_failure *),
                     struct nb_failure *f) {
        for (size_t len;; list += len + 1) {
                int r;

                len = strcspn(list, ",");
                r = add(&creation->wanted, list, len, NB_USAGE, where, f);
                if (r < 0)
                        return r;
                if (!list[len])
                        return 0;
        }
}

/* Options that must not be used together. */
static int check_options(const struct creation *creation, struct nb_failure *f) {
        const bool is_for_node = creation->node || creation->nodes;
        const struct {
                bool is_wrong;
                const char *text;
        } rules[] = {
                { creation->config &&
                          (creation->ttl || creation->usages || creation->groups ||
                           creation->description || creation->n_words > 0 || is_for_node),
                  "'--config' cannot be used together with a token and with options that describe "
                  "it" },
                { creation->node && creation->nodes, "use either '--node' or '--nodes'" },
                { is_for_node && (creation->groups || creation->usages),
                  "a token for a node has the group " NB_TOKEN_GROUP_NODE
                  " and both usages; '--groups' and '--usages' cannot change that" },
                { creation->nodes && creation->n_words > 0,
                  "'--nodes' creates a random token for each node" },
                { !creation->nodes != !creation->output_dir,
                  "'--nodes' and '--output-dir' are used together" },
                { creation->print && creation->is_join_command_wanted,
                  "use either '--print' or '--print-join-command'" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rules); i++)
                if (rules[i].is_wrong)
                        return nb_failure_set(f, NB_USAGE, 0, "%s", rules[i].text);
        return 0;
}

static int choose_form(struct creation *creation, struct nb_failure *f) {
        const char *name = creation->print;
        char quoted[NB_WORD_QUOTED_SIZE];

        if (creation->is_join_command_wanted)
                name = "kubeadm";
        else if (!name && (creation->node || creation->nodes))
                name = "setup";
        if (!name)
                return 0;
        creation->form = nb_handout_find(name);
        if (creation->form && creation->form->is_for_kubeadm && (creation->node || creation->nodes))
                nb_log(LOG_WARNING, NB_NONE,
                       "`kubeadm join` also reads the Node and ConfigMaps of the cluster, which a "
                       "token for one node may not; `node-bootstrap setup` can join with it");
        if (creation->form)
                return 0;
        (void)nb_failure_set(f, NB_USAGE, 0, "'--print' does not know %s; it knows",
                             nb_word_quote(name, quoted));
        for (const struct nb_handout_form *form = nb_handout_forms; form->name; form++)
                nb_failure_add(f, "%s%s", form == nb_handout_forms ? " " : ", ", form->name);
        return -EINVAL;
}

static int set_node(struct nb_bootstrap_token *token, const char *name, enum nb_code code,
                    const char *where, struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        /* A token has the form of a DNS name, and the name is no secret. */
        if (nb_token_verify(name, strlen(name)) < 0 &&
            nb_node_name_parse(name, strlen(name), token->node) >= 0 && !strcmp(name, token->node))
                return 0;
        return nb_failure_set(
                f, code, EINVAL,
                "%s: expected the name of a node, a DNS name in lower case; found %s", where,
                nb_text_contains_token(name) ? "a token"
                                             : nb_text_quote(name, strlen(name), quoted));
}

static int describe_token(struct creation *creation, struct nb_failure *f) {
        struct nb_bootstrap_token *wanted = &creation->wanted;
        const bool is_for_node = creation->node || creation->nodes;
        int r = 0;

        if (creation->n_words > 0)
                r = nb_token_set_text(wanted, creation->words[0], strlen(creation->words[0]),
                                      NB_USAGE, "the token", f);
        if (r >= 0 && creation->ttl)
                r = nb_token_set_ttl(wanted, creation->ttl, NB_USAGE, "'--ttl'", f);
        if (r >= 0 && creation->usages)
                r = add_words(creation, creation->usages, "'--usages'", nb_token_add_usage, f);
        /* kubeadm accepts --groups= for none. */
        if (r >= 0 && creation->groups && creation->groups[0])
                r = add_words(creation, creation->groups, "'--groups'", nb_token_add_group, f);
        if (r >= 0 && creation->description)
                r = nb_token_set_description(wanted, creation->description,
                                             strlen(creation->description), NB_USAGE,
                                             "'--description'", f);
        if (r >= 0 && creation->node)
                r = set_node(wanted, creation->node, NB_USAGE, "'--node'", f);
        if (r < 0)
                return r;
        if (is_for_node) {
                snprintf(wanted->groups, sizeof(wanted->groups), NB_TOKEN_GROUP_NODE);
                if (!creation->ttl)
                        wanted->expires = time(NULL) + NB_TOKEN_TTL_NODE_SEC;
        }
        return nb_token_complete(wanted, creation->ttl || is_for_node, creation->usages, NB_USAGE,
                                 "'--groups'", f);
}

/* --- The cluster --- */

/* A binding to another role could make kube-controller-manager approve any request. */
static int verify_binding(struct nb_json *json, struct nb_failure *f) {
        const char *role = nb_json_string(json, "roleRef.name"),
                   *kind = nb_json_string(json, "subjects[name=" NB_TOKEN_GROUP_NODE "].kind");

        if (json->r >= 0 && role && !strcmp(role, BINDING_ROLE) && kind && !strcmp(kind, "Group"))
                return 0;
        return nb_failure_set(f, NB_ADMIN_EXISTS, EEXIST,
                              "the ClusterRoleBinding " BINDING_NAME
                              " does not bind the group " NB_TOKEN_GROUP_NODE
                              " to the ClusterRole " BINDING_ROLE
                              "; delete it, and it will be created again");
}

/* Creates the binding that lets tokens for nodes submit requests, and nothing else. Whoever may not
 * create it can still create tokens if it exists. */
static int ensure_binding(struct creation *creation, struct nb_failure *f) {
        static const char body[] =
                "{\"apiVersion\":\"rbac.authorization.k8s.io/v1\",\"kind\":\"ClusterRoleBinding\","
                "\"metadata\":{\"name\":\"" BINDING_NAME "\"},"
                "\"roleRef\":{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"ClusterRole\","
                "\"name\":\"" BINDING_ROLE "\"},"
                "\"subjects\":[{\"apiGroup\":\"rbac.authorization.k8s.io\",\"kind\":\"Group\","
                "\"name\":\"" NB_TOKEN_GROUP_NODE "\"}]}";
        static const char what[] = "reading the ClusterRoleBinding " BINDING_NAME;
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_failure ignored = { 0 };
        int r;

        r = nb_admin_get(&creation->admin, what, BINDINGS_PATH "/" BINDING_NAME, &json, &ignored);
        if (r > 0)
                return verify_binding(&json, f);
        r = nb_admin_perform(&creation->admin,
                             &(const struct nb_admin_call){
                                     .method = "POST",
                                     .what = "creating the ClusterRoleBinding " BINDING_NAME,
                                     .path = BINDINGS_PATH,
                                     .body = body,
                                     .body_len = strlen(body) },
                             &answer, f);
        return r < 0 ? r : 0;
}

/* cluster-info has the address that machines can reach; the kubeconfig may have another one. */
static int read_cluster_info(struct creation *creation, struct nb_failure *f) {
        struct nb_cluster_info info = { 0 };
        int r;

        r = nb_cluster_info_fetch_verified(&creation->admin.api, &info, f);
        if (r < 0) {
                if (!nb_cluster_info_is_hidden(f))
                        return r;
                nb_failure_clear(f);
                return 0;
        }
        r = nb_cluster_info_parse_cluster(&info, &creation->cluster, f);
        nb_cluster_info_done(&info);
        creation->has_cluster = r >= 0;
        return r;
}

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

static int prepare_handout(struct creation *creation, struct nb_failure *f) {
        struct nb_handout *handout = &creation->handout;
        const struct nb_cluster *cluster = &creation->admin.cluster;
        char minor[NB_VERSION_SIZE];
        int r;

        /* kubeadm's line names the server of the kubeconfig. */
        if (!creation->is_join_command_wanted) {
                r = read_cluster_info(creation, f);
                if (r < 0)
                        return r;
        }
        if (creation->has_cluster)
                cluster = &creation->cluster;
        else if (!creation->is_join_command_wanted && !creation->node && !creation->nodes)
                nb_log(LOG_WARNING, NB_NONE,
                       "cluster-info is not published, so machines are told the server of the "
                       "kubeconfig, and cannot join yet; run `node-bootstrap-admin cluster-info "
                       "publish`");
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
        handout->endpoints[handout->n_endpoints++] = creation->endpoint;
        r = read_pins(cluster, handout, f);
        if (r < 0)
                return r;
        r = nb_version_read(&creation->admin.api, "minor", minor, f);
        handout->kubernetes_minor = r < 0 ? 0 : (unsigned)strtoul(minor, NULL, 10);
        return r;
}

/* --- Output --- */

/* Calls `write` with what is printed for the token. */
static int with_text(struct creation *creation, const struct nb_bootstrap_token *token,
                     int (*write)(void *userdata, const char *text, size_t len), void *userdata) {
        struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOUT_MAX);
        char word[NB_TOKEN_TEXT_SIZE];
        int r;

        nb_token_format(token, word);
        creation->handout.token = word;
        creation->handout.node = token->node;
        if (creation->form)
                r = nb_handout_format(creation->form, &creation->handout, &text);
        else {
                /* nb_buffer_printf() would leave the token in freed memory. */
                nb_buffer_append_string(&text, word);
                nb_buffer_append_string(&text, "\n");
                r = text.error;
        }
        if (r >= 0)
                r = write(userdata, text.data, text.len);
        creation->handout.token = creation->handout.node = NULL;
        explicit_bzero(word, sizeof(word));
        if (text.data)
                explicit_bzero(text.data, text.allocated);
        nb_buffer_done(&text);
        return r;
}

static int print_output(_unused_ void *userdata, const char *text, size_t len) {
        return fwrite(text, 1, len, stdout) == len && fflush(stdout) == 0 ? 0 : -EIO;
}

/* A token that nobody has received must not stay. */
static int give_up(struct creation *creation, const struct nb_bootstrap_token *token,
                   const char *where, int errnum, struct nb_failure *f) {
        struct nb_failure ignored = { 0 };
        int r = creation->is_dry_run ? 1 : nb_token_delete(&creation->admin, token->id, &ignored);

        (void)nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, errnum, "cannot write %s: %m", where);
        nb_failure_add(f,
                       r >= 0 ? "; the token %s was deleted again"
                              : "; the token %s is in the cluster, and could not be deleted",
                       token->id);
        return -EIO;
}

static int create_one(struct creation *creation, struct nb_bootstrap_token *token,
                      struct nb_failure *f) {
        int r = 0;

        if (!creation->is_dry_run)
                r = nb_token_submit(&creation->admin, token, f);
        else if (!token->id[0])
                r = nb_bootstrap_token_generate(token);
        if (r < 0)
                return r;
        if (creation->is_dry_run)
                fprintf(stderr,
                        "would create the Secret kube-system/" NB_TOKEN_SECRET_NAME_PREFIX "%s\n",
                        token->id);
        else if (token->node[0])
                nb_token_await_signature(&creation->admin, token->id);
        r = with_text(creation, token, print_output, NULL);
        return r < 0 ? give_up(creation, token, "to standard output", r, f) : 0;
}

static int create_from_config(struct creation *creation, struct nb_failure *f) {
        struct nb_bootstrap_token *tokens = calloc(NB_TOKEN_CONFIG_TOKENS_MAX, sizeof(*tokens));
        int n, r;

        if (!tokens)
                return nb_failure_set_memory(f);
        r = n = nb_token_config_read(creation->config, tokens, NB_TOKEN_CONFIG_TOKENS_MAX, f);
        if (r >= 0 && (!creation->is_dry_run || creation->form))
                r = nb_admin_connect(&creation->place, &creation->admin, f);
        if (r >= 0 && creation->form)
                r = prepare_handout(creation, f);
        for (int i = 0; i < n && r >= 0; i++)
                r = create_one(creation, &tokens[i], f);
        explicit_bzero(tokens, NB_TOKEN_CONFIG_TOKENS_MAX * sizeof(*tokens));
        free(tokens);
        return r < 0 ? r : 0;
}

/* --- A fleet --- */

struct fleet {
        char *names[NODES_MAX];
        size_t n, n_existing;
        struct nb_secret text;
        int folder_fd;
        char file[NB_NODE_NAME_MAX + 32];  /* name of the current one */
        char last_id[NB_TOKEN_ID_LEN + 1]; /* of the token created last; "" for none */
};

static void fleet_done(struct fleet *fleet) {
        nb_secret_done(&fleet->text);
        nb_closep(&fleet->folder_fd);
}

static int compare_names(const void *a, const void *b) {
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Checks all names before the first token is created. */
static int read_names(struct creation *creation, struct fleet *fleet, struct nb_failure *f) {
        char *rest, where[256];
        unsigned line = 0;
        int r;

        r = nb_path_read(-1, creation->nodes, NODES_FILE_MAX, &fleet->text);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m",
                                      creation->nodes);
        if (fleet->text.len == 0 || memchr(fleet->text.data, '\0', fleet->text.len))
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, EINVAL,
                                      "%s: expected the name of a node on each line",
                                      creation->nodes);
        rest = fleet->text.data;
        for (char *name; (name = strsep(&rest, "\n"));) {
                line++;
                name[strcspn(name, "#")] = '\0';
                name += strspn(name, " \t\r");
                name[strcspn(name, " \t\r")] = '\0';
                if (!name[0])
                        continue;
                snprintf(where, sizeof(where), "%s: line %u", creation->nodes, line);
                r = set_node(&creation->wanted, name, NB_ADMIN_INPUT_MALFORMED, where, f);
                if (r < 0)
                        return r;
                if (fleet->n == NODES_MAX)
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, E2BIG,
                                              "%s: more than %d names", creation->nodes, NODES_MAX);
                fleet->names[fleet->n++] = name;
        }
        qsort(fleet->names, fleet->n, sizeof(fleet->names[0]), compare_names);
        for (size_t i = 1; i < fleet->n; i++)
                if (!strcmp(fleet->names[i - 1], fleet->names[i]))
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, EEXIST,
                                              "%s: '%s' occurs twice", creation->nodes,
                                              fleet->names[i]);
        return 0;
}

static int write_output(void *userdata, const char *text, size_t len) {
        const struct fleet *fleet = userdata;

        return nb_file_create(fleet->folder_fd, fleet->file, 0600, text, len);
}

/* 1: created; 0: its file exists, from an earlier run that did not finish. */
static int create_for_node(struct creation *creation, struct fleet *fleet, const char *name,
                           struct nb_failure *f) {
        _cleanup_(nb_bootstrap_token_done) struct nb_bootstrap_token token = creation->wanted;
        char where[512];
        int r;

        assert(creation->form); /* '--nodes' has a form by default */
        snprintf(fleet->file, sizeof(fleet->file), "%s.%s", name, creation->form->suffix);
        snprintf(where, sizeof(where), "'%.200s/%s'", creation->output_dir, fleet->file);
        if (faccessat(fleet->folder_fd, fleet->file, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
                printf("%s: %s exists; nothing created\n", name, where);
                fleet->n_existing++;
                return 0;
        }
        if (creation->is_dry_run) {
                printf("%s: would create a token and %s\n", name, where);
                return 1;
        }
        snprintf(token.node, sizeof(token.node), "%s", name);
        token.expires = creation->wanted.expires;
        r = nb_token_submit(&creation->admin, &token, f);
        if (r < 0)
                return r;
        r = with_text(creation, &token, write_output, fleet);
        if (r < 0)
                return give_up(creation, &token, where, r, f);
        memcpy(fleet->last_id, token.id, sizeof(fleet->last_id));
        printf("%s: token %s, %s\n", name, token.id, where);
        return 1;
}

static int create_fleet(struct creation *creation, struct nb_failure *f) {
        _cleanup_(nb_freep) struct fleet *allocated = calloc(1, sizeof(*allocated));
        struct fleet *fleet = allocated;
        size_t n_created = 0;
        int r;

        if (!fleet)
                return nb_failure_set_memory(f);
        fleet->folder_fd = -1;
        r = read_names(creation, fleet, f);
        if (r >= 0) {
                r = nb_folder_open(creation->output_dir, &fleet->folder_fd);
                if (r < 0)
                        (void)nb_failure_set(f, NB_ADMIN_OUTPUT_UNWRITABLE, r,
                                             "cannot open the directory '%s': %m",
                                             creation->output_dir);
        }
        for (size_t i = 0; i < fleet->n && r >= 0; i++) {
                r = create_for_node(creation, fleet, fleet->names[i], f);
                n_created += r > 0;
        }
        if (r < 0 && n_created > 0)
                nb_failure_add(f, "; %zu of %zu were created; running the command again continues",
                               n_created, fleet->n);
        if (fleet->n_existing > 0)
                nb_log(LOG_INFO, NB_NONE,
                       "the token of a file that exists may have expired or been used: see "
                       "`node-bootstrap-admin token list`; to replace one, remove its file and run "
                       "this command again");
        /* The signer signs with all tokens that it has seen, so the last one is enough. */
        if (r >= 0 && fleet->last_id[0])
                nb_token_await_signature(&creation->admin, fleet->last_id);
        fleet_done(fleet);
        return r < 0 ? r : 0;
}

/* --- The command --- */

static int create_tokens(struct creation *creation, struct nb_failure *f) {
        const bool is_for_node = creation->node || creation->nodes;
        int r;

        r = check_options(creation, f);
        if (r < 0)
                return r;
        r = choose_form(creation, f);
        if (r < 0)
                return r;
        if (creation->config)
                return create_from_config(creation, f);
        r = describe_token(creation, f);
        if (r < 0)
                return r;
        if (!creation->is_dry_run || creation->form)
                r = nb_admin_connect(&creation->place, &creation->admin, f);
        if (r >= 0 && creation->form)
                r = prepare_handout(creation, f);
        if (r >= 0 && is_for_node && !creation->is_dry_run)
                r = ensure_binding(creation, f);
        if (r < 0)
                return r;
        return creation->nodes ? create_fleet(creation, f)
                               : create_one(creation, &creation->wanted, f);
}

int nb_token_create(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(creation_done) struct creation creation = { 0 };
        const struct nb_option rows[] = {
                { "node", "NAME", "a token for this node and one use; expires in 1h",
                  .ret_value = &creation.node },
                { "nodes", "FILE", "a token for each node in FILE, one name on each line",
                  .ret_value = &creation.nodes },
                { "output-dir", "DIR", "with --nodes: write a file for each node into DIR",
                  .ret_value = &creation.output_dir },
                { "print", "FORM",
                  "what to print for the machine: kubeadm, setup, config, join-configuration, "
                  "cloud-config, user-data, ignition, butane, credential, systemd-creds, qemu or "
                  "nspawn",
                  .ret_value = &creation.print },
                { "print-join-command", NULL, "print the `kubeadm join` line",
                  .ret_switch = &creation.is_join_command_wanted },
                { "ttl", "DURATION", "expire after this time, such as 90m; 0: never; default: 24h",
                  .ret_value = &creation.ttl },
                { "usages", "LIST", "signing, authentication, or both (default)",
                  .ret_value = &creation.usages },
                { "groups", "LIST", "groups of the token's user; default: kubeadm's",
                  .ret_value = &creation.groups },
                { "description", "TEXT", "what the token is for",
                  .ret_value = &creation.description },
                { "config", "FILE", "create the tokens of a kubeadm InitConfiguration",
                  .ret_value = &creation.config },
                { "dry-run", NULL, "check everything, but create nothing",
                  .ret_switch = &creation.is_dry_run },
                { "kubeconfig", "FILE", "use this kubeconfig",
                  .ret_value = &creation.place.kubeconfig },
                { "context", "NAME", "use this context of the kubeconfig",
                  .ret_value = &creation.place.context },
                { NULL },
        };
        int r;

        r = nb_token_read_line(options, rows, creation.words, N_ELEMENTS(creation.words),
                               &creation.n_words, f);
        return r < 0 ? r : create_tokens(&creation, f);
}
