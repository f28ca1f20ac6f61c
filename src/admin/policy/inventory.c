/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "admin/policy/bootstrap_token.h"
#include "admin/policy/inventory.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "codec/dns_name.h"
#include "codec/yaml.h"
#include "crypto/attestation.h"
#include "system/clock.h"

#define YAML_SUFFIX ".yaml"
#define OPEN_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

/* The parsed file, and which file it was. A directory is not cached, since only one small file of
 * it is read at a time. */
struct nb_inventory_cache {
        struct stat file;
        struct nb_yaml_node *nodes;
};

static bool is_same_file(const struct stat *a, const struct stat *b) {
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
               a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* --- Values --- */

static int refuse(const char *path, const struct nb_yaml_node *value, const char *expected,
                  struct nb_failure *f) {
        char quoted[NB_TEXT_QUOTED_SIZE] = "";

        if (value->type == NB_YAML_SCALAR && value->value_len > 0)
                nb_text_quote(value->value, value->value_len, quoted);
        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0, "%s:%u: %s: expected %s, found %s",
                              path, value->line, value->key ? value->key : "the entry", expected,
                              quoted[0] ? quoted : nb_yaml_type_name(value));
}

static int read_until(const char *path, const struct nb_yaml_node *value,
                      struct nb_inventory_node *node, struct nb_failure *f) {
        if (value->type != NB_YAML_SCALAR || nb_rfc3339_parse(value->value, &node->until) < 0 ||
            node->until <= 0)
                return refuse(path, value, "a time such as 2026-12-01T00:00:00Z", f);
        return 0;
}

/* The message does not quote the value, which may be a private key by mistake. */
static int read_public_key(const char *path, const struct nb_yaml_node *value,
                           struct nb_inventory_node *node, struct nb_failure *f) {
        int r;

        if (value->type != NB_YAML_SCALAR || value->value_len == 0 ||
            value->value_len > NB_INVENTORY_KEY_MAX)
                r = -EINVAL;
        else
                r = nb_attestation_key_verify(value->value, value->value_len);
        if (r == -ENOMEM)
                return nb_failure_set_memory(f);
        if (r < 0)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                                      "%s:%u: publicKey: expected a public key as PEM: ECDSA of at "
                                      "least P-256, Ed25519, or RSA of at least 2048 bits",
                                      path, value->line);
        memcpy(node->public_key, value->value, value->value_len + 1);
        return 0;
}

/* In the form of inet_ntop(3), as the addresses of a request. */
static bool copy_address(const char *text, char *ret) {
        struct in6_addr bytes;
        int family = strchr(text, ':') ? AF_INET6 : AF_INET;

        return inet_pton(family, text, &bytes) == 1 &&
               inet_ntop(family, &bytes, ret, NB_INVENTORY_NAME_SIZE);
}

static bool copy_dns_name(const char *text, char *ret) {
        if (!nb_dns_name_is_valid(text, strlen(text), NB_DNS_LABEL_MAX))
                return false;
        snprintf(ret, NB_INVENTORY_NAME_SIZE, "%s", text);
        return true;
}

/* An empty list would be treated as "not limited", the opposite of what its author expects. */
static int read_names(const char *path, const struct nb_yaml_node *list,
                      bool (*copy)(const char *text, char *ret), const char *expected,
                      struct nb_inventory_node *node, struct nb_failure *f) {
        if (list->type != NB_YAML_SEQUENCE || !list->first)
                return refuse(path, list, "a list with at least one entry", f);
        for (const struct nb_yaml_node *value = list->first; value; value = value->next) {
                if (node->n_names == NB_INVENTORY_NAMES_MAX)
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                                              "%s:%u: %s: expected at most %d addresses and DNS "
                                              "names",
                                              path, value->line, list->key, NB_INVENTORY_NAMES_MAX);
                if (value->type != NB_YAML_SCALAR ||
                    !copy(value->value, node->names[node->n_names]))
                        return refuse(path, value, expected, f);
                node->n_names++;
        }
        return 0;
}

static int read_addresses(const char *path, const struct nb_yaml_node *list,
                          struct nb_inventory_node *node, struct nb_failure *f) {
        return read_names(path, list, copy_address, "an IPv4 or IPv6 address", node, f);
}

static int read_dns_names(const char *path, const struct nb_yaml_node *list,
                          struct nb_inventory_node *node, struct nb_failure *f) {
        return read_names(path, list, copy_dns_name, "a DNS name in lower case", node, f);
}

static const struct key {
        const char *name;
        int (*read)(const char *path, const struct nb_yaml_node *value,
                    struct nb_inventory_node *node, struct nb_failure *f);
} keys[] = {
        { "until", read_until },
        { "publicKey", read_public_key },
        { "addresses", read_addresses },
        { "dnsNames", read_dns_names },
};

/* A node without values has no limits. An unknown key is an error, since it may be a misspelled
 * limit. */
