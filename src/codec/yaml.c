/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/yaml.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* An open sequence or mapping: where its next child goes, and the key that waits for its value. */
struct level {
        struct nb_yaml_node *node;
        struct nb_yaml_node **tail;
        char *key;
        unsigned key_line;
        unsigned n_keys;
};

struct builder {
        const char *origin;
        const char *data; /* what libyaml reads */
        size_t len;
        enum nb_code code;
        struct nb_failure *f;
        yaml_parser_t parser;
        bool has_parser;
        unsigned max_documents;
        unsigned n_documents;
        struct nb_yaml_node *root;      /* of the open document */
        struct nb_yaml_node *documents; /* closed ones with content, linked by `next` */
        struct nb_yaml_node **tail;     /* of this list */
        struct level levels[NB_YAML_DEPTH_MAX];
        unsigned depth;
        unsigned n_nodes;
};

static void builder_done(struct builder *builder) {
        if (builder->has_parser)
                yaml_parser_delete(&builder->parser);
        for (unsigned i = 0; i < builder->depth; i++)
                free(builder->levels[i].key);
        nb_yaml_free(builder->root);
        nb_yaml_free(builder->documents);
}

static unsigned line_of(const yaml_event_t *event) {
        size_t line = event->start_mark.line;

        return (unsigned)(line < UINT_MAX ? line + 1 : UINT_MAX);
}

static int refuse(const struct builder *builder, const yaml_event_t *event, const char *sentence) {
        return nb_failure_set(builder->f, builder->code, 0, "%s:%u: %s", builder->origin,
                              line_of(event), sentence);
}

static int refuse_more(const struct builder *builder, const yaml_event_t *event, unsigned max,
                       const char *of_what) {
        return nb_failure_set(builder->f, builder->code, 0,
                              "%s:%u: expected at most %u %s, found more", builder->origin,
                              line_of(event), max, of_what);
}

static int refuse_duplicate(const struct builder *builder, const yaml_event_t *event) {
        const char *key = (const char *)event->data.scalar.value;
        char quoted[NB_TEXT_QUOTED_SIZE];

        return nb_failure_set(
                builder->f, builder->code, 0, "%s:%u: expected each key once, found %s twice",
                builder->origin, line_of(event),
                nb_text_contains_token(key) ? "'(a token)'"
                                            : nb_text_quote(key, strlen(key), quoted));
}

/* --- The tree --- */

static struct level *innermost(struct builder *builder) {
        return builder->depth > 0 ? &builder->levels[builder->depth - 1] : NULL;
}

static bool wants_key(const struct level *level) {
        return level && level->node->type == NB_YAML_MAPPING && !level->key;
}

static int add_key(struct builder *builder, struct level *level, const yaml_event_t *event) {
        const char *text = (const char *)event->data.scalar.value;

        /* Other readers would merge another mapping here, and see keys that this one does not. */
        if (strcmp(text, "<<") == 0)
                return refuse(builder, event, "expected plain YAML, found the merge key '<<'");
        if (nb_yaml_get(level->node, text))
                return refuse_duplicate(builder, event);
        if (level->n_keys++ == NB_YAML_KEYS_MAX)
                return refuse_more(builder, event, NB_YAML_KEYS_MAX, "keys in a mapping");
        level->key = strdup(text);
        level->key_line = line_of(event);
        return level->key ? 0 : nb_failure_set_memory(builder->f);
}

static int add_node(struct builder *builder, enum nb_yaml_type type, const yaml_event_t *event,
                    struct nb_yaml_node **ret) {
        struct level *level = innermost(builder);
        struct nb_yaml_node *node;

        if (builder->n_nodes++ == NB_YAML_NODES_MAX)
                return refuse_more(builder, event, NB_YAML_NODES_MAX, "values");
        node = calloc(1, sizeof(*node));
        if (!node)
                return nb_failure_set_memory(builder->f);
        node->type = type;
        node->line = level && level->key ? level->key_line : line_of(event);
        if (level) {
                node->key = TAKE(level->key);
                *level->tail = node;
                level->tail = &node->next;
        } else
                builder->root = node;
        *ret = node;
        return 0;
}

