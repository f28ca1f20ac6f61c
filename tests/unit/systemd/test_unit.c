/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "base/macro.h"
#include "systemd/libsystemd_internal.h"
#include "systemd/unit.h"

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
        PUT(message, "NeedDaemonReload", "b", 1);
        PUT(message, "FragmentPath", "s", "/lib/a.service");
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
        assert_true(unit.state.is_enabled && !unit.state.has_job && unit.is_outdated);
        assert_string_equal(unit.fragment, "/lib/a.service");
        nb_unit_done(&unit);
}

static void lists_strings(void **state) {
        sd_bus_message *message = begin();
        struct nb_unit unit = { 0 };

        PUT(message, "After", "as", 2, "a.service", "b.service");
        PUT(message, "Requires", "as", 0);
        PUT(message, "ExecStart", "a(sasbttttuii)", 1, "/bin/k", 2, "k", "--x=a b\nA=c", 0,
            UINT64_C(0), UINT64_C(0), UINT64_C(0), UINT64_C(0), 0U, 0, 0);
        PUT(message, "ExecStartPre", "a(sasbttttuii)", 1, "/bin/p", 1, "p", 0, UINT64_C(0),
            UINT64_C(0), UINT64_C(0), UINT64_C(0), 0U, 0, 0);
        PUT(message, "ImportCredential", "as", 1, "name.*");
        PUT(message, "EnvironmentFiles", "a(sb)", 2, "/a b", 1, "/c", 0);
        PUT(message, "LoadCredentialEncrypted", "a(ss)", 1, "name", "/path");
        assert_int_equal(parse(message, &unit), 0);
        ASSERT_LIST(&unit, NB_UNIT_AFTER, "a.service", "b.service");
        ASSERT_LIST(&unit, NB_UNIT_COMMAND, "/bin/k", "k", "--x=a b\nA=c");
        ASSERT_LIST(&unit, NB_UNIT_ENVIRONMENT_FILES, "/a b", "/c");
        ASSERT_LIST(&unit, NB_UNIT_ENCRYPTED, "name", "/path");
        ASSERT_LIST(&unit, NB_UNIT_COMMANDS_BEFORE, "/bin/p", "p");
        ASSERT_LIST(&unit, NB_UNIT_IMPORTED, "name.*");
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

struct rest_case {
        const char *name;
        struct nb_unit_state state;
        bool is_at_rest;
};

static struct rest_case rests[] = {
        { "at rest: active", { .active = "active" }, true },
        { "at rest: inactive", { .active = "inactive" }, true },
        { "at rest: failed", { .active = "failed" }, true },
        { "at rest: active, and to be stopped", { .active = "active", .has_job = true }, false },
        { "at rest: it starts", { .active = "activating" }, false },
        { "at rest: it ends", { .active = "deactivating" }, false },
        { "at rest: unknown", { .active = "" }, false },
};

static void is_at_rest(void **state) {
        const struct rest_case *c = *state;

        assert_int_equal(nb_unit_is_at_rest(&c->state), c->is_at_rest);
        assert_true(nb_unit_is(&c->state, c->state.active));
        assert_false(nb_unit_is(&c->state, "maintenance"));
}

/* systemd's clock may be ahead of that of a time namespace. */
static void knows_its_age(void **state) {
        struct nb_unit_state unit = { .active = "active" };
        uint64_t age = nb_unit_active_usec(&unit);

        assert_true(age > 0);
        assert_true(nb_unit_is_settled(&unit, age));
        unit.active_since = age;
        assert_true(nb_unit_active_usec(&unit) < age);
        assert_false(nb_unit_is_settled(&unit, age));
        unit.active_since = UINT64_MAX;
        assert_int_equal(nb_unit_active_usec(&unit), 0);
        assert_false(nb_unit_is_settled(&unit, 1));
}

/* --- Calls --- */

struct job {
        const char *path;
        const char *unit, *state, *before; /* what is before it; NULL: nothing */
};

static const struct job *jobs;
static size_t n_jobs;
static const char *refusal;    /* of every call; NULL: it is answered */
static sd_bus_message *answer; /* to GetAll */
static unsigned n_calls;
static sd_bus_message *sent; /* the arguments, if they are not only strings */
static char last_call[256];  /* "method path argument ..." */

static int fake_open(sd_bus **ret) {
        return sd_bus_new(ret);
}

static int fake_start(sd_bus *unused) {
        return 0;
}

static sd_bus_message *answer_before(const char *path) {
        sd_bus_message *message = NULL;

        assert_true(sd_bus_message_new_signal(bus, &message, "/a", "a.b", "C") >= 0);
        assert_true(sd_bus_message_open_container(message, 'a', "(usssoo)") >= 0);
        for (size_t i = 0; i < n_jobs; i++)
                if (!strcmp(jobs[i].path, path) && jobs[i].unit)
                        assert_true(sd_bus_message_append(message, "(usssoo)", 1, jobs[i].unit,
                                                          "start", jobs[i].state, jobs[i].before,
                                                          "/u") >= 0);
        assert_true(sd_bus_message_close_container(message) >= 0);
        assert_true(sd_bus_message_seal(message, 1, 0) >= 0);
        return message;
}

static int fake_call(sd_bus *unused, const char *destination, const char *path,
                     const char *interface, const char *member, sd_bus_error *ret_error,
                     sd_bus_message **ret_reply, const char *types, va_list arguments) {
        size_t len = (size_t)snprintf(last_call, sizeof(last_call), "%s %s", member, path);

        n_calls++;
        if (strchr(types, '(')) {
                assert_true(sd_bus_message_new_method_call(bus, &sent, destination, path, interface,
                                                           member) >= 0);
                assert_true(sd_bus_message_appendv(sent, types, arguments) >= 0);
                assert_true(sd_bus_message_seal(sent, 1, 0) >= 0);
                types = "";
        }
        for (; *types; types++)
                len += (size_t)snprintf(last_call + len, sizeof(last_call) - len, " %s",
                                        va_arg(arguments, const char *));
        if (refusal)
                return sd_bus_error_set(ret_error, "a.b", refusal);
        if (!strcmp(member, "GetBefore"))
                *ret_reply = answer_before(path);
        if (!strcmp(member, "GetAll"))
                *ret_reply = TAKE(answer);
        return 0;
}

static void fake_systemd(const char *refused) {
        nb_libsystemd.sd_bus_open_system = fake_open;
        nb_libsystemd.sd_bus_start = fake_start;
        nb_libsystemd.sd_bus_call_methodv = fake_call;
        refusal = refused;
        n_calls = 0;
        last_call[0] = '\0';
}

struct blocker_case {
        const char *name;
        const char *job; /* NULL: none */
        struct job jobs[3];
        const char *refusal;
        const char *blocker;
        unsigned n_calls;
};

static struct blocker_case blockers[] = {
        { "blocker: a unit without a job waits for none",
          NULL,
          { { "/j/1", "b.service", "running", "/j/2" } },
          NULL,
          "",
          0 },
        { "blocker: nothing is before it", "/j/1", { { "/j/1", NULL, NULL, NULL } }, NULL, "", 1 },
        { "blocker: a unit that starts",
          "/j/1",
          { { "/j/1", "b.service", "running", "/j/2" } },
          NULL,
          "b.service",
          1 },
        { "blocker: the one that the other one waits for",
          "/j/1",
          { { "/j/1", "b.service", "waiting", "/j/2" },
            { "/j/2", "c.service", "running", "/j/3" } },
          NULL,
          "c.service",
          2 },
        { "blocker: one that waits, nobody knows for what",
          "/j/1",
          { { "/j/1", "b.service", "waiting", "/j/2" } },
          NULL,
          "b.service",
          2 },
        { "blocker: two that wait for each other",
          "/j/1",
          { { "/j/1", "b.service", "waiting", "/j/2" },
            { "/j/2", "c.service", "waiting", "/j/1" } },
          NULL,
          "c.service",
          8 },
        { "blocker: the job is over meanwhile",
          "/j/1",
          { { "/j/1", "b.service", "running", "/" } },
          "no such job",
          "",
          1 },
};

static void finds_blocker(void **state) {
        const struct blocker_case *c = *state;
        struct nb_unit_state unit = { .has_job = c->job };
        char blocker[NB_UNIT_NAME_SIZE] = "before";

        (void)snprintf(unit.job, sizeof(unit.job), "%s", c->job ? c->job : "/");
        fake_systemd(c->refusal);
        jobs = c->jobs;
        for (n_jobs = 0; n_jobs < N_ELEMENTS(c->jobs) && c->jobs[n_jobs].path;)
                n_jobs++;
        nb_unit_find_blocker(&unit, blocker);
        assert_string_equal(blocker, c->blocker);
        assert_int_equal(n_calls, c->n_calls);
}

static void asks_systemd(void **state) {
        static char value[NB_UNIT_LIST_MAX + 1];
        struct nb_unit_state found = { .load = "before" };
        struct nb_unit unit = { .fragment = "before" };
        struct nb_failure f = { 0 };

        fake_systemd(NULL);
        answer = begin();
        PUT(answer, "LoadState", "s", "not-found");
        assert_true(sd_bus_message_close_container(answer) >= 0);
        assert_true(sd_bus_message_seal(answer, 1, 0) >= 0);
        assert_int_equal(nb_unit_show("a-b.service", &found, &f), 0);
        assert_string_equal(found.load, "not-found");
        assert_string_equal(last_call, "GetAll /org/freedesktop/systemd1/unit/a_2db_2eservice ");
        memset(value, 'x', NB_UNIT_LIST_MAX);
        answer = begin();
        PUT(answer, "After", "as", 1, value);
        assert_true(sd_bus_message_close_container(answer) >= 0);
        assert_true(sd_bus_message_seal(answer, 1, 0) >= 0);
        assert_true(nb_unit_read("a.service", &unit, &f) < 0);
        assert_string_equal(unit.fragment, "before");
        assert_non_null(strstr(f.detail, "the properties of a.service"));
        fake_systemd("not permitted");
        f = (struct nb_failure){ 0 };
        assert_true(nb_unit_show("a.service", &found, &f) < 0);
        assert_string_equal(found.load, "not-found");
        assert_int_equal(f.code, NB_SETUP_COMMAND_FAILED);
        assert_string_equal(f.detail, "systemd: GetAll failed: not permitted");
        f = (struct nb_failure){ 0 };
        assert_true(nb_unit_queue("StartUnit", "a.service", &f) < 0);
        assert_string_equal(f.detail, "systemd: StartUnit failed: not permitted");
        assert_string_equal(last_call, "StartUnit /org/freedesktop/systemd1 a.service replace");
        /* A unit that is not loaded has no limit to reset. */
        nb_unit_reset_limit("b.service");
        assert_string_equal(last_call, "ResetFailedUnit /org/freedesktop/systemd1 b.service");
}

/* As the unit would: an encrypted credential is not loaded as if it were none. */
static void loads_a_credential(void **state) {
        for (int is_sealed = 0; is_sealed < 2; is_sealed++) {
                _cleanup_(nb_freep) char *text = NULL;
                size_t len = 0, n = 0;
                FILE *stream = open_memstream(&text, &len);
                struct nb_failure f = { 0 };

                fake_systemd(NULL);
                assert_int_equal(nb_unit_load_credential("c.service", is_sealed, "n", "/p", &f), 0);
                assert_true(sd_bus_message_dump(sent, stream, 0) >= 0);
                (void)fclose(stream);
                sd_bus_message_unref(sent);
                /* Its strings, without the layout. */
                for (size_t k = 0; k < len; k++)
                        if (!strchr(" \n\t", text[k]))
                                text[n++] = text[k];
                text[n] = '\0';
                assert_non_null(strstr(text, "STRING\"c.service\";STRING\"replace\";"));
                assert_non_null(strstr(text, is_sealed ? "STRING\"LoadCredentialEncrypted\";"
                                                       : "STRING\"LoadCredential\";"));
                assert_non_null(strstr(text, "STRING\"n\";STRING\"/p\";"));
        }
}

/* The build of an image may have the host's /run, but its own files and no /proc. */
static void a_chroot_has_no_systemd(void **state) {
        char root[] = "/tmp/nb-chroot-XXXXXX", path[64];
        struct nb_failure f = { 0 };
        int status;
        pid_t pid;

        assert_non_null(mkdtemp(root));
        (void)snprintf(path, sizeof(path), "mkdir -p %s/run/systemd/system", root);
        assert_int_equal(system(path), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                if ((geteuid() != 0 && unshare(CLONE_NEWUSER) < 0) || chroot(root) < 0 ||
                    chdir("/") < 0)
                        _exit(77);
                fake_systemd("not permitted");
                /* Without systemd, systemctl(1) makes the links; this folder has none. */
                _exit(nb_systemd_is_running() || nb_systemd_reload(&f) != 0 ||
                      nb_unit_enable("a.service", true, &f) >= 0 ||
                      f.code != NB_SETUP_COMMAND_FAILED || !strstr(f.detail, "systemctl") ||
                      n_calls > 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        (void)snprintf(path, sizeof(path), "rm -r %s", root);
        assert_int_equal(system(path), 0);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
                skip();
        assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void) {
        CASES(rests, is_at_rest);
        CASE(knows_its_age);
        CASE(reads_a_state);
        CASE(lists_strings);
        CASE(forgets_the_status_of_a_queued_unit);
        CASE(refuses_a_list_that_is_too_long);
        CASES(blockers, finds_blocker);
        CASE(asks_systemd);
        CASE(loads_a_credential);
        CASE(a_chroot_has_no_systemd);
        return _cmocka_run_group_tests("unit", case_list, n_cases, setup, teardown);
}
