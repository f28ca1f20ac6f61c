/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "base/macro.h"
#include "base/text.h"
#include "os/clock.h"
#include "os/datagram.h"
#include "os/terminal.h"
#include "systemd/log.h"

#define MESSAGE_SIZE 1024
#define PREFIX "NODE_BOOTSTRAP_"

static const char *const field_names[_NB_FIELD_N] = {
        [NB_FIELD_STAGE] = "STAGE",
        [NB_FIELD_ATTEMPT] = "ATTEMPT",
        [NB_FIELD_ENDPOINT] = "ENDPOINT",
        [NB_FIELD_CSR] = "CSR",
        [NB_FIELD_NODE] = "NODE",
        [NB_FIELD_TOKEN_ID] = "TOKEN_ID",
        [NB_FIELD_TOKEN_SOURCE] = "TOKEN_SOURCE",
        [NB_FIELD_HTTP_STATUS] = "HTTP_STATUS",
        [NB_FIELD_REASON] = "REASON",
        [NB_FIELD_USER] = "USER",
        [NB_FIELD_CLUSTER] = "CLUSTER",
        [NB_FIELD_CA_SHA256] = "CA_SHA256",
        [NB_FIELD_DURATION_USEC] = "DURATION_USEC",
        [NB_FIELD_AGE_USEC] = "AGE_USEC",
        [NB_FIELD_RESOLVE_USEC] = "RESOLVE_USEC",
        [NB_FIELD_TCP_USEC] = "TCP_USEC",
        [NB_FIELD_TLS_USEC] = "TLS_USEC",
};

static char values[_NB_FIELD_N][NB_FIELD_SIZE];
static const char *program = "node-bootstrap", *object_unit;
static bool is_journal; /* send entries with the native protocol */
static bool is_printed; /* print lines to stderr */
static bool is_console; /* stderr is a terminal, and stdout is connected to the journal */
static bool is_mute;
static bool is_stamped;  /* nb_log_stamp() */
static bool has_channel; /* NB_STATUS_FD */

const char *nb_field_name(enum nb_field field) {
        return field_names[field];
}

const char *nb_field_value(enum nb_field field) {
        return values[field];
}

/* journald reads datagrams in order and ignores an empty one, so once it has read the empty
 * datagram sent here, it has read all earlier ones. */
void nb_journal_drain(const char *path) {
        const struct timespec pause = { .tv_nsec = 1000000 };
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        _cleanup_(nb_closep) int fd = -1;
        int queued;

        snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
        fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || sendto(fd, "", 0, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                             sizeof(address)) < 0)
                return;
        for (int ms = 0; ms < NB_JOURNAL_DRAIN_MAX_MS; ms++) {
                if (ioctl(fd, SIOCOUTQ, &queued) < 0 || queued == 0)
                        return;
                (void)nanosleep(&pause, NULL);
        }
}

static void drain_journal(void) {
        nb_journal_drain(NB_JOURNAL_SOCKET);
}

/* $JOURNAL_STREAM has the device and inode of stderr, or of stdout if only that is connected to the
 * journal (systemd.exec(5)). */
static bool is_stream(int fd) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &st) == 0 &&
               device == st.st_dev && inode == st.st_ino;
}

void nb_log_init(const char *identifier) {
        program = identifier;
        is_printed = !is_stream(STDERR_FILENO);
        is_journal = !is_printed || is_stream(STDOUT_FILENO);
        is_console = is_journal && is_printed && isatty(STDERR_FILENO) &&
                     nb_console_init(STDERR_FILENO) >= 0;
        if (is_journal)
                (void)atexit(drain_journal);
        has_channel = getenv(NB_STATUS_VARIABLE) && fcntl(NB_STATUS_FD, F_SETFD, FD_CLOEXEC) >= 0;
        (void)unsetenv(NB_STATUS_VARIABLE);
}

void nb_log_stamp(void) {
        is_stamped = !is_journal && !isatty(STDERR_FILENO);
}

void nb_log_forget_journal(void) {
        is_journal = is_console = false;
        is_printed = true;
}

void nb_log_mute(void) {
        is_mute = true;
}

/* Produces one line of valid UTF-8, even if the text was cut: systemd ignores an invalid STATUS=,
 * and a newline would begin another assignment. */
__attribute__((format(printf, 3, 0))) static void print_line(char *ret, size_t size,
                                                             const char *format,
                                                             va_list arguments) {
        char text[MESSAGE_SIZE];

        vsnprintf(text, sizeof(text), format, arguments);
        nb_text_copy_line(text, strlen(text), ret, size);
}

void nb_log_field(enum nb_field field, const char *format, ...) {
        va_list arguments;

        if (!format) {
                values[field][0] = '\0';
                return;
        }
        va_start(arguments, format);
        print_line(values[field], NB_FIELD_SIZE, format, arguments);
        va_end(arguments);
}

void nb_log_object_unit(const char *unit) {
        object_unit = unit;
}

