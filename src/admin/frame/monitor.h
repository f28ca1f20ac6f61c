/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Serves /healthz, /readyz and /metrics with HTTP (--listen), in a thread of libmicrohttpd: only
 * GET, without TLS and credentials, and nothing that it serves is secret. The thread reads nothing
 * but the texts that the loop has published.
 *
 * /healthz is for people: it fails if the loop has published nothing for NB_MONITOR_SILENT_MS. An
 * outage of the API server does not stop the loop; it makes /readyz fail.
 */

#include <stdint.h>

#include "base/buffer.h"
#include "base/failure.h"

#define NB_MONITOR_CONNECTIONS_MAX 16
#define NB_MONITOR_FULL_MS 10000
#define NB_MONITOR_IDLE_SEC 5 /* of a connection, until it is closed */
/* The loop publishes every 5 s; it waits longest for a credential program, for 60 s
 * (NB_PROCESS_TIMEOUT_MS). A stuck loop ends by SIGALRM. */
#define NB_MONITOR_SILENT_MS 15000
#define NB_MONITOR_STUCK_SEC 120

struct nb_monitor;

/* Listens on `ADDRESS:PORT`, or `:PORT` for the loopback address, and starts the thread, which
 * takes no signals. NB_USAGE, NB_ADMIN_LISTEN_FAILED, NB_INTERNAL. */
int nb_monitor_start(const char *listen_on, uint64_t now_ms, struct nb_monitor **ret_monitor,
                     struct nb_failure *f);

/* Takes the metrics, and gives the old ones back. `unready` is what the controller waits for,
 * for /readyz; NULL: nothing. Also ends all connections if there has been no room for another one
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
