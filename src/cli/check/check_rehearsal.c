/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/macro.h"
#include "cli/check/check_internal.h"
#include "cli/check/rehearsal_unit.h"
#include "cli/service.h"
#include "os/clock.h"
#include "os/privilege.h"
#include "os/stop.h"
#include "settings/kubelet_unit.h"
#include "systemd/unit.h"

#define FOLDER "/run/systemd/system"
#define MASKS FOLDER "/" NB_REHEARSAL_UNIT ".d"
/* The rehearsal writes its rows to this file. The command that rehearses locks it: only root can
 * open it. The kernel releases the lock of a command that was killed, whose unit is then removed by
 * the next one. */
#define ROWS "/run/node-bootstrap-check"
#define LOOK_MS 50
#define END_MS 10000 /* TimeoutStopSec= of the rehearsal, and time for systemd */
#define COMMAND_MAX 512

static const enum nb_unit_list credential_lists[] = { NB_UNIT_CREDENTIALS, NB_UNIT_ENCRYPTED };

struct rehearsal {
        struct nb_check *check;
        const struct nb_unit *service;
        struct nb_buffer text; /* of the unit */
        bool is_incomplete;    /* a credential is left out */
        unsigned n_rows;       /* of steps */
        int masks_fd, rows_fd;
};

static void rehearsal_done(struct rehearsal *rehearsal) {
        nb_buffer_wipe(&rehearsal->text);
        nb_closep(&rehearsal->masks_fd);
        nb_closep(&rehearsal->rows_fd);
}

static int fail_rehearsal(int r, const char *what, struct nb_failure *f) {
        return nb_failure_set(f, NB_SETUP_COMMAND_FAILED, r,
                              "cannot rehearse the start of " NB_SERVICE_UNIT ": %s: %m", what);
}

/* --- The unit --- */

/* The drop-ins for all services (service.d) would be added after the file of the rehearsal: with
 * their dependencies, and with commands that the file has cleared. What they have in [Service] is
 * copied, and a link of their name masks them (systemd.unit(5), example 3). */
static int copy_unit(struct rehearsal *rehearsal, struct nb_failure *f) {
        const struct nb_unit *service = rehearsal->service;
        const char *next = NULL;

        for (const char *path = service->fragment; path; path = next) {
                _cleanup_(nb_secret_done) struct nb_secret text = NB_SECRET_INIT;
                int r = nb_path_read(-1, path, NB_REHEARSAL_TEXT_MAX, &text);

                if (r >= 0 && symlinkat("/dev/null", rehearsal->masks_fd, basename(path)) < 0 &&
                    errno != EEXIST)
                        r = -errno;
                if (r < 0)
                        return fail_rehearsal(r, path, f);
                nb_rehearsal_copy(text.data, text.len, &rehearsal->text);
                next = nb_unit_next(service, NB_UNIT_DROP_INS, next);
        }
        return 0;
}

/* Or a FIFO, from which systemd reads as well. */
static bool is_socket(const char *path) {
        struct stat st;

        return path[0] == '/' && stat(path, &st) >= 0 &&
               (S_ISSOCK(st.st_mode) || S_ISFIFO(st.st_mode));
}

/* systemd would ask for a credential twice, which may be a token for one use. A later path of the
 * same credential replaces the earlier one, and a name that is in no store is no failure. */
static void leave_sockets_out(struct rehearsal *rehearsal) {
        for (size_t i = 0; i < N_ELEMENTS(credential_lists); i++) {
                const char *name = NULL, *path = NULL;

                while ((name = nb_unit_next(rehearsal->service, credential_lists[i], path)) &&
                       (path = nb_unit_next(rehearsal->service, credential_lists[i], name))) {
                        if (!is_socket(path))
                                continue;
                        nb_buffer_printf(&rehearsal->text,
                                         "LoadCredential=%s:" NB_REHEARSAL_NAME "\n", name);
                        rehearsal->is_incomplete = true;
                        nb_check_row(rehearsal->check, NB_CHECK_DOUBT,
                                     "credential '%s' comes from the socket or FIFO '%s': left "
                                     "out, since asking for it could use up a token",
                                     name, path);
                }
        }
}

/* Conditions of another unit, which look different in the sandbox. As root, systemd-analyze would
 * write to /run. */
static bool is_platform_unread(void) {
        struct nb_failure ignored = { 0 };
        int status = 0, r = nb_privilege_split(&status, &ignored);

        if (r == 0)
                _exit(nb_privilege_reduce(&ignored) >= 0 && nb_check_has_platform_data());
        return r > 0 && status == 1;
}

