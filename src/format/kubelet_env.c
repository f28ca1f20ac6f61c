/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "format/kubelet_env.h"

#define KEY "KUBELET_KUBEADM_ARGS"
#define DASHES "--"

/* Where the value of KUBELET_KUBEADM_ARGS stands in the file, without its quotes. */
struct assignment {
        const char *line;     /* NULL when there is none */
        const char *line_end; /* the newline, or the end of the file */
        const char *value;    /* "" when there is none */
        size_t value_len;
};

int nb_kubelet_env_format(const char *node_name, struct nb_buffer *ret) {
        return nb_buffer_printf(ret, "KUBELET_NODE_NAME=%s\n", node_name);
}

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

/* Whether a value ends where its line ends, as systemd.exec(5) has it for EnvironmentFile=. False also for what
 * versions of systemd read differently. */
static bool is_one_line(const char *text, const char *end) {
        char quote = '\0';

        for (; text < end; text++) {
                if (*text == '\\') {
                        if (quote == '\'' || ++text == end)
                                return false;
                } else if (*text == quote)
                        quote = '\0';
                else if (!quote && (*text == '"' || *text == '\''))
                        quote = *text;
        }
        return !quote;
}

/* Without the quotes around it. -EINVAL for escapes and for quotes in the middle: kubelet's unit splits the value at
 * blanks, and quotes would keep words together that look like two here. */
static int unquote(const char *text, const char *end, struct assignment *assignment) {
        char quote = '\0';

        while (text < end && is_blank(*text))
                text++;
        while (end > text && is_blank(end[-1]))
                end--;
        if (text < end && (*text == '"' || *text == '\''))
                quote = *text;
        if (quote) {
                if (end - text < 2 || end[-1] != quote)
                        return -EINVAL;
                text++;
                end--;
        }
        for (const char *p = text; p < end; p++)
                if (strchr("\"'\\", *p))
                        return -EINVAL;
        assignment->value = text;
        assignment->value_len = (size_t)(end - text);
        return 0;
}

static int parse_line(const char *line, const char *end, struct assignment *assignment) {
        const char *start = line, *equal, *key_end;

        while (start < end && is_blank(*start))
                start++;
        if (start == end)
                return 0;
        /* A backslash at the end goes on with the next line, in a comment too. */
        if (*start == '#' || *start == ';')
                return end[-1] == '\\' ? -EINVAL : 0;
        equal = memchr(start, '=', (size_t)(end - start));
        if (!equal)
                return end[-1] == '\\' ? -EINVAL : 0;
        if (!is_one_line(equal + 1, end))
                return -EINVAL;

        key_end = equal;
        while (key_end > start && is_blank(key_end[-1]))
                key_end--;
        if ((size_t)(key_end - start) != strlen(KEY) || memcmp(start, KEY, strlen(KEY)) != 0)
                return 0;
        if (assignment->line)
                return -EINVAL;
        assignment->line = line;
        assignment->line_end = end;
        return unquote(equal + 1, end, assignment);
}

static int find_assignment(const char *text, size_t len, struct assignment *ret_assignment) {
        struct assignment assignment = { .value = "" };
        const char *end = text + len, *line_end;
        int r;

        if (memchr(text, '\0', len) || memchr(text, '\r', len))
                return -EINVAL;
        for (const char *line = text; line < end; line = line_end + 1) {
                line_end = memchr(line, '\n', (size_t)(end - line));
                if (!line_end)
                        line_end = end;
                r = parse_line(line, line_end, &assignment);
                if (r < 0)
                        return r;
        }
        *ret_assignment = assignment;
        return 0;
}

bool nb_kubelet_argument_is_valid(const char *name, size_t name_len, const char *value) {
        if (name_len == 0 || name[0] < 'a' || name[0] > 'z')
                return false;
        for (size_t i = 0; i < name_len; i++)
                if ((name[i] < 'a' || name[i] > 'z') && (name[i] < '0' || name[i] > '9') && name[i] != '-')
                        return false;
        return !strpbrk(value, NB_KUBELET_ARGUMENT_REFUSED) && nb_text_is_printable(value, strlen(value));
}

static int check_arguments(const struct nb_kubelet_argument *arguments, size_t n_arguments) {
        for (size_t i = 0; i < n_arguments; i++) {
                if (!nb_kubelet_argument_is_valid(arguments[i].name, strlen(arguments[i].name), arguments[i].value))
                        return -EINVAL;
                for (size_t j = 0; j < i; j++)
                        if (strcmp(arguments[i].name, arguments[j].name) == 0)
                                return -EINVAL;
        }
        return 0;
}

/* kubelet takes '_' for '-' in the names of its options. */
static bool is_name(const char *text, const char *name, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (text[i] != name[i] && (text[i] != '_' || name[i] != '-'))
                        return false;
        return true;
}

