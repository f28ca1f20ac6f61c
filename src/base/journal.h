/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Waits until journald has read the entries of this process. journald finds the unit of an entry in
 * /proc when it reads the entry, so `journalctl -u` would not show the entries of a process that
 * has exited by then. sd-journal(3) has no function for this. */

#define NB_JOURNAL_SOCKET "/run/systemd/journal/socket"
#define NB_JOURNAL_DRAIN_MAX_MS 1000

/* Returns when everything sent to the socket before has been handled, at the latest after
 * NB_JOURNAL_DRAIN_MAX_MS. */
void nb_journal_drain(const char *path);
