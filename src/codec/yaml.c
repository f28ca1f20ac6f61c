/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "base/macro.h"
#include "base/text.h"
#include "codec/yaml.h"

struct reader {
        const char *origin;
        const char *data; /* what libyaml reads */
        size_t len;
        enum nb_code code;
        struct nb_failure *f;
        int r; /* the first failure; after it, every event is YAML_NO_EVENT */
        yaml_parser_t parser;
        yaml_event_t event; /* the current one */
        unsigned n_nodes;
        struct nb_yaml_node *root; /* what was read so far */
};

static void reader_done(struct reader *reader) {
        yaml_event_delete(&reader->event);
        yaml_parser_delete(&reader->parser);
        nb_yaml_free(reader->root);
}

static unsigned current_line(const struct reader *reader) {
        return (unsigned)reader->event.start_mark.line + 1;
}

static void refuse_document(struct reader *reader, const char *expected, const char *found) {
        reader->r = nb_failure_set(reader->f, reader->code, 0, "%s:%u: expected %s, found %s",
                                   reader->origin, current_line(reader), expected, found);
}

static void refuse_more(struct reader *reader, unsigned max, const char *of_what) {
        reader->r = nb_failure_set(reader->f, reader->code, 0,
                                   "%s:%u: expected at most %u %s, found more", reader->origin,
                                   current_line(reader), max, of_what);
}

static void refuse_duplicate(struct reader *reader, const char *key) {
        char quoted[NB_TEXT_QUOTED_SIZE];

        reader->r = nb_failure_set(reader->f, reader->code, 0,
                                   "%s:%u: expected each key once, found one twice (%s)",
                                   reader->origin, current_line(reader),
                                   nb_text_quote_value(key, strlen(key), quoted));
}

/* --- libyaml --- */

static int refuse_bytes(const struct reader *reader) {
        size_t offset = reader->parser.problem_offset, line = 1;

        for (size_t i = 0; i < offset && i < reader->len; i++)
                line += reader->data[i] == '\n';
        return nb_failure_set(reader->f, reader->code, 0, "%s:%zu: expected UTF-8 text: %s",
                              reader->origin, line, reader->parser.problem);
}

static int refuse_syntax(const struct reader *reader) {
        const yaml_parser_t *parser = &reader->parser;
        const char *line = reader->data, *end = reader->data + reader->len,
                   *problem = parser->problem ? parser->problem : "unknown problem";
        size_t row = parser->problem_mark.line, column = parser->problem_mark.column, n_blanks = 0;

        if (parser->error == YAML_MEMORY_ERROR)
                return nb_failure_set_memory(reader->f);
        if (parser->error == YAML_READER_ERROR)
                return refuse_bytes(reader);
        for (size_t i = 0; i < row; i++) {
                const char *newline = memchr(line, '\n', (size_t)(end - line));

                line = newline ? newline + 1 : end;
        }
        for (; line < end && *line == ' '; line++)
                n_blanks++;
        /* libyaml does not say that the reason is a tab, and an editor does not show it. */
        if (line < end && *line == '\t') {
                column = n_blanks;
                problem = "found a tab in the indentation";
        }
        return nb_failure_set(reader->f, reader->code, 0, "%s:%zu:%zu: expected YAML: %s",
                              reader->origin, row + 1, column + 1, problem);
}

static void next_event(struct reader *reader) {
        yaml_event_delete(&reader->event);
        if (reader->r >= 0 && !yaml_parser_parse(&reader->parser, &reader->event))
                reader->r = refuse_syntax(reader);
}

/* Reads up to the first document. */
static void start_parser(struct reader *reader) {
        static const char mark[] = "\xef\xbb\xbf";

        /* libyaml counts a byte order mark as a column of indentation, and would refuse the second
         * key. */
        if (reader->len >= strlen(mark) && memcmp(reader->data, mark, strlen(mark)) == 0) {
                reader->data += strlen(mark);
                reader->len -= strlen(mark);
        }
        if (!yaml_parser_initialize(&reader->parser)) {
                reader->r = nb_failure_set_memory(reader->f);
                return;
        }
        /* Without this a byte order mark selects UTF-16. */
        yaml_parser_set_encoding(&reader->parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&reader->parser, (const unsigned char *)reader->data,
                                     reader->len);
        next_event(reader); /* the start of the stream */
        next_event(reader);
}

/* --- Values: the current event is their first one on entry, and their last one on return --- */

