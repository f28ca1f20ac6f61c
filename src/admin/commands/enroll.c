/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "admin/client/automatic_approval.h"
#include "admin/client/facts.h"
#include "admin/client/records.h"
#include "admin/commands/admin_commands.h"
#include "admin/policy/address.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "crypto/attestation.h"
#include "os/clock.h"
#include "os/sources.h"
#include "systemd/log.h"

#define TEXT_MAX ((size_t)64 * 1024) /* of a key, and of a record in JSON */
#define LINES_MAX ((size_t)4 * 1024 * 1024)
#define WORDS_MAX 13

/* One node, and what its record is to have. */
struct enrollment {
        const char *node;
        const char *key_path;     /* "-": standard input */
        const char *fingerprint;  /* of the key, which a request names */
        const char *request_name; /* of that request; NULL: any for the node */
        const char *addresses, *dns_names;
        bool is_forced;
        struct wanted *wanted; /* with a fingerprint; borrowed */
        struct nb_secret key;  /* it may be a private key by mistake */
        uint8_t key_id[NB_SHA256_SIZE];
        struct nb_node_record record; /* to be written */
        bool is_new;                  /* there is no record yet */
        char line[4 * NB_LIST_SIZE];  /* that the words are from */
};

struct enroll {
        struct nb_admin admin;
        bool is_forced;           /* who else approves requests is not checked */
        bool has_key;             /* of at least one node */
        struct nb_records keys;   /* struct owner */
        struct nb_records wanted; /* struct wanted */
        size_t n_missing;
};

static bool enrollment_has_key(const struct enrollment *enrollment) {
        return enrollment->key_path || enrollment->fingerprint;
}

static void enrollment_done(struct enrollment *enrollment) {
        nb_secret_done(&enrollment->key);
}

/* --- The key --- */

/* The key with which a virtual machine's TPM signs, as gcloud's get-shielded-identity prints it. */
static int take_signing_key(struct nb_secret *key, const char *path, struct nb_failure *f) {
        _cleanup_(nb_json_done) struct nb_json json = nb_json_parse(
                key->data, key->len, nb_text_shown(path), NB_ADMIN_INPUT_MALFORMED, f);
        const char *pem = nb_json_string(&json, "signingKey.ekPub");

        if (!pem) {
                nb_json_refuse(&json, "signingKey.ekPub", "a public key as PEM", NULL);
                return json.r;
        }
        nb_secret_done(key);
        return nb_secret_copy(key, pem, strlen(pem)) < 0 ? nb_failure_set_memory(f) : 0;
}

/* No message quotes the text. */
static int read_key(struct enrollment *enrollment, struct nb_failure *f) {
        const char *path = enrollment->key_path, *text, *flaw = "it is not one public key";
        struct nb_secret *key = &enrollment->key;
        int r = nb_admin_read_file(path, TEXT_MAX, key, f);

        if (r >= 0 && key->data && key->data[0] == '{')
                r = take_signing_key(key, path, f);
        if (r < 0)
                return r;
        while (key->data && key->len > 1 && !strcmp(&key->data[key->len - 2], "\n\n"))
                key->data[--key->len] = '\0';
        text = key->data ? key->data : "";
        r = key->len > NB_NODE_RECORD_KEY_MAX
                    ? -EINVAL
                    : nb_attestation_key_read(text, key->len, enrollment->key_id);
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
                              nb_text_shown(path), flaw);
}

/* --- The key in a request --- */

/* Only the fingerprint, which the administrator compares with the machine, selects the key; the
 * requestor wrote the rest. */
struct wanted {
        struct nb_record record;                /* key: the node and the fingerprint */
        char request_name[NB_CSR_NAME_MAX + 1]; /* "": any */
        char key[NB_NODE_RECORD_KEY_MAX + 1];   /* "": not found */
};

#define WANTED_SIZE (NB_NODE_NAME_MAX + 1 + NB_PIN_TEXT_SIZE)