/* The fields of an entry, each "NAME=value\n": no value contains a newline. */
struct entry {
        char text[7 + _NB_FIELD_N][MESSAGE_SIZE + 64];
        struct iovec vectors[7 + _NB_FIELD_N];
        unsigned n;
};

__attribute__((format(printf, 2, 3))) static void entry_add(struct entry *entry, const char *format,
                                                            ...) {
        char *text = entry->text[entry->n];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(entry->text[0]) - 1, format, arguments);
        va_end(arguments);
        memcpy(text + strlen(text), "\n", 2);
        entry->vectors[entry->n] = (struct iovec){ .iov_base = text, .iov_len = strlen(text) };
        entry->n++;
}

static void entry_add_fields(struct entry *entry, const char *prefix) {
        for (unsigned i = 0; i < _NB_FIELD_N; i++)
                if (values[i][0])
                        entry_add(entry, "%s%s=%s", prefix, field_names[i], values[i]);
}

static void entry_send(struct entry *entry, int priority, enum nb_code code, const char *message) {
        entry_add(entry, "MESSAGE=%s", message);
        entry_add(entry, "PRIORITY=%d", priority);
        entry_add(entry, "SYSLOG_IDENTIFIER=%s", program);
        if (object_unit)
                entry_add(entry, "OBJECT_SYSTEMD_UNIT=%s", object_unit);
        if (code != NB_NONE)
                entry_add(entry, "MESSAGE_ID=%s", nb_failure_info(code)->message_id);
        entry_add_fields(entry, PREFIX);
        /* Without journald, as in an image, nothing reads it. */
        (void)nb_datagram_send(NB_JOURNAL_SOCKET, entry->vectors, entry->n);
}

/* After a timeout, each line is tried without waiting, until the console accepts output again. */
static void print_text(const char *text, size_t len) {
        static int wait_ms = NB_CONSOLE_WAIT_MS;

        if (is_console)
                wait_ms = nb_console_write(STDERR_FILENO, text, len, wait_ms) < 0
                                  ? 0
                                  : NB_CONSOLE_WAIT_MS;
        else
                fwrite(text, 1, len, stderr);
}

/* What each line begins with. Returns `ret`. */
#define STAMP_SIZE (NB_RFC3339_SIZE + 16)
static const char *format_stamp(int priority, char ret[static STAMP_SIZE]) {
        static const char *const levels[] = { [LOG_ERR] = "error",
                                              [LOG_WARNING] = "warning",
                                              [LOG_NOTICE] = "notice",
                                              [LOG_INFO] = "info" };
        char now[NB_RFC3339_SIZE];

        ret[0] = '\0';
        if (!is_stamped)
                return ret;
        nb_time_format(time(NULL), now);
        snprintf(ret, STAMP_SIZE, "%s %s ", now,
                 priority < LOG_ERR ? "error" : levels[priority < LOG_INFO ? priority : LOG_INFO]);
        return ret;
}

void nb_log(int priority, enum nb_code code, const char *format, ...) {
        char message[MESSAGE_SIZE], line[MESSAGE_SIZE + 64 + STAMP_SIZE], stamp[STAMP_SIZE];
        struct entry entry = { 0 };
        va_list arguments;

        va_start(arguments, format);
        print_line(message, sizeof(message), format, arguments);
        va_end(arguments);
        if (is_mute)
                return;
        if (is_journal)
                entry_send(&entry, priority, code, message);
        if (is_printed && priority < LOG_DEBUG) {
                snprintf(line, sizeof(line), "%s%s: %s\n", format_stamp(priority, stamp), program,
                         message);
                print_text(line, strlen(line));
        }
}

/* An attacker who controls `join` can set the value, and root may paste the remedy into a shell. */
static bool is_plain(const char *value) {
        return value[0] && value[0] != '-' &&
               !value[strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
                                    "yz0123456789-._:/@%+,=[]")];
}

/* Like journalctl with a catalog entry, replaces @NODE_BOOTSTRAP_X@ with the field's value, or with
 * <X> if the value is empty or not safe to paste. */
static void expand_fields(FILE *stream, const char *text) {
        const char *at, *end;

        while ((at = strstr(text, "@" PREFIX)) && (end = strchr(at + 1, '@'))) {
                const char *name = at + 1 + strlen(PREFIX);
                size_t len = (size_t)(end - name);
                const char *value = NULL;

                fwrite(text, 1, (size_t)(at - text), stream);
                for (unsigned i = 0; i < _NB_FIELD_N; i++)
                        if (strlen(field_names[i]) == len && !strncmp(field_names[i], name, len) &&
                            is_plain(values[i]))
                                value = values[i];
                if (value)
                        fputs(value, stream);
                else
                        fprintf(stream, "<%.*s>", (int)len, name);
                text = end + 1;
        }
        fputs(text, stream);
}