static bool is_start(const yaml_event_t *event) {
        return event->type == YAML_SEQUENCE_START_EVENT || event->type == YAML_MAPPING_START_EVENT;
}

/* Whether a sequence or mapping ends; also true after a failure. */
static bool is_end(const yaml_event_t *event) {
        return event->type == YAML_SEQUENCE_END_EVENT || event->type == YAML_MAPPING_END_EVENT ||
               event->type == YAML_NO_EVENT;
}

static void verify_plain(struct reader *reader) {
        const yaml_event_t *event = &reader->event;
        const char *found = NULL;

        /* The structs of all kinds of values begin with the members `anchor` and `tag`. */
        if (event->type == YAML_ALIAS_EVENT)
                found = "an alias (*)";
        else if (event->data.scalar.anchor)
                found = "an anchor (&)";
        else if (event->data.scalar.tag)
                found = "a tag (!)";
        if (found)
                refuse_document(reader, "plain YAML", found);
}

static char *read_text(struct reader *reader, size_t *ret_len) {
        const char *text = (const char *)reader->event.data.scalar.value;
        size_t len = reader->event.data.scalar.length;
        char *copy;

        if (memchr(text, '\0', len)) {
                refuse_document(reader, "text", "a NUL in it");
                return NULL;
        }
        copy = strndup(text, len);
        *ret_len = len;
        if (!copy)
                reader->r = nb_failure_set_memory(reader->f);
        return copy;
}

static char *read_key(struct reader *reader, const struct nb_yaml_node *mapping) {
        char *key;
        size_t len;

        verify_plain(reader);
        if (reader->event.type != YAML_SCALAR_EVENT)
                refuse_document(reader, "a key that is plain text", "a list or mapping");
        if (reader->r < 0)
                return NULL;
        key = read_text(reader, &len);
        /* Other readers would merge another mapping here, and see keys that this reader does not
         * see. */
        if (key && strcmp(key, "<<") == 0)
                refuse_document(reader, "plain YAML", "the merge key '<<'");
        else if (key && nb_yaml_get(mapping, key))
                refuse_duplicate(reader, key);
        return key;
}

static void read_value(struct reader *reader, unsigned depth, struct nb_yaml_node **ret);

static void read_children(struct reader *reader, unsigned depth, struct nb_yaml_node *parent) {
        struct nb_yaml_node **child = &parent->first;

        next_event(reader);
        for (unsigned n = 0; !is_end(&reader->event); n++) {
                _cleanup_(nb_freep) char *key = NULL;
                unsigned line = current_line(reader);

                if (parent->type == NB_YAML_MAPPING) {
                        if (n == NB_YAML_KEYS_MAX)
                                refuse_more(reader, n, "keys in a mapping");
                        else
                                key = read_key(reader, parent);
                        next_event(reader);
                }
                read_value(reader, depth, child);
                if (!*child)
                        return;
                (*child)->key = TAKE(key);
                (*child)->line = line;
                child = &(*child)->next;
                next_event(reader);
        }
}

/* *ret belongs to the tree even after a failure. */
static void read_value(struct reader *reader, unsigned depth, struct nb_yaml_node **ret) {
        const yaml_event_t *event = &reader->event;
        struct nb_yaml_node *node;

        verify_plain(reader);
        if (depth == NB_YAML_DEPTH_MAX && is_start(event))
                refuse_more(reader, depth, "levels");
        if (reader->n_nodes++ == NB_YAML_NODES_MAX)
                refuse_more(reader, NB_YAML_NODES_MAX, "values");
        if (reader->r < 0)
                return;
        node = *ret = calloc(1, sizeof(*node));
        if (!node) {
                reader->r = nb_failure_set_memory(reader->f);
                return;
        }
        node->line = current_line(reader);
        if (is_start(event)) {
                node->type = event->type == YAML_MAPPING_START_EVENT ? NB_YAML_MAPPING
                                                                     : NB_YAML_SEQUENCE;
                read_children(reader, depth + 1, node);
                return;
        }
        node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->value = read_text(reader, &node->value_len);
}

static void skip_value(struct reader *reader) {
        for (unsigned depth = is_start(&reader->event); depth > 0 && reader->r >= 0;) {
                if (depth == NB_YAML_FOREIGN_DEPTH_MAX)
                        refuse_more(reader, depth, "levels");
                next_event(reader);
                depth += is_start(&reader->event);
                depth -= is_end(&reader->event);
        }
}

