/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/macro.h"
#include "base/stop.h"
#include "base/terminal.h"
#include "base/unit.h"
#include "verb/setup_internal.h"

#define LOOK_MS 1000    /* at least so often, where nothing is logged */
#define LOOK_MIN_MS 200 /* and no more often than so */

struct watch {
        struct nb_unit_journal *journal; /* NULL: the journal cannot be read */
        struct nb_unit_state state;
        struct nb_unit_entry failure; /* the last one; .error is "" while there is none */
        char status[sizeof(((struct nb_unit_state *)NULL)->status)];
        uint64_t looked_ms;
        bool has_line; /* on a terminal: the status is redrawn in place */
};

static void print(const char *sign, const char *text) {
        nb_terminal_line_hide();
        (void)printf("%s %s\n", sign, text);
        (void)fflush(stdout);
        nb_terminal_line_show();
}

static void print_entries(struct watch *watch) {
        struct nb_unit_entry entry;

        while (watch->journal && nb_unit_journal_next(watch->journal, &entry) > 0) {
                if (entry.priority >= LOG_DEBUG)
                        continue;
                /* What ends the watch is printed at its end, with the remedy. */
                if (entry.error[0] && entry.priority <= LOG_ERR)
                        watch->failure = entry;
                else
                        print(" ", entry.message);
        }
}

static void print_status(struct watch *watch) {
        bool is_failed = !strcmp(watch->state.active, "failed");

        if (watch->has_line && !nb_unit_is_at_rest(&watch->state))
                nb_terminal_line_set(watch->state.status);
        else if (strcmp(watch->status, watch->state.status) != 0 && watch->state.status[0] && !is_failed)
                print("*", watch->state.status);
        memcpy(watch->status, watch->state.status, sizeof(watch->status));
}

/* -ECANCELED when the person has seen enough. */
static int watch_job(struct watch *watch, struct nb_failure *f) {
        for (;;) {
                uint64_t since_ms;
                int r = nb_unit_show(NB_SETUP_UNIT, &watch->state, f);

                if (r < 0)
                        return r;
                watch->looked_ms = nb_now_ms();
                print_entries(watch);
                print_status(watch);
                if (nb_unit_is_at_rest(&watch->state))
                        return 0;
                r = watch->journal ? nb_unit_journal_wait(watch->journal, LOOK_MS) : nb_stop_wait(LOOK_MS);
                since_ms = nb_now_ms() - watch->looked_ms;
                if (r >= 0 && since_ms < LOOK_MIN_MS)
                        r = nb_stop_wait(LOOK_MIN_MS - since_ms);
                if (r < 0)
                        return r;
        }
}

/* The service has said why in the journal; where that cannot be read, its status still has code and sentence. */
static void find_failure(const struct watch *watch, struct nb_failure *f) {
        static const char before[] = "Not joined (";
        const char *status = watch->state.status;
        char slug[64] = "";
        enum nb_code code;

        if (watch->failure.error[0]) {
                code = nb_failure_find(watch->failure.error);
                for (int i = 0; i < _NB_FIELD_N; i++)
                        nb_log_field((enum nb_field)i, "%s", watch->failure.fields[i]);
                if (code != NB_NONE) {
                        (void)nb_failure_set(f, code, 0, "%s", watch->failure.message);
                        return;
                }
        }
        if (!strncmp(status, before, strlen(before))) {
                size_t len = strcspn(status + strlen(before), ")");

                (void)snprintf(slug, sizeof(slug), "%.*s", (int)len, status + strlen(before));
                code = nb_failure_find(slug);
                if (code != NB_NONE) {
                        const char *detail = status + strlen(before) + len;

                        (void)nb_failure_set(f, code, 0, "%s", detail + strspn(detail, "): "));
                        return;
                }
        }
        (void)nb_failure_set(f, NB_SETUP_UNFINISHED, 0, NB_SETUP_UNIT " is %s (%s)", watch->state.active, watch->state.sub);
}

static int tell(const struct nb_failure *f) {
        (void)fflush(stdout);
        nb_log_failure(LOG_ERR, f);
        return nb_failure_info(f->code)->exit_status;
}