/* Another program than ours is not run, unless it cannot be executed, so that systemd says why.
 * Nor are the commands before it. */
static void choose_command(const struct rehearsal *rehearsal, char ret[static COMMAND_MAX]) {
        const struct nb_unit *service = rehearsal->service;
        struct nb_check *check = rehearsal->check;
        const char *before = nb_unit_next(service, NB_UNIT_COMMANDS_BEFORE, NULL),
                   *program = nb_unit_next(service, NB_UNIT_COMMAND, NULL),
                   *first = program ? nb_unit_next(service, NB_UNIT_COMMAND, program) : NULL;
        bool is_ours = program && !strcmp(program, NB_INSTALLER) && first &&
                       !nb_unit_next(service, NB_UNIT_COMMAND, first);

        if (before)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "ExecCondition= and ExecStartPre= of drop-ins ('%s') are not "
                             "rehearsed, since they may change something",
                             before);
        if (!is_ours && program && access(program, X_OK) < 0) {
                snprintf(ret, COMMAND_MAX, "\"%s\"", program);
                return;
        }
        if (!is_ours)
                nb_check_row(check, NB_CHECK_DOUBT,
                             "a drop-in has changed ExecStart= ('%s'): not rehearsed",
                             program ? program : "");
        snprintf(ret, COMMAND_MAX, NB_INSTALLER " --rehearsal check --rehearsal%s%s%s%s",
                 check->shows_all ? " --all" : "", check->is_local ? " --local" : "",
                 is_platform_unread() ? " --platform-unread" : "",
                 rehearsal->is_incomplete ? " '--unknown=a credential was left out'" : "");
}

/* --- Begin and end --- */

static int wait_for_end(struct nb_unit_state *ret_state, struct nb_failure *f) {
        uint64_t deadline_ms = nb_now_ms() + END_MS;
        int r;

        while ((r = nb_unit_show(NB_REHEARSAL_UNIT, ret_state, f)) >= 0 &&
               !nb_unit_is_at_rest(ret_state) && nb_now_ms() < deadline_ms)
                (void)poll(NULL, 0, LOOK_MS);
        return r;
}

/* Also of a command that was killed. */
static void end_unit(struct rehearsal *rehearsal) {
        _cleanup_(nb_folder_closep) DIR *masks = nb_folder_list(rehearsal->masks_fd);
        struct nb_failure ignored = { 0 };
        struct nb_unit_state state;
        struct dirent *entry;

        (void)nb_unit_queue("StopUnit", NB_REHEARSAL_UNIT, &ignored);
        (void)wait_for_end(&state, &ignored);
        nb_unit_reset_limit(NB_REHEARSAL_UNIT);
        while (masks && (entry = readdir(masks)))
                (void)unlinkat(rehearsal->masks_fd, entry->d_name, 0);
        (void)unlink(FOLDER "/" NB_REHEARSAL_UNIT);
        (void)!ftruncate(rehearsal->rows_fd, 0);
}

