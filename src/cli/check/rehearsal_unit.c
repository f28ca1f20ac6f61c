/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <string.h>

#include "base/macro.h"
#include "cli/check/rehearsal_unit.h"

#define BLANKS " \t\r"
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* systemd skips it */

/* --- What is taken from the service --- */

/* Specifiers of systemd.unit(5) for the name of the unit. */
static void put_line(const char *line, size_t len, struct nb_buffer *ret_text) {
        static const char *const values[] = {
                ['I'] = "",
                ['J'] = "bootstrap",
                ['N'] = "node-bootstrap",
                ['P'] = "node/bootstrap",
                ['f'] = "/node/bootstrap",
                ['i'] = "",
                ['j'] = "bootstrap",
                ['n'] = "node-bootstrap.service",
                ['p'] = "node-bootstrap",
        };

        for (size_t i = 0; i < len; i++) {
                unsigned char next = i + 1 < len ? (unsigned char)line[i + 1] : 0;
                size_t n = line[i] == '%' && next ? 2 : 1;

                if (n == 2 && next < N_ELEMENTS(values) && values[next])
                        nb_buffer_append_string(ret_text, values[next]);
                else
                        nb_buffer_append(ret_text, line + i, n);
                i += n - 1;
        }
        nb_buffer_append_string(ret_text, "\n");
}

static bool begins_with(const char *line, size_t len, const char *word) {
        return len >= strlen(word) && !memcmp(line, word, strlen(word));
}

void nb_rehearsal_copy(const char *text, size_t len, struct nb_buffer *ret_text) {
        bool is_unit = false, is_wanted = false, is_inside = false; /* a line that is continued */
        const char *end = text + len;

        if (begins_with(text, len, BYTE_ORDER_MARK))
                text += strlen(BYTE_ORDER_MARK);
        while (text < end) {
                const char *newline = memchr(text, '\n', (size_t)(end - text)), *line = text;
                size_t n = (size_t)((newline ? newline : end) - line), backslashes = 0;

                text = newline ? newline + 1 : end;
                while (n > 0 && strchr(BLANKS, line[n - 1]))
                        n--;
                for (; n > 0 && strchr(BLANKS, *line); n--)
                        line++;
                /* systemd skips a comment even where a line is continued. */
                if (n > 0 && (*line == '#' || *line == ';'))
                        continue;
                if (!is_inside && n > 0 && *line == '[') {
                        is_unit = begins_with(line, n, "[Unit]");
                        is_wanted = is_unit || begins_with(line, n, "[Service]");
                } else if (!is_inside && is_unit) {
                        is_wanted = begins_with(line, n, "Condition") ||
                                    begins_with(line, n, "Assert");
                }
                while (backslashes < n && line[n - 1 - backslashes] == '\\')
                        backslashes++;
                is_inside = backslashes % 2 == 1;
                if (is_wanted)
                        put_line(line, n, ret_text);
        }
        /* Ends a line that is continued at the end of the file. */
        nb_buffer_append_string(ret_text, "\n");
}

/* --- What differs --- */

void nb_rehearsal_override(const char *output, const char *command, struct nb_buffer *ret_text) {
        /* [Service] may have the older names of the actions. The service's own directories would be
         * given to the user of the rehearsal. The one in /run tells which user that is. */
        nb_buffer_printf(ret_text,
                         "[Unit]\n"
                         "Description=Rehearsal of the start of node-bootstrap.service\n"
                         "DefaultDependencies=no\n"
                         "Wants=node-bootstrap-prover.socket\n"
                         "After=node-bootstrap-prover.socket\n"
                         "FailureAction=none\n"
                         "SuccessAction=none\n"
                         "StartLimitAction=none\n"
                         "[Service]\n"
                         "Type=oneshot\n"
                         "RemainAfterExit=no\n"
                         "Restart=no\n"
                         "RestartForceExitStatus=\n"
                         "TimeoutStartSec=10min\n"
                         "TimeoutStopSec=5\n"
                         "KillMode=control-group\n"
                         "LimitFSIZE=16M\n"
                         "StateDirectory=\n"
                         "CacheDirectory=\n"
                         "LogsDirectory=\n"
                         "ConfigurationDirectory=\n"
                         "RuntimeDirectory=\n"
                         "RuntimeDirectory=" NB_REHEARSAL_NAME "\n"
                         "RuntimeDirectoryPreserve=no\n"
                         "StandardInput=null\n"
                         "StandardOutput=file:%s\n"
                         "StandardError=journal\n"
                         "ExecCondition=\n"
                         "ExecStartPre=\n"
                         "ExecStart=\n"
                         "ExecStartPost=\n"
                         "ExecReload=\n"
                         "ExecStop=\n"
                         "ExecStopPost=\n"
                         "ExecStart=!%s\n",
                         output, command);
}
