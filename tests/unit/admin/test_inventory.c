/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/policy/inventory.h"
#include "folder.h"

#define KEY(indent) \
        indent "-----BEGIN PUBLIC KEY-----\n" indent \
               "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8EiAPpZbYLqGus/kSQesFkFvtR+1\n" indent \
               "+2ghDB8vaRJOW5+3jnUusLrmnBn2lDc7Kues5se44t9DyqCJX89bqYjgGQ==\n" indent \
               "-----END PUBLIC KEY-----\n"
#define KEY_P192 \
        "  -----BEGIN PUBLIC KEY-----\n" \
        "  MEkwEwYHKoZIzj0CAQYIKoZIzj0DAQEDMgAE71I6uj8BVNpztJCeI7robWTqjesb\n" \
        "  NFDQhwMiI6s+3mUdq72hbo4DIIubTbTET7FE\n" \
        "  -----END PUBLIC KEY-----\n"

static struct row {
        const char *name;
        const char *file; /* "inventory": one file; otherwise a file in the directory "inventory" */
        const char *text;
        const char *node;
        int r;
        const char *failure; /* "" if r >= 0 */
} rows[] = {
        { "listed in a file", "inventory", "b: {}\na:\n", "a", 1, "" },
        { "not listed in a file", "inventory", "b:\n", "a", 0, "" },
        { "an empty file", "inventory", "", "a", 0, "" },
        { "listed in a directory", "inventory/a", "", "a", 1, "" },
        { "listed in a directory, with a suffix", "inventory/a.yaml",
          "until: 2026-12-01T00:00:00Z\n", "a", 1, "" },
        { "not listed in a directory", "inventory/b", "", "a", 0, "" },
        { "the file of one node is not another node's", "inventory/a.yaml", "", "a.yaml", 0, "" },
        { "a node whose name has the suffix", "inventory/a.yaml.yaml", "", "a.yaml", 1, "" },
        { "a path instead of a name", "inventory/a/b", "", "a/b", 0, "" },
        { "a name that leads upwards", "inventory/a", "", "../inventory/a", 0, "" },
        { "a name in capitals", "inventory", "a:\n", "A", 0, "" },
        { "an error in the entry of another node", "inventory", "b: {x: y}\na:\n", "a", 1, "" },
        { "an unknown key", "inventory", "a:\n  Until: 2026-12-01T00:00:00Z\n", "a", -1,
          ":2: unknown key 'Until'; expected until," },
        { "a time that is not one", "inventory", "a:\n  until: tomorrow\n", "a", -1,
          ":2: until: expected a time such as 2026-12-01T00:00:00Z, found 'tomorrow'" },
        { "a time that is missing", "inventory", "a:\n  until:\n", "a", -1, "found nothing" },
        { "an address that is not one", "inventory/a", "addresses: [10.0.0.5/24]\n", "a", -1,
          "expected an IPv4 or IPv6 address, found '10.0.0.5/24'" },
        { "a DNS name in capitals", "inventory/a", "dnsNames: [A.example]\n", "a", -1,
          "a DNS name in lower case" },
        { "an address outside of a list", "inventory/a", "addresses: 10.0.0.5\n", "a", -1,
          "expected a list" },
        { "an empty list", "inventory/a", "addresses: []\n", "a", -1,
          "expected a list with at least one entry" },
        { "a key that is too weak", "inventory/a", "publicKey: |\n" KEY_P192, "a", -1,
          ":1: publicKey: expected a public key as PEM" },
        { "a private key", "inventory/a", "publicKey: |\n  -----BEGIN PRIVATE KEY-----\n  S3cret\n",
          "a", -1, ":1: publicKey: expected a public key as PEM" },
        { "an entry that is a list", "inventory", "a: [b]\n", "a", -1,
          ":1: a: expected a mapping" },
        { "a file that is a list", "inventory", "[a]\n", "a", -1,
          "expected a mapping of node names, found a list" },
        { "a node twice", "inventory", "a:\na:\n", "a", -1, "inventory" },
        { "no inventory of this name", "other", "", "a", -1, "inventory: No such file" },
};