static int want_key(struct enroll *enroll, struct enrollment *enrollment, struct nb_failure *f) {
        const char *text = enrollment->fingerprint;
        char fingerprint[NB_PIN_TEXT_SIZE], words[WANTED_SIZE];

        if (nb_pin_parse(text, strlen(text), enrollment->key_id) < 0)
                return nb_admin_refuse_word("'--fingerprint' to be sha256: and 64 hex digits", text,
                                            f);
        nb_pin_format(enrollment->key_id, fingerprint);
        snprintf(words, sizeof(words), "%s %s", enrollment->node, fingerprint);
        enrollment->wanted = nb_records_put(&enroll->wanted, words, sizeof(struct wanted));
        if (!enrollment->wanted)
                return nb_failure_set_memory(f);
        NB_TEXT_COPY(enrollment->wanted->request_name,
                     enrollment->request_name ? enrollment->request_name : "");
        return 0;
}

static int visit_request(void *userdata, struct nb_json *item) {
        _cleanup_(nb_node_request_done) struct nb_node_request request = { 0 };
        _cleanup_(nb_buffer_done) struct nb_buffer key = NB_BUFFER_INIT(NB_NODE_RECORD_KEY_MAX);
        struct enroll *enroll = userdata;
        struct wanted *wanted;
        uint8_t key_id[NB_SHA256_SIZE];
        char words[WANTED_SIZE];

        nb_node_request_read(item, &request);
        snprintf(words, sizeof(words), "%s %s", request.node, request.proof_key);
        wanted = item->r >= 0 ? nb_records_find(&enroll->wanted, words) : NULL;
        if (wanted && request.kind == NB_NODE_REQUEST_CLIENT &&
            (!wanted->request_name[0] || !strcmp(wanted->request_name, request.name)) &&
            nb_attestation_find_key(request.pem, request.pem_len, &key, key_id) > 0)
                NB_TEXT_COPY(wanted->key, key.data);
        return item->r;
}

/* 1: found; 0: not yet, which concerns this node alone: its machine may still be booting. */
static int take_wanted(struct enroll *enroll, struct enrollment *enrollment, struct nb_failure *f) {
        const struct wanted *wanted = enrollment->wanted;
        char fingerprint[NB_PIN_TEXT_SIZE];

        if (wanted->key[0])
                return nb_secret_copy(&enrollment->key, wanted->key, strlen(wanted->key)) < 0
                               ? nb_failure_set_memory(f)
                               : 1;
        nb_pin_format(enrollment->key_id, fingerprint);
        nb_log(LOG_WARNING, NB_NONE, "node %s: no request names the key %s", enrollment->node,
               fingerprint);
        enroll->n_missing++;
        return 0;
}

/* --- Records --- */

/* Returns whether it is usable; if not, *ret_flaw says why. */
static bool read_item(struct nb_json *item, struct nb_node_record *ret_record,
                      struct nb_failure *ret_flaw) {
        struct nb_json json = { item->root, item->what, item->code, ret_flaw, 0 };

        nb_node_record_read(&json, ret_record);
        return json.r >= 0;
}

/* Two machines with one key could ask for each other's certificates. */
struct owner {
        struct nb_record record; /* key: the fingerprint of the public key */
        char node[NB_NODE_NAME_MAX + 1];
};

/* The node that has the key: this one, if there was none. NULL without memory. */
static const char *find_owner(struct enroll *enroll, const uint8_t key_id[static NB_SHA256_SIZE],
                              const char *node) {
        char fingerprint[NB_PIN_TEXT_SIZE];
        struct owner *owner;

        nb_pin_format(key_id, fingerprint);
        owner = nb_records_put(&enroll->keys, fingerprint, sizeof(*owner));
        if (owner && !owner->node[0])
                NB_TEXT_COPY(owner->node, node);
        return owner ? owner->node : NULL;
}

/* A record that cannot be read allows nothing, so it is passed over. */
static int visit_key(void *userdata, struct nb_json *item) {
        struct nb_failure ignored = { 0 };
        struct nb_node_record record = { 0 };

        if (!read_item(item, &record, &ignored) || !record.public_key[0])
                return 0;
        return find_owner(userdata, record.key_id, record.node) ? 0
                                                                : nb_failure_set_memory(item->f);
}