static int add_scalar(struct builder *builder, const yaml_event_t *event) {
        const char *text = (const char *)event->data.scalar.value;
        size_t len = event->data.scalar.length;
        struct nb_yaml_node *node = NULL;
        int r;

        if (memchr(text, '\0', len))
                return refuse(builder, event, "expected text, found a NUL in it");
        if (wants_key(innermost(builder)))
                return add_key(builder, innermost(builder), event);
        r = add_node(builder, NB_YAML_SCALAR, event, &node);
        if (r < 0 || !node)
                return r;
        node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->value_len = len;
        node->value = strndup(text, len);
        return node->value ? 0 : nb_failure_set_memory(builder->f);
}

static int open_level(struct builder *builder, enum nb_yaml_type type, const yaml_event_t *event) {
        struct nb_yaml_node *node;
        int r;

        if (wants_key(innermost(builder)))
                return refuse(builder, event,
                              "expected a key that is plain text, found a list or mapping");
        if (builder->depth == NB_YAML_DEPTH_MAX)
                return refuse_more(builder, event, NB_YAML_DEPTH_MAX, "levels");
        r = add_node(builder, type, event, &node);
        if (r < 0)
                return r;
        builder->levels[builder->depth++] = (struct level){ .node = node, .tail = &node->first };
        return 0;
}

static int begin_document(struct builder *builder, const yaml_event_t *event) {
        if (builder->n_documents++ == builder->max_documents)
                return builder->max_documents == 1
                               ? refuse(builder, event, "expected one document, found a second one")
                               : refuse_more(builder, event, builder->max_documents, "documents");
        if (event->data.document_start.tag_directives.start !=
            event->data.document_start.tag_directives.end)
                return refuse(builder, event, "expected plain YAML, found a %TAG directive");
        return 0;
}

static void end_document(struct builder *builder) {
        struct nb_yaml_node *root = TAKE(builder->root);

        if (!root || nb_yaml_is_null(root)) {
                nb_yaml_free(root);
                return;
        }
        *builder->tail = root;
        builder->tail = &root->next;
}

/* Anchors, aliases and tags of a scalar, sequence or mapping. */
static int verify_plain(const struct builder *builder, const yaml_event_t *event) {
        const yaml_char_t *anchor = NULL, *tag = NULL;

        if (event->type == YAML_SCALAR_EVENT) {
                anchor = event->data.scalar.anchor;
                tag = event->data.scalar.tag;
        } else if (event->type == YAML_SEQUENCE_START_EVENT) {
                anchor = event->data.sequence_start.anchor;
                tag = event->data.sequence_start.tag;
        } else if (event->type == YAML_MAPPING_START_EVENT) {
                anchor = event->data.mapping_start.anchor;
                tag = event->data.mapping_start.tag;
        } else if (event->type == YAML_ALIAS_EVENT)
                return refuse(builder, event, "expected plain YAML, found an alias (*)");
        if (anchor)
                return refuse(builder, event, "expected plain YAML, found an anchor (&)");
        return tag ? refuse(builder, event, "expected plain YAML, found a tag (!)") : 0;
}

static int handle_event(struct builder *builder, const yaml_event_t *event) {
        int r;

        r = verify_plain(builder, event);
        if (r < 0)
                return r;
        if (event->type == YAML_DOCUMENT_START_EVENT)
                return begin_document(builder, event);
        if (event->type == YAML_DOCUMENT_END_EVENT)
                end_document(builder);
        else if (event->type == YAML_SCALAR_EVENT)
                return add_scalar(builder, event);
        else if (event->type == YAML_SEQUENCE_START_EVENT)
                return open_level(builder, NB_YAML_SEQUENCE, event);
        else if (event->type == YAML_MAPPING_START_EVENT)
                return open_level(builder, NB_YAML_MAPPING, event);
        else if (event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT)
                builder->depth--;
        return 0;
}

/* --- libyaml --- */

static int refuse_bytes(const struct builder *builder) {
        const yaml_parser_t *parser = &builder->parser;
        bool is_utf16 = builder->len >= 2 && (memcmp(builder->data, "\xff\xfe", 2) == 0 ||
                                              memcmp(builder->data, "\xfe\xff", 2) == 0);
        unsigned line = 1, column = 1;

        for (size_t i = 0; i < parser->problem_offset && i < builder->len; i++)
                if (builder->data[i] == '\n') {
                        line++;
                        column = 1;
                } else /* The other bytes of a character are 10xxxxxx. */
                        column += ((unsigned char)builder->data[i] & 0xc0) != 0x80;
        return nb_failure_set(builder->f, builder->code, 0, "%s:%u:%u: expected UTF-8 text%s%s",
                              builder->origin, line, column, is_utf16 ? ", found " : ": ",
                              is_utf16 ? "UTF-16" : parser->problem);
}

