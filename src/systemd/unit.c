/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
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
#include "os/process.h"
#include "systemd/libsystemd_internal.h"
#include "systemd/unit.h"

#define SYSTEMD "org.freedesktop.systemd1"
#define SYSTEMD_PATH "/org/freedesktop/systemd1"
#define MANAGER SYSTEMD_PATH, SYSTEMD ".Manager"
#define SYSTEMD_SOCKET "/run/systemd/private"
#define RELOAD_TIMEOUT_USEC ((uint64_t)180 * 1000000) /* as systemctl; other calls: 25 s */
#define BLOCKER_DEPTH 8                               /* of units that wait for each other */

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

        /* In a chroot, /run may be that of the host, whose systemd manages other files. Without
         * /proc, this is one. */
        return access("/run/systemd/system", F_OK) == 0 && access("/proc/self", F_OK) == 0 &&
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

/* Calls a method of the manager, or of `interface` of the object `path`. `types` and what follows
 * as for sd_bus_call_method(3). */
static int call_systemd(const char *path, const char *interface, const char *method,
                        sd_bus_message **ret_reply, struct nb_failure *f, const char *types, ...) {
        _cleanup_(close_bus) sd_bus *bus = NULL;
        _cleanup_(free_error) sd_bus_error error = SD_BUS_ERROR_NULL;
        va_list arguments;
        int r = open_bus(&bus);

        if (r < 0)
                return fail_to_reach(r, f);
        if (!strcmp(method, "Reload"))
                (void)nb_libsystemd.sd_bus_set_method_call_timeout(bus, RELOAD_TIMEOUT_USEC);
        va_start(arguments, types);
        r = nb_libsystemd.sd_bus_call_methodv(bus, SYSTEMD, path, interface, method, &error,
                                              ret_reply, types, arguments);
        va_end(arguments);
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r, "systemd: %s failed: %s",
                                      method, error.message ? error.message : "no reason");
        return 0;
}

int nb_systemd_reload(struct nb_failure *f) {
        return nb_systemd_is_running() ? call_systemd(MANAGER, "Reload", NULL, f, "") : 0;
}

int nb_unit_queue(const char *method, const char *unit, struct nb_failure *f) {
        return call_systemd(MANAGER, method, NULL, f, "ss", unit, "replace");
}

int nb_unit_load_credential(const char *unit, bool is_sealed, const char *name, const char *path,
                            struct nb_failure *f) {
        return call_systemd(MANAGER, "StartTransientUnit", NULL, f, "ssa(sv)a(sa(sv))", unit,
                            "replace", 4, "Type", "s", "oneshot", "DefaultDependencies", "b", 0,
                            is_sealed ? "LoadCredentialEncrypted" : "LoadCredential", "a(ss)", 1,
                            name, path, "ExecStart", "a(sasb)", 1, "/bin/true", 1, "/bin/true", 0,
                            0);
}

void nb_unit_reset_limit(const char *unit) {
        struct nb_failure ignored = { 0 };

        /* A unit that is not loaded has no counter. */
        (void)call_systemd(MANAGER, "ResetFailedUnit", NULL, &ignored, "s", unit);
}