/* Replaces the names of one kind in the record, if there is an option for them. */
static int set_names(struct nb_node_record *record, const char *list, bool is_address,
                     struct nb_failure *f) {
        const char *next = list;
        char item[NB_ITEM_SIZE];

        if (list && !nb_node_record_set_names(record, list, is_address))
                return nb_admin_refuse_word(
                        "'--addresses' and '--dns-names' to be lists such as "
                        "10.0.0.5,fd00::5 and node1.example.org,node1.lan, each of "
                        "less than 4096 characters",
                        list, f);
        while (is_address && nb_list_next(&next, item))
                if (nb_hosts_contain(NB_SPECIAL_PREFIXES, item))
                        return nb_failure_set(f, NB_USAGE, 0,
                                              "'--addresses' has %s, which is not an address of "
                                              "one machine, so it is never approved",
                                              item);
        return 0;
}

static int set_all_names(struct enrollment *enrollment, struct nb_failure *f) {
        int r = set_names(&enrollment->record, enrollment->addresses, true, f);

        return r < 0 ? r : set_names(&enrollment->record, enrollment->dns_names, false, f);
}

/* Reads the record that exists, if any; even an unusable one with `is_forced`, which is as if it
 * were empty. */
static int read_record(struct nb_admin *admin, struct enrollment *enrollment, bool is_forced,
                       struct nb_failure *f) {
        _cleanup_(nb_plan_done) struct nb_plan plan = { 0 };
        struct nb_failure unusable = { 0 };
        int r;

        nb_facts_add(&plan, NB_READ_RECORD, enrollment->node);
        r = nb_plan_perform(&plan, admin, f);
        if (r >= 0)
                r = nb_facts_take_record(&plan, admin, enrollment->node, &enrollment->record,
                                         &unusable, f);
        if (r < 0)
                return r;
        NB_TEXT_COPY(enrollment->record.node, enrollment->node);
        enrollment->is_new = r == 0 && unusable.code == NB_NONE;
        if (unusable.code == NB_NONE || is_forced)
                return 0;
        *f = unusable;
        if (f->code == NB_ANSWER_MALFORMED)
                nb_failure_add(f, "; --force with --public-key, and with --addresses and "
                                  "--dns-names if they limit this node, replaces it");
        return -EPROTO;
}

/* Creates or replaces the record. */
static int write_record(struct nb_admin *admin, struct enrollment *enrollment,
                        struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer body = NB_BUFFER_INIT(TEXT_MAX);
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        struct nb_node_record *record = &enrollment->record;
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX];
        int r;

        nb_node_record_name(enrollment->node, name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        (void)nb_node_record_format(record, &body);
        r = nb_admin_write(admin, enrollment->is_new ? "POST" : "PUT",
                           "writing the record of the node",
                           enrollment->is_new ? NB_SECRETS_PATH : path, &body, &json, f);
        if (r < 0)
                return r;
        nb_json_copy(&json, "metadata.uid", record->uid, sizeof(record->uid));
        nb_json_copy(&json, "metadata.resourceVersion", record->resource_version,
                     sizeof(record->resource_version));
        return json.r;
}

/* --- enroll add --- */

/* What an earlier enrollment says about names stays, unless an option replaces it. */
static int add_node(struct enroll *enroll, struct enrollment *enrollment, struct nb_failure *f) {
        struct nb_node_record *record = &enrollment->record;
        const bool has_key = enrollment_has_key(enrollment);
        const char *owner = enrollment->node;
        int r = enrollment->wanted ? take_wanted(enroll, enrollment, f) : 1;

        if (r <= 0)
                return r;
        if (has_key)
                owner = find_owner(enroll, enrollment->key_id, enrollment->node);
        if (!owner)
                return nb_failure_set_memory(f);
        if (strcmp(owner, enrollment->node) != 0)
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                                      "node %s is enrolled with this key; each machine needs its "
                                      "own",
                                      owner);
        r = read_record(&enroll->admin, enrollment, enrollment->is_forced && has_key, f);
        if (r < 0)
                return r;
        if (has_key && record->public_key[0] && !enrollment->is_forced &&
            !nb_digest_is_equal(record->key_id, enrollment->key_id))
                return nb_failure_set(f, NB_ADMIN_EXISTS, 0,
                                      "node %s is enrolled with another public key; --force "
                                      "replaces it",
                                      enrollment->node);
        /* Without a key, an earlier request, which needed a proof, must stay refused. */
        if (has_key) {
                record->removed_text[0] = '\0';
                memcpy(record->public_key, enrollment->key.data, enrollment->key.len + 1);
        }
        r = set_all_names(enrollment, f);
        if (r >= 0 && !nb_node_record_is_enrolled(record))
                r = nb_failure_set(f, NB_USAGE, 0,
                                   "nothing would be left that is enrolled for node %s; `enroll "
                                   "remove` removes the node",
                                   enrollment->node);
        if (r >= 0)
                r = write_record(&enroll->admin, enrollment, f);
        if (r >= 0)
                printf("enrolled node %s\n", enrollment->node);
        return r;
}

