/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "case.h"
#include "cli/status/node_metrics.h"
#include "cli/status/timeline.h"
#include "pki.h"

#define P "node_bootstrap_"

static void expect(const struct nb_machine_state *state, const char *line, bool is_there) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64 * 1024);

        nb_node_metrics_format(state, &text);
        assert_int_equal(text.error, 0);
        if ((strstr(text.data, line) != NULL) != is_there)
                fail_msg("%s%s in:\n%s", line, is_there ? " is not" : "", text.data);
}

/* Each of them with its HELP and TYPE, as Prometheus wants it. */
static void each_metric_is_declared(void **state) {
        _cleanup_(nb_buffer_done) struct nb_buffer text = NB_BUFFER_INIT(64 * 1024);
        struct nb_machine_state machine = { .kind = NB_MACHINE_JOINED };
        char name[128], head[2 * 128 + 32];
        unsigned n = 0;

        nb_node_metrics_format(&machine, &text);
        for (const char *line = text.data; *line; line = strchr(line, '\n') + 1) {
                if (line[0] == '#')
                        continue;
                (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, " {"), line);
                (void)snprintf(head, sizeof(head), "# TYPE %s gauge\n%s", name, name);
                assert_non_null(strstr(text.data, head));
                n++;
        }
        assert_true(n >= 3);
}

static void a_machine_that_is_unknown_says_little(void **state) {
        struct nb_machine_state machine = { .kind = NB_MACHINE_HIDDEN };

        expect(&machine, "\n" P "joined ", false);
        expect(&machine, "\n" P "kubelet_running ", false);
        expect(&machine, "\n" P "info{version=", true);
        machine.kind = NB_MACHINE_NOT_JOINED;
        machine.node.inspection.state = NB_NODE_STATE_ABSENT;
        expect(&machine, "\n" P "joined 0\n", true);
        expect(&machine, "\n" P "kubelet_running ", false); /* systemd was not asked */
}

static void kubelet_runs_only_if_it_stays(void **state) {
        static const struct {
                enum nb_machine_kind kind;
                const char *active, *line;
        } rows[] = {
                { NB_MACHINE_JOINED, "active", "\n" P "kubelet_running 1\n" },
                { NB_MACHINE_KUBELET_CRASHING, "active", "\n" P "kubelet_running 0\n" },
                { NB_MACHINE_KUBELET_UNPREPARED, "active", "\n" P "kubelet_running 0\n" },
                { NB_MACHINE_KUBELET_STOPPED, "inactive", "\n" P "kubelet_running 0\n" },
        };

        for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
                struct nb_machine_state machine = { .kind = rows[i].kind };

                NB_TEXT_COPY(machine.kubelet.active, rows[i].active);
                expect(&machine, rows[i].line, true);
                expect(&machine, "\n" P "joined 1\n", true);
        }
}

/* One of: what it waits for, why it failed, how long it took. */
static void a_join_is_told(void **state) {
        struct nb_machine_state machine = { .kind = NB_MACHINE_WAITING };
        struct nb_record *record = &machine.node.present.record;

        record->provenance.usec[NB_STAGE_DISCOVER] = 1500000;
        record->provenance.usec[NB_STAGE_AWAIT] = 25;
        assert_int_equal(nb_timeline_usec(record), 1500025);
        assert_int_equal(nb_timeline_usec(&(struct nb_record){ .node = "a" }), 0);
        expect(&machine, "\n" P "join_duration_seconds 1.500025\n", true);
        expect(&machine, "\n" P "join_stage_duration_seconds{stage=\"await\"} 0.000025\n", true);
        expect(&machine, "stage=\"connect\"", false);
        NB_TEXT_COPY(machine.last.code, "csr-pending");
        NB_TEXT_COPY(machine.last.state, NB_LAST_JOINING);
        NB_TEXT_COPY(machine.last.since, "2027-01-15T08:00:00Z");
        expect(&machine,
               "\n" P "join_waiting_since_timestamp_seconds{code=\"csr-pending\"} 1800000000\n",
               true);
        expect(&machine, P "join_duration_seconds", false);
        NB_TEXT_COPY(machine.last.state, NB_LAST_FAILED);
        expect(&machine, "\n" P "join_last_failure{code=\"csr-pending\"} 1\n", true);
        machine.obstacle.code = NB_UNIT_MASKED;
        expect(&machine, "\n" P "service_failure{code=\"unit-masked\"} 1\n", true);
}

static void times_are_those_of_the_certificates(void **state) {
        struct pki_cert ca = pki_make(&(struct pki_options){
                .dn = "CN=ca", .is_ca = true, .not_before = PKI_NOW, .not_after = PKI_NOW + 100 });
        struct nb_machine_state machine = { .kind = NB_MACHINE_JOINED };
        struct nb_present *present = &machine.node.present;

        assert_int_equal(nb_certificates_parse(ca.pem, strlen(ca.pem), false, &present->chain), 0);
        present->ca = present->chain;
        machine.refreshed = 7;
        machine.node.now = 8;
        NB_TEXT_COPY(present->record.joined_at, "2027-01-15T08:00:00Z");
        expect(&machine, "\n" P "certificate_not_before_timestamp_seconds 1800000000\n", true);
        expect(&machine, "\n" P "certificate_expiration_timestamp_seconds 1800000100\n", true);
        expect(&machine, "\n" P "certificate_renewal_timestamp_seconds 1800000070\n", true);
        expect(&machine, "\n" P "ca_expiration_timestamp_seconds 1800000100\n", true);
        expect(&machine, "\n" P "joined_timestamp_seconds 1800000000\n", true);
        expect(&machine, "\n" P "refresh_success_timestamp_seconds 7\n", true);
        expect(&machine, "\n" P "report_timestamp_seconds 8\n", true);
        nb_certificates_free(present->chain);
        pki_done(&ca);
}

int main(void) {
        CASE(each_metric_is_declared);
        CASE(a_machine_that_is_unknown_says_little);
        CASE(kubelet_runs_only_if_it_stays);
        CASE(a_join_is_told);
        CASE(times_are_those_of_the_certificates);
        return case_run("cli node metrics");
}
