/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/macro.h"
#include "base/text.h"
#include "system/clock.h"
#include "system/libsystemd_internal.h"
#include "system/process.h"
#include "system/unit.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define SYSTEMD_SOCKET "/run/systemd/private"
#define RELOAD_TIMEOUT_USEC ((uint64_t)180 * 1000000) /* as systemctl; other calls: 25 s */
#define PROPERTIES_MAX ((size_t)256 * 1024)
#define BLOCKER_DEPTH 8 /* of units that wait for each other */

/* --- systemd --- */

static void close_bus(sd_bus **bus) {
        if (*bus)
                nb_libsystemd.sd_bus_close_unref(*bus);
}

static void free_message(sd_bus_message **message) {
        if (*message)
                nb_libsystemd.sd_bus_message_unref(*message);
}

static void free_error(sd_bus_error *error) {
        if (error->name)
                nb_libsystemd.sd_bus_error_free(error);
}

bool nb_systemd_is_running(void) {
        struct stat here, init;

        /* In a chroot, /run may be that of the host, whose systemd manages other files. */
        return access("/run/systemd/system", F_OK) == 0 &&
               (stat("/", &here) < 0 || stat("/proc/1/root", &init) < 0 ||
                (here.st_dev == init.st_dev && here.st_ino == init.st_ino));
}

/* Root needs no message bus. */
static int open_bus(sd_bus **ret_bus) {
        _cleanup_(close_bus) sd_bus *bus = NULL;
        int r;

        r = nb_libsystemd_load();
        if (r < 0)
                return r;
        if (geteuid() != 0)
                return nb_libsystemd.sd_bus_open_system(ret_bus);
        r = nb_libsystemd.sd_bus_new(&bus);
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_bus_set_address(bus, "unix:path=" SYSTEMD_SOCKET);
        if (r < 0)
                return r;
        r = nb_libsystemd.sd_bus_start(bus);
        if (r < 0)
                return r;
        *ret_bus = TAKE(bus);
        return 0;
}

static int fail_to_reach(int r, struct nb_failure *f) {
        return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r, "cannot reach systemd: %m");
}

/* Calls a method of the manager, or of the properties of the object `path`. `types` and what
 * follows as for sd_bus_call_method(3). */
static int call_systemd(const char *path, const char *method, sd_bus_message **ret_reply,
                        struct nb_failure *f, const char *types, ...) {
        _cleanup_(close_bus) sd_bus *bus = NULL;
        _cleanup_(free_error) sd_bus_error error = SD_BUS_ERROR_NULL;
        va_list arguments;
        int r = open_bus(&bus);

        if (r < 0)
                return fail_to_reach(r, f);
        if (!strcmp(method, "Reload"))
                (void)nb_libsystemd.sd_bus_set_method_call_timeout(bus, RELOAD_TIMEOUT_USEC);
        va_start(arguments, types);
        r = nb_libsystemd.sd_bus_call_methodv(bus, SYSTEMD, path ? path : SYSTEMD_PATH,
                                              path ? "org.freedesktop.DBus.Properties"
                                                   : SYSTEMD ".Manager",
                                              method, &error, ret_reply, types, arguments);
        va_end(arguments);
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r, "systemd: %s failed: %s",
                                      method, error.message ? error.message : "no reason");
        return 0;
}

int nb_systemd_reload(struct nb_failure *f) {
        return nb_systemd_is_running() ? call_systemd(NULL, "Reload", NULL, f, "") : 0;
}

int nb_unit_queue(const char *method, const char *unit, struct nb_failure *f) {
        return call_systemd(NULL, method, NULL, f, "ss", unit, "replace");
}

void nb_unit_reset_limit(const char *unit) {
        struct nb_failure ignored = { 0 };

        /* A unit that is not loaded has no counter. */
        (void)call_systemd(NULL, "ResetFailedUnit", NULL, &ignored, "s", unit);
}

int nb_unit_enable(const char *unit, bool is_enabled, struct nb_failure *f) {
        const char *const argv[] = { "systemctl", is_enabled ? "enable" : "disable", "--quiet",
                                     unit, NULL };
        struct nb_process_result result;
        int r;

        if (nb_systemd_is_running() && is_enabled)
                return call_systemd(NULL, "EnableUnitFiles", NULL, f, "asbb", 1, unit, false,
                                    false);
        if (nb_systemd_is_running())
                return call_systemd(NULL, "DisableUnitFiles", NULL, f, "asb", 1, unit, false);
        /* Only systemctl(1) finds and changes the links without systemd. */
        r = nb_process_run(
                &(struct nb_process){ .argv = argv, .timeout_ms = NB_PROCESS_TIMEOUT_MS }, &result);
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r, "cannot run systemctl: %m");
        if (result.status != 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, 0,
                                      "`systemctl %s` failed with exit status %d: %s", argv[1],
                                      result.status,
                                      result.error[0] ? result.error : "no error message");
        return 0;
}

