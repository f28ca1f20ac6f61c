/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <microhttpd.h>

#include "admin/frame/monitor.h"
#include "base/macro.h"
#include "codec/url.h"
#include "os/clock.h"

struct nb_monitor {
        int fd;                    /* that listens */
        struct MHD_Daemon *daemon; /* NULL: the thread could not be started again */
        uint64_t free_ms;          /* when there was room for a connection */
        pthread_mutex_t mutex;     /* of everything below */
        struct nb_buffer metrics;
        const char *unready;
        uint64_t published_ms;
};

/* --- In the thread --- */

static enum MHD_Result send_text(struct MHD_Connection *connection, unsigned status, char *text,
                                 size_t len) {
        struct MHD_Response *response = MHD_create_response_from_buffer(len, text,
                                                                        MHD_RESPMEM_MUST_COPY);
        enum MHD_Result r;

        if (!response)
                return MHD_NO;
        (void)MHD_add_response_header(response, "Content-Type",
                                      "text/plain; version=0.0.4; charset=utf-8");
        (void)MHD_add_response_header(response, "Connection", "close");
        r = MHD_queue_response(connection, status, response);
        MHD_destroy_response(response);
        return r;
}

unsigned nb_monitor_judge(const char *path, uint64_t silent_ms, const char *unready,
                          char ret[static NB_MONITOR_TEXT_SIZE]) {
        snprintf(ret, NB_MONITOR_TEXT_SIZE, "ok\n");
        if (strcmp(path, "/healthz") == 0) {
                if (silent_ms < NB_MONITOR_SILENT_MS)
                        return MHD_HTTP_OK;
                snprintf(ret, NB_MONITOR_TEXT_SIZE, "the loop has not run for %llu s\n",
                         (unsigned long long)silent_ms / 1000);
                return MHD_HTTP_SERVICE_UNAVAILABLE;
        }
        if (strcmp(path, "/readyz") == 0) {
                if (!unready)
                        return MHD_HTTP_OK;
                snprintf(ret, NB_MONITOR_TEXT_SIZE, "it waits for: %s\n", unready);
                return MHD_HTTP_SERVICE_UNAVAILABLE;
        }
        snprintf(ret, NB_MONITOR_TEXT_SIZE, "there are /healthz, /readyz and /metrics\n");
        return MHD_HTTP_NOT_FOUND;
}

static enum MHD_Result answer_request(void *userdata, struct MHD_Connection *connection,
                                      const char *url, const char *method,
                                      const char *version _unused_, const char *upload _unused_,
                                      size_t *upload_len _unused_, void **state _unused_) {
        struct nb_monitor *monitor = userdata;
        char text[NB_MONITOR_TEXT_SIZE] = "only GET\n";
        enum MHD_Result r;
        unsigned status;

        if (strcmp(method, "GET") != 0)
                return send_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, text, strlen(text));
        (void)pthread_mutex_lock(&monitor->mutex);
        if (strcmp(url, "/metrics") == 0)
                r = send_text(connection, MHD_HTTP_OK, monitor->metrics.data, monitor->metrics.len);
        else {
                status = nb_monitor_judge(url, nb_now_ms() - monitor->published_ms,
                                          monitor->unready, text);
                r = send_text(connection, status, text, strlen(text));
        }
        (void)pthread_mutex_unlock(&monitor->mutex);
        return r;
}

/* --- In the loop --- */

/* NULL: not in the canonical form, so a forgotten port does not become a default one. */
static struct addrinfo *parse_address(const char *listen_on) {
        static const struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                               .ai_socktype = SOCK_STREAM };
        char text[NB_URL_MAX], canonical[NB_URL_MAX], port[8];
        struct addrinfo *found = NULL;
        struct nb_url url;

        snprintf(text, sizeof(text), "%s%s", listen_on[0] == ':' ? "127.0.0.1" : "", listen_on);
        if (nb_endpoint_parse(text, strlen(text), &url) < 0)
                return NULL;
        nb_endpoint_format(&url, canonical);
        snprintf(port, sizeof(port), "%u", url.port);
        if (strcmp(text, canonical) != 0 || getaddrinfo(url.host, port, &hints, &found) != 0)
                return NULL;
        return found;
}

