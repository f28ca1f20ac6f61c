/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/calls.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "crypto/attestation.h"
#include "system/clock.h"
#include "system/sources.h"

#define KEY_MAX ((size_t)64 * 1024)
#define BODY_MAX ((size_t)64 * 1024)

struct enroll {
        struct nb_admin admin;
        const char *node;
        const char *key_path; /* "-": standard input */
        const char *addresses, *dns_names;
        bool is_forced, is_listing, is_showing, is_removing;
        struct nb_secret key; /* it may be a private key by mistake */
        struct nb_node_record record;
};

/* --- The key --- */

static int read_key(struct enroll *enroll, struct nb_failure *f) {
        int r;

        if (strcmp(enroll->key_path, "-") == 0)
                return nb_sources_read_stream(STDIN_FILENO, "standard input", KEY_MAX, &enroll->key,
                                              f);
        r = nb_path_read(-1, enroll->key_path, KEY_MAX, &enroll->key);
        return r < 0 ? nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m",
                                      enroll->key_path)
                     : 0;
}

/* No message quotes the text. */
static int verify_key(struct enroll *enroll, struct nb_failure *f) {
        const char *text = enroll->key.data ? enroll->key.data : "";
        size_t len = enroll->key.len;
        int r = len > NB_NODE_RECORD_KEY_MAX
                        ? -EINVAL
                        : nb_attestation_key_read(text, len, enroll->record.key_id);

        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r >= 0) {
                memcpy(enroll->record.public_key, text, len + 1);
                return 0;
        }
        if (memmem(text, len, "PRIVATE KEY-----", strlen("PRIVATE KEY-----")))
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                                      "'%s': it is a private key, which must stay on its machine; "
                                      "`openssl pkey -pubout` prints the public key",
                                      enroll->key_path);
        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                              "'%s': %s; expected a public key as PEM: ECDSA of at least P-256, "
                              "Ed25519, or RSA of at least 2048 bits",
                              enroll->key_path,
                              r == -ENOTSUP ? "the key is too weak, or of another type"
                                            : "it is not one public key");
}

/* --- Records --- */

/* Two machines with one key could ask for each other's certificates. A record that cannot be read
 * allows nothing, so it is passed over. */
static int compare_key(void *userdata, struct nb_json *item) {
        const struct enroll *enroll = userdata;
        struct nb_failure *f = item->f, ignored = { 0 };
        struct nb_node_record other = { 0 };

        item->f = &ignored;
        nb_node_record_read(item, &other);
        item->f = f;
        item->r = 0;
        if (!other.public_key[0] || !strcmp(other.node, enroll->node) ||
            !nb_digest_is_equal(other.key_id, enroll->record.key_id))
                return 0;
        return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                              "node %s is enrolled with this key; each machine needs its own",
                              other.node);
}

/* Reads the record of the node that exists, even if it is unusable. 1; 0: there is none. */
static int read_old(struct enroll *enroll, struct nb_node_record *ret_old, struct nb_failure *f) {
        struct nb_failure unusable = { 0 };
        int r = nb_facts_read_record(&enroll->admin, enroll->node, ret_old, &unusable, f);

        if (r != 0 || unusable.code == NB_NONE || enroll->is_forced)
                return r != 0 ? r : unusable.code != NB_NONE;
        *f = unusable;
        if (f->code == NB_ANSWER_MALFORMED)
                nb_failure_add(f, "; --force replaces it");
        return -EPROTO;
}

/* Returns the time of the answer by the clock of the API server. */
static int write_record(struct enroll *enroll, bool is_new, time_t *ret_date,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(BODY_MAX);
        _cleanup_(nb_http_answer_done) struct nb_http_answer answer = { 0 };
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX], what[320];
        struct nb_admin_call call = { .method = "POST", .what = what, .path = NB_SECRETS_PATH };
        int r;

        nb_node_record_name(enroll->node, name);
        snprintf(what, sizeof(what), "writing the Secret %s", name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        if (!is_new) {
                call.method = "PUT";
                call.path = path;
        }
        r = nb_node_record_format(&enroll->record, &body);
        if (r < 0)
                return nb_failure_set(f, NB_INTERNAL, r, "%s: %m", what);
        call.body = body.data;
        call.body_len = body.len;
        r = nb_admin_perform(&enroll->admin, &call, &answer, f);
        if (r < 0)
                return r;
        if (r >= 300)
                return nb_failure_set_http(f, NB_ADMIN_CONFLICT, r,
                                           "%s: somebody else changed it, or deleted it", what);
        json = nb_json_parse(nb_answer_text(&answer), answer.body.len, what, NB_ANSWER_MALFORMED,
                             f);
        nb_json_copy(&json, "metadata.uid", enroll->record.uid, sizeof(enroll->record.uid));
        nb_json_copy(&json, "metadata.resourceVersion", enroll->record.resource_version,
                     sizeof(enroll->record.resource_version));
        *ret_date = answer.date;
        return json.r;
}

