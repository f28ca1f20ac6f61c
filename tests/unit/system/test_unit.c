/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "base/macro.h"
#include "system/libsystemd_internal.h"
#include "system/unit.h"

#include "case.h"

static int pair[2];
static sd_bus *bus;

static int setup(void **state) {
        return nb_libsystemd_load() < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 ||
               sd_bus_new(&bus) < 0 || sd_bus_set_fd(bus, pair[0], pair[0]) < 0 ||
               sd_bus_start(bus) < 0;
}

static int teardown(void **state) {
        sd_bus_unref(bus);
        return close(pair[1]);
}

/* As in the answer to GetAll. */
#define PUT(message, name, type, ...) \
        assert_true(sd_bus_message_append(message, "{sv}", name, type, __VA_ARGS__) >= 0)

static sd_bus_message *begin(void) {
        sd_bus_message *message = NULL;

        assert_true(sd_bus_message_new_signal(bus, &message, "/a", "a.b", "C") >= 0);
        assert_true(sd_bus_message_open_container(message, 'a', "{sv}") >= 0);
        return message;
}

static int parse(sd_bus_message *message, struct nb_unit *ret_unit) {
        int r;

        assert_true(sd_bus_message_close_container(message) >= 0);
        assert_true(sd_bus_message_seal(message, 1, 0) >= 0);
        r = nb_unit_parse(message, ret_unit);
        sd_bus_message_unref(message);
        return r;
}

static void assert_list(const struct nb_unit *unit, enum nb_unit_list list, size_t n,
                        const char *const expected[]) {
        const char *found = NULL;

        for (size_t i = 0; i < n; i++) {
                found = nb_unit_next(unit, list, found);
                assert_non_null(found);
                assert_string_equal(found, expected[i]);
                assert_true(nb_unit_has(unit, list, expected[i]));
        }
        assert_null(nb_unit_next(unit, list, found));
}
#define ASSERT_LIST(unit, list, ...) \
        assert_list(unit, list, N_ELEMENTS(((const char *const[]){ __VA_ARGS__ })), \
                    (const char *const[]){ __VA_ARGS__ })

static void reads_a_state(void **state) {
        sd_bus_message *message = begin();
        struct nb_unit unit = { 0 };

        PUT(message, "Unknown", "a{s(ii)}", 1, "x", 1, 2);
        PUT(message, "ActiveState", "s", "failed");
        PUT(message, "UnitFileState", "s", "enabled");
        PUT(message, "Job", "(uo)", 0, "/");
        PUT(message, "StatusText", "s", "a\nb\x1b[2J");
        PUT(message, "Result", "s", "exit-code");
        PUT(message, "ExecMainCode", "i", CLD_EXITED);
        PUT(message, "ExecMainStatus", "i", 243);
        PUT(message, "NRestarts", "u", 4U);
        PUT(message, "ActiveEnterTimestampMonotonic", "t", UINT64_C(1) << 40);
        PUT(message, "PrivateUsers", "b", 1);
        PUT(message, "InvocationID", "ay", 3, 0x0a, 0x00, 0xff);
        assert_int_equal(parse(message, &unit), 0);
        assert_string_equal(unit.state.active, "failed");
        assert_string_equal(unit.state.load, "");
        assert_string_equal(unit.state.status, "a b [2J");
        assert_string_equal(unit.state.invocation, "0a00ff");
        assert_int_equal(unit.state.exit_code, CLD_EXITED);
        assert_int_equal(unit.state.exit_status, 243);
        assert_int_equal(unit.state.n_restarts, 4);
        assert_int_equal(unit.state.active_since, UINT64_C(1) << 40);
        assert_true(unit.state.is_enabled && !unit.state.has_job && unit.has_private_users);
        nb_unit_done(&unit);
}

static void lists_strings(void **state) {
        sd_bus_message *message = begin();
        struct nb_unit unit = { 0 };

        PUT(message, "After", "as", 2, "a.service", "b.service");
        PUT(message, "Requires", "as", 0);
        PUT(message, "ExecStart", "a(sasbttttuii)", 1, "/bin/k", 2, "k", "--x=a b\nA=c", 0,
            UINT64_C(0), UINT64_C(0), UINT64_C(0), UINT64_C(0), 0U, 0, 0);
        PUT(message, "EnvironmentFiles", "a(sb)", 2, "/a b", 1, "/c", 0);
        PUT(message, "LoadCredentialEncrypted", "a(ss)", 1, "name", "/path");
        PUT(message, "SetCredentialEncrypted", "a(say)", 1, "name", 2, 1, 2);
        assert_int_equal(parse(message, &unit), 0);
        ASSERT_LIST(&unit, NB_UNIT_AFTER, "a.service", "b.service");
        ASSERT_LIST(&unit, NB_UNIT_COMMAND, "/bin/k", "k", "--x=a b\nA=c");
        ASSERT_LIST(&unit, NB_UNIT_ENVIRONMENT_FILES, "/a b", "/c");
        ASSERT_LIST(&unit, NB_UNIT_ENCRYPTED, "name", "/path");
        ASSERT_LIST(&unit, NB_UNIT_SET_ENCRYPTED, "name");
        assert_null(nb_unit_next(&unit, NB_UNIT_REQUIRES, NULL));
        assert_null(nb_unit_next(&unit, NB_UNIT_WANTED_BY, NULL));
        assert_false(nb_unit_has(&unit, NB_UNIT_AFTER, "a.serv"));
        nb_unit_done(&unit);
}

/* systemd keeps the status of the previous run. */
static void forgets_the_status_of_a_queued_unit(void **state) {
        sd_bus_message *message = begin();
        struct nb_unit unit = { 0 };

        PUT(message, "ActiveState", "s", "inactive");
        PUT(message, "StatusText", "s", "Joined");
        PUT(message, "Job", "(uo)", 7, "/org/freedesktop/systemd1/job/7");
        assert_int_equal(parse(message, &unit), 0);
        assert_true(unit.state.has_job);
        assert_string_equal(unit.state.status, "");
        nb_unit_done(&unit);
}

static void refuses_a_list_that_is_too_long(void **state) {
        static char value[NB_UNIT_LIST_MAX + 1];
        sd_bus_message *message = begin();
        struct nb_unit unit = { 0 };

        memset(value, 'x', NB_UNIT_LIST_MAX);
        PUT(message, "Environment", "as", 1, value);
        assert_int_equal(parse(message, &unit), -E2BIG);
        nb_unit_done(&unit);
}

int main(void) {
        CASE(reads_a_state);
        CASE(lists_strings);
        CASE(forgets_the_status_of_a_queued_unit);
        CASE(refuses_a_list_that_is_too_long);
        return _cmocka_run_group_tests("unit", case_list, n_cases, setup, teardown);
}
