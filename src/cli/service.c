/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/macro.h"
#include "cli/service.h"
#include "settings/kubelet_unit.h"
#include "system/sources.h"
#include "system/unit.h"

#define PREFIX "node-bootstrap."     /* of the names of credentials */
#define CREDENTIAL_MAX (1024 * 1024) /* bytes; CREDENTIAL_SIZE_MAX of systemd */
#define SUSPECTS_MAX ((size_t)192)   /* bytes of text */
#define REASON_SIZE 192
#define SYSTEMD_FROM 200 /* exit statuses from here on are those of systemd */
#define SYSTEMD_CREDENTIALS 243

/* systemd.exec(5), "Process Exit Codes". */
static const char *const names[] = {
        "CHDIR",
        "NICE",
        "FDS",
        "EXEC",
        "MEMORY",
        "LIMITS",
        "OOM_ADJUST",
        "SIGNAL_MASK",
        "STDIN",
        "STDOUT",
        "CHROOT",
        "IOPRIO",
        "TIMERSLACK",
        "SECUREBITS",
        "SETSCHEDULER",
        "CPUAFFINITY",
        "GROUP",
        "USER",
        "CAPABILITIES",
        "CGROUP",
        "SETSID",
        "CONFIRM",
        "STDERR",
        NULL,
        "PAM",
        "NETWORK",
        "NAMESPACE",
        "NO_NEW_PRIVILEGES",
        "SECCOMP",
        "SELINUX_CONTEXT",
        "PERSONALITY",
        "APPARMOR",
        "ADDRESS_FAMILIES",
        "RUNTIME_DIRECTORY",
        NULL,
        "CHOWN",
        "SMACK_PROCESS_LABEL",
        "KEYRING",
        "STATE_DIRECTORY",
        "CACHE_DIRECTORY",
        "LOGS_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "NUMA_POLICY",
        "CREDENTIALS",
        "BPF",
        "KSM",
};

/* --- Which credential --- */

static void add_suspect(struct nb_buffer *suspects, const char *folder, const char *name,
                        const char *what) {
        nb_buffer_printf(suspects, "%s'%s%s%s' (%s)", suspects->len > 0 ? ", " : "", folder,
                         folder[0] ? "/" : "", name, what);
}

/* Only with ImportCredential= is a dangling link a failure. */
const char *nb_service_find_fault(int folder_fd, const char *name) {
        struct stat st;

        if (fstatat(folder_fd, name, &st, 0) < 0)
                return errno == ENOENT && !NB_CREDENTIALS_ARE_IMPORTED ? NULL : "cannot be read";
        if (!S_ISREG(st.st_mode))
                return "not a file";
        return st.st_size > CREDENTIAL_MAX ? "larger than 1 MiB" : NULL;
}

static void find_in_store(const struct nb_store *store, const struct nb_unit *service,
                          struct nb_buffer *suspects) {
        _cleanup_(nb_closep) int fd = open(store->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(nb_folder_closep) DIR *folder = nb_folder_list(fd);
        struct dirent *entry;

        while (folder && (entry = readdir(folder))) {
                const char *fault;

                if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0 ||
                    (store->is_sealed && !NB_CREDENTIALS_ARE_IMPORTED &&
                     !nb_service_decrypts(service, entry->d_name)))
                        continue;
                fault = nb_service_find_fault(fd, entry->d_name);
                if (!fault && store->is_sealed)
                        fault = "encrypted";
                if (fault)
                        add_suspect(suspects, store->folder, entry->d_name, fault);
        }
}

/* Without a path, systemd searches the stores. */
static void find_by_path(const struct nb_unit *service, enum nb_unit_list list,
                         struct nb_buffer *suspects) {
        const char *path = NULL;

        while ((path = nb_unit_next(service, list, path))) {
                struct stat st;

                if (path[0] != '/')
                        continue;
                /* Not access(2), which ignores capabilities. */
                if (stat(path, &st) < 0 && errno == ENOENT)
                        add_suspect(suspects, "", path, "does not exist");
                else if (list == NB_UNIT_ENCRYPTED)
                        add_suspect(suspects, "", path, "encrypted");
        }
}

static void find_in_drop_ins(const struct nb_unit *service, struct nb_buffer *suspects) {
        const char *credential = NULL;
        char name[NB_UNIT_NAME_SIZE];

        while ((credential = nb_unit_next(service, NB_UNIT_SET_ENCRYPTED, credential))) {
                snprintf(name, sizeof(name), "SetCredentialEncrypted=%s", credential);
                add_suspect(suspects, "", name, "encrypted");
        }
}

/* Lists all possible causes, since systemd does not log the name of the credential. */
static void find_suspects(const struct nb_unit *service, struct nb_buffer *suspects) {
        for (size_t i = 0; i < NB_STORES_N; i++)
                find_in_store(&nb_stores[i], service, suspects);
        find_by_path(service, NB_UNIT_CREDENTIALS, suspects);
        find_by_path(service, NB_UNIT_ENCRYPTED, suspects);
        find_in_drop_ins(service, suspects);
}