/* --- Commands --- */

/* The list of the command line, or else that of the old record. */
static int add_names(struct enroll *enroll, const char *option, const char *list, bool is_address,
                     const struct nb_node_record *old, struct nb_failure *f) {
        if (!list)
                list = is_address ? old->addresses : old->dns_names;
        if (!list[0] || nb_node_record_set_names(&enroll->record, list, is_address))
                return 0;
        return nb_failure_set(
                f, NB_USAGE, 0, "'--%s' must be a list such as %s, of less than %d characters",
                option, is_address ? "10.0.0.5,fd00::5" : "node1.example.org,node1.lan",
                NB_LIST_SIZE);
}

static int read_names(struct enroll *enroll, const struct nb_node_record *old,
                      struct nb_failure *f) {
        int r = add_names(enroll, "addresses", enroll->addresses, true, old, f);

        return r < 0 ? r : add_names(enroll, "dns-names", enroll->dns_names, false, old, f);
}

/* What an earlier enrollment says about names stays, unless an option replaces it. */
static int prepare_record(struct enroll *enroll, const struct nb_node_record *old,
                          struct nb_failure *f) {
        snprintf(enroll->record.node, sizeof(enroll->record.node), "%s", enroll->node);
        memcpy(enroll->record.uid, old->uid, sizeof(old->uid));
        memcpy(enroll->record.resource_version, old->resource_version,
               sizeof(old->resource_version));
        return read_names(enroll, old, f);
}

static int add_node(struct enroll *enroll, struct nb_failure *f) {
        struct nb_node_record old = { 0 };
        bool is_new;
        time_t date;
        int r;

        r = nb_admin_list(&enroll->admin, "listing the enrolled nodes", NB_RECORDS_PATH,
                          compare_key, enroll, NULL, f);
        if (r >= 0)
                r = nb_automatic_approval_refuse(&enroll->admin,
                                                 NB_TOKEN_GROUP_NODE "," NB_TOKEN_GROUP_ENROLLED,
                                                 enroll->is_forced, f);
        if (r < 0)
                return r;
        r = read_old(enroll, &old, f);
        if (r < 0)
                return r;
        is_new = r == 0;
        if (old.public_key[0] && !enroll->is_forced &&
            !nb_digest_is_equal(old.key_id, enroll->record.key_id))
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                                      "node %s is enrolled with another public key; --force "
                                      "replaces it",
                                      enroll->node);
        r = prepare_record(enroll, &old, f);
        if (r >= 0)
                r = write_record(enroll, is_new, &date, f);
        if (r >= 0)
                printf("enrolled node %s\n", enroll->node);
        return r;
}

/*
 * A request that was made before the removal must not be approved later, because its node is no
 * longer enrolled. So the record is first made unreadable, and then gets the time of this answer:
 * no request that was made before can be newer than that.
 */
static int remove_node(struct enroll *enroll, struct nb_failure *f) {
        struct nb_node_record old = { 0 };
        time_t date = 0;
        int r;

        enroll->is_forced = true;
        r = read_old(enroll, &old, f);
        if (r < 0)
                return r;
        if (r == 0 || old.removed != 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0, "node %s is not enrolled",
                                      enroll->node);
        r = prepare_record(enroll, &old, f);
        strcpy(enroll->record.removed_text, NB_NODE_RECORD_REMOVING);
        if (r >= 0)
                r = write_record(enroll, false, &date, f);
        if (r < 0)
                return r;
        if (date <= 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "the answer of the API server has no Date; the node is not "
                                      "approved until it is removed or enrolled again");
        nb_time_format(date, enroll->record.removed_text);
        r = write_record(enroll, false, &date, f);
        if (r >= 0)
                printf("removed node %s\n", enroll->node);
        return r;
}