static bool is_option(const char *word, size_t len, const char *name) {
        const size_t dashes_len = strlen(DASHES), name_len = strlen(name);

        if (len < dashes_len + name_len || memcmp(word, DASHES, dashes_len) != 0)
                return false;
        word += dashes_len;
        len -= dashes_len;
        return (len == name_len || word[name_len] == '=') && is_name(word, name, name_len);
}

/* The next word of a line; NULL when there is none. */
static const char *next_word(const char *text, const char *end, size_t *ret_len) {
        while (text < end && is_blank(*text))
                text++;
        *ret_len = 0;
        while (text + *ret_len < end && !is_blank(text[*ret_len]))
                (*ret_len)++;
        return *ret_len > 0 ? text : NULL;
}

static const char *find_option(const struct assignment *assignment, const char *name) {
        const char *end = assignment->value + assignment->value_len;
        size_t len;

        for (const char *word = next_word(assignment->value, end, &len); word; word = next_word(word + len, end, &len))
                if (is_option(word, len, name))
                        return word;
        return NULL;
}

/* What is being done to the arguments in a file. */
struct edit {
        const struct assignment *assignment;
        const struct nb_kubelet_argument *arguments;
        size_t n_arguments;
        const char *separator;
        bool is_changed;
        struct nb_buffer *ret;
};

static int put(struct edit *edit, const char *word, size_t len) {
        int r;

        r = nb_buffer_append_string(edit->ret, edit->separator);
        edit->separator = " ";
        return r < 0 ? r : nb_buffer_append(edit->ret, word, len);
}

static int put_argument(struct edit *edit, const struct nb_kubelet_argument *argument) {
        int r;

        r = nb_buffer_printf(edit->ret, "%s" DASHES "%s=%s", edit->separator, argument->name, argument->value);
        edit->separator = " ";
        return r;
}

static bool is_same(const struct nb_kubelet_argument *argument, const char *word, size_t len) {
        const size_t name_len = strlen(DASHES) + strlen(argument->name), value_len = strlen(argument->value);

        return len == name_len + 1 + value_len && memcmp(word + strlen(DASHES), argument->name, strlen(argument->name)) == 0 &&
               memcmp(word + name_len + 1, argument->value, value_len) == 0;
}

/* A word that stands there. The first one of an option is replaced; further ones are left out, since kubelet takes the
 * last. `ret_end`: behind it, and behind the value when that is a word of its own. */
static int edit_word(struct edit *edit, const char *word, size_t len, const char **ret_end) {
        const char *end = edit->assignment->value + edit->assignment->value_len, *value;
        size_t value_len;

        *ret_end = word + len;
        for (size_t i = 0; i < edit->n_arguments; i++) {
                const struct nb_kubelet_argument *argument = &edit->arguments[i];

                if (!is_option(word, len, argument->name))
                        continue;
                value = memchr(word, '=', len) ? NULL : next_word(*ret_end, end, &value_len);
                if (value && (value_len < strlen(DASHES) || memcmp(value, DASHES, strlen(DASHES)) != 0))
                        *ret_end = value + value_len;
                if (word != find_option(edit->assignment, argument->name)) {
                        edit->is_changed = true;
                        return 0;
                }
                if (!is_same(argument, word, len))
                        edit->is_changed = true;
                return put_argument(edit, argument);
        }
        return put(edit, word, len);
}

static int edit_arguments(struct edit *edit) {
        const char *end = edit->assignment->value + edit->assignment->value_len;
        size_t len;
        int r = 0;

        for (const char *word = next_word(edit->assignment->value, end, &len); word && r >= 0;) {
                r = edit_word(edit, word, len, &word);
                word = next_word(word, end, &len);
        }
        for (size_t i = 0; i < edit->n_arguments && r >= 0; i++) {
                const struct nb_kubelet_argument *argument = &edit->arguments[i];

                if (argument->is_kept_only || find_option(edit->assignment, argument->name))
                        continue;
                edit->is_changed = true;
                r = put_argument(edit, argument);
        }
        return r;
}

static int format_file(struct edit *edit, const char *old, size_t old_len) {
        const struct assignment *assignment = edit->assignment;
        size_t before = assignment->line ? (size_t)(assignment->line - old) : old_len;
        size_t after = assignment->line ? (size_t)(assignment->line_end - old) : old_len;
        struct nb_buffer *ret = edit->ret;
        int r;

        r = nb_buffer_append(ret, old, before);
        if (r >= 0 && before > 0 && old[before - 1] != '\n')
                r = nb_buffer_append_string(ret, "\n");
        if (r >= 0)
                r = nb_buffer_append_string(ret, KEY "=\"");
        if (r >= 0)
                r = edit_arguments(edit);
        if (r >= 0)
                r = nb_buffer_append_string(ret, "\"");
        if (r >= 0)
                r = nb_buffer_append(ret, old + after, old_len - after);
        if (r >= 0 && ret->data[ret->len - 1] != '\n')
                r = nb_buffer_append_string(ret, "\n");
        return r;
}