/* The length up to the next blank that is not between backquotes. */
static size_t measure_word(const char *text) {
        bool is_quoted = false;
        size_t len = 0;

        for (; text[len] && (text[len] != ' ' || is_quoted); len++)
                is_quoted ^= text[len] == '`';
        return len;
}

static void print_wrapped(FILE *stream, const char *line, size_t indent, size_t columns) {
        size_t column = 0;

        while (*line) {
                size_t len = measure_word(line);

                if (column > 0 && columns > 0 && column + 1 + len > columns) {
                        fputc('\n', stream);
                        column = 0;
                }
                column += (size_t)fprintf(stream, "%*s%.*s", column > 0 ? 1 : (int)indent, "",
                                          (int)len, line);
                line += len + (line[len] == ' ');
        }
}

void nb_log_print_text(FILE *stream, const char *text, size_t indent, size_t columns) {
        _cleanup_(nb_freep) char *expanded = NULL;
        size_t size = 0;
        FILE *memory = open_memstream(&expanded, &size);

        if (!memory)
                return;
        expand_fields(memory, text);
        if (fclose(memory) != 0)
                return;
        for (char *line = expanded, *end; line; line = end ? end + 1 : NULL) {
                end = strchr(line, '\n');
                if (end)
                        *end = '\0';
                if (strncmp(line, NB_COMMAND_PREFIX, strlen(NB_COMMAND_PREFIX)) == 0)
                        fprintf(stream, "%*s%s", (int)indent, "", line);
                else
                        print_wrapped(stream, line, indent, columns);
                fputc('\n', stream);
        }
}

void nb_log_print_remedy(FILE *stream, enum nb_code code, size_t indent, size_t columns) {
        const struct nb_failure_info *info = nb_failure_info(code);
        bool is_k3s = info->remedy_k3s && !strcmp(values[NB_FIELD_CLUSTER], "k3s");

        nb_log_print_text(stream, is_k3s ? info->remedy_k3s : info->remedy, indent, columns);
}

static void send_failure(int priority, const struct nb_failure *f) {
        struct entry entry = { 0 };

        if (f->http_status > 0)
                nb_log_field(NB_FIELD_HTTP_STATUS, "%ld", f->http_status);
        entry_add(&entry, PREFIX "CODE=%s", nb_failure_info(f->code)->slug);
        if (f->errnum > 0)
                entry_add(&entry, "ERRNO=%d", f->errnum);
        entry_send(&entry, priority, f->code, f->detail);
        nb_log_field(NB_FIELD_HTTP_STATUS, NULL);
}

/* Uses one write, so that other output on the console cannot split the message. A usage error has
 * no remedy, since its detail says what to do. */
static void print_failure(int priority, const struct nb_failure *f) {
        _cleanup_(nb_freep) char *text = NULL;
        char stamp[STAMP_SIZE];
        size_t len = 0;
        FILE *memory = open_memstream(&text, &len), *stream = memory ? memory : stderr;

        fprintf(stream, "%s%s: %s: %s\n", format_stamp(priority, stamp), program,
                nb_failure_info(f->code)->slug, f->detail);
        if (f->code != NB_USAGE)
                nb_log_print_remedy(stream, f->code, 2, nb_terminal_columns(STDERR_FILENO));
        if (memory && fclose(memory) == 0)
                print_text(text, len);
}

void nb_log_failure(int priority, const struct nb_failure *f) {
        if (is_mute)
                return;
        if (is_journal)
                send_failure(priority, f);
        if (is_printed)
                print_failure(priority, f);
}

/* One datagram: the status, and if it is that of a failure, the lines that describe it. */
static void send_status(const char *status, const struct nb_failure *f, time_t since) {
        struct entry entry = { 0 };
        struct msghdr message = { .msg_iov = entry.vectors };

        entry_add(&entry, "%s", status);
        if (f) {
                entry_add(&entry, NB_STATUS_CODE "=%s", nb_failure_info(f->code)->slug);
                entry_add(&entry, NB_STATUS_DETAIL "=%s", f->detail);
                entry_add(&entry, NB_STATUS_SINCE "=%lld", (long long)since);
                entry_add_fields(&entry, "");
        }
        message.msg_iovlen = entry.n;
        (void)sendmsg(NB_STATUS_FD, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void nb_log_status_of(const struct nb_failure *f, time_t since, const char *format, ...) {
        char status[MESSAGE_SIZE];
        va_list arguments;
        int n;

        if (is_mute)
                return;
        n = snprintf(status, sizeof(status), "STATUS=");
        va_start(arguments, format);
        print_line(status + n, sizeof(status) - (size_t)n, format, arguments);
        va_end(arguments);
        if (has_channel)
                send_status(status + n, f, since);
        else
                nb_notify(status);
}

void nb_notify(const char *state) {
        const char *address = getenv("NOTIFY_SOCKET");
        const struct iovec part = { (void *)(uintptr_t)state, strlen(state) };

        if (address)
                (void)nb_datagram_send(address, &part, 1);
}
