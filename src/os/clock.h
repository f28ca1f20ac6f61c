/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Time is a parameter: callers read it here and pass it on. Deadlines use CLOCK_BOOTTIME, which
 * time synchronisation does not change and which includes suspend. */

#include <stdint.h>
#include <time.h>

#define NB_TIME_INFINITE UINT64_MAX
#define NB_RFC3339_SIZE 32 /* "2026-01-02T15:04:05Z" and a NUL, with room for any year */

uint64_t nb_now_ms(void);
uint64_t nb_now_usec(void);

/* The build date of this program. A clock that shows an earlier time is wrong. */
time_t nb_build_time(void);

/* Names this build, for what one of our programs passes to another: while a start of the service
 * waits, an upgrade of the package may replace the program that it runs next. */
#define NB_BUILD_SIZE 64
void nb_build_format(char ret[static NB_BUILD_SIZE]);

/* UTC, whole seconds; "" if the time cannot be formatted. */
void nb_time_format(time_t when, char ret[static NB_RFC3339_SIZE]);

/* Parses a text of nb_time_format(). 0 for any other text. */
time_t nb_time_parse(const char *text);

/* "5 s", "3 min 20 s", "2 h 5 min", "3 d 4 h": for people. */
#define NB_DURATION_SIZE 32
void nb_duration_format(uint64_t ms, char ret[static NB_DURATION_SIZE]);

/* Returns the delay after attempt `attempt` (the first one is 0): first_ms, doubled for each
 * attempt up to cap_ms, then reduced to 50 to 100 % depending on `random`, so that machines that
 * boot at the same time do not retry at the same time. */
uint64_t nb_backoff_ms(unsigned attempt, uint64_t first_ms, uint64_t cap_ms, uint32_t random);

/* A random number for jitter, not for secrets. */
uint32_t nb_random(void);