/* Returns once no other command rehearses. */
static int begin(struct rehearsal *rehearsal, struct nb_failure *f) {
        bool is_reported = false;
        int r;

        rehearsal->rows_fd = open(ROWS, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (rehearsal->rows_fd < 0)
                return fail_rehearsal(-errno, ROWS, f);
        while (flock(rehearsal->rows_fd, LOCK_EX | LOCK_NB) < 0) {
                if (!is_reported)
                        nb_check_row(rehearsal->check, NB_CHECK_NOTE,
                                     "waiting for another `node-bootstrap check`");
                is_reported = true;
                r = nb_stop_wait(LOOK_MS);
                if (r < 0)
                        return r;
        }
        r = nb_path_make_folder(-1, MASKS, 0755, &rehearsal->masks_fd);
        if (r < 0)
                return fail_rehearsal(r, MASKS, f);
        end_unit(rehearsal);
        return 0;
}

/* systemd loads a new name without a reload. It does so before it answers, and then no longer needs
 * the file, which may have a secret (SetCredential=). */
static int start_unit(struct rehearsal *rehearsal, struct nb_failure *f) {
        const struct nb_buffer *text = &rehearsal->text;
        _cleanup_(nb_closep) int folder_fd = -1;
        char command[COMMAND_MAX];
        int r = copy_unit(rehearsal, f);

        if (r < 0)
                return r;
        if (rehearsal->service->is_outdated)
                nb_check_row(rehearsal->check, NB_CHECK_DOUBT,
                             "the unit files have changed since systemd read them: run "
                             "`systemctl daemon-reload`");
        nb_buffer_append_string(&rehearsal->text, "[Service]\n");
        leave_sockets_out(rehearsal);
        choose_command(rehearsal, command);
        nb_rehearsal_override(ROWS, command, &rehearsal->text);
        r = text->error;
        if (r >= 0)
                r = nb_folder_open(FOLDER, &folder_fd);
        if (r >= 0)
                r = nb_file_write(folder_fd, NB_REHEARSAL_UNIT, 0600, text->data, text->len);
        if (r < 0)
                return fail_rehearsal(r, FOLDER, f);
        r = nb_unit_queue("StartUnit", NB_REHEARSAL_UNIT, f);
        (void)unlink(FOLDER "/" NB_REHEARSAL_UNIT);
        return r;
}

/* --- Rows --- */

static int take_frame(struct rehearsal *rehearsal, struct nb_check_frame *frame,
                      struct nb_failure *f) {
        if (nb_check_frame_verify(frame) < 0)
                return nb_failure_set(f, NB_INTERNAL, EBADMSG, "the rehearsal sent an invalid row");
        if (frame->step == 0)
                return nb_failure_set(f, NB_INTERNAL, 0, "%s", frame->text);
        if (rehearsal->n_rows++ == 0)
                nb_check_row(rehearsal->check, NB_CHECK_GOOD, "systemd can start " NB_SERVICE_UNIT);
        nb_check_show(&rehearsal->check->output, frame);
        return 0;
}

/* Until the unit has ended. */
static int receive_rows(struct rehearsal *rehearsal, struct nb_unit_state *ret_state,
                        struct nb_failure *f) {
        struct nb_check_frame frame;
        bool has_ended = false;
        off_t at = 0;
        int r = 0;

        while (r >= 0) {
                while (r >= 0 && pread(rehearsal->rows_fd, &frame, sizeof(frame), at) ==
                                         (ssize_t)sizeof(frame)) {
                        at += (off_t)sizeof(frame);
                        r = take_frame(rehearsal, &frame, f);
                }
                if (r < 0 || has_ended)
                        break;
                r = nb_unit_show(NB_REHEARSAL_UNIT, ret_state, f);
                has_ended = nb_unit_is_at_rest(ret_state);
                if (r >= 0 && !has_ended)
                        r = nb_stop_wait(LOOK_MS);
        }
        return r;
}

/* --- Why it has failed --- */

static bool is_credential_at_fault(const struct nb_unit_state *state, struct nb_failure *ret_why) {
        static const struct nb_unit_state no_gate; /* the state of the machine includes it */

        nb_service_find_obstacle(NB_REHEARSAL_UNIT, state, &no_gate, ret_why);
        return ret_why->code == NB_SERVICE_CREDENTIAL;
}

/* Whether systemd cannot load this credential, without any others; says so. */
static bool is_culprit(const char *name, const char *path, bool is_sealed, struct nb_failure *f) {
        struct nb_unit_state state = { .load = "" };
        struct nb_failure why = { 0 };

        if (is_socket(path) || nb_stop_wait(0) < 0 ||
            nb_unit_load_credential(NB_REHEARSAL_UNIT, is_sealed, name, path, &why) < 0 ||
            wait_for_end(&state, &why) < 0)
                return false;
        nb_unit_reset_limit(NB_REHEARSAL_UNIT);
        if (!is_credential_at_fault(&state, &why))
                return false;
        nb_failure_add(f, "; it cannot load '%s' from '%s'", name, path);
        return true;
}

/* systemd does not log which credential it cannot load, so each one is tried alone: those with a
 * path, and then what is in the stores. */
static void find_culprit(const struct nb_unit *service, struct nb_failure *f) {
        const char *name = NULL, *path = NULL;

        for (unsigned i = 0; i < 2; i++)
                while ((name = nb_unit_next(service, credential_lists[i], path)) &&
                       (path = nb_unit_next(service, credential_lists[i], name)))
                        if (path[0] == '/' && is_culprit(name, path, i > 0, f))
                                return;
        for (unsigned i = 0; i < NB_STORES_N * _NB_CREDENTIAL_N; i++) {
                const struct nb_store *store = &nb_stores[i / _NB_CREDENTIAL_N];
                char file[PATH_MAX];
                struct stat st;

                name = nb_credential_names[i % _NB_CREDENTIAL_N];
                snprintf(file, sizeof(file), "%s/%s", store->folder, name);
                if (lstat(file, &st) >= 0 && is_culprit(name, file, store->is_sealed, f))
                        return;
        }
        nb_failure_add(f, "; it can load each file alone: SetCredentialEncrypted= may be damaged, "
                          "or all credentials together larger than 1 MiB");
}

/* systemd forgets a unit that has not failed. */
static int judge_end(const struct rehearsal *rehearsal, const struct nb_unit_state *state,
                     struct nb_failure *f) {
        if (nb_unit_is(state, "inactive"))
                return rehearsal->n_rows > 0
                               ? 0
                               : nb_failure_set(f, NB_SERVICE_SETUP, 0,
                                                "systemd does not start " NB_SERVICE_UNIT
                                                " (a condition in the unit is not met)");
        /* What systemd has just logged about it. */
        nb_journal_drain(NB_JOURNAL_SOCKET);
        nb_unit_reset_limit(NB_REHEARSAL_UNIT);
        if (is_credential_at_fault(state, f)) {
                find_culprit(rehearsal->service, f);
                nb_service_add_drop_ins(rehearsal->service, f);
        } else if (f->code == NB_NONE)
                return nb_failure_set(f, NB_INTERNAL, 0,
                                      "the rehearsal of the start of " NB_SERVICE_UNIT
                                      " has ended early (%s, exit status %d)",
                                      state->result, state->exit_status);
        return -EPROTO;
}

/* --- The whole --- */

static int rehearse(struct rehearsal *rehearsal, struct nb_failure *f) {
        struct nb_unit_state state = { .has_job = true };
        int r = begin(rehearsal, f);

        if (r < 0)
                return r;
        r = start_unit(rehearsal, f);
        if (r >= 0)
                r = receive_rows(rehearsal, &state, f);
        if (r >= 0)
                r = judge_end(rehearsal, &state, f);
        end_unit(rehearsal);
        (void)rmdir(MASKS);
        return r;
}

/* Why this command cannot ask systemd; NULL: it can. */
static const char *find_hindrance(const struct nb_check *check) {
        const struct nb_unit *service = &check->units.service;

        return !nb_systemd_is_running()               ? "systemd is not running"
               : !check->is_root                      ? "run as root"
               : check->is_folder_given               ? "--config-directory"
               : check->sources.credentials_directory ? "run by a service"
               : service->fragment[0] != '/' || strcmp(service->state.load, "loaded") != 0
                       ? "systemd has not loaded it"
                       : NULL;
}

static void skip_steps(struct nb_check *check) {
        for (size_t i = 1; i < NB_CHECK_STEPS_N; i++)
                if (!(nb_check_steps[i].when &
                      (NB_CHECK_APART | NB_CHECK_USER_DATA | NB_CHECK_ONLINE)))
                        nb_check_skip_step(check, &nb_check_steps[i]);
}

int nb_check_rehearse(struct nb_check *check) {
        _cleanup_(rehearsal_done) struct rehearsal rehearsal = {
                .check = check,
                .service = &check->units.service,
                .text = NB_BUFFER_INIT(NB_REHEARSAL_TEXT_MAX),
                .masks_fd = -1,
                .rows_fd = -1,
        };
        const char *hindrance = find_hindrance(check);
        struct nb_failure f = { 0 };
        sigset_t signals, before;
        int r;

        nb_check_begin_step(check, &nb_check_steps[0]);
        if (hindrance) {
                nb_check_row(check, NB_CHECK_DOUBT,
                             "cannot determine whether systemd can start " NB_SERVICE_UNIT ": %s",
                             hindrance);
                return 0;
        }
        /* Whatever else ends this process would leave something behind. */
        (void)sigfillset(&signals);
        (void)sigprocmask(SIG_BLOCK, &signals, &before);
        r = nb_stop_init();
        r = r < 0 ? fail_rehearsal(r, "signals", &f) : rehearse(&rehearsal, &f);
        nb_stop_forget(); /* ends this process in order, not by the signal */
        nb_stop_end();
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        if (r >= 0)
                return 1;
        if (f.code == NB_NONE)
                return r;
        nb_check_begin_step(check, &nb_check_steps[0]);
        nb_check_fail(check, &f);
        if (rehearsal.n_rows == 0)
                skip_steps(check);
        return 1;
}