#define ENROLLMENT_OPTIONS(enrollment) \
        { "public-key", "FILE", "the machine's public key as PEM; '-': standard input", \
          .ret_value = &(enrollment).key_path }, \
                { "fingerprint", "sha256:HASH", \
                  "enroll the key with this fingerprint from the node's request", \
                  .ret_value = &(enrollment).fingerprint }, \
                { "from-request", "CSR", "take the key from this request only", \
                  .ret_value = &(enrollment).request_name }, \
                { "force", NULL, \
                  "replace a different key, and do not check who else approves requests", \
                  .ret_switch = &(enrollment).is_forced }, \
                { "addresses", "LIST", "the only addresses for serving certificates of the node", \
                  .ret_value = &(enrollment).addresses }, \
        { \
                "dns-names", "LIST", "DNS names for serving certificates, besides the node's", \
                        .ret_value = &(enrollment).dns_names \
        }

static int verify_enrollment(struct enroll *enroll, struct enrollment *enrollment,
                             struct nb_failure *f) {
        int r;

        if (!enrollment->node)
                return nb_failure_set(f, NB_USAGE, 0, "the name of a node is required");
        if (enrollment->fingerprint && enrollment->key_path)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--fingerprint' and '--public-key' cannot be used together");
        if (enrollment->request_name && !enrollment->fingerprint)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "'--from-request' requires '--fingerprint': the requestor "
                                      "chose the key in the request");
        if (!enrollment_has_key(enrollment) && !enrollment->addresses && !enrollment->dns_names)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "expected '--public-key', '--fingerprint', '--addresses' or "
                                      "'--dns-names'");
        r = nb_admin_verify_node(enrollment->node, f);
        if (r >= 0 && enrollment->key_path)
                r = read_key(enrollment, f);
        if (r >= 0 && enrollment->fingerprint)
                r = want_key(enroll, enrollment, f);
        enroll->has_key |= enrollment_has_key(enrollment);
        return r < 0 ? r : set_all_names(enrollment, f);
}

/* A line has a node and its options, separated by blanks. */
static int parse_line(struct enroll *enroll, const char *text, size_t len,
                      struct enrollment *enrollment, struct nb_failure *f) {
        const struct nb_option rows[] = { ENROLLMENT_OPTIONS(*enrollment), { NULL } };
        char *words[WORDS_MAX] = { enrollment->line };
        struct nb_options options = NB_OPTIONS_INIT("", 1, words);
        int r;

        if (len >= sizeof(enrollment->line))
                return nb_failure_set(f, NB_USAGE, 0, "the line is too long");
        snprintf(enrollment->line, sizeof(enrollment->line), "%.*s", (int)len, text);
        for (char *next = enrollment->line, *word; (word = strsep(&next, " \t\r"));) {
                if (word[0] && options.argc == WORDS_MAX)
                        return nb_failure_set(f, NB_USAGE, 0, "the line has too many words");
                if (word[0])
                        words[options.argc++] = word;
        }
        r = nb_admin_read_line(&options, rows, 1, f);
        if (r == -ECANCELED && f->code == NB_NONE)
                return nb_failure_set(f, NB_USAGE, 0, "a line has no '--help' and '--version'");
        if (r > 0)
                enrollment->node = words[0];
        if (r >= 0 && enrollment->key_path && !strcmp(enrollment->key_path, "-"))
                r = nb_failure_set(f, NB_USAGE, 0, "'--public-key' has to be a file");
        return r < 0 ? r : verify_enrollment(enroll, enrollment, f);
}

