/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * libsystemd, loaded when it is first needed: few runs talk to systemd's manager or read the
 * journal, and on Debian 12 it brings six other libraries.
 */

#include <systemd/sd-bus.h>
#include <systemd/sd-journal.h>

#define NB_LIBSYSTEMD_FUNCTIONS(OF) \
        OF(sd_bus_call_methodv); \
        OF(sd_bus_close_unref); \
        OF(sd_bus_error_free); \
        OF(sd_bus_message_enter_container); \
        OF(sd_bus_message_exit_container); \
        OF(sd_bus_message_peek_type); \
        OF(sd_bus_message_read); \
        OF(sd_bus_message_read_basic); \
        OF(sd_bus_message_skip); \
        OF(sd_bus_message_unref); \
        OF(sd_bus_new); \
        OF(sd_bus_open_system); \
        OF(sd_bus_path_encode); \
        OF(sd_bus_set_address); \
        OF(sd_bus_set_method_call_timeout); \
        OF(sd_bus_start); \
        OF(sd_journal_add_match); \
        OF(sd_journal_close); \
        OF(sd_journal_get_data); \
        OF(sd_journal_open); \
        OF(sd_journal_previous); \
        OF(sd_journal_seek_tail);

/* The functions have their own names. They may be called after nb_libsystemd_load() has returned 0,
 * and with an object that another of them has made. */
struct nb_libsystemd {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define NB_LIBSYSTEMD_MEMBER(name) __typeof__(name) *(name)
        NB_LIBSYSTEMD_FUNCTIONS(NB_LIBSYSTEMD_MEMBER)
#undef NB_LIBSYSTEMD_MEMBER
};

extern struct nb_libsystemd nb_libsystemd;

/* 0; -ELIBACC if the library, or a function in it, is missing. */
int nb_libsystemd_load(void);