/* --- Properties --- */

/* A newline would begin another property. */
static void put_string(const char *value, struct nb_buffer *text) {
        size_t begin = text->len;

        nb_buffer_append_string(text, value);
        for (char *at = text->data + begin; text->error >= 0 && (at = strchr(at, '\n'));)
                *at = ' ';
}

static int put_values(sd_bus_message *reply, const char *separator, const char *line,
                      struct nb_buffer *text);

/* `line` begins another line of the same property. */
static int put_container(sd_bus_message *reply, char type, const char *types, const char *line,
                         struct nb_buffer *text) {
        const char *separator = "", *name;
        char first[128];
        int r = nb_libsystemd.sd_bus_message_enter_container(reply, type, types);

        if (r < 0)
                return r;
        if (type == SD_BUS_TYPE_DICT_ENTRY) {
                r = nb_libsystemd.sd_bus_message_read_basic(reply, SD_BUS_TYPE_STRING, &name);
                if (r < 0)
                        return r;
                snprintf(first, sizeof(first), "\n%s=", name);
                nb_buffer_append_string(text, first);
                line = first;
        } else if (type != SD_BUS_TYPE_VARIANT) {
                separator = types[0] == '(' || types[0] == '{' ? line : " ";
        }
        r = put_values(reply, separator, line, text);
        return r < 0 ? r : nb_libsystemd.sd_bus_message_exit_container(reply);
}

/* Appends all values up to the end of the container. */
static int put_values(sd_bus_message *reply, const char *separator, const char *line,
                      struct nb_buffer *text) {
        const char *types, *before = "";
        union {
                const char *string;
                int number;
                uint32_t number32;
                uint64_t number64;
        } value;
        char type;
        int r;

        for (; (r = nb_libsystemd.sd_bus_message_peek_type(reply, &type, &types)) > 0;
             before = separator) {
                nb_buffer_append_string(text, before);
                if (types) {
                        r = put_container(reply, type, types, line, text);
                        if (r < 0)
                                return r;
                        continue;
                }
                r = nb_libsystemd.sd_bus_message_read_basic(reply, type, &value);
                if (r < 0)
                        return r;
                if (type == SD_BUS_TYPE_STRING || type == SD_BUS_TYPE_OBJECT_PATH)
                        put_string(value.string, text);
                else if (type == SD_BUS_TYPE_BOOLEAN)
                        nb_buffer_append_string(text, value.number ? "yes" : "no");
                else if (type == SD_BUS_TYPE_INT32)
                        nb_buffer_printf(text, "%d", value.number);
                else if (type == SD_BUS_TYPE_UINT32)
                        nb_buffer_printf(text, "%" PRIu32, value.number32);
                else if (type == SD_BUS_TYPE_UINT64)
                        nb_buffer_printf(text, "%" PRIu64, value.number64);
        }
        return r < 0 ? r : text->error;
}

int nb_unit_read(const char *unit, struct nb_secret *ret_text, struct nb_failure *f) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(PROPERTIES_MAX);
        _cleanup_(free_message) sd_bus_message *reply = NULL;
        _cleanup_(nb_freep) char *path = NULL;
        int r;

        r = nb_libsystemd_load();
        if (r < 0)
                return fail_to_reach(r, f);
        if (nb_libsystemd.sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path) < 0)
                return nb_failure_set_memory(f);
        r = call_systemd(path, "GetAll", &reply, f, "s", "");
        if (r < 0)
                return r;
        r = put_values(reply, "", "", &text);
        if (r >= 0)
                r = nb_secret_copy(ret_text, text.data, text.len);
        return r < 0 ? nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r,
                                      "cannot read the properties of %s: %m", unit)
                     : 0;
}

const char *nb_unit_find_property(const char *text, const char *name, size_t *ret_len) {
        size_t len = strlen(name);

        for (const char *line = text ? text : ""; *line;
             line += strcspn(line, "\n"), line += *line == '\n') {
                if (strncmp(line, name, len) != 0 || line[len] != '=')
                        continue;
                *ret_len = strcspn(line, "\n") - len - 1;
                return line + len + 1;
        }
        return NULL;
}

