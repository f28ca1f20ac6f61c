/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macro.h"
#include "base/terminal.h"
#include "base/text.h"

#define REDRAW_MS 1000
#define COLUMNS_DEFAULT 80
#define CLEAR "\r\033[K"
#define UTC " UTC"
#define ELLIPSIS "…"

static struct {
        pthread_mutex_t lock;
        pthread_t thread;
        bool is_there;
        int fd, end_fd;
        unsigned hidden; /* how many keep it so */
        bool is_drawn;
        char text[NB_TERMINAL_LINE_SIZE];
        uint64_t since_ms; /* nb_now_ms() */
} line = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .end_fd = -1 };

bool nb_terminal_takes_escapes(int fd) {
        const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");

        return isatty(fd) && !(no_colour && no_colour[0]) && term && strcmp(term, "dumb") != 0;
}

/* --- The text --- */

/* Where the date of a wait ends; NULL when it is none. */
static const char *find_rest(const char *text) {
        const char *utc;

        if (strncmp(text, NB_TERMINAL_WAITING, strlen(NB_TERMINAL_WAITING)) != 0)
                return NULL;
        utc = strstr(text, UTC);
        return utc ? utc + strlen(UTC) : NULL;
}

/* How many bytes of it fill so many columns at the most. */
static size_t cut(const char *text, size_t columns) {
        size_t len = 0;

        for (size_t n = 0; text[len] && (n < columns || (text[len] & 0xc0) == 0x80); len++)
                n += (text[len] & 0xc0) != 0x80;
        return len;
}

/* The time stays readable where the text is cut. */
void nb_terminal_line_format(const char *text, uint64_t elapsed_ms, unsigned columns, char ret[static NB_TERMINAL_LINE_SIZE]) {
        char duration[NB_DURATION_SIZE], before[NB_DURATION_SIZE + 16] = "", after[NB_DURATION_SIZE + 16] = "", printable[NB_TERMINAL_LINE_SIZE - 4 * NB_DURATION_SIZE];
        const char *rest = find_rest(text), *shown = rest ? rest : text, *dots = "";
        size_t taken, room, len;

        nb_duration_format(elapsed_ms, duration);
        if (rest)
                (void)snprintf(before, sizeof(before), "Waiting %s", duration);
        else
                (void)snprintf(after, sizeof(after), ", %s", duration);
        taken = strlen(before) + strlen(after);
        room = columns > taken ? columns - taken : 0;
        nb_text_copy_line(shown, strlen(shown), printable, sizeof(printable));
        len = strlen(printable);
        if (cut(printable, room) < len) {
                len = cut(printable, room > 0 ? room - 1 : 0);
                dots = ELLIPSIS;
        }
        (void)snprintf(ret, NB_TERMINAL_LINE_SIZE, "%s%.*s%s%s", before, (int)len, printable, dots, after);
}

static bool is_same_wait(const char *one, const char *other) {
        const char *rest = find_rest(one), *rest_of_other = find_rest(other);

        if (!rest || !rest_of_other)
                return strcmp(one, other) == 0;
        return rest - one == rest_of_other - other && strncmp(one, other, (size_t)(rest - one)) == 0;
}

/* It may have been waited for before this program looked. */
static uint64_t waited_ms(const char *text) {
        time_t now = time(NULL), since;
        struct tm utc = { 0 };

        if (!find_rest(text) || !strptime(text + strlen(NB_TERMINAL_WAITING), "%Y-%m-%d %H:%M:%S", &utc))
                return 0;
        since = timegm(&utc);
        return since > 0 && since < now ? (uint64_t)(now - since) * 1000 : 0;
}

/* --- The terminal; with the lock held --- */

static unsigned count_terminal_columns(void) {
        struct winsize size;

        return ioctl(line.fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : COLUMNS_DEFAULT;
}

/* What is put into the background is quiet, and a terminal that is held by Ctrl-S must not hold up the join. */
static bool is_ours(void) {
        struct pollfd p = { .fd = line.fd, .events = POLLOUT };

        return tcgetpgrp(line.fd) == getpgrp() && poll(&p, 1, 0) > 0 && (p.revents & POLLOUT);
}

static void put(const char *text, size_t len) {
        /* A terminal that has gone takes nothing, and that is no failure of what is waited for. */
        if (write(line.fd, text, len) < 0)
                line.is_drawn = false;
}

static void draw(void) {
        char text[NB_TERMINAL_LINE_SIZE], drawn[NB_TERMINAL_LINE_SIZE + sizeof(CLEAR)];

        if (line.hidden > 0 || !line.text[0] || !is_ours())
                return;
        /* One less than there are: in the last one some terminals go on to the next line. */
        nb_terminal_line_format(line.text, nb_now_ms() - line.since_ms, count_terminal_columns() - 1, text);
        (void)snprintf(drawn, sizeof(drawn), CLEAR "%s", text);
        line.is_drawn = true;
        put(drawn, strlen(drawn));
}

static void clear(void) {
        if (line.is_drawn && is_ours())
                put(CLEAR, strlen(CLEAR));
        line.is_drawn = false;
}

static void *redraw(_unused_ void *argument) {
        struct pollfd p = { .fd = line.end_fd, .events = POLLIN };

        while (poll(&p, 1, REDRAW_MS) <= 0) {
                (void)pthread_mutex_lock(&line.lock);
                draw();
                (void)pthread_mutex_unlock(&line.lock);
        }
        return NULL;
}

/* --- The line --- */

/* Signals are for who waits for them. */
static int start_thread(void) {
        sigset_t all, before;
        int r;

        (void)sigfillset(&all);
        r = pthread_sigmask(SIG_SETMASK, &all, &before);
        if (r != 0)
                return -r;
        r = pthread_create(&line.thread, NULL, redraw, NULL);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        return -r;
}

int nb_terminal_line_begin(int fd) {
        int r;

        if (!nb_terminal_takes_escapes(fd) || tcgetpgrp(fd) != getpgrp())
                return 0;
        line.end_fd = eventfd(0, EFD_CLOEXEC);
        if (line.end_fd < 0)
                return -errno;
        line.fd = fd;
        line.text[0] = '\0';
        r = start_thread();
        if (r < 0) {
                (void)close(line.end_fd);
                return r;
        }
        line.is_there = true;
        return 1;
}

void nb_terminal_line_set(const char *text) {
        if (!line.is_there)
                return;
        (void)pthread_mutex_lock(&line.lock);
        if (!is_same_wait(line.text, text))
                line.since_ms = nb_now_ms() - waited_ms(text);
        (void)snprintf(line.text, sizeof(line.text), "%s", text);
        if (!text[0])
                clear();
        draw();
        (void)pthread_mutex_unlock(&line.lock);
}

void nb_terminal_line_hide(void) {
        if (!line.is_there)
                return;
        (void)pthread_mutex_lock(&line.lock);
        line.hidden++;
        clear();
        (void)pthread_mutex_unlock(&line.lock);
}

void nb_terminal_line_show(void) {
        if (!line.is_there)
                return;
        (void)pthread_mutex_lock(&line.lock);
        line.hidden--;
        draw();
        (void)pthread_mutex_unlock(&line.lock);
}

void nb_terminal_line_end(void) {
        if (!line.is_there)
                return;
        nb_terminal_line_hide();
        (void)eventfd_write(line.end_fd, 1);
        (void)pthread_join(line.thread, NULL);
        (void)close(line.end_fd);
        line.hidden = 0;
        line.is_there = false;
}