int nb_unit_enable(const char *unit, bool is_enabled, struct nb_failure *f) {
        const char *const argv[] = { "systemctl", is_enabled ? "enable" : "disable", "--quiet",
                                     unit, NULL };
        struct nb_process_result result;
        int r;

        if (nb_systemd_is_running() && is_enabled)
                return call_systemd(MANAGER, "EnableUnitFiles", NULL, f, "asbb", 1, unit, false,
                                    false);
        if (nb_systemd_is_running())
                return call_systemd(MANAGER, "DisableUnitFiles", NULL, f, "asb", 1, unit, false);
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

static const struct property {
        const char *name;
        enum { TEXT, NUMBER, LIST } kind;
        size_t offset, size;
} properties[] = {
#define ROW(name, kind, member) \
        { name, kind, offsetof(struct nb_unit, member), sizeof(((struct nb_unit *)NULL)->member) }
        ROW("LoadState", TEXT, state.load),
        ROW("ActiveState", TEXT, state.active),
        ROW("SubState", TEXT, state.sub),
        ROW("UnitFileState", TEXT, state.file),
        ROW("StatusText", TEXT, state.status),
        ROW("Result", TEXT, state.result),
        ROW("Job", TEXT, state.job),
        ROW("InvocationID", TEXT, state.invocation),
        ROW("MainPID", NUMBER, state.main_pid),
        ROW("ExecMainCode", NUMBER, state.exit_code),
        ROW("ExecMainStatus", NUMBER, state.exit_status),
        ROW("ActiveEnterTimestampMonotonic", NUMBER, state.active_since),
        ROW("ActiveExitTimestampMonotonic", NUMBER, state.active_until),
        ROW("InactiveEnterTimestampMonotonic", NUMBER, state.inactive_since),
        ROW("StateChangeTimestampMonotonic", NUMBER, state.changed_since),
        ROW("InactiveExitTimestamp", NUMBER, state.begun_usec),
        ROW("NRestarts", NUMBER, state.n_restarts),
        ROW("ConditionResult", NUMBER, state.is_condition_met),
        ROW("ConditionTimestamp", NUMBER, state.condition_usec),
        ROW("FragmentPath", TEXT, fragment),
        ROW("NeedDaemonReload", NUMBER, is_outdated),
        ROW("After", LIST, lists[NB_UNIT_AFTER]),
        ROW("Requires", LIST, lists[NB_UNIT_REQUIRES]),
        ROW("WantedBy", LIST, lists[NB_UNIT_WANTED_BY]),
        ROW("RequiredBy", LIST, lists[NB_UNIT_REQUIRED_BY]),
        ROW("DropInPaths", LIST, lists[NB_UNIT_DROP_INS]),
        ROW("ExecStart", LIST, lists[NB_UNIT_COMMAND]),
        ROW("ExecCondition", LIST, lists[NB_UNIT_COMMANDS_BEFORE]),
        ROW("ExecStartPre", LIST, lists[NB_UNIT_COMMANDS_BEFORE]),
        ROW("Environment", LIST, lists[NB_UNIT_ENVIRONMENT]),
        ROW("EnvironmentFiles", LIST, lists[NB_UNIT_ENVIRONMENT_FILES]),
        ROW("LoadCredential", LIST, lists[NB_UNIT_CREDENTIALS]),
        ROW("LoadCredentialEncrypted", LIST, lists[NB_UNIT_ENCRYPTED]),
        ROW("ImportCredential", LIST, lists[NB_UNIT_IMPORTED]),
#undef ROW
};

static void store_text(const struct property *property, const char *text, char *to) {
        if (property->kind == LIST)
                nb_buffer_append((struct nb_buffer *)(void *)to, text, strlen(text) + 1);
        else if (property->kind == TEXT)
                nb_text_copy_line(text, strlen(text), to, property->size);
}

/* All strings of a value are the members of a list; a text or number is its last one, and a text
 * may be an array of bytes. */
static int read_value(sd_bus_message *reply, const struct property *property, char *to) {
        const char *types;
        union {
                const char *string;
                uint8_t byte;
                uint64_t number;
        } value;
        char type;
        int r;

        while ((r = nb_libsystemd.sd_bus_message_peek_type(reply, &type, &types)) > 0) {
                if (types) {
                        r = nb_libsystemd.sd_bus_message_enter_container(reply, type, types);
                        if (r >= 0)
                                r = read_value(reply, property, to);
                        if (r >= 0)
                                r = nb_libsystemd.sd_bus_message_exit_container(reply);
                } else {
                        r = nb_libsystemd.sd_bus_message_read_basic(reply, type, &value);
                }
                if (r < 0)
                        return r;
                if (types)
                        continue;
                if (type == SD_BUS_TYPE_STRING || type == SD_BUS_TYPE_OBJECT_PATH)
                        store_text(property, value.string, to);
                else if (property->kind == NUMBER) /* of the size of the member */
                        memcpy(to, &value, property->size);
                else if (property->kind == TEXT && type == SD_BUS_TYPE_BYTE)
                        snprintf(to + strlen(to), property->size - strlen(to), "%02x", value.byte);
        }
        return r;
}

static int read_property(sd_bus_message *reply, struct nb_unit *unit) {
        const struct property *property = NULL;
        const char *name;
        int r = nb_libsystemd.sd_bus_message_read_basic(reply, SD_BUS_TYPE_STRING, &name);

        if (r < 0)
                return r;
        for (size_t i = 0; i < N_ELEMENTS(properties) && !property; i++)
                if (!strcmp(properties[i].name, name))
                        property = &properties[i];
        return property ? read_value(reply, property, (char *)unit + property->offset)
                        : nb_libsystemd.sd_bus_message_skip(reply, "v");
}

int nb_unit_parse(sd_bus_message *reply, struct nb_unit *ret_unit) {
        struct nb_unit_state *state = &ret_unit->state;
        int r = nb_libsystemd.sd_bus_message_enter_container(reply, SD_BUS_TYPE_ARRAY, "{sv}");

        for (size_t i = 0; i < _NB_UNIT_LIST_N; i++)
                ret_unit->lists[i] = (struct nb_buffer)NB_BUFFER_INIT(NB_UNIT_LIST_MAX);
        while (r >= 0 && (r = nb_libsystemd.sd_bus_message_enter_container(
                                  reply, SD_BUS_TYPE_DICT_ENTRY, "sv")) > 0) {
                r = read_property(reply, ret_unit);
                if (r >= 0)
                        r = nb_libsystemd.sd_bus_message_exit_container(reply);
        }
        for (size_t i = 0; i < _NB_UNIT_LIST_N && r >= 0; i++)
                r = ret_unit->lists[i].error;
        state->is_enabled = !strcmp(state->file, "enabled");
        /* "/" without a job. */
        state->has_job = strlen(state->job) > 1;
        /* Until a queued start begins, systemd keeps the status of the previous run. */
        if (state->has_job && !nb_unit_is(state, "activating") && !nb_unit_is(state, "active"))
                state->status[0] = '\0';
        return r;
}

int nb_unit_read(const char *unit, struct nb_unit *ret_unit, struct nb_failure *f) {
        _cleanup_(nb_unit_done) struct nb_unit found = { 0 };
        _cleanup_(free_message) sd_bus_message *reply = NULL;
        _cleanup_(nb_freep) char *path = NULL;
        int r;

        r = nb_libsystemd_load();
        if (r < 0)
                return fail_to_reach(r, f);
        if (nb_libsystemd.sd_bus_path_encode(SYSTEMD_PATH "/unit", unit, &path) < 0)
                return nb_failure_set_memory(f);
        r = call_systemd(path, "org.freedesktop.DBus.Properties", "GetAll", &reply, f, "s", "");
        if (r < 0)
                return r;
        r = nb_unit_parse(reply, &found);
        if (r < 0)
                return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r,
                                      "cannot read the properties of %s: %m", unit);
        *ret_unit = TAKE(found);
        return 0;
}