const char *nb_unit_next_word(const char *text, const char *property, const char *word,
                              size_t *len) {
        word = word ? word + *len : nb_unit_find_property(text, property, len);
        if (!word)
                return NULL;
        word += strspn(word, " ");
        *len = strcspn(word, " \n");
        return *len > 0 ? word : NULL;
}

bool nb_unit_has_word(const char *text, const char *property, const char *expected) {
        size_t len = 0;

        for (const char *word = NULL; (word = nb_unit_next_word(text, property, word, &len));)
                if (len == strlen(expected) && memcmp(word, expected, len) == 0)
                        return true;
        return false;
}

/* Copies "" if the property is missing. */
static void copy_property(const char *text, const char *name, char *ret, size_t size) {
        size_t len = 0;
        const char *value = nb_unit_find_property(text, name, &len);

        nb_text_copy_line(value ? value : "", len, ret, size);
}

static uint64_t read_number(const char *text, const char *name) {
        size_t len;
        const char *value = nb_unit_find_property(text, name, &len);

        return value ? strtoull(value, NULL, 10) : 0;
}

void nb_unit_read_state(const char *text, struct nb_unit_state *ret_state) {
        copy_property(text, "LoadState", ret_state->load, sizeof(ret_state->load));
        copy_property(text, "ActiveState", ret_state->active, sizeof(ret_state->active));
        copy_property(text, "SubState", ret_state->sub, sizeof(ret_state->sub));
        copy_property(text, "StatusText", ret_state->status, sizeof(ret_state->status));
        ret_state->is_enabled = nb_unit_has_word(text, "UnitFileState", "enabled");
        ret_state->has_job = read_number(text, "Job") > 0;
        /* Until a queued start begins, systemd keeps the status of the previous run. */
        if (ret_state->has_job && strcmp(ret_state->active, "activating") != 0 &&
            strcmp(ret_state->active, "active") != 0)
                ret_state->status[0] = '\0';
        copy_property(text, "Result", ret_state->result, sizeof(ret_state->result));
        ret_state->has_exited = read_number(text, "ExecMainCode") == CLD_EXITED;
        ret_state->exit_status = (int)read_number(text, "ExecMainStatus");
        ret_state->active_since = read_number(text, "ActiveEnterTimestampMonotonic");
        ret_state->begun = (time_t)(read_number(text, "InactiveExitTimestamp") / 1000000);
        ret_state->n_restarts = (unsigned)read_number(text, "NRestarts");
}

int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        int r = nb_unit_read(unit, &text, f);

        if (r >= 0)
                nb_unit_read_state(text.data, ret_state);
        return r;
}

static bool find_blocker(const char *unit, unsigned depth, char ret[static NB_UNIT_NAME_SIZE]) {
        _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
        struct nb_failure ignored = { 0 };
        struct nb_unit_state state;
        char name[NB_UNIT_NAME_SIZE];
        size_t len = 0;

        if (nb_unit_read(unit, &text, &ignored) < 0)
                return false;
        for (const char *word = NULL; (word = nb_unit_next_word(text.data, "After", word, &len));) {
                snprintf(name, sizeof(name), "%.*s", (int)len, word);
                if (nb_unit_show(name, &state, &ignored) < 0 || !state.has_job)
                        continue;
                /* A unit with a job that does not start yet waits for another one. */
                if (!strcmp(state.active, "activating") || depth == 0 ||
                    !find_blocker(name, depth - 1, ret))
                        memcpy(ret, name, sizeof(name));
                return true;
        }
        return false;
}

void nb_unit_find_blocker(const char *unit, char ret[static NB_UNIT_NAME_SIZE]) {
        ret[0] = '\0';
        (void)find_blocker(unit, BLOCKER_DEPTH, ret);
}

bool nb_unit_is_at_rest(const struct nb_unit_state *state) {
        return !state->has_job &&
               (!strcmp(state->active, "active") || !strcmp(state->active, "inactive") ||
                !strcmp(state->active, "failed"));
}

uint64_t nb_unit_active_usec(const struct nb_unit_state *state) {
        struct timespec now;
        uint64_t now_usec;

        /* systemd's clock, which a suspended machine stops, unlike that of nb_now_usec(). In a time
         * namespace, it may be behind systemd's. */
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        now_usec = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        return now_usec > state->active_since ? now_usec - state->active_since : 0;
}

bool nb_unit_is_settled(const struct nb_unit_state *state, uint64_t usec) {
        return nb_unit_active_usec(state) >= usec;
}