/* All lines are verified before the first node is enrolled. */
static int visit_lines(struct enroll *enroll, const char *text, bool is_adding,
                       struct nb_failure *f) {
        unsigned number = 0;
        int r = 0;

        for (size_t len; *text && r >= 0; text += len + (text[len] == '\n')) {
                _cleanup_(enrollment_done) struct enrollment enrollment = { .key = NB_SECRET_INIT };

                len = strcspn(text, "\n");
                number++;
                if (strspn(text, " \t\r") >= len || text[0] == '#')
                        continue;
                r = parse_line(enroll, text, len, &enrollment, f);
                if (r >= 0 && is_adding)
                        r = add_node(enroll, &enrollment, f);
                if (r < 0)
                        nb_failure_add(f, "; line %u%s", number,
                                       is_adding ? ", the lines before it are done" : "");
        }
        return r;
}

static int connect_and_look(struct enroll *enroll, struct nb_failure *f) {
        int r = nb_admin_connect(&enroll->admin, f);

        /* Without a key, the node does not need a proof. */
        if (r >= 0 && enroll->has_key)
                r = nb_admin_list(&enroll->admin, "the enrolled nodes", NB_RECORDS_PATH, visit_key,
                                  enroll, f);
        if (r >= 0 && enroll->has_key)
                r = nb_automatic_approval_refuse(&enroll->admin,
                                                 NB_TOKEN_GROUP_NODE "," NB_TOKEN_GROUP_ENROLLED,
                                                 enroll->is_forced, f);
        if (r >= 0 && enroll->wanted.n > 0)
                r = nb_admin_list(&enroll->admin, "certificate signing requests", NB_CSRS_PATH,
                                  visit_request, enroll, f);
        return r;
}

static void enroll_done(struct enroll *enroll) {
        nb_admin_done(&enroll->admin);
        nb_records_done(&enroll->keys);
        nb_records_done(&enroll->wanted);
}

int nb_enroll_add(struct nb_options *options, struct nb_failure *f) {
        _cleanup_(enrollment_done) struct enrollment enrollment = { .key = NB_SECRET_INIT };
        _cleanup_(nb_secret_done) struct nb_secret lines = NB_SECRET_INIT;
        _cleanup_(enroll_done) struct enroll enroll = { 0 };
        const char *path = NULL;
        const struct nb_option rows[] = {
                NB_ADMIN_PLACE_OPTIONS(enroll.admin.place),
                ENROLLMENT_OPTIONS(enrollment),
                { "from", "FILE", "lines with a node and its options; '-': standard input",
                  .ret_value = &path },
                { NULL },
        };
        int r = nb_admin_read_line(options, rows, 1, f);

        if (r < 0)
                return r;
        if (r > 0)
                enrollment.node = options->argv[0];
        enroll.is_forced = enrollment.is_forced;
        if (path && (r > 0 || enrollment_has_key(&enrollment) || enrollment.request_name ||
                     enrollment.addresses || enrollment.dns_names))
                return nb_failure_set(f, NB_USAGE, 0,
                                      "with '--from', nodes and their options are in the file");
        if (path)
                r = nb_admin_read_file(path, LINES_MAX, &lines, f);
        if (r >= 0)
                r = path ? visit_lines(&enroll, lines.data ? lines.data : "", false, f)
                         : verify_enrollment(&enroll, &enrollment, f);
        if (r >= 0)
                r = connect_and_look(&enroll, f);
        if (r >= 0)
                r = path ? visit_lines(&enroll, lines.data ? lines.data : "", true, f)
                         : add_node(&enroll, &enrollment, f);
        if (r >= 0 && enroll.n_missing > 0)
                r = nb_failure_set(f, NB_ADMIN_MISSING, 0,
                                   "nodes that were not enrolled: %zu; see `requests list "
                                   "--node=NODE`: if the request names another key, do not enroll "
                                   "it; if there is no request, run the command again later",
                                   enroll.n_missing);
        return r;
}

/* --- enroll remove --- */

static int refuse_missing(const char *node, struct nb_failure *f) {
        return nb_failure_set(f, NB_ADMIN_MISSING, 0, "node %s is not enrolled", node);
}

/*
 * A request that was made before the removal must not be approved later, because its node is no
 * longer enrolled. So the record is first made unreadable, and then gets the time of this answer:
 * no request that was made before can be newer than that.
 */
