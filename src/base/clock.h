/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Time is a parameter: these give the instants that others take. Deadlines run on CLOCK_BOOTTIME, which no time
 * synchronisation moves and which counts suspend.
 */

#include <stdint.h>
#include <time.h>

#define NB_TIME_INFINITE UINT64_MAX
#define NB_RFC3339_SIZE 32 /* "2026-01-02T15:04:05Z" and a NUL, with room for any year */

uint64_t nb_now_ms(void);
uint64_t nb_now_usec(void);

/* When this program was made, by its source: a clock that stands before it is wrong. */
time_t nb_build_time(void);

/* UTC, whole seconds. An instant that cannot be written gives "". */
void nb_time_format(time_t when, char ret[static NB_RFC3339_SIZE]);

/* "5 s", "3 min 20 s", "2 h 5 min", "3 d 4 h": for people. */
#define NB_DURATION_SIZE 32
void nb_duration_format(uint64_t ms, char ret[static NB_DURATION_SIZE]);

/*
 * Delay before attempt `attempt` + 1 (the first attempt is 0): first_ms doubled for each attempt up to cap_ms, then
 * spread over 50..100 % of that by `random`, so that a fleet that booted together does not ask together.
 */
uint64_t nb_backoff_ms(unsigned attempt, uint64_t first_ms, uint64_t cap_ms, uint32_t random);

/* From the kernel; for jitter only. */
uint32_t nb_random(void);
