/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/failure_json.h"
#include "systemd/log.h"

#define REMEDY_SIZE 4096

void nb_failure_put_json(const struct nb_failure *f, const char *key,
                         struct nb_json_writer *writer) {
        const struct nb_failure_info *info = nb_failure_info(f->code);
        char remedy[REMEDY_SIZE] = "", detail[sizeof(f->detail)];
        FILE *stream;
        size_t len;

        if (f->code == NB_NONE) {
                nb_json_put_string(writer, key, NULL);
                return;
        }
        stream = fmemopen(remedy, sizeof(remedy) - 1, "w");
        if (!stream) {
                writer->buffer->error = -ENOMEM;
                return;
        }
        nb_log_print_remedy(stream, f->code, 0, 0);
        (void)fclose(stream);
        len = strlen(remedy);
        if (len > 0)
                remedy[len - 1] = '\0'; /* the end of the last line */
        NB_TEXT_COPY_LINE(detail, f->detail);
        nb_json_open(writer, key, '{');
        nb_json_put_string(writer, "code", info->slug);
        nb_json_put_string(writer, "class", nb_class_name(nb_failure_class(f)));
        nb_json_put_string(writer, "messageID", info->message_id);
        nb_json_put_string(writer, "subject", info->subject);
        nb_json_put_string(writer, "detail", detail);
        /* The detail of a usage error says what to do. */
        nb_json_put_string(writer, "remedy", f->code == NB_USAGE ? NULL : remedy);
        nb_json_close(writer);
}