static int remove_node(struct nb_admin *admin, const char *node, struct nb_failure *f) {
        struct enrollment enrollment = { .node = node };
        struct nb_node_record *record = &enrollment.record;
        int r = read_record(admin, &enrollment, true, f);

        if (r < 0)
                return r;
        if (enrollment.is_new || (record->removed != 0 && !nb_node_record_is_enrolled(record)))
                return refuse_missing(node, f);
        record->public_key[0] = record->addresses[0] = record->dns_names[0] = '\0';
        NB_TEXT_COPY(record->removed_text, NB_NODE_RECORD_REMOVING);
        r = write_record(admin, &enrollment, f);
        if (r < 0)
                return r;
        if (admin->date <= 0)
                return nb_failure_set(f, NB_ANSWER_MALFORMED, 0,
                                      "the answer of the API server has no Date; the node is not "
                                      "approved until it is removed or enrolled again");
        nb_time_format(admin->date, record->removed_text);
        r = write_record(admin, &enrollment, f);
        if (r >= 0)
                printf("removed node %s\n", node);
        return r;
}

/* --- enroll list and show --- */

static int print_record(void *userdata, struct nb_json *item) {
        const bool *is_showing = userdata;
        char fingerprint[NB_PIN_TEXT_SIZE], name[254];
        struct nb_node_record record = { 0 };
        struct nb_failure flaw = { 0 };

        if (!read_item(item, &record, &flaw)) {
                nb_json_line(item, "metadata.name", name, sizeof(name));
                printf("%-30s unusable: %s\n", name, flaw.detail);
                return 0;
        }
        if (!nb_node_record_is_enrolled(&record)) {
                printf("%-30s removed %s\n", record.node, record.removed_text);
                return 0;
        }
        nb_pin_format(record.key_id, fingerprint);
        printf("%-30s %s%s%s%s%s\n%s", record.node, record.public_key[0] ? fingerprint : "no key",
               record.addresses[0] ? " " : "", record.addresses, record.dns_names[0] ? " " : "",
               record.dns_names, *is_showing ? record.public_key : "");
        return 0;
}

int nb_enroll_list(struct nb_admin *admin, struct nb_failure *f) {
        bool is_showing = false;
        int r = nb_admin_list(admin, "the enrolled nodes", NB_RECORDS_PATH, print_record,
                              &is_showing, f);

        return r < 0 ? r : 0;
}

/* By its name, as a decision reads it. */
static int show_node(struct nb_admin *admin, const char *node, struct nb_failure *f) {
        static const char what[] = "reading the record of the node";
        char name[NB_NODE_RECORD_NAME_SIZE], path[NB_ADMIN_PATH_MAX];
        _cleanup_(nb_json_done) struct nb_json json = { 0 };
        bool is_showing = true;
        int r;

        nb_node_record_name(node, name);
        snprintf(path, sizeof(path), NB_SECRETS_PATH "/%s", name);
        r = nb_admin_get(admin, what, path, &json, f);
        if (r == 0)
                return refuse_missing(node, f);
        return r < 0 ? r : print_record(&is_showing, &json);
}

static int for_each_node(struct nb_options *options,
                         int (*run)(struct nb_admin *admin, const char *node, struct nb_failure *f),
                         struct nb_failure *f) {
        _cleanup_(nb_admin_done) struct nb_admin admin = { 0 };
        const struct nb_option rows[] = { NB_ADMIN_PLACE_OPTIONS(admin.place), { NULL } };
        int n = nb_admin_read_line(options, rows, options->argc, f), r = n;

        if (n == 0)
                return nb_failure_set(f, NB_USAGE, 0, "the name of a node is required");
        for (int i = 0; i < n && r >= 0; i++)
                r = nb_admin_verify_node(options->argv[i], f);
        if (r >= 0)
                r = nb_admin_connect(&admin, f);
        for (int i = 0; i < n && r >= 0; i++)
                r = run(&admin, options->argv[i], f);
        return r;
}

int nb_enroll_show(struct nb_options *options, struct nb_failure *f) {
        return for_each_node(options, show_node, f);
}

int nb_enroll_remove(struct nb_options *options, struct nb_failure *f) {
        return for_each_node(options, remove_node, f);
}