/* --- Documents --- */

/* On entry, the current event begins the document; on return, it is the event after the
 * document. */
static void read_document(struct reader *reader, struct nb_yaml_node **ret) {
        if (reader->event.data.document_start.tag_directives.start !=
            reader->event.data.document_start.tag_directives.end)
                refuse_document(reader, "plain YAML", "a %TAG directive");
        next_event(reader);
        read_value(reader, 0, ret);
        next_event(reader);
        next_event(reader);
        if (reader->r >= 0 && nb_yaml_is_null(*ret)) {
                nb_yaml_free(*ret);
                *ret = NULL;
        }
}

int nb_yaml_parse(const char *origin, const char *data, size_t len, enum nb_code code,
                  unsigned max_documents, struct nb_yaml_node **ret_documents,
                  struct nb_failure *f) {
        _cleanup_(reader_done) struct reader reader = {
                .origin = origin, .data = data, .len = len, .code = code, .f = f
        };
        struct nb_yaml_node **next = &reader.root;

        start_parser(&reader);
        for (unsigned n = 0; reader.r >= 0 && reader.event.type != YAML_STREAM_END_EVENT; n++) {
                if (n < max_documents)
                        read_document(&reader, next);
                else if (n == 1)
                        refuse_document(&reader, "one document", "a second one");
                else
                        refuse_more(&reader, n, "documents");
                if (*next)
                        next = &(*next)->next;
        }
        if (reader.r < 0)
                return reader.r;
        *ret_documents = TAKE(reader.root);
        return 0;
}

static bool is_text(const yaml_event_t *event, const char *text) {
        return event->type == YAML_SCALAR_EVENT && event->data.scalar.length == strlen(text) &&
               memcmp(event->data.scalar.value, text, strlen(text)) == 0;
}

int nb_yaml_parse_key(const char *origin, const char *data, size_t len, enum nb_code code,
                      const char *key, struct nb_yaml_node **ret_value, struct nb_failure *f) {
        _cleanup_(reader_done) struct reader reader = {
                .origin = origin, .data = data, .len = len, .code = code, .f = f
        };
        const yaml_event_t *event = &reader.event;

        start_parser(&reader);
        if (event->type == YAML_DOCUMENT_START_EVENT)
                next_event(&reader);
        if (event->type != YAML_MAPPING_START_EVENT)
                return reader.r;
        for (next_event(&reader); !is_end(event); next_event(&reader)) {
                bool is_wanted = is_text(event, key);

                if (is_wanted && reader.root)
                        refuse_duplicate(&reader, key);
                skip_value(&reader);
                next_event(&reader);
                if (is_wanted)
                        read_value(&reader, 0, &reader.root);
                else
                        skip_value(&reader);
        }
        if (reader.r < 0)
                return reader.r;
        *ret_value = TAKE(reader.root);
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

bool nb_yaml_is_empty(const struct nb_yaml_node *node) {
        if (nb_yaml_is_null(node))
                return true;
        return node->type == NB_YAML_SCALAR ? node->value_len == 0 : !node->first;
}

const char *nb_yaml_text(const struct nb_yaml_node *mapping, const char *key) {
        const struct nb_yaml_node *node = nb_yaml_get(mapping, key);

        return !nb_yaml_is_empty(node) && node->type == NB_YAML_SCALAR ? node->value : NULL;
}

static bool is_number(const char *text) {
        char *end;

        if (text[strspn(text, "+-.0123456789eE")] != '\0')
                return false;
        (void)strtod(text, &end);
        return end != text && *end == '\0';
}

const char *nb_yaml_type_name(const struct nb_yaml_node *node) {
        if (nb_yaml_is_null(node))
                return "nothing";
        if (node->type != NB_YAML_SCALAR)
                return node->type == NB_YAML_SEQUENCE ? "a list" : "a mapping";
        if (node->is_plain &&
            (strcasecmp(node->value, "true") == 0 || strcasecmp(node->value, "false") == 0))
                return "a boolean";
        return node->is_plain && is_number(node->value) ? "a number" : "a string";
}

const char *nb_yaml_describe(const struct nb_yaml_node *node,
                             char ret[static NB_TEXT_QUOTED_SIZE]) {
        return nb_yaml_is_empty(node) || node->type != NB_YAML_SCALAR
                       ? nb_yaml_type_name(node)
                       : nb_text_quote_value(node->value, node->value_len, ret);
}
