/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <yaml.h>

#include "base/macro.h"
#include "base/text.h"
#include "format/k3s_token.h"
#include "format/yaml.h"

#define BYTE_ORDER_MARK "\xef\xbb\xbf"

/* A sequence or mapping that is open: where its next child goes, and the key that waits for its value. */
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
        unsigned max_documents;
        unsigned n_documents;
        struct nb_yaml_node *root;      /* of the document that is open */
        struct nb_yaml_node *documents; /* that are closed and have content, linked by `next` */
        struct nb_yaml_node **tail;     /* of this list */
        struct level levels[NB_YAML_DEPTH_MAX];
        unsigned depth;
        unsigned n_nodes;
};

static void builder_done(struct builder *builder) {
        for (unsigned i = 0; i < builder->depth; i++)
                free(builder->levels[i].key);
        nb_yaml_free(builder->root);
        nb_yaml_free(builder->documents);
}

static unsigned line_of(const yaml_mark_t *mark) {
        return (unsigned)(mark->line < UINT_MAX ? mark->line + 1 : UINT_MAX);
}

static int refuse(const struct builder *builder, unsigned line, const char *sentence) {
        return nb_failure_set(builder->f, builder->code, 0, "%s:%u: %s", builder->origin, line, sentence);
}

static bool has_child(const struct level *level, const char *key) {
        return nb_yaml_get(level->node, key) != NULL;
}

/* A scalar where a mapping expects a key. */
static int take_key(struct builder *builder, struct level *level, const yaml_event_t *event) {
        const char *text = (const char *)event->data.scalar.value;
        unsigned line = line_of(&event->start_mark);
        char quoted[NB_TEXT_QUOTED_SIZE];

        /* Other readers of the same file would merge another mapping here, and see keys that this one does not see. */
        if (strcmp(text, "<<") == 0)
                return refuse(builder, line, "expected plain YAML, found the merge key '<<'");
        if (has_child(level, text))
                return nb_failure_set(builder->f, builder->code, 0,
                                      "%s:%u: expected each key once, found %s twice", builder->origin, line,
                                      nb_any_token_may_stand_in(text) ? "'(a token)'" : nb_text_quote(text, strlen(text), quoted));
        if (level->n_keys++ == NB_YAML_KEYS_MAX)
                return nb_failure_set(builder->f, builder->code, 0,
                                      "%s:%u: expected at most %d keys in a mapping, found more", builder->origin, line,
                                      NB_YAML_KEYS_MAX);
        level->key = strdup(text);
        level->key_line = line;
        return level->key ? 0 : nb_failure_set_memory(builder->f);
}

static int check_room(const struct builder *builder, unsigned line) {
        if (builder->n_nodes < NB_YAML_NODES_MAX)
                return 0;
        return nb_failure_set(builder->f, builder->code, 0, "%s:%u: expected at most %d values, found more",
                              builder->origin, line, NB_YAML_NODES_MAX);
}

/* NULL when memory ran out. */
static struct nb_yaml_node *add_node(struct builder *builder, enum nb_yaml_type type, unsigned line) {
        struct level *level = builder->depth > 0 ? &builder->levels[builder->depth - 1] : NULL;
        struct nb_yaml_node *node = calloc(1, sizeof(*node));

        if (!node)
                return NULL;
        node->type = type;
        node->line = level && level->key ? level->key_line : line;
        builder->n_nodes++;
        if (level) {
                node->key = TAKE(level->key);
                *level->tail = node;
                level->tail = &node->next;
        } else
                builder->root = node;
        return node;
}

static int add_scalar(struct builder *builder, const yaml_event_t *event) {
        struct level *level = builder->depth > 0 ? &builder->levels[builder->depth - 1] : NULL;
        const char *text = (const char *)event->data.scalar.value;
        size_t len = event->data.scalar.length;
        unsigned line = line_of(&event->start_mark);
        struct nb_yaml_node *node;
        int r;

        if (memchr(text, '\0', len))
                return refuse(builder, line, "expected text, found a NUL in it");
        if (level && level->node->type == NB_YAML_MAPPING && !level->key)
                return take_key(builder, level, event);
        r = check_room(builder, line);
        if (r < 0)
                return r;
        node = add_node(builder, NB_YAML_SCALAR, line);
        if (!node)
                return nb_failure_set_memory(builder->f);
        node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        node->value_len = len;
        node->value = strndup(text, len);
        return node->value ? 0 : nb_failure_set_memory(builder->f);
}