static int parse_error(const struct builder *builder) {
        const yaml_parser_t *parser = &builder->parser;
        const char *line = builder->data, *end = builder->data + builder->len, *tab;
        size_t row = parser->problem_mark.line + 1, column = parser->problem_mark.column + 1;

        if (parser->error == YAML_MEMORY_ERROR)
                return nb_failure_set_memory(builder->f);
        if (parser->error == YAML_READER_ERROR)
                return refuse_bytes(builder);
        for (size_t i = 1; i < row && line; i++) {
                line = memchr(line, '\n', (size_t)(end - line));
                line = line ? line + 1 : NULL;
        }
        /* libyaml does not say that the reason is a tab, and an editor does not show it. */
        for (tab = line; tab && tab < end && *tab == ' '; tab++)
                ;
        if (tab && tab < end && *tab == '\t')
                return nb_failure_set(builder->f, builder->code, 0,
                                      "%s:%zu:%zu: expected blanks as indentation, found a tab",
                                      builder->origin, row, (size_t)(tab - line) + 1);
        return nb_failure_set(builder->f, builder->code, 0, "%s:%zu:%zu: expected YAML: %s",
                              builder->origin, row, column,
                              parser->problem ? parser->problem : "unknown problem");
}

static int start(struct builder *builder, const char *data, size_t len) {
        /* libyaml counts it as a column of indentation, so that the second key would be refused. */
        if (len >= strlen(BYTE_ORDER_MARK) &&
            memcmp(data, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) {
                data += strlen(BYTE_ORDER_MARK);
                len -= strlen(BYTE_ORDER_MARK);
        }
        builder->data = data;
        builder->len = len;
        builder->tail = &builder->documents;
        if (!yaml_parser_initialize(&builder->parser))
                return nb_failure_set_memory(builder->f);
        builder->has_parser = true;
        /* Without this a byte order mark selects UTF-16. */
        yaml_parser_set_encoding(&builder->parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&builder->parser, (const unsigned char *)data, len);
        return 0;
}

static int next_event(struct builder *builder, yaml_event_t *ret_event) {
        return yaml_parser_parse(&builder->parser, ret_event) ? 0 : parse_error(builder);
}

static int parse(const char *origin, const char *data, size_t len, struct builder *builder,
                 struct nb_yaml_node **ret_documents) {
        bool is_end = false;
        int r;

        builder->origin = origin;
        r = start(builder, data, len);
        while (r >= 0 && !is_end) {
                yaml_event_t event;

                r = next_event(builder, &event);
                if (r < 0)
                        return r;
                is_end = event.type == YAML_STREAM_END_EVENT;
                r = handle_event(builder, &event);
                yaml_event_delete(&event);
        }
        if (r < 0)
                return r;
        *ret_documents = TAKE(builder->documents);
        return 0;
}

int nb_yaml_parse(const char *origin, const char *data, size_t len, enum nb_code code,
                  struct nb_yaml_node **ret_root, struct nb_failure *f) {
        _cleanup_(
                builder_done) struct builder builder = { .code = code, .f = f, .max_documents = 1 };

        return parse(origin, data, len, &builder, ret_root);
}

int nb_yaml_parse_stream(const char *origin, const char *data, size_t len, enum nb_code code,
                         struct nb_yaml_node **ret_documents, struct nb_failure *f) {
        _cleanup_(builder_done) struct builder builder = { .code = code,
                                                           .f = f,
                                                           .max_documents = NB_YAML_DOCUMENTS_MAX };

        return parse(origin, data, len, &builder, ret_documents);
}

/* --- One key of a foreign document --- */

static bool is_start(const yaml_event_t *event) {
        return event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
}

static bool is_end(const yaml_event_t *event) {
        return event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT;
}

enum child {
        CHILD_END,   /* there was none: the mapping is over */
        CHILD_NAMED, /* a scalar with this text */
        CHILD_OTHER,
};

/* Reads a key or a value of the top mapping, and adds it to the tree if it is wanted. */
static int read_child(struct builder *builder, const char *name, bool is_wanted,
                      enum child *ret_child) {
        unsigned depth = 0;
        int r;

        *ret_child = CHILD_OTHER;
        do {
                yaml_event_t event;

                r = next_event(builder, &event);
                if (r < 0)
                        return r;
                if (depth == 0 && is_end(&event))
                        *ret_child = CHILD_END;
                else if (is_wanted)
                        r = handle_event(builder, &event);
                if (depth == 0 && event.type == YAML_SCALAR_EVENT &&
                    event.data.scalar.length == strlen(name) &&
                    memcmp(event.data.scalar.value, name, strlen(name)) == 0)
                        *ret_child = CHILD_NAMED;
                depth += is_start(&event);
                depth -= is_end(&event) && depth > 0;
                if (r >= 0 && depth == NB_YAML_FOREIGN_DEPTH_MAX)
                        r = refuse_more(builder, &event, NB_YAML_FOREIGN_DEPTH_MAX, "levels");
                yaml_event_delete(&event);
        } while (r >= 0 && depth > 0);
        return r;
}

static int read_mapping(struct builder *builder, const char *key) {
        bool is_found = false;

        for (;;) {
                enum child child, ignored;
                int r;

                r = read_child(builder, key, false, &child);
                if (r < 0 || child == CHILD_END)
                        return r;
                if (child == CHILD_NAMED && is_found)
                        return nb_failure_set(builder->f, builder->code, 0,
                                              "%s:%zu: expected each key once, found '%s' twice",
                                              builder->origin, builder->parser.mark.line + 1, key);
                is_found = is_found || child == CHILD_NAMED;
                r = read_child(builder, key, child == CHILD_NAMED, &ignored);
                if (r < 0)
                        return r;
        }
}

int nb_yaml_parse_key(const char *origin, const char *data, size_t len, enum nb_code code,
                      const char *key, struct nb_yaml_node **ret_value, struct nb_failure *f) {
        _cleanup_(builder_done) struct builder builder = { .origin = origin, .code = code, .f = f };
        yaml_event_type_t type = YAML_NO_EVENT;
        yaml_event_t event;
        int r;

        r = start(&builder, data, len);
        /* The start of the stream and of the document come first. */
        for (unsigned i = 0; i < 3 && r >= 0 && type != YAML_STREAM_END_EVENT; i++) {
                r = next_event(&builder, &event);
                if (r < 0)
                        return r;
                type = event.type;
                yaml_event_delete(&event);
        }
        if (r >= 0 && type == YAML_MAPPING_START_EVENT)
                r = read_mapping(&builder, key);
        if (r < 0)
                return r;
        *ret_value = TAKE(builder.root);
        return 0;
}

void nb_yaml_free(struct nb_yaml_node *root) {
        while (root) {
                struct nb_yaml_node *next = root->next;

                nb_yaml_free(root->first);
                /* A kubeconfig may hold a key or a token. */
                if (root->value)
                        explicit_bzero(root->value, root->value_len);
                free(root->value);
                free(root->key);
                free(root);
                root = next;
        }
}

void nb_yaml_freep(struct nb_yaml_node **root) {
        nb_yaml_free(*root);
}

const struct nb_yaml_node *nb_yaml_get(const struct nb_yaml_node *mapping, const char *key) {
        if (!mapping || mapping->type != NB_YAML_MAPPING)
                return NULL;
        for (const struct nb_yaml_node *node = mapping->first; node; node = node->next)
                if (strcmp(node->key, key) == 0)
                        return node;
        return NULL;
}

bool nb_yaml_is_null(const struct nb_yaml_node *node) {
        static const char *const words[] = { "", "~", "null", "Null", "NULL" };

        if (!node)
                return true;
        if (node->type != NB_YAML_SCALAR || !node->is_plain)
                return false;
        for (size_t i = 0; i < N_ELEMENTS(words); i++)
                if (strcmp(node->value, words[i]) == 0)
                        return true;
        return false;
}

static bool is_number(const char *text) {
        char *end;

        if (text[strspn(text, "+-.0123456789eE")] != '\0')
                return false;
        (void)strtod(text, &end);
        return end != text && *end == '\0';
}

static bool is_boolean(const char *text) {
        return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

const char *nb_yaml_type_name(const struct nb_yaml_node *node) {
        if (nb_yaml_is_null(node))
                return "nothing";
        if (node->type != NB_YAML_SCALAR)
                return node->type == NB_YAML_SEQUENCE ? "a list" : "a mapping";
        if (node->is_plain && is_boolean(node->value))
                return "a boolean";
        return node->is_plain && is_number(node->value) ? "a number" : "a string";
}
