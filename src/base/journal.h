/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until the journal has taken in what this process sent. journald looks up the sender's unit in /proc when it reads
 * an entry: of a process that has ended by then, `journalctl -u` shows nothing. sd-journal(3) has no call for that.
 */

#define NB_JOURNAL_SOCKET "/run/systemd/journal/socket"
#define NB_JOURNAL_DRAIN_MAX_MS 1000

/* Returns when everything sent to the socket before has been handled, at the latest after NB_JOURNAL_DRAIN_MAX_MS. */
void nb_journal_drain(const char *path);