/* The list has names and paths; a path begins with "/". */
bool nb_service_decrypts(const struct nb_unit *service, const char *credential) {
        return nb_unit_has(service, NB_UNIT_ENCRYPTED, credential);
}

/* --- Why --- */

static bool refuse_load(const struct nb_unit_state *unit, struct nb_failure *why) {
        if (!unit->load[0] || !strcmp(unit->load, "loaded"))
                return false;
        if (!strcmp(unit->load, "masked"))
                (void)nb_failure_set(why, NB_UNIT_MASKED, 0, NB_SERVICE_UNIT " is masked");
        else if (!strcmp(unit->load, "not-found"))
                (void)nb_failure_set(why, NB_UNIT_MISSING, 0,
                                     "systemd does not find " NB_SERVICE_UNIT);
        else
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd cannot load " NB_SERVICE_UNIT " (%s)", unit->load);
        return true;
}

static void refuse_credentials(const struct nb_unit *service, struct nb_failure *why) {
        _cleanup_(nb_buffer_done) struct nb_buffer suspects = NB_BUFFER_INIT(SUSPECTS_MAX);

        find_suspects(service, &suspects);
        (void)nb_failure_set(why, NB_SERVICE_CREDENTIAL, 0,
                             "systemd cannot start " NB_SERVICE_UNIT
                             " without its credentials (%d/CREDENTIALS)%s%s",
                             SYSTEMD_CREDENTIALS, suspects.len > 0 ? ": " : "",
                             suspects.len > 0 ? suspects.data : "");
}

static bool refuse_result(const struct nb_unit *service, struct nb_failure *why) {
        const struct nb_unit_state *unit = &service->state;
        bool has_exited = unit->exit_code == CLD_EXITED && !strcmp(unit->result, "exit-code");
        unsigned i = (unsigned)unit->exit_status - SYSTEMD_FROM;

        if (has_exited && unit->exit_status == SYSTEMD_CREDENTIALS)
                refuse_credentials(service, why);
        else if (has_exited && unit->exit_status >= SYSTEMD_FROM)
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd cannot start " NB_SERVICE_UNIT " (%d%s%s)",
                                     unit->exit_status,
                                     i < N_ELEMENTS(names) && names[i] ? "/" : "",
                                     i < N_ELEMENTS(names) && names[i] ? names[i] : "");
        else if (!strcmp(unit->result, "resources"))
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd cannot start " NB_SERVICE_UNIT " (resources)");
        else if (!strcmp(unit->active, "inactive") && unit->condition_usec > 0 &&
                 !unit->is_condition_met)
                (void)nb_failure_set(why, NB_SERVICE_SETUP, 0,
                                     "systemd does not start " NB_SERVICE_UNIT
                                     " (a condition in the unit is not met)");
        /* systemd keeps the result of the last run, and only notes that it has looked again. */
        else if (!strcmp(unit->result, "start-limit-hit") ||
                 (!strcmp(unit->active, "failed") && unit->inactive_since > 0 &&
                  unit->changed_since > unit->inactive_since))
                (void)nb_failure_set(why, NB_START_LIMIT, 0,
                                     NB_SERVICE_UNIT " was started too often (start-limit-hit)");
        else if (!strcmp(unit->active, "failed") && unit->n_restarts > 0 &&
                 strcmp(unit->result, "exit-code") != 0)
                /* After a limit, systemd keeps the result of the last run. */
                (void)nb_failure_set(why, NB_START_LIMIT, 0,
                                     NB_SERVICE_UNIT " ended %u times (%s), and systemd does not "
                                                     "start it again",
                                     unit->n_restarts + 1, unit->result);
        else
                return false;
        return true;
}

static bool is_under_way(const struct nb_unit_state *unit) {
        bool is_restarted_later = !strncmp(unit->sub, "auto-restart", strlen("auto-restart"));

        return !is_restarted_later && (unit->has_job || !strcmp(unit->active, "activating"));
}

bool nb_service_find_obstacle(const struct nb_unit *service, struct nb_failure *ret_why) {
        const struct nb_unit_state *unit = &service->state;
        char reason[REASON_SIZE];

        *ret_why = (struct nb_failure){ .code = NB_NONE };
        if (is_under_way(unit) ||
            (!refuse_load(unit, ret_why) &&
             (!strcmp(unit->active, "active") || !refuse_result(service, ret_why))))
                return false;
        if (ret_why->code == NB_UNIT_MASKED || ret_why->code == NB_UNIT_MISSING)
                return true;
        nb_unit_find_reason(NB_SERVICE_UNIT, reason, sizeof(reason));
        if (reason[0])
                nb_failure_add(ret_why, "; systemd: \"%s\"", reason);
        return true;
}