static void entry_is_found(void **state) {
        const struct row *row = *state;
        struct nb_inventory_node node;
        struct nb_failure f = { 0 };
        struct folder folder;
        char path[PATH_MAX], file[64];
        struct nb_inventory inventory = { .path = path };
        int r;

        folder_make(&folder);
        snprintf(path, sizeof(path), "%s/inventory", folder.path);
        snprintf(file, sizeof(file), "/%s", row->file);
        folder_put(&folder, file, row->text);
        r = nb_inventory_find(&inventory, row->node, &node, &f);
        assert_int_equal(r < 0 ? -1 : r, row->r);
        assert_int_equal(f.code, row->r < 0 ? NB_ADMIN_INPUT_MALFORMED : NB_NONE);
        if (row->r < 0)
                assert_non_null(strstr(f.detail, row->failure));
        assert_null(strstr(f.detail, "S3cret"));
        nb_inventory_done(&inventory);
        folder_remove(&folder);
}

static void values_are_read(_unused_ void **state) {
        struct nb_inventory_node node;
        struct nb_failure f = { 0 };
        struct folder folder;
        char path[PATH_MAX];
        struct nb_inventory inventory = { .path = path };

        folder_make(&folder);
        snprintf(path, sizeof(path), "%s/inventory", folder.path);
        folder_put(&folder, "/inventory",
                   "a:\n  until: 2026-12-01T00:00:00Z\n  addresses: [10.0.0.5, FD00:0::5]\n"
                   "  dnsNames: [a.example.org]\n  publicKey: |\n" KEY("    ") "b: {}\n");
        assert_int_equal(nb_inventory_find(&inventory, "a", &node, &f), 1);
        assert_int_equal(node.until, 1796083200);
        assert_int_equal(node.n_names, 3);
        assert_string_equal(node.names[0], "10.0.0.5");
        assert_string_equal(node.names[1], "fd00::5");
        assert_string_equal(node.names[2], "a.example.org");
        assert_string_equal(node.public_key, KEY(""));
        assert_int_equal(nb_inventory_find(&inventory, "b", &node, &f), 1);
        assert_int_equal(node.until, 0);
        assert_int_equal(node.n_names, 0);
        assert_string_equal(node.public_key, "");
        nb_inventory_done(&inventory);
        folder_remove(&folder);
}

/* A node that the administrator removes must not be found at the next request. */
static void change_applies_at_once(_unused_ void **state) {
        struct nb_inventory_node node;
        struct nb_failure f = { 0 };
        struct folder folder;
        char path[PATH_MAX];
        struct nb_inventory inventory = { .path = path };

        folder_make(&folder);
        snprintf(path, sizeof(path), "%s/inventory", folder.path);
        folder_put(&folder, "/inventory", "a:\n");
        assert_int_equal(nb_inventory_find(&inventory, "a", &node, &f), 1);
        assert_int_equal(nb_inventory_find(&inventory, "a", &node, &f), 1);
        folder_put(&folder, "/new", "b:\n");
        assert_int_equal(renameat(folder.fd, "new", folder.fd, "inventory"), 0);
        assert_int_equal(nb_inventory_find(&inventory, "a", &node, &f), 0);
        assert_int_equal(nb_inventory_find(&inventory, "b", &node, &f), 1);
        folder_put(&folder, "/new", "not: [a mapping\n");
        assert_int_equal(renameat(folder.fd, "new", folder.fd, "inventory"), 0);
        assert_true(nb_inventory_find(&inventory, "b", &node, &f) < 0);
        nb_inventory_done(&inventory);
        folder_remove(&folder);
}

int main(void) {
        CASES(rows, entry_is_found);
        CASE(values_are_read);
        CASE(change_applies_at_once);
        return case_run("inventory");
}
