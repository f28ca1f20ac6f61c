/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "os/clock.h"

uint64_t nb_now_usec(void) {
        struct timespec now;

        (void)clock_gettime(CLOCK_BOOTTIME, &now);
        return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t nb_now_ms(void) {
        return nb_now_usec() / 1000;
}

time_t nb_build_time(void) {
        return NB_BUILD_TIME;
}

void nb_build_format(char ret[static NB_BUILD_SIZE]) {
        memset(ret, 0, NB_BUILD_SIZE);
        (void)snprintf(ret, NB_BUILD_SIZE, NB_VERSION " %lld", (long long)NB_BUILD_TIME);
}

void nb_time_format(time_t when, char ret[static NB_RFC3339_SIZE]) {
        struct tm utc;

        if (!gmtime_r(&when, &utc) ||
            strftime(ret, NB_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
                ret[0] = '\0';
}

time_t nb_time_parse(const char *text) {
        const char *end;
        struct tm tm = { 0 };

        end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
        return end && !*end ? timegm(&tm) : 0;
}

void nb_duration_format(uint64_t ms, char ret[static NB_DURATION_SIZE]) {
        uint64_t seconds = ms / 1000, minutes = seconds / 60, hours = minutes / 60,
                 days = hours / 24;

        if (seconds < 60)
                snprintf(ret, NB_DURATION_SIZE, "%" PRIu64 " s", seconds);
        else if (minutes < 60)
                snprintf(ret, NB_DURATION_SIZE, "%" PRIu64 " min %" PRIu64 " s", minutes,
                         seconds % 60);
        else if (hours < 48)
                snprintf(ret, NB_DURATION_SIZE, "%" PRIu64 " h %" PRIu64 " min", hours,
                         minutes % 60);
        else
                snprintf(ret, NB_DURATION_SIZE, "%" PRIu64 " d %" PRIu64 " h", days, hours % 24);
}

uint64_t nb_backoff_ms(unsigned attempt, uint64_t first_ms, uint64_t cap_ms, uint32_t random) {
        uint64_t delay = first_ms;

        for (unsigned i = 0; i < attempt && delay < cap_ms; i++)
                delay *= 2;
        if (delay > cap_ms)
                delay = cap_ms;
        return delay / 2 + (delay - delay / 2) * (random % 1024) / 1023;
}

uint32_t nb_random(void) {
        uint32_t value;

        /* Early at boot, the kernel may lack entropy. The clock is good enough for jitter. */
        if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
                value = (uint32_t)nb_now_ms();
        return value;
}