static int open_level(struct builder *builder, enum nb_yaml_type type, const yaml_event_t *event) {
        struct level *level = builder->depth > 0 ? &builder->levels[builder->depth - 1] : NULL;
        unsigned line = line_of(&event->start_mark);
        struct nb_yaml_node *node;
        int r;

        if (level && level->node->type == NB_YAML_MAPPING && !level->key)
                return refuse(builder, line, "expected a key that is plain text, found a list or mapping");
        if (builder->depth == NB_YAML_DEPTH_MAX)
                return nb_failure_set(builder->f, builder->code, 0, "%s:%u: expected at most %d levels, found more",
                                      builder->origin, line, NB_YAML_DEPTH_MAX);
        r = check_room(builder, line);
        if (r < 0)
                return r;
        node = add_node(builder, type, line);
        if (!node)
                return nb_failure_set_memory(builder->f);
        builder->levels[builder->depth++] = (struct level){ .node = node, .tail = &node->first };
        return 0;
}

static int check_properties(const struct builder *builder, const yaml_event_t *event, const yaml_char_t *anchor,
                            const yaml_char_t *tag) {
        if (anchor)
                return refuse(builder, line_of(&event->start_mark), "expected plain YAML, found an anchor (&)");
        if (tag)
                return refuse(builder, line_of(&event->start_mark), "expected plain YAML, found a tag (!)");
        return 0;
}

static int handle_start(struct builder *builder, enum nb_yaml_type type, const yaml_event_t *event,
                        const yaml_char_t *anchor, const yaml_char_t *tag) {
        int r;

        r = check_properties(builder, event, anchor, tag);
        return r < 0 ? r : open_level(builder, type, event);
}

static int handle_document(struct builder *builder, const yaml_event_t *event) {
        unsigned line = line_of(&event->start_mark);

        if (builder->n_documents++ == builder->max_documents) {
                if (builder->max_documents == 1)
                        return refuse(builder, line, "expected one document, found a second one");
                return nb_failure_set(builder->f, builder->code, 0, "%s:%u: expected at most %u documents, found more",
                                      builder->origin, line, builder->max_documents);
        }
        if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
                return refuse(builder, line, "expected plain YAML, found a %TAG directive");
        return 0;
}

static int handle_document_end(struct builder *builder) {
        struct nb_yaml_node *root = TAKE(builder->root);

        if (!root || nb_yaml_is_null(root)) {
                nb_yaml_free(root);
                return 0;
        }
        *builder->tail = root;
        builder->tail = &root->next;
        return 0;
}

static int handle_event(struct builder *builder, const yaml_event_t *event) {
        int r;

        switch (event->type) {
        case YAML_DOCUMENT_START_EVENT:
                return handle_document(builder, event);
        case YAML_DOCUMENT_END_EVENT:
                return handle_document_end(builder);
        case YAML_ALIAS_EVENT:
                return refuse(builder, line_of(&event->start_mark), "expected plain YAML, found an alias (*)");
        case YAML_SCALAR_EVENT:
                r = check_properties(builder, event, event->data.scalar.anchor, event->data.scalar.tag);
                return r < 0 ? r : add_scalar(builder, event);
        case YAML_SEQUENCE_START_EVENT:
                return handle_start(builder, NB_YAML_SEQUENCE, event, event->data.sequence_start.anchor,
                                    event->data.sequence_start.tag);
        case YAML_MAPPING_START_EVENT:
                return handle_start(builder, NB_YAML_MAPPING, event, event->data.mapping_start.anchor,
                                    event->data.mapping_start.tag);
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                assert(builder->depth > 0);
                builder->depth--;
                return 0;
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        default:
                return 0;
        }
}

/* --- What libyaml stumbled over, in the words of who looks at it in an editor --- */

struct place {
        const char *line, *at, *end; /* in the document; `end` that of the line */
        unsigned row, column;        /* both from 1, the column in characters */
};

static bool is_line_end(char c) {
        return c == '\n' || c == '\r';
}

static bool is_beginning_of_character(char c) {
        return ((unsigned char)c & 0xc0) != 0x80;
}

static struct place find_place(const struct builder *builder, size_t offset) {
        const char *end = builder->data + builder->len;
        struct place place = { .line = builder->data, .row = 1, .column = 1 };

        place.at = builder->data + (offset < builder->len ? offset : builder->len);
        for (const char *p = builder->data; p < place.at; p++)
                if (is_line_end(*p) && !(*p == '\r' && p + 1 < end && p[1] == '\n')) {
                        place.line = p + 1;
                        place.row++;
                }
        for (const char *p = place.line; p < place.at; p++)
                place.column += is_beginning_of_character(*p);
        for (place.end = place.at; place.end < end && !is_line_end(*place.end); place.end++)
                ;
        return place;
}

