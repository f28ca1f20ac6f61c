/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/facts.h"
#include "admin/commands/admin_commands.h"
#include "base/encoding.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/attestation.h"
#include "system/clock.h"
#include "system/sources.h"

#define TEXT_MAX ((size_t)64 * 1024) /* of a key, and of a record in JSON */

struct enroll {
        struct nb_admin admin;
        const char *node;     /* NULL: all are listed */
        const char *key_path; /* "-": standard input */
        const char *addresses, *dns_names;
        bool is_forced, is_listing, is_showing, is_removing;
        struct nb_secret key; /* it may be a private key by mistake */
        uint8_t key_id[NB_SHA256_SIZE];
        struct nb_node_record record; /* to be written */
        bool is_new;                  /* there is no record yet */
};

/* --- The key --- */

/* No message quotes the text. */
static int read_key(struct enroll *enroll, struct nb_failure *f) {
        const char *path = enroll->key_path, *text, *flaw = "it is not one public key";
        struct nb_secret *key = &enroll->key;
        int r = !strcmp(path, "-")
                        ? nb_sources_read_stream(STDIN_FILENO, "standard input", TEXT_MAX, key, f)
                        : nb_path_read(-1, path, TEXT_MAX, key);

        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "cannot read '%s': %m", path);
        text = key->data ? key->data : "";
        r = key->len > NB_NODE_RECORD_KEY_MAX
                    ? -EINVAL
                    : nb_attestation_key_read(text, key->len, enroll->key_id);
        if (r >= 0)
                return 0;
        if (memmem(text, key->len, "PRIVATE KEY-----", strlen("PRIVATE KEY-----")))
                flaw = "it is a private key, which must stay on its machine; `openssl pkey "
                       "-pubout` prints the public key";
        else if (r == -ENOTSUP)
                flaw = "the key is too weak, or of another type";
        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r == -ENOMEM ? r : 0,
                              "'%s': %s; expected a public key as PEM: ECDSA of at least P-256, "
                              "Ed25519, or RSA of at least 2048 bits",
                              path, flaw);
}

/* --- Records --- */

/* Returns whether it is usable; if not, *ret_flaw says why. */
static bool read_item(struct nb_json *item, struct nb_node_record *ret_record,
                      struct nb_failure *ret_flaw) {
        struct nb_json json = { item->root, item->what, item->code, ret_flaw, 0 };

        nb_node_record_read(&json, ret_record);
        return json.r >= 0;
}

/* Two machines with one key could ask for each other's certificates. A record that cannot be read
 * allows nothing, so it is passed over. */
static int compare_key(void *userdata, struct nb_json *item) {
        const struct enroll *enroll = userdata;
        struct nb_node_record other = { 0 };
        struct nb_failure ignored = { 0 };

        if (!read_item(item, &other, &ignored) || !other.public_key[0] ||
            !strcmp(other.node, enroll->node) || !nb_digest_is_equal(other.key_id, enroll->key_id))
                return 0;
        return nb_failure_set(item->f, NB_ADMIN_EXISTS, 0,
                              "node %s is enrolled with this key; each machine needs its own",
                              other.node);
}

/* Replaces the names of one kind in the record, if there is an option for them. */
static int set_names(struct nb_node_record *record, const char *list, bool is_address,
                     struct nb_failure *f) {
        if (!list || nb_node_record_set_names(record, list, is_address))
                return 0;
        return nb_admin_refuse_word("'--addresses' and '--dns-names' to be lists such as "
                                    "10.0.0.5,fd00::5 and node1.example.org,node1.lan, each of "
                                    "less than 4096 characters",
                                    list, f);
}

static int set_all_names(struct enroll *enroll, struct nb_failure *f) {
        int r = set_names(&enroll->record, enroll->addresses, true, f);

        return r < 0 ? r : set_names(&enroll->record, enroll->dns_names, false, f);
}

/* Reads the record that exists, if any; even an unusable one with `is_forced`. */
static int read_record(struct enroll *enroll, bool is_forced, struct nb_failure *f) {
        struct nb_failure unusable = { 0 };
        int r = nb_facts_read_record(&enroll->admin, enroll->node, &enroll->record, &unusable, f);

        if (r < 0)
                return r;
        NB_TEXT_COPY(enroll->record.node, enroll->node);
        enroll->is_new = r == 0 && unusable.code == NB_NONE;
        if (unusable.code == NB_NONE || is_forced)
                return 0;
        *f = unusable;
        if (f->code == NB_ANSWER_MALFORMED)
                nb_failure_add(f, "; --force replaces it");
        return -EPROTO;
}

/* Creates or replaces the record. */
static int write_record(struct enroll *enroll, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX];
        int r;

        nb_node_record_name(enroll->node, name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        (void)nb_node_record_format(&enroll->record, &body);
        r = nb_admin_write(&enroll->admin, enroll->is_new ? "POST" : "PUT",
                           "writing the record of the node",
                           enroll->is_new ? NB_SECRETS_PATH : path, &body, &json, f);
        if (r < 0)
                return r;
        nb_json_copy(&json, "metadata.uid", enroll->record.uid, sizeof(enroll->record.uid));
        nb_json_copy(&json, "metadata.resourceVersion", enroll->record.resource_version,
                     sizeof(enroll->record.resource_version));
        return json.r;
}

/* --- Commands --- */