void nb_unit_done(struct nb_unit *unit) {
        for (size_t i = 0; i < _NB_UNIT_LIST_N; i++)
                nb_buffer_done(&unit->lists[i]);
}

const char *nb_unit_next(const struct nb_unit *unit, enum nb_unit_list list, const char *previous) {
        const struct nb_buffer *strings = &unit->lists[list];
        const char *next = previous ? previous + strlen(previous) + 1 : strings->data;

        return next && next < strings->data + strings->len ? next : NULL;
}

bool nb_unit_has(const struct nb_unit *unit, enum nb_unit_list list, const char *expected) {
        const char *string = NULL;

        while ((string = nb_unit_next(unit, list, string)) && strcmp(string, expected) != 0)
                ;
        return string;
}

int nb_unit_show(const char *unit, struct nb_unit_state *ret_state, struct nb_failure *f) {
        _cleanup_(nb_unit_done) struct nb_unit found = { 0 };
        int r = nb_unit_read(unit, &found, f);

        if (r >= 0)
                *ret_state = found.state;
        return r;
}

static void find_blocker(const char *job, unsigned depth, char ret[static NB_UNIT_NAME_SIZE]) {
        _cleanup_(free_message) sd_bus_message *reply = NULL;
        const char *unit, *state, *before;
        struct nb_failure ignored = { 0 };

        if (depth == 0 ||
            call_systemd(job, SYSTEMD ".Job", "GetBefore", &reply, &ignored, "") < 0 ||
            nb_libsystemd.sd_bus_message_enter_container(reply, SD_BUS_TYPE_ARRAY, "(usssoo)") <
                    0 ||
            nb_libsystemd.sd_bus_message_read(reply, "(usssoo)", NULL, &unit, NULL, &state, &before,
                                              NULL) <= 0)
                return;
        snprintf(ret, NB_UNIT_NAME_SIZE, "%s", unit);
        /* A job that waits itself waits for another one. */
        if (strcmp(state, "running") != 0)
                find_blocker(before, depth - 1, ret);
}

void nb_unit_find_blocker(const struct nb_unit_state *state, char ret[static NB_UNIT_NAME_SIZE]) {
        ret[0] = '\0';
        if (state->has_job)
                find_blocker(state->job, BLOCKER_DEPTH, ret);
}

bool nb_unit_is(const struct nb_unit_state *state, const char *active) {
        return !strcmp(state->active, active);
}

bool nb_unit_is_at_rest(const struct nb_unit_state *state) {
        return !state->has_job && (nb_unit_is(state, "active") || nb_unit_is(state, "inactive") ||
                                   nb_unit_is(state, "failed"));
}

/* systemd 254 and newer also know "auto-restart-queued". */
bool nb_unit_awaits_restart(const struct nb_unit_state *state) {
        return !strncmp(state->sub, "auto-restart", strlen("auto-restart"));
}

/* A unit that waits for its restart became inactive when it ended. Later, it also becomes inactive
 * when the restart begins, which may be long after its end. */
bool nb_unit_has_ended_since(const struct nb_unit_state *state, uint64_t since) {
        bool awaits_restart = nb_unit_awaits_restart(state),
             has_ended_last = awaits_restart || nb_unit_is(state, "failed");

        return (awaits_restart || state->n_restarts > 0) &&
               (has_ended_last ? state->inactive_since : state->active_until) >= since;
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