/* libyaml counts characters. */
static size_t offset_of(const struct builder *builder, const yaml_mark_t *mark) {
        size_t offset = 0, n = 0;

        for (; offset < builder->len; offset++)
                if (is_beginning_of_character(builder->data[offset]) && n++ == mark->index)
                        break;
        return offset;
}

/* What an editor does not show; NULL when it is none of that. Moves to where it stands. */
static const char *find_invisible(const struct builder *builder, struct place *place) {
        const char *blank = place->line, *mark;

        while (blank < place->end && *blank == ' ')
                blank++;
        if (blank < place->end && *blank == '\t') {
                *place = find_place(builder, (size_t)(blank - builder->data));
                return "expected blanks as indentation, found a tab";
        }
        mark = memmem(place->line, (size_t)(place->end - place->line), BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK));
        if (!mark)
                return NULL;
        *place = find_place(builder, (size_t)(mark - builder->data));
        return "expected YAML, found a byte order mark (U+FEFF) that is not at the beginning of the document";
}

static int refuse_at(const struct builder *builder, const struct place *place, const char *sentence, const char *problem) {
        return nb_failure_set(builder->f, builder->code, 0, "%s:%u:%u: %s%s", builder->origin, place->row, place->column, sentence, problem);
}

static int parse_error(const struct builder *builder, const yaml_parser_t *parser) {
        const char *problem = parser->problem ? parser->problem : "unknown problem", *invisible;
        struct place place;

        if (parser->error == YAML_MEMORY_ERROR)
                return nb_failure_set_memory(builder->f);
        if (parser->error == YAML_READER_ERROR) {
                place = find_place(builder, parser->problem_offset);
                if (builder->len >= 2 && (memcmp(builder->data, "\xff\xfe", 2) == 0 || memcmp(builder->data, "\xfe\xff", 2) == 0))
                        return refuse_at(builder, &place, "expected UTF-8 text, found UTF-16", "");
                return refuse_at(builder, &place, "expected UTF-8 text: ", problem);
        }
        place = find_place(builder, offset_of(builder, &parser->problem_mark));
        invisible = find_invisible(builder, &place);
        return invisible ? refuse_at(builder, &place, invisible, "") : refuse_at(builder, &place, "expected YAML: ", problem);
}

