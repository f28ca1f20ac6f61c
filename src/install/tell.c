/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"
#include "install/tell.h"
#include "os/clock.h"

static void write_file(const struct nb_teller *teller) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(NB_HANDOFF_MAX);
        _cleanup_(nb_closep) int folder_fd = -1;

        if (teller->is_silent)
                return;
        folder_fd = nb_path_open(teller->root_fd, NB_LAST_FOLDER, O_RDONLY | O_DIRECTORY);
        if (folder_fd >= 0 && nb_state_file_format(&nb_last_file, &teller->last, &text) >= 0)
                (void)nb_file_write(folder_fd, NB_LAST_NAME, 0644, text.data, text.len);
}

static void forget_failure(struct nb_last *last) {
        memset(last->code, 0, sizeof(last->code));
        memset(last->detail, 0, sizeof(last->detail));
        memset(last->fields, 0, sizeof(last->fields));
}

void nb_tell_begin(struct nb_teller *teller, int root_fd) {
        const char *invocation = getenv("INVOCATION_ID");

        *teller = (struct nb_teller){ .root_fd = root_fd };
        if (invocation)
                NB_TEXT_COPY_LINE(teller->last.invocation, invocation);
}

void nb_tell(struct nb_teller *teller, const char *state, const struct nb_failure *f) {
        struct nb_last *last;

        if (!teller)
                return;
        last = &teller->last;
        NB_TEXT_COPY_LINE(last->state, state);
        nb_time_format(time(NULL), teller->begun);
        NB_TEXT_COPY(last->since, teller->begun);
        if (f) {
                char csr[NB_FIELD_SIZE];

                /* The next start continues with this request. */
                memcpy(csr, last->fields[NB_FIELD_CSR], sizeof(csr));
                forget_failure(last);
                NB_TEXT_COPY_LINE(last->code, nb_failure_info(f->code)->slug);
                NB_TEXT_COPY_LINE(last->detail, f->detail);
                for (unsigned i = 0; i < _NB_FIELD_N; i++)
                        NB_TEXT_COPY_LINE(last->fields[i], nb_field_value((enum nb_field)i));
                if (!last->fields[NB_FIELD_CSR][0])
                        memcpy(last->fields[NB_FIELD_CSR], csr, sizeof(csr));
        }
        write_file(teller);
}

/* A time in the future cannot be true. */
static void hear_since(const char *value, char ret[static NB_RFC3339_SIZE]) {
        time_t now = time(NULL), since = (time_t)strtoll(value, NULL, 10);

        nb_time_format(since > 0 && since < now ? since : now, ret);
}

static void hear_line(struct nb_last *last, const char *line, size_t len) {
        char name[32], value[NB_FAILURE_DETAIL_MAX];
        const char *end = memchr(line, '=', len);
        enum nb_code code;

        if (!end)
                return;
        nb_text_copy_line(line, (size_t)(end - line), name, sizeof(name));
        nb_text_copy_line(end + 1, len - (size_t)(end + 1 - line), value, sizeof(value));
        code = nb_failure_find(value);
        /* An event is no failure: `setup` would exit with its status, which is 0. */
        if (!strcmp(name, NB_STATUS_CODE) && code != NB_NONE &&
            nb_failure_info(code)->class != NB_CLASS_EVENT)
                NB_TEXT_COPY_LINE(last->code, value);
        else if (!strcmp(name, NB_STATUS_DETAIL))
                NB_TEXT_COPY_LINE(last->detail, value);
        else if (!strcmp(name, NB_STATUS_SINCE))
                hear_since(value, last->since);
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                if (!strcmp(name, nb_field_name((enum nb_field)i)))
                        NB_TEXT_COPY_LINE(last->fields[i], value);
}

void nb_tell_heard(struct nb_teller *teller, const char *text) {
        const char *node = nb_field_value(NB_FIELD_NODE);
        struct nb_last *last, before;

        if (!teller)
                return;
        last = &teller->last;
        before = *last;
        forget_failure(last);
        NB_TEXT_COPY(last->since, teller->begun);
        /* The first line is the status. */
        for (const char *end = strchr(text, '\n'); end; end = strchr(end + 1, '\n'))
                hear_line(last, end + 1, strcspn(end + 1, "\n"));
        /* The remedy may be to delete this Node: not another one. */
        if (node[0] && last->fields[NB_FIELD_NODE][0])
                NB_TEXT_COPY_LINE(last->fields[NB_FIELD_NODE], node);
        if (memcmp(&before, last, sizeof(before)) != 0)
                write_file(teller);
}