static bool may_have(const char *text, size_t len, const char *name) {
        const size_t name_len = strlen(name);

        for (size_t i = 0; i + name_len <= len; i++)
                if (is_name(text + i, name, name_len))
                        return true;
        return false;
}

/* Whether a file has to be read at all: one that cannot be edited is none of our business while nothing is to be in it. */
static bool is_edit_needed(const char *old, size_t old_len, const struct nb_kubelet_argument *arguments,
                           size_t n_arguments) {
        for (size_t i = 0; i < n_arguments; i++)
                if (!arguments[i].is_kept_only || may_have(old, old_len, arguments[i].name))
                        return true;
        return false;
}

int nb_kubeadm_flags_edit(const char *old, size_t old_len, const struct nb_kubelet_argument *arguments,
                          size_t n_arguments, struct nb_buffer *ret) {
        const size_t before = ret->len;
        struct assignment assignment;
        struct edit edit = { &assignment, arguments, n_arguments, "", false, ret };
        int r;

        if (!old) {
                old = "";
                old_len = 0;
        }
        r = check_arguments(arguments, n_arguments);
        if (r < 0 || !is_edit_needed(old, old_len, arguments, n_arguments))
                return r;
        r = find_assignment(old, old_len, &assignment);
        if (r < 0)
                return r;
        r = format_file(&edit, old, old_len);
        if (r < 0 || !edit.is_changed) {
                ret->len = before;
                return r < 0 ? r : 0;
        }
        return 1;
}

static bool is_word(const char *const words[], size_t n_words, const char *text, size_t len) {
        for (size_t i = 0; i < n_words; i++)
                if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
                        return true;
        return false;
}

int nb_kubeadm_flags_words(const char *text, size_t len, struct nb_buffer *ret) {
        struct assignment assignment;
        const char *end, *separator = "";
        size_t word_len;
        int r;

        r = find_assignment(text, len, &assignment);
        if (r < 0)
                return r;
        end = assignment.value + assignment.value_len;
        for (const char *word = next_word(assignment.value, end, &word_len); word && r >= 0; word = next_word(word + word_len, end, &word_len)) {
                r = nb_buffer_printf(ret, "%s%.*s", separator, (int)word_len, word);
                separator = " ";
        }
        return r;
}

static bool is_all_blank(const char *text, size_t len) {
        for (size_t i = 0; i < len; i++)
                if (!is_blank(text[i]) && text[i] != '\n')
                        return false;
        return true;
}

/* The words that stay, each behind a blank but for the first. */
static int copy_others(const struct assignment *assignment, const char *const words[], size_t n_words, struct nb_buffer *ret, size_t *ret_n_removed) {
        const char *p = assignment->value, *end = p + assignment->value_len, *separator = "";
        int r = 0;

        while (p < end && r >= 0) {
                const char *word = p;

                if (is_blank(*p)) {
                        p++;
                        continue;
                }
                while (p < end && !is_blank(*p))
                        p++;
                if (is_word(words, n_words, word, (size_t)(p - word))) {
                        (*ret_n_removed)++;
                        continue;
                }
                r = nb_buffer_printf(ret, "%s%.*s", separator, (int)(p - word), word);
                separator = " ";
        }
        return r;
}

int nb_kubeadm_flags_remove(const char *old, size_t old_len, const char *const words[], size_t n_words, struct nb_buffer *ret) {
        const size_t before = ret->len;
        struct assignment assignment;
        size_t n_removed = 0, head_len, tail_len, value_at;
        int r;

        r = find_assignment(old, old_len, &assignment);
        if (r < 0 || !assignment.line)
                return r;
        head_len = (size_t)(assignment.line - old);
        tail_len = old_len - (size_t)(assignment.line_end - old);
        r = nb_buffer_append(ret, old, head_len);
        if (r >= 0)
                r = nb_buffer_append_string(ret, KEY "=\"");
        value_at = ret->len;
        if (r >= 0)
                r = copy_others(&assignment, words, n_words, ret, &n_removed);
        if (r >= 0 && ret->len == value_at && is_all_blank(old, head_len) && is_all_blank(assignment.line_end, tail_len)) {
                ret->len = before;
                return n_removed > 0;
        }
        if (r >= 0)
                r = nb_buffer_append_string(ret, "\"");
        if (r >= 0)
                r = nb_buffer_append(ret, assignment.line_end, tail_len);
        if (r < 0 || n_removed == 0) {
                ret->len = before;
                return r;
        }
        return 1;
}