/* What an earlier enrollment says about names stays, unless an option replaces it. */
static int add_node(struct enroll *enroll, struct nb_failure *f) {
        struct nb_node_record *record = &enroll->record;
        int r = nb_admin_list(&enroll->admin, "listing the enrolled nodes", NB_RECORDS_PATH,
                              compare_key, enroll, NULL, f);

        if (r >= 0)
                r = nb_automatic_approval_refuse(&enroll->admin,
                                                 NB_TOKEN_GROUP_NODE "," NB_TOKEN_GROUP_ENROLLED,
                                                 enroll->is_forced, f);
        if (r >= 0)
                r = read_record(enroll, enroll->is_forced, f);
        if (r < 0)
                return r;
        if (record->public_key[0] && !enroll->is_forced &&
            !nb_digest_is_equal(record->key_id, enroll->key_id))
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                                      "node %s is enrolled with another public key; --force "
                                      "replaces it",
                                      enroll->node);
        record->removed = 0;
        record->removed_text[0] = '\0';
        memcpy(record->public_key, enroll->key.data, enroll->key.len + 1);
        r = set_all_names(enroll, f);
        if (r >= 0)
                r = write_record(enroll, f);
        if (r >= 0)
                printf("enrolled node %s\n", enroll->node);
        return r;
}

static int refuse_missing(const struct enroll *enroll, struct nb_failure *f) {
        return nb_failure_set(f, NB_ADMIN_MISSING, 0, "node %s is not enrolled", enroll->node);
}

/*
 * A request that was made before the removal must not be approved later, because its node is no
 * longer enrolled. So the record is first made unreadable, and then gets the time of this answer:
 * no request that was made before can be newer than that.
 */
static int remove_node(struct enroll *enroll, struct nb_failure *f) {
        int r = read_record(enroll, true, f);

        if (r < 0)
                return r;
        if (enroll->is_new || enroll->record.removed != 0)
                return refuse_missing(enroll, f);
        NB_TEXT_COPY(enroll->record.removed_text, NB_NODE_RECORD_REMOVING);
        r = write_record(enroll, f);
        if (r < 0)
                return r;
        if (enroll->admin.date <= 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "the answer of the API server has no Date; the node is not "
                                      "approved until it is removed or enrolled again");
        nb_time_format(enroll->admin.date, enroll->record.removed_text);
        r = write_record(enroll, f);
        if (r >= 0)
                printf("removed node %s\n", enroll->node);
        return r;
}

static int print_record(void *userdata, struct nb_json *item) {
        const struct enroll *enroll = userdata;
        char digits[2 * NB_SHA256_SIZE + 1], name[254];
        struct nb_node_record record = { 0 };
        struct nb_failure flaw = { 0 };

        if (!read_item(item, &record, &flaw)) {
                nb_json_line(item, "metadata.name", name, sizeof(name));
                printf("%-30s unusable: %s\n", name, flaw.detail);
                return 0;
        }
        if (record.removed != 0) {
                printf("%-30s removed %s\n", record.node, record.removed_text);
                return 0;
        }
        nb_hex_encode(record.key_id, sizeof(record.key_id), digits);
        printf("%-30s sha256:%s%s%s%s%s\n%s", record.node, digits, record.addresses[0] ? " " : "",
               record.addresses, record.dns_names[0] ? " " : "", record.dns_names,
               enroll->is_showing ? record.public_key : "");
        return 0;
}

/* Of all nodes, or of one: by its name, as a decision reads it. */
static int show_records(struct enroll *enroll, struct nb_failure *f) {
        static const char what[] = "reading the records of nodes";
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX];
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        int r;

        if (!enroll->node)
                return nb_admin_list(&enroll->admin, what, NB_RECORDS_PATH, print_record, enroll,
                                     NULL, f);
        nb_node_record_name(enroll->node, name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        r = nb_admin_get(&enroll->admin, what, path, &json, f);
        if (r == 0)
                return refuse_missing(enroll, f);
        return r < 0 ? r : print_record(enroll, &json);
}

/* --- Command line --- */

static int verify_arguments(const struct enroll *enroll, struct nb_failure *f) {
        if (enroll->is_listing + enroll->is_showing + enroll->is_removing +
                    (enroll->key_path != NULL) !=
            1)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected one of '--public-key', '--list', '--show' and "
                                      "'--remove'");
        if (enroll->is_listing == (enroll->node != NULL))
                return nb_failure_set(f, NB_USAGE, 0,
                                      enroll->node ? "'--list' takes no node"
                                                   : "the name of a node is required");
        return enroll->node ? nb_admin_verify_node(enroll->node, f) : 0;
}

static void enroll_done(struct enroll *enroll) {
        nb_admin_done(&enroll->admin);
        nb_secret_done(&enroll->key);
}

int nb_enroll(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(enroll_done) struct enroll enroll = { .key = NB_SECRET_INIT };
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(enroll.admin.place),
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
        int r = nb_admin_read_line(options, rows, 1, f);

        if (r > 0)
                enroll.node = options->argv[0];
        if (r >= 0)
                r = verify_arguments(&enroll, f);
        if (r >= 0 && enroll.key_path)
                r = read_key(&enroll, f);
        if (r >= 0 && enroll.key_path)
                r = set_all_names(&enroll, f);
        if (r >= 0)
                r = nb_admin_connect(&enroll.admin.place, &enroll.admin, f);
        if (r < 0)
                return r;
        return enroll.key_path      ? add_node(&enroll, f)
               : enroll.is_removing ? remove_node(&enroll, f)
                                    : show_records(&enroll, f);
}
