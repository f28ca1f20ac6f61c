/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves /healthz, /readyz and /metrics with HTTP (--listen), in a thread of libmicrohttpd: only
 * GET, without TLS and credentials, and nothing that it serves is secret. The thread reads nothing
 * but the texts that the loop has published.
 *
 * /healthz fails if the loop has published nothing for NB_MONITOR_STUCK_MS. An outage of the API
 * server does not stop the loop, so it restarts no pod; it makes /readyz fail.
 */

#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_MONITOR_CONNECTIONS_MAX 16
#define NB_MONITOR_FULL_MS 10000
/* As WatchdogSec= of the unit. The loop publishes every 5 s; it waits longest for a credential
 * program, for 60 s (NB_PROCESS_TIMEOUT_MS). */
#define NB_MONITOR_STUCK_MS 120000

struct nb_monitor;

/* Listens on `ADDRESS:PORT`, or `:PORT` for the loopback address, and starts the thread, which
 * takes no signals. NB_USAGE, NB_ADMIN_LISTEN_FAILED, NB_INTERNAL. */
int nb_monitor_start(const char *listen_on, uint64_t now_ms, struct nb_monitor **ret_monitor,
                     struct nb_failure *f);

/* Takes the metrics, and gives the old ones back. `unready` are the objects that are not watched,
 * for /readyz; NULL if all are. Also ends all connections if there has been no room for another one
 * for NB_MONITOR_FULL_MS. */
void nb_monitor_publish(struct nb_monitor *monitor, struct nb_buffer *metrics, const char *unready,
                        uint64_t now_ms);

/* What is served at a path other than /metrics, `silent_ms` after the last publication. Returns the
 * HTTP status. */
#define NB_MONITOR_TEXT_SIZE 128
unsigned nb_monitor_judge(const char *path, uint64_t silent_ms, const char *unready,
                          char ret[static NB_MONITOR_TEXT_SIZE]);

/* NULL is accepted. */
void nb_monitor_stop(struct nb_monitor *monitor);