static int open_listener(const struct addrinfo *address) {
        _cleanup_(nb_closep) int fd = socket(address->ai_family,
                                             SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        const int one = 1;

        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
            bind(fd, address->ai_addr, address->ai_addrlen) < 0 ||
            listen(fd, NB_MONITOR_CONNECTIONS_MAX) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* Stop signals are for the loop, and a thread inherits the mask. */
static void start_thread(struct nb_monitor *monitor) {
        sigset_t all, mask;

        (void)sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
        monitor->daemon = MHD_start_daemon(
                MHD_USE_AUTO_INTERNAL_THREAD | MHD_USE_ITC, 0, NULL, NULL, answer_request, monitor,
                MHD_OPTION_LISTEN_SOCKET, monitor->fd, MHD_OPTION_CONNECTION_LIMIT,
                NB_MONITOR_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, NB_MONITOR_IDLE_SEC,
                MHD_OPTION_END);
        (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* The time limit of libmicrohttpd is for silence: with a byte every few seconds on each connection,
 * anybody could keep probes and Prometheus out. */
static void make_room(struct nb_monitor *monitor, uint64_t now_ms) {
        if (monitor->daemon) {
                const union MHD_DaemonInfo *info = MHD_get_daemon_info(
                        monitor->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

                if (info->num_connections < NB_MONITOR_CONNECTIONS_MAX)
                        monitor->free_ms = now_ms;
                if (now_ms < monitor->free_ms + NB_MONITOR_FULL_MS)
                        return;
                (void)MHD_quiesce_daemon(monitor->daemon);
                MHD_stop_daemon(monitor->daemon);
        }
        monitor->free_ms = now_ms;
        start_thread(monitor);
}

int nb_monitor_start(const char *listen_on, uint64_t now_ms, struct nb_monitor **ret_monitor,
                     struct nb_failure *f) {
        struct addrinfo *address = parse_address(listen_on);
        struct nb_monitor *monitor;
        int fd;

        if (!address)
                return nb_failure_set(f, NB_USAGE, 0,
                                      "--listen: expected an address and a port, such as "
                                      "127.0.0.1:10270 or [::1]:10270");
        fd = open_listener(address);
        freeaddrinfo(address);
        if (fd < 0)
                return nb_failure_set(f, NB_ADMIN_LISTEN_FAILED, fd, "cannot listen on %s: %m",
                                      listen_on);
        monitor = calloc(1, sizeof(*monitor));
        if (!monitor)
                return nb_failure_set_memory(f);
        (void)pthread_mutex_init(&monitor->mutex, NULL);
        monitor->fd = fd;
        monitor->published_ms = monitor->free_ms = now_ms;
        monitor->unready = "all objects";
        *ret_monitor = monitor;
        start_thread(monitor);
        return monitor->daemon
                       ? 0
                       : nb_failure_set(f, NB_ADMIN_LISTEN_FAILED, 0,
                                        "cannot start the thread that serves %s", listen_on);
}

void nb_monitor_publish(struct nb_monitor *monitor, struct nb_buffer *metrics, const char *unready,
                        uint64_t now_ms) {
        struct nb_buffer old;

        (void)pthread_mutex_lock(&monitor->mutex);
        old = monitor->metrics;
        monitor->metrics = *metrics;
        monitor->unready = unready;
        monitor->published_ms = now_ms;
        (void)pthread_mutex_unlock(&monitor->mutex);
        *metrics = old;
        make_room(monitor, now_ms);
}

void nb_monitor_stop(struct nb_monitor *monitor) {
        if (!monitor)
                return;
        if (monitor->daemon)
                MHD_stop_daemon(monitor->daemon);
        (void)pthread_mutex_destroy(&monitor->mutex);
        nb_buffer_done(&monitor->metrics);
        free(monitor);
}