/* 0 or -ENOMEM. */
static int start(struct builder *builder, yaml_parser_t *parser, const char *data, size_t len) {
        /* libyaml takes it for one column of indentation, so that no second key would follow the first. */
        if (len >= strlen(BYTE_ORDER_MARK) && memcmp(data, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) {
                data += strlen(BYTE_ORDER_MARK);
                len -= strlen(BYTE_ORDER_MARK);
        }
        if (!yaml_parser_initialize(parser))
                return nb_failure_set_memory(builder->f);
        builder->data = data;
        builder->len = len;
        /* Without this a byte order mark makes it UTF-16. */
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(parser, (const unsigned char *)data, len);
        return 0;
}

static int run(struct builder *builder, yaml_parser_t *parser) {
        bool is_end = false;
        int r = 0;

        while (!is_end && r >= 0) {
                yaml_event_t event;

                if (!yaml_parser_parse(parser, &event))
                        return parse_error(builder, parser);
                is_end = event.type == YAML_STREAM_END_EVENT;
                r = handle_event(builder, &event);
                yaml_event_delete(&event);
        }
        return r;
}

static int parse(const char *origin, const char *data, size_t len, enum nb_code code, unsigned max_documents,
                 struct nb_yaml_node **ret_documents, struct nb_failure *f) {
        _cleanup_(builder_done) struct builder builder = { .origin = origin, .code = code, .f = f, .max_documents = max_documents };
        yaml_parser_t parser;
        int r;

        builder.tail = &builder.documents;
        r = start(&builder, &parser, data, len);
        if (r < 0)
                return r;
        r = run(&builder, &parser);
        yaml_parser_delete(&parser);
        if (r < 0)
                return r;
        *ret_documents = TAKE(builder.documents);
        return 0;
}

int nb_yaml_parse(const char *origin, const char *data, size_t len, enum nb_code code,
                  struct nb_yaml_node **ret_root, struct nb_failure *f) {
        return parse(origin, data, len, code, 1, ret_root, f);
}

int nb_yaml_parse_stream(const char *origin, const char *data, size_t len, enum nb_code code,
                         struct nb_yaml_node **ret_documents, struct nb_failure *f) {
        return parse(origin, data, len, code, NB_YAML_DOCUMENTS_MAX, ret_documents, f);
}

/* --- One key of somebody else's document --- */

struct finder {
        struct builder *builder;
        const char *key;
        unsigned depth;  /* of what is open, the mapping at the top included */
        bool is_mapping; /* what is at the top */
        bool is_value;   /* right below it a value comes next, and no key */
        bool is_wanted;  /* it is the one */
        bool is_found;
        bool is_over;
};

/* What an event does to the depth; -2 for those that are no node. */
static int depth_change(const yaml_event_t *event) {
        switch (event->type) {
        case YAML_SEQUENCE_START_EVENT:
        case YAML_MAPPING_START_EVENT:
                return 1;
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                return -1;
        case YAML_SCALAR_EVENT:
        case YAML_ALIAS_EVENT:
                return 0;
        case YAML_NO_EVENT:
        case YAML_STREAM_START_EVENT:
        case YAML_STREAM_END_EVENT:
        case YAML_DOCUMENT_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
        default:
                return -2;
        }
}

static bool is_key(const struct finder *finder, const yaml_event_t *event) {
        return event->type == YAML_SCALAR_EVENT && event->data.scalar.length == strlen(finder->key) &&
               memcmp(event->data.scalar.value, finder->key, event->data.scalar.length) == 0;
}

/* A key or value right below the top is complete. */
static int end_child(struct finder *finder, const yaml_event_t *event) {
        bool is_wanted = !finder->is_value && is_key(finder, event);

        finder->is_value = !finder->is_value;
        finder->is_wanted = is_wanted;
        if (is_wanted && finder->is_found)
                return nb_failure_set(finder->builder->f, finder->builder->code, 0, "%s:%u: expected each key once, found '%s' twice",
                                      finder->builder->origin, line_of(&event->start_mark), finder->key);
        finder->is_found = finder->is_found || is_wanted;
        return 0;
}

static int find_event(struct finder *finder, const yaml_event_t *event) {
        int change = depth_change(event), r = 0;

        if (change == -2) {
                finder->is_over = event->type == YAML_DOCUMENT_END_EVENT || event->type == YAML_STREAM_END_EVENT;
                return 0;
        }
        if (change < 0)
                finder->depth--;
        else if (finder->depth == 0)
                finder->is_mapping = event->type == YAML_MAPPING_START_EVENT;
        if (finder->is_wanted)
                r = handle_event(finder->builder, event);
        if (r >= 0 && finder->depth == 1 && finder->is_mapping && change <= 0)
                r = end_child(finder, event);
        if (change > 0 && finder->depth++ == NB_YAML_FOREIGN_DEPTH_MAX && r >= 0)
                r = nb_failure_set(finder->builder->f, finder->builder->code, 0, "%s:%u: expected at most %d levels, found more",
                                   finder->builder->origin, line_of(&event->start_mark), NB_YAML_FOREIGN_DEPTH_MAX);
        return r;
}

int nb_yaml_parse_key(const char *origin, const char *data, size_t len, enum nb_code code, const char *key,
                      struct nb_yaml_node **ret_value, struct nb_failure *f) {
        _cleanup_(builder_done) struct builder builder = { .origin = origin, .code = code, .f = f };
        struct finder finder = { .builder = &builder, .key = key };
        yaml_parser_t parser;
        int r;

        r = start(&builder, &parser, data, len);
        if (r < 0)
                return r;
        while (!finder.is_over && r >= 0) {
                yaml_event_t event;

                if (yaml_parser_parse(&parser, &event)) {
                        r = find_event(&finder, &event);
                        yaml_event_delete(&event);
                } else
                        r = parse_error(&builder, &parser);
        }
        yaml_parser_delete(&parser);
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

static const char *skip_digits(const char *text) {
        return text + strspn(text, "0123456789");
}

static bool is_number(const char *text) {
        const char *p = text + strspn(text, "+-"), *whole = p, *fraction;

        if (p - text > 1)
                return false;
        p = skip_digits(p);
        fraction = *p == '.' ? p + 1 : p;
        if (p == whole && skip_digits(fraction) == fraction)
                return false;
        p = skip_digits(fraction);
        if (*p == 'e' || *p == 'E') {
                const char *exponent = p + 1 + (p[1] == '+' || p[1] == '-');

                p = skip_digits(exponent);
                if (p == exponent)
                        return false;
        }
        return *p == '\0';
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
