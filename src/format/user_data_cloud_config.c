/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "format/json.h"
#include "format/user_data_forms.h"
#include "format/yaml.h"

#define KEY "node_bootstrap"

/* What is written, and in which line that is by now. */
struct writing {
        struct nb_buffer buffer;
        unsigned line;
};

static int put(struct writing *writing, const char *text) {
        return nb_buffer_append_string(&writing->buffer, text);
}

static int put_quoted(struct writing *writing, const char *text, size_t len) {
        int r = nb_json_quote(text, len, &writing->buffer);

        return r == -EINVAL ? -E2BIG : r;
}

static int go_to_line(struct writing *writing, unsigned line) {
        int r = 0;

        for (; writing->line < line && r >= 0; writing->line++)
                r = put(writing, "\n");
        return r;
}

/* Quotes make a string of what is one already; without them a number stays a number. */
static int put_scalar(struct writing *writing, const struct nb_yaml_node *node) {
        if (nb_yaml_is_null(node))
                return put(writing, "null");
        if (strcmp(nb_yaml_type_name(node), "a string") == 0)
                return put_quoted(writing, node->value, node->value_len);
        return put(writing, node->value);
}

static int put_node(struct writing *writing, const struct nb_yaml_node *node);

static int put_children(struct writing *writing, const struct nb_yaml_node *parent) {
        int r = 0;

        for (const struct nb_yaml_node *node = parent->first; node && r >= 0; node = node->next) {
                r = go_to_line(writing, node->line);
                if (r >= 0 && node->key) {
                        r = put_quoted(writing, node->key, strlen(node->key));
                        if (r >= 0)
                                r = put(writing, ": ");
                }
                if (r >= 0)
                        r = put_node(writing, node);
                if (r >= 0 && node->next)
                        r = put(writing, ", ");
        }
        return r;
}

/* As deep as nb_yaml_parse_key() lets it be. */
static int put_node(struct writing *writing, const struct nb_yaml_node *node) {
        bool is_list = node->type == NB_YAML_SEQUENCE;
        int r;

        if (node->type == NB_YAML_SCALAR)
                return put_scalar(writing, node);
        r = put(writing, is_list ? "[" : "{");
        if (r >= 0)
                r = put_children(writing, node);
        return r < 0 ? r : put(writing, is_list ? "]" : "}");
}

static int put_document(struct writing *writing, const struct nb_yaml_node *root) {
        int r = put(writing, "{");

        if (r >= 0 && !nb_yaml_get(root, "apiVersion"))
                r = put(writing, "apiVersion: node-bootstrap/v1, ");
        if (r >= 0 && !nb_yaml_get(root, "kind"))
                r = put(writing, "kind: NodeBootstrap, ");
        if (r >= 0)
                r = put_children(writing, root);
        return r < 0 ? r : put(writing, "}\n");
}

static int write_document(const char *where, const struct nb_yaml_node *root, struct nb_secret *ret, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct writing writing = { .line = 1 };
        int r;

        r = nb_secret_init(&text, NB_USER_DATA_TEXT_MAX);
        if (r < 0)
                return nb_failure_set_memory(f);
        /* It never grows past what is there, so that nothing of it is copied about. */
        writing.buffer = (struct nb_buffer){ .data = text.data, .allocated = text.size + 1, .max = text.size };
        r = put_document(&writing, root);
        if (r < 0)
                return nb_failure_set(f, NB_METADATA_MALFORMED, E2BIG, "%s:%u: " KEY ": expected less than %d KiB of it, found more", where, root->line,
                                      NB_USER_DATA_TEXT_MAX / 1024);
        return nb_user_data_copy(writing.buffer.data, writing.buffer.len, ret) < 0 ? nb_failure_set_memory(f) : 0;
}

int nb_user_data_take_cloud_config(const char *where, const char *data, size_t len, struct nb_secret *ret_document, struct nb_failure *f) {
        _cleanup_(nb_yaml_freep) struct nb_yaml_node *root = NULL;
        int r;

        /* Most are for cloud-init alone, and nobody reads them here. */
        if (!nb_user_data_mentions(data, len, KEY))
                return 0;
        r = nb_yaml_parse_key(where, data, len, NB_METADATA_MALFORMED, KEY, &root, f);
        if (r < 0 || !root)
                return r;
        if (nb_yaml_is_null(root))
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL, "%s:%u: " KEY ": expected a mapping, found nothing; the keys below it have to be indented",
                                      where, root->line);
        if (root->type != NB_YAML_MAPPING)
                return nb_failure_set(f, NB_METADATA_MALFORMED, EINVAL, "%s:%u: " KEY ": expected a mapping, found %s", where, root->line,
                                      nb_yaml_type_name(root));
        r = write_document(where, root, ret_document, f);
        return r < 0 ? r : 1;
}