static int read_entry(const char *path, const struct nb_yaml_node *entry,
                      struct nb_inventory_node *ret_node, struct nb_failure *f) {
        struct nb_inventory_node node = { 0 };

        if (entry && !nb_yaml_is_null(entry) && entry->type != NB_YAML_MAPPING)
                return refuse(path, entry, "a mapping", f);
        for (const struct nb_yaml_node *value = entry ? entry->first : NULL; value;
             value = value->next) {
                const struct key *key = NULL;
                int r;

                for (size_t i = 0; i < N_ELEMENTS(keys) && !key; i++)
                        key = strcmp(value->key, keys[i].name) == 0 ? &keys[i] : NULL;
                if (!key)
                        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, 0,
                                              "%s:%u: unknown key '%s'; expected until, publicKey, "
                                              "addresses or dnsNames",
                                              path, value->line, value->key);
                r = key->read(path, value, &node, f);
                if (r < 0)
                        return r;
        }
        *ret_node = node;
        return 1;
}

/* --- Files --- */

static int fail_to_read(const char *path, int r, struct nb_failure *f) {
        if (r == -EFBIG)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r,
                                      "%s: expected at most %zu bytes", path, NB_INVENTORY_MAX);
        if (r == -EBADF)
                return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "%s: not a regular file",
                                      path);
        return nb_failure_set(f, NB_ADMIN_INPUT_MALFORMED, r, "%s: %m", path);
}

static int parse_file(const char *path, int fd, struct stat *ret_file,
                      struct nb_yaml_node **ret_root, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_file_read_open(fd, NB_INVENTORY_MAX, &text, ret_file);

        if (r < 0)
                return fail_to_read(path, r, f);
        return nb_yaml_parse(path, text.data ? text.data : "", text.len, NB_ADMIN_INPUT_MALFORMED,
                             1, ret_root, f);
}

static int parse_cached(struct nb_inventory *inventory, int fd, const struct stat *now,
                        struct nb_failure *f) {
        struct nb_inventory_cache *cache = inventory->cache;
        struct nb_yaml_node *nodes = NULL;
        struct stat file;
        int r;

        if (cache && is_same_file(&cache->file, now))
                return 0;
        r = parse_file(inventory->path, fd, &file, &nodes, f);
        if (r < 0)
                return r;
        if (!cache)
                cache = calloc(1, sizeof(*cache));
        if (!cache) {
                nb_yaml_free(nodes);
                return nb_failure_set_memory(f);
        }
        nb_yaml_free(cache->nodes);
        *cache = (struct nb_inventory_cache){ file, nodes };
        inventory->cache = cache;
        return 0;
}

static int find_in_file(struct nb_inventory *inventory, int fd, const struct stat *file,
                        const char *name, struct nb_inventory_node *ret_node,
                        struct nb_failure *f) {
        const struct nb_yaml_node *nodes, *entry;
        int r = parse_cached(inventory, fd, file, f);

        if (r < 0)
                return r;
        nodes = inventory->cache->nodes;
        if (!nodes || nb_yaml_is_null(nodes))
                return 0;
        if (nodes->type != NB_YAML_MAPPING)
                return refuse(inventory->path, nodes, "a mapping of node names", f);
        entry = nb_yaml_get(nodes, name);
        return entry ? read_entry(inventory->path, entry, ret_node, f) : 0;
}

static bool ends_with(const char *text, const char *suffix) {
        size_t len = strlen(text), suffix_len = strlen(suffix);

        return len > suffix_len && strcmp(text + len - suffix_len, suffix) == 0;
}

/* The file of a node called "a.yaml" is "a.yaml.yaml": "a.yaml" is the file of the node "a". */
static int find_in_folder(const char *folder, const char *name, struct nb_inventory_node *ret_node,
                          struct nb_failure *f) {
        static const char *const suffixes[] = { "", YAML_SUFFIX };

        for (size_t i = ends_with(name, YAML_SUFFIX) ? 1 : 0; i < N_ELEMENTS(suffixes); i++) {
                _cleanup_(nb_yaml_freep) struct nb_yaml_node *entry = NULL;
                _cleanup_(nb_closep) int fd = -1;
                char path[PATH_MAX];
                int r;

                if (snprintf(path, sizeof(path), "%s/%s%s", folder, name, suffixes[i]) >=
                    (int)sizeof(path))
                        return fail_to_read(folder, -ENAMETOOLONG, f);
                fd = nb_path_open(-1, path, OPEN_FLAGS);
                if (fd == -ENOENT)
                        continue;
                if (fd < 0)
                        return fail_to_read(path, fd, f);
                r = parse_file(path, fd, NULL, &entry, f);
                return r < 0 ? r : read_entry(path, entry, ret_node, f);
        }
        return 0;
}

int nb_inventory_find(struct nb_inventory *inventory, const char *node,
                      struct nb_inventory_node *ret_node, struct nb_failure *f) {
        _cleanup_(nb_closep) int fd = -1;
        char name[NB_NODE_NAME_MAX + 1];
        struct stat file;

        if (!inventory->path || nb_node_name_parse(node, strlen(node), name) < 0 ||
            strcmp(name, node) != 0)
                return 0;
        fd = nb_path_open(-1, inventory->path, OPEN_FLAGS);
        if (fd < 0)
                return fail_to_read(inventory->path, fd, f);
        if (fstat(fd, &file) < 0)
                return fail_to_read(inventory->path, -errno, f);
        if (S_ISDIR(file.st_mode))
                return find_in_folder(inventory->path, name, ret_node, f);
        return find_in_file(inventory, fd, &file, name, ret_node, f);
}

void nb_inventory_done(struct nb_inventory *inventory) {
        if (inventory->cache)
                nb_yaml_free(inventory->cache->nodes);
        free(inventory->cache);
        *inventory = (struct nb_inventory){ 0 };
}