/* One that ran before the join read what was there then. */
static void hint_at_kubelet(const struct watch *watch) {
        struct nb_failure ignored = { 0 };
        struct nb_unit_state kubelet;

        /* It runs with what it has had before. */
        if (!strncmp(watch->state.status, "Joined before", strlen("Joined before")))
                return;
        if (nb_unit_show("kubelet.service", &kubelet, &ignored) < 0 || strcmp(kubelet.active, "active") != 0)
                return;
        if (kubelet.active_since < watch->state.active_since)
                (void)printf("kubelet.service was running before the join: `systemctl restart kubelet.service` lets it use the new certificate\n");
}

static int watch_to_end(struct watch *watch) {
        struct nb_failure f = { 0 };
        int r = nb_terminal_line_begin(STDOUT_FILENO);

        watch->has_line = r > 0;
        r = watch_job(watch, &f);
        nb_terminal_line_end();
        if (r < 0 && f.code == NB_NONE) {
                (void)printf("no longer watching; the join goes on: `systemctl status " NB_SETUP_UNIT "` shows it, `systemctl stop` ends it\n");
                return NB_EXIT_STOPPED;
        }
        if (r < 0)
                return tell(&f);
        if (strcmp(watch->state.active, "active") != 0) {
                find_failure(watch, &f);
                return tell(&f);
        }
        hint_at_kubelet(watch);
        return 0;
}

static int begin(const struct nb_setup *setup, bool is_changed, struct watch *watch, struct nb_failure *f) {
        static const char *const reload[] = { "daemon-reload", NULL }, *const enable[] = { "--quiet", "enable", NB_SETUP_UNIT, NULL };
        const char *start[] = { "start", "--no-block", NB_SETUP_UNIT, NULL };
        int r = 0;

        if (nb_systemd_is_running())
                r = nb_systemctl(reload, f);
        if (r >= 0)
                r = nb_systemctl(enable, f);
        if (r < 0 || !setup->is_start_wanted)
                return r;
        r = nb_unit_show(NB_SETUP_UNIT, &watch->state, f);
        if (r < 0 || !strcmp(watch->state.active, "active"))
                return r;
        /* One that waits has read the settings from before. */
        if (is_changed && !strcmp(watch->state.active, "activating"))
                start[0] = "restart";
        if (nb_stop_init() < 0 || nb_unit_journal_open(NB_SETUP_UNIT, &watch->journal) < 0)
                nb_log(LOG_WARNING, NB_NONE, "the journal cannot be read: what the service says is not shown");
        return nb_systemctl(start, f);
}

void nb_setup_rehearse_service(const struct nb_setup *setup) {
        if (setup->root) {
                (void)printf("would enable and start nothing in an image\n");
                return;
        }
        (void)printf("would enable   " NB_SETUP_UNIT ", which kubelet.service then waits for\n");
        if (setup->is_start_wanted)
                (void)printf("would start    " NB_SETUP_UNIT ", and show what it does until this machine has joined\n");
        else
                (void)printf("would not start " NB_SETUP_UNIT ": --no-start\n");
}

int nb_setup_run_service(const struct nb_setup *setup, bool is_changed) {
        struct watch watch = { 0 };
        struct nb_failure f = { 0 };
        int status;

        if (begin(setup, is_changed, &watch, &f) < 0) {
                status = tell(&f);
        } else if (!setup->is_start_wanted) {
                (void)printf(NB_SETUP_UNIT " is enabled, and was not started\n");
                status = 0;
        } else if (!strcmp(watch.state.active, "active")) {
                (void)printf("this machine has joined already: %s\n", watch.state.status[0] ? watch.state.status : NB_SETUP_UNIT " is active");
                if (is_changed)
                        (void)printf("what was changed counts when " NB_SETUP_UNIT " starts next: at the next boot, or with `systemctl restart " NB_SETUP_UNIT
                                     "`, which restarts kubelet\n");
                status = 0;
        } else {
                status = watch_to_end(&watch);
        }
        nb_unit_journal_free(watch.journal);
        return status;
}