static int print_record(void *userdata, struct nb_json *item) {
        const struct enroll *enroll = userdata;
        char digits[2 * NB_SHA256_SIZE + 1];
        struct nb_failure unusable = { 0 }, *f = item->f;
        struct nb_node_record record = { 0 };
        const char *name = nb_json_string(item, "metadata.name");

        item->f = &unusable;
        nb_node_record_read(item, &record);
        item->f = f;
        if (item->r < 0) {
                printf("%-30s unusable: %s\n", name ? name : "?", unusable.detail);
                return item->r = 0;
        }
        if (record.removed != 0) {
                printf("%-30s removed %s\n", record.node, record.removed_text);
                return 0;
        }
        nb_hex_encode(record.key_id, sizeof(record.key_id), digits);
        printf("%-30s sha256:%s %s %s\n", record.node, digits, record.addresses, record.dns_names);
        if (enroll->is_showing)
                printf("%s", record.public_key);
        return 0;
}

static int show_node(struct enroll *enroll, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX];
        int r;

        nb_node_record_name(enroll->node, name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        r = nb_admin_get(&enroll->admin, "reading the record of the node", path, &json, f);
        if (r == 0)
                return nb_failure_set(f, NB_ADMIN_MISSING, 0, "node %s is not enrolled",
                                      enroll->node);
        return r < 0 ? r : print_record(enroll, &json);
}

/* --- Command line --- */

static int verify_arguments(const struct enroll *enroll, struct nb_failure *f) {
        char name[NB_NODE_NAME_MAX + 1], quoted[NB_WORD_QUOTED_SIZE];

        if (enroll->is_listing + enroll->is_showing + enroll->is_removing +
                    (enroll->key_path != NULL) !=
            1)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected one of '--public-key', '--list', '--show' and "
                                      "'--remove'");
        if (enroll->is_listing && enroll->node)
                return nb_failure_set(f, NB_USAGE, 0, "'--list' takes no node");
        if (enroll->is_listing)
                return 0;
        if (!enroll->node)
                return nb_failure_set(f, NB_USAGE, 0, "the name of a node is required");
        if (nb_node_name_parse(enroll->node, strlen(enroll->node), name) < 0 ||
            strcmp(enroll->node, name) != 0)
                return nb_failure_set(f, NB_USAGE, 0, "%s is not the name of a node",
                                      nb_word_quote(enroll->node, quoted));
        if (nb_token_verify(enroll->node, strlen(enroll->node)) == 0)
                return nb_failure_set(f, NB_USAGE, 0, "expected the name of a node, found a token");
        return 0;
}

static void enroll_done(struct enroll *enroll) {
        nb_admin_done(&enroll->admin);
        nb_secret_done(&enroll->key);
}

int nb_admin_command_enroll(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(enroll_done) struct enroll enroll = { .key = NB_SECRET_INIT };
        struct nb_admin_place place = { 0 };
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(place),
                { "public-key", "FILE", "the machine's public key as PEM; '-': standard input",
                  .ret_value = &enroll.key_path },
                { "addresses", "LIST", "the only addresses for serving certificates of the node",
                  .ret_value = &enroll.addresses },
                { "dns-names", "LIST", "DNS names for serving certificates, besides the node's",
                  .ret_value = &enroll.dns_names },
                { "force", NULL,
                  "replace a different key, and do not check who else approves requests",
                  .ret_switch = &enroll.is_forced },
                { "list", NULL, "list the enrolled nodes", .ret_switch = &enroll.is_listing },
                { "show", NULL, "show the node", .ret_switch = &enroll.is_showing },
                { "remove", NULL, "remove the node", .ret_switch = &enroll.is_removing },
                { NULL },
        };
        size_t n;
        int r;

        r = nb_admin_read_line(options, rows, &enroll.node, 1, &n, f);
        if (r >= 0)
                r = verify_arguments(&enroll, f);
        if (r >= 0 && enroll.key_path)
                r = read_key(&enroll, f);
        if (r >= 0 && enroll.key_path)
                r = verify_key(&enroll, f);
        if (r >= 0)
                r = read_names(&enroll, &(struct nb_node_record){ 0 }, f);
        if (r >= 0)
                r = nb_admin_connect(&place, &enroll.admin, f);
        if (r < 0)
                return r;
        if (enroll.is_listing)
                return nb_admin_list(&enroll.admin, "listing the enrolled nodes", NB_RECORDS_PATH,
                                     print_record, &enroll, NULL, f);
        return enroll.is_showing    ? show_node(&enroll, f)
               : enroll.is_removing ? remove_node(&enroll, f)
                                    : add_node(&enroll, f);
}
